//! Damaged and dishonest files: always a typed error, and no memory for claims.

use crate::common::{
    Content, Parts, Session, load, load_with, open, seal, session, session_with_level_keys,
    session_with_upper_keys,
};
use core::ops::Range;
use proptest::prelude::*;
use sudare::{
    Error, Result,
    ckks::{
        Params, Spec, UpperSpec,
        serial::{Kind, Label, Reader},
    },
    rlwe::{GaloisElement, Level, SecretDistribution},
};
use sudare_arith::par;

fn tiny() -> Session {
    let spec = Spec::uniform(5, 30.0, 1, 25.0, vec![31.0]);
    session(Spec { insecure: true, secret: SecretDistribution::FixedWeight { h: 9 }, ..spec })
}

/// With levels 2 and 3 above the top, keys of theirs and ciphertexts.
fn tiny_raised() -> Session {
    let raised = UpperSpec { base_bits: vec![27.5; 2], levels_bits: vec![vec![25.0], vec![26.0]] };
    let spec = Spec::uniform(5, 30.0, 1, 25.0, vec![31.0]);
    session_with_upper_keys(Spec { insecure: true, upper: Some(raised), ..spec })
}

/// One file of each kind.
fn files(s: &Session) -> [Vec<u8>; 4] {
    let label = Label { name: "tiny".into(), content: "test".into(), meta: vec![1, 2, 3] };
    let mut items = vec![s.encrypt(16, Level(1)), s.encrypt(2, Level(0))];
    let raised = s.params.top().0 + 1..=s.params.upper_top().0;
    items.extend(raised.map(|level| s.raised(2, Level(level))));
    [
        s.secret_file(&label),
        s.public_file(&label),
        s.keys_file(&label),
        s.ciphertexts_file(&items, &label),
    ]
}

fn read(file: &[u8], file_bytes: u64, params: &Params) -> Result<()> {
    load_with(Reader::new(file, file_bytes)?, params)
}

#[test]
fn every_changed_bit_is_noticed() {
    for (s, raised) in [(tiny(), false), (tiny_raised(), true)] {
        for file in files(&s) {
            let bytes = file.len() as u64;
            assert_eq!(read(&file, bytes, &s.params), Ok(()));
            let change = |places: Range<usize>| {
                let mut file = file.clone();
                for at in places {
                    // Each in turn if there are many sections.
                    for bit in (0..8).filter(|bit| !raised || at % 8 == *bit) {
                        file[at] ^= 1 << bit;
                        assert!(read(&file, bytes, &s.params).is_err(), "bit {bit} of byte {at}");
                        file[at] ^= 1 << bit;
                    }
                }
            };
            let half = file.len() / 2;
            par::join(|| change(0..half), || change(half..file.len()));
        }
    }
}

#[test]
fn damage_to_content_is_called_that() {
    for (s, step) in [(tiny(), 1), (tiny_raised(), 7)] {
        for file in files(&s) {
            let first =
                file.len() - Parts::of(&file).sections.iter().map(|s| sealed(s)).sum::<usize>();
            for at in (first..file.len()).step_by(step) {
                let mut file = file.clone();
                file[at] = !file[at];
                let found = read(&file, file.len() as u64, &s.params);
                assert!(matches!(found, Err(Error::Checksum { section: 1.. })), "{at}: {found:?}");
            }
            for at in 64..first {
                let mut file = file.clone();
                file[at] = !file[at];
                let found = read(&file, file.len() as u64, &s.params);
                assert_eq!(found, Err(Error::Checksum { section: 0 }), "{at}");
            }
        }
    }
}

fn sealed(section: &[u8]) -> usize {
    (section.len() + 32).div_ceil(64) * 64
}

#[test]
fn a_file_cut_short_is_noticed_at_every_length() {
    for (s, step) in [(tiny(), 1), (tiny_raised(), 7)] {
        for file in files(&s) {
            for len in (0..file.len()).step_by(step) {
                let needed = file.len() as u64;
                // As a separate file, and as a stream that ends early.
                let short = read(&file[..len], len as u64, &s.params);
                assert!(matches!(short, Err(Error::Truncated { .. })), "{len}: {short:?}");
                let ended = read(&file[..len], needed, &s.params);
                assert_eq!(ended, Err(Error::Truncated { found: len as u64, needed }), "{len}");
            }
        }
    }
}

#[test]
fn nothing_may_follow() {
    for s in [tiny(), tiny_raised()] {
        for file in files(&s) {
            for more in [1, 64, 1000] {
                let long = [&file[..], &vec![0; more]].concat();
                for claimed in [file.len(), long.len()] {
                    let found = read(&long, claimed as u64, &s.params);
                    assert!(matches!(found, Err(Error::Malformed { .. })), "{found:?}");
                }
            }
            let twice = file.repeat(2);
            assert!(load(&twice).is_err());
        }
    }
}

#[test]
fn sections_of_other_places_and_files_are_noticed() {
    let s = tiny();
    let [.., keys, ciphertexts] = files(&s);
    // The Galois keys of level 1 have the same sizes.
    let parts = Parts::of(&keys);
    let lengths: Vec<usize> = parts.sections.iter().map(|s| sealed(s)).collect();
    assert_eq!(lengths[1], lengths[2]);
    let start = keys.len() - lengths[1..].iter().sum::<usize>();
    let mut swapped = keys.clone();
    swapped[start..][..2 * lengths[1]].rotate_left(lengths[1]);
    let found = read(&swapped, keys.len() as u64, &s.params);
    assert_eq!(found, Err(Error::Checksum { section: 2 }));
    let mut other = Parts::of(&ciphertexts);
    other.key_id += 1;
    let other = other.seal();
    let tail = ciphertexts.len() - 256;
    let mixed = [&ciphertexts[..tail], &other[tail..]].concat();
    assert!(matches!(load(&mixed), Err(Error::Checksum { section: 1.. })));
}

/// What `change` makes of a file, with valid checksums.
fn forged(file: &[u8], change: impl FnOnce(&mut Parts)) -> Vec<u8> {
    let mut parts = Parts::of(file);
    assert_eq!(parts.seal(), file);
    change(&mut parts);
    parts.seal()
}

/// What says that the element at a place is this.
fn entry(at: usize, content: Content) -> impl FnOnce(&mut Parts) {
    move |p| p.table[at].0 = content
}

/// The error for a forged file, which must come before any buffer is taken.
#[track_caller]
fn refusal(s: &Session, file: &[u8], file_bytes: u64) -> Error {
    let pool = s.params.rlwe().basis().pool();
    pool.trim();
    let before = pool.allocations();
    let found = read(file, file_bytes, &s.params).unwrap_err();
    assert_eq!(pool.allocations(), before, "memory was taken before {found}");
    found
}

#[track_caller]
fn assert_malformed(s: &Session, file: &[u8], part: &str) {
    let found = refusal(s, file, file.len() as u64);
    assert!(matches!(found, Error::Malformed { .. }), "{found:?}");
    assert!(found.to_string().contains(part), "{found}");
}

#[test]
fn impossible_preambles_are_refused() {
    for s in [tiny(), tiny_raised()] {
        for file in files(&s) {
            let found = refusal(&s, &forged(&file, |p| p.version = 2), file.len() as u64);
            assert_eq!(found, Error::UnsupportedVersion { found: 2, supported: 1 });
            assert_malformed(&s, &forged(&file, |p| p.scheme = 2), "scheme 2");
            assert_malformed(&s, &forged(&file, |p| p.kind = 0), "no kind 0");
            assert_malformed(&s, &forged(&file, |p| p.kind = 5), "no kind 5");
            assert_malformed(&s, &forged(&file, |p| p.kind = p.kind % 4 + 1), "section");
            assert_malformed(&s, &forged(&file, |p| p.zero = 1), "impossible sizes");
            assert_malformed(&s, &forged(&file, |p| p.header_tail = vec![0]), "follow the list");
            let found = refusal(&s, &forged(&file, |p| p.params_id += 1), file.len() as u64);
            assert!(matches!(found, Error::ParamsMismatch { .. }));
            assert!(matches!(
                load(&forged(&file, |p| p.params_id += 1)),
                Err(Error::ParamsMismatch { .. })
            ));
        }
    }
    for text in ["", "sudare", "PK\u{3}\u{4}", &"x".repeat(1000)] {
        assert!(open(text.as_bytes()).is_err());
    }
}

/// Sizes that no machine has: obeying one of them would not end.
const HUGE: [u64; 5] = [1 << 32, 1 << 40, 1 << 60, 1 << 63, u64::MAX];

#[test]
fn claims_of_size_are_not_believed() {
    for s in [tiny(), tiny_raised()] {
        for file in files(&s) {
            for huge in HUGE {
                for claim in [Some(huge), None] {
                    let count = forged(&file, |p| (p.count, p.file_bytes) = (Some(huge), claim));
                    let header =
                        forged(&file, |p| (p.header_bytes, p.file_bytes) = (Some(huge), claim));
                    let total = claim.unwrap_or(file.len() as u64);
                    refusal(&s, &count, total);
                    refusal(&s, &header, total);
                }
                let total = forged(&file, |p| p.file_bytes = Some(huge));
                refusal(&s, &total, huge);
                refusal(&s, &total, file.len() as u64);
                // A section of that size, with a file size that fits.
                let content = Parts::of(&file).table[0].1;
                let sealed = |bytes: u64| bytes.checked_add(32)?.checked_next_multiple_of(64);
                let grown = sealed(huge).unwrap_or(0).wrapping_sub(sealed(content).unwrap());
                let mut parts = Parts::of(&file);
                parts.table[0].1 = huge;
                let bytes = parts.seal().len() as u64;
                let total = bytes.wrapping_add(grown);
                parts.file_bytes = Some(total);
                refusal(&s, &parts.seal(), total);
            }
            // The largest header that is read, of a stream that ends.
            let header = forged(&file, |p| {
                (p.header_bytes, p.file_bytes) = (Some(64 << 20), Some(u64::MAX));
            });
            let found = refusal(&s, &header, u64::MAX);
            assert!(matches!(found, Error::Truncated { .. }), "{found:?}");
        }
    }
}

#[test]
fn lengths_within_a_header_are_not_believed() {
    // A label, then a table, that claims 2^40 bytes or entries.
    let s = tiny();
    let [secret, ..] = files(&s);
    let spec = postcard::to_allocvec(&Parts::of(&secret).spec).unwrap();
    for huge in HUGE {
        let claim = postcard::to_allocvec(&huge).unwrap();
        for prefix in [&[][..], &[0, 0], &[0, 0, 0]] {
            let header = [&spec[..], prefix, &claim, &[7; 100]].concat();
            let mut file = secret[..64].to_vec();
            file.extend(&header);
            file.resize((file.len() + 32).div_ceil(64) * 64 - 32, 0);
            file[48..56].copy_from_slice(&(header.len() as u64).to_le_bytes());
            let total = file.len() as u64 + 32;
            file[40..48].copy_from_slice(&total.to_le_bytes());
            let hash = blake3::hash(&file);
            file.extend(hash.as_bytes());
            refusal(&s, &file, total);
        }
    }
}

#[test]
fn impossible_contents_are_refused() {
    let s = tiny();
    let [secret, public, keys, ciphertexts] = files(&s);
    let two = |p: &mut Parts| {
        p.table.push(p.table[0]);
        p.sections.push(p.sections[0].clone());
    };
    assert_malformed(&s, &forged(&secret, two), "one section");
    assert_malformed(&s, &forged(&public, two), "one section");
    let none = |p: &mut Parts| {
        p.table.clear();
        p.sections.clear();
    };
    assert_malformed(&s, &forged(&public, none), "one section");
    // Relinearisation, then 5 and the inverse of 125 at level 1, then 63 at level 0, then
    // raising to level 1 through a weight of 7.
    assert_malformed(&s, &forged(&keys, two), "not in order");
    assert_malformed(&s, &forged(&keys, entry(2, Content::Galois(5, 1))), "not in order");
    assert_malformed(&s, &forged(&keys, entry(1, Content::Galois(61, 1))), "not in order");
    assert_malformed(&s, &forged(&keys, entry(1, Content::Relinearization(1))), "not in order");
    assert_malformed(&s, &forged(&keys, entry(1, Content::Galois(5, 0))), "bytes instead of");
    assert_malformed(&s, &forged(&keys, entry(1, Content::PublicKey)), "does not belong");
    for element in [0, 2, 64, 65, u32::MAX] {
        let file = forged(&keys, entry(1, Content::Galois(element, 1)));
        let found = refusal(&s, &file, file.len() as u64);
        assert!(matches!(found, Error::InvalidSpec { field: "galois", .. }), "{found:?}");
    }
    let raising = |level, weight| forged(&keys, entry(4, Content::Raising { level, weight }));
    assert_eq!(Parts::of(&keys).table[4].0, Content::Raising { level: 1, weight: 7 });
    assert_malformed(&s, &raising(0, 7), "bytes instead of");
    let twice = forged(&keys, |p| {
        p.table.push(p.table[4]);
        p.sections.push(p.sections[4].clone());
    });
    assert_malformed(&s, &twice, "not in order");
    let early = entry(3, Content::Raising { level: 1, weight: 7 });
    assert_malformed(&s, &forged(&keys, early), "not in order");
    assert_malformed(
        &s,
        &forged(&ciphertexts, entry(1, Content::Raising { level: 1, weight: 7 })),
        "does not belong",
    );
    for weight in [0, 33, u32::MAX] {
        let file = raising(1, weight);
        let found = refusal(&s, &file, file.len() as u64);
        assert!(matches!(found, Error::InvalidSpec { field: "raise", .. }), "{found:?}");
    }
}

#[test]
fn impossible_levels_are_refused() {
    let s = tiny();
    let [_, _, keys, ciphertexts] = files(&s);
    for level in [2, 1 << 20, u32::MAX] {
        let scale = (2f64.powi(25), 0.0);
        for (file, at, content) in [
            (&keys, 1, Content::Galois(5, level)),
            (&keys, 0, Content::Relinearization(level)),
            (&keys, 4, Content::Raising { level, weight: 7 }),
            (&ciphertexts, 1, Content::Ciphertext { level, scale, log_slots: 1 }),
        ] {
            let file = forged(file, entry(at, content));
            let found = refusal(&s, &file, file.len() as u64);
            let max = s.params.rlwe().top();
            assert_eq!(found, Error::LevelOutOfRange { found: Level(level), max });
        }
    }
}

#[test]
fn impossible_ciphertexts_are_refused() {
    let s = tiny();
    let [_, _, _, ciphertexts] = files(&s);
    let ciphertext = |scale: (f64, f64), log_slots: u32| {
        forged(&ciphertexts, entry(1, Content::Ciphertext { level: 0, scale, log_slots }))
    };
    for log_slots in [5, 6, 63, 64, u32::MAX] {
        assert_malformed(&s, &ciphertext((2f64.powi(25), 0.0), log_slots), "slots");
    }
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE / 2.0] {
        let file = ciphertext((scale, 0.0), 1);
        assert!(matches!(refusal(&s, &file, file.len() as u64), Error::Malformed { .. }));
    }
    for scale in [(1.0, 1.0), (1.0, f64::NAN), (1.0, f64::INFINITY), (1.0, -0.75)] {
        assert_malformed(&s, &ciphertext(scale, 1), "one form");
    }
    // If parameters are passed, the file's do not matter.
    let mut other = Parts::of(&ciphertexts);
    other.spec = Spec::uniform(17, 60.0, 100, 50.0, vec![60.0]);
    other.table[1].0 = Content::Ciphertext { level: 99, scale: (1.0, 0.0), log_slots: 16 };
    let found = refusal(&s, &other.seal(), other.seal().len() as u64);
    assert!(matches!(found, Error::LevelOutOfRange { .. }));
}

#[test]
fn impossible_level_keys_are_refused() {
    let spec = Spec::uniform(5, 30.0, 1, 25.0, vec![31.0; 2]);
    let s = session_with_level_keys(Spec { insecure: true, ..spec });
    let keys = s.keys_file(&Label::default());
    let keys_with = |at: usize, content: Content| forged(&keys, entry(at, content));
    let table: Vec<_> = Parts::of(&keys).table.iter().map(|(content, _)| *content).collect();
    let level_keys =
        [Content::LevelRelinearization(0), Content::LevelGalois(5, 0), Content::LevelGalois(25, 0)];
    // Level 1 uses both special primes: its keys are among the others.
    assert_eq!(table[5..], level_keys);
    assert_malformed(&s, &keys_with(5, Content::LevelGalois(63, 0)), "not in order");
    assert_malformed(&s, &keys_with(6, Content::LevelGalois(25, 0)), "not in order");
    assert_malformed(&s, &keys_with(6, Content::LevelRelinearization(0)), "not in order");
    let not_level_keys = forged(&keys, |p| {
        p.table = vec![(Content::Relinearization(0), p.table[5].1)];
        p.sections = vec![p.sections[5].clone()];
    });
    assert_malformed(&s, &not_level_keys, "bytes instead of");
    let ciphertexts = s.ciphertexts_file(&[s.encrypt(2, Level(0))], &Label::default());
    let entry_of = |content| forged(&ciphertexts, |p| p.table[0].0 = content);
    for content in [Content::LevelRelinearization(0), Content::LevelGalois(5, 0)] {
        assert_malformed(&s, &entry_of(content), "does not belong");
    }
    for (at, content, field) in [
        (5, Content::LevelRelinearization(1), "level_keys"),
        (6, Content::LevelGalois(5, 1), "level_keys"),
        (6, Content::LevelGalois(4, 0), "galois"),
        (6, Content::Raised(5, 1), "raised"),
    ] {
        let file = keys_with(at, content);
        let found = refusal(&s, &file, file.len() as u64);
        assert!(matches!(found, Error::InvalidSpec { field: f, .. } if f == field), "{found:?}");
    }
    let file = keys_with(6, Content::LevelGalois(5, 2));
    let found = refusal(&s, &file, file.len() as u64);
    assert_eq!(found, Error::LevelOutOfRange { found: Level(2), max: Level(1) });
}

/// Keys of an upper level are level keys, or for raising, and there are two such levels.
#[test]
fn impossible_raised_contents_are_refused() {
    let s = tiny_raised();
    let [_, _, keys, ciphertexts] = files(&s);
    let table: Vec<_> = Parts::of(&keys).table.iter().map(|(content, _)| *content).collect();
    let inverse = GaloisElement::rotation(5, -3).0;
    let level_keys = |level| {
        [
            Content::LevelRelinearization(level),
            Content::LevelGalois(5, level),
            Content::LevelGalois(25, level),
        ]
    };
    let mut expected = vec![
        Content::Raising { level: 3, weight: 7 },
        Content::Raised(5, 3),
        Content::Raised(inverse, 3),
    ];
    expected.extend(level_keys(2).into_iter().chain(level_keys(3)));
    assert_eq!(table[4..], expected);
    let keys_with = |at: usize, content: Content| forged(&keys, entry(at, content));
    // Sizes of one upper level differ from the other's and the chain's.
    for (at, content, part) in [
        (4, Content::Raising { level: 2, weight: 7 }, "not in order"),
        (5, Content::Raised(5, 2), "not in order"),
        (7, Content::LevelRelinearization(3), "not in order"),
        (9, Content::LevelGalois(25, 3), "not in order"),
        (10, Content::LevelRelinearization(2), "not in order"),
        (12, Content::LevelGalois(61, 2), "not in order"),
        (0, Content::Relinearization(0), "bytes instead of"),
    ] {
        assert_malformed(&s, &keys_with(at, content), part);
    }
    for raising in [1, 2] {
        let level = forged(&keys, |p| {
            p.table[4].0 = Content::Raising { level: raising, weight: 7 };
            for at in [5, 6] {
                let Content::Raised(g, _) = p.table[at].0 else { unreachable!() };
                p.table[at].0 = Content::Raised(g, raising);
            }
        });
        assert_malformed(&s, &level, "bytes instead of");
    }
    let refused = |file: Vec<u8>, found, max| {
        let error = refusal(&s, &file, file.len() as u64);
        assert_eq!(error, Error::LevelOutOfRange { found: Level(found), max: Level(max) });
    };
    // Primes of all levels reach the top and no further.
    for level in [2, 3, 4, u32::MAX] {
        refused(keys_with(0, Content::Relinearization(level)), level, 1);
        refused(keys_with(1, Content::Galois(5, level)), level, 1);
    }
    for level in [4, 1 << 20, u32::MAX] {
        refused(keys_with(4, Content::Raising { level, weight: 7 }), level, 3);
        refused(keys_with(11, Content::LevelGalois(5, level)), level, 3);
        refused(keys_with(10, Content::LevelRelinearization(level)), level, 3);
    }
    let scale = (2f64.powi(25), 0.0);
    let ciphertext = |at: usize, level| {
        forged(&ciphertexts, |p| {
            p.table[at].0 = Content::Ciphertext { level, scale, log_slots: 1 };
        })
    };
    for (at, own) in [(0, 1), (1, 0), (2, 2), (3, 3)] {
        for level in (0..4).filter(|&level| level != own) {
            assert_malformed(&s, &ciphertext(at, level), "bytes instead of");
        }
        for level in [4, u32::MAX] {
            refused(ciphertext(at, level), level, 3);
        }
    }
}

#[test]
fn residues_of_an_upper_level_are_below_its_own_primes() {
    let s = tiny_raised();
    let [_, public, keys, ciphertexts] = files(&s);
    let p = s.params.rlwe();
    let [base, ..] = p.spec().upper.as_ref().unwrap().base[..] else { unreachable!() };
    let last = p.spec().upper.as_ref().unwrap().levels[1][0];
    let special = p.spec().p[0];
    for (file, section, at, q) in [
        (&ciphertexts, 2, 0, base),
        (&ciphertexts, 3, (4 * 32 - 1) * 4, last),
        (&keys, 10, 32, base),
        (&keys, 10, 32 + (4 * 32 - 1) * 4, last),
        (&keys, 4, 64 + (2 * 32 + 1) * 4, base),
        (&keys, 5, 32 + (5 * 32 - 1) * 4, special),
    ] {
        for (value, valid) in [(q - 1, true), (q, false), (u64::from(u32::MAX), false)] {
            let bytes = (value as u32).to_le_bytes();
            let file = forged(file, |p| p.sections[section][at..at + 4].copy_from_slice(&bytes));
            assert_eq!(load(&file).is_ok(), valid, "{section} {at} {value}");
        }
    }
    // A public key has the primes of the top, as a ciphertext of the top has.
    assert_eq!(Parts::of(&public).sections[0].len(), 32 + 2 * 32 * 4);
}

/// Many primes above the top do not make tables for a small file.
#[test]
fn raised_parameters_too_large_for_their_file_are_not_built() {
    let s = tiny_raised();
    let [_, _, keys, ciphertexts] = files(&s);
    let large = |file: &[u8], contents: &dyn Fn(&mut Parts)| {
        forged(file, |p| {
            contents(p);
            let raised = UpperSpec { base_bits: vec![55.0], levels_bits: vec![vec![50.0; 10]; 12] };
            p.spec = Spec { log_n: 17, upper: Some(raised), ..p.spec.clone() };
        })
    };
    let scale = (2f64.powi(25), 0.0);
    let one = |content: Content| {
        move |p: &mut Parts| {
            p.table.truncate(1);
            p.sections.truncate(1);
            p.table[0].0 = content;
        }
    };
    for level in [2, 13, 14, u32::MAX] {
        let file = large(&ciphertexts, &one(Content::Ciphertext { level, scale, log_slots: 1 }));
        let files = [
            file,
            large(&keys, &one(Content::LevelRelinearization(level))),
            large(&keys, &one(Content::LevelGalois(5, level))),
            large(&keys, &one(Content::Raising { level, weight: 7 })),
            large(&keys, &one(Content::Raised(5, level))),
            large(&keys, &one(Content::Relinearization(level))),
        ];
        for file in files {
            match open(&file).unwrap().params() {
                Err(Error::Malformed { problem, .. }) => {
                    assert!(problem.contains("its parameters need"), "{problem}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn impossible_raised_specifications_are_refused() {
    let s = tiny_raised();
    let [file, ..] = files(&s);
    let good = Parts::of(&file).spec;
    let with = |change: &dyn Fn(&mut UpperSpec)| {
        let mut spec = good.clone();
        change(spec.upper.as_mut().unwrap());
        open(&forged(&file, |p| p.spec = spec)).and_then(|reader| reader.params().map(drop))
    };
    assert_eq!(with(&|_| {}), Ok(()));
    let changes: [&dyn Fn(&mut UpperSpec); 11] = [
        &|r| r.base_bits.clear(),
        &|r| r.levels_bits.clear(),
        &|r| r.levels_bits[0].clear(),
        &|r| r.base_bits[0] = f64::NAN,
        &|r| r.base_bits[0] = f64::INFINITY,
        &|r| r.base_bits[0] += 0.51,
        &|r| r.levels_bits[1][0] = f64::NAN,
        &|r| r.levels_bits[1][0] = 63.0,
        &|r| r.levels_bits[1] = vec![60.0; 13],
        &|r| r.levels_bits = vec![vec![20.0]; 1500],
        &|r| r.base_bits = vec![55.0 / 1500.0; 1500],
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let found = with(change);
        assert!(matches!(found, Err(Error::InvalidSpec { .. })), "{i}: {found:?}");
    }
    // A specification takes at most 16 KiB.
    let found = with(&|r| r.levels_bits = vec![Vec::new(); 1 << 20]);
    assert!(matches!(found, Err(Error::Malformed { .. })), "{found:?}");
    // Other primes, or no primes above the top, make other parameters.
    let found = with(&|r| r.levels_bits[1][0] = 27.0);
    assert!(matches!(found, Err(Error::ParamsMismatch { .. })), "{found:?}");
    let none = forged(&file, |p| p.spec.upper = None);
    let found = open(&none).unwrap().params();
    assert!(matches!(found, Err(Error::ParamsMismatch { .. })), "{found:?}");
}

#[test]
fn impossible_residues_and_coefficients_are_refused() {
    let s = tiny();
    let [secret, public, keys, ciphertexts] = files(&s);
    let p = s.params.rlwe().spec();
    // The first residue of each content, and the last of rows and polynomials.
    for (file, section, at, q) in [
        (&public, 0, 32, p.q[0][0]),
        (&keys, 0, 32, p.q[0][0]),
        (&keys, 0, 32 + 63 * 4, p.q[1][0]),
        (&ciphertexts, 0, 0, p.q[0][0]),
        (&ciphertexts, 0, (32 + 31) * 4, p.q[1][0]),
        (&ciphertexts, 0, (64 + 63) * 4, p.q[1][0]),
        (&keys, 0, 32 + (96 + 95) * 4, p.p[0]),
        (&keys, 4, 32, p.q[0][0]),
        (&keys, 4, 32 + 63 * 4, p.p[0]),
        (&keys, 4, 64 + 64 * 4, p.q[0][0]),
        (&keys, 4, 64 + (64 + 95) * 4, p.p[0]),
    ] {
        for (value, valid) in [(q - 1, true), (q, false), (u64::from(u32::MAX), false)] {
            let bytes = (value as u32).to_le_bytes();
            let file = forged(file, |p| p.sections[section][at..at + 4].copy_from_slice(&bytes));
            let found = load(&file);
            assert_eq!(found.is_ok(), valid, "{found:?}");
            if let Err(found) = found {
                assert!(found.to_string().contains("not below its prime"), "{found}");
            }
        }
    }
    let found = load(&forged(&secret, |p| p.sections[0][3] = 0b0000_0010));
    assert!(found.unwrap_err().to_string().contains("-1, 0 or 1"));
    let found = load(&forged(&secret, |p| p.sections[0].fill(0b0101_0101)));
    assert!(found.unwrap_err().to_string().contains("weight is not 9"));
    let found = load(&forged(&secret, |p| p.sections[0].fill(0)));
    assert!(found.unwrap_err().to_string().contains("weight is not 9"));
    // Bytes where zeros must be, and a section that is shorter than its table says.
    let found = load(&forged(&secret, |p| p.sections[0].push(1)));
    assert!(found.unwrap_err().to_string().contains("is not zero"));
    let found = load(&forged(&public, |p| {
        let less = p.sections[0].len() - 100;
        p.sections[0].truncate(less);
    }));
    assert!(found.is_err());
}

/// Tables for 256 primes of the largest ring take a gigabyte.
#[test]
fn parameters_too_large_for_their_file_are_not_built() {
    let s = tiny();
    for file in files(&s) {
        let large = forged(&file, |p| {
            let secret = p.spec.secret;
            p.spec = Spec::uniform(17, 60.0, 63, 50.0, vec![60.0; 64]);
            (p.spec.secret, p.spec.insecure) = (secret, true);
        });
        match open(&large).unwrap().params() {
            Err(Error::Malformed { problem, .. }) => {
                assert!(problem.contains("its parameters need"), "{problem}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn impossible_specifications_are_refused() {
    let s = tiny();
    let [file, ..] = files(&s);
    let good = Parts::of(&file).spec;
    let with = |change: &dyn Fn(&mut Spec)| {
        let mut spec = good.clone();
        change(&mut spec);
        open(&forged(&file, |p| p.spec = spec)).and_then(|reader| reader.params().map(drop))
    };
    assert_eq!(with(&|_| {}), Ok(()));
    let changes: [&dyn Fn(&mut Spec); 17] = [
        &|s| s.log_n = 3,
        &|s| s.log_n = 18,
        &|s| s.log_n = u32::MAX,
        &|s| s.q_bits.clear(),
        &|s| s.q_bits[1].clear(),
        &|s| s.p_bits.clear(),
        &|s| s.q_bits[0][0] = f64::NAN,
        &|s| s.q_bits[1][0] = f64::INFINITY,
        &|s| s.q_bits[1][0] = 63.0,
        &|s| s.p_bits[0] = -1.0,
        &|s| s.log2_scale = f64::NAN,
        &|s| s.log2_scale = 1e300,
        &|s| s.secret = SecretDistribution::FixedWeight { h: 0 },
        &|s| s.secret = SecretDistribution::FixedWeight { h: u32::MAX },
        // Each prime takes longer to find than the one before.
        &|s| s.q_bits[1] = vec![40.0; 1500],
        &|s| s.p_bits = vec![50.0; 1500],
        &|s| s.q_bits = vec![vec![20.0]; 1500],
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let found = with(change);
        assert!(matches!(found, Err(Error::InvalidSpec { .. })), "{i}: {found:?}");
    }
    // A nonexistent ring has no security estimate.
    let ring = forged(&file, |p| p.spec.log_n = u32::MAX);
    assert!(matches!(open(&ring), Err(Error::InvalidSpec { field: "log_n", .. })));
    // A specification takes at most 16 KiB.
    let found = with(&|s| s.q_bits = vec![Vec::new(); 1 << 20]);
    assert!(matches!(found, Err(Error::Malformed { .. })), "{found:?}");
    let found = with(&|s| s.secret = SecretDistribution::FixedWeight { h: 8 });
    assert!(matches!(found, Err(Error::ParamsMismatch { .. })), "{found:?}");
    let found = with(&|s| s.insecure = false);
    assert!(matches!(found, Err(Error::Insecure { .. })), "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any header is read without a panic, all checksums being valid, and so is what
    /// follows.
    #[test]
    fn mutated_headers_do_no_harm(
        kind in 0usize..4,
        raised: bool,
        changes in prop::collection::vec((0.0..1.0f64, any::<u8>()), 1..4),
    ) {
        thread_local! {
            static SESSIONS: [(Session, [Vec<u8>; 4]); 2] = [tiny(), tiny_raised()].map(|s| {
                let files = files(&s);
                (s, files)
            });
        }
        SESSIONS.with(|sessions| {
            let (s, files) = &sessions[usize::from(raised)];
            let sections = Parts::of(&files[kind]).sections;
            let mut file = files[kind].clone();
            file.truncate(file.len() - sections.iter().map(|s| sealed(s)).sum::<usize>() - 32);
            for (place, byte) in changes {
                let at = 8 + ((file.len() - 8) as f64 * place) as usize;
                file[at] = byte;
            }
            let first = seal(&mut file, 0, &[]);
            for (i, section) in (1u64..).zip(&sections) {
                let start = file.len();
                file.extend(section);
                seal(&mut file, start, &[&first[..], &i.to_le_bytes()].concat());
            }
            if let Ok(reader) = open(&file) {
                prop_assert_eq!(reader.info().bytes, file.len() as u64);
                if reader.info().spec.log_n <= 8 {
                    let _ = reader.params();
                }
                let kind = reader.info().kind;
                prop_assert!(kind != Kind::SecretKey || reader.info().count == 1);
                let _ = load_with(reader, &s.params);
            }
            Ok(())
        })?;
    }
}
