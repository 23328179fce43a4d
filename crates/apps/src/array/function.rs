//! Functions of every element.

use sudare::circuits::ckks::ComplexOps;
use sudare_arith::par;

use super::{Array, Engine, Result};
use crate::functions::{Finish, Function, NOISE, Noise, PairFunction, real_part};

/// Places where a polynomial takes the real parts of blocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RealParts {
    /// Take real parts of the arguments, whose scale this doubles.
    pub before: bool,
    /// Take real parts of the values, which then come at half the requested scale.
    pub after: bool,
}

impl RealParts {
    pub(super) fn before<E: ComplexOps>(
        self,
        e: &E,
        blocks: impl Iterator<Item = E::Ct>,
    ) -> Result<Vec<E::Ct>> {
        Self::taken(self.before, e, blocks.collect())
    }

    pub(super) fn after<E: ComplexOps>(self, e: &E, blocks: Vec<E::Ct>) -> Result<Vec<E::Ct>> {
        Self::taken(self.after, e, blocks)
    }

    fn taken<E: ComplexOps>(are: bool, e: &E, blocks: Vec<E::Ct>) -> Result<Vec<E::Ct>> {
        match are {
            true => Ok(par::try_map(blocks, |block| real_part(e, &block))?),
            false => Ok(blocks),
        }
    }
}

impl<E: ComplexOps> Engine<'_, E> {
    /// Evaluates `f` at every element. The elements must lie in the interval of `f`.
    ///
    /// [`Engine::polynomial`] evaluates the polynomials of `f` one after the other, in at least
    /// [`Function::depth`] levels. The engine bootstraps between them where levels run out. A
    /// [`PairFunction`](crate::functions::PairFunction) is such a function of the difference of two
    /// arrays. Some pair functions then add the second array.
    ///
    /// Between polynomials the engine takes real parts, which needs the conjugation key and no
    /// level. It also takes real parts of the argument if the first polynomial needs that
    /// ([`Function::needs_real_argument`]) and the array is the result of a computation. The
    /// polynomials are those that [`Function::for_noise`] returns for the noise of encryption and
    /// of bootstrapping.
    ///
    /// # Errors
    /// [`ArrayError::OutsideInterval`](super::ArrayError::OutsideInterval); the errors of
    /// [`Engine::polynomial`], [`Engine::mul`] and [`Function::for_noise`].
    pub fn function(&self, a: &Array<E>, f: &Function) -> Result<Array<E>> {
        let argument = self.argument(f.name(), a, &f.interval())?;
        let range = argument.image(f);
        let a = &Array { range: argument, ..a.clone() };
        let bootstrapping = self.bootstrapping_error();
        let noise = Noise::fresh(self.evaluator().log_n(), self.scale_at(self.highest_level()));
        let f = f.for_noise(noise.bootstrapped(bootstrapping.unwrap_or(0.0)))?;
        let imaginary = bootstrapping.unwrap_or(0.0).max(NOISE);
        // A fresh encryption has small imaginary parts, so its real parts need not be taken.
        let fresh = bootstrapping.is_none() && a.level() == self.highest_level();
        let stages = f.stages().len();
        let mut value = a.clone();
        for (index, stage) in f.stages().iter().enumerate() {
            let before = match index {
                0 => !fresh,
                // Real parts were taken after the stage before. Only bootstrapping since then adds
                // imaginary parts.
                _ => imaginary > NOISE,
            };
            let before = before && f.needs_real_argument(index, imaginary);
            let real = RealParts { before, after: index + 1 < stages };
            // A stage is approximated on the interval of values that the stages before it return.
            let interval = stage.interval();
            let range = value.range().clamped(interval.start, interval.end);
            value = self.polynomial_with(&Array { range, ..value }, stage, real)?;
        }
        if f.finish() == Finish::TimesArgument {
            value = self.mul(&value, a)?;
        }
        // The image of the exact function is tighter than the ranges of its stages.
        self.check_room(f.name(), value.level(), &range)?;
        Ok(Array { range, ..value })
    }

    /// Checks that the elements of `a` lie in the interval of `f`, and returns `a` as an operand of
    /// `f`.
    ///
    /// # Errors
    /// [`ArrayError::OutsideInterval`](super::ArrayError::OutsideInterval).
    pub fn operand(&self, a: &Array<E>, f: &PairFunction) -> Result<Array<E>> {
        let range = self.argument(f.of_difference().name(), a, &f.interval())?;
        Ok(Array { range, ..a.clone() })
    }
}
