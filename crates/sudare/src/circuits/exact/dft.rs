//! The maps between slots and coefficients, as products of sparse matrices.
//!
//! The `2n` slots of an [`IntegerEncoder`] are the values of `m(Y) = sum_(k < 2n) c_k Y^k`, with
//! `Y = X^(N / 2n)`: slot `(0, j)` at `Y = zeta^(5^j)`, slot `(1, j)` at `zeta^(-5^j)`, for a
//! primitive `4n`-th root of unity `zeta`. As `I = zeta^n` is a square root of -1 and
//! `I^(5^j) = I`, each row is a Fourier transform of its own. Row 0 transforms `c_k + I c_(k+n)`
//! with the root `zeta`, and row 1 transforms `c_k - I c_(k+n)` with its inverse. Offset by offset,
//! both have the factors of [complex slots](crate::circuits::ckks::dft) with `zeta = exp(2 pi i / 4n)`,
//! where the rows are complex numbers and their conjugates.
//!
//! The last step joins the rows, each slot with the other one of its column. It is merged into the
//! factor next to the coefficients and so uses no level of its own. That factor has twice the
//! diagonals: for each offset one of the same row and one of the other. A factor of `k` layers has
//! `2^(k+1) - 1` diagonals, or `2^k` if it combines the highest bit of the index, and twice that
//! number if it joins the rows.
//!
//! For `p = 1 mod 4` the root `zeta` is an integer modulo `t`. For `p = 3 mod 4` it is in a ring of
//! degree 2 above the integers, and its conjugate is its inverse, as for complex numbers. Factors
//! are still polynomials in `Y`, except for the factor that joins the rows. Slots of integers, on
//! the other side of that factor, are polynomials in `X^(N / 4n)` and rotate through both rows.
//!
//! Entries are exact. Entries modulo `p^e` reduce to the entries modulo lower powers of `p`.
//!
//! Source: the factors are from Han, "Bootstrapping methods for homomorphic encryption" (thesis,
//! Seoul National University), Section 4.3.2 (layers `E_k`, Equation 4.3.3), there for complex
//! slots. For BGV, factors like the factors of a number-theoretic transform are by Ma, Huang, Wang,
//! Wang ([2024/164](https://eprint.iacr.org/2024/164)).
//!
//! ```
//! use sudare::{
//!     circuits::exact::dft,
//!     exact::{IntegerEncoder, Modulus},
//! };
//!
//! let t = Modulus::new(17, 2)?;
//! let encoder = IntegerEncoder::new(t, 3, 3)?;
//! let x = encoder.encode(&[1, 2, 3, 4, 5, 6, 7, 8])?;
//! // The slots of `y` are the coefficients of `x`: those of columns 1 and 2 change places.
//! let coeffs_to_slots = dft::coeffs_to_slots(&encoder, &[1, 1])?;
//! let y = coeffs_to_slots.iter().try_fold(x.clone(), |x, matrix| matrix.apply(&x))?;
//! let coeffs = x.coeffs();
//! let expected = [0, 2, 1, 3, 4, 6, 5, 7].map(|k| coeffs[k]);
//! assert_eq!(encoder.decode(&y)?, expected.map(|c| t.centered(c)));
//! # Ok::<(), sudare::Error>(())
//! ```

use super::{IntegerSlots, LinearTransform};
#[cfg(doc)]
use crate::Error;
pub use crate::circuits::butterflies::bit_reversed;
use crate::{
    Result,
    circuits::{
        butterflies::{BitReversed, Roots, check, factors, powers_of_5},
        linear::Offset,
    },
    exact::{IntegerEncoder, PlainPoly, Products},
    rlwe::GaloisElement,
};
use std::collections::BTreeMap;
use sudare_arith::par;

/// CoeffsToSlots: maps the `2n` slots of a polynomial to its coefficients, in bit-reversed order.
///
/// Applied in turn, the factors put `c_k` in slot `(0, r)` and `c_(k+n)` in slot `(1, r)`, with `r`
/// [`bit_reversed`]`(log2(n), k)`. They are the inverse of [`slots_to_coeffs`].
///
/// `radices` are the layers of each factor. Layers go from the highest bit of the index to the
/// lowest: the first factor of `k` layers has `2^k` diagonals, and the last one joins the rows.
/// Without layers, for 2 slots, that is the only factor.
///
/// # Errors
/// [`Error::Circuit`] if `radices` holds a 0 or does not sum to `log2(n)`, if there are more than
/// 2^16 columns, or if a factor might have more than 2^24 entries in a row of slots, not counting
/// the join of the rows.
pub fn coeffs_to_slots(encoder: &IntegerEncoder, radices: &[u32]) -> Result<Vec<LinearTransform>> {
    let roots = ModularRoots::new(encoder);
    let mut factors = roots.factors(radices, BitReversed::Output)?;
    if let Some(last) = factors.last_mut() {
        *last = roots.join_after(last)?;
    }
    Ok(factors)
}

/// SlotsToCoeffs: the inverse of [`coeffs_to_slots`]. Maps slots with coefficients in bit-reversed
/// order, `c_k` in row 0 and `c_(k+n)` in row 1, to the slots of the polynomial with these
/// coefficients.
///
/// Layers go from the lowest bit of the index to the highest: the first factor joins the rows, the
/// last one of `k` layers has `2^k` diagonals.
///
/// # Errors
/// See [`coeffs_to_slots`].
pub fn slots_to_coeffs(encoder: &IntegerEncoder, radices: &[u32]) -> Result<Vec<LinearTransform>> {
    let roots = ModularRoots::new(encoder);
    let mut factors = roots.factors(radices, BitReversed::Input)?;
    if let Some(first) = factors.first_mut() {
        *first = roots.join_before(first)?;
    }
    Ok(factors)
}

/// Roots of unity in row 0, their inverses in row 1.
struct ModularRoots<'a> {
    encoder: &'a IntegerEncoder,
    /// `log2(n)`.
    log_columns: u32,
}

/// Weights that join the rows of a factor: of a vector and of the vector with its rows swapped,
/// each in slots of both rows, as quarter turns.
struct Join {
    halvings: u32,
    quarters: [[usize; 2]; 2],
}

/// Converts `c_k` and `c_(k+n)` to `c_k + I c_(k+n)` in row 0 and `c_k - I c_(k+n)` in row 1.
// A quarter turn is a factor `I`: 0 stands for 1, 1 for `I`, 3 for `-I`.
const BEFORE: Join = Join { halvings: 0, quarters: [[0, 3], [1, 0]] };
/// The inverse of `BEFORE`.
const AFTER: Join = Join { halvings: 1, quarters: [[0, 1], [0, 3]] };

impl<'a> ModularRoots<'a> {
    fn new(encoder: &'a IntegerEncoder) -> Self {
        Self { encoder, log_columns: encoder.slots().ilog2() - 1 }
    }

    /// Returns the factors of both rows before the rows are joined; at least one.
    fn factors(&self, radices: &[u32], reversed: BitReversed) -> Result<Vec<LinearTransform>> {
        check(self.log_columns, radices)?;
        let inverse = reversed == BitReversed::Output;
        let mut factors = factors(self, radices, powers_of_5, reversed, inverse)?;
        // The matrix that joins the rows needs a factor to be merged into.
        if factors.is_empty() {
            let one = PlainPoly::constant(self.encoder.modulus(), self.encoder.log_n(), 1)?;
            factors.push(LinearTransform::new(self.log_columns, BTreeMap::from([(0, one)]))?);
        }
        Ok(factors)
    }

    /// Returns `2^-halvings`.
    fn halved(&self, halvings: u32) -> u128 {
        let t = self.encoder.modulus();
        // `(t + 1) / 2` is the inverse of 2, since a modulus with slots is odd.
        t.pow(t.value().div_ceil(2), halvings.into())
    }

    fn products(&self) -> Result<Products> {
        Products::new(self.encoder.modulus(), self.encoder.log_n())
    }

    fn weights(&self, join: &Join) -> Result<[PlainPoly; 2]> {
        let weight = |[row_0, row_1]: [usize; 2]| {
            let quarter = |row| if row == 0 { row_0 } else { row_1 };
            let scale = self.halved(join.halvings);
            self.encoder.roots(scale, |row, _| Some(quarter(row) << self.log_columns))
        };
        let [plain, swapped] = join.quarters;
        Ok([weight(plain)?, weight(swapped)?])
    }

    /// Applies the factor to joined rows.
    fn join_before(&self, factor: &LinearTransform) -> Result<LinearTransform> {
        let weights = self.weights(&BEFORE)?;
        let products = self.products()?;
        self.joined(factor, |offset, entries| {
            let element = offset.element(self.encoder.log_n());
            // The weights come before the rotation of this diagonal, so their image stands behind
            // it.
            let of = |weight: &PlainPoly| products.of(entries, &weight.image(element));
            Ok([of(&weights[0])?, of(&weights[1])?])
        })
    }

    /// Joins the rows of the factor's result.
    fn join_after(&self, factor: &LinearTransform) -> Result<LinearTransform> {
        let ([plain, swapped], products) = (self.weights(&AFTER)?, self.products()?);
        // Swapping rows of a result swaps the rows of its weights too, so entries take the image.
        let swap = GaloisElement::conjugation(self.encoder.log_n());
        self.joined(factor, |_, entries| {
            Ok([products.of(&plain, entries)?, products.of(&swapped, &entries.image(swap))?])
        })
    }

    /// Returns a matrix with two diagonals for each of this one: of the same row and of the other.
    /// If slots rotate through both rows, the two together are the columns.
    fn joined(
        &self,
        factor: &LinearTransform,
        both: impl Fn(Offset, &PlainPoly) -> Result<[PlainPoly; 2]> + Sync,
    ) -> Result<LinearTransform> {
        let columns = 1 << self.log_columns;
        let through_both = matches!(self.encoder, IntegerEncoder::Slim(_));
        let pairs = par::try_map(factor.diagonals(), |(&offset, entries)| -> Result<_> {
            // Backwards, so that offsets are close to each other.
            let beyond = through_both && 2 * offset.columns > columns;
            let columns = offset.columns + if beyond { columns } else { 0 };
            let offset = Offset { columns, ..offset };
            let [plain, swapped] = both(offset, entries)?;
            Ok([(offset, plain), (Offset { conjugated: true, ..offset }, swapped)])
        })?;
        let diagonals = pairs.into_iter().flatten().collect();
        LinearTransform::new(self.log_columns + u32::from(through_both), diagonals)
    }
}

impl Roots for ModularRoots<'_> {
    type Algebra = IntegerSlots;

    fn log_slots(&self) -> u32 {
        self.log_columns
    }

    fn vector(&self, halvings: u32, angle: impl Fn(usize) -> Option<usize>) -> Result<PlainPoly> {
        // Wrapping is exact, because the order of the root is a power of two.
        let signed = |row, angle: usize| if row == 0 { angle } else { angle.wrapping_neg() };
        self.encoder.roots(self.halved(halvings), |row, column| {
            angle(column).map(|angle| signed(row, angle))
        })
    }
}

#[cfg(test)]
mod tests;
