//! Targets that compute with accepted input.

use super::{
    Harness, Reached, Target, mutate_bytes,
    parse::{self, mutate_file},
    script::{self, Input},
    unchanged,
};
use crate::{
    file::resealed,
    world::{CASES, Case, Pair, Resumable},
};
use std::sync::Arc;
use sudare::{
    circuits::ckks::ComplexOps,
    ckks::{
        Ciphertext, Complex, Evaluator, Params, Spec,
        serial::{Kind, Reader},
    },
    rlwe::Level,
};
use sudare_roles::format::label::Meta;

const fn of_files(
    name: &'static str,
    run: fn(&[u8]) -> Reached,
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    let prepare = resealed::<Spec>;
    let mutate = mutate_file::<Spec>;
    Target { name, harness: Harness::Evaluate, prepare, run, mutate, seeds }
}

const fn of_scripts(
    name: &'static str,
    run: fn(&[u8]) -> Reached,
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    let harness = Harness::Evaluate;
    let prepare = unchanged;
    let mutate = mutate_bytes;
    Target { name, harness, prepare, run, mutate, seeds }
}

pub const KEYS_USED: Target = of_files("keys_used", keys_used, || parse::of_pairs(2));
pub const CIPHERTEXTS_USED: Target =
    of_files("ciphertexts_used", ciphertexts_used, || parse::of_pairs(3));
pub const JOB: Target = of_scripts("job", job, jobs);
pub const TABLE: Target = of_scripts("table", table, || script::seeds(CASES.len()));
pub const CHECKPOINT: Target = of_scripts("checkpoint", checkpoint, || script::seeds(1));

/// Uses untrusted keys with trusted ciphertexts.
fn keys_used(file: &[u8]) -> Reached {
    let Ok(reader) = Reader::new(file, file.len() as u64) else { return Reached::Frame };
    if reader.info().kind != Kind::EvaluationKeys {
        return Reached::Content;
    }
    let pair = Pair::of(reader.info().params_id);
    let keys = reader.evaluation_keys(&pair.params);
    let reached = Reached::of_read(&keys);
    if let Ok(evaluator) = keys.and_then(|keys| Evaluator::new(&pair.params, Arc::new(keys))) {
        exercise(&evaluator, &pair.items, &pair.params);
    }
    reached
}

/// Uses untrusted ciphertexts with trusted keys and ciphertexts.
fn ciphertexts_used(file: &[u8]) -> Reached {
    let Ok(reader) = Reader::new(file, file.len() as u64) else { return Reached::Frame };
    let pair = Pair::of(reader.info().params_id);
    let items = reader.ciphertexts(&pair.params);
    let reached = Reached::of_read(&items);
    if let Ok(mut items) = items {
        // Every pair is used, so the time grows with the square of the number.
        items.truncate(4);
        items.extend(pair.items.iter().cloned());
        exercise(&pair.evaluator, &items, &pair.params);
    }
    reached
}

/// Runs every operation on every pair, and ignores the errors.
fn exercise(ev: &Evaluator, items: &[Ciphertext], params: &Params) {
    let c = Complex { re: 0.3, im: 0.0 };
    for a in items {
        for b in items {
            let _ = (ev.add(a, b), ev.sub(a, b), ev.mul(a, b), ev.mul_rescale(a, b));
        }
        let _ = (ev.rotate(a, 1), ev.rotate(a, -3), ev.conjugate(a), ev.rescale(a), ev.neg(a));
        for level in (0..=params.upper_top().0).map(Level) {
            let _ = (ev.drop_to(a, level), Evaluator::mod_raise(ev, a, level));
            let _ = ev.match_scale(a, level, params.scale_at(params.top()));
        }
        let _ = (ev.add_const(a, c), ev.mul_const(a, c, params.scale_at(Level(0))));
        let _ = (ComplexOps::with_log_slots(ev, a, 3), ev.with_scale(a, params.scale_at(Level(0))));
        let _ = ev.hoist(a).map(|hoisted| ev.rotate_hoisted(&hoisted, 1).map(drop));
    }
}

/// Plans the job of a label for the parameters of a case. The first byte selects the case.
fn job(bytes: &[u8]) -> Reached {
    let Some((&first, meta)) = bytes.split_first() else { return Reached::Content };
    let case = &CASES[usize::from(first) % CASES.len()];
    let mut label = case.label.clone();
    label.meta = meta.to_vec();
    let Some((_, meta)) = Meta::read(&label) else { return Reached::Content };
    let planned = meta.job.plan(&case.params).map(|plan| {
        let _ = (plan.ciphertexts(), plan.outputs(), plan.required_keys().count());
    });
    Reached::content(planned)
}

fn jobs() -> Vec<Vec<u8>> {
    (0u8..).zip(CASES.iter()).map(|(i, case)| [&[i], &case.label.meta[..]].concat()).collect()
}

/// Computes with an untrusted table as a server. The first byte selects the case.
fn table(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    let case = chosen(&mut input);
    let file = script::altered(case, &case.table, &case.result, &mut input);
    if crate::world::open(&file).is_err() {
        return Reached::Frame;
    }
    Reached::content(case.compute(&file))
}

pub fn chosen(input: &mut Input<'_>) -> &'static Case {
    &CASES[input.below(CASES.len())]
}

/// Resumes a training from an untrusted state.
fn checkpoint(bytes: &[u8]) -> Reached {
    let mut input = Input::new(bytes);
    // Scripts begin with the number of a case, and here is only one.
    let _ = input.byte();
    let resumable = Resumable::get();
    let case = resumable.case;
    let file = script::altered(case, &resumable.state, &case.table, &mut input);
    Reached::content(resumable.resume(&file))
}
