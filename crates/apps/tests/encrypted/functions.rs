//! Table 2's functions on encrypted slots.

use crate::session::Session;
use sudare::{
    circuits::ckks::{ComplexOps, bootstrap, sim},
    ckks::{self, Params, Spec},
    rlwe::{KeyRequest, Level},
};
use sudare_apps::{
    array::{self, Array, Engine, Layout, PlainArray},
    functions::{self, Fit, Function, Noise},
};

#[test]
fn functions_of_8192_slots_have_32_bits_of_precision() {
    let params = Params::new(ckks::preset("functions-n14").unwrap().spec).unwrap();
    assert!(params.rlwe().security_bits() >= 128.0);
    assert_eq!(params.max_slots(), 1 << 13);
    let fs = functions::table_2().unwrap();
    let plans: Vec<_> = fs.iter().map(|f| f.plan(&params).unwrap()).collect();
    let mut request = KeyRequest::new();
    for plan in &plans {
        request |= plan.required_keys();
    }
    let s = Session::new(params, &request);
    for (f, plan) in fs.iter().zip(&plans) {
        let interval = f.interval();
        let last = (s.params.max_slots() - 1) as f64;
        let xs: Vec<f64> = (0..s.params.max_slots())
            .map(|i| interval.start + (interval.end - interval.start) * (i as f64 / last))
            .collect();
        let plain = s.encoder.encode_real_at(&xs, plan.level(), plan.scale()).unwrap();
        let x = s.encryptor.encrypt(&plain).unwrap();
        let y = plan.run(&s.evaluator, &x).unwrap();
        assert_eq!(y.level(), plan.output_level());
        let found = s.encoder.decode_real(&s.decryptor.decrypt(&y).unwrap()).unwrap();
        let largest = |expected: &dyn Fn(f64) -> f64| {
            let errors = xs.iter().zip(&found).map(|(&x, y)| (expected(x) - y).abs());
            errors.fold(0.0, f64::max)
        };
        let evaluation = largest(&|x| f.evaluate(x));
        let bits = -evaluation.log2();
        assert!(bits >= 32.0, "{}: {bits:.1} bits", f.name());
        assert!(largest(&|x| f.exact(x)) <= f.max_error() * 1.001 + evaluation);
    }
}

/// A composition of polynomials of two ciphertexts, from and to the default scales of a
/// chain.
#[test]
fn comparisons_are_sharp_outside_their_gap() {
    let spec = Spec::uniform(11, 50.0, 13, 40.0, vec![50.0; 3]);
    let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
    let gap = 0.04;
    let fit = Fit::PrecisionBits(8.0);
    let compare = functions::compare(-1.0..1.0, gap, fit).unwrap();
    let maximum = functions::maximum(-1.0..1.0, Fit::PrecisionBits(10.0)).unwrap();
    let [compare, maximum] = [compare, maximum].map(|f| {
        assert!(f.of_difference().stages().len() > 1);
        let plan = f.plan_at(&params, params.top()).unwrap();
        (f, plan)
    });
    let mut request = compare.1.required_keys().clone();
    request |= maximum.1.required_keys();
    let s = Session::new(params.clone(), &request);
    let xs: Vec<f64> = (0..1024).map(|i| f64::from(i * 389 % 1024) / 512.0 - 1.0).collect();
    let ys: Vec<f64> = (0..1024).map(|i| f64::from(i * 173 % 1024) / 511.5 - 1.0).collect();
    let encrypt = |values: &[f64]| {
        let top = params.top();
        let plain = s.encoder.encode_real_at(values, top, params.scale_at(top)).unwrap();
        s.encryptor.encrypt(&plain).unwrap()
    };
    for (f, plan) in [compare, maximum] {
        let y = plan.run(&s.evaluator, &encrypt(&xs), &encrypt(&ys)).unwrap();
        assert_eq!((y.level(), y.scale()), (plan.output_level(), plan.output_scale()));
        let found = s.encoder.decode_real(&s.decryptor.decrypt(&y).unwrap()).unwrap();
        for ((&x, &y), found) in xs.iter().zip(&ys).zip(found) {
            // Noise of about 2^-25, times the slope of the function.
            assert!((f.evaluate(x, y) - found).abs() < 1e-5, "{x} {y} {found}");
            if (x - y).abs() >= f.of_difference().gap() {
                let error = (f.exact(x, y) - found).abs();
                assert!(error < f.of_difference().max_error() + 1e-5, "{x} {y} {error}");
            }
        }
    }
}

/// Values at both ends of an interval and everywhere in it.
fn ends_and_inside(interval: &core::ops::Range<f64>, gap: f64, count: u32) -> Vec<f64> {
    let core::ops::Range { start, end } = *interval;
    let value = |i: u32| match i % 4 {
        0 => start,
        1 => end,
        // Next to the gap and to 0, and near the ends.
        2 => gap.max(f64::from(i) * 1e-6) * if i % 8 < 4 { 1.0 } else { -1.0 },
        _ => start + (end - start) * f64::from(i) / f64::from(count),
    };
    (0..count).map(value).filter(|x| x.abs() >= gap && (start..=end).contains(x)).collect()
}

/// A chain of as many levels as this takes, in a ring that is too small to be secure.
fn deep(levels: u32) -> Params {
    let levels = levels as usize;
    let spec = Spec::uniform(10, 50.0, levels, 40.0, vec![60.0; levels.div_ceil(6)]);
    Params::new(Spec { insecure: true, ..spec }).unwrap()
}

/// The steepest functions that there are: each polynomial multiplies imaginary parts of noise by some
/// hundred.
#[test]
fn sharp_functions_keep_the_error_that_they_state() {
    let bits = Fit::PrecisionBits;
    for f in [
        functions::abs(-1.0..1.0, bits(16.0)).unwrap(),
        functions::abs(-1.0..1.0, bits(28.0)).unwrap(),
        functions::relu(-3.0..3.0, bits(20.0)).unwrap(),
        functions::sign(-1.0..1.0, 1e-4, bits(16.0)).unwrap(),
        functions::step(-2.0..2.0, 2e-6, bits(24.0)).unwrap(),
    ] {
        let params = deep(f.depth() + 1);
        for plan in [f.plan(&params).unwrap(), f.plan_at(&params, params.top()).unwrap()] {
            let s = Session::new(params.clone(), plan.required_keys());
            let xs = ends_and_inside(&f.interval(), f.gap(), 512);
            let plain = s.encoder.encode_real_at(&xs, plan.level(), plan.scale()).unwrap();
            let y = plan.run(&s.evaluator, &s.encryptor.encrypt(&plain).unwrap()).unwrap();
            let found = s.encoder.decode_real(&s.decryptor.decrypt(&y).unwrap()).unwrap();
            // A result in [-1, 1] could not show an overflow at 1.
            let stated = f.stated_error(Noise::fresh(10, params.scale_at(params.top())));
            assert!(stated < 1.1 * f.max_error() + 1e-6, "{}: {stated:e}", f.name());
            for (x, found) in xs.iter().zip(found) {
                let error = (f.exact(*x) - found).abs();
                assert!(error <= stated, "{} of {x}: {error:e}, {stated:e} stated", f.name());
            }
        }
    }
}

/// Arrays that were computed, encrypted and in simulation.
fn of_products<E: ComplexOps>(engine: &Engine<'_, E>, x: &Array<E>, f: &Function) -> Array<E> {
    let twice = engine.square(&engine.square(x).unwrap()).unwrap();
    engine.function(&twice, f).unwrap()
}

#[test]
fn functions_of_computed_arrays_keep_the_error_that_they_state() {
    let bits = Fit::PrecisionBits;
    for f in [
        functions::abs(-1.0..1.0, bits(7.0)).unwrap(),
        functions::abs(-1.0..1.0, bits(20.0)).unwrap(),
        functions::inverse(0.05..1.0, Fit::Degree(127)).unwrap(),
        functions::sqrt(0.0..1.0, Fit::Degree(255)).unwrap(),
    ] {
        let params = deep(f.depth() + 4);
        let xs: Vec<f64> = (0..512).map(|i| 0.48 + 0.52 * f64::from(i % 129) / 128.0).collect();
        let x = PlainArray::new(&[512], xs.clone());
        let layout = Layout::new(&[512], 9).unwrap();
        let e = sim::Evaluator::for_params(&params);
        let engine = Engine::new(&e, &params, None).unwrap();
        let top = params.top();
        let simulated = array::simulate_encryption(&e, &params, &layout, &x, top).unwrap();
        let simulated = of_products(&engine, &simulated, &f);
        let s = Session::new(params.clone(), &e.used_keys());
        let engine = Engine::new(&s.evaluator, &params, None).unwrap();
        let encrypted = array::encrypt(&s.encryptor, &params, &layout, &x, top).unwrap();
        let y = of_products(&engine, &encrypted, &f);
        assert_eq!(y.level(), simulated.level());
        let found = array::decrypt(&s.decryptor, &params, &y).unwrap();
        // Two squares double the noise twice.
        let Noise { argument, between } = Noise::fresh(10, params.scale_at(top));
        let stated = f.stated_error(Noise { argument: 4.0 * argument, between });
        for (x, found) in xs.iter().zip(found.values) {
            let error = (f.exact(x.powi(4)) - found).abs();
            assert!(error <= stated, "{} of {x}: {error:e}, {stated:e} stated", f.name());
        }
    }
}

/// The least precise set: polynomials have more room between them, and what has none is refused.
#[test]
fn functions_between_imprecise_bootstrappings_are_right_or_refused() {
    let set = bootstrap::preset("n16-boot-fast").unwrap();
    let log_n = 9;
    let spec = Spec { log_n, insecure: true, ..set.preset.spec.clone() };
    let params = Params::new(spec).unwrap();
    let few = set.bootstrap.with_log_slots(log_n - 1);
    let tops = (params.top().0..=params.upper_top().0).rev().map(Level);
    let plan = tops.filter_map(|top| few.plan(&params, top).ok()).next().unwrap();
    let plan = plan.with_precision(set.precision_bits);
    let mut request = array::general_keys(&params, plan.output_level());
    request |= plan.required_keys();
    let s = Session::new(params.clone(), &request);
    let bootstrapper = plan.prepare(&s.evaluator).unwrap();
    let engine = Engine::new(&s.evaluator, &params, Some(&bootstrapper)).unwrap();
    let level = engine.highest_level();
    let slots = 1 << (log_n - 1);
    let xs = ends_and_inside(&(-1.0..1.0), 0.0, slots);
    let x = PlainArray::new(&[xs.len()], xs.clone());
    let layout = Layout::new(&[xs.len()], 8).unwrap();
    let fit = Fit::PrecisionBits(16.0);
    let noise = Noise::fresh(log_n, params.scale_at(level)).bootstrapped(plan.largest_error());
    for f in [
        functions::abs(-1.0..1.0, Fit::Degree(30)).unwrap(),
        functions::sigmoid(-1.0..1.0, fit).unwrap(),
        functions::sign(-1.0..1.0, 0.2, Fit::PrecisionBits(8.0)).unwrap(),
    ] {
        let x = array::encrypt(&s.encryptor, &params, &layout, &x, level).unwrap();
        let y = engine.function(&engine.refresh(&x).unwrap(), &f).unwrap();
        let found = array::decrypt(&s.decryptor, &params, &y).unwrap();
        let stated = f.for_noise(noise).unwrap().stated_error(noise);
        assert!(stated < 0.025, "{} {stated:e}", f.name());
        for (x, found) in xs.iter().zip(found.values).filter(|(x, _)| x.abs() >= f.gap()) {
            let error = (f.exact(*x) - found).abs();
            assert!(error <= stated, "{} of {x}: {error:e}, {stated:e} stated", f.name());
        }
    }
    let x = array::encrypt(&s.encryptor, &params, &layout, &x, level).unwrap();
    for (f, remedy) in [
        (functions::sign(-1.0..1.0, 1e-4, fit), "a wider gap"),
        (functions::abs(-1.0..1.0, fit), "fewer bits"),
        (functions::relu(-1.0..1.0, fit), "fewer bits"),
        (functions::abs(-1.0..1.0, Fit::Degree(254)), "a lower degree"),
    ] {
        let refused = engine.function(&x, &f.unwrap()).unwrap_err();
        assert!(refused.to_string().contains(remedy), "{refused}");
    }
}
