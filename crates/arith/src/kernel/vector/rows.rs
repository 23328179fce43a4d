//! Row kernels on any [`Lanes`]. The scalar kernels process the words after the last full vector.

use super::{Factor, Lanes, Vector};
use crate::{
    ConstantDot, Modulus, Shoup,
    kernel::{Rows, SCALAR},
};

/// Number of words in full vectors.
pub fn full<V: Vector>(len: usize) -> usize {
    len / V::LANES * V::LANES
}

/// Number of words of the longest vector.
const MAX_LANES: usize = 8;

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

/// Start and end of sums: of residues, or with weights.
pub trait Reduction<L: Lanes>: Copy {
    /// # Safety
    /// See [`Lanes`].
    unsafe fn empty(lanes: L) -> L::Sum;
    /// # Safety
    /// See [`Lanes`].
    unsafe fn reduce(lanes: L, sum: L::Sum) -> L::V;
}

/// Sums of rows of residues.
#[derive(Clone, Copy)]
pub struct Residues;

impl<L: Lanes> Reduction<L> for Residues {
    #[inline(always)]
    unsafe fn empty(_: L) -> L::Sum {
        // SAFETY: guaranteed by the caller.
        unsafe { L::empty_sum() }
    }

    #[inline(always)]
    unsafe fn reduce(lanes: L, sum: L::Sum) -> L::V {
        // SAFETY: guaranteed by the caller.
        unsafe { lanes.reduce_sum(sum) }
    }
}

/// Sums with weights of width at most `2^LOG_WIDTH`. A `LAZY` result is in `[0, 2q)`.
#[derive(Clone, Copy)]
struct Weighted<const LOG_WIDTH: u32, const LAZY: bool>;

impl<L: Lanes, const LOG_WIDTH: u32, const LAZY: bool> Reduction<L> for Weighted<LOG_WIDTH, LAZY> {
    #[inline(always)]
    unsafe fn empty(lanes: L) -> L::Sum {
        // SAFETY: guaranteed by the caller.
        unsafe { lanes.empty_weighted() }
    }

    #[inline(always)]
    unsafe fn reduce(lanes: L, sum: L::Sum) -> L::V {
        // SAFETY: guaranteed by the caller.
        unsafe { lanes.reduce_weighted::<LOG_WIDTH, LAZY>(sum) }
    }
}

/// Computes sums of `terms` products of the pairs `factors(t, v)`, for each of `V` vectors of each
/// output.
#[inline(always)]
unsafe fn sums_of_products<L: Lanes, R: Reduction<L>, const SUMS: usize, const V: usize>(
    lanes: [L; SUMS],
    terms: usize,
    factors: impl Fn(usize, usize) -> [(L::V, L::V); SUMS],
) -> [[L::V; V]; SUMS] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut totals = [[L::V::splat(0); V]; SUMS];
        let mut start = 0;
        while start < terms {
            let end = terms.min(start + L::TERMS);
            let mut sums = lanes.map(|lanes| [R::empty(lanes); V]);
            for t in start..end {
                for v in 0..V {
                    for (sums, (a, b)) in sums.iter_mut().zip(factors(t, v)) {
                        sums[v] = L::accumulate(sums[v], a, b);
                    }
                }
            }
            for ((totals, sums), lanes) in totals.iter_mut().zip(sums).zip(lanes) {
                for (total, sum) in totals.iter_mut().zip(sums) {
                    let part = R::reduce(lanes, sum);
                    *total = if start == 0 { part } else { lanes.add(*total, part) };
                }
            }
            start = end;
        }
        totals
    }
}

/// Writes sums of `terms` products of the pairs `factors(t, i)` at place `i` of each output, `V`
/// vectors side by side.
#[inline(always)]
pub unsafe fn write_sums<L: Lanes, R: Reduction<L>, const SUMS: usize, const V: usize>(
    lanes: [L; SUMS],
    out: [*mut u64; SUMS],
    terms: usize,
    factors: impl Fn(usize, usize) -> [(L::V, L::V); SUMS],
    end: usize,
) {
    let mut i = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while i < end {
            let at = |v: usize| i + v * L::V::LANES;
            if i + V * L::V::LANES <= end {
                let factors = |t, v| factors(t, at(v));
                let sums = sums_of_products::<L, R, SUMS, V>(lanes, terms, factors);
                for (out, sums) in out.into_iter().zip(sums) {
                    for (v, sum) in sums.into_iter().enumerate() {
                        sum.store(out.add(at(v)));
                    }
                }
                i += V * L::V::LANES;
            } else {
                let factors = |t, _| factors(t, i);
                let sums = sums_of_products::<L, R, SUMS, 1>(lanes, terms, factors);
                for (out, [sum]) in out.into_iter().zip(sums) {
                    sum.store(out.add(i));
                }
                i += L::V::LANES;
            }
        }
    }
}

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
            let [a, b, c] = [a, b, c].map(|row| L::V::load(row.add(i)));
            let product = lanes.reduce_sum(L::accumulate(L::empty_sum(), a, b));
            lanes.add(product, c).store(out.add(i));
        }
        (SCALAR.mul_add)(m, out.add(end), a.add(end), b.add(end), c.add(end), len - end);
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
        // Loads are unchecked: the callers compared all lengths.
        let factors = |t, i| [(at(a, t, i), at(b, t, i))];
        write_sums::<L, Residues, 1, ABREAST>([lanes], [out], a.len(), factors, end);
        if end < len {
            (SCALAR.mul_sum)(m, out.add(end), &advance(a, end), &advance(b, end), len - end);
        }
    }
}

#[inline(always)]
pub unsafe fn dot<L: Lanes>(
    weights: &[&ConstantDot],
    out: &[*mut u64],
    a: Rows<'_>,
    lazy: bool,
    len: usize,
) {
    let width = weights.iter().map(|weights| weights.width()).max().unwrap_or(0);
    // SAFETY: the table's contract. The width is at most 16, because each of 15 words is below
    // `2^52`.
    unsafe {
        // The reduction is compiled for a few widths. A sum uses the next larger one.
        // Longer sums are added up from parts, and `Lanes::add` needs canonical words.
        match (width, lazy && a.len() <= L::TERMS) {
            (..=2, true) if L::WEIGHS => dots::<L, Weighted<1, true>>(weights, out, a, len),
            (..=2, false) if L::WEIGHS => dots::<L, Weighted<1, false>>(weights, out, a, len),
            (..=4, true) if L::WEIGHS => dots::<L, Weighted<2, true>>(weights, out, a, len),
            (..=4, false) if L::WEIGHS => dots::<L, Weighted<2, false>>(weights, out, a, len),
            _ => dots::<L, Weighted<4, false>>(weights, out, a, len),
        }
    }
}

#[inline(always)]
unsafe fn dots<L: Lanes, R: Reduction<L>>(
    weights: &[&ConstantDot],
    out: &[*mut u64],
    a: Rows<'_>,
    len: usize,
) {
    let mut k = 0;
    // SAFETY: the table's contract.
    unsafe {
        // Larger groups first: they read each word once for more sums.
        // Four sums of two vectors, or two of four: eight accumulators hide the latency of
        // products.
        if L::DOTS == 4 {
            while let (&[w0, w1, w2, w3, ..], &[o0, o1, o2, o3, ..]) = (&weights[k..], &out[k..]) {
                dots_of::<L, R, 4, 2>([w0, w1, w2, w3], [o0, o1, o2, o3], a, len);
                k += 4;
            }
        }
        if L::DOTS >= 2 {
            while let (&[w0, w1, ..], &[o0, o1, ..]) = (&weights[k..], &out[k..]) {
                dots_of::<L, R, 2, 4>([w0, w1], [o0, o1], a, len);
                k += 2;
            }
        }
        for (&weights, &out) in weights.iter().zip(out).skip(k) {
            dots_of::<L, R, 1, ABREAST>([weights], [out], a, len);
        }
    }
}

/// Reads each word once for all sums.
#[inline(always)]
unsafe fn dots_of<L: Lanes, R: Reduction<L>, const SUMS: usize, const V: usize>(
    weights: [&ConstantDot; SUMS],
    out: [*mut u64; SUMS],
    a: Rows<'_>,
    len: usize,
) {
    let end = full::<L::V>(len);
    // SAFETY: the table's contract.
    unsafe {
        let lanes = weights.map(|weights| L::new(weights.modulus()));
        let c = weights.map(ConstantDot::factors);
        let factors = |t: usize, i: usize| {
            let a = L::V::load(a.get_unchecked(t).add(i));
            c.map(|c| (a, L::V::splat(*c.get_unchecked(t))))
        };
        write_sums::<L, R, SUMS, V>(lanes, out, a.len(), factors, end);
        if end < len {
            // Padded with zeros: factors have the form of this table, which the scalar kernels
            // cannot read.
            let rest: Vec<[u64; MAX_LANES]> = a
                .iter()
                .map(|row| {
                    core::array::from_fn(|i| if end + i < len { *row.add(end + i) } else { 0 })
                })
                .collect();
            let factors = |t: usize, _| {
                let a = L::V::load(rest.get_unchecked(t).as_ptr());
                c.map(|c| (a, L::V::splat(*c.get_unchecked(t))))
            };
            let sums = sums_of_products::<L, R, SUMS, 1>(lanes, a.len(), factors);
            for (out, [sum]) in out.into_iter().zip(sums) {
                let mut words = [0; MAX_LANES];
                sum.store(words.as_mut_ptr());
                words[..len - end].as_ptr().copy_to(out.add(end), len - end);
            }
        }
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
