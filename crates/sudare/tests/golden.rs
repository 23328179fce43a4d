//! Known answers: the format, the randomness and the algorithms do not change
//! unnoticed.
//!
//! Changing a key on purpose needs a new format version, changing a result a line in
//! the changelog.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod common;

const EXPECTED: [(&str, &str); 11] = [
    ("secret key", "e267f5c8dde6aff2e19bc619479b2df2f78b6e279da57852be461c44189c0219"),
    ("public key", "d9a45f00298d705d0332db036e2fd3534c455ea57d36c8f062066de9fb7f13e4"),
    ("evaluation keys", "74d04eb08d5b6c5d7b123127ece874b931e7ee5cc49a8e94ef4bb0eaf659aa9d"),
    ("ciphertext", "6d4933c4f8ca6f79ed96657ae6fcd48d41876e4bdda321c1059b969ad390c0cf"),
    ("sparse ciphertext", "bead2a8af7b9a491cb626c0a327f4ff44f21e48c1e4b9921f5579aae2d4103e2"),
    ("rotation", "8ba5435f1c1cdcdaea3b175f63e917963fec03f12ba10c962dfb2029c9873b4b"),
    ("hoisted rotation", "bb632bf7c14ecaebb7b603364d8a5c6eee21d954b4c8f7e4a617719a700100b3"),
    ("conjugation", "0983ef04f4af1d2afa8a6a10a4fd0e410834d9de7781e078737698bd9552149b"),
    ("rescaled product", "b809cb6e295eda6c52a2f7be712fbd2a6c2a4e0941340dfcee9367869fb43fb8"),
    // Rounding once or twice differs with probability about 2^-55 a coefficient.
    ("fused product", "b809cb6e295eda6c52a2f7be712fbd2a6c2a4e0941340dfcee9367869fb43fb8"),
    ("product", "0adaaa79d0ded1b8759081aabf5b8bdeffd514b8b3cbf2183b18c5a351a5a909"),
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
