use super::{Modulus, Params, Unit};
#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    rlwe::{Chain, Level},
};

/// The product of two ciphertexts, and with it what circuits take for their scales.
///
/// Products multiply scales and sums need equal ones, with either product. With the product of BGV
/// the scale of a ciphertext is its factor `f`, and rescaling divides it by the primes of the level.
/// The product of BFV at the modulus `Q` gives the factor `-f g / Q`: there the scale is `-f / Q`,
/// and rescaling, which divides `f` and `Q` alike, leaves it alone. Forgetting primes does not, so
/// ciphertexts are brought to lower levels by rescaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tensor {
    /// Of BGV: modulo `Q`, times `t`.
    Plain,
    /// Of BFV: divided by `Q / t`.
    Scaled,
}

impl Tensor {
    /// The scale of a ciphertext of this level and factor.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::PlaintextModulusNotCoprime`].
    pub fn scale(self, params: &Params, level: Level, factor: Unit) -> Result<Unit> {
        match self {
            Self::Plain => Ok(factor),
            Self::Scaled => Ok(factor / params.fresh_factor(level, factor.modulus())?),
        }
    }

    /// The factor of a ciphertext of this level and scale.
    ///
    /// # Errors
    /// As [`Tensor::scale`].
    pub fn factor(self, params: &Params, level: Level, scale: Unit) -> Result<Unit> {
        match self {
            Self::Plain => Ok(scale),
            Self::Scaled => Ok(scale * params.fresh_factor(level, scale.modulus())?),
        }
    }

    /// What rescaling from `level` divides scales of ciphertexts modulo `t` by.
    ///
    /// # Errors
    /// As [`Tensor::scale`].
    pub fn divisor(self, params: &Params, level: Level, t: Modulus) -> Result<Unit> {
        let of_factors = params.divisor(level, t)?;
        match self {
            Self::Plain => Ok(of_factors),
            Self::Scaled => Ok(Unit::one(t)),
        }
    }

    /// What circuits on ciphertexts modulo `t` are planned with: the divisors of all levels.
    ///
    /// # Errors
    /// [`Error::PlaintextModulusNotCoprime`].
    pub fn chain(self, params: &Params, t: Modulus) -> Result<Chain<Unit>> {
        let highest = params.upper_top().0;
        let divisors = (1..=highest).map(|level| self.divisor(params, Level(level), t));
        let log2_q = (0..=highest).map(|level| params.rlwe().log2_q(Level(level)));
        let chain = Chain::new(divisors.collect::<Result<_>>()?, log2_q.collect());
        Ok(chain.raised_above(params.top()))
    }
}
