//! Tests of whole computations against polynomials in the clear.

use super::*;
use crate::{
    Error, Result,
    rlwe::{
        AutomorphismSum, EvaluationKeys, GaloisElement, KeyGenerator, KeyRequest, Level,
        ProductSum, SecretKey,
    },
};
use std::sync::Arc;
use sudare_arith::prng::{Seed, Stream};

/// The objects of one owner.
pub(crate) struct Session {
    pub(crate) params: Params,
    pub(crate) secret: Arc<SecretKey>,
    pub(crate) keys: Arc<EvaluationKeys>,
    pub(crate) encryptor: Encryptor,
    pub(crate) evaluator: Evaluator,
    pub(crate) decryptor: Decryptor,
    pub(crate) stream: Stream,
}

impl Session {
    /// Makes a session with all keys for rotations by 1, 2, 4, … and swaps.
    pub(crate) fn new(spec: Spec, seed: u8) -> Self {
        Self::with_keys(spec, seed, &KeyRequest::new())
    }

    /// Makes a session with these keys as well.
    pub(crate) fn with_keys(spec: Spec, seed: u8, keys: &KeyRequest) -> Self {
        let log_n = spec.log_n;
        let top = Level(spec.q_bits.len() as u32 - 1);
        let mut request = KeyRequest::new()
            .relinearize(top)
            .rotations(log_n, (0..log_n - 1).map(|i| 1 << i), top)
            .automorphism(GaloisElement::conjugation(log_n), top);
        request |= keys.clone();
        Self::with_exactly(spec, seed, &request)
    }

    /// Makes a session with exactly these keys.
    pub(crate) fn with_exactly(spec: Spec, seed: u8, keys: &KeyRequest) -> Self {
        let params = Params::new(Spec { insecure: true, ..spec }).unwrap();
        let seed = Seed::from_bytes([seed; 32]);
        let mut keygen = KeyGenerator::from_seed(params.rlwe(), &seed);
        let secret = Arc::new(keygen.secret_key().unwrap());
        let keys = Arc::new(keygen.evaluation_keys(&secret, keys).unwrap());
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        Self {
            encryptor: Encryptor::new(&params, public).unwrap(),
            evaluator: Evaluator::new(&params, keys.clone()).unwrap(),
            decryptor: Decryptor::new(&params, secret.clone()).unwrap(),
            stream: Stream::new(&seed, "test", 0),
            params,
            secret,
            keys,
        }
    }

    pub(crate) fn random(&mut self, t: Modulus) -> PlainPoly {
        let n = 1 << self.params.log_n();
        let mut residue = || {
            t.reduce(u128::from(self.stream.next_u64()) << 64 | u128::from(self.stream.next_u64()))
        };
        PlainPoly::new(t, (0..n).map(|_| residue()).collect()).unwrap()
    }

    pub(crate) fn encrypt(&mut self, a: &PlainPoly) -> Ciphertext {
        let top = self.params.top();
        let t = a.modulus();
        let factor = self.params.fresh_factor(top, t).unwrap();
        self.encrypt_at(a, top, factor)
    }

    pub(crate) fn encrypt_at(&mut self, a: &PlainPoly, level: Level, factor: Unit) -> Ciphertext {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.stream.next_u64().to_le_bytes());
        }
        self.encryptor.encrypt_with(a, level, factor, &Seed::from_bytes(bytes)).unwrap()
    }

    /// Fails for a ciphertext of another plaintext, or with an error above its bound.
    pub(crate) fn assert_holds(&self, a: &Ciphertext, expected: &PlainPoly) {
        assert_eq!(self.decryptor.decrypt(a).unwrap(), *expected);
        let found = self.decryptor.noise(a).unwrap();
        let bound = a.noise().log2();
        assert!(found <= bound, "error 2^{found:.2} above its bound 2^{bound:.2}");
    }
}

/// Combines coefficient by coefficient.
pub(crate) fn zip(a: &PlainPoly, b: &PlainPoly, f: impl Fn(u128, u128) -> u128) -> PlainPoly {
    let coeffs = a.coeffs().iter().zip(b.coeffs()).map(|(&a, &b)| f(a, b)).collect();
    PlainPoly::new(a.modulus(), coeffs).unwrap()
}

pub(crate) fn add(a: &PlainPoly, b: &PlainPoly) -> PlainPoly {
    zip(a, b, |x, y| a.modulus().add(x, y))
}

pub(crate) fn sub(a: &PlainPoly, b: &PlainPoly) -> PlainPoly {
    zip(a, b, |x, y| a.modulus().sub(x, y))
}

pub(crate) fn scale(a: &PlainPoly, c: u128) -> PlainPoly {
    zip(a, a, |x, _| a.modulus().mul(x, c))
}

/// Multiplies modulo `X^N + 1`, by the definition.
pub(crate) fn mul(a: &PlainPoly, b: &PlainPoly) -> PlainPoly {
    let t = a.modulus();
    let n = a.coeffs().len();
    let mut out = vec![0; n];
    for (i, &x) in a.coeffs().iter().enumerate() {
        for (j, &y) in b.coeffs().iter().enumerate() {
            let product = t.mul(x, y);
            let place = &mut out[(i + j) % n];
            *place = if i + j < n { t.add(*place, product) } else { t.sub(*place, product) };
        }
    }
    PlainPoly::new(t, out).unwrap()
}

pub(crate) fn image(a: &PlainPoly, g: GaloisElement) -> PlainPoly {
    let t = a.modulus();
    let n = a.coeffs().len();
    let mut out = vec![0; n];
    for (i, &x) in a.coeffs().iter().enumerate() {
        let place = i * g.0 as usize % (2 * n);
        out[place % n] = if place < n { x } else { t.neg(x) };
    }
    PlainPoly::new(t, out).unwrap()
}

pub(crate) fn modulus(p: u64, k: u32) -> Modulus {
    Modulus::new(p, k).unwrap()
}

/// Makes levels of several primes, of 27 and of 61 bits.
pub(crate) fn mixed(log_n: u32, t: Modulus) -> Spec {
    Spec {
        q_bits: vec![vec![27.0, 61.0], vec![61.0], vec![27.0, 27.0], vec![61.0, 27.0]],
        ..Spec::uniform(log_n, t, 0.0, 0, 0.0, vec![61.0, 61.0])
    }
}

/// Makes a chain for products modulo `t`.
pub(crate) fn chain(log_n: u32, t: Modulus, levels: usize) -> Spec {
    let level = (t.log2() + f64::from(log_n) + 8.0).max(20.0);
    Spec::uniform(log_n, t, level + 10.0, levels, level, vec![level + 12.0])
}

fn moduli() -> Vec<Modulus> {
    vec![
        modulus(2, 1),
        modulus(2, 7),
        modulus(257, 1),
        modulus(127, 3),
        modulus(65537, 1),
        modulus(1_099_511_627_689, 1),
        modulus(257, 14),
    ]
}

#[test]
fn fresh_ciphertexts_decrypt_at_each_level_and_with_each_factor() {
    let mut session = Session::new(mixed(6, modulus(257, 1)), 1);
    let symmetric = SymmetricEncryptor::new(&session.params, session.secret.clone()).unwrap();
    for t in moduli() {
        for level in (0..=session.params.top().0).map(Level) {
            let Ok(fresh) = session.params.fresh_factor(level, t) else { panic!() };
            for factor in [Unit::one(t), fresh, Unit::new(3, t).unwrap()] {
                let a = session.random(t);
                let seed = Seed::from_bytes([7; 32]);
                match session.encryptor.encrypt_with(&a, level, factor, &seed) {
                    Ok(encrypted) => {
                        session.assert_holds(&encrypted, &a);
                        let budget = session.decryptor.budget(&encrypted).unwrap();
                        assert!(budget > 0.5, "{budget}");
                        let b = symmetric.encrypt_with(&a, level, factor, &seed).unwrap();
                        session.assert_holds(&b, &a);
                        assert!(b.noise().log2() < encrypted.noise().log2());
                    }
                    Err(error) => {
                        let q = session.params.rlwe().log2_q(level);
                        assert!(matches!(error, Error::NoiseExhausted { op: "encrypt", .. }));
                        assert!(t.log2() + 12.0 > q, "{t} at level {level}");
                    }
                }
            }
        }
    }
}

#[test]
fn signed_and_unsigned_coefficients_come_back() {
    let mut session = Session::new(mixed(5, modulus(2, 1)), 2);
    for t in moduli() {
        let half = t.value() / 2;
        let edges = [0, 1, half, half + 1, t.value() - 1].map(|x| t.reduce(x));
        let coeffs = (0..32).map(|i| edges[i % 5]).collect();
        let a = PlainPoly::new(t, coeffs).unwrap();
        let encrypted = session.encrypt(&a);
        let opened = session.decryptor.decrypt(&encrypted).unwrap();
        assert_eq!(opened, a);
        let signed: Vec<i128> = opened.coeffs().iter().map(|&c| t.centered(c)).collect();
        assert!(signed.iter().all(|c| 2 * c.unsigned_abs() <= t.value()));
        assert_eq!(t.reduce_i128(signed[4]), t.value() - 1);
    }
}

#[test]
fn linear_operations_are_those_of_polynomials() {
    let mut session = Session::new(mixed(6, modulus(257, 1)), 3);
    for t in moduli() {
        let [a, b, p] = [(); 3].map(|()| session.random(t));
        let x = session.encrypt(&a);
        let y = session.encrypt(&b);
        let e = session.evaluator.clone();
        session.assert_holds(&e.add(&x, &y).unwrap(), &add(&a, &b));
        session.assert_holds(&e.sub(&x, &y).unwrap(), &sub(&a, &b));
        session.assert_holds(&e.neg(&x).unwrap(), &scale(&a, t.neg(1 % t.value())));
        session.assert_holds(&e.add_plain(&x, &p).unwrap(), &add(&a, &p));
        session.assert_holds(&e.sub_plain(&x, &p).unwrap(), &sub(&a, &p));
        session.assert_holds(&e.mul_plain(&x, &p).unwrap(), &mul(&a, &p));
        let mut one = vec![0; 64];
        one[0] = t.reduce_i128(-3);
        let constant = PlainPoly::new(t, one).unwrap();
        session.assert_holds(&e.add_const(&x, -3).unwrap(), &add(&a, &constant));
        let sum = e.mul_const_sum(&[(&x, -3), (&y, 5)]).unwrap();
        let expected = add(&scale(&a, t.reduce_i128(-3)), &scale(&b, t.reduce_i128(5)));
        session.assert_holds(&sum, &expected);
        session.assert_holds(&e.rescale(&x).unwrap(), &a);
        session.assert_holds(&e.drop_to(&x, Level(1)).unwrap(), &a);
    }
}

#[test]
fn automorphisms_are_those_of_polynomials() {
    let mut session = Session::new(mixed(6, modulus(257, 1)), 4);
    let e = session.evaluator.clone();
    let rotation = |k| GaloisElement::rotation(6, k);
    for t in [modulus(257, 1), modulus(127, 3), modulus(65537, 1)] {
        let a = session.random(t);
        let x = session.encrypt(&a);
        let x = e.rescale(&x).unwrap();
        for k in [1, 4] {
            session.assert_holds(&e.rotate(&x, k).unwrap(), &image(&a, rotation(k)));
        }
        let swap = GaloisElement::conjugation(6);
        session.assert_holds(&e.swap_rows(&x).unwrap(), &image(&a, swap));
        let hoisted = e.hoist(&x).unwrap();
        let once = e.rotate(&x, 2).unwrap();
        let again = e.rotate_hoisted(&hoisted, 2).unwrap();
        assert_eq!(once.form(), again.form());
        for (p, q) in once.polys().iter().zip(again.polys()) {
            assert!(p.rows().eq(q.rows()));
        }
        let columns = (1..8).fold(a.clone(), |sum, k| add(&sum, &image(&a, rotation(k))));
        session.assert_holds(&e.inner_sum(&x, 8).unwrap(), &columns);
        assert!(matches!(e.inner_sum(&x, 64), Err(Error::InvalidSpec { field: "width", .. })));
        let missing = e.rotate(&x, 3);
        assert!(matches!(missing, Err(Error::MissingGaloisKey { .. })));
    }
    let needed = inner_sum_keys(6, 8, Level(2)).unwrap();
    assert_eq!(needed.count(), 3);
}

/// No prime of the chain is 1 modulo `t`, so every division changes factors.
#[test]
fn factors_follow_products_and_divisions() {
    let t = modulus(257, 1);
    let mut session = Session::new(chain(6, t, 3), 5);
    assert!(session.params.rlwe().spec().q.iter().flatten().all(|q| q % 257 != 1));
    let e = session.evaluator.clone();
    let a = session.random(t);
    let b = session.random(t);
    let x = session.encrypt(&a);
    let y = session.encrypt(&b);
    let f = x.factor();
    let top = session.params.top();
    let divisor = session.params.divisor(top, t).unwrap();

    let product = e.mul(&x, &y).unwrap();
    assert!(product.factor().matches(f * f));
    session.assert_holds(&product, &mul(&a, &b));
    let rescaled = e.rescale(&product).unwrap();
    assert!(rescaled.factor().matches(f * f / divisor));
    assert!(rescaled.factor().matches(session.params.factor_at(Level(top.0 - 1), t).unwrap()));
    session.assert_holds(&rescaled, &mul(&a, &b));
    let at_once = e.mul_rescale(&x, &y).unwrap();
    assert_eq!(at_once.factor(), rescaled.factor());
    session.assert_holds(&at_once, &mul(&a, &b));

    let aligned = e.add(&rescaled, &x).unwrap();
    assert_eq!((aligned.level(), aligned.factor()), (rescaled.level(), rescaled.factor()));
    session.assert_holds(&aligned, &add(&mul(&a, &b), &a));
    let matched = e.match_factor(&x, rescaled.level(), rescaled.factor()).unwrap();
    assert!(matched.factor().matches(rescaled.factor()));
    session.assert_holds(&e.add(&rescaled, &matched).unwrap(), &add(&mul(&a, &b), &a));
    let same_level = e.match_factor(&x, top, f * f).unwrap();
    session.assert_holds(&same_level, &a);

    let sum = ProductSum { products: vec![(&x, &y), (&y, &y)], addend: Some(&product) };
    let found = e.mul_sums(&[sum.clone(), sum], true).unwrap();
    let expected = add(&add(&mul(&a, &b), &mul(&b, &b)), &mul(&a, &b));
    found.iter().for_each(|found| session.assert_holds(found, &expected));
    let wrong = ProductSum { products: vec![(&x, &y)], addend: Some(&x) };
    assert!(matches!(e.mul_sums(&[wrong], false), Err(Error::FactorMismatch { .. })));

    let read = e.with_factor(&x, f * divisor).unwrap();
    let times = divisor.inverse().value();
    assert_eq!(session.decryptor.decrypt(&read).unwrap(), scale(&a, times));
}

#[test]
fn products_of_levels_of_several_primes() {
    let t = modulus(65537, 1);
    let mut session = Session::new(mixed(6, t), 6);
    let e = session.evaluator.clone();
    let mut a = session.random(t);
    let mut x = session.encrypt(&a);
    for _ in 0..3 {
        x = e.mul_rescale(&x, &x).unwrap();
        a = mul(&a, &a);
        session.assert_holds(&x, &a);
    }
    assert_eq!(x.level(), Level(0));
    assert!(matches!(e.mul_rescale(&x, &x), Err(Error::LevelExhausted { .. })));
}

/// `p^v m` modulo `p^(v + r)` is `m` modulo `p^r`.
#[test]
fn multiples_of_powers_are_plaintexts_of_lower_powers() {
    let low = modulus(257, 1);
    let high = modulus(257, 2);
    let mut session = Session::new(mixed(6, low), 7);
    let e = session.evaluator.clone();
    let m = session.random(low);
    let lifted =
        |by: u128| PlainPoly::new(high, m.coeffs().iter().map(|&c| c * by).collect()).unwrap();
    let x = session.encrypt(&lifted(257));
    let y = e.with_plaintext_modulus(&x, low).unwrap();
    session.assert_holds(&y, &m);
    session.assert_holds(&e.with_plaintext_modulus(&y, high).unwrap(), &lifted(257));
    let square = e.mul(&y, &y).unwrap();
    session.assert_holds(&square, &mul(&m, &m));
    let other = e.with_plaintext_modulus(&x, modulus(127, 1));
    assert!(matches!(other, Err(Error::PlaintextMismatch { .. })));
}

#[test]
fn mixed_up_files_are_refused() {
    let t = modulus(257, 1);
    let mut session = Session::new(chain(6, t, 2), 8);
    let mut other_key = Session::new(chain(6, t, 2), 9);
    let mut other_params = Session::new(chain(6, t, 3), 8);
    let e = session.evaluator.clone();
    let a = session.random(t);
    let x = session.encrypt(&a);
    let no_unit = Unit::one(modulus(127, 1)).reduced(t);
    let refused = session.encryptor.encrypt_at(&a, session.params.top(), no_unit);
    assert!(matches!(refused, Err(Error::NotAUnit { .. })), "{refused:?}");
    for log_n in [0, 1, 65, u32::MAX] {
        assert!(inner_sum_keys(log_n, 4, Level(0)).is_err(), "{log_n}");
    }
    let foreign = [other_key.encrypt(&a), other_params.encrypt(&a)];
    type Operation = fn(&Evaluator, &Ciphertext, &Ciphertext) -> Result<Ciphertext>;
    let operations: [Operation; 6] = [
        |e, x, y| e.add(x, y),
        |e, x, y| e.sub(y, x),
        |e, x, y| e.mul(x, y),
        |e, _, y| e.add_const(y, 1),
        |e, _, y| e.rescale(y),
        |e, _, y| e.rotate(y, 1),
    ];
    for operation in operations {
        let errors = foreign.each_ref().map(|y| operation(&e, &x, y).unwrap_err());
        assert!(matches!(errors[0], Error::KeyMismatch { .. }), "{:?}", errors[0]);
        assert!(matches!(errors[1], Error::ParamsMismatch { .. }), "{:?}", errors[1]);
    }
    let opened = foreign.each_ref().map(|y| session.decryptor.decrypt(y).unwrap_err());
    assert!(matches!(opened[0], Error::KeyMismatch { .. }));
    assert!(matches!(opened[1], Error::ParamsMismatch { .. }));

    let b = session.random(modulus(127, 1));
    let y = session.encrypt(&b);
    for result in [e.add(&x, &y), e.mul(&x, &y), e.add_plain(&x, &b), e.mul_plain(&x, &b)] {
        assert!(matches!(result.unwrap_err(), Error::PlaintextMismatch { .. }));
    }
    let short = PlainPoly::new(t, vec![1; 32]).unwrap();
    for result in [e.add_plain(&x, &short), e.mul_plain(&x, &short)] {
        assert!(matches!(result.unwrap_err(), Error::PlaintextMismatch { .. }));
    }
    assert!(matches!(session.encryptor.encrypt(&short), Err(Error::PlaintextMismatch { .. })));
}

#[test]
fn exhausted_budgets_are_refused_before_anything_is_computed() {
    let t = modulus(65537, 1);
    let mut session = Session::new(chain(6, t, 2), 10);
    // Without keys, computing would fail in another way.
    let none = EvaluationKeys::none(session.params.rlwe(), session.secret.id());
    let keyless = Evaluator::new(&session.params, Arc::new(none)).unwrap();
    let a = session.random(t);
    let mut x = session.encrypt(&a);
    let error = loop {
        assert!(session.decryptor.budget(&x).unwrap() > 0.0);
        match session.evaluator.mul(&x, &x) {
            Ok(square) => x = square,
            Err(error) => break error,
        }
    };
    let Error::NoiseExhausted { log2_noise, log2_room, .. } = error else { panic!("{error}") };
    assert!(log2_noise >= log2_room);
    assert_eq!(keyless.mul(&x, &x).unwrap_err(), error);
    let dropped = session.evaluator.drop_to(&x, Level(0));
    assert!(matches!(dropped, Err(Error::NoiseExhausted { .. })));
    // A ciphertext whose bound is exhausted.
    let exhausted =
        Ciphertext { noise: session.encrypt(&a).noise + x.noise + x.noise, ..x.clone() };
    let grown = (0..200).fold(exhausted, |x, _| Ciphertext { noise: x.noise + x.noise, ..x });
    let refused = session.decryptor.decrypt(&grown);
    assert!(matches!(refused, Err(Error::NoiseExhausted { op: "decrypt", .. })));
}

/// Thousands of products: of fresh ciphertexts, of results and of plaintexts.
#[test]
fn errors_stay_below_their_bounds() {
    for (log_n, t, count) in [(5, modulus(257, 1), 1500), (7, modulus(65537, 1), 300)] {
        let mut session = Session::new(chain(log_n, t, 3), 11);
        let e = session.evaluator.clone();
        let check = |session: &Session, x: &Ciphertext| {
            let found = session.decryptor.noise(x).unwrap();
            let bound = x.noise().log2();
            assert!(found <= bound, "2^{found:.2} above 2^{bound:.2}");
            bound - found
        };
        for i in 0..count {
            let a = session.random(t);
            let b = session.random(t);
            let p = session.random(t);
            let x = session.encrypt(&a);
            let y = session.encrypt(&b);
            check(&session, &e.mul(&x, &x).unwrap());
            let xy = e.mul_rescale(&x, &y).unwrap();
            check(&session, &xy);
            let squared = e.mul_rescale(&xy, &xy).unwrap();
            check(&session, &squared);
            check(&session, &e.rotate(&squared, 1 + i64::from(i % 2 == 0)).unwrap());
            check(&session, &e.inner_sum(&squared, 4).unwrap());
            let plain = e.rescale(&e.mul_plain(&xy, &p).unwrap()).unwrap();
            check(&session, &plain);
            let sum = e.add(&plain, &plain).unwrap();
            check(&session, &sum);
        }
    }
}

/// Bounds are some bits above the measured errors at every depth: the slack does not accumulate.
#[test]
fn bounds_are_within_twelve_bits_at_depth_ten() {
    let t = modulus(65537, 1);
    let mut session = Session::new(tight(10, t, 10), 12);
    let e = session.evaluator.clone();
    let mut a = session.random(t);
    let mut x = session.encrypt(&a);
    for _ in 0..10 {
        a = mul(&a, &a);
        x = e.mul_rescale(&x, &x).unwrap();
        session.assert_holds(&x, &a);
        let gap = x.noise().log2() - session.decryptor.noise(&x).unwrap();
        assert!(gap < 12.0, "{gap}");
    }
    let gap = e.mul(&x, &x).err();
    assert!(gap.is_some());
}

/// Makes levels that consecutive squarings use up, as sets for bootstrapping have.
pub(crate) fn tight(log_n: u32, t: Modulus, levels: usize) -> Spec {
    let secret = crate::rlwe::SecretDistribution::UniformTernary;
    let rounding = NoiseBound::rounding(log_n, secret);
    let bits = t.log2() + rounding.canonical_log2() + 2.1;
    let mut spec = Spec::uniform(log_n, t, bits, levels - 1, bits, vec![bits + 16.0]);
    // Fresh errors are larger.
    spec.q_bits.push(vec![bits + 15.0]);
    spec
}

/// Plaintexts that maximise products.
pub(crate) fn chosen(session: &mut Session, t: Modulus) -> Vec<PlainPoly> {
    let n = 1usize << session.params.log_n();
    let half = t.value() / 2;
    let equal = PlainPoly::new(t, vec![half; n]).unwrap();
    // In phase with one root: signs change every few coefficients.
    let sign = |i: usize| if (i / (n / 8)).is_multiple_of(2) { half } else { t.neg(half) };
    let waves = PlainPoly::new(t, (0..n).map(sign).collect()).unwrap();
    vec![session.random(t), equal, waves]
}

/// Computes many circuits on a single ciphertext, at the smallest possible levels. No error exceeds
/// its bound, and every accepted result decrypts.
#[test]
fn no_circuit_exceeds_its_bound_at_tight_levels() {
    for (log_n, t) in [(6, modulus(257, 1)), (9, modulus(257, 1)), (8, modulus(65537, 1))] {
        let mut session = Session::new(tight(log_n, t, 10), 17);
        let e = session.evaluator.clone();
        for plain in chosen(&mut session, t) {
            let fresh = session.encrypt(&plain);
            let check = |x: &Ciphertext, clear: &PlainPoly| session.assert_holds(x, clear);
            // Squares.
            let mut x = fresh.clone();
            let mut a = plain.clone();
            while x.level() > Level(0) {
                x = e.mul_rescale(&x, &x).unwrap();
                a = mul(&a, &a);
                check(&x, &a);
            }
            // x x x …, each time by the first ciphertext.
            let first = e.rescale(&fresh).unwrap();
            let mut x = first.clone();
            let mut a = plain.clone();
            for _ in 0..6 {
                x = e.mul_rescale(&x, &first).unwrap();
                a = mul(&a, &plain);
                check(&x, &a);
            }
            // Sums of the ciphertext with itself and with its images, between squares.
            let mut x = e.rescale(&fresh).unwrap();
            let mut a = plain.clone();
            let mut steps = 0;
            loop {
                let k = 1 << (steps % (log_n - 1));
                let image = |a: &PlainPoly| image(a, GaloisElement::rotation(log_n, k));
                let rotated = e.add(&x, &e.rotate(&x, k).unwrap());
                let Ok(rotated) = rotated else { break };
                let both = add(&a, &image(&a));
                check(&rotated, &both);
                let Ok(twice) = e.add(&rotated, &rotated) else { break };
                a = scale(&both, 2);
                check(&twice, &a);
                let Ok(square) = e.mul_rescale(&twice, &twice) else { break };
                a = mul(&a, &a);
                check(&square, &a);
                (x, steps) = (square, steps + 1);
            }
            assert!(steps > 0, "{log_n}, {t}");
        }
    }
}

/// Slots are a matrix of two rows.
#[test]
fn slots_multiply_and_rotate_as_a_matrix() {
    for (log_n, t) in [(7, modulus(257, 1)), (6, modulus(65537, 1)), (5, modulus(257, 2))] {
        let mut session = Session::new(chain(log_n, t, 2), 13);
        let e = session.evaluator.clone();
        let n = 1usize << log_n;
        let encoder = BatchEncoder::new(t, log_n).unwrap();
        let values = |session: &mut Session| -> Vec<u128> {
            (0..n).map(|_| t.reduce(session.stream.next_u64().into())).collect()
        };
        let a = values(&mut session);
        let b = values(&mut session);
        let [x, y] = [&a, &b].map(|a| session.encrypt(&encoder.encode_unsigned(a).unwrap()));
        let decode = |x: &Ciphertext| {
            encoder.decode_unsigned(&session.decryptor.decrypt(x).unwrap()).unwrap()
        };
        let product: Vec<u128> = a.iter().zip(&b).map(|(&a, &b)| t.mul(a, b)).collect();
        assert_eq!(decode(&e.mul_rescale(&x, &y).unwrap()), product);
        let of_plain = e.mul_plain(&x, &encoder.encode_unsigned(&b).unwrap()).unwrap();
        assert_eq!(decode(&of_plain), product);
        let plus: Vec<u128> = a.iter().map(|&a| t.add(a, 7)).collect();
        assert_eq!(decode(&e.add_const(&x, 7).unwrap()), plus);

        let columns = n / 2;
        let read = |f: &dyn Fn(usize, usize) -> usize| -> Vec<u128> {
            (0..n).map(|i| a[f(i / columns, i % columns)]).collect()
        };
        let rotated = read(&|row, column| row * columns + (column + 2) % columns);
        assert_eq!(decode(&e.rotate(&x, 2).unwrap()), rotated);
        let swapped = read(&|row, column| (1 - row) * columns + column);
        assert_eq!(decode(&e.swap_rows(&x).unwrap()), swapped);
        for k in [0, 4, columns, columns + 4] {
            let flat = read(&|row, column| (row * columns + column + k) % n);
            let found = e.rotate_flat(&x, &encoder, k as i64 - n as i64).unwrap();
            assert_eq!(decode(&found), flat, "{k}");
        }
        let sums = e.inner_sum(&x, columns).unwrap();
        for (row, values) in a.chunks(columns).enumerate() {
            let sum = values.iter().fold(0, |sum, &a| t.add(sum, a));
            assert!(decode(&sums)[row * columns..][..columns].iter().all(|&x| x == sum));
        }
    }
}

/// Compares with `sum_j g^j(sum_b w_jb h_b(x))`, where some weights are zero.
#[test]
fn linear_transforms_are_sums_of_weighted_images() {
    for t in [modulus(257, 1), modulus(127, 2)] {
        let mut session = Session::new(chain(6, t, 2), 14);
        let e = session.evaluator.clone();
        let rotation = |k| GaloisElement::rotation(6, k);
        let baby = vec![rotation(0), rotation(1), GaloisElement::conjugation(6)];
        let weights: Vec<Vec<PlainPoly>> =
            (0..3).map(|_| (0..3).map(|_| session.random(t)).collect()).collect();
        let weight = |j: usize, b: usize| Some(weights[j][b].clone()).filter(|_| (j, b) != (1, 2));
        let level = session.params.top();
        let giant = rotation(4);
        let sum = AutomorphismSum { level, baby, giant, stages: 3, raise: None };
        let matrix = e.encode_matrix(Unit::one(t), sum.clone(), weight).unwrap();
        let a = session.random(t);
        let b = session.random(t);
        let x = session.encrypt(&a);
        let y = session.encrypt(&b);
        let expected = |a: &PlainPoly| {
            let stage = |j: usize| {
                let terms =
                    (0..3).filter_map(|b| Some(mul(&weight(j, b)?, &image(a, sum.baby[b]))));
                terms.reduce(|p, q| add(&p, &q)).unwrap()
            };
            let sum = add(&stage(1), &image(&stage(2), giant));
            add(&stage(0), &image(&sum, giant))
        };
        let found = e.transform_many(&[&x, &y], &matrix).unwrap();
        session.assert_holds(&found[0], &expected(&a));
        session.assert_holds(&found[1], &expected(&b));
        assert_eq!(found[0].factor(), e.rescale(&x).unwrap().factor());
        let low = e.rescale(&x).unwrap();
        assert!(matches!(e.transform(&low, &matrix), Err(Error::LevelOutOfRange { .. })));
        let other = modulus(17, 1);
        let plain = session.random(other);
        let z = session.encrypt(&plain);
        assert!(matches!(e.transform(&z, &matrix), Err(Error::PlaintextMismatch { .. })));
        let mixed = e.encode_matrix(Unit::one(t), sum.clone(), |_, _| Some(plain.clone()));
        assert!(matches!(mixed.err(), Some(Error::PlaintextMismatch { .. })));
    }
}

/// Level keys for several levels have other special primes and other errors.
#[test]
fn level_keys_serve_at_every_level() {
    let t = modulus(257, 1);
    let spec = Spec {
        extra_p_bits: vec![45.0; 3],
        insecure: true,
        ..Spec::uniform(6, t, 45.0, 4, 40.0, vec![45.0])
    };
    let mut session = Session::new(spec, 15);
    let params = session.params.clone();
    let top = session.params.top();
    let request = KeyRequest::new().relinearize(top).rotations(6, [1, 2], top);
    let mut keygen = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([16; 32]));
    let level_keys = request.into_level_keys(params.rlwe());
    let keys = keygen.evaluation_keys(&session.secret, &level_keys).unwrap();
    let e = Evaluator::new(&params, Arc::new(keys)).unwrap();
    let mut a = session.random(t);
    let mut x = session.encrypt(&a);
    loop {
        let rotated = e.inner_sum(&x, 4).unwrap();
        let image = |k| image(&a, GaloisElement::rotation(6, k));
        session.assert_holds(&rotated, &(1..4).fold(a.clone(), |sum, k| add(&sum, &image(k))));
        session.assert_holds(&e.mul(&x, &x).unwrap(), &mul(&a, &a));
        if x.level() == Level(0) {
            break;
        }
        x = e.mul_rescale(&x, &x).unwrap();
        a = mul(&a, &a);
        session.assert_holds(&x, &a);
    }
}
