//! Attacks on decrypted values that others see: of Li and Micciancio (ePrint 2020/1533, section 3),
//! and by repeating a release.

use crate::common::Parts;
use std::sync::Arc;
use sudare::{
    ckks::{
        Ciphertext, Complex, Decryptor, Encoder, Encryptor, Evaluator, Params, Release, Spec,
        serial::{self, Label},
    },
    rlwe::{EvaluationKeys, KeyGenerator},
};
use sudare_arith::prng::Seed;

/// So small a ring that 27 bits of noise leave digits to show.
const LOG_N: u32 = 8;
const LOG2_SCALE: f64 = 50.0;
/// Above all errors of an encryption, which the test sees to.
const LARGEST_ERROR: f64 = 7.275_957_614_183_426e-12; // 2^-37
const BITS: u32 = 2;

/// An owner, a result, and what its decryption is.
struct Target {
    params: Params,
    secret: Vec<i8>,
    decryptor: Decryptor,
    evaluator: Evaluator,
    encoder: Encoder,
    result: Ciphertext,
    exact: Vec<f64>,
    decrypted: Vec<f64>,
}

/// Real and imaginary parts, one after the other.
fn parts(values: &[Complex<f64>]) -> Vec<f64> {
    values.iter().flat_map(|x| [x.re, x.im]).collect()
}

fn complex(parts: &[f64]) -> Vec<Complex<f64>> {
    parts.chunks_exact(2).map(|x| Complex { re: x[0], im: x[1] }).collect()
}

impl Target {
    fn new(number: u64) -> Self {
        let spec = Spec::uniform(LOG_N, 50.0, 0, LOG2_SCALE, vec![50.0]);
        let spec = Spec { insecure: true, q_bits: vec![vec![50.0, 50.0]], ..spec };
        let params = Params::new(spec).unwrap();
        let seed = Seed::from_bytes([7; 32]).derive("target", number);
        let mut keygen = KeyGenerator::from_seed(params.rlwe(), &seed);
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let mut file = Vec::new();
        serial::write_secret_key(&mut file, &params, &secret, &Label::default()).unwrap();
        let packed = &Parts::of(&file).sections[0];
        let signed = |bits: u8| [0, 1, 0, -1][usize::from(bits & 3)];
        let coeffs = (0..1 << LOG_N).map(|k| signed(packed[k / 4] >> (2 * (k % 4)))).collect();

        let exact: Vec<f64> = (0..1 << LOG_N)
            .map(|i| ((i as u64 * 37 + number * 11) % 101) as f64 / 101.0 - 0.5)
            .collect();
        let encoder = Encoder::new(&params);
        let top = params.top();
        let plain = encoder.encode_at(&complex(&exact), top, params.scale_at(top)).unwrap();
        let result = Encryptor::new(&params, public).unwrap().encrypt(&plain).unwrap();
        let none = Arc::new(EvaluationKeys::none(params.rlwe(), secret.id()));
        let evaluator = Evaluator::new(&params, none).unwrap();
        let decryptor = Decryptor::new(&params, secret).unwrap();
        let decrypted = parts(&encoder.decode(&decryptor.decrypt(&result).unwrap()).unwrap());
        for (found, exact) in decrypted.iter().zip(&exact) {
            assert!((found - exact).abs() < LARGEST_ERROR, "{found} for {exact}");
        }
        Self { params, secret: coeffs, decryptor, evaluator, encoder, result, exact, decrypted }
    }

    /// The secret that values which somebody showed lead to, if they do: of `m = c_0 + c_1 s` all is
    /// known but `s` once `m` is, to its last bit.
    fn attacked(&self, shown: &[f64]) -> Option<Vec<i8>> {
        let level = self.params.top();
        let scale = self.result.scale();
        let minus: Vec<f64> = shown.iter().map(|x| -x).collect();
        let minus = self.encoder.encode_at(&complex(&minus), level, scale).unwrap();
        let difference = self.evaluator.add_plain(&self.result, &minus).unwrap();
        let mut file = Vec::new();
        let items = [difference];
        serial::write_ciphertexts(&mut file, &self.params, &items, &Label::default()).unwrap();
        // The first rows of both polynomials, modulo the first prime.
        let rlwe = self.params.rlwe();
        let table = rlwe.basis().tables(rlwe.limbs(level)).next().unwrap();
        let m = table.modulus();
        let n = 1 << LOG_N;
        let section = &Parts::of(&file).sections[0];
        let (c0, c1) = section.split_at(section.len() / 2);
        let row = |bytes: &[u8]| {
            let mut row = vec![0; n];
            assert!(m.unpack(&mut row, &bytes[..n * m.packed_bytes()]));
            row
        };
        let quotient = |(c0, c1): (u64, u64)| m.neg(m.mul(c0, m.inv(c1)));
        let mut secret: Vec<u64> = row(c0).into_iter().zip(row(c1)).map(quotient).collect();
        table.inverse(&mut secret);
        let coeff = |x: u64| i8::try_from(m.centered(x)).ok().filter(|x| x.abs() <= 1);
        secret.into_iter().map(coeff).collect()
    }

    fn released(&self, noise: &Seed) -> Vec<f64> {
        Release::default().values(&self.decrypted, LARGEST_ERROR, BITS, noise).unwrap()
    }
}

/// Of so many keys, those that raw values give away, and those that released ones do.
fn recovered(keys: u64, releases: u64) -> (u64, u64) {
    let mut raw = 0;
    let mut released = 0;
    for number in 0..keys {
        let target = Target::new(number);
        raw += u64::from(target.attacked(&target.decrypted).as_ref() == Some(&target.secret));
        for release in 0..releases {
            let noise = target.decryptor.release_seed(&[release as u8; 32]).unwrap();
            let shown = target.released(&noise);
            for (shown, exact) in shown.iter().zip(&target.exact) {
                assert!((shown - exact).abs() <= 0.25, "{shown} for {exact}");
            }
            released += u64::from(target.attacked(&shown).as_ref() == Some(&target.secret));
        }
    }
    (raw, released)
}

#[test]
fn raw_values_give_the_key_away_and_released_ones_do_not() {
    let (raw, released) = recovered(20, 5);
    assert!(raw >= 20 * 99 / 100, "the attack does not work: {raw} of 20");
    assert_eq!(released, 0);
}

#[test]
#[ignore = "long form of the attack"]
fn raw_values_of_200_keys_and_1000_releases() {
    let (raw, released) = recovered(200, 5);
    assert!(raw >= 198, "the attack does not work: {raw} of 200");
    assert_eq!(released, 0);
}

/// Values next to where rounding changes: fresh noise each time would tell how near, digit by digit;
/// the noise of the release tells the same again.
#[test]
fn repeating_a_release_tells_nothing_more() {
    const REPEATS: u32 = 1000;
    let target = Target::new(1);
    let unit = (-f64::from(BITS)).exp2();
    let deviation = unit / 16.0;
    let offset = |i: usize| deviation * ((i % 21) as f64 / 10.0 - 1.0);
    let values: Vec<f64> = (0..target.exact.len()).map(|i| 0.5 * unit + offset(i)).collect();
    // Root mean square of the error of the estimate from the mean of all, in deviations.
    let estimated = |noise: &dyn Fn() -> Seed| {
        let mut ups = vec![0; values.len()];
        for _ in 0..REPEATS {
            let shown = Release::default().values(&values, LARGEST_ERROR, BITS, &noise()).unwrap();
            ups.iter_mut().zip(shown).for_each(|(ups, x)| *ups += u32::from(x > 0.0));
        }
        let squares = ups.iter().enumerate().map(|(i, &ups)| {
            // The normal law's quantile, by bisection of its integral.
            let share = f64::from(ups) / f64::from(REPEATS);
            let mut low = -3.0;
            let mut high = 3.0;
            for _ in 0..40 {
                let middle = (low + high) / 2.0;
                if normal(middle) < share { low = middle } else { high = middle }
            }
            (low - offset(i) / deviation).powi(2)
        });
        (squares.sum::<f64>() / values.len() as f64).sqrt()
    };
    let fresh = estimated(&|| Seed::random().unwrap());
    assert!(fresh < 0.1, "averaging does not work: {fresh}");
    let repeated = estimated(&|| target.decryptor.release_seed(&[9; 32]).unwrap());
    assert!(repeated > 1.0, "{repeated}");
}

/// The normal law below `x`, by Simpson's rule.
fn normal(x: f64) -> f64 {
    const STEPS: usize = 64;
    let density = |x: f64| (-x * x / 2.0).exp() / core::f64::consts::TAU.sqrt();
    let width = x / STEPS as f64;
    let at = |i: usize| i as f64 * width;
    let cell = |i| {
        let middle = f64::midpoint(at(i), at(i + 1));
        width / 6.0 * (density(at(i)) + 4.0 * density(middle) + density(at(i + 1)))
    };
    0.5 + (0..STEPS).map(cell).sum::<f64>()
}

/// What a release seed depends on.
#[test]
fn release_seeds_belong_to_a_key_and_a_subject() {
    let first = Target::new(1);
    let second = Target::new(2);
    let seed = |target: &Target, subject| {
        *target.decryptor.release_seed(&[subject; 32]).unwrap().as_bytes()
    };
    assert_eq!(seed(&first, 1), seed(&Target::new(1), 1));
    assert_ne!(seed(&first, 1), seed(&first, 2));
    assert_ne!(seed(&first, 1), seed(&second, 1));
    // By docs/notes/randomness.md, from the key's coefficients.
    let mut material: Vec<u8> = first.secret.iter().map(|c| c.cast_unsigned()).collect();
    material.extend([1; 32]);
    assert_eq!(seed(&first, 1), blake3::derive_key("sudare v1 release", &material));
}
