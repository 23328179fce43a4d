//! Targets for files of BGV and BFV.

use super::{Harness, Reached, Target, parse::mutate_file};
use crate::{
    exact::{PAIRS, Pair},
    file::{ExactSpec, build_small, resealed},
};
use std::{io::Cursor, sync::Arc};
use sudare::{
    exact::{
        BatchEncoder, Ciphertext, Evaluator,
        serial::{self, Kind, Reader},
    },
    rlwe::Level,
};
use sudare_arith::mem::Mapping;

const fn of_files(
    name: &'static str,
    harness: Harness,
    run: fn(&[u8]) -> Reached,
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    let prepare = resealed::<ExactSpec>;
    let mutate = mutate_file::<ExactSpec>;
    Target { name, harness, prepare, run, mutate, seeds }
}

pub const KEYS: Target = of_files("exact_keys", Harness::Parse, keys, || of_pairs(&[0, 1, 2]));
pub const CIPHERTEXTS: Target =
    of_files("exact_ciphertexts", Harness::Parse, ciphertexts, || of_pairs(&[3]));
pub const USED: Target = of_files("exact_used", Harness::Evaluate, used, || of_pairs(&[2, 3]));
pub const DECRYPTED: Target =
    of_files("exact_decrypted", Harness::Decrypt, decrypted, || of_pairs(&[3]));

/// Returns the files of these numbers from all pairs.
fn of_pairs(numbers: &[usize]) -> Vec<Vec<u8>> {
    let files = PAIRS.iter().flat_map(|pair| numbers.iter().map(|&k| pair.files[k].clone()));
    files.collect()
}

/// Reads a whole file under the parameters of the pair that it names.
fn whole(file: &[u8]) -> Reached {
    let Ok(reader) = Reader::new(file, file.len() as u64) else { return Reached::Frame };
    let spec = &reader.info().spec;
    let id = reader.info().params_id;
    let primes = spec.q_bits.iter().flatten().chain(&spec.p_bits).chain(&spec.extra_p_bits);
    build_small((spec, id), (spec.log_n, primes.count()), || drop(reader.params()));
    let params = &Pair::of(reader.info().params_id).params;
    let read = match reader.info().kind {
        Kind::SecretKey => reader.secret_key(params).map(drop),
        Kind::PublicKey => reader.public_key(params).map(drop),
        Kind::EvaluationKeys => reader.small_keys(true).evaluation_keys(params).map(drop),
        Kind::Ciphertexts => reader.ciphertexts(params).map(drop),
    };
    Reached::of_read(&read)
}

/// Reads evaluation keys, also as a shared file.
fn keys(file: &[u8]) -> Reached {
    if let Ok(reader) = Reader::shared(Mapping::shared(file.to_vec())) {
        let params = &Pair::of(reader.info().params_id).params;
        let _ = reader.small_keys(true).evaluation_keys(params);
    }
    whole(file)
}

/// Reads ciphertexts, also one by one.
fn ciphertexts(file: &[u8]) -> Reached {
    let bytes = file.len() as u64;
    let _ = serial::digest(Cursor::new(file), bytes);
    if let Ok(reader) = Reader::new(Cursor::new(file), bytes) {
        let params = &Pair::of(reader.info().params_id).params;
        if let Ok(mut items) = reader.into_ciphertexts(params) {
            let count = items.shapes().len();
            let _ = (items.read(count.saturating_sub(1)..count), items.read(0..count + 1));
        }
    }
    whole(file)
}

/// Uses untrusted keys or ciphertexts with trusted counterparts.
fn used(file: &[u8]) -> Reached {
    let Ok(reader) = Reader::new(file, file.len() as u64) else { return Reached::Frame };
    let pair = Pair::of(reader.info().params_id);
    match reader.info().kind {
        Kind::EvaluationKeys => {
            let keys = reader.evaluation_keys(&pair.params);
            let reached = Reached::of_read(&keys);
            let evaluator = keys.and_then(|keys| Evaluator::new(&pair.params, Arc::new(keys)));
            if let Ok(evaluator) = evaluator {
                exercise(&evaluator, &pair.items);
            }
            reached
        }
        Kind::Ciphertexts => {
            let items = reader.ciphertexts(&pair.params);
            let reached = Reached::of_read(&items);
            if let Ok(mut items) = items {
                // Every pair is used, so the time grows with the square of the number.
                items.truncate(4);
                items.extend(pair.items.iter().cloned());
                exercise(&pair.evaluator, &items);
            }
            reached
        }
        Kind::SecretKey | Kind::PublicKey => Reached::Content,
    }
}

/// Runs every operation on every pair, and ignores the errors.
fn exercise(ev: &Evaluator, items: &[Ciphertext]) {
    let bfv = sudare::bfv::Evaluator::new(ev.params(), Arc::clone(ev.keys()));
    for a in items {
        for b in items {
            let _ = (ev.add(a, b), ev.sub(a, b), ev.mul(a, b), ev.mul_rescale(a, b));
            let _ = bfv.as_ref().map(|bfv| (bfv.add(a, b), bfv.mul(a, b), bfv.mul_rescale(a, b)));
            let _ = ev.match_factor(a, Level(0), b.factor());
        }
        let _ = (ev.rescale(a), ev.neg(a), ev.drop_to(a, Level(0)));
        let _ = (ev.add_const(a, -3), ev.mul_const(a, i128::MIN));
    }
}

/// Decrypts ciphertexts and measures their noise.
fn decrypted(file: &[u8]) -> Reached {
    let Ok(reader) = Reader::new(file, file.len() as u64) else { return Reached::Frame };
    let pair = Pair::of(reader.info().params_id);
    let items = reader.ciphertexts(&pair.params);
    let reached = Reached::of_read(&items);
    for item in items.iter().flatten() {
        let _ = (pair.decryptor.noise(item), pair.decryptor.budget(item));
        let encoder = BatchEncoder::new(item.plaintext_modulus(), pair.params.log_n());
        if let (Ok(plain), Ok(encoder)) = (pair.decryptor.decrypt(item), encoder) {
            let _ = encoder.decode(&plain);
        }
    }
    reached
}
