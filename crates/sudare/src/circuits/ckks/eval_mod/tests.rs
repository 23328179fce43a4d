use super::*;
use crate::circuits::ckks::sim;

const LOG_N: u32 = 12;
const TOP: Level = Level(24);

/// Makes a chain, from the bottom: 48 bits, 3 levels of 33, 5 of 38, 16 of 50, all distinct.
fn chain() -> Chain {
    let sizes = [(33, 3), (38, 5), (50, 16)].map(|(bits, count)| vec![bits; count]).concat();
    let prime = |(i, bits): (u64, &u32)| (1u64 << bits) - ((i * 7919 % 31 + 1) << (bits - 15));
    let divisors: Vec<_> = (0..).zip(&sizes).map(prime).map(Scale::from_u64).collect();
    let mut log2_q = vec![48.0];
    for divisor in &divisors {
        log2_q.push(log2_q[log2_q.len() - 1] + divisor.log2());
    }
    Chain::new(divisors, log2_q)
}

fn cosine(degree: usize, double_angles: u32) -> EvalModSpec {
    let method = ModMethod::Cosine { degree, double_angles };
    EvalModSpec { k: 14, log2_ratio: 8.0, method, inverse_sine: None }
}

fn exponential(degree: usize, squarings: u32) -> EvalModSpec {
    let method = ModMethod::Exponential { degree, squarings };
    EvalModSpec { method, ..cosine(2, 0) }
}

/// Returns the scale at which the change of variable is free.
fn scale(spec: &EvalModSpec, level: Level) -> Scale {
    chain().divisor(level) / Scale::from_f64(spec.bound())
}

fn out() -> Scale {
    Scale::from_log2(38.0)
}

/// Returns inputs next to every integer, and their results.
fn inputs(spec: &EvalModSpec) -> (Vec<Complex<f64>>, Vec<f64>) {
    let k = f64::from(spec.k);
    (0..=2 * spec.k)
        .flat_map(|i| (0..7).map(move |j| (f64::from(i) - k, f64::from(j) / 3.0 - 1.0)))
        .map(|(i, m)| (Complex::from(i + m * (-spec.log2_ratio).exp2()), m))
        .unzip()
}

/// Runs the reduction next to every integer and compares everything that its plan promises.
fn verify(spec: &EvalModSpec, level: Level, scale: Scale) -> (EvalModPlan, f64) {
    let plan = spec.plan(&chain(), level, scale, out()).unwrap();
    let e = sim::Evaluator::new(LOG_N, chain());
    let (slots, expected) = inputs(spec);
    let y = plan.run(&e, &e.encrypt(&slots, level, scale).unwrap()).unwrap();
    // Doubles keep 52 bits of the angle. Doublings multiply the loss.
    let rounding = 1e-15 * (f64::from(spec.method.doublings()) + spec.log2_ratio + 3.0).exp2();
    let mut worst: f64 = 0.0;
    for ((x, m), y) in slots.iter().zip(&expected).zip(&y.slots) {
        assert!((y.re - plan.evaluate(x.re)).abs() < rounding && y.im.abs() < rounding);
        worst = worst.max((y.re - m).abs());
    }
    assert!(worst < plan.max_error() + rounding, "{spec:?}: {worst:e}");
    assert!(worst > plan.max_error() / 2.0 - rounding, "{spec:?}: {worst:e}");
    assert!(y.scale.matches(out()) && plan.output_scale().matches(out()));
    assert_eq!(y.level, plan.output_level());
    assert_eq!(y.level.0 + plan.depth(), level.0);
    assert_eq!(e.counts().products, plan.products() as u64);
    assert_eq!(e.used_keys(), plan.required_keys(LOG_N));
    assert!(y.headroom_bits > 0.0);
    (plan, y.noise_log2)
}

#[test]
fn sines_are_off_by_their_cubic_term_only() {
    for (spec, products, bits) in [
        (cosine(26, 3), 11, 17.0),
        (cosine(28, 3), 11, 22.0),
        (cosine(30, 3), 12, 27.0),
        (cosine(22, 4), 11, 29.0),
        (exponential(7, 8), 13, 15.0),
        (exponential(15, 6), 14, 25.0),
    ] {
        let (plan, noise_log2) = verify(&spec, TOP, scale(&spec, TOP));
        assert_eq!((plan.depth(), plan.products()), (spec.depth().unwrap(), products));
        let angle = TAU / 256.0;
        let error = (plan.max_error() - (1.0 - angle.sin() / angle)).abs();
        assert!(error.log2() < -bits, "{spec:?}: {error:e}");
        assert!(noise_log2 < -24.0, "{spec:?}: {noise_log2}");
    }
}

#[test]
fn inverse_sines_remove_the_cubic_term() {
    for (degree, bits) in [(3, 28.0), (5, 37.0)] {
        for spec in [cosine(44, 3), exponential(20, 6)] {
            let spec = EvalModSpec { inverse_sine: Some(degree), ..spec };
            let (plan, noise_log2) = verify(&spec, TOP, scale(&spec, TOP));
            assert_eq!(plan.depth(), spec.depth().unwrap());
            assert!(plan.max_error().log2() < -bits, "{spec:?}: {:e}", plan.max_error());
            assert!(noise_log2 < -24.0, "{spec:?}: {noise_log2}");
        }
    }
    let spec = EvalModSpec { inverse_sine: Some(7), log2_ratio: 4.0, ..cosine(44, 3) };
    let (plan, _) = verify(&spec, TOP, scale(&spec, TOP));
    assert!(plan.max_error().log2() < -22.0, "{:e}", plan.max_error());
}

#[test]
fn depth_counts_digits_of_degrees_and_doublings() {
    let inverse = |spec, degree| EvalModSpec { inverse_sine: Some(degree), ..spec };
    for (spec, depth) in [
        (cosine(30, 3), 5 + 3),
        (cosine(31, 3), 5 + 3),
        (cosine(32, 3), 6 + 3),
        (inverse(cosine(30, 2), 3), 5 + 2 + 2),
        (inverse(cosine(30, 0), 1), 5 + 1),
        (exponential(7, 8), 3 + 8),
        (inverse(exponential(8, 7), 5), 4 + 7 + 3),
    ] {
        assert_eq!(spec.depth(), Ok(depth));
        let plan = |level, scale| spec.plan(&chain(), level, scale, out());
        assert_eq!(plan(TOP, scale(&spec, TOP)).unwrap().depth(), depth, "{spec:?}");
        // A variable at a scale far from the primes first uses a level.
        let (spread, _) = verify(&spec, TOP, Scale::from_log2(38.0));
        assert_eq!(spread.depth(), depth + 1, "{spec:?}");
        let level = Level(depth - 1);
        let exhausted = Error::LevelExhausted { op: OP, needed: depth, level };
        assert_eq!(plan(level, Scale::from_log2(30.0)).unwrap_err(), exhausted);
    }
}

#[test]
fn results_in_lock_step_are_those_of_single_runs() {
    let e = sim::Evaluator::new(LOG_N, chain());
    let spec = EvalModSpec { inverse_sine: Some(3), ..exponential(7, 8) };
    let scale = scale(&spec, TOP);
    let plan = spec.plan(&chain(), TOP, scale, out()).unwrap();
    let xs: Vec<_> =
        [3.001, -7.0].map(|x| e.encrypt(&[Complex::from(x)], TOP, scale).unwrap()).to_vec();
    let singles: Vec<_> = xs.iter().map(|x| plan.run(&e, x).unwrap()).collect();
    assert_eq!(plan.run_many(&e, &xs).unwrap(), singles);
}

#[test]
fn refuses_other_levels_scales_and_primes_than_planned() {
    let spec = cosine(26, 3);
    let level = Level(23);
    let scale = scale(&spec, Level(23));
    let plan = spec.plan(&chain(), level, scale, out()).unwrap();
    let e = sim::Evaluator::new(LOG_N, chain());
    let encrypt = |level, scale| e.encrypt(&[Complex::from(1.0)], level, scale).unwrap();
    let higher = plan.run(&e, &encrypt(TOP, scale)).unwrap();
    assert_eq!(higher.level, Level(15));
    let found = plan.run(&e, &encrypt(Level(22), scale));
    assert_eq!(found, Err(Error::LevelOutOfRange { found: level, max: Level(22) }));
    let found = plan.run(&e, &encrypt(level, Scale::from_log2(46.0)));
    assert!(matches!(found, Err(Error::ScaleMismatch { op: OP, .. })));
    let log2_q = (0..=24).map(|level| 50.0 + 50.0 * f64::from(level)).collect();
    let foreign = Chain::new(vec![Scale::from_log2(50.0); 24], log2_q);
    let foreign = sim::Evaluator::new(LOG_N, foreign);
    let x = foreign.encrypt(&[Complex::from(1.0)], level, scale).unwrap();
    assert!(matches!(plan.run(&foreign, &x), Err(Error::Circuit(_))));
}

#[test]
fn refuses_absurd_scales_and_specifications() {
    let spec = cosine(30, 3);
    let plan = |log2_out: f64| {
        let out = Scale::from_log2(log2_out);
        spec.plan(&chain(), TOP, scale(&spec, TOP), out).map(|_| ())
    };
    assert_eq!(plan(38.0), Ok(()));
    assert!(matches!(plan(10.0), Err(Error::Circuit(_))));
    assert!(matches!(plan(-300.0), Err(Error::Circuit(_))));
    assert!(matches!(plan(800.0), Err(Error::ScaleOutOfRange { .. })));
    assert!(matches!(plan(f64::NAN), Err(Error::ScaleOutOfRange { .. })));
    let found = spec.plan(&chain(), Level(25), out(), out()).map(|_| ());
    assert_eq!(found, Err(Error::LevelOutOfRange { found: Level(25), max: TOP }));
    for bad in [
        cosine(1, 3),
        cosine(512, 3),
        cosine(usize::MAX, 3),
        cosine(30, 17),
        exponential(0, 8),
        exponential(512, 8),
        exponential(7, 33),
        EvalModSpec { k: 4097, ..spec },
        EvalModSpec { log2_ratio: 1.9, ..spec },
        EvalModSpec { log2_ratio: 41.0, ..spec },
        EvalModSpec { log2_ratio: f64::NAN, ..spec },
        EvalModSpec { inverse_sine: Some(0), ..spec },
        EvalModSpec { inverse_sine: Some(4), ..spec },
        EvalModSpec { inverse_sine: Some(65), ..spec },
    ] {
        assert!(matches!(bad.depth(), Err(Error::Circuit(_))), "{bad:?}");
        let found = bad.plan(&chain(), TOP, out(), out());
        assert!(matches!(found, Err(Error::Circuit(_))), "{bad:?}");
    }
    let wild = EvalModSpec { k: 1024, ..exponential(511, 0) };
    assert!(matches!(wild.depth(), Err(Error::NotFinite { .. })));
}
