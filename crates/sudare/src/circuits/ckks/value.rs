//! Numbers and vectors in formulas of complex slots.

use super::ComplexOps;
use crate::{
    Error, Result,
    circuits::value::{Value, number_operators},
    ckks::Complex,
};

/// Maximum magnitude of an integer factor that costs no level.
const MAX_WHOLE: f64 = (1u64 << 31) as f64;

/// # Complex slots
impl<E: ComplexOps> Value<'_, E> {
    /// Adds a vector of numbers, with 0 in the remaining slots.
    ///
    /// The value holds [`Error::TooManySlots`] for more numbers than slots, and
    /// [`Error::NotFinite`].
    #[track_caller]
    pub fn add_real(&self, values: &[f64]) -> Self {
        self.step("add", |e, a| e.add_plain(a, &slots(e, a, values)?))
    }

    /// Multiplies by a vector of numbers, with 0 in the remaining slots. Costs 1 level. Errors are
    /// the errors of [`Value::add_real`].
    #[track_caller]
    pub fn mul_real(&self, values: &[f64]) -> Self {
        self.step("multiply", |e, a| {
            let mut product = e.mul_plain(a, &slots(e, a, values)?, e.scale(a))?;
            e.rescale_assign(&mut product)?;
            Ok(product)
        })
    }

    /// Conjugates every slot.
    #[track_caller]
    pub fn conjugate(&self) -> Self {
        self.step("conjugate", |e, a| e.conjugate(a))
    }

    /// Multiplies every slot by `c`.
    #[track_caller]
    fn times(&self, c: f64) -> Self {
        // At scale 1 an integer is exact, so nothing has to be rescaled.
        if c.fract() == 0.0 && c.abs() <= MAX_WHOLE {
            return self.times_integer(c);
        }
        self.step("multiply", |e, a| {
            let mut product = e.mul_const(a, Complex::new(c, 0.0), e.scale(a))?;
            e.rescale_assign(&mut product)?;
            Ok(product)
        })
    }
}

/// Returns one number for each slot of `a`.
fn slots<E: ComplexOps>(e: &E, a: &E::Ct, values: &[f64]) -> Result<Vec<Complex<f64>>> {
    let slots = 1 << e.log_slots(a);
    let found = values.len();
    if found > slots {
        return Err(Error::TooManySlots { found, slots });
    }
    let mut vector: Vec<_> = values.iter().map(|&re| Complex::new(re, 0.0)).collect();
    vector.resize(slots, Complex::new(0.0, 0.0));
    Ok(vector)
}

number_operators!(f64, ComplexOps, Value::times);
