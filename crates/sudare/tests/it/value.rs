//! Formulas on values are what the same formulas are on numbers, in every scheme and in simulation.

use crate::session::{Session, rows};
use std::sync::{Arc, LazyLock};
use sudare::{
    Error, Value, bfv, bgv,
    circuits::{
        ckks::{ComplexOps, sim},
        exact::{self as exact_circuits, IntegerOps},
    },
    ckks::{self, Complex},
    rlwe::{KeyGenerator, KeyRequest, Level},
};

fn params(levels: usize) -> ckks::Params {
    let spec = ckks::Spec::uniform(6, 52.0, levels, 40.0, vec![52.0, 41.0]);
    ckks::Params::new(ckks::Spec { insecure: true, ..spec }).unwrap()
}

/// Keys for the formula of the tests, and no others.
static CKKS: LazyLock<Session> = LazyLock::new(|| {
    let params = params(3);
    let (request, _) = simulated(&params, formula);
    Session::new(params, &request)
});

type Formula<E> = for<'e> fn(&Value<'e, E>, &Value<'e, E>) -> Value<'e, E>;

/// Every operator, with operands of all levels.
fn formula<'e, E: ComplexOps>(x: &Value<'e, E>, y: &Value<'e, E>) -> Value<'e, E> {
    let mut z = x * x * x + x * y - 0.25 * x;
    z += y * y;
    z -= x;
    z *= 3.0 - y;
    (z + 1.0 - (2.0 - x) * 2.0 + -y * -1.5).rotate(1) + x.add_real(&[0.5, 1.5]).conjugate()
}

fn on_numbers(x: &[f64], y: &[f64]) -> Vec<f64> {
    let slot = |i: usize| {
        let x = x[i % x.len()];
        let y = y[i % y.len()];
        let z = (x * x * x + x * y - 0.25 * x + y * y - x) * (3.0 - y);
        z + 1.0 - (2.0 - x) * 2.0 + y * 1.5
    };
    let added = [0.5, 1.5, 0.0, 0.0];
    (0..x.len()).map(|i| slot(i + 1) + x[i] + added[i]).collect()
}

const X: [f64; 4] = [0.5, -1.25, 1.0, -0.75];
const Y: [f64; 4] = [1.5, 0.25, -1.0, -0.5];

/// Keys and slots of a formula, in simulation.
fn simulated(
    params: &ckks::Params,
    f: Formula<sim::Evaluator>,
) -> (KeyRequest, sudare::Result<sim::Ciphertext>) {
    let e = sim::Evaluator::for_params(params);
    let fresh = |values: [f64; 4]| {
        let slots = values.map(|x| Complex::new(x, 0.0));
        let top = params.top();
        Value::new(&e, e.encrypt(&slots, top, params.scale_at(top)).unwrap())
    };
    let found = f(&fresh(X), &fresh(Y)).into_ciphertext();
    (e.used_keys(), found)
}

fn encrypted(s: &Session, values: &[f64]) -> ckks::Ciphertext {
    s.encryptor.encrypt(&s.encoder.encode_real(values).unwrap()).unwrap()
}

#[test]
fn a_formula_is_the_same_on_numbers_in_simulation_and_encrypted() {
    let s = &*CKKS;
    let [x, y] = [X, Y].map(|values| Value::new(&s.evaluator, encrypted(s, &values)));
    let z = formula(&x, &y).into_ciphertext().unwrap();
    let found = s.encoder.decode_real(&s.decryptor.decrypt(&z).unwrap()).unwrap();
    let expected = on_numbers(&X, &Y);
    let clear = simulated(&s.params, formula).1.unwrap();
    assert_eq!((z.level(), clear.level), (Level(0), Level(0)));
    assert!(z.scale().matches(clear.scale));
    for (i, expected) in expected.into_iter().enumerate() {
        assert!((found[i] - expected).abs() < 1e-5, "{i}: {} for {expected}", found[i]);
        assert!((clear.slots[i].re - expected).abs() < 1e-12, "{i}");
    }
}

/// Powers of one level have one scale, as the evaluator itself gives it to products of one level.
#[test]
fn powers_are_the_evaluators() {
    let s = &*CKKS;
    let e = &s.evaluator;
    let a = encrypted(s, &X);
    let x = Value::new(e, a.clone());
    let square = e.mul_rescale(&a, &a).unwrap();
    let found = (&x * &x).into_ciphertext().unwrap();
    assert_eq!(rows(&found), rows(&square));
    let sum = (&x * &x + &x).into_ciphertext().unwrap();
    assert_eq!(rows(&sum), rows(&e.add(&square, &a).unwrap()));
    let fourth = (&x * &x) * (&x * &x);
    let cube = &x * &x * &x;
    let [fourth, cube] = [fourth, cube].map(|value| value.into_ciphertext().unwrap());
    assert!(fourth.level() == cube.level() && fourth.scale().matches(cube.scale()));
    let low = e.match_scale(&a, square.level(), square.scale()).unwrap();
    assert_eq!(rows(&cube), rows(&e.mul_rescale(&square, &low).unwrap()));
    // Integers cost no level, other numbers cost one.
    let levels = [&x * 3.0, -&x, 3.0 - &x, &x * 0.5, x.mul_real(&[1.0])]
        .map(|value| value.into_ciphertext().unwrap().level().0);
    assert_eq!(levels, [3, 3, 3, 2, 2]);
    let run = x.apply(|e, a| e.rotate(a, 0)).into_ciphertext().unwrap();
    assert_eq!(rows(&run), rows(&a));
}

#[test]
fn the_first_error_comes_out_with_its_place() {
    let s = &*CKKS;
    let x = Value::new(&s.evaluator, encrypted(s, &X));
    let few = Value::new(&s.evaluator, encrypted(s, &X[..2]));
    let line = line!() + 1;
    let failed = (&x * &x + &few) * &x + x.rotate(3);
    assert!(format!("{failed:?}").contains("slots"), "{failed:?}");
    let error = failed.clone().into_ciphertext().unwrap_err();
    let Error::Expression { op, at, ref source } = error else { panic!("{error}") };
    assert_eq!((op, at.line(), at.column()), ("add", line, 18));
    assert!(at.file().ends_with("value.rs"));
    assert_eq!(**source, Error::SlotMismatch { op: "add", found: 2, expected: 4 });
    let words = error.to_string();
    assert!(words.starts_with(&source.to_string()) && words.contains("(in \"add\" at "), "{words}");
    // Later operations do not change the first error, on either side.
    assert_eq!((&x - &failed).into_ciphertext().unwrap_err(), error);
    assert_eq!((2.0 - &failed).rotate(1).into_ciphertext().unwrap_err(), error);

    let source = |value: Value<'_, ckks::Evaluator>| match value.into_ciphertext() {
        Err(Error::Expression { source, .. }) => *source,
        other => panic!("{other:?}"),
    };
    assert!(matches!(source(x.rotate(3)), Error::MissingGaloisKey { .. }));
    assert!(matches!(source(&x * f64::NAN), Error::NotFinite { .. }));
    let deep = &x * &x * &x * &x * &x;
    assert!(matches!(source(deep), Error::LevelExhausted { .. }));
    assert_eq!(source(x.add_real(&[0.0; 5])), Error::TooManySlots { found: 5, slots: 4 });
    // Another evaluator, of the same key or of another.
    let copy = s.evaluator.clone();
    let other = Value::new(&copy, encrypted(s, &X));
    assert!(
        matches!(source(&x + &other), Error::Circuit(problem) if problem.contains("evaluator"))
    );
    let stranger = Session::new(params(3), &KeyRequest::new().relinearize(Level(3)));
    let foreign = Value::new(&s.evaluator, encrypted(&stranger, &X));
    assert!(matches!(source(&x + &foreign), Error::KeyMismatch { .. }));
}

/// Every operator on integers, with small and large constants.
fn integer_formula<'e, E: IntegerOps>(
    x: &Value<'e, E>,
    y: &Value<'e, E>,
    mask: &bgv::PlainPoly,
) -> Value<'e, E> {
    let mut z = x * x * x + x * y - 3 * x;
    z += y * y;
    z *= 5 - y;
    (z - -x * 100).rescale() + x.mul_plain(mask).add_plain(mask).rotate(1)
}

#[test]
fn a_formula_of_integers_is_exact_in_both_schemes() {
    let t = bgv::Modulus::new(65537, 1).unwrap();
    let spec = bgv::Spec::uniform(6, t, 60.0, 5, 50.0, vec![58.0; 2]);
    let params = bgv::Params::new(bgv::Spec { insecure: true, ..spec }).unwrap();
    let encoder = bgv::BatchEncoder::new(t, 6).unwrap();
    let x: Vec<i128> = (0..64).map(|i| i * 37 % 201 - 100).collect();
    let y: Vec<i128> = (0..64).map(|i| i * 11 % 91 - 45).collect();
    let m: Vec<i128> = (0..64).map(|i| i % 2).collect();
    let mask = encoder.encode(&m).unwrap();

    // The simulator knows the keys before any exists.
    let e = exact_circuits::sim::Evaluator::new(&params, &KeyRequest::new());
    let top = params.top();
    let form = e.encrypt(top, params.fresh_factor(top, t).unwrap()).unwrap();
    let value = Value::new(&e, form);
    let simulated = integer_formula(&value, &value, &mask).into_ciphertext().unwrap();

    let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = Arc::new(keygen.secret_key().unwrap());
    let public = keygen.public_key(&secret).unwrap();
    let keys = Arc::new(keygen.evaluation_keys(&secret, &e.used_keys()).unwrap());
    let encryptor = bgv::Encryptor::new(&params, public).unwrap();
    let decryptor = bgv::Decryptor::new(&params, secret).unwrap();
    let [a, b] =
        [&x, &y].map(|values| encryptor.encrypt(&encoder.encode(values).unwrap()).unwrap());

    let rotated = |values: &[i128], i: usize| values[i / 32 * 32 + (i + 1) % 32];
    let expected: Vec<i128> = (0..64)
        .map(|i| {
            let z = (x[i].pow(3) + x[i] * y[i] - 3 * x[i] + y[i] * y[i]) * (5 - y[i]);
            let masked: Vec<_> = x.iter().zip(&m).map(|(x, m)| x * m + m).collect();
            t.centered(t.reduce_i128(z + x[i] * 100 + rotated(&masked, i)))
        })
        .collect();
    let open = |z: &bgv::Ciphertext| encoder.decode(&decryptor.decrypt(z).unwrap()).unwrap();

    let e = bgv::Evaluator::new(&params, Arc::clone(&keys)).unwrap();
    let [x, y] = [&a, &b].map(|a| Value::new(&e, a.clone()));
    let z = integer_formula(&x, &y, &mask).into_ciphertext().unwrap();
    assert_eq!((z.form(), z.level()), (simulated, Level(1)));
    assert_eq!(open(&z), expected);
    // A factor too large for a level is refused, with the remedy.
    let mut large = x.clone();
    while large.clone().into_ciphertext().is_ok() {
        large *= 30_000;
    }
    let error = large.into_ciphertext().unwrap_err();
    assert!(error.to_string().contains("rescale first"), "{error}");

    let e = bfv::Evaluator::new(&params, keys).unwrap();
    let [x, y] = [&a, &b].map(|a| Value::new(&e, a.clone()));
    let z = integer_formula(&x, &y, &mask).into_ciphertext().unwrap();
    assert_eq!(open(&z), expected);
}
