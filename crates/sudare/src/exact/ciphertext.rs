use super::{Modulus, NoiseBound, Unit, rules::Form};
use crate::{
    ring::{Eval, RnsPoly},
    rlwe::{self, KeyId, Level, ParamsId},
};

/// An encrypted polynomial modulo `t`, for both BGV and BFV: an RLWE ciphertext with its factor,
/// which includes `t`, and a bound of its error.
#[derive(Clone)]
pub struct Ciphertext {
    pub(crate) inner: rlwe::Ciphertext,
    pub(crate) factor: Unit,
    pub(crate) noise: NoiseBound,
}

impl Ciphertext {
    /// Makes a ciphertext of a form whose level equals the level of `inner`.
    pub(crate) fn new(inner: rlwe::Ciphertext, form: Form) -> Self {
        debug_assert_eq!(inner.level, form.level);
        Self { inner, factor: form.factor, noise: form.noise }
    }

    /// Makes ciphertexts of these forms, in order.
    pub(crate) fn all(inner: Vec<rlwe::Ciphertext>, forms: Vec<Form>) -> Vec<Self> {
        inner.into_iter().zip(forms).map(|(inner, form)| Self::new(inner, form)).collect()
    }

    /// Sets the form after the polynomials were changed in place.
    pub(crate) fn set_form(&mut self, form: Form) {
        debug_assert_eq!(self.inner.level, form.level);
        (self.factor, self.noise) = (form.factor, form.noise);
    }

    /// Public properties of the ciphertext in addition to its polynomials.
    #[must_use]
    pub fn form(&self) -> Form {
        Form { level: self.level(), factor: self.factor, noise: self.noise }
    }

    /// Number of rescalings left.
    #[must_use]
    pub fn level(&self) -> Level {
        self.inner.level
    }

    /// The plaintext modulus `t`.
    #[must_use]
    pub fn plaintext_modulus(&self) -> Modulus {
        self.factor.modulus()
    }

    /// The unit that multiplies the plaintext.
    #[must_use]
    pub fn factor(&self) -> Unit {
        self.factor
    }

    /// The bound of the error.
    #[must_use]
    pub fn noise(&self) -> NoiseBound {
        self.noise
    }

    /// Parameters of the ciphertext.
    #[must_use]
    pub fn params_id(&self) -> ParamsId {
        self.inner.params
    }

    /// The secret key that decrypts it.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.inner.key
    }

    /// `c_0` and `c_1`, modulo the primes of the level.
    #[must_use]
    pub fn polys(&self) -> &[RnsPoly<Eval>; 2] {
        &self.inner.polys
    }
}

impl AsRef<rlwe::Ciphertext> for Ciphertext {
    fn as_ref(&self) -> &rlwe::Ciphertext {
        &self.inner
    }
}

impl core::fmt::Debug for Ciphertext {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let level = self.level();
        let factor = self.factor;
        let noise = self.noise.log2();
        write!(f, "Ciphertext(level {level}, factor {factor}, error below 2^{noise:.1})")
    }
}
