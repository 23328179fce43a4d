//! Decryption is a homomorphism: the laws of slots hold for ciphertexts.

use crate::session::Session;
use proptest::prelude::*;
use std::sync::LazyLock;
use sudare::{
    Result,
    ckks::{Ciphertext, Complex, Params, Scale, Spec},
    rlwe::{GaloisElement, KeyRequest, Level, SecretDistribution},
};

type Slots = Vec<Complex<f64>>;

struct Case {
    session: Session,
    /// Slot errors allowed.
    tolerance: f64,
}

impl core::ops::Deref for Case {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.session
    }
}

impl core::fmt::Debug for Case {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.params.fmt(f)
    }
}

fn case(spec: Spec, bits: i32) -> Case {
    let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
    let log_n = params.log_n();
    let top = params.top();
    let request = KeyRequest::new()
        .relinearize(top)
        .rotations(log_n, 0..params.max_slots() as i64, top)
        .automorphism(GaloisElement::conjugation(log_n), top);
    Case { session: Session::new(params, &request), tolerance: 2f64.powi(-bits) }
}

/// One prime a level and two digits; scales that need double-double encoding; two
/// primes a level, a sparse secret and one digit; the smallest ring.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let wide = Spec::uniform(5, 61.0, 4, 55.0, vec![61.0]);
    let mut pairs = Spec {
        secret: SecretDistribution::FixedWeight { h: 16 },
        ..Spec::uniform(6, 58.0, 4, 50.0, vec![61.0; 5])
    };
    for level in &mut pairs.q_bits[1..] {
        *level = vec![26.0, 24.0];
    }
    vec![
        case(Spec::uniform(6, 50.0, 4, 40.0, vec![48.0, 60.0]), 22),
        case(wide, 36),
        case(pairs, 31),
        case(Spec::uniform(4, 45.0, 4, 38.0, vec![45.0, 45.0]), 22),
    ]
});

fn zip(a: &Slots, b: &Slots, f: impl Fn(Complex<f64>, Complex<f64>) -> Complex<f64>) -> Slots {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

fn rotated(a: &Slots, k: i64) -> Slots {
    let mut out = a.clone();
    out.rotate_left(k.rem_euclid(a.len() as i64) as usize);
    out
}

fn conjugated(a: &Slots) -> Slots {
    a.iter().map(|x| x.conj()).collect()
}

/// Same level, scale and polynomials.
fn same(a: &Ciphertext, b: &Ciphertext) -> bool {
    a.level() == b.level()
        && a.scale().matches(b.scale())
        && a.polys().iter().zip(b.polys()).all(|(a, b)| a.rows().eq(b.rows()))
}

impl Case {
    fn encrypt_at(&self, values: &Slots, level: Level) -> Ciphertext {
        let plain = self.encoder.encode_at(values, level, self.params.scale_at(level)).unwrap();
        self.encryptor.encrypt(&plain).unwrap()
    }

    fn encrypt(&self, values: &Slots) -> Ciphertext {
        self.encrypt_at(values, self.params.top())
    }

    fn open(&self, a: &Ciphertext) -> Slots {
        self.encoder.decode(&self.decryptor.decrypt(a).unwrap()).unwrap()
    }

    /// `a` at the level of `b` if that is lower, at its default scale.
    fn aligned(&self, a: Ciphertext, b: &Ciphertext) -> Ciphertext {
        if a.level() <= b.level() {
            return a;
        }
        self.evaluator.match_scale(&a, b.level(), self.params.scale_at(b.level())).unwrap()
    }

    fn check(
        &self,
        what: &str,
        a: &Ciphertext,
        expected: &Slots,
    ) -> core::result::Result<(), TestCaseError> {
        let found = self.open(a);
        prop_assert_eq!(found.len(), expected.len());
        for (i, (x, y)) in found.iter().zip(expected).enumerate() {
            let error = (x.re - y.re).hypot(x.im - y.im);
            let allowed = self.tolerance * (1.0 + y.re.hypot(y.im));
            prop_assert!(error <= allowed, "{}: slot {} is {:?}, not {:?}", what, i, x, y);
        }
        Ok(())
    }

    fn check_same(
        &self,
        what: &str,
        a: Result<Ciphertext>,
        b: Result<Ciphertext>,
    ) -> core::result::Result<(), TestCaseError> {
        self.check(what, &a.unwrap(), &self.open(&b.unwrap()))
    }
}

fn complex() -> impl Strategy<Value = Complex<f64>> {
    (-1.0..1.0, -1.0..1.0).prop_map(|(re, im)| Complex { re, im })
}

/// A case, and three vectors of as many slots, from one to all.
fn operands() -> impl Strategy<Value = (&'static Case, [Slots; 3])> {
    (0..CASES.len(), 0.0..1.0).prop_flat_map(|(i, size): (usize, f64)| {
        let s = &CASES[i];
        let log_slots = (f64::from(s.params.log_n()) * size) as u32;
        let slots = || prop::collection::vec(complex(), 1 << log_slots);
        [slots(), slots(), slots()].prop_map(move |values| (s, values))
    })
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn encryption_and_its_inverse((s, [x, ..]) in operands(), keep in 0.0..1.0, level in 0u32..5) {
        let plain = s.encoder.encode_at(&x, Level(level), s.params.scale_at(Level(level))).unwrap();
        let decoded = s.encoder.decode(&plain).unwrap();
        for (x, y) in x.iter().zip(&decoded) {
            prop_assert!((x.re - y.re).hypot(x.im - y.im) < s.tolerance);
        }
        // Fewer values than slots are followed by zeros.
        let few = &x[..1 + (keep * (x.len() - 1) as f64) as usize].to_vec();
        let mut padded = few.clone();
        padded.resize(few.len().next_power_of_two(), Complex::default());
        s.check("encrypt", &s.encrypt_at(few, Level(level)), &padded)?;
        let reals: Vec<f64> = x.iter().map(|x| x.re).collect();
        let plain = s.encoder.encode_real_at(&reals, Level(level), s.params.scale_at(Level(level)));
        for (x, y) in reals.iter().zip(s.encoder.decode_real(&plain.unwrap()).unwrap()) {
            prop_assert!((x - y).abs() < s.tolerance);
        }
    }

    #[test]
    fn sums((s, [x, y, z]) in operands(), c in complex()) {
        let ev = &s.evaluator;
        let [a, b, d] = [&x, &y, &z].map(|x| s.encrypt(x));
        let sum = ev.add(&a, &b).unwrap();
        s.check("add", &sum, &zip(&x, &y, |x, y| x + y))?;
        prop_assert!(same(&sum, &ev.add(&b, &a).unwrap()));
        let left = ev.add(&sum, &d).unwrap();
        prop_assert!(same(&left, &ev.add(&a, &ev.add(&b, &d).unwrap()).unwrap()));
        let difference = ev.sub(&a, &b).unwrap();
        prop_assert!(same(&difference, &ev.add(&a, &ev.neg(&b).unwrap()).unwrap()));
        prop_assert!(same(&a, &ev.add(&difference, &b).unwrap()));
        prop_assert!(same(&a, &ev.neg(&ev.neg(&a).unwrap()).unwrap()));
        let mut assigned = a.clone();
        ev.add_assign(&mut assigned, &b).unwrap();
        prop_assert!(same(&sum, &assigned));
        let plain = s.encoder.encode_at(&y, a.level(), a.scale()).unwrap();
        s.check("add_plain", &ev.add_plain(&a, &plain).unwrap(), &zip(&x, &y, |x, y| x + y))?;
        let shifted: Slots = x.iter().map(|&x| x + c).collect();
        s.check("add_const", &ev.add_const(&a, c).unwrap(), &shifted)?;
        let real = Complex { re: c.re, im: 0.0 };
        let shifted: Slots = x.iter().map(|&x| x + real).collect();
        s.check("add_const, real", &ev.add_const(&a, real).unwrap(), &shifted)?;
        // Levels align downwards.
        let low = ev.drop_to(&b, Level(1)).unwrap();
        s.check("drop_to", &low, &y)?;
        let mixed = ev.add(&a, &low).unwrap();
        prop_assert!(same(&mixed, &ev.drop_to(&sum, Level(1)).unwrap()));
    }

    #[test]
    fn products((s, [x, y, z]) in operands()) {
        let ev = &s.evaluator;
        let [a, b, d] = [&x, &y, &z].map(|x| s.encrypt(x));
        let product = ev.mul_rescale(&a, &b).unwrap();
        s.check("mul", &product, &zip(&x, &y, |x, y| x * y))?;
        prop_assert!(product.scale().matches(s.params.scale_at(product.level())));
        prop_assert!(same(&product, &ev.mul_rescale(&b, &a).unwrap()));
        let left = ev.mul_rescale(&product, &d);
        let right = ev.mul_rescale(&a, &ev.mul_rescale(&b, &d).unwrap());
        s.check_same("associative", left, right)?;
        let left = ev.mul_rescale(&a, &ev.add(&b, &d).unwrap());
        let right = ev.add(&product, &ev.mul_rescale(&a, &d).unwrap());
        s.check_same("distributive", left, right)?;
        let left = ev.mul_rescale(&ev.neg(&a).unwrap(), &b);
        s.check_same("signs", left, ev.neg(&product))?;
        let plain = s.encoder.encode_at(&y, a.level(), a.scale()).unwrap();
        let masked = ev.rescale(&ev.mul_plain(&a, &plain).unwrap());
        s.check("mul_plain", &masked.unwrap(), &zip(&x, &y, |x, y| x * y))?;
        // Sums before the rescaling.
        let lazy = ev.add(&ev.mul(&a, &b).unwrap(), &ev.mul(&a, &d).unwrap()).unwrap();
        let expected = zip(&x, &zip(&y, &z, |y, z| y + z), |x, y| x * y);
        s.check("lazy rescaling", &ev.rescale(&lazy).unwrap(), &expected)?;
        // One multiplication at every level.
        let mut power = a;
        let mut clear = x.clone();
        while power.level() > Level(0) {
            power = ev.mul_rescale(&power, &b).unwrap();
            clear = zip(&clear, &y, |x, y| x * y);
        }
        s.check("all levels", &power, &clear)?;
    }

    #[test]
    fn constants((s, [x, y, _]) in operands(), c in complex(), d in -3.0..3.0f64) {
        let ev = &s.evaluator;
        let a = s.encrypt(&x);
        let b = s.encrypt(&y);
        for c in [c, Complex { re: d, im: 0.0 }] {
            let scaled: Slots = x.iter().map(|&x| x * c).collect();
            let product = ev.rescale(&ev.mul_const(&a, c, a.scale()).unwrap()).unwrap();
            s.check("mul_const", &product, &scaled)?;
            let other = ev.rescale(&ev.mul_const(&b, c, b.scale()).unwrap()).unwrap();
            let sum = ev.add(&a, &b).unwrap();
            let left = ev.rescale(&ev.mul_const(&sum, c, sum.scale()).unwrap());
            s.check_same("distributive", left, ev.add(&product, &other))?;
        }
        // The same integers at half the scale are twice the values.
        let half = Scale::from_log2(a.scale().log2() - 1.0);
        let doubled = ev.with_scale(&a, half).unwrap();
        s.check("with_scale", &doubled, &x.iter().map(|&x| x + x).collect())?;
        let target = s.params.scale_at(Level(1));
        let matched = ev.match_scale(&a, Level(1), target).unwrap();
        prop_assert!(matched.scale().matches(target) && matched.level() == Level(1));
        s.check("match_scale", &matched, &x)?;
    }

    #[test]
    fn rotations((s, [x, y, _]) in operands(), j in -70i64..70, k in -70i64..70) {
        let ev = &s.evaluator;
        let a = s.encrypt(&x);
        let b = s.encrypt(&y);
        let by_j = ev.rotate(&a, j).unwrap();
        s.check("rotate", &by_j, &rotated(&x, j))?;
        s.check("rotate twice", &ev.rotate(&by_j, k).unwrap(), &rotated(&x, j + k))?;
        s.check("and back", &ev.rotate(&by_j, -j).unwrap(), &x)?;
        prop_assert!(same(&by_j, &ev.rotate(&a, j + x.len() as i64).unwrap()));
        let hoisted = ev.hoist(&a).unwrap();
        prop_assert!(same(&by_j, &ev.rotate_hoisted(&hoisted, j).unwrap()));
        let sum = ev.rotate(&ev.add(&a, &b).unwrap(), j);
        s.check_same("of a sum", sum, ev.add(&by_j, &ev.rotate(&b, j).unwrap()))?;
        let product = ev.rotate(&ev.mul_rescale(&a, &b).unwrap(), j);
        let expected = ev.mul_rescale(&by_j, &ev.rotate(&b, j).unwrap());
        s.check_same("of a product", product, expected)?;
        let conjugate = ev.conjugate(&a).unwrap();
        s.check("conjugate", &conjugate, &conjugated(&x))?;
        s.check("conjugate twice", &ev.conjugate(&conjugate).unwrap(), &x)?;
        s.check_same("commute", ev.rotate(&conjugate, j), ev.conjugate(&by_j))?;
        let product = ev.conjugate(&ev.mul_rescale(&a, &b).unwrap());
        let expected = ev.mul_rescale(&conjugate, &ev.conjugate(&b).unwrap());
        s.check_same("conjugate of a product", product, expected)?;
    }

    /// Any circuit on two registers, in step with the clear values.
    #[test]
    fn random_circuits(
        (s, [x, y, _]) in operands(),
        steps in prop::collection::vec((0..9u32, -9i64..9, complex()), 1..14),
    ) {
        let ev = &s.evaluator;
        let mut a = s.encrypt(&x);
        let mut b = s.encrypt(&y);
        let mut u = x;
        let mut v = y;
        for (op, k, c) in steps {
            // The modulus of level 0 holds values below 32.
            if u.iter().chain(&v).any(|x| x.re.hypot(x.im) > 4.0) {
                break;
            }
            (a, b) = (s.aligned(a.clone(), &b), s.aligned(b, &a));
            let op = if a.level() == Level(0) { op % 2 } else { op };
            match op {
                0 => (a, u) = (ev.add(&a, &b).unwrap(), zip(&u, &v, |u, v| u + v)),
                1 => (a, u) = (ev.sub(&b, &a).unwrap(), zip(&u, &v, |u, v| v - u)),
                2 | 3 => (a, u) = (ev.mul_rescale(&a, &b).unwrap(), zip(&u, &v, |u, v| u * v)),
                4 => (a, u) = (ev.rotate(&a, k).unwrap(), rotated(&u, k)),
                5 => (a, u) = (ev.conjugate(&a).unwrap(), conjugated(&u)),
                6 => {
                    let scale = s.params.scale_at(a.level());
                    a = ev.rescale(&ev.mul_const(&a, c, scale).unwrap()).unwrap();
                    u = u.iter().map(|&u| u * c).collect();
                }
                7 => (a, u) = (ev.add_const(&a, c).unwrap(), u.iter().map(|&u| u + c).collect()),
                _ => {
                    core::mem::swap(&mut a, &mut b);
                    core::mem::swap(&mut u, &mut v);
                }
            }
        }
        s.check("circuit, a", &a, &u)?;
        s.check("circuit, b", &b, &v)?;
    }
}
