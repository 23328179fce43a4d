//! Memory and work that a header may cost, however it is made: at most twice the file and a
//! mebibyte, and nothing for moduli until sizes fit.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

use peak_alloc::PeakAlloc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sudare::{
    Error, Result, ckks,
    exact::{self, BatchEncoder},
    rlwe::{
        KeyGenerator, Level, UpperSpec,
        serial::{Label, Reader, Scheme},
    },
};
use sudare_arith::prng::Seed;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Memory is counted for the whole process, so that tests run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `f` returns, and the bytes of heap that it had at a time.
fn heap<T>(f: impl FnOnce() -> T) -> (T, usize) {
    HEAP.reset_peak_usage();
    let before = HEAP.current_usage();
    let found = f();
    (found, HEAP.peak_usage().saturating_sub(before))
}

fn limit(file: &[u8]) -> usize {
    2 * file.len() + (1 << 20)
}

/// Opens a file, in as little memory as is promised.
#[track_caller]
fn open<P: Scheme>(file: &[u8]) -> Result<Reader<&[u8], P>> {
    let (reader, heap) = heap(|| Reader::new(file, file.len() as u64));
    assert!(heap <= limit(file), "{heap} bytes of heap for a file of {}", file.len());
    reader
}

fn ckks_spec() -> ckks::Spec {
    ckks::Spec { insecure: true, ..ckks::Spec::uniform(5, 30.0, 1, 25.0, vec![31.0]) }
}

fn exact_spec() -> exact::Spec {
    let t = exact::Modulus::new(257, 1).unwrap();
    exact::Spec { insecure: true, ..exact::Spec::uniform(5, t, 40.0, 1, 30.0, vec![45.0]) }
}

/// What stands in the table of a file of ciphertexts, of so many bytes, of level 0.
fn ckks_entry(bytes: u64) -> Vec<u8> {
    postcard::to_allocvec(&(4u8, 0u32, (1.0, 0.0), 1u32, bytes)).unwrap()
}

fn exact_entry(prime: u64, bytes: u64) -> Vec<u8> {
    postcard::to_allocvec(&(4u8, 0u32, (prime, 1u32), 1u128, (2.0, 2.0, 2.0), bytes)).unwrap()
}

/// A file of ciphertexts, after `docs/file-format.md`, whose content is zeros without checksums:
/// `content` bytes for each entry.
fn file(
    (scheme, params_id): (u16, u64),
    [spec, label]: [Vec<u8>; 2],
    entries: &[Vec<u8>],
    content: usize,
) -> Vec<u8> {
    let count = entries.len();
    let mut header = [spec, label, postcard::to_allocvec(&(count as u64)).unwrap()].concat();
    entries.iter().for_each(|entry| header.extend(entry));
    let sealed = |bytes: usize| (bytes + 32).div_ceil(64) * 64;
    let total = sealed(64 + header.len()) + count * sealed(content);
    let mut file = b"\x89sudare\n\x01\0\0\0".to_vec();
    file.extend(scheme.to_le_bytes());
    file.extend([4, 0]);
    for word in [params_id, 0, count as u64, total as u64, header.len() as u64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(header);
    file.resize(sealed(file.len()) - 32, 0);
    let hash = blake3::hash(&file);
    file.extend(hash.as_bytes());
    file.resize(total, 0);
    file
}

fn encoded<T: serde::Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).unwrap()
}

/// Of every kind of primes, those that level keys alone have too.
#[test]
fn tables_of_all_primes_are_counted() {
    let _alone = alone();
    let upper = Some(UpperSpec { base_bits: vec![41.25; 4], levels_bits: vec![vec![47.0]; 3] });
    let extra_p_bits = vec![49.0; 4];
    let uniform = ckks::Spec::uniform(15, 45.0, 3, 40.0, vec![50.0; 2]);
    let spec = ckks::Spec { insecure: true, upper, extra_p_bits, ..uniform };
    let params = ckks::Params::new(spec.clone()).unwrap();
    let id = params.rlwe().id().0;
    let bytes = params.rlwe().basis().packed_bytes(params.rlwe().limbs(Level(0)));
    let parts = [encoded(&spec), encoded(&Label::default())];
    let file = file((1, id), parts, &[ckks_entry(2 * bytes)], 2 * bytes as usize);
    let reader = open::<ckks::Params>(&file).unwrap();
    assert_eq!(reader.table_bytes(), Ok((32 * (4 + 7 + 2 + 4)) << 15));
    assert_eq!(reader.params().unwrap().rlwe().id(), params.rlwe().id());
}

/// A file of some kilobytes may name a ring and primes whose tables take gigabytes.
#[test]
fn primes_that_no_tables_have_room_for_are_refused() {
    let _alone = alone();
    for (chain, special, extra) in [(63, 65, 0), (63, 1, 64), (64, 65, 0), (63, 1, 65)] {
        let uniform = ckks::Spec::uniform(17, 60.0, chain - 1, 50.0, vec![60.0; special]);
        let spec = ckks::Spec { insecure: true, extra_p_bits: vec![60.0; extra], ..uniform };
        let parts = [encoded(&spec), encoded(&Label::default())];
        let file = file((1, 7), parts, &[ckks_entry(1 << 14)], 1 << 14);
        match open::<ckks::Params>(&file) {
            Ok(reader) => {
                assert_eq!(chain + special + extra, 128);
                assert_eq!(reader.table_bytes(), Ok(1 << 29));
            }
            Err(error) => {
                assert_eq!(chain + special + extra, 129);
                assert!(error.to_string().contains("129 primes are too many"), "{error}");
            }
        }
    }
}

const MANY: usize = 50_000;

#[test]
fn many_sections_take_less_than_twice_their_file() {
    let _alone = alone();
    let label = encoded(&Label::default());
    let of_ckks = [encoded(&ckks_spec()), label.clone()];
    let many = file((1, 7), of_ckks, &vec![ckks_entry(0); MANY], 0);
    let reader = open::<ckks::Params>(&many).unwrap();
    assert_eq!(reader.info().count, MANY as u64);
    let of_exact = [encoded(&exact_spec()), label];
    let many = file((2, 7), of_exact, &vec![exact_entry(257, 0); MANY], 0);
    let reader = open::<exact::Params>(&many).unwrap();
    assert_eq!(reader.info().count, MANY as u64);
}

/// A label has no elements that are larger than their encoding.
#[test]
fn large_labels_take_less_than_twice_their_file() {
    let _alone = alone();
    for bytes in [1 << 20, (1 << 23) + 1, (16 << 20) - 100] {
        let label = Label { meta: vec![7; bytes], ..Label::default() };
        let parts = [encoded(&ckks_spec()), encoded(&label)];
        let large = file((1, 7), parts, &[ckks_entry(0)], 0);
        let reader = open::<ckks::Params>(&large).unwrap();
        assert_eq!(reader.info().label, label);
    }
}

/// Lists take many times their encoding in memory, and may claim to be longer than they are.
#[test]
fn large_specifications_are_refused_in_little_memory() {
    let _alone = alone();
    let refused = |spec: Vec<u8>| {
        let large = file((1, 7), [spec, encoded(&Label::default())], &[ckks_entry(0)], 0);
        let found = open::<ckks::Params>(&large).map(drop);
        let refused = matches!(found, Err(Error::Malformed { .. } | Error::InvalidSpec { .. }));
        assert!(refused, "{found:?}");
    };
    for levels in [1000, 16_000, 20_000, 65_000, 1 << 20] {
        refused(encoded(&ckks::Spec { q_bits: vec![Vec::new(); levels], ..ckks_spec() }));
    }
    for claimed in [1u64 << 10, 16_000, 1 << 16, 1 << 24, 1 << 60] {
        // Bytes of the levels, and of the primes of the first one.
        let claim = encoded(&claimed);
        refused([&[5], &claim[..], &claim, &[0; 40_000]].concat());
        refused([&[5], &claim[..], &claim].concat());
    }
}

/// Counts that the file has room for, but not the header.
#[test]
fn lists_that_are_not_there_take_no_memory() {
    let _alone = alone();
    let parts = [encoded(&exact_spec()), encoded(&Label::default())];
    let mut none = file((2, 7), parts, &vec![Vec::new(); MANY], 0);
    let (reader, heap) =
        heap(|| Reader::<_, exact::Params>::new(&none[..], none.len() as u64).map(drop));
    assert!(matches!(reader, Err(Error::Malformed { .. })), "{reader:?}");
    assert!(heap < 1 << 16, "{heap}");
    // More than the file can hold.
    none[32..40].copy_from_slice(&(1u64 << 40).to_le_bytes());
    assert!(matches!(open::<exact::Params>(&none), Err(Error::Malformed { .. })));
}

/// A header is read without testing whether moduli are prime; when ciphertexts are asked for, their
/// sizes are told first, before anything is taken for them.
#[test]
fn moduli_are_tested_after_sizes() {
    let _alone = alone();
    let params = exact::Params::new(exact_spec()).unwrap();
    let rlwe = params.rlwe();
    let seed = Seed::from_bytes([1; 32]);
    let mut keygen = KeyGenerator::from_seed(rlwe, &seed);
    let secret = keygen.secret_key().unwrap();
    let public = Arc::new(keygen.public_key(&secret).unwrap());
    let encoder = BatchEncoder::new(params.plaintext_modulus(), params.log_n()).unwrap();
    let item = exact::Encryptor::new(&params, public).unwrap().encrypt_with(
        &encoder.encode(&[1, 2, 3]).unwrap(),
        Level(0),
        params.fresh_factor(Level(0), params.plaintext_modulus()).unwrap(),
        &seed,
    );
    let mut small = Vec::new();
    let none = Label::default();
    exact::serial::write_ciphertexts(&mut small, &params, &[item.unwrap()], &none).unwrap();
    let reader = open::<exact::Params>(&small).unwrap();
    assert_eq!(reader.ciphertexts(&params).map(|items| items.len()), Ok(1));

    let parts = || [encoded(&exact_spec()), encoded(&none)];
    let bytes = 2 * rlwe.basis().packed_bytes(rlwe.limbs(Level(0)));
    let composite = 255;
    let huge = (1 << 60) - 1;
    for (sizes, error) in [
        (vec![bytes, bytes], "neither a prime"),
        // The size of the second is read before the modulus of the first.
        (vec![bytes, bytes - 64], "bytes instead of"),
    ] {
        for prime in [composite, huge] {
            let entries: Vec<_> = sizes.iter().map(|&bytes| exact_entry(prime, bytes)).collect();
            let mut forged = file((2, rlwe.id().0), parts(), &entries, bytes as usize);
            let missing = sizes.iter().map(|size| bytes - size).sum::<u64>();
            let total = forged.len() as u64 - missing;
            forged.truncate(total as usize);
            let header = 64 + forged[48] as usize + 256 * forged[49] as usize;
            forged[40..48].copy_from_slice(&total.to_le_bytes());
            let end = (header + 32).div_ceil(64) * 64;
            let hash = blake3::hash(&forged[..end - 32]);
            forged[end - 32..end].copy_from_slice(hash.as_bytes());
            let reader = open::<exact::Params>(&forged).unwrap();
            let pool = rlwe.basis().pool();
            pool.trim();
            let before = pool.allocations();
            let found = reader.ciphertexts(&params).unwrap_err();
            assert!(found.to_string().contains(error), "{found}");
            assert_eq!(pool.allocations(), before);
        }
    }
}
