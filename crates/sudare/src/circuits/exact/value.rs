//! Numbers and plaintexts in formulas of integer slots.

use super::IntegerOps;
use crate::{
    circuits::value::{Value, number_operators},
    exact::{PlainPoly, Unit},
};

/// # Integer slots
impl<E: IntegerOps> Value<'_, E> {
    /// Adds an encoded vector.
    #[track_caller]
    pub fn add_plain(&self, plain: &PlainPoly) -> Self {
        self.step("add", |e, a| e.add_plain(a, plain))
    }

    /// Multiplies by an encoded vector. Costs no level, but the error grows by about the size of the
    /// plaintext; see [`Value::rescale`].
    #[track_caller]
    pub fn mul_plain(&self, plain: &PlainPoly) -> Self {
        self.step("multiply", |e, a| e.mul_plain(a, plain, Unit::one(plain.modulus())))
    }

    /// Rescales: uses a level to remove the errors of products with large numbers or plaintexts.
    /// Products of values do it themselves.
    #[track_caller]
    pub fn rescale(&self) -> Self {
        self.step("rescale", |e, a| {
            let mut a = a.clone();
            e.rescale_assign(&mut a)?;
            Ok(a)
        })
    }
}

number_operators!(i128, IntegerOps, Value::times_integer);
