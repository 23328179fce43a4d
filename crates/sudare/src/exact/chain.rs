use super::{Modulus, Params, Tensor, Unit};
use crate::{
    Error, Result,
    rlwe::{Chain, Scale},
};

impl Scale for Unit {
    fn matches(self, other: Self) -> bool {
        self.matches(other)
    }

    fn check_matches(self, other: Self, op: &'static str) -> Result<()> {
        if self.matches(other) {
            return Ok(());
        }
        let left = self.value();
        let right = other.value();
        let modulus = self.modulus().into();
        Err(Error::FactorMismatch { op, left, right, modulus })
    }

    /// Checks that it is a unit. Residues fit any modulus.
    fn check_fits(self, _: &'static str, _: f64) -> Result<()> {
        self.check_unit()
    }

    /// Residues are exact.
    fn encodes_one(self, _: Self) -> bool {
        true
    }

    /// Does the check of [`Scale::check_fits`].
    fn check_weights(self, op: &'static str, log2_q: f64) -> Result<()> {
        self.check_fits(op, log2_q)
    }
}

impl Params {
    /// Returns the chain for planning circuits with the product of BGV: the divisors by which
    /// rescaling divides the factors of ciphertexts modulo `t`. For BFV see [`Tensor::chain`].
    ///
    /// # Errors
    /// [`Error::PlaintextModulusNotCoprime`].
    pub fn chain(&self, t: Modulus) -> Result<Chain<Unit>> {
        Tensor::Plain.chain(self, t)
    }
}
