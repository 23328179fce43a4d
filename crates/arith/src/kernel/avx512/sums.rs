//! Sums of products with AVX-512 IFMA: the arithmetic is [`Sums`], and the kernels are functions of
//! it.

use crate::{
    ConstantDot, Modulus,
    kernel::{
        Rows, SCALAR,
        vector::{
            Lanes, Vector,
            rows::{ABREAST, MAX_LANES, advance, full, padded},
        },
    },
};

/// Sums of products modulo one range of moduli.
///
/// # Safety
/// See [`Vector`].
pub(super) trait Sums: Lanes {
    /// A sum of up to `TERMS` products.
    type Sum: Copy;

    /// Maximum number of products in a sum.
    const TERMS: usize;
    /// Sums of products with constants that fit the registers at a time: 1, 2 or 4.
    const DOTS: usize;
    /// `true` if weights are in Montgomery form. [`Sums::reduce_weighted`] then reduces the sums,
    /// which may be lazy.
    const WEIGHS: bool = false;

    /// Converts a constant in `[0, q)` to the form that sums with weights use.
    fn weight(_: &Modulus, c: u64) -> u64 {
        c
    }

    unsafe fn empty_sum() -> Self::Sum;
    /// Adds the products of words. If the table has a wide one, the two words have at most 100 bits
    /// together.
    unsafe fn accumulate(sum: Self::Sum, a: Self::V, b: Self::V) -> Self::Sum;
    /// Reduces a sum to words in `[0, q)`.
    unsafe fn reduce_sum(self, sum: Self::Sum) -> Self::V;

    /// The initial value of sums with weights.
    #[inline(always)]
    unsafe fn empty_weighted(self) -> Self::Sum {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::empty_sum() }
    }
    /// Reduces a sum with weights of [`ConstantDot::width`] at most `2^LOG_WIDTH` to words in
    /// `[0, q)`, or in `[0, 2 q)` if `LAZY`.
    #[inline(always)]
    unsafe fn reduce_weighted<const LOG_WIDTH: u32, const LAZY: bool>(
        self,
        sum: Self::Sum,
    ) -> Self::V {
        // SAFETY: guaranteed by the caller.
        unsafe { self.reduce_sum(sum) }
    }
}

/// Start and end of sums: of residues, or with weights.
pub(super) trait Reduction<L: Sums>: Copy {
    /// # Safety
    /// See [`Sums`].
    unsafe fn empty(lanes: L) -> L::Sum;
    /// # Safety
    /// See [`Sums`].
    unsafe fn reduce(lanes: L, sum: L::Sum) -> L::V;
}

/// Sums of rows of residues.
#[derive(Clone, Copy)]
pub(super) struct Residues;

impl<L: Sums> Reduction<L> for Residues {
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

impl<L: Sums, const LOG_WIDTH: u32, const LAZY: bool> Reduction<L> for Weighted<LOG_WIDTH, LAZY> {
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

/// Computes sums of `terms` products of the pairs `factors(shared(t), t, v)`, for each of `V`
/// vectors of each output.
#[inline(always)]
unsafe fn sums_of_products<L: Sums, R: Reduction<L>, T: Copy, const SUMS: usize, const V: usize>(
    lanes: [L; SUMS],
    terms: usize,
    shared: impl Fn(usize) -> T,
    factors: impl Fn(T, usize, usize) -> [(L::V, L::V); SUMS],
) -> [[L::V; V]; SUMS] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut totals = [[L::V::splat(0); V]; SUMS];
        let mut start = 0;
        while start < terms {
            let end = terms.min(start + L::TERMS);
            let mut sums = lanes.map(|lanes| [R::empty(lanes); V]);
            for t in start..end {
                let shared = shared(t);
                for v in 0..V {
                    for (sums, (a, b)) in sums.iter_mut().zip(factors(shared, t, v)) {
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

/// Writes sums of `terms` products of the pairs `factors(shared(t, i), t, j)` at place `j` of each
/// output, `V` vectors from place `i` on side by side.
#[inline(always)]
pub(super) unsafe fn write_sums<
    L: Sums,
    R: Reduction<L>,
    T: Copy,
    const SUMS: usize,
    const V: usize,
>(
    lanes: [L; SUMS],
    out: [*mut u64; SUMS],
    terms: usize,
    shared: impl Fn(usize, usize) -> T,
    factors: impl Fn(T, usize, usize) -> [(L::V, L::V); SUMS],
    end: usize,
) {
    let mut i = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while i < end {
            let at = |v: usize| i + v * L::V::LANES;
            if i + V * L::V::LANES <= end {
                let factors = |shared, t, v| factors(shared, t, at(v));
                let shared = |t| shared(t, i);
                let sums = sums_of_products::<L, R, T, SUMS, V>(lanes, terms, shared, factors);
                for (out, sums) in out.into_iter().zip(sums) {
                    for (v, sum) in sums.into_iter().enumerate() {
                        sum.store(out.add(at(v)));
                    }
                }
                i += V * L::V::LANES;
            } else {
                let factors = |shared, t, _| factors(shared, t, i);
                let shared = |t| shared(t, i);
                let sums = sums_of_products::<L, R, T, SUMS, 1>(lanes, terms, shared, factors);
                for (out, [sum]) in out.into_iter().zip(sums) {
                    sum.store(out.add(i));
                }
                i += L::V::LANES;
            }
        }
    }
}

/// Nothing shared by neighbouring vectors.
pub(super) fn alone(_: usize, _: usize) {}

#[inline(always)]
pub(super) unsafe fn mul_sum<L: Sums>(
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
        let factors = |(), t, i| [(at(a, t, i), at(b, t, i))];
        write_sums::<L, Residues, (), 1, ABREAST>([lanes], [out], a.len(), alone, factors, end);
        if end < len {
            (SCALAR.mul_sum)(m, out.add(end), &advance(a, end), &advance(b, end), len - end);
        }
    }
}

#[inline(always)]
pub(super) unsafe fn dot<L: Sums>(
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
unsafe fn dots<L: Sums, R: Reduction<L>>(
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
unsafe fn dots_of<L: Sums, R: Reduction<L>, const SUMS: usize, const V: usize>(
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
        let factors = |(), t: usize, i: usize| {
            let a = L::V::load(a.get_unchecked(t).add(i));
            c.map(|c| (a, L::V::splat(*c.get_unchecked(t))))
        };
        write_sums::<L, R, (), SUMS, V>(lanes, out, a.len(), alone, factors, end);
        if end < len {
            // Padded with zeros: factors have the form of this table, which the scalar kernels
            // cannot read.
            let rest = padded(a, end, len);
            let factors = |(), t: usize, _| {
                let a = L::V::load(rest.get_unchecked(t).as_ptr());
                c.map(|c| (a, L::V::splat(*c.get_unchecked(t))))
            };
            let sums = sums_of_products::<L, R, (), SUMS, 1>(lanes, a.len(), |_| (), factors);
            for (out, [sum]) in out.into_iter().zip(sums) {
                let mut words = [0; MAX_LANES];
                sum.store(words.as_mut_ptr());
                words[..len - end].as_ptr().copy_to(out.add(end), len - end);
            }
        }
    }
}
