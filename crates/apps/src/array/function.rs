//! Functions of every element.

use core::ops::Range as Interval;

use sudare::circuits::{ComplexOps, Polynomial};

use super::{Array, Engine, Result};
use crate::functions::{Finish, Function};

impl<E: ComplexOps> Engine<'_, E> {
    /// `f` of every element, which lies in the interval of `f`.
    ///
    /// Its polynomials are evaluated one after the other by [`Engine::polynomial`], with
    /// bootstrapping between them where levels run out: [`Function::depth`] levels at least. A
    /// [`PairFunction`](crate::functions::PairFunction) is this of the difference of two arrays,
    /// and the second one added where it says so.
    ///
    /// # Errors
    /// [`ArrayError::OutsideInterval`](super::ArrayError::OutsideInterval); as [`Engine::polynomial`]
    /// and [`Engine::mul`].
    pub fn function(&self, a: &Array<E>, f: &Function) -> Result<Array<E>> {
        let argument = self.argument(f.name(), a, &f.interval())?;
        let range = argument.image(f);
        let a = &Array { range: argument, ..a.clone() };
        let stage = |value: Array<E>, p: &Polynomial| {
            // Stages are made for what the ones before them give.
            let Interval { start, end } = p.interval();
            let range = value.range().clamped(start, end);
            self.polynomial(&Array { range, ..value }, p)
        };
        let value = f.stages().iter().try_fold(a.clone(), stage)?;
        let value = match f.finish() {
            Finish::Value => value,
            Finish::TimesArgument => self.mul(&value, a)?,
        };
        self.check_room(f.name(), value.level(), &range)?;
        Ok(Array { range, ..value })
    }
}
