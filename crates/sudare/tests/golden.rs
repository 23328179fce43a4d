//! Known answers: the format, the randomness and the algorithms do not change
//! unnoticed.
//!
//! Changing a key on purpose needs a new format version, changing a result a line in
//! the changelog.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod common;

const EXPECTED: [(&str, &str); 15] = [
    ("secret key", "e267f5c8dde6aff2e19bc619479b2df2f78b6e279da57852be461c44189c0219"),
    ("public key", "d9a45f00298d705d0332db036e2fd3534c455ea57d36c8f062066de9fb7f13e4"),
    ("evaluation keys", "74d04eb08d5b6c5d7b123127ece874b931e7ee5cc49a8e94ef4bb0eaf659aa9d"),
    ("ciphertext", "6d4933c4f8ca6f79ed96657ae6fcd48d41876e4bdda321c1059b969ad390c0cf"),
    ("sparse ciphertext", "bead2a8af7b9a491cb626c0a327f4ff44f21e48c1e4b9921f5579aae2d4103e2"),
    ("rotation", "1fc93ba1205edacac5f3fde90f729039907df1d64c0c5e6ff95bfaaa12c1e5ae"),
    ("hoisted rotation", "ca539af5a384bfa1c2bf0ff4f1859300c92d0d8b88d1a6c46932c37fc8f84e47"),
    ("conjugation", "40239ca4be18b32ae87ea2a567c5d1997d2cbb2347d404f2abbcab3dc616f0f8"),
    ("rescaled product", "f6b2d0e4945eed24e10cd8524f39e8a5ba6b427cb9ef7e98da4a1ee58e27d5d4"),
    // Rounding once or twice is the same, see docs/notes/keyswitch-noise.md.
    ("fused product", "f6b2d0e4945eed24e10cd8524f39e8a5ba6b427cb9ef7e98da4a1ee58e27d5d4"),
    ("product", "7b31be9738d96414c22cde29652d6fdc136fa6d6aa31fa6cced2355826f62c6a"),
    ("lifted ciphertext", "437d9b37e619e43cb1bb1a93711f3a074110a885de59708763b14d880ce1feac"),
    ("raised ciphertext", "9f595761111e85ff1131cfbc1d3dc63f16ef164fc7db1647429220df0d5ae7dd"),
    ("raising keys", "6ac1c5ad0ecfaf7989c38f249c5ce8a270b966ea04f8585480eb700629fada65"),
    ("low keys", "7c2681ef7f072a7b0157ec6eae688cdef2bf8383eec1e3c43ea92ecf344544bc"),
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
