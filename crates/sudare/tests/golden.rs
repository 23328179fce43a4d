//! Known answers: the format, the randomness and the algorithms do not change
//! unnoticed.
//!
//! Changing a key on purpose needs a new format version, changing a result a line in
//! the changelog.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod common;

const EXPECTED: [(&str, &str); 17] = [
    ("secret key", "eb042213ecfa6f668b347ad602a8f1c5ccfd80908883e7b610b6d941862542ed"),
    ("public key", "49f5b7938dd21fc24874ce2db530f25767b5f633f6c516db27ebe7ffb37d4a5c"),
    ("evaluation keys", "ee09b687bf198789b915157a6887b8342ee697b2eae84396f6c5fc01f549bb9f"),
    ("ciphertext", "3a0f782319d6cccd261c59a2360a322d1bf851df819d0ffd7ce9d6f6b0372bd1"),
    ("sparse ciphertext", "f847c5dae948ab10737e98a5917bc0999c8f2a946bbbdd1bbb74fee94cbe7466"),
    ("rotation", "3f01defcc5b55b4d199ac24b79c6c475b24eedf36bced8c1dda20cc4faba5855"),
    ("hoisted rotation", "3cd3985b9d9e4428ad0bf44cc355aaa38247a2d18fbcd08d2b47041f1af4e6dc"),
    ("conjugation", "2988784d841d58f169cc0b66ab72c6fbf33c52bf7823449ff65d2aa62e882b66"),
    ("rescaled product", "7a32c3b50fed5efaa3b00828a677a1fccfe312e57342a1012f16b825c371d0c0"),
    // Rounding once or twice is the same, see docs/notes/keyswitch-noise.md.
    ("fused product", "7a32c3b50fed5efaa3b00828a677a1fccfe312e57342a1012f16b825c371d0c0"),
    ("product", "ff8e17a7fc861a00b257a2bb2fd3b8155f15b3efe80658796f7f3b1425597f1e"),
    ("lifted ciphertext", "48eac334a5bd7ffe20333ad384d609fc9a25e829f30a11e29640eae611bf7b09"),
    ("raised ciphertext", "1c6ffa44789e1b7e922015cbd04ca6c3bdff2c14e3123b862e38b446b8df6676"),
    ("seeded ciphertext", "755e1bbf820347e5ede60b4a48516edd0c306d91d2a0c1aea5c73e52b16c9c8b"),
    ("raising keys", "7cbe6529704b174c8d10a676fa25e3afacec3c2437b8232bb457208e593ca9dd"),
    (
        "raising keys of weight 48",
        "b888b9d84bde989ec4c6e7835f98ab4a5ee64e5fcd5a88785f6c04631cac970d",
    ),
    ("level keys", "d515126d186151b644ec997fc1da4cae38ef910f175ba543e36ff6dfe40cbc35"),
];

const EXPECTED_EXACT: [(&str, &str); 12] = [
    ("exact secret key", "69c8b07d992c935b6b238d8ad00d6d439079667a39fdb1f994f6a1927b2605c7"),
    ("exact evaluation keys", "6cc0fa1c835af66fe59d493cbbc728b7c8771879c9bfac518cb2f96e835fb788"),
    ("exact ciphertext", "e646ebb170d38d5ffdc7fbe748d19888394b4cb2b27958a2bd6389bcf0d12363"),
    ("product of BGV", "4237911dd4ff0ec8c8f256f26195d6a4a6aaf8ed22388bb1ba1e5a400a657097"),
    ("rescaled product of BGV", "6624edce833faad1953366ba27be011c3add9e4ba8c1e7859eaf6dfe2d2b09af"),
    ("product of BFV", "45cc1f76fdd182e6d185462060269708ec80d3f2752b1f3d5ee0400b37952b0b"),
    ("rescaled product of BFV", "525278f0fbe9c108992ce9d4b8aeaa20aa03e18168e515cd92ced2a3b963c935"),
    ("exact rotation", "b72c2b0727e42ec1f49fec3645f7331154c50f19aed50119217771fda5b5de46"),
    ("exact hoisted rotation", "c0ca66331441541da4b4c1cb60c607248f514ea389ea240aad20ffd0c4499b45"),
    ("swapped rows", "f712b5a1a1ce917c1b173df011689768dc65090ef7aea87f0c38fe8f697c721f"),
    ("raised exact ciphertext", "7c195865a968c11747f258d6157946632e58bf9f4ca49071d271e2bfe8c49d44"),
    ("seeded exact ciphertext", "21cb7158b3a5e736a49c5731bb6bafa56dff95eebf971235fd8a039bf377d7a7"),
];

#[track_caller]
fn assert_known(files: &[(&'static str, Vec<u8>)], expected: &[(&str, &str)]) {
    let found = common::digests(files);
    let found: Vec<(&str, &str)> = found.iter().map(|(name, hex)| (*name, &hex[..])).collect();
    assert_eq!(found, expected);
}

#[test]
fn files_from_fixed_seeds_have_known_digests() {
    assert_known(&common::artefacts(), &EXPECTED);
}

#[test]
fn exact_files_from_fixed_seeds_have_known_digests() {
    assert_known(&common::exact::artefacts(), &EXPECTED_EXACT);
}

/// The results digested are right, not only the same.
#[test]
fn the_results_decrypt() {
    let files = common::artefacts();
    let file = |name: &str| &files.iter().find(|(n, _)| *n == name).unwrap().1;
    let reader = common::open(file("secret key")).unwrap();
    let params = reader.params().unwrap();
    let secret = reader.secret_key(&params).unwrap();
    let decryptor = sudare::ckks::Decryptor::new(&params, secret).unwrap();
    let encoder = sudare::ckks::Encoder::new(&params);
    let decrypt = |name: &str| {
        let items = common::open(file(name)).unwrap().ciphertexts(&params).unwrap();
        encoder.decode(&decryptor.decrypt(&items[0]).unwrap()).unwrap()
    };
    let a = decrypt("ciphertext");
    for (x, y) in decrypt("seeded ciphertext").into_iter().zip(&a) {
        assert!((x.re - y.re).hypot(x.im - y.im) < 1e-6, "{x:?} {y:?}");
    }
    let check = |name: &str, turn: usize, conjugate: bool| {
        for (i, found) in decrypt(name).into_iter().enumerate() {
            let x = a[(i + turn) % a.len()];
            let square = x * x;
            let expected = if conjugate { square.conj() } else { square };
            let error = (found.re - expected.re).hypot(found.im - expected.im);
            assert!(error < 1e-4, "{name}, slot {i}: {error}");
        }
    };
    check("product", 0, false);
    check("rescaled product", 0, false);
    check("rotation", 1, false);
    check("hoisted rotation", a.len() - 3, false);
    check("conjugation", 0, true);
}

/// Those of exact ciphertexts are what the operations do to plaintexts.
#[test]
fn the_exact_results_decrypt() {
    use common::exact::{ROTATIONS, artefacts, modulus, plaintext};
    use sudare::{
        exact::{Decryptor, PlainPoly, Unit, serial::Reader},
        rlwe::GaloisElement,
    };
    let files = artefacts();
    let open = |name: &str| {
        let file = &files.iter().find(|(n, _)| *n == name).unwrap().1;
        Reader::new(&file[..], file.len() as u64).unwrap()
    };
    let params = open("exact secret key").params().unwrap();
    let secret = open("exact secret key").secret_key(&params).unwrap();
    let decryptor = Decryptor::new(&params, std::sync::Arc::new(secret)).unwrap();
    let decrypt = |name: &str| {
        let item = open(name).ciphertexts(&params).unwrap().remove(0);
        (decryptor.decrypt(&item).unwrap(), item.factor())
    };
    let a = plaintext(3);
    let b = plaintext(4);
    let product = a.mul(&b).unwrap();
    let rotation = |k| a.image(GaloisElement::rotation(12, k));
    for (name, expected) in [
        ("exact ciphertext", a.clone()),
        ("seeded exact ciphertext", plaintext(5)),
        ("product of BGV", product.clone()),
        ("rescaled product of BGV", product.clone()),
        ("product of BFV", product.clone()),
        ("rescaled product of BFV", product),
        ("exact rotation", rotation(ROTATIONS[0])),
        ("exact hoisted rotation", rotation(ROTATIONS[1])),
        ("swapped rows", a.image(GaloisElement::conjugation(12))),
    ] {
        assert_eq!(decrypt(name).0, expected, "{name}");
    }
    // The plaintext lies above small digits, times the factor of raising.
    let (raised, factor) = decrypt("raised exact ciphertext");
    assert_eq!(factor, Unit::one(modulus(2)));
    let top = params.fresh_factor(params.top(), modulus(1)).unwrap();
    let g = params.raised_factor(top).unwrap();
    let multiples: PlainPoly = a.scaled(g.value());
    for (&x, &m) in raised.coeffs().iter().zip(multiples.coeffs()) {
        let digit = modulus(2).centered(modulus(2).sub(x, 257 * m));
        assert!(digit.unsigned_abs() <= 4, "{digit}");
    }
}
