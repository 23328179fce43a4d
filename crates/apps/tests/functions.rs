//! Table 2's functions on encrypted slots.
#![expect(clippy::unwrap_used, reason = "a test may fail this way")]

#[path = "../../sudare/tests/session/mod.rs"]
mod session;

use session::Session;
use sudare::{
    ckks::{self, Params},
    rlwe::KeyRequest,
};
use sudare_apps::functions;

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
        let evaluation = largest(&|x| f.polynomial().evaluate(x));
        let bits = -evaluation.log2();
        assert!(bits >= 32.0, "{}: {bits:.1} bits", f.name());
        assert!(largest(&|x| f.exact(x)) <= f.max_error() * 1.001 + evaluation);
    }
}
