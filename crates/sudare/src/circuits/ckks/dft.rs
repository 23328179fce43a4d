//! Discrete Fourier transforms and the maps between slots and coefficients, as products of sparse
//! matrices.
//!
//! Each is the product of factors, sparse matrices of one level each. A factor combines consecutive
//! layers of butterflies of an FFT. `radices` lists the number of layers of each factor in the
//! order of application. A factor of `k` layers has `2^(k+1) - 1` diagonals, or `2^k` if it
//! combines the highest bit of the index.
//!
//! Source: Han, "Bootstrapping methods for homomorphic encryption" (thesis, Seoul National
//! University), Section 4.2.2 for the transform (layers `D_k`, Equations 4.2.1 and 4.2.2, merged as
//! in Lemma 4.2.3) and Section 4.3.2 for slots and coefficients (layers `E_k`, Equation 4.3.3, from
//! Lemma 4.3.1); the chapter appeared as Cheon, Han, Hhan
//! ([2018/1073](https://eprint.iacr.org/2018/1073)). Merging layers to save levels is also in Chen,
//! Chillotti, Song ([2018/1043](https://eprint.iacr.org/2018/1043)).
//!
//! With layers alone, one side is in bit-reversed order; see [`BitReversed`]. A transform in
//! natural order on both sides would need the bit reversal as an additional factor, of 2187
//! diagonals at `n = 2^15`. The thesis does not have it. Its hybrid method (Section 4.2.3)
//! evaluates the same factors with baby and giant steps, because the offsets of each are an
//! arithmetic progression. That concerns the evaluation of a [`LinearTransform`], not the factors.
//!
//! Angles of entries are multiples of a fixed fraction of a turn. Each entry is therefore correct
//! to the last bit for any number of merged layers.
//!
//! ```
//! use sudare::circuits::ckks::{Complex, dft::{self, BitReversed}};
//!
//! // The cyclic product of 1 + 2X and 3X^2 modulo X^4 - 1.
//! let forward = dft::forward(2, &[1, 1], BitReversed::Output)?;
//! let inverse = dft::inverse(2, &[2], BitReversed::Input)?;
//! let real = |x: [f64; 4]| x.map(|re| Complex::new(re, 0.0)).to_vec();
//! let a = forward.iter().fold(real([1.0, 2.0, 0.0, 0.0]), |x, m| m.apply(&x));
//! let b = forward.iter().fold(real([0.0, 0.0, 3.0, 0.0]), |x, m| m.apply(&x));
//! let product: Vec<_> = a.iter().zip(&b).map(|(&a, &b)| a * b).collect();
//! let product = inverse.iter().fold(product, |x, m| m.apply(&x));
//! for (found, expected) in product.iter().zip([0.0, 0.0, 3.0, 6.0]) {
//!     assert!((found.re - expected).abs() < 1e-15 && found.im.abs() < 1e-15);
//! }
//! # Ok::<(), sudare::Error>(())
//! ```

use super::{ComplexSlots, LinearTransform};
#[cfg(doc)]
use crate::Error;
pub use crate::circuits::butterflies::{BitReversed, bit_reversed};
use crate::{
    Result,
    circuits::butterflies::{Roots, check, factors, multiples_of_4, powers_of_5},
    ckks::Complex,
};
use sudare_arith::dd::Dd;

/// CoeffsToSlots: maps the `n = 2^log_slots` slots of a polynomial to its coefficients, in
/// bit-reversed order.
///
/// Slot `j` is the value of the polynomial `sum_(k < 2n) c_k Y^k`, with `Y = X^(N / 2n)`, at
/// `Y = zeta^(5^j)`, `zeta = exp(2 pi i / 4n)`: the order of [`Encoder`](crate::ckks::Encoder).
/// Applied in turn, the factors put `c_k + i c_(k+n)` in slot [`bit_reversed`]`(log_slots, k)`.
/// They are the exact inverse of [`slots_to_coeffs`], including constants. To include a constant,
/// apply [`LinearTransform::scaled`] to a factor.
///
/// Layers go from the highest bit of the index to the lowest: the offsets of the factor after `s`
/// layers are multiples of `n / 2^(s+k)`, and the first factor has `2^k` diagonals.
///
/// # Errors
/// [`Error::Circuit`] if `radices` holds a 0 or does not sum to `log_slots`, if there are more than
/// 2^16 slots, or if a factor might have more than 2^24 entries.
pub fn coeffs_to_slots(log_slots: u32, radices: &[u32]) -> Result<Vec<LinearTransform>> {
    complex_factors(log_slots, radices, powers_of_5, BitReversed::Output, true)
}

/// SlotsToCoeffs: the inverse of [`coeffs_to_slots`]. Maps slots with `c_k + i c_(k+n)` in
/// bit-reversed order to the slots of the polynomial with these coefficients.
///
/// Layers go from the lowest bit of the index to the highest: the offsets of the factor after `s`
/// layers are multiples of `2^s`, and the last factor has `2^k` diagonals.
///
/// # Errors
/// See [`coeffs_to_slots`].
pub fn slots_to_coeffs(log_slots: u32, radices: &[u32]) -> Result<Vec<LinearTransform>> {
    complex_factors(log_slots, radices, powers_of_5, BitReversed::Input, false)
}

/// Returns the discrete Fourier transform of `n = 2^log_slots` slots,
/// `z_j = sum_k w_k exp(2 pi i jk / n)`.
///
/// With bit-reversed output, layers go from the highest bit of the index to the lowest, as in
/// [`coeffs_to_slots`]. With bit-reversed input they go the other way, as in [`slots_to_coeffs`].
///
/// # Errors
/// See [`coeffs_to_slots`].
pub fn forward(
    log_slots: u32,
    radices: &[u32],
    reversed: BitReversed,
) -> Result<Vec<LinearTransform>> {
    complex_factors(log_slots, radices, multiples_of_4, reversed, false)
}

/// Returns the inverse of [`forward`], `w_k = 1/n sum_j z_j exp(-2 pi i jk / n)`.
///
/// It undoes a transform with bit-reversed order on the other side.
///
/// # Errors
/// See [`coeffs_to_slots`].
pub fn inverse(
    log_slots: u32,
    radices: &[u32],
    reversed: BitReversed,
) -> Result<Vec<LinearTransform>> {
    complex_factors(log_slots, radices, multiples_of_4, reversed, true)
}

fn complex_factors(
    log_slots: u32,
    radices: &[u32],
    twiddles: fn(u32) -> Vec<usize>,
    reversed: BitReversed,
    inverse: bool,
) -> Result<Vec<LinearTransform>> {
    check(log_slots, radices)?;
    factors(&ComplexRoots::new(log_slots), radices, twiddles, reversed, inverse)
}

/// Complex roots of unity.
struct ComplexRoots {
    log_slots: u32,
    /// `exp(2 pi i k / 4n)` for the `n` angles below a quarter turn.
    quarter: Vec<Complex<f64>>,
}

impl ComplexRoots {
    fn new(log_slots: u32) -> Self {
        let root = |k: u64| {
            let turns = Dd::from(k).mul_pow2(-(log_slots as i32 + 2));
            let (im, re) = turns.sin_cos_turns();
            Complex::new(re.to_f64(), im.to_f64())
        };
        Self { log_slots, quarter: (0..1 << log_slots).map(root).collect() }
    }

    /// Returns the root of unity of an angle in parts `1 / 4n` of a turn.
    fn root(&self, angle: usize) -> Complex<f64> {
        let Complex { re, im } = self.quarter[angle & ((1 << self.log_slots) - 1)];
        // Quarter turns are exact, so all entries have the precision of the first quarter.
        match angle >> self.log_slots & 3 {
            0 => Complex::new(re, im),
            1 => Complex::new(-im, re),
            2 => Complex::new(-re, -im),
            _ => Complex::new(im, -re),
        }
    }
}

impl Roots for ComplexRoots {
    type Algebra = ComplexSlots;

    fn log_slots(&self) -> u32 {
        self.log_slots
    }

    fn vector(
        &self,
        halvings: u32,
        angle: impl Fn(usize) -> Option<usize>,
    ) -> Result<Vec<Complex<f64>>> {
        let scale = 1.0 / (1u64 << halvings) as f64;
        let entry = |row| match angle(row) {
            Some(angle) => {
                let Complex { re, im } = self.root(angle);
                Complex::new(scale * re, scale * im)
            }
            None => Complex::new(0.0, 0.0),
        };
        Ok((0..1 << self.log_slots).map(entry).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error,
        circuits::{Algebra, linear::Offset},
        ckks::{Encoder, Params, Scale, Spec},
        rlwe::Level,
    };
    use sudare_arith::prng::{Seed, Stream};

    type Vector = Vec<Complex<f64>>;

    fn random(slots: usize) -> Vector {
        let mut prng = Stream::new(&Seed::from_bytes([7; 32]), "dft test", slots as u64);
        let mut unit = || (prng.next_u64() as i64) as f64 / 2f64.powi(63);
        (0..slots).map(|_| Complex::new(unit(), unit())).collect()
    }

    fn apply(factors: &[LinearTransform], x: &[Complex<f64>]) -> Vector {
        factors.iter().fold(x.to_vec(), |x, m| m.apply(&x))
    }

    fn permuted(x: &[Complex<f64>]) -> Vector {
        let bits = x.len().ilog2();
        (0..x.len()).map(|i| x[bit_reversed(bits, i)]).collect()
    }

    /// Returns every list of positive numbers with this sum.
    fn schedules(sum: u32) -> Vec<Vec<u32>> {
        if sum == 0 {
            return vec![vec![]];
        }
        let with_first = |first| {
            let rest = schedules(sum - first).into_iter();
            rest.map(move |rest| [vec![first], rest].concat())
        };
        (1..=sum).flat_map(with_first).collect()
    }

    /// A matrix by its definition: the exponent of `exp(2 pi i / 4n)` of each entry, and a common
    /// factor.
    #[derive(Clone, Copy)]
    struct Definition {
        exponent: fn(row: u64, column: u64, slots: u64) -> u64,
        inverse: bool,
    }

    fn power_of_5(exponent: u64, modulus: u64) -> u64 {
        let square = |x: u64| x * x % modulus;
        match exponent {
            0 => 1 % modulus,
            e if e % 2 == 0 => square(power_of_5(e / 2, modulus)),
            e => square(power_of_5(e / 2, modulus)) * 5 % modulus,
        }
    }

    impl Definition {
        const SLOTS: Self =
            Self { exponent: |j, k, n| power_of_5(j, 4 * n) * k % (4 * n), inverse: false };
        const COEFFS: Self =
            Self { exponent: |k, j, n| 4 * n - (Self::SLOTS.exponent)(j, k, n), inverse: true };
        const FORWARD: Self = Self { exponent: |j, k, n| 4 * (j * k % n), inverse: false };
        const INVERSE: Self = Self { exponent: |j, k, n| 4 * (n - j * k % n), inverse: true };

        /// Returns one entry of the product with `x`, all in double words. `roots` are the powers
        /// of `exp(2 pi i / 4n)`.
        fn row(self, row: usize, x: &[Complex<f64>], roots: &[Complex<Dd>]) -> Complex<Dd> {
            let slots = x.len() as u64;
            let terms = x.iter().enumerate().map(|(column, z)| {
                let exponent = (self.exponent)(row as u64, column as u64, slots);
                let root = roots[(exponent % (4 * slots)) as usize];
                Complex::new(Dd::from(z.re), Dd::from(z.im)) * root
            });
            let sum = terms.fold(Complex::new(Dd::ZERO, Dd::ZERO), |sum, term| sum + term);
            let factor = if self.inverse { Dd::ONE / Dd::from(slots) } else { Dd::ONE };
            Complex::new(sum.re * factor, sum.im * factor)
        }
    }

    fn roots(slots: usize) -> Vec<Complex<Dd>> {
        let order = 4 * slots as u64;
        let roots = (0..order).map(|k| {
            let (sin, cos) = (Dd::from(k) / Dd::from(order)).sin_cos_turns();
            Complex::new(cos, sin)
        });
        roots.collect()
    }

    type Transform = fn(u32, &[u32]) -> Result<Vec<LinearTransform>>;

    const TRANSFORMS: [(Transform, Definition, BitReversed); 6] = [
        (slots_to_coeffs, Definition::SLOTS, BitReversed::Input),
        (coeffs_to_slots, Definition::COEFFS, BitReversed::Output),
        (|n, k| forward(n, k, BitReversed::Input), Definition::FORWARD, BitReversed::Input),
        (|n, k| forward(n, k, BitReversed::Output), Definition::FORWARD, BitReversed::Output),
        (|n, k| inverse(n, k, BitReversed::Input), Definition::INVERSE, BitReversed::Input),
        (|n, k| inverse(n, k, BitReversed::Output), Definition::INVERSE, BitReversed::Output),
    ];

    /// Returns the largest error in these rows of the product with `x`, relative to the root mean
    /// square of the product.
    fn error(
        (transform, definition, reversed): (Transform, Definition, BitReversed),
        radices: &[u32],
        x: &[Complex<f64>],
        roots: &[Complex<Dd>],
        rows: impl Iterator<Item = usize>,
    ) -> f64 {
        let bits = x.len().ilog2();
        let factors = transform(bits, radices).unwrap();
        let found = match reversed {
            BitReversed::Input => apply(&factors, &permuted(x)),
            BitReversed::Output => permuted(&apply(&factors, x)),
        };
        let power: f64 = found.iter().map(|z| z.re * z.re + z.im * z.im).sum();
        let size = (power / x.len() as f64).sqrt();
        let errors = rows.map(|row| {
            let found = found[row];
            let expected = definition.row(row, x, roots);
            let re = (Dd::from(found.re) - expected.re).to_f64();
            let im = (Dd::from(found.im) - expected.im).to_f64();
            re.hypot(im) / size
        });
        errors.fold(0.0, f64::max)
    }

    #[test]
    fn every_schedule_is_the_definition_at_small_sizes() {
        for log_slots in 0..=6 {
            let slots = 1 << log_slots;
            let roots = roots(slots);
            for transform in TRANSFORMS {
                // One factor on unit vectors: the matrix itself, correctly rounded.
                let whole: Vec<u32> = (log_slots > 0).then_some(log_slots).into_iter().collect();
                for column in 0..slots {
                    let mut unit = vec![Complex::new(0.0, 0.0); slots];
                    unit[column] = Complex::new(1.0, 0.0);
                    let found = error(transform, &whole, &unit, &roots, 0..slots);
                    assert!(
                        found <= 2f64.powi(-53),
                        "2^{log_slots} slots, column {column}: {found:e}"
                    );
                }
                let x = random(slots);
                for radices in schedules(log_slots) {
                    let found = error(transform, &radices, &x, &roots, 0..slots);
                    assert!(found < 2e-15, "{radices:?}: {found:e}");
                }
            }
        }
    }

    #[test]
    fn large_sizes_are_accurate_to_the_last_bits() {
        let schedules: [&[u32]; 4] = [&[3, 4, 4, 4], &[4, 4, 4, 3], &[5, 5, 5], &[6, 6]];
        for radices in schedules {
            let slots = 1usize << radices.iter().sum::<u32>();
            let x = random(slots);
            let roots = roots(slots);
            for transform in TRANSFORMS {
                let rows = (0..6).map(|i| (i * 0x2_9e37 + i / 5) % slots);
                let found = error(transform, radices, &x, &roots, rows);
                assert!(found < 2f64.powi(-49), "{radices:?}: 2^{}", found.log2());
            }
        }
    }

    #[test]
    fn pairs_are_inverse() {
        let [stc, cts, forward_in, forward_out, inverse_in, inverse_out] =
            TRANSFORMS.map(|(transform, ..)| transform);
        let pairs = [
            (cts, stc),
            (stc, cts),
            (forward_out, inverse_in),
            (inverse_in, forward_out),
            (inverse_out, forward_in),
            (forward_in, inverse_out),
        ];
        let x = random(1 << 15);
        for (first, second) in pairs {
            let there = apply(&first(15, &[5, 5, 5]).unwrap(), &x);
            let back = apply(&second(15, &[3, 4, 4, 4]).unwrap(), &there);
            for (found, expected) in back.iter().zip(&x) {
                let error = *found - *expected;
                assert!(error.re.hypot(error.im) < 2f64.powi(-48));
            }
        }
        let product = cts(4, &[1, 3]).unwrap().iter().chain(&stc(4, &[2, 2]).unwrap()).fold(
            LinearTransform::new(4, [(0, vec![Complex::new(1.0, 0.0); 16])].into()).unwrap(),
            |product, factor| factor.after(&product),
        );
        for (offset, entries) in product.diagonals() {
            let expected = if offset.columns == 0 { 1.0 } else { 0.0 };
            assert!(entries.iter().all(|z| (z.re - expected).hypot(z.im) < 1e-15));
        }
    }

    /// Returns the coefficients of the encoder's plaintext of `slots`, each divided by the scale.
    fn coefficients(params: &Params, slots: &[Complex<f64>], scale: Scale) -> Vec<f64> {
        let plaintext = Encoder::new(params).encode_at(slots, Level(0), scale).unwrap();
        let basis = params.rlwe().basis();
        let poly = basis.into_coeff(plaintext.poly().clone());
        let modulus = basis.modulus(params.rlwe().limbs(Level(0)), 0);
        let row = poly.rows().next().unwrap();
        row.iter().map(|&x| modulus.centered(x) as f64 / scale.to_f64()).collect()
    }

    #[test]
    fn slots_and_coefficients_are_those_of_the_encoder() {
        let mut spec = Spec::uniform(6, 50.0, 0, 40.0, vec![50.0]);
        spec.insecure = true;
        let params = Params::new(spec).unwrap();
        let scale = Scale::from_log2(40.0);
        for log_slots in 0..=5 {
            let slots = 1usize << log_slots;
            let z = random(slots);
            let gap = params.max_slots() / slots;
            let coeffs = coefficients(&params, &z, scale);
            let paired: Vector = (0..slots)
                .map(|k| Complex::new(coeffs[k * gap], coeffs[(k + slots) * gap]))
                .collect();
            let close = |a: &[Complex<f64>], b: &[Complex<f64>], bound: f64| {
                a.iter().zip(b).all(|(&a, &b)| (a - b).re.hypot((a - b).im) < bound)
            };
            for radices in schedules(log_slots) {
                let found = apply(&coeffs_to_slots(log_slots, &radices).unwrap(), &z);
                // Coefficients are rounded to integers before division by the scale.
                assert!(close(&permuted(&found), &paired, 2f64.powi(-40)), "{radices:?}");
                let back =
                    apply(&slots_to_coeffs(log_slots, &radices).unwrap(), &permuted(&paired));
                assert!(close(&back, &z, slots as f64 * 2f64.powi(-40)), "{radices:?}");
            }
        }
    }

    #[test]
    fn sparse_slots_go_through_real_halves() {
        for log_slots in 1..=5 {
            let slots = 1usize << log_slots;
            for radices in schedules(log_slots) {
                let periodic = random(slots).repeat(2);
                let (last, rest) = {
                    let mut factors = coeffs_to_slots(log_slots, &radices).unwrap();
                    (factors.pop().unwrap(), factors)
                };
                let w = apply(&rest, &periodic[..slots]).repeat(2);
                let w = last.to_halves().apply(&w);
                let halves: Vector = w.iter().map(|&z| z + z.conj()).collect();

                let factors = slots_to_coeffs(log_slots, &radices).unwrap();
                let half = Complex::new(0.5, 0.0);
                let sum = factors[0].of_halves().scaled(half).apply(&halves);
                let z: Vector = (0..2 * slots).map(|i| sum[i] + sum[i ^ slots]).collect();
                let z = apply(&factors[1..], &z[..slots]);
                for (found, expected) in z.iter().zip(&periodic) {
                    let error = *found - *expected;
                    assert!(error.re.hypot(error.im) < 1e-14, "{radices:?}");
                }
            }
        }
    }

    /// Returns offsets from `-n/2` up.
    fn signed_offsets(m: &LinearTransform) -> Vec<i64> {
        let slots = 1i64 << m.log_slots();
        let signed = |k: &Offset| (k.columns as i64 + slots / 2) % slots - slots / 2;
        let mut offsets: Vec<_> = m.diagonals().keys().map(signed).collect();
        offsets.sort_unstable();
        offsets
    }

    #[test]
    fn offsets_are_arithmetic_progressions() {
        for (transform, _, reversed) in TRANSFORMS {
            for radices in schedules(7) {
                let mut done = 0;
                for (m, &k) in transform(7, &radices).unwrap().iter().zip(&radices) {
                    done += k;
                    let lowest = match reversed {
                        BitReversed::Input => done - k,
                        BitReversed::Output => 7 - done,
                    };
                    let reach = if lowest + k == 7 {
                        -(1 << (k - 1))..1 << (k - 1)
                    } else {
                        1 - (1 << k)..1 << k
                    };
                    let expected: Vec<i64> = reach.map(|i: i64| i << lowest).collect();
                    assert_eq!(signed_offsets(m), expected, "{radices:?}");
                    let entries = m.diagonals().values().flatten();
                    let count = entries.filter(|z| z.re.hypot(z.im) > 0.0).count();
                    assert_eq!(count, 1 << (7 + k), "{radices:?}");
                }
            }
        }
    }

    /// Blocks of the layers so far repeat, or of the layers that are left: the plaintexts of all
    /// factors but one lie in a subring.
    #[test]
    fn diagonals_have_the_period_of_their_blocks() {
        for (transform, _, reversed) in TRANSFORMS {
            for radices in schedules(7) {
                let mut done = 0;
                for (m, &k) in transform(7, &radices).unwrap().iter().zip(&radices) {
                    let log_period = match reversed {
                        BitReversed::Input => done + k,
                        BitReversed::Output => 7 - done,
                    };
                    done += k;
                    let log_gaps = m.diagonals().values().map(|d| ComplexSlots::log_gap(d, 10));
                    assert_eq!(log_gaps.min(), Some(9 - log_period), "{radices:?}");
                }
            }
        }
    }

    #[test]
    fn diagonal_counts_of_large_schedules() {
        let counts = |transform: Transform, radices: &[u32]| -> Vec<usize> {
            transform(15, radices).unwrap().iter().map(|m| m.diagonals().len()).collect()
        };
        assert_eq!(counts(coeffs_to_slots, &[3, 4, 4, 4]), [8, 31, 31, 31]);
        assert_eq!(counts(coeffs_to_slots, &[4, 4, 4, 3]), [16, 31, 31, 15]);
        assert_eq!(counts(coeffs_to_slots, &[5, 5, 5]), [32, 63, 63]);
        assert_eq!(counts(slots_to_coeffs, &[5, 5, 5]), [63, 63, 32]);
    }

    #[test]
    fn bit_reversal_has_many_diagonals() {
        let slots = 1usize << 15;
        let offsets: std::collections::BTreeSet<_> =
            (0..slots).map(|i| bit_reversed(15, i).wrapping_sub(i) & (slots - 1)).collect();
        assert_eq!(offsets.len(), 2187);
    }

    #[test]
    fn schedules_that_do_not_fit_are_refused() {
        let bad: [(u32, &[u32]); 8] = [
            (3, &[1, 1]),
            (3, &[2, 2]),
            (3, &[3, 0]),
            (0, &[0]),
            (3, &[u32::MAX, 4]),
            (17, &[5, 6, 6]),
            (u32::MAX, &[u32::MAX]),
            (15, &[9, 6]),
        ];
        for (log_slots, radices) in bad {
            for (transform, ..) in TRANSFORMS {
                let refused = transform(log_slots, radices);
                assert!(matches!(refused, Err(Error::Circuit(_))), "{log_slots}, {radices:?}");
            }
        }
        assert_eq!(bit_reversed(3, 0b110), 0b011);
        assert_eq!(bit_reversed(0, 5), 0);
        assert_eq!(bit_reversed(u32::MAX, 1), 1 << (usize::BITS - 1));
    }
}
