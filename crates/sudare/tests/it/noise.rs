//! Measured noise against its prediction, from both sides.

use crate::session::Session;
use sudare::{
    ckks::{Ciphertext, Complex, Params, Plaintext, Scale, Spec, UpperSpec},
    ring::{Eval, RnsPoly},
    rlwe::{GaloisElement, KeyRequest, Level, Noise, Raise, SecretDistribution},
};
use sudare_arith::{Permutation, prng::Seed};

/// Rotations, each with a key of its own, that key-switching noise is averaged over.
const STEPS: [i64; 6] = [1, 2, -1, 7, 100, 333];

/// Everything follows from one seed, so that a test always sees the same noise.
fn seed(label: &str, index: u64) -> Seed {
    Seed::from_bytes([5; 32]).derive(label, index)
}

fn session(spec: Spec, key_level: impl Fn(Level) -> Level) -> Session {
    let params = Params::new(spec).unwrap();
    let level = key_level(params.top());
    let request =
        KeyRequest::new().relinearize(params.top()).rotations(params.log_n(), STEPS, level);
    Session::from_seed(params, &seed("keys", 0), &request)
}

fn dense(log_n: u32, base: f64, levels: usize, scale: f64, p: &[f64]) -> Spec {
    Spec { insecure: true, ..Spec::uniform(log_n, base, levels, scale, p.to_vec()) }
}

/// Several rings, primes of 48 to 61 bits, dense and sparse secrets, one to four
/// digits of one to four primes, one and two primes a level.
fn specs() -> Vec<(Spec, usize)> {
    let sparse = Spec {
        secret: SecretDistribution::FixedWeight { h: 64 },
        ..dense(13, 48.0, 3, 40.0, &[48.0])
    };
    let mut pairs = dense(12, 60.0, 2, 58.0, &[60.0, 60.0]);
    for level in &mut pairs.q_bits[1..] {
        *level = vec![30.0, 28.0];
    }
    vec![
        (dense(12, 48.0, 3, 47.0, &[48.0]), 4),
        (dense(12, 48.0, 3, 47.0, &[48.0, 48.0]), 2),
        (dense(12, 48.0, 3, 47.0, &[48.0, 48.0, 48.0, 46.0]), 1),
        (dense(13, 61.0, 3, 55.0, &[61.0, 58.0]), 2),
        (sparse, 4),
        (pairs, 2),
    ]
}

const SLOT_RMS: f64 = 0.75;

/// Slots on a circle of radius [`SLOT_RMS`].
fn values(slots: usize, salt: u64) -> Vec<Complex<f64>> {
    (0..slots as u64)
        .map(|i| (i * i * 7 + i * (salt * 2 + 1)) as f64 * 0.37 + salt as f64)
        .map(|angle| Complex { re: SLOT_RMS * angle.cos(), im: SLOT_RMS * angle.sin() })
        .collect()
}

/// Steps that these tests share.
trait Noisy {
    fn encode(&self, values: &[Complex<f64>], scale: Scale) -> Plaintext;
    fn default_scale(&self) -> Scale;
    fn encrypt(&self, values: &[Complex<f64>], salt: u64) -> Ciphertext;
    fn values(&self, salt: u64) -> Vec<Complex<f64>>;
    fn noise(&self, a: &Ciphertext, expected: &[Complex<f64>]) -> f64;
    fn log2_rms(&self, scale: Scale) -> f64;
}

impl Noisy for Session {
    fn encode(&self, values: &[Complex<f64>], scale: Scale) -> Plaintext {
        self.encoder.encode_at(values, self.params.top(), scale).unwrap()
    }

    fn default_scale(&self) -> Scale {
        self.params.scale_at(self.params.top())
    }

    fn encrypt(&self, values: &[Complex<f64>], salt: u64) -> Ciphertext {
        let plain = self.encode(values, self.default_scale());
        self.encryptor.encrypt_with(&plain, &seed("encryption", salt)).unwrap()
    }

    fn values(&self, salt: u64) -> Vec<Complex<f64>> {
        values(self.params.max_slots(), salt)
    }

    fn noise(&self, a: &Ciphertext, expected: &[Complex<f64>]) -> f64 {
        self.decryptor.measure_noise(a, &self.encode(expected, a.scale())).unwrap()
    }

    /// `log2` of the root mean square of the coefficients of encoded slots.
    fn log2_rms(&self, scale: Scale) -> f64 {
        scale.log2() + SLOT_RMS.log2() - f64::from(self.params.log_n()) / 2.0
    }
}

fn assert_near(what: &str, measured: f64, predicted: Noise, band: f64) {
    let difference = measured - predicted.log2_sd();
    assert!(
        difference.abs() <= band,
        "{what}: 2^{measured:.2} measured, 2^{:.2} predicted",
        predicted.log2_sd()
    );
}

fn zip(
    a: &[Complex<f64>],
    b: &[Complex<f64>],
    f: fn(Complex<f64>, Complex<f64>) -> Complex<f64>,
) -> Vec<Complex<f64>> {
    a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
}

#[test]
fn operations_without_keys() {
    for (spec, _) in specs() {
        let s = session(spec.clone(), |_| Level(0));
        let params = s.params.rlwe();
        let top = s.params.top();
        let check = |what: &str, measured: f64, predicted: Noise| {
            assert_near(&format!("{what}, {spec:?}"), measured, predicted, 0.15);
        };
        let x = s.values(1);
        let y = s.values(2);
        let a = s.encrypt(&x, 1);
        let b = s.encrypt(&y, 2);
        let fresh = Noise::fresh(params);
        check("fresh", s.noise(&a, &x), fresh);
        let sparse = values(32, 3);
        check("fresh, few slots", s.noise(&s.encrypt(&sparse, 3), &sparse), fresh);
        let low = s.encoder.encode_at(&x, Level(0), s.default_scale()).unwrap();
        let low = s.encryptor.encrypt_with(&low, &seed("low", 0)).unwrap();
        check("fresh at level 0", s.noise(&low, &x), fresh);
        let ev = &s.evaluator;
        check("add", s.noise(&ev.add(&a, &b).unwrap(), &zip(&x, &y, |x, y| x + y)), fresh + fresh);
        check("sub", s.noise(&ev.sub(&a, &b).unwrap(), &zip(&x, &y, |x, y| x - y)), fresh + fresh);
        let doubled = zip(&x, &x, |x, y| x + y);
        check("a + a", s.noise(&ev.add(&a, &a).unwrap(), &doubled), fresh.scaled(1.0));
        let rms = s.log2_rms(s.default_scale());
        let plain = s.encode(&y, s.default_scale());
        let product = ev.mul_plain(&a, &plain).unwrap();
        let predicted = Noise::product(params, (rms, fresh), (rms, Noise::encoding()));
        let expected = zip(&x, &y, |x, y| x * y);
        check("mul_plain", s.noise(&product, &expected), predicted);
        let rescaled = ev.rescale(&product).unwrap();
        check("mul_plain, rescale", s.noise(&rescaled, &expected), predicted.rescaled(params, top));
        let c = Complex { re: 0.625, im: 0.0 };
        let half: Vec<_> = x.iter().map(|&x| x * c).collect();
        let product = ev.mul_const(&a, c, s.default_scale()).unwrap();
        let log2_factor = s.default_scale().log2() + c.re.log2();
        check("mul_const", s.noise(&product, &half), fresh.scaled(log2_factor));
        // Only the rounding of the noise is left.
        let rounded = ev.rescale(&a).unwrap();
        let predicted = fresh.rescaled(params, top);
        assert!(predicted.log2_sd() - Noise::rounding(params).log2_sd() < 0.01);
        check("rescale", s.noise(&rounded, &x), predicted);
        // A division by two levels equals two divisions.
        let product = ev.mul_const(&a, c, s.default_scale()).unwrap();
        let twice = ev.rescale(&ev.rescale(&product).unwrap()).unwrap();
        let once = fresh.scaled(log2_factor).rescaled(params, top);
        check("two rescalings", s.noise(&twice, &half), once.rescaled(params, Level(top.0 - 1)));
    }
}

/// The mean of the squares of the coefficients of a difference that is small beside
/// the first prime.
fn mean_square(s: &Session, a: &RnsPoly<Eval>, b: &RnsPoly<Eval>) -> f64 {
    let basis = s.params.rlwe().basis();
    let difference = basis.into_coeff(basis.sub(a.limbs(), a, b));
    let m = basis.modulus(a.limbs(), 0);
    let squares = difference.row(0).iter().map(|&x| (m.centered(x) as f64).powi(2));
    squares.sum::<f64>() / basis.n() as f64
}

/// What rotations of `a` add to its own noise: `log2` of the root mean square over
/// several keys.
fn rotation_noise(s: &Session, a: &Ciphertext) -> f64 {
    let log_n = s.params.log_n();
    let plain = s.decryptor.decrypt(a).unwrap();
    let squares = STEPS.map(|k| {
        let rotated = s.decryptor.decrypt(&s.evaluator.rotate(a, k).unwrap()).unwrap();
        let g = Permutation::galois(log_n, GaloisElement::rotation(log_n, k).0 as usize);
        let expected = s.params.rlwe().basis().automorphism(plain.poly(), &g);
        mean_square(s, rotated.poly(), &expected)
    });
    (squares.iter().sum::<f64>() / squares.len() as f64).log2() / 2.0
}

#[test]
fn rotations_at_every_level() {
    for (spec, digits) in specs() {
        let s = session(spec.clone(), |top| top);
        let params = s.params.rlwe();
        assert_eq!(params.digits(s.params.top()), digits, "{spec:?}");
        let a = s.encrypt(&s.values(1), 1);
        for level in (0..=s.params.top().0).map(Level) {
            let dropped = s.evaluator.drop_to(&a, level).unwrap();
            let measured = rotation_noise(&s, &dropped);
            let what = format!("rotation at level {level}, {spec:?}");
            assert_near(&what, measured, Noise::key_switch(params, level), 0.15);
        }
        // A key made for a lower level has the same noise there.
        let level = Level(1);
        let s = session(spec.clone(), |_| level);
        let dropped = s.evaluator.drop_to(&a, level).unwrap();
        let measured = rotation_noise(&s, &dropped);
        let what = format!("rotation with a key of level {level}, {spec:?}");
        assert_near(&what, measured, Noise::key_switch(params, level), 0.15);
    }
}

/// Above the top, by keys of the level and of one above, and what is left after the primes
/// change.
#[test]
fn rotations_and_rescaling_at_raised_levels() {
    let with = |spec: Spec, base_bits: Vec<f64>, levels_bits: Vec<Vec<f64>>| Spec {
        upper: Some(UpperSpec { base_bits, levels_bits }),
        ..spec
    };
    let sparse = Spec {
        secret: SecretDistribution::FixedWeight { h: 64 },
        ..dense(13, 48.0, 3, 40.0, &[57.0])
    };
    for spec in [
        with(dense(12, 48.0, 3, 40.0, &[50.0]), vec![42.0; 4], vec![vec![49.0], vec![48.0]]),
        with(sparse, vec![56.0; 3], vec![vec![30.0, 25.0], vec![55.0]]),
    ] {
        let params = Params::new(spec.clone()).unwrap();
        let rlwe = params.rlwe();
        let top = params.top();
        for (level, key_level) in [(1, 1), (1, 2), (2, 2)].map(|(l, t)| (top.0 + l, top.0 + t)) {
            let level = Level(level);
            let key_level = Level(key_level);
            let keys =
                KeyRequest::new().rotations(params.log_n(), STEPS, key_level).into_level_keys(rlwe);
            // A ciphertext from an ephemeral secret is uniform modulo every prime.
            let keys = keys.raise(Raise::to(key_level));
            let s = Session::from_seed(params.clone(), &seed("keys", 0), &keys);
            let fresh = s.encrypt(&s.values(1), 1);
            let a = s.evaluator.mod_raise(&fresh, level).unwrap();
            let what = format!("rotation at level {level} of {key_level}, {spec:?}");
            let predicted = Noise::level_key_switch(rlwe, level, key_level);
            assert_near(&what, rotation_noise(&s, &a), predicted, 0.15);
            // The message is far below the modulus of the lowest upper level. Multiplied by an
            // integer near the quotient of moduli, it is unchanged except for a rounding.
            if level.0 == top.0 + 1 {
                let divisor = params.chain().divisor(level);
                let one = Complex { re: 1.0, im: 0.0 };
                let product = s.evaluator.mul_const(&a, one, divisor).unwrap();
                let crossed = s.evaluator.rescale(&product).unwrap();
                assert_eq!((crossed.level(), rlwe.is_raised(level)), (top, true));
                let found = s.encoder.decode(&s.decryptor.decrypt(&crossed).unwrap()).unwrap();
                let expected = s.encoder.decode(&s.decryptor.decrypt(&a).unwrap()).unwrap();
                let squares = found.iter().zip(&expected).map(|(x, y)| {
                    let difference = *x - *y;
                    difference.re * difference.re + difference.im * difference.im
                });
                let mean = squares.sum::<f64>() / found.len() as f64;
                // Keys of slots to coefficients.
                let measured =
                    mean.log2() / 2.0 + crossed.scale().log2() - f64::from(params.log_n()) / 2.0;
                let predicted = Noise::NONE.rescaled(rlwe, level);
                assert_near(&format!("rescaling, {spec:?}"), measured, predicted, 0.15);
            }
        }
    }
}

#[test]
fn products_and_circuits() {
    for (spec, _) in specs() {
        let s = session(spec.clone(), |top| top);
        let params = s.params.rlwe();
        let top = s.params.top();
        let check = |what: &str, measured: f64, predicted: Noise| {
            assert_near(&format!("{what}, {spec:?}"), measured, predicted, 0.25);
        };
        let x = s.values(1);
        let y = s.values(2);
        let a = s.encrypt(&x, 1);
        let b = s.encrypt(&y, 2);
        let ev = &s.evaluator;
        let fresh = Noise::fresh(params);
        let rms = s.log2_rms(s.default_scale());
        let expected = zip(&x, &y, |x, y| x * y);
        let predicted =
            Noise::product(params, (rms, fresh), (rms, fresh)) + Noise::key_switch(params, top);
        let product = ev.mul(&a, &b).unwrap();
        check("mul", s.noise(&product, &expected), predicted);
        let rescaled = predicted.rescaled(params, top);
        check("mul, rescale", s.noise(&ev.rescale(&product).unwrap(), &expected), rescaled);
        let fused = ev.mul_rescale(&a, &b).unwrap();
        check("mul_rescale", s.noise(&fused, &expected), rescaled);
        let squared = zip(&x, &x, |x, y| x * y);
        let square = fresh.square(params, rms) + Noise::key_switch(params, top);
        check("square", s.noise(&ev.mul(&a, &a).unwrap(), &squared), square);

        // Rotate, add, multiply by a plaintext, multiply again: a circuit of two levels.
        let below = Level(top.0 - 1);
        let mut rotated = expected.clone();
        rotated.rotate_left(1);
        let sum = ev.sub(&fused, &ev.rotate(&fused, 1).unwrap()).unwrap();
        let difference = zip(&expected, &rotated, |x, y| x - y);
        let noise = rescaled + rescaled + Noise::key_switch(params, below);
        check("a - rotate(a)", s.noise(&sum, &difference), noise);
        let plain = s.encoder.encode_at(&y, below, s.params.scale_at(below)).unwrap();
        let masked = ev.mul_plain(&sum, &plain).unwrap();
        let slots = zip(&difference, &y, |x, y| x * y);
        let sizes = (
            // Two independent slots of size SLOT_RMS^2.
            s.log2_rms(sum.scale()) + SLOT_RMS.log2() + 0.5,
            s.log2_rms(plain.scale()),
        );
        let noise = Noise::product(params, (sizes.0, noise), (sizes.1, Noise::encoding()));
        check("masked", s.noise(&masked, &slots), noise);
        let end = ev.rescale(&masked).unwrap();
        check("end", s.noise(&end, &slots), noise.rescaled(params, below));
    }
}
