//! Butterflies of one, two or three levels of the tree, on rows.

use super::{Complex, Real, Row};

#[inline(always)]
pub(super) fn forward_one_level<T: Real>(x: [&mut Row<T>; 2], w: Complex<T>) {
    let mut y = x.each_ref().map(|row| **row);
    for l in 0..8 {
        let a = y[0].get(l);
        let b = y[1].get(l) * w;
        y[0].set(l, a + b);
        y[1].set(l, a - b);
    }
    let [x0, x1] = x;
    (*x0, *x1) = (y[0], y[1]);
}

#[inline(always)]
pub(super) fn inverse_one_level<T: Real>(x: [&mut Row<T>; 2], w: Complex<T>, factor: f64) {
    let mut y = x.each_ref().map(|row| **row);
    for l in 0..8 {
        let a = y[0].get(l);
        let b = y[1].get(l);
        y[0].set(l, (a + b).scale(factor));
        y[1].set(l, (a - b).mul_conj(w).scale(factor));
    }
    let [x0, x1] = x;
    (*x0, *x1) = (y[0], y[1]);
}

/// Two levels below the root: `w = v^2` for the node, `v` for its left child and
/// `-i v` for its right child.
#[inline(always)]
pub(super) fn forward_two_levels<T: Real>(x: [&mut Row<T>; 4], v: [Complex<T>; 3]) {
    let mut y = x.each_ref().map(|row| **row);
    for l in 0..8 {
        let a0 = y[0].get(l);
        let a1 = y[1].get(l) * v[0];
        let a2 = y[2].get(l) * v[1];
        let a3 = y[3].get(l) * v[2];
        let even = a0 + a2;
        let even_right = a0 - a2;
        let odd = a1 + a3;
        let odd_right = (a1 - a3).mul_i();
        y[0].set(l, even + odd);
        y[1].set(l, even - odd);
        y[2].set(l, even_right - odd_right);
        y[3].set(l, even_right + odd_right);
    }
    let [x0, x1, x2, x3] = x;
    (*x0, *x1, *x2, *x3) = (y[0], y[1], y[2], y[3]);
}

/// Inverse of [`forward_two_levels`], times `4 factor`.
#[inline(always)]
pub(super) fn inverse_two_levels<T: Real>(x: [&mut Row<T>; 4], v: [Complex<T>; 3], factor: f64) {
    let mut y = x.each_ref().map(|row| **row);
    for l in 0..8 {
        let y0 = y[0].get(l);
        let y1 = y[1].get(l);
        let y2 = y[2].get(l);
        let y3 = y[3].get(l);
        let even = y0 + y1;
        let odd = y0 - y1;
        let even_right = y2 + y3;
        let odd_right = (y2 - y3).mul_i();
        y[0].set(l, (even + even_right).scale(factor));
        y[1].set(l, (odd + odd_right).mul_conj(v[0]).scale(factor));
        y[2].set(l, (even - even_right).mul_conj(v[1]).scale(factor));
        y[3].set(l, (odd - odd_right).mul_conj(v[2]).scale(factor));
    }
    let [x0, x1, x2, x3] = x;
    (*x0, *x1, *x2, *x3) = (y[0], y[1], y[2], y[3]);
}

/// One level, lane by lane, between the rows `I` and `J`.
#[inline(always)]
pub(super) fn forward_pair<T: Real, const I: usize, const J: usize>(
    x: &mut [Row<T>; 8],
    w: &Row<T>,
) {
    for l in 0..8 {
        let a = x[I].get(l);
        let b = x[J].get(l) * w.get(l);
        x[I].set(l, a + b);
        x[J].set(l, a - b);
    }
}

/// [`forward_pair`] with `-i w`.
#[inline(always)]
pub(super) fn forward_right_pair<T: Real, const I: usize, const J: usize>(
    x: &mut [Row<T>; 8],
    w: &Row<T>,
) {
    for l in 0..8 {
        let a = x[I].get(l);
        let b = (x[J].get(l) * w.get(l)).mul_i();
        x[I].set(l, a - b);
        x[J].set(l, a + b);
    }
}

/// Twice the inverse of [`forward_pair`].
#[inline(always)]
pub(super) fn inverse_pair<T: Real, const I: usize, const J: usize>(
    x: &mut [Row<T>; 8],
    w: &Row<T>,
) {
    for l in 0..8 {
        let a = x[I].get(l);
        let b = x[J].get(l);
        x[I].set(l, a + b);
        x[J].set(l, (a - b).mul_conj(w.get(l)));
    }
}

/// Twice the inverse of [`forward_right_pair`].
#[inline(always)]
pub(super) fn inverse_right_pair<T: Real, const I: usize, const J: usize>(
    x: &mut [Row<T>; 8],
    w: &Row<T>,
) {
    for l in 0..8 {
        let a = x[I].get(l);
        let b = x[J].get(l);
        x[I].set(l, a + b);
        x[J].set(l, (a - b).mul_conj(w.get(l)).mul_i());
    }
}
