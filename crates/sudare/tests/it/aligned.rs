//! Sums of ciphertexts of different levels, scales and factors are right without any adjustment,
//! and refused where no product can adjust them.

use crate::session::{Session, rows};
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};
use sudare::{
    Error, bfv, ckks,
    exact::{self, BatchEncoder, Modulus, Unit},
    rlwe::{KeyGenerator, KeyRequest, Level},
};

const VALUES: [f64; 4] = [0.5, -1.25, 2.0, -0.75];

static CKKS: LazyLock<Session> = LazyLock::new(|| {
    let spec = ckks::Spec::uniform(6, 52.0, 4, 40.0, vec![52.0, 41.0]);
    let params = ckks::Params::new(ckks::Spec { insecure: true, ..spec }).unwrap();
    let request = KeyRequest::new().relinearize(params.top());
    Session::new(params, &request)
});

impl Session {
    #[track_caller]
    fn assert_holds(&self, a: &ckks::Ciphertext, expected: impl Fn(f64) -> f64) {
        let found = self.encoder.decode_real(&self.decryptor.decrypt(a).unwrap()).unwrap();
        for (x, found) in VALUES.into_iter().zip(found) {
            let expected = expected(x);
            assert!((found - expected).abs() < 1e-7, "{x}: {found} for {expected}");
        }
    }
}

#[test]
fn a_square_and_its_root_are_summed() {
    let s = &*CKKS;
    let e = &s.evaluator;
    let x = s.encryptor.encrypt(&s.encoder.encode_real(&VALUES).unwrap()).unwrap();
    let square = e.mul_rescale(&x, &x).unwrap();
    assert!(!square.scale().matches(x.scale()));
    let sums = [
        (e.add(&square, &x).unwrap(), 1.0, 1.0),
        (e.add(&x, &square).unwrap(), 1.0, 1.0),
        (e.sub(&square, &x).unwrap(), 1.0, -1.0),
        (e.sub(&x, &square).unwrap(), -1.0, 1.0),
    ];
    for (sum, squares, roots) in &sums {
        assert_eq!((sum.level(), sum.scale()), (square.level(), square.scale()));
        s.assert_holds(sum, |x| squares * x * x + roots * x);
    }
    for (mut a, b) in [(x.clone(), &square), (square.clone(), &x)] {
        e.add_assign(&mut a, b).unwrap();
        assert_eq!((a.level(), a.scale()), (square.level(), square.scale()));
        assert_eq!(rows(&a), rows(&sums[0].0));
        s.assert_holds(&a, |x| x * x + x);
    }
    // More than one level apart, with a scale that a product with 1 rescales exactly.
    let fourth = e.mul_rescale(&square, &square).unwrap();
    s.assert_holds(&e.add(&x, &fourth).unwrap(), |x| x.powi(4) + x);
    let large = e.mul(&x, &x).unwrap();
    s.assert_holds(&e.add(&large, &square).unwrap(), |x| 2.0 * x * x);
    // Equal scales only drop primes, as before.
    let low = e.drop_to(&x, Level(1)).unwrap();
    let sum = e.add(&x, &low).unwrap();
    assert_eq!(rows(&sum), rows(&e.add(&low, &low).unwrap()));
}

/// At one level nothing is left for a product that changes a scale.
#[test]
fn scales_of_one_level_are_refused() {
    let s = &*CKKS;
    let e = &s.evaluator;
    let x = s.encryptor.encrypt(&s.encoder.encode_real(&VALUES).unwrap()).unwrap();
    let square = e.mul_rescale(&x, &x).unwrap();
    let fourth = e.mul_rescale(&square, &square).unwrap();
    let cube = e.mul_rescale(&square, &x).unwrap();
    assert_eq!(cube.level(), fourth.level());
    let error = e.add(&fourth, &cube).unwrap_err();
    let levels = Some([Level(2); 2]);
    assert!(matches!(error, Error::ScaleMismatch { op: "add", levels: l, .. } if l == levels));
    let words = error.to_string();
    assert!(words.contains("at level 2") && words.contains("by a factor of 1 + "), "{words}");
}

const T: u64 = 257;

struct Integers {
    params: exact::Params,
    encoder: BatchEncoder,
    encryptor: exact::Encryptor,
    bgv: exact::Evaluator,
    bfv: bfv::Evaluator,
    decryptor: exact::Decryptor,
}

static INTEGERS: LazyLock<Integers> = LazyLock::new(|| {
    let t = Modulus::new(T, 1).unwrap();
    let spec = exact::Spec::uniform(6, t, 50.0, 4, 45.0, vec![52.0; 2]);
    let params = exact::Params::new(exact::Spec { insecure: true, ..spec }).unwrap();
    let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
    let secret = Arc::new(keygen.secret_key().unwrap());
    let public = Arc::new(keygen.public_key(&secret).unwrap());
    let request = KeyRequest::new().relinearize(params.top());
    let keys = Arc::new(keygen.evaluation_keys(&secret, &request).unwrap());
    Integers {
        encoder: BatchEncoder::new(t, 6).unwrap(),
        encryptor: exact::Encryptor::new(&params, public).unwrap(),
        bgv: exact::Evaluator::new(&params, Arc::clone(&keys)).unwrap(),
        bfv: bfv::Evaluator::new(&params, keys).unwrap(),
        decryptor: exact::Decryptor::new(&params, secret).unwrap(),
        params,
    }
});

fn centered(x: i128) -> i128 {
    let t = i128::from(T);
    (x + t / 2).rem_euclid(t) - t / 2
}

impl Integers {
    fn open(&self, a: &exact::Ciphertext) -> Vec<i128> {
        self.encoder.decode(&self.decryptor.decrypt(a).unwrap()).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// For any levels and factors, with either product.
    #[test]
    fn integers_are_summed_whatever_their_factors(
        x in prop::collection::vec(-128i128..=128, 64),
        y in prop::collection::vec(-128i128..=128, 64),
        levels in [0u32..=4, 0u32..=4],
        factors in [1u128..257, 1u128..257],
    ) {
        let s = &*INTEGERS;
        let t = s.params.plaintext_modulus();
        let [a, b] = [(&x, 0), (&y, 1)].map(|(values, i)| {
            let factor = Unit::new(factors[i], t).unwrap();
            let plain = s.encoder.encode(values).unwrap();
            s.encryptor.encrypt_at(&plain, Level(levels[i]), factor).unwrap()
        });
        let sum: Vec<_> = x.iter().zip(&y).map(|(x, y)| centered(x + y)).collect();
        let difference: Vec<_> = x.iter().zip(&y).map(|(x, y)| centered(x - y)).collect();
        for (add, sub) in [(s.bgv.add(&a, &b), s.bgv.sub(&a, &b)), (s.bfv.add(&a, &b), s.bfv.sub(&a, &b))] {
            let add = add.unwrap();
            prop_assert_eq!(add.level(), Level(levels[0].min(levels[1])));
            prop_assert_eq!(s.open(&add), sum.clone());
            prop_assert_eq!(s.open(&sub.unwrap()), difference.clone());
        }
    }
}

#[test]
fn a_square_and_its_root_are_summed_as_integers() {
    let s = &*INTEGERS;
    let x: Vec<i128> = (0..64).map(|i| i % 31 - 15).collect();
    let a = s.encryptor.encrypt(&s.encoder.encode(&x).unwrap()).unwrap();
    let expected: Vec<_> = x.iter().map(|x| centered(x * x + x)).collect();
    let bgv = s.bgv.mul_rescale(&a, &a).unwrap();
    assert_eq!(s.open(&s.bgv.add(&bgv, &a).unwrap()), expected);
    // Without rescaling, at one level.
    let unscaled = s.bgv.mul(&a, &a).unwrap();
    assert_eq!(s.open(&s.bgv.add(&unscaled, &a).unwrap()), expected);
    let bfv = s.bfv.mul_rescale(&a, &a).unwrap();
    assert_eq!(s.open(&s.bfv.add(&a, &bfv).unwrap()), expected);
    // Products of BGV and of BFV have different factors.
    let both: Vec<_> = x.iter().map(|x| centered(2 * x * x)).collect();
    assert_eq!(s.open(&s.bfv.add(&bgv, &bfv).unwrap()), both);
}
