//! Removal of the lowest base-`p` digits of integers modulo `p^e`, the core of bootstrapping exact
//! ciphertexts: polynomials, and the plan that combines them.
//!
//! A [`ResiduePolynomial`] retains the lowest digit, removes it, or extends its precision by one
//! power of `p`. [`DigitRemoval`] removes `v` digits and divides by `p^v`: from the integer
//! `p^v m + I` modulo `p^e`, with `I` of at most `v` digits, it computes `m` modulo `p^(e - v)`.
//! Division by a power of `p` is free, because it only changes the interpretation of the ciphertext
//! (see [`exact`](crate::exact)).
//!
//! Digits are balanced, `-(p-1)/2..=(p-1)/2`, for odd `p`, and 0 or 1 for `p = 2`.
//!
//! ```
//! use sudare::{circuits::exact::digits::DigitRemoval, exact::Modulus};
//!
//! // 3 p + 100 modulo p^2: the digit 100 goes, 3 modulo p stays.
//! let plan = DigitRemoval::new(Modulus::new(257, 2)?, 1)?;
//! assert_eq!(plan.evaluate(3 * 257 + 100)?, 3);
//! // The same for digits of at most 15: of lower degree, whatever `p` is.
//! let bounded = DigitRemoval::bounded(Modulus::new(257, 2)?, 15)?;
//! assert_eq!(bounded.evaluate(3 * 257 + 15)?, 3);
//! assert_eq!((plan.degree(), bounded.degree()), (257, 61));
//! assert_eq!((plan.depth(), bounded.depth()), (9, 6));
//! # Ok::<(), sudare::Error>(())
//! ```

mod plan;
mod polynomial;

use crate::{Error, Result, exact::Modulus};
pub use plan::RemovalPlan;
pub use polynomial::ResiduePolynomial;

/// Planned removal of the `v` lowest digits of integers modulo `p^e`.
///
/// With `x_0 = x`, digit `i` is the lowest digit of `x_i`, and `x_(i+1)` is `x` less the digits
/// `0..=i` times their powers of `p`, divided by `p^(i+1)`, an integer modulo `p^(e-i-1)`. The
/// result is `x_v`, which requires each digit exactly. The retaining polynomial of `x_i` modulo
/// `p^(e-i)` computes it exactly. Earlier `x_i` need a digit in its lowest places only. If that
/// costs less, the digit is found by lifting: after `k` applications of the lifting polynomial it
/// is correct modulo `p^(k+1)`.
///
/// Reference: Han, "Bootstrapping methods for homomorphic encryption" (PhD thesis, Seoul National
/// University), Algorithm 1. Deviations: digit `j` is multiplied by `p^j` in every sum, sums are
/// divided by `p^(i+1)`, and retaining computes digits as soon as its degree does not exceed the
/// degree of lifting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigitRemoval {
    modulus: Modulus,
    output: Modulus,
    /// The last step computes the result.
    steps: Vec<Step>,
}

/// A step of a [`DigitRemoval`]. Value 0 is the input, and value `i + 1` is the result of step `i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Evaluates a polynomial at a value, both modulo the same power of `p`.
    Evaluate {
        /// The value.
        value: usize,
        /// The polynomial.
        polynomial: ResiduePolynomial,
    },
    /// Subtracts from the input digits `j`, modulo `p^(e-j)`, times `p^j`. Divides by the power of
    /// `p` whose exponent is the number of digits.
    Remove {
        /// The digits, the lowest first.
        digits: Vec<usize>,
    },
}

impl DigitRemoval {
    /// Plans the removal of the `digits` lowest digits of any integer modulo `p^e`.
    ///
    /// # Errors
    /// [`Error::Circuit`] unless `0 < digits < e`; errors of [`ResiduePolynomial::retain`].
    pub fn new(modulus: Modulus, digits: u32) -> Result<Self> {
        let output = modulus_without(modulus, digits)?;
        let mut steps = Vec::new();
        let mut x = 0;
        // The values of each digit found until now: by a number of liftings, and by retaining.
        let mut found: Vec<(Vec<usize>, usize)> = Vec::new();
        let evaluate = |steps: &mut Vec<Step>, value, polynomial: &ResiduePolynomial| {
            steps.push(Step::Evaluate { value, polynomial: polynomial.clone() });
            steps.len()
        };
        for i in 0..digits {
            let of_row = modulus.with_exponent(modulus.exponent() - i)?;
            let retain = ResiduePolynomial::retain_symmetric(of_row)?;
            let retained = evaluate(&mut steps, x, &retain);
            // Later sums need the digit modulo p^2, p^3, ..
            let degree = |k: u32| modulus.prime().saturating_pow(k);
            let lifts = (1..digits - i).take_while(|&k| degree(k) < retain.degree() as u64).count();
            let mut lifted = vec![x];
            if lifts > 0 {
                let lift = ResiduePolynomial::lifting(of_row)?;
                for k in 0..lifts {
                    lifted.push(evaluate(&mut steps, lifted[k], &lift));
                }
            }
            found.push((lifted, retained));
            // The last sum is the result. It needs every digit in all places, so no lifted one.
            let last = i + 1 == digits;
            let digit = |(j, (lifted, retained)): (usize, &(Vec<usize>, usize))| {
                let lifts = i as usize + 1 - j;
                lifted.get(lifts).copied().filter(|_| !last).unwrap_or(*retained)
            };
            let digits = found.iter().enumerate().map(digit).collect();
            steps.push(Step::Remove { digits });
            x = steps.len();
        }
        Ok(Self { modulus, output, steps })
    }

    /// Plans the removal of the lowest digit of integers modulo `p^e` if the digit is at most
    /// `bound` in magnitude, at the degree of [`ResiduePolynomial::bounded_removal`]. For other
    /// integers the result is wrong.
    ///
    /// # Errors
    /// [`Error::Circuit`] for `e = 1`; errors of [`ResiduePolynomial::bounded_removal`].
    pub fn bounded(modulus: Modulus, bound: u32) -> Result<Self> {
        let output = modulus_without(modulus, 1)?;
        let polynomial = ResiduePolynomial::bounded_retain(modulus, bound)?;
        let steps = vec![Step::Evaluate { value: 0, polynomial }, Step::Remove { digits: vec![1] }];
        Ok(Self { modulus, output, steps })
    }

    /// `p^e`, the modulus of the input.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// `p^(e - v)`, the modulus of the result.
    #[must_use]
    pub fn output_modulus(&self) -> Modulus {
        self.output
    }

    /// Number of removed digits.
    #[must_use]
    pub fn digits(&self) -> u32 {
        self.modulus.exponent() - self.output.exponent()
    }

    /// The steps in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The degree of the result as a polynomial of the input.
    #[must_use]
    pub fn degree(&self) -> u128 {
        let times = |degree: u128, p: &ResiduePolynomial| degree.saturating_mul(p.degree() as u128);
        self.fold(1, times, u128::max)
    }

    /// Number of levels of the steps. A polynomial of degree `n` uses `ceil(log2(n + 1))`.
    #[must_use]
    pub fn depth(&self) -> u32 {
        let levels = |p: &ResiduePolynomial| (p.degree() + 1).next_power_of_two().ilog2();
        self.fold(0, |depth, p| depth + levels(p), u32::max)
    }

    fn fold<T: Copy>(
        &self,
        input: T,
        evaluate: impl Fn(T, &ResiduePolynomial) -> T,
        sum: impl Fn(T, T) -> T,
    ) -> T {
        let mut values = vec![input];
        for step in &self.steps {
            values.push(match step {
                Step::Evaluate { value, polynomial } => evaluate(values[*value], polynomial),
                Step::Remove { digits } => digits.iter().fold(input, |x, &j| sum(x, values[j])),
            });
        }
        values.last().copied().unwrap_or(input)
    }

    /// Returns the result for `x`, in any form. `evaluate` evaluates a polynomial.
    /// `remove(x, digits, modulus)` subtracts the sum of `p^j digits[j]` from `x` and divides by
    /// the power of `p` that leads to `modulus`. The difference is a multiple of that power modulo
    /// `p^e`.
    ///
    /// Digit `j` is modulo `p^(e-j)`. Interpreting it modulo `p^e` multiplies it by `p^j`, and
    /// interpreting the difference modulo `modulus` divides it.
    ///
    /// # Errors
    /// Errors of the operations.
    pub fn run<V: Clone>(
        &self,
        x: &V,
        mut evaluate: impl FnMut(&V, &ResiduePolynomial) -> Result<V>,
        mut remove: impl FnMut(&V, &[&V], Modulus) -> Result<V>,
    ) -> Result<V> {
        let mut values = vec![x.clone()];
        for step in &self.steps {
            values.push(match step {
                Step::Evaluate { value, polynomial } => evaluate(&values[*value], polynomial)?,
                Step::Remove { digits } => {
                    let exponent = self.modulus.exponent() - digits.len() as u32;
                    let digits: Vec<_> = digits.iter().map(|&j| &values[j]).collect();
                    remove(x, &digits, self.modulus.with_exponent(exponent)?)?
                }
            });
        }
        Ok(values.pop().unwrap_or_else(|| x.clone()))
    }

    /// Returns the result for the residue `x` in the clear, a residue modulo `p^(e-v)`.
    ///
    /// # Errors
    /// [`Error::NotAMultiple`] if `p` does not divide the remainder, as happens for a digit beyond
    /// its bound.
    pub fn evaluate(&self, x: u128) -> Result<u128> {
        let t = self.modulus;
        let remove = |x: &u128, digits: &[&u128], to: Modulus| {
            let mut power = 1;
            let mut rest = *x;
            for &&digit in digits {
                // No overflow: digit `j` is below `p^(e-j)`, so the product is below `p^e`.
                rest = t.sub(rest, t.reduce(digit * power));
                power *= u128::from(t.prime());
            }
            if rest.is_multiple_of(power) {
                debug_assert!(rest / power < to.value());
                return Ok(rest / power);
            }
            Err(Error::NotAMultiple { index: 0, divisor: power })
        };
        self.run(&t.reduce(x), |&x, polynomial| Ok(polynomial.evaluate(x)), remove)
    }
}

/// Returns the modulus of residues after the removal of `digits` digits.
fn modulus_without(modulus: Modulus, digits: u32) -> Result<Modulus> {
    if (1..modulus.exponent()).contains(&digits) {
        return modulus.with_exponent(modulus.exponent() - digits);
    }
    Err(Error::Circuit(format!(
        "removal of {digits} digits of residues modulo {modulus}: of {} digits at least one is \
         removed and at least one stays",
        modulus.exponent()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::{PlainPoly, Slots};

    /// `(x - [x]) / p^v` by definition.
    fn removed(t: Modulus, v: u32, x: u128) -> u128 {
        let power = u128::from(t.prime()).pow(v);
        let rest = x % power;
        let lowest = if t.prime() > 2 && rest > power / 2 {
            rest as i128 - power as i128
        } else {
            rest as i128
        };
        t.sub(x, t.reduce_i128(lowest)) / power
    }

    fn check(p: u64, e: u32, v: u32, points: impl Iterator<Item = u128>) {
        let t = Modulus::new(p, e).unwrap();
        let plan = DigitRemoval::new(t, v).unwrap();
        for x in points {
            assert_eq!(plan.evaluate(x), Ok(removed(t, v, x)), "({p}, {e}, {v}): {x}");
        }
        // One retaining polynomial per digit, and the bound of the degree for exact digits.
        let retained = |i: u32| u128::from(p).pow(i) * u128::from((e - 1 - i) * (p as u32 - 1) + 2);
        let bound = (0..v).map(retained).max().unwrap() * if p == 2 { 2 } else { 1 };
        assert!(plan.degree() <= bound, "({p}, {e}, {v}): {} {bound}", plan.degree());
    }

    #[test]
    fn lowest_digits_of_all_residues_are_removed() {
        for (p, e, v) in [
            (2, 4, 2),
            (2, 8, 5),
            (2, 11, 5),
            (2, 12, 8),
            (3, 5, 3),
            (3, 6, 4),
            (5, 4, 2),
            (5, 6, 3),
            (7, 4, 2),
            (17, 3, 1),
            (127, 2, 1),
        ] {
            check(p, e, v, 0..u128::from(p).pow(e));
        }
    }

    #[test]
    fn lowest_digits_of_other_residues_are_removed() {
        for (p, e, v, step) in [(17, 4, 2, 7), (31, 3, 1, 5), (257, 3, 1, 50_021), (3, 9, 7, 11)] {
            check(p, e, v, (0..u128::from(p).pow(e)).step_by(step));
        }
    }

    #[test]
    fn every_number_of_digits_can_be_removed() {
        for (p, e) in [(2, 7), (3, 5), (5, 4)] {
            for v in 1..e {
                check(p, e, v, 0..u128::from(p).pow(e));
            }
        }
    }

    #[test]
    fn steps_are_those_of_the_algorithm() {
        let steps = |p, e, v| {
            let plan = DigitRemoval::new(Modulus::new(p, e).unwrap(), v).unwrap();
            let degrees = plan.steps().iter().map(|step| match step {
                Step::Evaluate { polynomial, .. } => polynomial.degree(),
                Step::Remove { .. } => 0,
            });
            degrees.collect::<Vec<_>>()
        };
        assert_eq!(steps(127, 2, 1), [127, 0]);
        // Lifting to the next digit has degree 5; then retaining is cheaper.
        assert_eq!(steps(5, 4, 3), [13, 5, 0, 9, 5, 0, 5, 0]);
        // Squares, and squares of squares while that degree is lower.
        assert_eq!(steps(2, 8, 5), [8, 2, 2, 0, 8, 2, 2, 0, 6, 2, 2, 0, 6, 2, 0, 4, 0]);
    }

    #[test]
    fn bounded_digits_are_removed_and_others_are_not() {
        for (p, e, bound) in
            [(127, 2, 15), (257, 3, 15), (65537, 2, 15), (786_433, 2, 7), (31, 3, 15)]
        {
            let t = Modulus::new(p, e).unwrap();
            let plan = DigitRemoval::bounded(t, bound).unwrap();
            assert_eq!(plan.output_modulus().exponent(), e - 1);
            let bound = i128::from(bound);
            let at = |digit: i128, y: u128| {
                plan.evaluate(t.reduce_i128(digit + (y * u128::from(p)) as i128))
            };
            for y in (0..50).chain([u128::from(p) - 1]) {
                for digit in -bound..=bound {
                    let expected = y % (t.value() / u128::from(p));
                    let found = at(digit, y);
                    assert_eq!(found, Ok(expected), "{t}: {digit} + {y} p");
                }
            }
            if 2 * bound as u64 + 1 < p {
                assert!((0..50).any(|y| at(bound + 1, y) != Ok(y)), "{t}");
            }
        }
    }

    /// Bootstraps plaintexts completely in slim packing: slots to coefficients, the error of
    /// rounding to `p^e`, selection, coefficients to slots, removal of the error.
    #[test]
    fn plaintexts_are_bootstrapped_in_the_clear() {
        for (p, r, e, log_n) in [
            (17, 1, 2, 5),
            (17, 2, 3, 5),
            (17, 3, 4, 5),
            (17, 1, 3, 5),
            (7, 1, 2, 5),
            (7, 2, 3, 5),
            (7, 2, 4, 6),
            (31, 1, 2, 6),
            (127, 1, 2, 7),
            (127, 2, 3, 7),
            (257, 1, 2, 7),
        ] {
            let low = Modulus::new(p, r).unwrap();
            let high = Modulus::new(p, e).unwrap();
            let slots = Slots::new(low, log_n).unwrap();
            let number = |i: usize, m: i128| (i * i * 31 + 17) as i128 * 1_000_003 % m;
            let half = low.value() as i128 / 2;
            let values: Vec<_> =
                (0..slots.count()).map(|i| number(i, 2 * half + 1) - half).collect();
            let x = slots.encode_integers(&values).unwrap();
            let coeffs =
                slots.slots_to_coeffs().unwrap().apply(&x).unwrap().relabelled(high).unwrap();

            let noise = (high.value() / low.value()) as i128;
            let error: Vec<_> = (0..1 << log_n).map(|i| number(i, noise) - noise / 2).collect();
            let error = PlainPoly::from_signed(high, log_n, &error).unwrap();
            let noisy = coeffs.add(&error).unwrap();

            let slots_high = Slots::new(high, log_n).unwrap();
            let selection = slots_high.selection().into_iter();
            let selected = selection.fold(noisy, |x, g| x.add(&x.image(g)).unwrap());
            let d = slots_high.ring().degree() as u128;
            let to_slots = slots_high
                .coeffs_to_slots()
                .unwrap()
                .scaled(high.inverse(d % high.value()).unwrap());
            let in_slots = to_slots.apply(&selected).unwrap();

            let evaluate = |x: &PlainPoly, polynomial: &ResiduePolynomial| {
                let t = polynomial.modulus();
                assert_eq!(x.modulus(), t);
                let constant = |c: u128| PlainPoly::constant(t, log_n, t.centered(c));
                let coeffs = polynomial.coeffs().iter().rev();
                coeffs.copied().try_fold(constant(0)?, |value, c| value.mul(x)?.add(&constant(c)?))
            };
            let remove = |x: &PlainPoly, digits: &[&PlainPoly], to: Modulus| {
                let rest = digits.iter().try_fold(x.clone(), |x, d| x.sub(&d.relabelled(high)?))?;
                rest.relabelled(to)
            };
            let plan = DigitRemoval::new(high, e - r).unwrap();
            let result = plan.run(&in_slots, evaluate, remove).unwrap();
            assert_eq!(slots.decode_integers(&result).unwrap(), values, "{low}, {high}");
        }
    }

    #[test]
    fn impossible_removals_are_refused() {
        let t = Modulus::new(5, 3).unwrap();
        for digits in [0, 3, 4] {
            assert!(matches!(DigitRemoval::new(t, digits), Err(Error::Circuit(_))), "{digits}");
        }
        let prime = Modulus::new(257, 1).unwrap();
        assert!(matches!(DigitRemoval::bounded(prime, 15), Err(Error::Circuit(_))));
        let large = Modulus::new(65537, 2).unwrap();
        assert!(matches!(DigitRemoval::new(large, 1), Err(Error::Circuit(_))));
    }
}
