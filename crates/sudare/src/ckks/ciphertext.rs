use super::{Scale, rules::Form};
use crate::{
    ring::{Eval, RnsPoly},
    rlwe::{self, KeyId, Level, ParamsId},
};

/// An encoded vector.
#[derive(Clone)]
pub struct Plaintext {
    pub(crate) poly: RnsPoly<Eval>,
    pub(crate) level: Level,
    pub(crate) scale: Scale,
    pub(crate) log_slots: u32,
    pub(crate) params: ParamsId,
}

/// Prints the form: the values may be secret.
impl core::fmt::Debug for Plaintext {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let level = self.level;
        let scale = self.scale;
        let slots = self.slots();
        write!(f, "Plaintext(level {level}, scale {scale}, {slots} slots)")
    }
}

impl Plaintext {
    /// Level of the plaintext.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Scale of the slots.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Number of slots, a power of two. They repeat to fill `N / 2`.
    #[must_use]
    pub fn slots(&self) -> usize {
        1 << self.log_slots
    }

    pub(super) fn form(&self) -> Form {
        Form { level: self.level, scale: self.scale, log_slots: self.log_slots }
    }

    /// The polynomial of integers modulo the primes of the level.
    #[must_use]
    pub fn poly(&self) -> &RnsPoly<Eval> {
        &self.poly
    }
}

/// An encrypted vector: an RLWE ciphertext with its scale and number of slots.
#[derive(Clone)]
pub struct Ciphertext {
    pub(crate) inner: rlwe::Ciphertext,
    pub(crate) scale: Scale,
    pub(crate) log_slots: u32,
}

impl Ciphertext {
    /// Makes a ciphertext of a form whose level equals the level of `inner`.
    pub(super) fn new(inner: rlwe::Ciphertext, form: Form) -> Self {
        debug_assert_eq!(inner.level, form.level);
        Self { inner, scale: form.scale, log_slots: form.log_slots }
    }

    /// Makes ciphertexts of these forms, in order.
    pub(super) fn all(inner: Vec<rlwe::Ciphertext>, forms: Vec<Form>) -> Vec<Self> {
        inner.into_iter().zip(forms).map(|(inner, form)| Self::new(inner, form)).collect()
    }

    /// Public properties of the ciphertext in addition to its polynomials.
    pub(crate) fn form(&self) -> Form {
        Form { level: self.level(), scale: self.scale, log_slots: self.log_slots }
    }

    /// Number of rescalings left.
    #[must_use]
    pub fn level(&self) -> Level {
        self.inner.level
    }

    /// Scale of the slots.
    #[must_use]
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Number of slots, a power of two. They repeat to fill `N / 2`.
    #[must_use]
    pub fn slots(&self) -> usize {
        1 << self.log_slots
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

impl Form {
    /// Returns level, scale and slots of a ciphertext.
    #[must_use]
    pub fn of(a: &Ciphertext) -> Self {
        a.form()
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
        let scale = self.scale;
        let slots = self.slots();
        write!(f, "Ciphertext(level {level}, scale {scale}, {slots} slots)")
    }
}
