use super::{
    PolynomialsPlan,
    interpolation::{MAX_POINTS, check, interpolate},
    polynomial::{draft, layout},
};
#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    circuits::polynomial::Layout,
    exact::{Modulus, Unit},
    rlwe::{Chain, Level},
};

/// Any functions of one variable on a set of integers, as polynomials modulo the power of a prime.
///
/// A function of `n` points is a polynomial of degree at most `n - 1`, so it has depth
/// `ceil(log2 n)`. All functions share the powers of the variable. If a function is even or odd
/// about the middle of the points, up to a constant, the polynomials are in the distance from the
/// middle. Half of the coefficients of that function are then zero.
///
/// Elsewhere than at the points, values are defined but meaningless.
///
/// ```
/// use sudare::{circuits::exact::Tables, exact::Modulus};
///
/// // The magnitude and the sign of numbers from -3 to 3.
/// let points: Vec<i128> = (-3..=3).collect();
/// let magnitude = points.iter().map(|x| x.abs()).collect();
/// let sign = points.iter().map(|x| x.signum()).collect();
/// let tables = Tables::new(Modulus::new(257, 1)?, &points, &[magnitude, sign])?;
/// assert_eq!(tables.evaluate(-2), [2, 256]);
/// assert_eq!((tables.degree(), tables.depth()), (6, 3));
/// # Ok::<(), sudare::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tables {
    modulus: Modulus,
    /// Added to the variable.
    shift: i128,
    /// Coefficients of each function, in the shifted variable.
    polynomials: Vec<Vec<i128>>,
    layout: Layout<i128>,
}

impl Tables {
    /// Maximum number of points.
    pub const MAX_POINTS: usize = MAX_POINTS;

    /// Interpolates functions modulo `t`. Each has a value for each point.
    ///
    /// # Errors
    /// [`Error::Circuit`] without points, for more than [`Tables::MAX_POINTS`] points, for points
    /// that are equal modulo the prime, and for a function with another number of values.
    pub fn new(t: Modulus, points: &[i128], functions: &[Vec<i128>]) -> Result<Self> {
        check(t, points, functions)?;
        let reduced = |values: &Vec<i128>| values.iter().map(|&y| t.reduce_i128(y)).collect();
        let functions: Vec<Vec<u128>> = functions.iter().map(reduced).collect();
        let shift = shift(t, points, &functions);
        let nodes: Vec<i128> = points.iter().map(|x| x + shift).collect();
        let centered = |coeffs: Vec<u128>| coeffs.into_iter().map(|c| t.centered(c)).collect();
        let polynomials = interpolate(t, &nodes, &functions);
        let polynomials: Vec<Vec<i128>> = polynomials.into_iter().map(centered).collect();
        Ok(Self { modulus: t, shift, layout: layout(t, &polynomials), polynomials })
    }

    /// The modulus of points and values.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// The highest degree of the polynomials.
    #[must_use]
    pub fn degree(&self) -> usize {
        let degree = |coeffs: &Vec<i128>| coeffs.iter().rposition(|&c| c != 0).unwrap_or(0);
        self.polynomials.iter().map(degree).max().unwrap_or(0)
    }

    /// Levels that the deepest polynomial needs.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.layout.depth()
    }

    /// Relinearisations of an evaluation, which dominate the time.
    #[must_use]
    pub fn relinearizations(&self) -> usize {
        self.layout.relinearizations()
    }

    /// Returns the residue of each function at `x`.
    #[must_use]
    pub fn evaluate(&self, x: i128) -> Vec<u128> {
        let t = self.modulus;
        let u = t.reduce_i128(x + self.shift);
        let value = |coeffs: &Vec<i128>| {
            coeffs.iter().rev().fold(0, |y, &c| t.add(t.mul(y, u), t.reduce_i128(c)))
        };
        self.polynomials.iter().map(value).collect()
    }

    /// Plans the evaluation on ciphertexts of this level and factor. Each result has the factor that
    /// `out` returns for its level. `chain` is the chain of the modulus
    /// ([`Params::chain`](crate::exact::Params::chain)).
    ///
    /// # Errors
    /// See [`PolynomialPlan::new`](super::PolynomialPlan::new).
    pub fn plan(
        &self,
        chain: &Chain<Unit>,
        level: Level,
        factor: Unit,
        out: impl Fn(Level) -> Result<Unit>,
    ) -> Result<PolynomialsPlan> {
        draft(self.layout.clone(), self.shift, chain, level, factor)?.finish(chain, out)
    }
}

/// Returns the number to add to the variable: minus the middle of the points, modulo `t`, if the
/// points are symmetric about it and a function is even or odd about it. Otherwise 0.
fn shift(t: Modulus, points: &[i128], functions: &[Vec<u128>]) -> i128 {
    fn pairs<T: Copy>(all: &[T]) -> impl Iterator<Item = (T, T)> {
        all.iter().copied().zip(all.iter().copied().rev())
    }
    let total = points[0] + points[points.len() - 1];
    let symmetric = pairs(points).all(|(x, y)| x + y == total);
    let has_parity = |values: &Vec<u128>| {
        let sum = t.add(values[0], values[values.len() - 1]);
        pairs(values).all(|(x, y)| x == y) || pairs(values).all(|(x, y)| t.add(x, y) == sum)
    };
    // Modulo 2 there are no halves.
    match t.inverse(t.reduce(2)) {
        Some(half) if symmetric && functions.iter().any(has_parity) => {
            t.centered(t.neg(t.mul(t.reduce_i128(total), half)))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
