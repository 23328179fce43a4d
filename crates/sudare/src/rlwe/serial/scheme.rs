use super::super::{Ciphertext, Level, Params, TABLE_BYTES, UpperSpec};
use crate::Result;
use core::fmt::Debug;
use serde::{Serialize, de::DeserializeOwned};

/// A scheme, represented by its checked parameters: the parts of files that differ between schemes.
pub trait Scheme: AsRef<Params> + Clone {
    /// Number of the scheme in files.
    const CODE: u16;
    /// Name of the scheme in errors.
    const NAME: &'static str;

    /// Parameters as a user writes them.
    type Spec: Clone + Debug + PartialEq + Serialize + DeserializeOwned;
    /// An encrypted message.
    type Ciphertext: AsRef<Ciphertext>;
    /// Public properties of a ciphertext in addition to its polynomials.
    type Form: Copy + Debug + PartialEq;
    /// A form without its level, as in a header: unchecked numbers.
    type Meta: Copy + PartialEq + Serialize + DeserializeOwned;
    /// Results of checks of forms, kept so that they are not repeated.
    type Known: Default;

    /// Rejects sizes that are out of range, without a search for primes, and counts the primes.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`](crate::Error::InvalidSpec).
    fn count_primes(spec: &Self::Spec) -> Result<PrimeCounts>;

    /// Makes checked parameters.
    ///
    /// # Errors
    /// Errors of the scheme.
    fn from_spec(spec: Self::Spec) -> Result<Self>;

    /// The specification.
    fn to_spec(&self) -> Self::Spec;

    /// Returns the form of a ciphertext.
    fn form(a: &Self::Ciphertext) -> Self::Form;

    /// Returns a header's description of a ciphertext of this form.
    fn described(form: Self::Form) -> (Level, Self::Meta);

    /// Returns the form that a header describes, if these parameters have it. The level must exist.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed), and errors of the scheme.
    fn checked_form(
        &self,
        level: Level,
        meta: Self::Meta,
        known: &mut Self::Known,
    ) -> Result<Self::Form>;

    /// Makes a ciphertext of a form whose level equals the level of `inner`.
    fn ciphertext(inner: Ciphertext, form: Self::Form) -> Self::Ciphertext;
}

/// Number of primes that a specification requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimeCounts {
    pub(super) log_n: u32,
    /// Chain primes up to each level, including the levels above the top of the chain.
    pub(super) up_to: Vec<usize>,
    /// Chain primes at the top of the chain.
    pub(super) fresh: usize,
    pub(super) special: usize,
    /// Other primes: above the top, in place of the chain, and additional special primes of level
    /// keys.
    others: usize,
}

impl PrimeCounts {
    /// Counts the primes of a chain, from the primes of each level, and of special primes, in a
    /// ring of dimension `2^log_n`.
    #[must_use]
    pub fn new(log_n: u32, levels: &[Vec<f64>], special: usize) -> Self {
        let chain =
            Self { log_n, up_to: Vec::new(), fresh: 0, special, others: 0 }.with_levels(0, levels);
        Self { fresh: chain.up_to.last().copied().unwrap_or(0), ..chain }
    }

    /// Adds the levels above a chain, if there are any.
    #[must_use]
    pub fn with_upper(self, upper: Option<&UpperSpec>) -> Self {
        match upper {
            Some(upper) => {
                let all = self.with_levels(upper.base_bits.len(), &upper.levels_bits);
                // Upper levels share no primes with the chain, so all of theirs need tables of
                // their own.
                let above = all.up_to.last().copied().unwrap_or(0);
                all.with_others(above)
            }
            None => self,
        }
    }

    /// Adds `more` primes, which only need tables.
    #[must_use]
    pub fn with_others(self, more: usize) -> Self {
        Self { others: self.others.saturating_add(more), ..self }
    }

    /// Bytes of the tables of all primes.
    pub(super) fn table_bytes(&self) -> u64 {
        // Sizes come from a file, whose claims are unchecked here, so no product may overflow.
        let primes = self.fresh.saturating_add(self.others).saturating_add(self.special);
        let residues =
            (primes as u64).saturating_mul(1u64.checked_shl(self.log_n).unwrap_or(u64::MAX));
        residues.saturating_mul(TABLE_BYTES)
    }

    /// Adds levels above `base` primes that replace the chain.
    fn with_levels(mut self, base: usize, levels: &[Vec<f64>]) -> Self {
        let mut sum = base;
        for level in levels {
            sum = sum.saturating_add(level.len());
            self.up_to.push(sum);
        }
        self
    }
}
