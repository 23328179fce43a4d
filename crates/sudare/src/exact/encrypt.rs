use super::{
    Ciphertext, Modulus, Params, PlainPoly, Unit,
    modulus::WordReducer,
    rules::{Form, Rules, match_rings},
};
#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    ring::{Coeff, Eval, LimbSet, MixedRadix, RnsPoly},
    rlwe::{self, EncryptionKey, KeyId, Level, PublicKey, SecretKey, Seeded},
};
use std::sync::Arc;
use sudare_arith::{self as arith, mem::Secrecy, par, prng::Seed, real};
use zeroize::Zeroizing;

/// Returns the residue of `t` modulo a prime of the chain.
pub(crate) fn residue(m: &arith::Modulus, t: Modulus) -> u64 {
    m.reduce_u128(t.value())
}

/// Returns the polynomial with coefficients next to zero that are congruent to `f a mod t`, modulo
/// the primes of `limbs`. It is multiplied by `t^-1` if `divided` is set.
pub(crate) fn lifted(
    params: &Params,
    limbs: LimbSet,
    a: &PlainPoly,
    factor: Unit,
    divided: bool,
) -> RnsPoly<Eval> {
    let basis = params.rlwe().basis();
    let t = a.modulus();
    let f = factor.value();
    let integers: Zeroizing<Vec<i128>> =
        Zeroizing::new(a.coeffs().iter().map(|&c| t.centered(t.mul(f, c))).collect());
    let mut poly: RnsPoly<Coeff> = basis.take_as(Secrecy::Value, limbs);
    par::for_each(basis.tables(limbs).zip(poly.rows_mut()), |(table, row)| {
        let m = table.modulus();
        for (x, &u) in row.iter_mut().zip(integers.iter()) {
            *x = m.reduce_i128(u);
        }
        if divided {
            m.scale_assign(row, m.shoup(m.inv(residue(m, t))));
        }
    });
    basis.into_eval(poly)
}

/// Returns the message polynomial of either kind of encryption.
fn message(params: &Params, a: &PlainPoly, form: Form) -> Result<RnsPoly<Eval>> {
    let ring = Rules::new(params).ring(form.factor.modulus());
    match_rings("encrypt", (a.modulus(), a.log_n()), ring)?;
    Ok(lifted(params, params.rlwe().limbs(form.level), a, form.factor, true))
}

/// Encrypts under a public key.
pub type Encryptor = rlwe::Encryptor<Params, PublicKey>;
/// Encrypts under the secret key itself, with smaller errors.
pub type SymmetricEncryptor = rlwe::Encryptor<Params, SecretKey>;

impl<K: EncryptionKey> rlwe::Encryptor<Params, K> {
    /// Encrypts at the top, with [`Params::fresh_factor`] and randomness of the operating system:
    /// `v (b, a) + (e_0 + t^-1 f m, e_1)` with a ternary `v` and binomial errors, or
    /// `(-a s + e + t^-1 f m, a)` under the secret key.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for a polynomial of another ring;
    /// [`Error::PlaintextModulusNotCoprime`]; [`Error::NoiseExhausted`] if the modulus is too small
    /// for `t` and the error; [`Error::Arith`] if the system returns no randomness;
    /// [`Error::Forked`] under the secret key.
    pub fn encrypt(&self, a: &PlainPoly) -> Result<Ciphertext> {
        let top = self.params.top();
        let factor = self.params.fresh_factor(top, a.modulus())?;
        self.encrypt_with(a, top, factor, &Seed::random()?)
    }

    /// Encrypts at any level and with any factor; see [`Encryptor::encrypt`].
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::PlaintextMismatch`]; errors of [`Encryptor::encrypt`].
    pub fn encrypt_at(&self, a: &PlainPoly, level: Level, factor: Unit) -> Result<Ciphertext> {
        self.encrypt_with(a, level, factor, &Seed::random()?)
    }

    /// Encrypts like [`Encryptor::encrypt_at`], with randomness derived from `seed`: anyone who
    /// knows the seed can decrypt. For known-answer tests.
    ///
    /// # Errors
    /// See [`Encryptor::encrypt_at`].
    pub fn encrypt_with(
        &self,
        a: &PlainPoly,
        level: Level,
        factor: Unit,
        seed: &Seed,
    ) -> Result<Ciphertext> {
        let form = Rules::new(&self.params).encrypted(level, factor, K::IS_SECRET)?;
        let message = message(&self.params, a, form)?;
        let inner = self.key.encrypt(self.params.rlwe(), &message, level, seed)?;
        Ok(Ciphertext::new(inner, form))
    }
}

impl SymmetricEncryptor {
    /// Encrypts for files of half the size
    /// ([`CiphertextWriter::seeded`](super::serial::CiphertextWriter::seeded)); see
    /// [`Encryptor::encrypt`].
    ///
    /// # Errors
    /// See [`Encryptor::encrypt`].
    pub fn encrypt_seeded(&self, a: &PlainPoly) -> Result<Seeded<Ciphertext>> {
        let top = self.params.top();
        let factor = self.params.fresh_factor(top, a.modulus())?;
        self.encrypt_seeded_with(a, top, factor, &Seed::random()?)
    }

    /// Encrypts like [`SymmetricEncryptor::encrypt_seeded`] at any level and with any factor, with
    /// randomness derived from `seed`. Anyone who knows the seed can decrypt, and with the message
    /// as well can compute the key. For known-answer tests.
    ///
    /// # Errors
    /// See [`Encryptor::encrypt_at`].
    pub fn encrypt_seeded_with(
        &self,
        a: &PlainPoly,
        level: Level,
        factor: Unit,
        seed: &Seed,
    ) -> Result<Seeded<Ciphertext>> {
        let form = Rules::new(&self.params).encrypted(level, factor, true)?;
        let message = message(&self.params, a, form)?;
        let inner = self.key.encrypt_seeded(self.params.rlwe(), &message, level, seed)?;
        Ok(inner.map(|inner| Ciphertext::new(inner, form)))
    }
}

/// Decrypts. Not `Clone`. Servers do not have one.
///
/// Measured errors and budgets depend on the secret key: show them to its owner only.
#[derive(Debug)]
pub struct Decryptor {
    params: Params,
    key: Arc<SecretKey>,
}

/// Content of a ciphertext: coefficients of `f m` modulo `t`, and `log2` of the maximum magnitude
/// of `t (c_0 + c_1 s) mod Q`.
struct Opened {
    coeffs: Zeroizing<Vec<u128>>,
    log2_largest: f64,
    /// `log2` of the error: of the difference to `f m` next to zero, divided by `t`.
    log2_error: f64,
}

impl Decryptor {
    /// Makes a decryptor that holds `key`.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::Forked`].
    pub fn new(params: &Params, key: impl Into<Arc<SecretKey>>) -> Result<Self> {
        let key = key.into();
        key.check(params.rlwe())?;
        Ok(Self { params: params.clone(), key })
    }

    /// The key pair.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.key.id
    }

    /// The decryptor's key.
    #[must_use]
    pub fn key(&self) -> &SecretKey {
        &self.key
    }

    /// Decrypts: returns `f^-1 (t (c_0 + c_1 s) mod Q) mod t`, in exact integers.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`]; [`Error::Forked`];
    /// [`Error::PlaintextModulusNotCoprime`]; [`Error::NoiseExhausted`] if the bound of its error
    /// is too large to decrypt.
    pub fn decrypt(&self, a: &Ciphertext) -> Result<PlainPoly> {
        self.check(a)?;
        // Beyond its bound, a ciphertext could decrypt to a wrong plaintext without any sign of it.
        Rules::new(&self.params).checked("decrypt", a.form())?;
        Ok(opened_plaintext(&self.params, &self.phase(a)?, a.factor))
    }

    /// Measures `log2` of the largest coefficient of the error of `a`, which its [`NoiseBound`]
    /// bounds. No error is minus infinity. For a ciphertext that does not decrypt, the result is
    /// the remainder modulo `Q`.
    ///
    /// [`NoiseBound`]: super::NoiseBound
    ///
    /// # Errors
    /// Errors of [`Decryptor::decrypt`], except the last.
    pub fn noise(&self, a: &Ciphertext) -> Result<f64> {
        Ok(self.measured(a)?.log2_error)
    }

    /// Returns the bits by which the error of `a` can grow until it does not decrypt.
    ///
    /// # Errors
    /// See [`Decryptor::noise`].
    pub fn budget(&self, a: &Ciphertext) -> Result<f64> {
        let opened = self.measured(a)?;
        let log2_q = self.params.rlwe().log2_q(a.level());
        // Decryption needs `|t (c_0 + c_1 s)| < Q / 2` (docs/notes/exact-errors.md).
        Ok((log2_q - 1.0 - opened.log2_largest).max(0.0))
    }

    /// Rejects a ciphertext of other parameters or of another key.
    fn check(&self, a: &Ciphertext) -> Result<()> {
        let params = self.params.rlwe();
        self.key.check(params)?;
        a.inner.check_owner(params, self.key.id)?;
        self.params.check_modulus(a.plaintext_modulus())
    }

    /// Returns the content of `a` with its magnitude and its error, in time that depends on them.
    fn measured(&self, a: &Ciphertext) -> Result<Opened> {
        Ok(content(&self.params, &self.phase(a)?, a.plaintext_modulus(), true))
    }

    /// Returns the coefficients of `c_0 + c_1 s`.
    fn phase(&self, a: &Ciphertext) -> Result<RnsPoly<Coeff>> {
        self.check(a)?;
        let params = self.params.rlwe();
        let phase = self.key.phase(params, &a.inner, params.limbs(a.level()))?;
        Ok(params.basis().into_coeff(phase))
    }
}

/// Returns the content of `c_0 + c_1 s`, given by its coefficients. If `measures` is set, also
/// measures its magnitude and its error, in time that depends on them.
fn content(params: &Params, phase: &RnsPoly<Coeff>, t: Modulus, measures: bool) -> Opened {
    let basis = params.rlwe().basis();
    let limbs = phase.limbs();
    let coeffs = basis.scale(phase, |i| residue(basis.modulus(limbs, i), t));
    let reader = Reader::new(basis.tables(limbs).map(|table| *table.modulus()).collect(), t);
    let rows: Vec<&[u64]> = coeffs.rows().collect();
    let mut opened = Opened {
        // Allocated at its final size: growing would leave copies behind.
        coeffs: Zeroizing::new(Vec::with_capacity(basis.n())),
        log2_largest: f64::NEG_INFINITY,
        log2_error: f64::NEG_INFINITY,
    };
    let mut digits = Zeroizing::new(vec![0; rows.len()]);
    for k in 0..basis.n() {
        reader.read(&rows, k, &mut digits);
        let u = reader.residue(&digits);
        opened.coeffs.push(u);
        if measures {
            let size = |log2: f64, digits: &[i64]| log2.max(reader.log2_size(digits));
            opened.log2_largest = size(opened.log2_largest, &digits);
            reader.subtract(&mut digits, t.centered(u));
            opened.log2_error = size(opened.log2_error, &digits);
        }
    }
    // The difference is `t e`.
    opened.log2_error -= t.log2();
    opened
}

/// Returns the plaintext of `c_0 + c_1 s`, given by its coefficients, for a ciphertext with this
/// factor.
pub(super) fn opened_plaintext(params: &Params, phase: &RnsPoly<Coeff>, factor: Unit) -> PlainPoly {
    let t = factor.modulus();
    let opened = content(params, phase, t, false);
    let inverse = factor.inverse().value();
    let residues = opened.coeffs.iter().map(|&u| t.mul(u, inverse)).collect();
    PlainPoly::from_residues(t, Zeroizing::new(residues))
}

/// Converts residues to integers in `(-Q/2, Q/2)`, as digits.
pub(super) struct Reader {
    radix: MixedRadix,
    t: Modulus,
    reducer: WordReducer,
    /// `q_0 … q_{i-1} mod t`, and `log2` of it.
    weights: Vec<(u128, f64)>,
}

impl Reader {
    pub(super) fn new(moduli: Vec<arith::Modulus>, t: Modulus) -> Self {
        let weights = moduli.iter().scan((1 % t.value(), 0.0), |(weight, log2), m| {
            let current = (*weight, *log2);
            *weight = t.mul(*weight, t.reduce(m.value().into()));
            *log2 += real::log2(m.value() as f64);
            Some(current)
        });
        let weights = weights.collect();
        let reducer = WordReducer::new(t);
        Self { weights, radix: MixedRadix::new(moduli), t, reducer }
    }

    /// Computes the digits of the integer with the residues in column `k` of `rows`.
    pub(super) fn read(&self, rows: &[&[u64]], k: usize, digits: &mut [i64]) {
        self.radix.resolve(digits, |i| rows[i][k]);
    }

    /// Subtracts a small integer from the digits' integer.
    fn subtract(&self, digits: &mut [i64], c: i128) {
        let mut low = i128::from(digits[0]) - c;
        for (i, m) in self.radix.moduli().iter().enumerate() {
            let q = i128::from(m.value());
            let rest = low.rem_euclid(q);
            let rest = if 2 * rest > q { rest - q } else { rest };
            digits[i] = rest as i64;
            let carry = (low - rest) / q;
            if carry == 0 || i + 1 == digits.len() {
                return;
            }
            low = i128::from(digits[i + 1]) + carry;
        }
    }

    /// Returns the integer modulo `t`, in a time independent of its value.
    pub(super) fn residue(&self, digits: &[i64]) -> u128 {
        let t = self.t;
        let terms = digits.iter().zip(&self.weights);
        terms.fold(0, |sum, (&d, &(w, _))| t.add(sum, t.mul(self.reducer.reduce(d), w)))
    }

    /// Returns `log2` of the integer's magnitude.
    fn log2_size(&self, digits: &[i64]) -> f64 {
        let Some(top) = digits.iter().rposition(|&d| d != 0) else { return f64::NEG_INFINITY };
        let lead = digits[..=top].iter().zip(self.radix.moduli()).fold(0.0, |low, (&d, m)| {
            // Divided by the primes below the next digit.
            (low + d as f64) / m.value() as f64
        });
        real::log2(lead.abs())
            + self.weights[top].1
            + real::log2(self.radix.moduli()[top].value() as f64)
    }
}
