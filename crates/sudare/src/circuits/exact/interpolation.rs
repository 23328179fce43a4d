//! Polynomials modulo a prime power by their values.

use crate::exact::Modulus;

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
