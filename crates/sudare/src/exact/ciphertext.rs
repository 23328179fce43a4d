use super::{Modulus, NoiseBound, Unit, rules::Form};
use crate::{
    ring::{Eval, RnsPoly},
    rlwe::{self, KeyId, Level, ParamsId},
};

/// An encrypted polynomial modulo `t`, of BGV and of BFV alike: an RLWE ciphertext with its
/// factor, which knows `t`, and a bound of its error.
#[derive(Clone)]
pub struct Ciphertext {
    pub(crate) inner: rlwe::Ciphertext,
    pub(crate) factor: Unit,
    pub(crate) noise: NoiseBound,
}

impl Ciphertext {
    /// A ciphertext of a form, whose level is that of `inner`.
    pub(crate) fn new(inner: rlwe::Ciphertext, form: Form) -> Self {
        debug_assert_eq!(inner.level, form.level);
        Self { inner, factor: form.factor, noise: form.noise }
    }

    /// Ciphertexts of these forms, in turn.
    pub(crate) fn all(inner: Vec<rlwe::Ciphertext>, forms: Vec<Form>) -> Vec<Self> {
        inner.into_iter().zip(forms).map(|(inner, form)| Self::new(inner, form)).collect()
    }

    /// After its polynomials were changed in place to those of a form.
    pub(crate) fn set_form(&mut self, form: Form) {
        debug_assert_eq!(self.inner.level, form.level);
        (self.factor, self.noise) = (form.factor, form.noise);
    }

    /// What is public about it beside its polynomials.
    #[must_use]
    pub fn form(&self) -> Form {
        Form { level: self.level(), factor: self.factor, noise: self.noise }
    }

    /// How many more rescalings it can take.
    #[must_use]
    pub fn level(&self) -> Level {
        self.inner.level
    }

    /// The plaintext modulus `t`.
    #[must_use]
    pub fn plaintext_modulus(&self) -> Modulus {
        self.factor.modulus()
    }

    /// The unit that its plaintext is multiplied by.
    #[must_use]
    pub fn factor(&self) -> Unit {
        self.factor
    }

    /// The bound of its error.
    #[must_use]
    pub fn noise(&self) -> NoiseBound {
        self.noise
    }

    /// The parameters it was made under.
    #[must_use]
    pub fn params_id(&self) -> ParamsId {
        self.inner.params
    }

    /// The secret key that opens it.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.inner.key
    }

    /// `c_0` and `c_1`, modulo the primes of its level.
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
        let (level, factor, noise) = (self.level(), self.factor, self.noise.log2());
        write!(f, "Ciphertext(level {level}, factor {factor}, error below 2^{noise:.1})")
    }
}
