//! Polynomials modulo a prime power by their values.

use crate::{Error, Result, exact::Modulus};
use std::collections::BTreeSet;

/// Maximum number of points of a polynomial by its values.
pub(super) const MAX_POINTS: usize = 1 << 12;

/// Returns the coefficients of polynomials modulo `t` with given values at points, from the constant
/// up, next to zero. Each polynomial has a coefficient for each point.
///
/// ```
/// use sudare::{circuits::exact::interpolated, exact::Modulus};
///
/// let square = interpolated(Modulus::new(17, 1)?, &[0, 1, 2], &[vec![0, 1, 4]])?;
/// assert_eq!(square, [[0, 0, 1]]);
/// # Ok::<(), sudare::Error>(())
/// ```
///
/// # Errors
/// [`Error::Circuit`] without points, for more than 4,096 points, for points that are equal modulo
/// the prime, and for a function with another number of values.
pub fn interpolated(
    t: Modulus,
    points: &[i128],
    functions: &[Vec<i128>],
) -> Result<Vec<Vec<i128>>> {
    check(t, points, functions)?;
    let reduced = |values: &Vec<i128>| values.iter().map(|&y| t.reduce_i128(y)).collect();
    let functions: Vec<Vec<u128>> = functions.iter().map(reduced).collect();
    let centered = |coeffs: Vec<u128>| coeffs.into_iter().map(|c| t.centered(c)).collect();
    Ok(interpolate(t, points, &functions).into_iter().map(centered).collect())
}

/// Checks points and functions; see [`interpolated`].
pub(super) fn check(t: Modulus, points: &[i128], functions: &[Vec<i128>]) -> Result<()> {
    let count = points.len();
    let refused = |problem: String| Err(Error::Circuit(format!("table: {problem}")));
    if !(1..=MAX_POINTS).contains(&count) {
        return refused(format!("{count} points: 1 to {MAX_POINTS} are possible"));
    }
    if let Some(values) = functions.iter().find(|values| values.len() != count) {
        let found = values.len();
        return refused(format!("{found} values for {count} points: pass one for each point"));
    }
    let p = i128::from(t.prime());
    let residues: BTreeSet<i128> = points.iter().map(|x| x.rem_euclid(p)).collect();
    if residues.len() < count {
        return refused(format!(
            "{count} points have {} residues modulo {p}: use points that differ modulo {p}",
            residues.len()
        ));
    }
    Ok(())
}

/// Returns, for each function, the polynomial modulo `t` with its values at nodes that differ modulo
/// `p`, by Lagrange's formula. This takes a number of products in proportion to the square of the
/// number of nodes.
pub(super) fn interpolate(t: Modulus, nodes: &[i128], functions: &[Vec<u128>]) -> Vec<Vec<u128>> {
    let mut all = vec![1];
    for &z in nodes {
        all = product(t, &all, &[t.reduce_i128(-z), 1]);
    }
    let mut polynomials = vec![vec![0; nodes.len()]; functions.len()];
    for (i, &z) in nodes.iter().enumerate() {
        // The polynomial that vanishes at all other nodes.
        let (others, _) = divided(t, &all, z);
        let (_, at_node) = divided(t, &others, z);
        // A product of differences of nodes, which are units.
        let inverse = t.inverse(at_node).unwrap_or(0);
        for (coeffs, values) in polynomials.iter_mut().zip(functions) {
            let factor = t.mul(values[i], inverse);
            if factor == 0 {
                continue;
            }
            for (c, &other) in coeffs.iter_mut().zip(&others) {
                *c = t.add(*c, t.mul(factor, other));
            }
        }
    }
    polynomials
}

/// Returns quotient and remainder of division by `x - z`.
pub(super) fn divided(t: Modulus, coeffs: &[u128], z: i128) -> (Vec<u128>, u128) {
    let z = t.reduce_i128(z);
    let mut quotient = vec![0; coeffs.len()];
    let mut value = 0;
    for (q, &c) in quotient.iter_mut().zip(coeffs).rev() {
        *q = value;
        value = t.add(t.mul(value, z), c);
    }
    quotient.pop();
    (quotient, value)
}

/// Returns the product of two polynomials.
pub(super) fn product(t: Modulus, a: &[u128], b: &[u128]) -> Vec<u128> {
    let mut c = vec![0; a.len() + b.len() - 1];
    for (i, &x) in a.iter().enumerate() {
        for (c, &y) in c[i..].iter_mut().zip(b) {
            *c = t.add(*c, t.mul(x, y));
        }
    }
    c
}
