//! Matrices of slots, against their products in the clear.

use crate::session::Session;
use std::{collections::BTreeMap, sync::Arc};
use sudare::{
    Error,
    circuits::{
        Ops,
        ckks::{Complex, LinearPlan, LinearTransform, sim},
        linear::Offset,
    },
    ckks::{Ciphertext, Evaluator, Params, Spec},
    rlwe::{AutomorphismSum, GaloisElement, KeyGenerator, KeyRequest, Level},
};
use sudare_arith::{par, prng::Seed};

const LOG_N: u32 = 12;

fn params() -> Params {
    let spec = Spec::uniform(LOG_N, 50.0, 3, 45.0, vec![50.0; 2]);
    Params::new(Spec { insecure: true, ..spec }).unwrap()
}

fn values(slots: usize, salt: f64) -> Vec<Complex<f64>> {
    let value = |i: f64| Complex { re: (i * 0.7 + salt).sin(), im: (i * 0.3 - salt).cos() };
    (0..slots).map(|i| value(i as f64)).collect()
}

/// Diagonals of unlike entries at these offsets, negative ones from the end.
fn matrix(log_slots: u32, offsets: &[i64]) -> LinearTransform {
    let slots = 1i64 << log_slots;
    let diagonal =
        |&k: &i64| (k.rem_euclid(slots) as usize, values(1 << log_slots, 1.7 * k as f64));
    LinearTransform::new(log_slots, offsets.iter().map(diagonal).collect()).unwrap()
}

/// The same with every second diagonal once more, which multiplies the conjugate.
fn with_conjugates(matrix: &LinearTransform) -> LinearTransform {
    let mut diagonals = matrix.diagonals().clone();
    for (i, (&offset, entries)) in matrix.diagonals().iter().enumerate().step_by(2) {
        let entries = entries.iter().map(|&z| z * Complex { re: 0.5, im: i as f64 / 64.0 });
        diagonals.insert(Offset { conjugated: true, ..offset }, entries.collect());
    }
    LinearTransform::new(matrix.log_slots(), diagonals).unwrap()
}

fn plan(params: &Params, matrix: &LinearTransform, level: Level) -> LinearPlan {
    let from = params.scale_at(level);
    let to = params.scale_at(Level(level.0 - 1));
    matrix.plan(LOG_N, params.chain(), level, from, to).unwrap()
}

fn session(params: &Params, plan: &LinearPlan) -> Session {
    Session::from_seed(params.clone(), &Seed::from_bytes([3; 32]), plan.required_keys())
}

fn encrypt(s: &Session, values: &[Complex<f64>], level: Level, seed: u8) -> Ciphertext {
    let plain = s.encoder.encode_at(values, level, s.params.scale_at(level)).unwrap();
    s.encryptor.encrypt_with(&plain, &Seed::from_bytes([seed; 32])).unwrap()
}

fn precision(s: &Session, a: &Ciphertext, expected: &[Complex<f64>]) -> f64 {
    let found = s.encoder.decode(&s.decryptor.decrypt(a).unwrap()).unwrap();
    assert_eq!(found.len(), expected.len());
    let errors = found.iter().zip(expected).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
    -errors.fold(0.0, f64::max).log2()
}

/// From one diagonal to more than the terms that are summed with one reduction, in one
/// stage and in several, with gaps, around 0 and in full.
fn shapes() -> Vec<(u32, Vec<i64>)> {
    let full = LOG_N - 1;
    vec![
        (full, vec![0]),
        (full, vec![7]),
        (full, vec![0, 1, 3]),
        (full, (-7..8).map(|k| 64 * k).collect()),
        (full, (0..40).collect()),
        (full, vec![-30, -2, 5, 31]),
        (4, (0..16).collect()),
        (1, vec![0, 1]),
        (0, vec![0]),
    ]
}

#[test]
fn products_are_those_in_the_clear() {
    let params = params();
    for (log_slots, offsets) in shapes() {
        let rotating = matrix(log_slots, &offsets);
        let real_linear = with_conjugates(&rotating);
        for (matrix, level) in [(&rotating, params.top()), (&real_linear, Level(1))] {
            let plan = plan(&params, matrix, level);
            let s = session(&params, &plan);
            let slots = 1 << log_slots;
            let inputs = [values(slots, 0.5), values(slots, -3.0)];
            let [x, y] = &inputs;
            let encrypted = [(x, 4), (y, 5)].map(|(x, seed)| encrypt(&s, x, params.top(), seed));
            let encrypted = encrypted.map(|x| s.evaluator.drop_to(&x, level).unwrap());
            // The scale of the level, which dropping does not reach exactly.
            let scale = params.scale_at(level);
            let encrypted = encrypted.map(|x| s.evaluator.with_scale(&x, scale).unwrap());
            let weights = s.evaluator.prepare(&plan).unwrap();
            let rlwe = s.params.rlwe();
            let limbs = rlwe.key_limbs(plan.level());
            let row = rlwe.basis().packed_bytes(limbs);
            // Fewer slots than the ring has repeat, but blocks are stored one by one.
            let repeats = (LOG_N - 1 - log_slots).min(8);
            assert_eq!(weights.bytes(), (plan.weights() as u64 * row) >> repeats);
            assert_eq!(weights.bytes(), plan.weight_bytes(rlwe, limbs));
            let found = encrypted.map(|x| plan.run(&s.evaluator, &weights, &x).unwrap());
            for (found, x) in found.iter().zip(&inputs) {
                assert_eq!(found.level(), plan.output_level());
                assert!(found.scale().matches(plan.output_scale()));
                let bits = precision(&s, found, &matrix.apply(x));
                let terms = (offsets.len() as f64).log2();
                assert!(bits > 23.0 - terms, "{log_slots} {offsets:?} {level}: {bits} bits");
            }
        }
    }
}

#[test]
fn the_simulator_uses_the_same_keys_and_gives_the_same_values() {
    let params = params();
    let top = params.top();
    for (log_slots, offsets) in shapes() {
        let matrix = with_conjugates(&matrix(log_slots, &offsets));
        let plan = plan(&params, &matrix, top);
        let e = sim::Evaluator::new(LOG_N, params.chain().clone());
        let x = values(1 << log_slots, 0.1);
        let a = e.encrypt(&x, top, params.scale_at(top)).unwrap();
        let found = plan.run(&e, &e.prepare(&plan).unwrap(), &a).unwrap();
        assert_eq!(e.used_keys(), *plan.required_keys());
        assert_eq!(e.decrypt(&found), matrix.apply(&x));
        assert_eq!(
            (found.level, found.scale.matches(plan.output_scale())),
            (plan.output_level(), true)
        );
    }
}

#[test]
fn bits_do_not_depend_on_threads_or_company() {
    let params = params();
    let matrix = matrix(LOG_N - 1, &(-9..10).collect::<Vec<_>>());
    let plan = plan(&params, &matrix, params.top());
    let s = session(&params, &plan);
    let [x, y] = [(0.0, 4), (1.0, 5)]
        .map(|(salt, seed)| encrypt(&s, &values(1 << (LOG_N - 1), salt), params.top(), seed));
    let weights = s.evaluator.prepare(&plan).unwrap();
    let run = |threads, inputs: &[&Ciphertext]| {
        let results = par::with_threads(threads, || s.evaluator.transform_many(inputs, &weights));
        results.unwrap().unwrap()
    };
    let rows = |a: &Ciphertext| a.polys().each_ref().map(|p| p.rows().flatten().copied().collect());
    let together = run(2, &[&x, &y]);
    for (input, together) in [x, y].iter().zip(&together) {
        let alone: [Vec<u64>; 2] = rows(&run(1, &[input])[0]);
        assert_eq!(alone, rows(together));
    }
}

/// Takes every period, and entries without one.
#[test]
fn diagonals_with_a_period_are_stored_by_it() {
    let params = params();
    let log_slots = LOG_N - 1;
    let level = params.top();
    for log_period in [0, 1, 4, 7, 10, 11] {
        let short = matrix(log_period, &(0..1 << log_period.min(3)).collect::<Vec<_>>());
        let repeated = short.diagonals().iter().map(|(&offset, entries)| {
            let offset = Offset { columns: 5 * offset.columns, ..offset };
            (offset, entries.repeat(1 << (log_slots - log_period)))
        });
        let mut diagonals: BTreeMap<Offset, _> = repeated.collect();
        for without_period in [false, true] {
            if without_period {
                diagonals.insert(9.into(), values(1 << log_slots, 0.2));
            }
            let matrix = LinearTransform::new(log_slots, diagonals.clone()).unwrap();
            let plan = plan(&params, &matrix, level);
            let s = session(&params, &plan);
            let weights = s.evaluator.prepare(&plan).unwrap();
            let rlwe = params.rlwe();
            let row = rlwe.basis().packed_bytes(rlwe.key_limbs(level));
            let repeats = if without_period { 0 } else { (log_slots - log_period).min(8) };
            assert_eq!(weights.bytes(), (plan.weights() as u64 * row) >> repeats, "{log_period}");
            assert_eq!(weights.bytes(), plan.weight_bytes(rlwe, rlwe.key_limbs(level)));
            let x = values(1 << log_slots, 0.5);
            let found = plan.run(&s.evaluator, &weights, &encrypt(&s, &x, level, 4)).unwrap();
            let bits = precision(&s, &found, &matrix.apply(&x));
            assert!(bits > 19.0, "{log_period}: {bits} bits");
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let params = params();
    let top = params.top();
    let chain = params.chain();
    let from = params.scale_at(top);
    let to = params.scale_at(Level(top.0 - 1));
    let matrix = matrix(3, &[0, 1, 2]);
    let plan_at = |level, from, to| matrix.plan(LOG_N, chain, level, from, to);
    for log_n in [18, 64, u32::MAX] {
        assert!(matches!(matrix.plan(log_n, chain, top, from, to), Err(Error::Circuit(_))));
    }
    assert!(matches!(plan_at(Level(9), from, to), Err(Error::LevelOutOfRange { .. })));
    assert!(matches!(plan_at(Level(0), from, to), Err(Error::LevelExhausted { .. })));
    let tiny = sudare::ckks::Scale::from_log2(-20.0);
    assert!(matches!(plan_at(top, from, tiny), Err(Error::ScaleOutOfRange { .. })));
    assert!(matches!(matrix.plan(3, chain, top, from, to), Err(Error::Circuit(_))));
    let zero = LinearTransform::new(3, BTreeMap::<usize, _>::new()).unwrap();
    assert!(matches!(zero.plan(LOG_N, chain, top, from, to), Err(Error::Circuit(_))));

    let plan = plan_at(top, from, to).unwrap();
    let s = session(&params, &plan);
    let weights = s.evaluator.prepare(&plan).unwrap();
    let run = |e: &Evaluator, x: &Ciphertext| plan.run(e, &weights, x).map(|_| ());
    let x = encrypt(&s, &values(8, 0.0), top, 4);
    assert_eq!(run(&s.evaluator, &x), Ok(()));
    let low = s.evaluator.drop_to(&x, Level(1)).unwrap();
    let low = s.evaluator.with_scale(&low, from).unwrap();
    assert!(matches!(run(&s.evaluator, &low), Err(Error::LevelOutOfRange { .. })));
    let long = encrypt(&s, &values(16, 0.0), top, 4);
    assert!(matches!(run(&s.evaluator, &long), Err(Error::SlotMismatch { .. })));
    let other = s.evaluator.with_scale(&x, to * to).unwrap();
    assert!(matches!(run(&s.evaluator, &other), Err(Error::ScaleMismatch { .. })));

    let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = keygen.secret_key().unwrap();
    let none = Arc::new(keygen.evaluation_keys(&secret, &KeyRequest::new()).unwrap());
    let without = Evaluator::new(&params, none).unwrap();
    assert!(matches!(run(&without, &x), Err(Error::KeyMismatch { .. })));
}

/// More than are kept in cache at a time; a stage without any of the first, and gaps.
#[test]
fn many_baby_steps_are_summed_in_groups() {
    let params = params();
    let level = params.top();
    let log_slots = LOG_N - 1;
    let giant = 70;
    let weight = |stage: usize, step: usize| {
        let there = if stage == 0 { step % 5 != 3 } else { step >= 40 };
        there.then(|| values(1 << log_slots, (100 * stage + step) as f64))
    };
    let rotation = |k| GaloisElement::rotation(LOG_N, k);
    let scale = params.chain().divisor(level);
    let sum = AutomorphismSum {
        level,
        baby: (0..giant).map(rotation).collect(),
        giant: rotation(giant),
        stages: 2,
        raise: None,
    };
    let keys = KeyRequest::new().rotations(LOG_N, 1..=giant, level);
    let s = Session::from_seed(params, &Seed::from_bytes([4; 32]), &keys);
    let weights = s.evaluator.encode_matrix(sum, scale, log_slots, weight).unwrap();
    let x = values(1 << log_slots, 0.5);
    let found = s.evaluator.transform(&encrypt(&s, &x, level, 1), &weights).unwrap();
    let mut expected = vec![Complex { re: 0.0, im: 0.0 }; x.len()];
    for (stage, step) in (0..2).flat_map(|stage| (0..giant as usize).map(move |b| (stage, b))) {
        let Some(weights) = weight(stage, step) else { continue };
        for (i, out) in expected.iter_mut().enumerate() {
            let turned = i + stage * giant as usize;
            *out = *out + weights[turned % x.len()] * x[(turned + step) % x.len()];
        }
    }
    let bits = precision(&s, &found, &expected);
    assert!(bits > 20.0, "{bits} bits");
}

/// With level keys of two and three special primes at levels 1 and 2, and none above.
fn params_with_level_keys() -> Params {
    let spec = Spec::uniform(LOG_N, 48.0, 3, 45.0, vec![50.0; 4]);
    Params::new(Spec { insecure: true, ..spec }).unwrap()
}

#[test]
fn level_keys_give_the_same_products() {
    let params = params_with_level_keys();
    for (log_slots, offsets) in shapes() {
        let matrix = matrix(log_slots, &offsets);
        for (level, key_level) in [(1, 1), (2, 2), (1, 2)].map(|(l, t)| (Level(l), Level(t))) {
            let plan = plan(&params, &matrix, level);
            let at_key_level = KeyRequest {
                galois: plan.required_keys().galois.keys().map(|&g| (g, key_level)).collect(),
                ..KeyRequest::new()
            };
            let level_keys = at_key_level.into_level_keys(params.rlwe());
            assert!(level_keys.galois.is_empty());
            let e = sim::Evaluator::new(LOG_N, params.chain().clone()).with_level_keys(&level_keys);
            let x = values(1 << log_slots, 0.5);
            let scale = params.scale_at(level);
            plan.run(&e, &plan, &e.encrypt(&x, level, scale).unwrap()).unwrap();
            assert_eq!(e.used_keys(), level_keys);

            // Next to others with the same rotations for the top.
            let rotations = plan.required_keys().galois.keys().map(|&g| (g, params.top()));
            let both = KeyRequest { galois: rotations.collect(), ..level_keys };
            let s = Session::new(params.clone(), &both);
            let a = encrypt(&s, &x, level, 1);
            let weights = s.evaluator.prepare(&plan).unwrap();
            let found = plan.run(&s.evaluator, &weights, &a).unwrap();
            assert_eq!(found.level(), plan.output_level());
            let bits = precision(&s, &found, &matrix.apply(&x));
            let terms = (offsets.len() as f64).log2();
            assert!(
                bits > 26.0 - terms,
                "{log_slots} {offsets:?} {level} {key_level}: {bits} bits"
            );
        }
    }
}

#[test]
fn steps_take_their_keys_from_one_place() {
    let params = params_with_level_keys();
    let log_n = LOG_N;
    let level = Level(2);
    let plan = plan(&params, &matrix(4, &[0, 1, 2]), level);
    let rotations = |steps: &[i64]| KeyRequest::new().rotations(log_n, steps.to_vec(), level);
    let low = |steps: &[i64]| rotations(steps).into_level_keys(params.rlwe());
    let with = |requests: [KeyRequest; 2]| {
        let mut keys = KeyRequest::new();
        requests.into_iter().for_each(|request| keys |= request);
        Session::from_seed(params.clone(), &Seed::from_bytes([7; 32]), &keys)
    };
    let none = KeyRequest::new();
    let both = [1, 2];
    let run = |s: &Session, prepared: &Session| {
        let weights = prepared.evaluator.prepare(&plan).unwrap();
        let a = encrypt(s, &values(16, 0.0), level, 1);
        plan.run(&s.evaluator, &weights, &a).map(|_| ())
    };
    let missing = |k: i64, key_level| {
        let element = sudare::rlwe::GaloisElement::rotation(log_n, k);
        Err(Error::MissingGaloisKey {
            element,
            rotation: format!("rotation by {k}"),
            level,
            key_level,
        })
    };
    let ordinary = with([rotations(&both), none.clone()]);
    let lower = with([low(&both), none]);
    assert_eq!(run(&ordinary, &ordinary), Ok(()));
    assert_eq!(run(&lower, &lower), Ok(()));
    assert_eq!(run(&ordinary, &lower), missing(1, Some(level)));
    assert_eq!(run(&lower, &ordinary), missing(1, None));
    let mixed = with([low(&[1]), rotations(&[2])]);
    assert_eq!(run(&mixed, &mixed), missing(1, None));
    let most = with([low(&[1]), KeyRequest::new().rotations(log_n, [1, 2], Level(1))]);
    assert_eq!(run(&most, &most), missing(2, Some(level)));
    let text = missing(2, Some(level)).unwrap_err().to_string();
    assert!(text.contains("among the level keys for level 2"), "{text}");
}
