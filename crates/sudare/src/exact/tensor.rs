use super::{Modulus, Params, Unit};
#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    rlwe::{Chain, Level},
};

/// A kind of product of two ciphertexts, with the scale that circuits use for it.
///
/// With either product, products multiply scales and sums require equal ones. With the product of
/// BGV the scale of a ciphertext is its factor `f`, and rescaling divides it by the primes of the
/// level. The product of BFV at the modulus `Q` has the factor `-f g / Q`. Its scale is `-f / Q`,
/// which rescaling keeps because it divides `f` and `Q` alike. Dropping primes changes the scale,
/// so ciphertexts are brought to lower levels by rescaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tensor {
    /// The product of BGV: modulo `Q`, times `t`.
    Plain,
    /// The product of BFV: divided by `Q / t`.
    Scaled,
}

impl Tensor {
    /// Returns the scale of a ciphertext of this level and factor.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`]; [`Error::PlaintextModulusNotCoprime`].
    pub fn scale(self, params: &Params, level: Level, factor: Unit) -> Result<Unit> {
        match self {
            Self::Plain => Ok(factor),
            Self::Scaled => Ok(factor / params.fresh_factor(level, factor.modulus())?),
        }
    }

    /// Returns the factor of a ciphertext of this level and scale.
    ///
    /// # Errors
    /// See [`Tensor::scale`].
    pub fn factor(self, params: &Params, level: Level, scale: Unit) -> Result<Unit> {
        match self {
            Self::Plain => Ok(scale),
            Self::Scaled => Ok(scale * params.fresh_factor(level, scale.modulus())?),
        }
    }

    /// Returns the divisor of scales for rescaling from `level`, for ciphertexts modulo `t`.
    ///
    /// # Errors
    /// See [`Tensor::scale`].
    pub fn divisor(self, params: &Params, level: Level, t: Modulus) -> Result<Unit> {
        // Computed for both products, because it also refuses levels and moduli.
        let of_factors = params.divisor(level, t)?;
        match self {
            Self::Plain => Ok(of_factors),
            Self::Scaled => Ok(Unit::one(t)),
        }
    }

    /// Returns the chain for planning circuits on ciphertexts modulo `t`: the divisors of all
    /// levels.
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
