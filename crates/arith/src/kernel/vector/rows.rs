//! Row kernels on any [`Lanes`]. What is left of a row after its last full
//! vector goes to the scalar kernels.

use super::{Factor, Lanes, Vector};
use crate::{Modulus, Shoup, kernel::SCALAR};

/// Words in full vectors.
pub fn full<V: Vector>(len: usize) -> usize {
    len / V::LANES * V::LANES
}

pub fn advance<T>(rows: &[*const T], by: usize) -> Vec<*const T> {
    rows.iter().map(|p| p.wrapping_add(by)).collect()
}

#[inline(always)]
unsafe fn factor<L: Lanes>(m: &Modulus, w: Shoup) -> Factor<L> {
    let [value, quotient] = L::factor(m, w);
    // SAFETY: the caller's.
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

/// Vectors of a sum of products that are computed side by side: a sum alone would wait for
/// its own last product.
const ABREAST: usize = 4;

/// `sum_t a(k, t, v) * b(t, v)` over `terms` vectors for each `k` and `v`, canonical.
#[inline(always)]
unsafe fn sums_of_products<L: Lanes, const SUMS: usize, const V: usize>(
    lanes: L,
    terms: usize,
    a: impl Fn(usize, usize, usize) -> L::V,
    b: impl Fn(usize, usize) -> L::V,
) -> [[L::V; V]; SUMS] {
    // SAFETY: the caller's.
    unsafe {
        let mut totals = [[L::V::splat(0); V]; SUMS];
        let mut start = 0;
        while start < terms {
            let end = terms.min(start + L::TERMS);
            let mut sums = [[L::empty_sum(); V]; SUMS];
            for t in start..end {
                for v in 0..V {
                    let b = b(t, v);
                    for (k, sums) in sums.iter_mut().enumerate() {
                        sums[v] = L::accumulate(sums[v], a(k, t, v), b);
                    }
                }
            }
            for (total, &sum) in totals.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
                let part = lanes.reduce_sum(sum);
                *total = if start == 0 { part } else { lanes.add(*total, part) };
            }
            start = end;
        }
        totals
    }
}

/// Writes sums of `terms` products of the vectors that `a(k, ..)`, for the `k`-th output, and
/// `b` have at each place.
#[inline(always)]
pub unsafe fn write_sums<L: Lanes, const SUMS: usize>(
    lanes: L,
    out: [*mut u64; SUMS],
    terms: usize,
    a: impl Fn(usize, usize, usize) -> L::V,
    b: impl Fn(usize, usize) -> L::V,
    end: usize,
) {
    let mut i = 0;
    // SAFETY: the caller's.
    unsafe {
        while i < end {
            let at = |v: usize| i + v * L::V::LANES;
            if i + ABREAST * L::V::LANES <= end {
                let sums = sums_of_products::<L, SUMS, ABREAST>(
                    lanes,
                    terms,
                    |k, t, v| a(k, t, at(v)),
                    |t, v| b(t, at(v)),
                );
                for (out, sums) in out.into_iter().zip(sums) {
                    for (v, sum) in sums.into_iter().enumerate() {
                        sum.store(out.add(at(v)));
                    }
                }
                i += ABREAST * L::V::LANES;
            } else {
                let a = |k, t, _| a(k, t, i);
                let sums = sums_of_products::<L, SUMS, 1>(lanes, terms, a, |t, _| b(t, i));
                for (out, [sum]) in out.into_iter().zip(sums) {
                    sum.store(out.add(i));
                }
                i += L::V::LANES;
            }
        }
    }
}

#[inline(always)]
pub unsafe fn mul_sum<L: Lanes>(
    m: &Modulus,
    out: *mut u64,
    a: &[*const u64],
    b: &[*const u64],
    len: usize,
) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        let at = |rows: &[*const u64], t: usize, i: usize| L::V::load(rows.get_unchecked(t).add(i));
        write_sums(lanes, [out], a.len(), |_, t, i| at(a, t, i), |t, i| at(b, t, i), end);
        if end < len {
            (SCALAR.mul_sum)(m, out.add(end), &advance(a, end), &advance(b, end), len - end);
        }
    }
}

#[inline(always)]
pub unsafe fn dot<L: Lanes>(m: &Modulus, out: *mut u64, a: &[*const u64], c: &[u64], len: usize) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = L::new(m);
        let at = |_, t: usize, i: usize| L::V::load(a.get_unchecked(t).add(i));
        write_sums(lanes, [out], a.len(), at, |t, _| L::V::splat(*c.get_unchecked(t)), end);
        if end < len {
            (SCALAR.dot)(m, out.add(end), &advance(a, end), c, len - end);
        }
    }
}

#[inline(always)]
pub unsafe fn scale<L: Lanes>(m: &Modulus, out: *mut u64, a: *const u64, w: Shoup, len: usize) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let (lanes, v) = (L::new(m), factor::<L>(m, w));
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
        let (lanes, v) = (L::new(m), factor::<L>(m, w));
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
        let (lanes, v) = (L::new(m), factor::<L>(m, w));
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
        let (lanes, c_lanes) = (L::new(m), L::V::splat(c));
        for i in (0..end).step_by(L::V::LANES) {
            lanes.add(L::V::load(out.add(i)), c_lanes).store(out.add(i));
        }
        (SCALAR.add_constant)(m, out.add(end), c, len - end);
    }
}
