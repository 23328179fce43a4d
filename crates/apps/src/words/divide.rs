//! Quotients and remainders by numbers in the clear.

use super::{
    Bitwise, Digits, Operand, PlainWords, Side, Word, Words, argument, multiply::multiples,
};
use crate::{array::Result, exact::Comparison};

const OP: &str = "divide";

/// Quotients up to this number are counted by comparisons.
const FEW: u128 = 4;

/// A division of codes `u`: the quotient's code is `floor((u + added) / divisor) + restored`.
struct Division {
    divisor: u128,
    /// Added to the code, so that rounding down rounds the number itself down.
    added: u128,
    /// Added to the quotient, modulo `2^w`.
    restored: u128,
    /// The largest quotient before it.
    largest: u128,
}

impl<D: Digits> Words<D> {
    /// Returns the quotients by a positive number, rounded down, as NumPy's `//` does.
    ///
    /// The number is multiplied by a reciprocal with enough bits for an exact result (T.
    /// Granlund, P. L. Montgomery, "Division by invariant integers using multiplication", PLDI
    /// 1994).
    ///
    /// # Errors
    /// [`ArrayError::Argument`](crate::array::ArrayError::Argument) for a divisor that is not
    /// positive, and for booleans; the errors of [`Digits`].
    pub fn quotient(&self, a: &Word<D::Plane>, divisor: u64) -> Result<Word<D::Plane>> {
        let plan = self.division(a, divisor)?;
        if plan.divisor.is_power_of_two() {
            return self.shift_right(a, plan.divisor.trailing_zeros());
        }
        match plan.largest <= FEW {
            true => self.counted(a, &plan),
            false => self.by_reciprocal(a, &plan),
        }
    }

    /// Returns the remainders by a positive number, as NumPy's `%` does: they are not negative.
    ///
    /// # Errors
    /// The errors of [`Words::quotient`].
    pub fn remainder(&self, a: &Word<D::Plane>, divisor: u64) -> Result<Word<D::Plane>> {
        let plan = self.division(a, divisor)?;
        if plan.divisor.is_power_of_two() {
            let mask = Side::Scalar(a.kind.code(divisor - 1));
            return self.bitwise_of(Bitwise::And, &Side::Word(a.clone()), &mask);
        }
        let quotient = self.quotient(a, divisor)?;
        let Word { kind, radix, .. } = *a;
        let x = self.canonical(a)?;
        let q = self.canonical(&quotient)?;
        // A remainder is below the divisor, so it has the digits of the divisor only.
        let bits = u128::BITS - (plan.divisor - 1).leading_zeros();
        let count = (bits.div_ceil(radix.bits()) as usize).min(x.len());
        // `u - c v + (c - 1) H` for the codes `u` of the number and `v` of the quotient.
        let bias = u128::from(kind.bias()).wrapping_mul(plan.divisor - 1);
        let zeros = vec![0; count];
        let multiple = self.mapped(&q[..count], &zeros, |i, j| {
            multiples(radix, plan.divisor, j.checked_sub(i)?)
        })?;
        let constants = radix.digits(bias, count);
        let difference =
            |i: usize| self.digits.sum(&[(&x[i], 1), (&multiple[i], -1)], constants[i]);
        let sums = (0..count).map(difference).collect::<Result<_>>()?;
        let mut planes = self.normalized(sums, radix)?;
        while planes.len() < x.len() {
            planes.push(self.constant(&x[0], 0)?);
        }
        self.restored(Word::new(kind, radix, planes), kind.bias().into())
    }

    fn division(&self, a: &Word<D::Plane>, divisor: u64) -> Result<Division> {
        let kind = a.kind;
        self.refuse_booleans(OP, kind)?;
        PlainWords::scalar(divisor).check(kind)?;
        if divisor == 0 || kind.is_signed() && (divisor as i64) < 0 {
            let problem = format!(
                "a divisor is {}: divide by a positive number, and negate where you need it",
                if kind.is_signed() { (divisor as i64).to_string() } else { divisor.to_string() }
            );
            return Err(argument(OP, problem));
        }
        let divisor = u128::from(divisor);
        let bias = u128::from(kind.bias());
        let rounded = bias.div_ceil(divisor);
        let added = rounded * divisor - bias;
        let largest = (u128::from(kind.mask()) + added) / divisor;
        Ok(Division { divisor, added, restored: bias - rounded, largest })
    }

    /// Counts how often the divisor fits.
    fn counted(&self, a: &Word<D::Plane>, plan: &Division) -> Result<Word<D::Plane>> {
        let Word { kind, radix, .. } = *a;
        let x = Operand::Encrypted(a.clone());
        let fits = |times: u128| {
            // The code of the lowest number that has this quotient. It is one, as quotients are.
            let code = (times * plan.divisor - plan.added) as u64;
            let number = Operand::Plain(PlainWords::scalar(kind.word(code)));
            self.compare(&x, Comparison::GreaterEqual, &number)
        };
        let masks = (1..=plan.largest).map(fits).collect::<Result<Vec<_>>>()?;
        let terms: Vec<_> = masks.iter().map(|mask| (&mask.planes[0], 1)).collect();
        let mut planes = vec![match terms.is_empty() {
            true => self.constant(&a.planes[0], 0)?,
            false => self.digits.sum(&terms, 0)?,
        }];
        while planes.len() < a.planes.len() {
            planes.push(self.constant(&planes[0], 0)?);
        }
        self.restored(Word::new(kind, radix, planes), plan.restored)
    }

    /// Adds a number to a code, digit by digit.
    fn restored(&self, a: Word<D::Plane>, c: u128) -> Result<Word<D::Plane>> {
        if c == 0 {
            return Ok(a);
        }
        let digits = a.radix.digits(c, a.planes.len());
        let planes = a.planes.iter().zip(&digits).map(|(plane, &c)| match c {
            0 => Ok(plane.clone()),
            _ => self.digits.sum(&[(plane, 1)], c),
        });
        let planes = planes.collect::<Result<_>>()?;
        Ok(Word::new(a.kind, a.radix, planes))
    }

    fn by_reciprocal(&self, a: &Word<D::Plane>, plan: &Division) -> Result<Word<D::Plane>> {
        let Word { kind, radix, .. } = *a;
        let largest = u128::from(kind.mask()) + plan.added;
        let reciprocal = |bits: u32| (1u128 << bits).div_ceil(plan.divisor);
        // The quotient is exact if the excess of the reciprocal, times the number, stays below 1.
        let exact = |bits: &u32| {
            let excess = reciprocal(*bits) * plan.divisor - (1 << bits);
            excess.checked_mul(largest).is_some_and(|all| all >> bits == 0)
        };
        let Some(bits) = (kind.bits()..u128::BITS - 1).find(exact) else {
            let problem = format!("{kind} by {}: this divisor is not supported", plan.divisor);
            return Err(argument(OP, problem));
        };
        let m = reciprocal(bits);
        let x = self.canonical(a)?;
        let count = (bits + kind.bits()).div_ceil(radix.bits()) as usize;
        let mut constants = radix.digits(plan.added * m, count);
        // The number to add to the quotient is at its place already.
        let moved = (bits / radix.bits()) as usize;
        let restored = radix.digits(plan.restored << (bits % radix.bits()), count - moved);
        // Carries of constants are known, and smaller columns take smaller tables.
        let mut carry = 0;
        for (i, c) in constants.iter_mut().enumerate() {
            let more = i.checked_sub(moved).and_then(|i| restored.get(i)).copied().unwrap_or(0);
            let sum = *c + more + carry;
            *c = sum % radix.base();
            carry = sum / radix.base();
        }
        let sums = self.mapped(&x, &constants, |i, j| multiples(radix, m, j.checked_sub(i)?))?;
        let digits = self.normalized(sums, radix)?;
        let places = x.len();
        let planes = self.moved_down(&digits, radix, bits, places, |_, v| v)?;
        let planes = planes.iter().map(|plane| self.within(plane, 0, radix.base() - 1)).collect();
        Ok(Word::new(kind, radix, planes))
    }
}
