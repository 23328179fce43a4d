//! Known answers: the format, the randomness and the algorithms do not change
//! unnoticed.
//!
//! Changing a key on purpose needs a new format version, changing a result a line in
//! the changelog.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

mod common;

const EXPECTED: [(&str, &str); 15] = [
    ("secret key", "13dca36909ac27aa862e1a6884b274b73d66658b628ac7f4177839ad8229de56"),
    ("public key", "bdbc5d9aa0075b515a757dfebec923c1170536d6cc037c56f02eb8de647959f3"),
    ("evaluation keys", "aa5957bc2a1a92ee9a961fe070f917b1bcb64a893e8efb45993019a477448628"),
    ("ciphertext", "f6e1244b414c9aaa20bbd0a12732863803d45fa9440473d0af7648eefc268414"),
    ("sparse ciphertext", "e8f85d4f01994a8cc2d152362384a43e93df72dd29ff6fdf2a6014d68293a231"),
    ("rotation", "4afe655027ba0b0a3f14537f7de8c1c632239e5919d823f3c89e42a1539c2f48"),
    ("hoisted rotation", "85ebed7f506722925cbf529ab6de9927d94c18e8a0306a8a319c3c07c1775d24"),
    ("conjugation", "ae1b2400a3e1a0cae47992702795ae26ddbf7ebf35faf8e734fb58e4aa82ef95"),
    ("rescaled product", "d1369fcb1841303cc9985e4ec29e91daa80fac0856aee9de591a56845719c5b1"),
    // Rounding once or twice is the same, see docs/notes/keyswitch-noise.md.
    ("fused product", "d1369fcb1841303cc9985e4ec29e91daa80fac0856aee9de591a56845719c5b1"),
    ("product", "3fec6b6b2b9b2c87421f7d1874425352630651b61a48ac2dcef67d5776a46cb6"),
    ("lifted ciphertext", "4f7ac25caa60489f8e2ab4ec95de375589c9489e4deef2ed4d8ed2ee16fb7b9f"),
    ("raised ciphertext", "452d75dc815d7f86d1cddebb536d5a6d6ec2395156665f4d5a846f07c46ffc39"),
    ("raising keys", "d37cca98b1bb6e728ae32bec14862d075d4fb284e4efe47b31bfa91b38bdab5a"),
    ("fitted keys", "1612eb07f065dba025fa7e647f497ec6935def5e5bd580499c83c37e34f4158e"),
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
