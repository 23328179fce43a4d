//! Searches the memory of a process for leftovers of secrets.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use std::sync::Arc;
use sudare::{
    ckks::{self, Decryptor, Encoder, Encryptor, SymmetricEncryptor},
    rlwe::{KeyGenerator, KeyRequest, Level},
};
use sudare_arith::prng::{Seed, Stream};
use sudare_probes::memory;

/// Bytes of a secret to search for.
const WINDOW: usize = 64;

/// Makes, uses and drops a key pair repeatedly, then searches for pieces of the secret (as
/// coefficients and residues) and for seeds. Patterns are stored masked, so that the search does
/// not find the patterns themselves.
fn nothing_is_left(cycles: u64) {
    const MASK: u8 = 0x5a;
    let masked = |bytes: &[u8]| bytes.iter().map(|byte| byte ^ MASK).collect::<Vec<u8>>();
    let spec = ckks::preset("n13").unwrap().spec;
    let params = ckks::Params::new(ckks::Spec { log_n: 10, insecure: true, ..spec }).unwrap();
    let basis = params.rlwe().basis();
    let top = params.rlwe().top();
    for cycle in 0..cycles {
        let mut patterns = Vec::new();
        {
            let root = Seed::from_bytes([7; 32]).derive("cycle", cycle);
            let mut generator = KeyGenerator::from_seed(params.rlwe(), &root);
            let secret = generator.secret_key().unwrap();
            let public = Arc::new(generator.public_key(&secret).unwrap());
            let request = KeyRequest::new().relinearize(Level(1)).rotations(10, [1], Level(1));
            drop(generator.evaluation_keys(&secret, &request).unwrap());
            let secret = Arc::new(secret);
            let owner_encryptor = SymmetricEncryptor::new(&params, Arc::clone(&secret)).unwrap();
            let decryptor = Decryptor::new(&params, secret).unwrap();
            let encoder = Encoder::new(&params);
            let values: Vec<f64> = (0..512).map(|k| (k as f64 + cycle as f64).sin()).collect();
            let plain = encoder.encode_real_at(&values, top, params.scale_at(top)).unwrap();
            let encryptor = Encryptor::new(&params, public).unwrap();
            let ciphertext = encryptor.encrypt(&plain).unwrap();
            drop(encoder.decode_real(&decryptor.decrypt(&ciphertext).unwrap()).unwrap());
            let seed = root.derive("cycle, encryption", 0);
            drop(owner_encryptor.encrypt_seeded_with(&plain, &seed).unwrap());
            let seed = seed.derive("symmetric encryption, secret", 0);
            patterns.push(masked(seed.as_bytes()));

            // Derive the secret again by the documented construction.
            let seed = root.derive("key generator, secret", 0);
            patterns.push(masked(seed.as_bytes()));
            let seed = seed.derive("object", 1);
            patterns.push(masked(seed.as_bytes()));
            let mut coeffs = basis.pool().take_as(sudare_arith::mem::Secrecy::Key, basis.n() / 8);
            let mut stream = Stream::new(&seed, "secret key", 0);
            sudare_arith::sample::ternary(&mut stream, coeffs.as_signed_mut());
            patterns.push(masked(&coeffs.as_bytes()[256..256 + WINDOW]));
            let secrecy = sudare_arith::mem::Secrecy::Key;
            let s = basis.from_small(coeffs.as_signed(), basis.all(), secrecy);
            for i in [0, basis.all().count() - 1] {
                let words = &s.row(i)[100..100 + WINDOW / 8];
                patterns.push(masked(sudare_arith::mem::bytes_of(words)));
            }
        }
        for masked in &patterns {
            let mut pattern = masked.clone();
            pattern.iter_mut().for_each(|byte| *byte ^= MASK);
            // The only match is the pattern itself.
            assert_eq!(memory::find(&pattern).unwrap().len(), 1, "cycle {cycle}");
            pattern.fill(0);
        }
    }
}

#[test]
fn no_secret_is_left_when_keys_are_dropped() {
    nothing_is_left(3);
}

#[test]
#[ignore = "minutes"]
fn no_secret_is_left_after_a_thousand_cycles() {
    nothing_is_left(1000);
}

/// Control: the search finds a secret that is not wiped.
#[test]
fn a_secret_that_is_kept_is_found() {
    let kept: Vec<u8> = (0..WINDOW as u8).map(|k| k.wrapping_mul(37) ^ 0x91).collect();
    let pattern = kept.clone();
    assert_eq!(memory::find(&pattern).unwrap().len(), 2);
    drop(std::hint::black_box(kept));
}
