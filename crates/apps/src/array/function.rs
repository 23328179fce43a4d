//! Functions of every element.

use sudare::circuits::ComplexOps;

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
    /// As [`Engine::polynomial`] and [`Engine::mul`].
    pub fn function(&self, a: &Array<E>, f: &Function) -> Result<Array<E>> {
        let value = f.stages().iter().try_fold(a.clone(), |value, p| self.polynomial(&value, p))?;
        match f.finish() {
            Finish::Value => Ok(value),
            Finish::TimesArgument => self.mul(&value, a),
        }
    }
}
