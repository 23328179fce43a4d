//! Files of exact ciphertexts from fixed seeds.

use super::seed;
use std::sync::Arc;
use sudare::{
    bfv,
    exact::{
        Ciphertext, Encryptor, Modulus, Params, PlainPoly, Spec, SymmetricEncryptor, raise_to,
        serial::{self, Label},
    },
    rlwe::{GaloisElement, KeyGenerator, KeyRequest, Level},
};

/// Level of keys for automorphisms, and of what they are applied to.
pub const LOW: Level = Level(1);
pub const ROTATIONS: [i64; 2] = [1, -3];

/// The plaintext modulus of all but the ciphertext that is raised, whose one is its square.
pub fn modulus(exponent: u32) -> Modulus {
    Modulus::new(257, exponent).unwrap()
}

/// The plaintext of a ciphertext by its number: coefficients of every size.
pub fn plaintext(number: u128) -> PlainPoly {
    let t = modulus(1);
    let coeffs = (0..1u128 << 12).map(|i| t.reduce((i + number) * (i * 31 + number))).collect();
    PlainPoly::new(t, coeffs).unwrap()
}

/// Files of keys, ciphertexts and results of operations, on a chain with primes for every width of
/// kernels and a level of two primes.
pub fn artefacts() -> Vec<(&'static str, Vec<u8>)> {
    let q_bits = vec![vec![60.0], vec![49.0], vec![48.0], vec![55.0], vec![29.0, 26.0]];
    let spec = Spec::uniform(12, modulus(1), 60.0, 0, 0.0, vec![61.0, 61.0]);
    let params = Params::new(Spec { q_bits, insecure: true, ..spec }).unwrap();
    let log_n = params.log_n();
    let top = params.top();
    let conjugation = GaloisElement::conjugation(log_n);
    let request = KeyRequest::new()
        .relinearize(top)
        .rotations(log_n, ROTATIONS, LOW)
        .automorphism(conjugation, LOW)
        .raise(raise_to(top, modulus(2)).with_weight(7));
    let mut keygen = KeyGenerator::from_seed(params.rlwe(), &seed(1));
    let secret = Arc::new(keygen.secret_key().unwrap());
    let public = Arc::new(keygen.public_key(&secret).unwrap());
    let keys = Arc::new(keygen.evaluation_keys(&secret, &request).unwrap());

    let mut files = vec![];
    let mut write = |name, write: &dyn Fn(&mut Vec<u8>, &Label) -> sudare::Result<u64>| {
        let mut file = Vec::new();
        write(&mut file, &Label::default()).unwrap();
        files.push((name, file));
    };
    write("exact secret key", &|to, label| serial::write_secret_key(to, &params, &secret, label));
    write("exact evaluation keys", &|to, label| {
        serial::write_evaluation_keys(to, &params, &keys, label)
    });

    let encryptor = Encryptor::new(&params, public).unwrap();
    let factor = params.fresh_factor(top, modulus(1)).unwrap();
    let encrypt = |number: u8| -> Ciphertext {
        let plain = plaintext(number.into());
        encryptor.encrypt_with(&plain, top, factor, &seed(number)).unwrap()
    };
    let a = encrypt(3);
    let b = encrypt(4);
    let evaluator = bfv::Evaluator::new(&params, keys.clone()).unwrap();
    let exact = evaluator.exact();
    let low = exact.drop_to(&a, LOW).unwrap();
    let hoisted = exact.hoist(&low).unwrap();
    let lowest = exact.drop_to(&a, Level(0)).unwrap();
    for (name, result) in [
        ("exact ciphertext", a.clone()),
        ("product of BGV", exact.mul(&a, &b).unwrap()),
        ("rescaled product of BGV", exact.mul_rescale(&a, &b).unwrap()),
        ("product of BFV", evaluator.mul(&a, &b).unwrap()),
        ("rescaled product of BFV", evaluator.mul_rescale(&a, &b).unwrap()),
        ("exact rotation", exact.rotate(&low, ROTATIONS[0]).unwrap()),
        ("exact hoisted rotation", exact.rotate_hoisted(&hoisted, ROTATIONS[1]).unwrap()),
        ("swapped rows", exact.swap_rows(&low).unwrap()),
        ("raised exact ciphertext", exact.raise(&lowest, top, modulus(2)).unwrap()),
    ] {
        write(name, &|to, label| {
            serial::write_ciphertexts(to, &params, std::slice::from_ref(&result), label)
        });
    }
    let owner = SymmetricEncryptor::new(&params, Arc::clone(&secret)).unwrap();
    let seeded = owner.encrypt_seeded_with(&plaintext(5), top, factor, &seed(5)).unwrap();
    write("seeded exact ciphertext", &|to, label| {
        serial::write_seeded_ciphertexts(to, &params, std::slice::from_ref(&seeded), label)
    });
    files
}
