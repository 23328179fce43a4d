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
    /// What rescaling from each level divides the factors of ciphertexts modulo `t` by: what circuits
    /// with the product of BGV are planned with. For those of BFV see [`Tensor::chain`].
    ///
    /// # Errors
    /// [`Error::PlaintextModulusNotCoprime`].
    pub fn chain(&self, t: Modulus) -> Result<Chain<Unit>> {
        Tensor::Plain.chain(self, t)
    }
}
