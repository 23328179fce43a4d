use super::super::{Ciphertext, Level, Params, TABLE_BYTES, UpperSpec};
use crate::Result;
use core::fmt::Debug;
use serde::{Serialize, de::DeserializeOwned};

/// A scheme, by its checked parameters: what its files say, and hold, beside what those of all
/// schemes do.
pub trait Scheme: AsRef<Params> + Clone {
    /// Its number in files.
    const CODE: u16;
    /// Its name in errors.
    const NAME: &'static str;

    /// Parameters as a user writes them.
    type Spec: Clone + Debug + PartialEq + Serialize + DeserializeOwned;
    /// An encrypted message.
    type Ciphertext: AsRef<Ciphertext>;
    /// What is public about a ciphertext beside its polynomials.
    type Form: Copy + Debug + PartialEq;
    /// A form without its level, as a header says it: numbers that nothing is known of.
    type Meta: Copy + PartialEq + Serialize + DeserializeOwned;
    /// What was found out while forms were checked, and need not be again.
    type Known: Default;

    /// Refuses sizes that are out of range, without a search for primes, and counts the primes.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`](crate::Error::InvalidSpec).
    fn count_primes(spec: &Self::Spec) -> Result<PrimeCounts>;

    /// Checked parameters.
    ///
    /// # Errors
    /// What the scheme refuses.
    fn from_spec(spec: Self::Spec) -> Result<Self>;

    /// The specification.
    fn to_spec(&self) -> Self::Spec;

    /// The form of a ciphertext.
    fn form(a: &Self::Ciphertext) -> Self::Form;

    /// What a header says of a ciphertext of this form.
    fn described(form: Self::Form) -> (Level, Self::Meta);

    /// The form that a header says, of a level that exists, if these parameters have it.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed), and what the scheme refuses.
    fn checked_form(
        &self,
        level: Level,
        meta: Self::Meta,
        known: &mut Self::Known,
    ) -> Result<Self::Form>;

    /// A ciphertext of a form, whose level is that of `inner`.
    fn ciphertext(inner: Ciphertext, form: Self::Form) -> Self::Ciphertext;
}

/// How many primes a specification asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimeCounts {
    pub(super) log_n: u32,
    /// Up to each level, those above the top of the chain included.
    pub(super) up_to: Vec<usize>,
    /// At the top of the chain.
    pub(super) fresh: usize,
    pub(super) special: usize,
    /// Others: above the top, in place of those of the chain, and special ones of level keys.
    others: usize,
}

impl PrimeCounts {
    /// Counts of a chain, from the primes of each level, and of special primes, in a ring of
    /// dimension `2^log_n`.
    #[must_use]
    pub fn new(log_n: u32, levels: &[Vec<f64>], special: usize) -> Self {
        let chain =
            Self { log_n, up_to: Vec::new(), fresh: 0, special, others: 0 }.with_levels(0, levels);
        Self { fresh: chain.up_to.last().copied().unwrap_or(0), ..chain }
    }

    /// Counts with the levels above a chain, if there are any.
    #[must_use]
    pub fn with_upper(self, upper: Option<&UpperSpec>) -> Self {
        match upper {
            Some(upper) => {
                let all = self.with_levels(upper.base_bits.len(), &upper.levels_bits);
                let above = all.up_to.last().copied().unwrap_or(0);
                all.with_others(above)
            }
            None => self,
        }
    }

    /// Counts with so many primes more, which only need tables.
    #[must_use]
    pub fn with_others(self, more: usize) -> Self {
        Self { others: self.others.saturating_add(more), ..self }
    }

    /// Bytes of the tables of all primes.
    pub(super) fn table_bytes(&self) -> u64 {
        let primes = self.fresh.saturating_add(self.others).saturating_add(self.special);
        let residues =
            (primes as u64).saturating_mul(1u64.checked_shl(self.log_n).unwrap_or(u64::MAX));
        residues.saturating_mul(TABLE_BYTES)
    }

    /// The same with more levels, above so many primes that replace the chain.
    fn with_levels(mut self, base: usize, levels: &[Vec<f64>]) -> Self {
        let mut sum = base;
        for level in levels {
            sum = sum.saturating_add(level.len());
            self.up_to.push(sum);
        }
        self
    }
}
