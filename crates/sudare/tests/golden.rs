//! Known answers: the format, the randomness and the algorithms do not change
//! unnoticed.
//!
//! Changing a key on purpose needs a new format version, changing a result a line in
//! the changelog.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod common;

const EXPECTED: [(&str, &str); 16] = [
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
    ("raising keys", "7cbe6529704b174c8d10a676fa25e3afacec3c2437b8232bb457208e593ca9dd"),
    (
        "raising keys of weight 48",
        "b888b9d84bde989ec4c6e7835f98ab4a5ee64e5fcd5a88785f6c04631cac970d",
    ),
    ("level keys", "d515126d186151b644ec997fc1da4cae38ef910f175ba543e36ff6dfe40cbc35"),
];

#[test]
fn files_from_fixed_seeds_have_known_digests() {
    let found = common::digests();
    let found: Vec<(&str, &str)> = found.iter().map(|(name, hex)| (*name, &hex[..])).collect();
    assert_eq!(found, EXPECTED);
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
