use super::{
    Ciphertext, Evaluator, Modulus, Params, PlainPoly, Unit,
    encrypt::{Reader, lifted, residue},
};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, RnsPoly},
    rlwe::{Halves, Level, Lift, Raise},
};
use zeroize::Zeroizing;

/// Returns the request for keys that raise ciphertexts, rounded to the plaintext modulus `t`, to
/// `level` through an ephemeral secret of weight [`Raise::DEFAULT_WEIGHT`].
#[must_use]
pub fn raise_to(level: Level, t: Modulus) -> Raise {
    Raise::to(level).with_divisor(t.value())
}

impl Params {
    /// Returns the factor by which [`Evaluator::raise`] multiplies the plaintext of a ciphertext of
    /// factor `f`: `-f / q_0`, where `q_0` is the modulus of level 0.
    ///
    /// # Errors
    /// [`Error::PlaintextModulusNotCoprime`].
    pub fn raised_factor(&self, factor: Unit) -> Result<Unit> {
        // The factor of fresh ciphertexts at level 0 is `-q_0`.
        Ok(factor / self.fresh_factor(Level(0), factor.modulus())?)
    }
}

impl Evaluator {
    /// Rounds a ciphertext modulo `q_0` of a plaintext `m` modulo `p^r` to the modulus `t = p^e`
    /// and lifts it to every prime up to level `to`. The result encrypts `p^(e - r) g m + I` modulo
    /// `t`, with `g` from [`Params::raised_factor`] and a small polynomial `I`. Primes of `a` above
    /// level 0 are ignored, which is exact.
    ///
    /// Under an ephemeral secret of weight `h`, a coefficient of `I` is the sum of `h + 1` rounding
    /// errors and a contribution of the error of `a`. The contribution must be at most 1/32, or
    /// raising is rejected. Since coefficients are integers, `h` of the rounding errors determine
    /// the one of `c_0`. A coefficient is the integer next to the sum of `h` errors and the
    /// contribution, so `|I| <= (h + 1) / 2`.
    ///
    /// | level | factor | keys | cost |
    /// |---|---|---|---|
    /// | `to` | 1 | raising, with the divisor `t` | 1 key switch at level 0, 1 of one digit, 4 transforms per limb |
    ///
    /// The rounded value `round(t / q_0 c_i)` is `(t c_i - r_i) / q_0` with `r_i` the residue of
    /// `t c_i` next to zero. Modulo `t` it is `-r_i / q_0`, so no product is larger than a residue.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] unless `t` is a higher power of the same prime;
    /// [`Error::LevelOutOfRange`]; [`Error::MissingRaisingKey`]; [`Error::RaisingDivisorMismatch`];
    /// [`Error::NoiseExhausted`]; [`Error::ParamsMismatch`]; [`Error::KeyMismatch`].
    pub fn raise(&self, a: &Ciphertext, to: Level, t: Modulus) -> Result<Ciphertext> {
        let weight = self.ephemeral_weight(to)?;
        let form = self.rules().raised(self.form(a)?, to, t, weight)?;
        let lift = self.rounding_lift(t)?;
        let inner = self.inner.raise(&a.inner, to, Lift { divisor: t.value(), lift: &lift })?;
        Ok(Ciphertext::new(inner, form))
    }

    /// Returns the weight of the ephemeral secret for raising to a level.
    pub(super) fn ephemeral_weight(&self, to: Level) -> Result<u32> {
        let missing = Error::MissingRaisingKey { level: to, found: None };
        Ok(self.keys().raise.as_ref().ok_or(missing)?.weight)
    }

    /// Returns a lift that rounds polynomials modulo `q_0` to `t`. It divides the first by `t`.
    pub(super) fn rounding_lift(
        &self,
        t: Modulus,
    ) -> Result<impl Fn(&Halves, [LimbSet; 2]) -> Halves + use<'_>> {
        let params = self.params();
        // The unit `-1 / q_0` turns `c` modulo `q_0` into `t c`.
        let factor = params.fresh_factor(Level(0), t)?.inverse();
        Ok(move |[c0, c1]: &Halves, limbs: [LimbSet; 2]| {
            let [c0, c1] = [c0, c1].map(|c| rounded(params, c, factor));
            let one = Unit::one(t);
            [lifted(params, limbs[0], &c0, one, true), lifted(params, limbs[1], &c1, one, false)]
        })
    }
}

/// Rounds a polynomial modulo `q_0` to the modulus of `factor`, which is `-1 / q_0`.
fn rounded(params: &Params, c: &RnsPoly<Eval>, factor: Unit) -> PlainPoly {
    let basis = params.rlwe().basis();
    let limbs = c.limbs();
    let t = factor.modulus();
    let scaled = basis.scale(c, |i| residue(basis.modulus(limbs, i), t));
    let coeffs = basis.into_coeff(scaled);
    let reader = Reader::new(basis.tables(limbs).map(|table| *table.modulus()).collect(), t);
    let rows: Vec<&[u64]> = coeffs.rows().collect();
    let mut digits = vec![0; rows.len()];
    let residues = (0..basis.n()).map(|k| {
        reader.read(&rows, k, &mut digits);
        t.mul(reader.residue(&digits), factor.value())
    });
    PlainPoly::from_residues(t, Zeroizing::new(residues.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exact::{Spec, tests::Session},
        rlwe::KeyRequest,
    };

    const LOG_N: u32 = 6;
    const WEIGHT: u32 = 8;

    fn spec(t: Modulus, base: Vec<f64>) -> Spec {
        let mut spec = Spec::uniform(LOG_N, t, 0.0, 3, 45.0, vec![52.0; 3]);
        spec.q_bits[0] = base;
        spec
    }

    /// Makes a session with all keys; its raising keys reach level 2 with this divisor.
    fn session(t: Modulus, base: Vec<f64>, divisor: Modulus) -> Session {
        let raise = raise_to(Level(2), divisor).with_weight(WEIGHT);
        Session::with_keys(spec(t, base), 9, &KeyRequest::new().raise(raise))
    }

    #[test]
    fn raised_plaintexts_have_small_lowest_digits() {
        let bases = [vec![49.0], vec![40.0, 27.0], vec![61.0, 61.0]];
        for (p, r, e) in [(257, 1, 2), (257, 1, 3), (17, 2, 4), (2, 3, 9), (65537, 1, 2)] {
            let [t, high] = [r, e].map(|k| Modulus::new(p, k).unwrap());
            for base in &bases {
                let mut s = session(t, base.clone(), high);
                let m = s.random(t);
                let factor = Unit::new(3, t).unwrap();
                let mut largest = 0;
                for level in [0, 3] {
                    let a = s.encrypt_at(&m, Level(level), factor);
                    let raised = s.evaluator.raise(&a, Level(2), high).unwrap();
                    assert_eq!(raised.level(), Level(2));
                    assert_eq!(raised.factor(), Unit::one(high));
                    let g = s.params.raised_factor(factor).unwrap();
                    let found = s.decryptor.decrypt(&raised).unwrap();
                    s.assert_holds(&raised, &found);
                    let shift = high.value() / t.value();
                    for (&x, &m) in found.coeffs().iter().zip(m.coeffs()) {
                        let multiple = shift * t.mul(g.value(), m);
                        let digit = high.centered(high.sub(x, multiple));
                        largest = largest.max(digit.unsigned_abs());
                    }
                }
                // The sum of eight rounding errors, each at most a half.
                assert!((1..=u128::from(WEIGHT) / 2).contains(&largest), "{t} {high}: {largest}");
            }
        }
    }

    #[test]
    fn unraisable_ciphertexts_are_refused() {
        let [t, high, higher] = [1, 2, 3].map(|k| Modulus::new(257, k).unwrap());
        let mut s = session(t, vec![40.0], high);
        let m = s.random(t);
        let a = s.encrypt(&m);
        let e = s.evaluator.clone();
        let other = Error::RaisingDivisorMismatch { found: high.value(), needed: higher.value() };
        assert_eq!(e.raise(&a, Level(2), higher).unwrap_err(), other);
        let above = Error::MissingRaisingKey { level: Level(3), found: Some(Level(2)) };
        assert_eq!(e.raise(&a, Level(3), high).unwrap_err(), above);
        assert!(matches!(e.raise(&a, Level(4), high), Err(Error::LevelOutOfRange { .. })));
        for wrong in [t, Modulus::new(17, 2).unwrap()] {
            assert!(matches!(e.raise(&a, Level(2), wrong), Err(Error::PlaintextMismatch { .. })));
        }
        // Squares without rescaling have errors too large for the rounding to remove.
        let square = e.mul(&a, &a).unwrap();
        let low = e.drop_to(&square, Level(1)).unwrap();
        assert!(matches!(e.raise(&low, Level(2), high), Err(Error::NoiseExhausted { .. })));
        // Without keys, and with keys for ciphertexts of CKKS.
        let none = Session::with_keys(spec(t, vec![40.0]), 9, &KeyRequest::new());
        let b = none.encryptor.encrypt(&m).unwrap();
        let missing = Error::MissingRaisingKey { level: Level(2), found: None };
        assert_eq!(none.evaluator.raise(&b, Level(2), high).unwrap_err(), missing);
        let undivided = KeyRequest::new().raise(Raise::to(Level(2)).with_weight(WEIGHT));
        let s = Session::with_keys(spec(t, vec![40.0]), 9, &undivided);
        let b = s.encryptor.encrypt(&m).unwrap();
        let error = Error::RaisingDivisorMismatch { found: 1, needed: high.value() };
        assert_eq!(s.evaluator.raise(&b, Level(2), high).unwrap_err(), error);
    }
}
