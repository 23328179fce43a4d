//! CKKS as a user calls it, at real ring sizes.

use crate::session::Session;
use sudare::{
    Error,
    ckks::{Ciphertext, Complex, Encoder, Params, ProductSum, Scale, Spec},
    rlwe::{GaloisElement, KeyRequest, Level, SecretDistribution},
};

fn session(spec: Spec, rotations: &[i64]) -> Session {
    let params = Params::new(spec).unwrap();
    let top = params.top();
    let request = KeyRequest::new()
        .relinearize(top)
        .rotations(params.log_n(), rotations.iter().copied(), top)
        .automorphism(GaloisElement::conjugation(params.log_n()), top);
    Session::new(params, &request)
}

fn values(slots: usize, salt: f64) -> Vec<Complex<f64>> {
    (0..slots)
        .map(|i| i as f64)
        .map(|i| Complex { re: (i * 0.7 + salt).sin(), im: (i * 0.3 - salt).cos() })
        .collect()
}

/// Steps that these tests share.
trait Slots {
    fn encrypt(&self, values: &[Complex<f64>]) -> Ciphertext;
    fn precision(&self, a: &Ciphertext, expected: &[Complex<f64>]) -> f64;
}

impl Slots for Session {
    fn encrypt(&self, values: &[Complex<f64>]) -> Ciphertext {
        let top = self.params.top();
        let plain = self.encoder.encode_at(values, top, self.params.scale_at(top)).unwrap();
        self.encryptor.encrypt(&plain).unwrap()
    }

    /// `-log2` of the largest slot error.
    fn precision(&self, a: &Ciphertext, expected: &[Complex<f64>]) -> f64 {
        let found = self.encoder.decode(&self.decryptor.decrypt(a).unwrap()).unwrap();
        assert_eq!(found.len(), expected.len());
        let errors = found.iter().zip(expected).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
        -errors.fold(0.0, f64::max).log2()
    }
}

/// Chains of each kind, with the bits of precision that every operation keeps.
fn chains() -> Vec<(Spec, f64)> {
    let sparse = Spec {
        secret: SecretDistribution::FixedWeight { h: 64 },
        insecure: true,
        ..Spec::uniform(13, 50.0, 2, 40.0, vec![50.0])
    };
    let wide = Spec { insecure: true, ..Spec::uniform(13, 61.0, 3, 55.0, vec![61.0, 61.0]) };
    let mut pairs = Spec { insecure: true, ..Spec::uniform(13, 50.0, 3, 54.0, vec![49.0, 49.0]) };
    pairs.q_bits[0] = vec![35.0, 30.0];
    for level in &mut pairs.q_bits[1..] {
        *level = vec![29.0, 25.0];
    }
    vec![
        (Spec::uniform(13, 48.0, 2, 40.0, vec![48.0]), 18.0),
        (Spec::uniform(14, 50.0, 6, 40.0, vec![48.0, 48.0]), 18.0),
        (sparse, 18.0),
        (wide, 35.0),
        (pairs, 34.0),
    ]
}

#[test]
fn arithmetic_decrypts_to_the_clear_result() {
    for (spec, bits) in chains() {
        let s = session(spec.clone(), &[1, 5, -3]);
        for slots in [s.params.max_slots(), 64, 1] {
            let x = values(slots, 0.1);
            let y = values(slots, 1.3);
            let a = s.encrypt(&x);
            let b = s.encrypt(&y);
            let zip = |f: fn(Complex<f64>, Complex<f64>) -> Complex<f64>| -> Vec<_> {
                x.iter().zip(&y).map(|(&x, &y)| f(x, y)).collect()
            };
            let ev = &s.evaluator;
            let check = |name: &str, ct: &Ciphertext, expected: &[Complex<f64>]| {
                let found = s.precision(ct, expected);
                assert!(found > bits, "{name}: {found:.1} bits, {slots} slots, {spec:?}");
            };
            check("fresh", &a, &x);
            check("add", &ev.add(&a, &b).unwrap(), &zip(|x, y| x + y));
            check("sub", &ev.sub(&a, &b).unwrap(), &zip(|x, y| x - y));
            check("mul", &ev.mul(&a, &b).unwrap(), &zip(|x, y| x * y));
            let product = ev.mul_rescale(&a, &b).unwrap();
            assert_eq!(product.level(), Level(s.params.top().0 - 1));
            assert!(product.scale().matches(s.params.scale_at(product.level())));
            check("mul_rescale", &product, &zip(|x, y| x * y));
            let slow = ev.rescale(&ev.mul(&a, &b).unwrap()).unwrap();
            check("mul, rescale", &slow, &zip(|x, y| x * y));
            let conjugate: Vec<_> = x.iter().map(|v| v.conj()).collect();
            check("conjugate", &ev.conjugate(&a).unwrap(), &conjugate);
            let hoisted = ev.hoist(&a).unwrap();
            for k in [0i64, 1, 5, -3] {
                let mut expected = x.clone();
                expected.rotate_left(k.rem_euclid(slots as i64) as usize);
                if slots >= 64 {
                    check("rotate", &ev.rotate(&a, k).unwrap(), &expected);
                    check("rotate_hoisted", &ev.rotate_hoisted(&hoisted, k).unwrap(), &expected);
                }
            }
            let c = Complex { re: 0.75, im: 0.0 };
            let top = s.params.scale_at(s.params.top());
            let expected: Vec<_> = x.iter().map(|&v| v * c).collect();
            check("mul_const", &ev.mul_const(&a, c, top).unwrap(), &expected);
            let i = Complex { re: -0.5, im: 2.0 };
            let expected: Vec<_> = x.iter().map(|&v| v * i).collect();
            check("mul_const complex", &ev.mul_const(&a, i, top).unwrap(), &expected);
            let expected: Vec<_> = x.iter().map(|&v| v + i).collect();
            check("add_const", &ev.add_const(&a, i).unwrap(), &expected);
            let target = s.params.scale_at(Level(0));
            let matched = ev.match_scale(&a, Level(0), target).unwrap();
            assert!(matched.scale().matches(target));
            check("match_scale", &matched, &x);
        }
    }
}

/// Moduli beyond the range of doubles.
#[test]
fn plaintexts_of_long_chains_decode() {
    let chain = Spec::uniform(10, 50.0, 27, 45.0, vec![50.0]);
    let params = Params::new(Spec { insecure: true, ..chain }).unwrap();
    assert!(params.rlwe().log2_q(params.top()) > 1100.0);
    let encoder = Encoder::new(&params);
    let mut x = values(params.max_slots(), 0.4);
    x[3] = Complex { re: -1e9, im: 3e8 };
    for level in [27, 20, 5, 1].map(Level) {
        for log2_scale in [45.0, 60.0] {
            let plain = encoder.encode_at(&x, level, Scale::from_log2(log2_scale)).unwrap();
            let found = encoder.decode(&plain).unwrap();
            let errors = found.iter().zip(&x).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
            // NaN does not count as a small error.
            assert!(errors.clone().all(|e| e < 1e-5), "{level:?} {log2_scale}");
        }
    }
}

#[test]
fn misuse_is_a_typed_error() {
    let (spec, _) = chains().swap_remove(0);
    let s = session(spec.clone(), &[1]);
    let other = session(spec, &[1]);
    let x = values(s.params.max_slots(), 0.0);
    let a = s.encrypt(&x);
    let b = other.encrypt(&x);
    let ev = &s.evaluator;
    assert!(matches!(ev.add(&a, &b), Err(Error::KeyMismatch { .. })));
    assert!(matches!(s.decryptor.decrypt(&b), Err(Error::KeyMismatch { .. })));
    assert!(matches!(ev.rotate(&a, 2), Err(Error::MissingGaloisKey { .. })));
    let product = ev.mul(&a, &a).unwrap();
    assert!(matches!(ev.add(&a, &product), Err(Error::ScaleMismatch { .. })));
    assert!(matches!(ev.mul(&product, &product), Err(Error::ScaleOutOfRange { .. })));
    let bottom = ev.drop_to(&a, Level(0)).unwrap();
    assert!(matches!(ev.rescale(&bottom), Err(Error::LevelExhausted { .. })));
    assert!(matches!(ev.drop_to(&bottom, Level(1)), Err(Error::LevelOutOfRange { .. })));
    let few = s.encrypt(&x[..8]);
    assert!(matches!(ev.add(&a, &few), Err(Error::SlotMismatch { .. })));
    let scale = s.params.scale_at(Level(0));
    let nan = s.encoder.encode_real_at(&[1.0, f64::NAN], Level(0), scale);
    assert!(matches!(nan, Err(Error::NotFinite { index: 1, .. })));
    let large = s.encoder.encode_real_at(&[1e300], Level(0), scale);
    assert!(matches!(large, Err(Error::ValueTooLarge { .. })));
    let many = s.encoder.encode_at(&vec![Complex::default(); x.len() + 1], Level(0), scale);
    assert!(matches!(many, Err(Error::TooManySlots { .. })));
    let insecure = Params::new(Spec::uniform(13, 48.0, 5, 40.0, vec![48.0]));
    assert!(matches!(insecure, Err(Error::Insecure { .. })));
    let small = session(Spec::uniform(12, 40.0, 0, 30.0, vec![40.0]), &[]);
    let c = small.encrypt(&x[..8]);
    assert!(matches!(ev.add(&a, &c), Err(Error::ParamsMismatch { .. })));
}

#[test]
fn products_together_are_those_alone() {
    let (spec, _) = chains().swap_remove(0);
    let s = session(spec, &[]);
    let e = &s.evaluator;
    let inputs: Vec<Ciphertext> =
        (0..3).map(|salt| s.encrypt(&values(32, f64::from(salt)))).collect();
    let low = e.drop_to(&inputs[2], Level(1)).unwrap();
    let [a, b, c] = [&inputs[0], &inputs[1], &inputs[2]];
    let words = |a: &Ciphertext| -> Vec<u64> {
        a.polys().iter().flat_map(|poly| poly.rows().flatten().copied()).collect()
    };
    // An odd number, and a pair at unequal levels.
    for pairs in [vec![(a, b), (b, c), (c, c)], vec![(a, b), (c, &low)], vec![]] {
        let together = e.mul_many(&pairs).unwrap();
        let rescaled = e.mul_rescale_many(&pairs).unwrap();
        assert_eq!((together.len(), rescaled.len()), (pairs.len(), pairs.len()));
        for (((x, y), product), rescaled) in pairs.iter().zip(&together).zip(&rescaled) {
            let alone = e.mul(x, y).unwrap();
            let down = e.mul_rescale(x, y).unwrap();
            assert_eq!(words(product), words(&alone));
            assert_eq!(words(rescaled), words(&down));
            assert_eq!((product.level(), rescaled.level()), (alone.level(), down.level()));
            assert!(product.scale().matches(alone.scale()));
            assert!(rescaled.scale().matches(down.scale()));
        }
    }
}

#[test]
fn products_take_a_summand_in_one_division() {
    let (spec, _) = chains().swap_remove(0);
    let s = session(spec, &[]);
    let e = &s.evaluator;
    let [a, b] = [0.0, 1.0].map(|salt| s.encrypt(&values(32, salt)));
    let lacking = s.params.scale_at(a.level());
    let c = e.mul_const(&b, Complex { re: -3.0, im: 0.0 }, lacking).unwrap();
    let low = e.drop_to(&c, Level(1)).unwrap();
    let expected: Vec<_> = (values(32, 0.0).iter().zip(values(32, 1.0)))
        .map(|(&x, y)| x * y + y * Complex { re: -3.0, im: 0.0 })
        .collect();
    let sum = |x, y, z| ProductSum { products: vec![(x, y)], addend: Some(z) };
    let terms = [(&a, &b, &c), (&a, &b, &low), (&b, &a, &c)];
    let together = e.mul_sum_rescale_many(&terms.map(|(x, y, z)| sum(x, y, z))).unwrap();
    let separate = e.rescale(&e.add(&e.mul(&a, &b).unwrap(), &c).unwrap()).unwrap();
    for ((x, y, z), found) in terms.into_iter().zip(&together) {
        let alone = e.mul_sum_rescale(&sum(x, y, z)).unwrap();
        let mut polys = alone.polys().iter().zip(found.polys());
        assert!(polys.all(|(a, b)| a.rows().eq(b.rows())));
        let down = e.rescale(z).unwrap();
        assert!(found.level() == down.level() && found.scale().matches(down.scale()));
        // As precise as two divisions, or better.
        assert!(s.precision(found, &expected) > s.precision(&separate, &expected) - 1.0);
    }
    let unequal = e.mul_sum_rescale(&sum(&a, &b, &a));
    assert!(matches!(unequal, Err(Error::ScaleMismatch { op: "sum of products", .. })));
}

#[test]
fn sums_of_products_are_relinearised_once() {
    for (spec, _) in chains() {
        let s = session(spec, &[]);
        let e = &s.evaluator;
        let inputs: Vec<Ciphertext> =
            (0..4).map(|salt| s.encrypt(&values(32, f64::from(salt)))).collect();
        let [a, b, c, d] = [&inputs[0], &inputs[1], &inputs[2], &inputs[3]];
        let lacking = s.params.scale_at(a.level());
        let addend = e.mul_const(d, Complex { re: 2.0, im: 0.0 }, lacking).unwrap();
        let low = e.drop_to(c, Level(1)).unwrap();
        let slots = |k: usize| values(32, k as f64);
        for (products, addend, places) in [
            (vec![(a, b), (c, d)], None, vec![(0, 1), (2, 3)]),
            (vec![(a, a), (b, c), (d, &low)], Some(&addend), vec![(0, 0), (1, 2), (3, 2)]),
        ] {
            let sum = ProductSum { products, addend };
            let found = e.mul_sum_rescale(&sum).unwrap();
            let terms = places.iter().map(|&(i, j)| (slots(i), slots(j)));
            let mut expected = vec![Complex { re: 0.0, im: 0.0 }; 32];
            for (x, y) in terms {
                for ((total, x), y) in expected.iter_mut().zip(x).zip(y) {
                    *total = *total + x * y;
                }
            }
            if addend.is_some() {
                for (total, z) in expected.iter_mut().zip(slots(3)) {
                    *total = *total + z * Complex { re: 2.0, im: 0.0 };
                }
            }
            let products = sum.products.iter().map(|(x, y)| e.mul(x, y).unwrap());
            let separate = products
                .chain(addend.cloned())
                .reduce(|sum, next| e.add(&sum, &next).unwrap())
                .map(|sum| e.rescale(&sum).unwrap())
                .unwrap();
            assert!(found.level() == separate.level());
            assert!(found.scale().matches(separate.scale()));
            assert!(s.precision(&found, &expected) > s.precision(&separate, &expected) - 1.0);
            // Two images in one pass over the key, or one after the other.
            let pair = e.mul_sum_rescale_many(&[sum.clone(), sum]).unwrap();
            for twin in pair {
                assert!(twin.polys().iter().zip(found.polys()).all(|(x, y)| x.rows().eq(y.rows())));
            }
        }
        let none = e.mul_sum_rescale(&ProductSum { products: vec![], addend: Some(a) });
        assert!(matches!(none, Err(Error::Circuit(_))));
    }
}

#[test]
fn sums_of_products_with_constants_are_those_of_single_ones() {
    let (spec, _) = chains().swap_remove(0);
    let s = session(spec, &[]);
    let e = &s.evaluator;
    let a = s.encrypt(&values(32, 0.0));
    let b = s.encrypt(&values(32, 1.0));
    let b = e.drop_to(&b, Level(1)).unwrap();
    let scale = Scale::from_log2(30.0);
    let terms = [(&a, 0.75, scale), (&b, -3.0, scale), (&a, 1e-3, scale)];
    let found = e.mul_const_sum(&terms).unwrap();
    let single = terms.map(|(x, c, scale)| {
        let x = e.drop_to(x, Level(1)).unwrap();
        e.mul_const(&x, Complex { re: c, im: 0.0 }, scale).unwrap()
    });
    let [x, y, z] = &single;
    let expected = e.add(&e.add(x, y).unwrap(), z).unwrap();
    for (found, expected) in found.polys().iter().zip(expected.polys()) {
        assert!(found.rows().eq(expected.rows()));
    }
    assert!(found.level() == Level(1) && found.scale().matches(expected.scale()));

    // More sums than a group of the kernels holds.
    let rows: Vec<Vec<f64>> =
        (0..11).map(|k| (0..3).map(|i| f64::from(7 * k + 5 * i) / 16.0 - 2.0).collect()).collect();
    let sums = e.mul_const_sums(&[&a, &b, &a], &rows, scale).unwrap();
    assert_eq!(sums.len(), rows.len());
    for (found, row) in sums.iter().zip(&rows) {
        let expected =
            e.mul_const_sum(&[(&a, row[0], scale), (&b, row[1], scale), (&a, row[2], scale)]);
        let expected = expected.unwrap();
        for (found, expected) in found.polys().iter().zip(expected.polys()) {
            assert!(found.rows().eq(expected.rows()));
        }
        assert!(found.level() == Level(1) && found.scale().matches(expected.scale()));
    }
    assert!(e.mul_const_sums(&[&a], &[], scale).unwrap().is_empty());
    assert!(matches!(e.mul_const_sums(&[&a], &rows, scale), Err(Error::Circuit(_))));
    assert!(matches!(e.mul_const_sums(&[], &[vec![]], scale), Err(Error::Circuit(_))));

    let other = [(&a, 1.0, scale), (&b, 1.0, scale * scale)];
    assert!(matches!(e.mul_const_sum(&other), Err(Error::ScaleMismatch { .. })));
    assert!(matches!(e.mul_const_sum(&[]), Err(Error::Circuit(_))));
}
