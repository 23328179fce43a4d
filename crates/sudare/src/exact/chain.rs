use super::{Modulus, Params, Unit};
use crate::{
    Error, Result,
    rlwe::{Chain, Level, Scale},
};

impl Scale for Unit {
    fn matches(self, other: Self) -> bool {
        self.matches(other)
    }

    fn check_matches(self, other: Self, op: &'static str) -> Result<()> {
        if self.matches(other) {
            return Ok(());
        }
        let (left, right, modulus) = (self.value(), other.value(), self.modulus().into());
        Err(Error::FactorMismatch { op, left, right, modulus })
    }

    /// Whether it is a unit: residues fit whatever they are multiplied by.
    fn check_fits(self, _: &'static str, _: f64) -> Result<()> {
        self.check_unit()
    }

    /// As [`Scale::check_fits`].
    fn check_weights(self, op: &'static str, log2_q: f64) -> Result<()> {
        self.check_fits(op, log2_q)
    }
}

impl Params {
    /// What rescaling from each level divides the factors of ciphertexts modulo `t` by.
    ///
    /// # Errors
    /// [`Error::PlaintextModulusNotCoprime`].
    pub fn chain(&self, t: Modulus) -> Result<Chain<Unit>> {
        let highest = self.upper_top().0;
        let divisors = (1..=highest).map(|level| self.divisor(Level(level), t));
        let log2_q = (0..=highest).map(|level| self.rlwe().log2_q(Level(level)));
        let chain = Chain::new(divisors.collect::<Result<_>>()?, log2_q.collect());
        Ok(chain.raised_above(self.top()))
    }
}
