//! AES-128 on ciphertexts with the noise of the publication's parameters, against FIPS 197 and another
//! implementation.

use aes::{
    Aes128,
    cipher::{BlockEncrypt, KeyInit},
};
use std::sync::Arc;
use sudare_arith::prng::{Seed, Stream};
use sudare_research_clt::{
    Error, Evaluator, KeyGenerator, Params, Spec,
    aes::{Cipher, ROUNDS, RoundKeys, State, clear_rounds},
    insecure_research,
};

/// FIPS 197, appendix C.1.
const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const PLAIN: [u8; 16] = [
    0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
];
const ENCRYPTED: [u8; 16] = [
    0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30, 0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4, 0xc5, 0x5a,
];

fn encrypts_blocks(spec: Spec) {
    let params = Params::new(spec, insecure_research()).unwrap();
    let seed = Seed::from_bytes([8; 32]);
    let (secret, key) = KeyGenerator::from_seed(&params, seed.clone()).generate().unwrap();
    let evaluator = Evaluator::new(Arc::new(key));
    let mut stream = Stream::new(&seed, "blocks", 0);
    let mut blocks = vec![PLAIN];
    blocks.resize_with(params.spec().slots, || core::array::from_fn(|_| stream.next_u64() as u8));

    let cipher = Cipher::new(&evaluator).unwrap();
    eprintln!("{:?}", cipher.plan());
    let keys = RoundKeys::encrypt(&secret, &KEY).unwrap();
    let mut state = State::encrypt(&secret, &blocks).unwrap();
    let mut peak = 0.0f64;
    for round in 0..=ROUNDS {
        state = cipher.round(&keys, &state, round).unwrap();
        let bits = state.bits().map(|bit| secret.measure_noise(bit).unwrap());
        let bits = bits.fold(0.0, f64::max);
        peak = peak.max(bits);
        if let Some(&predicted) =
            round.checked_sub(1).map(|r| &cipher.plan().noise_bits()[r as usize])
        {
            eprintln!("round {round}: {bits:.1} bits, predicted {predicted:.1}");
            assert!(bits <= predicted, "round {round}: {bits:.1} bits, predicted {predicted:.1}");
        }
    }
    assert!(peak < params.noise_limit_bits(1));
    let found = state.decrypt(&secret).unwrap();
    assert_eq!(found[0], ENCRYPTED);
    let other = Aes128::new(&KEY.into());
    for (block, found) in blocks.iter().zip(&found) {
        let mut expected = (*block).into();
        other.encrypt_block(&mut expected);
        assert_eq!(found, expected.as_slice());
        assert_eq!(*found, clear_rounds(&KEY, block, ROUNDS));
    }
}

/// Few slots and a short modulus, with all that makes noise at full size.
#[test]
fn few_blocks_are_encrypted() {
    encrypts_blocks(Spec::named("clt-4").unwrap());
}

#[test]
#[ignore = "an hour, and 3 GiB of memory"]
fn five_hundred_blocks_are_encrypted() {
    encrypts_blocks(Spec::named("clt-500").unwrap());
}

#[test]
fn misuse_is_refused() {
    let params = Params::new(Spec::small(2, 2), insecure_research()).unwrap();
    let (secret, key) = KeyGenerator::new(&params).unwrap().generate().unwrap();
    let blocks = State::encrypt(&secret, &[PLAIN; 3]);
    assert!(matches!(blocks, Err(Error::Count { what: "blocks", found: 3, needed: 2 })));
    let evaluator = Evaluator::new(Arc::new(key));
    let cipher = Cipher::new(&evaluator).unwrap();
    let keys = RoundKeys::encrypt(&secret, &KEY).unwrap();
    let state = State::encrypt(&secret, &[PLAIN]).unwrap();
    assert_eq!(state.decrypt(&secret).unwrap(), [PLAIN, [0; 16]]);
    let beyond = cipher.round(&keys, &state, 11);
    assert!(matches!(beyond, Err(Error::Count { what: "rounds", found: 11, .. })));
    let other = KeyGenerator::new(&params).unwrap().generate().unwrap().0;
    let foreign = State::encrypt(&other, &[PLAIN]).unwrap();
    assert_eq!(cipher.round(&keys, &foreign, 0).unwrap_err(), Error::OtherKey);
}
