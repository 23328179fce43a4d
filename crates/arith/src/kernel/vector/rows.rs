//! Row kernels on any [`Lanes`]. The scalar kernels process the words after the last full vector.

use super::{Factor, Lanes, Vector};
use crate::{
    Modulus, Shoup,
    kernel::{Rows, SCALAR},
};

/// Number of words in full vectors.
pub fn full<V: Vector>(len: usize) -> usize {
    len / V::LANES * V::LANES
}

/// Number of words of the longest vector.
pub const MAX_LANES: usize = 8;

/// Returns the words from `end` on, padded with zeros.
///
/// # Safety
/// Rows have `len` words, and less than [`MAX_LANES`] from `end` on.
pub unsafe fn padded(rows: Rows<'_>, end: usize, len: usize) -> Vec<[u64; MAX_LANES]> {
    let pad = |row: &*const u64| {
        let mut words = [0; MAX_LANES];
        // SAFETY: guaranteed by the caller.
        unsafe { words.as_mut_ptr().copy_from(row.add(end), len - end) };
        words
    };
    rows.iter().map(pad).collect()
}

pub fn advance<T>(rows: &[*const T], by: usize) -> Vec<*const T> {
    rows.iter().map(|p| p.wrapping_add(by)).collect()
}

#[inline(always)]
unsafe fn factor<L: Lanes>(m: &Modulus, w: Shoup) -> Factor<L> {
    let [value, quotient] = L::factor(m, w);
    // SAFETY: guaranteed by the caller.
    unsafe { (L::V::splat(value), L::V::splat(quotient)) }
}

#[inline(always)]
pub unsafe fn add<L: Lanes>(m: &Modulus, out: *mut u64, a: *const u64, b: *const u64, len: usize) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        for i in (0..end).step_by(L::V::LANES) {
            lanes.add(L::V::load(a.add(i)), L::V::load(b.add(i))).store(out.add(i));
        }
        (SCALAR.add)(m, out.add(end), a.add(end), b.add(end), len - end);
    }
}

#[inline(always)]
pub unsafe fn sub<L: Lanes>(m: &Modulus, out: *mut u64, a: *const u64, b: *const u64, len: usize) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        for i in (0..end).step_by(L::V::LANES) {
            lanes.sub(L::V::load(a.add(i)), L::V::load(b.add(i))).store(out.add(i));
        }
        (SCALAR.sub)(m, out.add(end), a.add(end), b.add(end), len - end);
    }
}

/// Sums of products computed side by side: a single one would wait for the latency of its own last
/// product.
pub const ABREAST: usize = 4;

#[inline(always)]
pub unsafe fn mul_add<L: Lanes>(
    m: &Modulus,
    out: *mut u64,
    a: *const u64,
    b: *const u64,
    c: *const u64,
    len: usize,
) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        for i in (0..end).step_by(L::V::LANES) {
            let product = lanes.mul(L::V::load(a.add(i)), L::V::load(b.add(i)));
            lanes.add(product, L::V::load(c.add(i))).store(out.add(i));
        }
        (SCALAR.mul_add)(m, out.add(end), a.add(end), b.add(end), c.add(end), len - end);
    }
}

#[inline(always)]
pub unsafe fn scale<L: Lanes>(m: &Modulus, out: *mut u64, a: *const u64, w: Shoup, len: usize) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        let v = factor::<L>(m, w);
        for i in (0..end).step_by(L::V::LANES) {
            lanes.fold(lanes.mul_lazy(L::value(L::V::load(a.add(i))), v)).store(out.add(i));
        }
        (SCALAR.scale)(m, out.add(end), a.add(end), w, len - end);
    }
}

#[inline(always)]
pub unsafe fn scale_add<L: Lanes>(m: &Modulus, out: *mut u64, a: *const u64, w: Shoup, len: usize) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        let v = factor::<L>(m, w);
        for i in (0..end).step_by(L::V::LANES) {
            let product = lanes.fold(lanes.mul_lazy(L::value(L::V::load(a.add(i))), v));
            lanes.add(L::V::load(out.add(i)), product).store(out.add(i));
        }
        (SCALAR.scale_add)(m, out.add(end), a.add(end), w, len - end);
    }
}

#[inline(always)]
pub unsafe fn sub_scale<L: Lanes>(
    m: &Modulus,
    out: *mut u64,
    a: *const u64,
    b: *const u64,
    w: Shoup,
    len: usize,
) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        let v = factor::<L>(m, w);
        for i in (0..end).step_by(L::V::LANES) {
            let difference = lanes.sub_lazy(L::V::load(a.add(i)), L::V::load(b.add(i)));
            lanes.fold(lanes.mul_lazy(L::value(difference), v)).store(out.add(i));
        }
        (SCALAR.sub_scale)(m, out.add(end), a.add(end), b.add(end), w, len - end);
    }
}

#[inline(always)]
pub unsafe fn add_constant<L: Lanes>(m: &Modulus, out: *mut u64, c: u64, len: usize) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        let c_lanes = L::V::splat(c);
        for i in (0..end).step_by(L::V::LANES) {
            lanes.add(L::V::load(out.add(i)), c_lanes).store(out.add(i));
        }
        (SCALAR.add_constant)(m, out.add(end), c, len - end);
    }
}
