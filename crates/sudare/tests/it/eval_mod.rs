//! Reduction modulo 1 of encrypted values, against the same in the clear.

use crate::session::Session;
use sudare::{
    circuits::ckks::{EvalModPlan, EvalModSpec, ModMethod},
    ckks::{Ciphertext, Params, Scale, Spec},
    rlwe::Level,
};
use sudare_arith::prng::Seed;

const LOG_N: u32 = 11;

/// Upwards: 48 bits, 3 levels of 38, then of 50 for the reduction.
fn params() -> Params {
    let q_bits =
        [(48.0, 1), (38.0, 3), (50.0, 14)].map(|(bits, count)| vec![vec![bits]; count]).concat();
    let spec =
        Spec { q_bits, insecure: true, ..Spec::uniform(LOG_N, 48.0, 0, 50.0, vec![50.0; 6]) };
    Params::new(spec).unwrap()
}

fn plan(params: &Params, method: ModMethod, inverse_sine: Option<usize>) -> (EvalModPlan, Scale) {
    let spec = EvalModSpec { k: 14, log2_ratio: 8.0, method, inverse_sine };
    let level = Level(spec.depth().unwrap() + 3);
    let scale = params.chain().divisor(level) / Scale::from_f64(spec.bound());
    let plan = spec.plan(params.chain(), level, scale, Scale::from_log2(38.0)).unwrap();
    assert_eq!(plan.output_level(), Level(3));
    (plan, scale)
}

/// Values beside every integer from -14 to 14, and how far from them.
fn inputs(slots: usize, turn: f64) -> Vec<(f64, f64)> {
    (0..slots)
        .map(|i| ((i % 29) as f64 - 14.0, (i as f64 * 0.37 + turn).sin()))
        .map(|(integer, m)| (integer + m / 256.0, m))
        .collect()
}

fn encrypt(s: &Session, inputs: &[(f64, f64)], level: Level, scale: Scale, seed: u8) -> Ciphertext {
    let x: Vec<_> = inputs.iter().map(|(x, _)| *x).collect();
    let plain = s.encoder.encode_real_at(&x, level, scale).unwrap();
    s.encryptor.encrypt_with(&plain, &Seed::from_bytes([seed; 32])).unwrap()
}

fn open(s: &Session, a: &Ciphertext) -> Vec<f64> {
    s.encoder.decode_real(&s.decryptor.decrypt(a).unwrap()).unwrap()
}

/// `-log2` of the largest error.
fn bits(found: &[f64], expected: impl ExactSizeIterator<Item = f64>) -> f64 {
    assert_eq!(found.len(), expected.len());
    let errors = found.iter().zip(expected).map(|(y, m)| (y - m).abs());
    -errors.fold(0.0, f64::max).log2()
}

#[test]
fn reductions_have_the_precision_of_their_result() {
    let cosine = |degree| ModMethod::Cosine { degree, double_angles: 3 };
    let exponential = ModMethod::Exponential { degree: 15, squarings: 6 };
    // The sine's cubic error leaves 13.2 bits.
    for (method, inverse_sine, least) in [
        (cosine(28), None, 13.2),
        (cosine(30), None, 13.2),
        (cosine(30), Some(3), 22.0),
        (exponential, None, 13.2),
        (exponential, Some(3), 22.0),
    ] {
        let params = params();
        let (plan, scale) = plan(&params, method, inverse_sine);
        let s = Session::from_seed(params, &Seed::from_bytes([5; 32]), &plan.required_keys(LOG_N));
        let inputs = inputs(s.params.max_slots(), 0.0);
        let level = Level(plan.depth() + 3);
        let x = encrypt(&s, &inputs, level, scale, 6);
        let y = plan.run(&s.evaluator, &x).unwrap();
        assert_eq!(y.level(), plan.output_level());
        assert!(y.scale().matches(plan.output_scale()));
        let found = open(&s, &y);
        let circuit = bits(&found, open(&s, &x).into_iter().map(|x| plan.evaluate(x)));
        assert!(circuit > 23.0, "{method:?}, {inverse_sine:?}: {circuit:.1} bits");
        let total = bits(&found, inputs.iter().map(|(_, m)| *m));
        assert!(total > least, "{method:?}, {inverse_sine:?}: {total:.1} bits");
    }
}

#[test]
fn lock_step_gives_the_same_ciphertexts() {
    let params = params();
    let method = ModMethod::Cosine { degree: 14, double_angles: 4 };
    let (plan, scale) = plan(&params, method, None);
    let s = Session::new(params, &plan.required_keys(LOG_N));
    let level = Level(plan.depth() + 3);
    let xs =
        [(0.0, 6), (1.0, 7)].map(|(turn, seed)| encrypt(&s, &inputs(64, turn), level, scale, seed));
    let ys = plan.run_many(&s.evaluator, &xs).unwrap();
    for (x, y) in xs.iter().zip(&ys) {
        let single = plan.run(&s.evaluator, x).unwrap();
        assert!(y.scale().matches(single.scale()));
        assert!(y.polys().iter().zip(single.polys()).all(|(a, b)| a.rows().eq(b.rows())));
    }
}
