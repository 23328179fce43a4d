//! Table 2's functions on encrypted slots.

use crate::session::Session;
use sudare::{
    ckks::{self, Params, Spec},
    rlwe::KeyRequest,
};
use sudare_apps::functions::{self, Fit};

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
        let plain = s.encoder.encode_real(&xs, plan.level(), plan.scale()).unwrap();
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
    let (gap, fit) = (0.04, Fit::PrecisionBits(8.0));
    let compare = functions::compare(-1.0..1.0, gap, fit).unwrap();
    let maximum = functions::maximum(-1.0..1.0, Fit::PrecisionBits(10.0)).unwrap();
    let s = Session::new(params.clone(), &KeyRequest::new().relinearize(params.top()));
    let xs: Vec<f64> = (0..1024).map(|i| f64::from(i * 389 % 1024) / 512.0 - 1.0).collect();
    let ys: Vec<f64> = (0..1024).map(|i| f64::from(i * 173 % 1024) / 511.5 - 1.0).collect();
    let encrypt = |values: &[f64]| {
        let top = params.top();
        let plain = s.encoder.encode_real(values, top, params.scale_at(top)).unwrap();
        s.encryptor.encrypt(&plain).unwrap()
    };
    for f in [compare, maximum] {
        assert!(f.of_difference().stages().len() > 1);
        let plan = f.plan_at(&params, params.top()).unwrap();
        let y = plan.run(&s.evaluator, &encrypt(&xs), &encrypt(&ys)).unwrap();
        assert_eq!((y.level(), y.scale()), (plan.output_level(), plan.output_scale()));
        let found = s.encoder.decode_real(&s.decryptor.decrypt(&y).unwrap()).unwrap();
        for ((&x, &y), found) in xs.iter().zip(&ys).zip(found) {
            // Noise of 2^-25 or so, steepened by the function.
            assert!((f.evaluate(x, y) - found).abs() < 1e-5, "{x} {y} {found}");
            if (x - y).abs() >= f.of_difference().gap() {
                let error = (f.exact(x, y) - found).abs();
                assert!(error < f.of_difference().max_error() + 1e-5, "{x} {y} {error}");
            }
        }
    }
}
