//! Malformed bytes that other libraries had to be repaired for, by name. Checksums are right in all
//! of them, so that the check that is meant is the one that refuses.
//!
//! Sources: SEAL's changes 4.3.3 to 4.4.3 (2026) and their tests; HElib's issues 526, 527 and 529.

use crate::common::{Content, Parts, Session, load, load_with, open, session};
use std::io::{self, Read};
use sudare::{
    Error, Result,
    ckks::{
        Spec,
        serial::{Label, Reader},
    },
    rlwe::{Level, SecretDistribution},
};

fn tiny() -> Session {
    let spec = Spec::uniform(5, 30.0, 1, 25.0, vec![31.0]);
    session(Spec { insecure: true, secret: SecretDistribution::FixedWeight { h: 9 }, ..spec })
}

/// Of a secret key, a public key, evaluation keys and ciphertexts.
fn files(s: &Session) -> [Vec<u8>; 4] {
    let none = Label::default();
    let items = [s.encrypt(16, Level(1)), s.encrypt(2, Level(0))];
    [
        s.secret_file(&none),
        s.public_file(&none),
        s.keys_file(&none),
        s.ciphertexts_file(&items, &none),
    ]
}

fn forged(file: &[u8], change: impl FnOnce(&mut Parts)) -> Vec<u8> {
    let mut parts = Parts::of(file);
    change(&mut parts);
    parts.seal()
}

#[test]
fn good_files_are_read() {
    for file in files(&tiny()) {
        assert_eq!(load(&forged(&file, |_| ())), Ok(()));
    }
}

type Cases = Vec<(&'static str, Vec<u8>)>;

/// What makes the first section of a file so many bytes.
fn resize(bytes: usize) -> impl FnOnce(&mut Parts) {
    move |p| {
        p.table[0].1 = bytes as u64;
        p.sections[0].resize(bytes, 0);
    }
}

/// Files whose counts, sizes and lengths are not those of what is in them.
fn sizes(s: &Session) -> Cases {
    let [secret, public, keys, items] = files(s);
    let whole = Parts::of(&public).sections[0].len();
    vec![
        (
            "a count of elements beside none",
            forged(&items, |p| {
                p.table.clear();
                p.sections.clear();
                p.count = Some(2);
            }),
        ),
        ("a count beyond the elements", forged(&items, |p| p.count = Some(u64::MAX))),
        ("a key pair's half too many", forged(&public, resize(2 * whole))),
        ("a seed and no polynomial", forged(&public, resize(32))),
        ("a polynomial that is short", forged(&public, resize(whole - 4))),
        ("an empty slot of a key", forged(&keys, resize(0))),
        ("a short slot of a key", forged(&keys, resize(whole))),
        ("a ciphertext without polynomials", forged(&items, resize(0))),
        (
            "a ciphertext of three polynomials",
            forged(&items, |p| {
                let bytes = p.sections[0].len() / 2 * 3;
                resize(bytes)(p);
            }),
        ),
        (
            "a key of more levels than there are",
            forged(&keys, |p| {
                p.table[0].0 = Content::Relinearization(200);
            }),
        ),
        (
            "more keys than parameters have",
            forged(&keys, |p| {
                for _ in 0..2000 {
                    p.table.push(p.table[0]);
                    p.sections.push(p.sections[0].clone());
                }
            }),
        ),
        ("a header smaller than a header", forged(&secret, |p| p.header_bytes = Some(0))),
        ("a header that is cut", forged(&secret, |p| p.header_bytes = Some(20))),
        ("a frame within that overstates its size", forged(&items, |p| p.table[1].1 = 1 << 40)),
        ("a frame within that understates its size", forged(&items, |p| p.table[0].1 = 1)),
    ]
}

/// Files with numbers that are out of range.
fn values(s: &Session) -> Cases {
    let [secret, public, keys, items] = files(s);
    let primes = s.params.rlwe().spec().q.concat();
    let item = |scale: (f64, f64), log_slots: u32| {
        forged(&items, |p| p.table[0].0 = Content::Ciphertext { level: 1, scale, log_slots })
    };
    let residue = |file: &[u8], at: usize, value: u64| {
        let bytes = (value as u32).to_le_bytes();
        forged(file, |p| p.sections[0][at..at + 4].copy_from_slice(&bytes))
    };
    vec![
        ("a residue equal to its prime", residue(&items, 0, primes[0])),
        ("a residue above its prime", residue(&items, 0, primes[0] + 1)),
        ("a residue of all ones", residue(&items, 0, u64::from(u32::MAX))),
        ("a last residue equal to its prime", residue(&items, (32 + 31) * 4, primes[1])),
        ("a residue of a key equal to its prime", residue(&keys, 32, primes[0])),
        ("a coefficient of a secret that is none", forged(&secret, |p| p.sections[0][0] = 0b10)),
        ("a scale of 0", item((0.0, 0.0), 4)),
        ("a scale of minus 0", item((-0.0, 0.0), 4)),
        ("a negative scale", item((-33_554_432.0, 0.0), 4)),
        ("a scale that is no number", item((f64::NAN, 0.0), 4)),
        ("an infinite scale", item((f64::INFINITY, 0.0), 4)),
        ("a subnormal scale", item((f64::MIN_POSITIVE / 8.0, 0.0), 4)),
        ("a scale whose lower part is no number", item((33_554_432.0, f64::NAN), 4)),
        ("more slots than the ring has", item((33_554_432.0, 0.0), 5)),
        ("slots beyond every ring", item((33_554_432.0, 0.0), u32::MAX)),
        (
            "a level beyond the chain",
            forged(&items, |p| {
                let scale = (33_554_432.0, 0.0);
                p.table[0].0 = Content::Ciphertext { level: 2, scale, log_slots: 4 };
            }),
        ),
        ("a modulus of no prime", forged(&items, |p| p.spec.q_bits[1][0] = f64::NAN)),
        ("a modulus of one bit", forged(&items, |p| p.spec.q_bits[1][0] = 1.0)),
        ("a ring of no power of two that is supported", forged(&items, |p| p.spec.log_n = 63)),
        ("parameters of another modulus", forged(&items, |p| p.spec.q_bits[1][0] = 26.0)),
        ("the fingerprint of other parameters", forged(&items, |p| p.params_id ^= 1)),
        ("a public key that says it is secret", forged(&public, |p| p.kind = 1)),
    ]
}

#[test]
fn cases_that_other_libraries_repaired() {
    let s = tiny();
    for (name, file) in [sizes(&s), values(&s)].concat() {
        // With the file's parameters, and with the reader's.
        let own = load(&file);
        let given = open(&file).and_then(|reader| load_with(reader, &s.params));
        assert!(own.is_err() || given.is_err(), "{name} is read");
        for error in [own, given].into_iter().filter_map(Result::err) {
            // A truncated header ends at a place without its checksum.
            let damaged = matches!(error, Error::Checksum { .. }) && !name.starts_with("a header");
            assert!(!damaged && !matches!(error, Error::Io { .. }), "{name}: {error}");
        }
    }
}

/// Streams need not know where they are: one that ends early is cut short, whatever its size was
/// said to be.
#[test]
fn streams_that_end_early_or_fail_are_errors() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk failed"))
        }
    }
    let s = tiny();
    for file in files(&s) {
        let bytes = file.len() as u64;
        for kept in [0, 7, 63, 64, 100, file.len() / 2, file.len() - 1] {
            let cut = Reader::new(&file[..kept], bytes).and_then(|r| r.ciphertexts(&s.params));
            assert!(cut.is_err(), "{kept} bytes");
            let read =
                Reader::new(file[..kept].chain(Fails), bytes).and_then(|r| match r.info().kind {
                    sudare::ckks::serial::Kind::PublicKey => r.public_key(&s.params).map(drop),
                    sudare::ckks::serial::Kind::SecretKey => r.secret_key(&s.params).map(drop),
                    sudare::ckks::serial::Kind::EvaluationKeys => {
                        r.evaluation_keys(&s.params).map(drop)
                    }
                    sudare::ckks::serial::Kind::Ciphertexts => r.ciphertexts(&s.params).map(drop),
                });
            let error = read.unwrap_err();
            assert!(error.to_string().contains("the disk failed"), "{kept} bytes: {error}");
        }
    }
}

/// What was loaded before stays as it was when the next load fails.
#[test]
fn a_load_that_fails_leaves_what_was_loaded() {
    let s = tiny();
    let [.., items] = files(&s);
    let loaded = open(&items).unwrap().ciphertexts(&s.params).unwrap();
    let bad = forged(&items, |p| p.sections[1].fill(0xff));
    assert!(open(&bad).unwrap().ciphertexts(&s.params).is_err());
    assert!(s.ciphertexts_file(&loaded, &Label::default()) == items);
}
