use super::ComplexSlots;
use crate::{
    circuits::linear::{self, MAX_LOG_SLOTS, Offset},
    ckks::Complex,
};
use std::collections::BTreeMap;

/// A square matrix over complex slots, by its nonzero diagonals; see [`linear::LinearTransform`].
pub type LinearTransform = linear::LinearTransform<ComplexSlots>;

/// A plan to apply a [`LinearTransform`] to ciphertexts of one level and scale; see
/// [`linear::LinearPlan`].
pub type LinearPlan = linear::LinearPlan<ComplexSlots>;

impl LinearTransform {
    /// Returns the identity matrix of `2^log_slots` rows, at most the number of slots of the
    /// largest ring.
    #[must_use]
    pub fn identity(log_slots: u32) -> Self {
        debug_assert!(log_slots <= MAX_LOG_SLOTS);
        let ones = vec![Complex::new(1.0, 0.0); 1 << log_slots];
        Self { log_slots, diagonals: BTreeMap::from([(0.into(), ones)]) }
    }

    /// Returns the product with `x`, in the clear. `x` has one value per row.
    #[must_use]
    pub fn apply(&self, x: &[Complex<f64>]) -> Vec<Complex<f64>> {
        debug_assert_eq!(x.len(), 1 << self.log_slots);
        let mut out = vec![Complex::new(0.0, 0.0); x.len()];
        for (&offset, entries) in &self.diagonals {
            add_product(&mut out, offset, entries, x);
        }
        out
    }

    /// Returns the matrix that applies `first` and then `self`. Both must have the same number of
    /// rows.
    #[must_use]
    pub fn after(&self, first: &Self) -> Self {
        debug_assert_eq!(self.log_slots, first.log_slots);
        let slots = 1 << self.log_slots;
        let mut diagonals = BTreeMap::new();
        for (&k, left) in &self.diagonals {
            for (&l, right) in &first.diagonals {
                let columns = (k.columns + l.columns) % slots;
                let sum = diagonals
                    .entry(Offset { columns, conjugated: k.conjugated != l.conjugated })
                    .or_insert_with(|| vec![Complex::new(0.0, 0.0); slots]);
                for (i, (sum, &left)) in sum.iter_mut().zip(left).enumerate() {
                    let right = conjugated_if(k.conjugated, right[(i + k.columns) % slots]);
                    *sum = *sum + left * right;
                }
            }
        }
        Self { log_slots: self.log_slots, diagonals }
    }

    /// Returns the matrix with every entry multiplied by `factor`.
    #[must_use]
    pub fn scaled(mut self, factor: Complex<f64>) -> Self {
        for entry in self.diagonals.values_mut().flatten() {
            *entry = *entry * factor;
        }
        self
    }

    /// Returns the matrix of twice the size that maps `[x | x]` to `[y | -i y]`, where `y` is the
    /// product of this matrix with `x`. Adding the conjugate leads to `[2 Re y | 2 Im y]`.
    ///
    /// Offsets are the offsets of this matrix, taken from `1 - slots / 2` to `slots / 2`.
    #[must_use]
    pub fn to_halves(&self) -> Self {
        let diagonals = self.diagonals.iter().map(|(&offset, entries)| {
            let imaginary = entries.iter().map(|z| Complex::new(z.im, -z.re));
            (self.doubled(offset), entries.iter().copied().chain(imaginary).collect())
        });
        Self { log_slots: self.log_slots + 1, diagonals: diagonals.collect() }
    }

    /// Returns the matrix of twice the size that maps `[Re x | Im x]` to a vector whose halves sum
    /// to the product of this matrix with `x`. Adding the rotation by half the length turns both
    /// halves into that product.
    ///
    /// Offsets are the offsets of this matrix, taken from `1 - slots / 2` to `slots / 2`.
    #[must_use]
    pub fn of_halves(&self) -> Self {
        let slots = 1usize << self.log_slots;
        let diagonals = self.diagonals.iter().map(|(&offset, entries)| {
            let offset = self.doubled(offset);
            let entry = |(row, z): (usize, &Complex<f64>)| match (row + offset.columns) & slots {
                0 => *z,
                _ if offset.conjugated => Complex::new(z.im, -z.re),
                _ => Complex::new(-z.im, z.re),
            };
            let rows = entries.iter().chain(entries).enumerate();
            (offset, rows.map(entry).collect())
        });
        Self { log_slots: self.log_slots + 1, diagonals: diagonals.collect() }
    }

    /// Converts an offset of this matrix to a matrix of twice the size. The upper half of the
    /// offsets is negative.
    fn doubled(&self, offset: Offset) -> Offset {
        let slots = 1usize << self.log_slots;
        let columns = offset.columns;
        Offset { columns: if 2 * columns <= slots { columns } else { columns + slots }, ..offset }
    }
}

/// Adds the product of a diagonal with `x` to `sum`.
pub(super) fn add_product(
    sum: &mut [Complex<f64>],
    Offset { columns, conjugated }: Offset,
    entries: &[Complex<f64>],
    x: &[Complex<f64>],
) {
    let turned = x[columns..].iter().chain(&x[..columns]);
    for ((sum, &entry), &x) in sum.iter_mut().zip(entries).zip(turned) {
        *sum = *sum + entry * conjugated_if(conjugated, x);
    }
}

fn conjugated_if(conjugated: bool, z: Complex<f64>) -> Complex<f64> {
    if conjugated { z.conj() } else { z }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    /// A matrix of four diagonals with small integers, so that sums are exact.
    fn matrix(seed: usize) -> LinearTransform {
        let entry = |k: usize, i: usize| {
            let x = (seed + 7 * k + 3 * i) % 11;
            Complex::new(x as f64 - 5.0, (x * x % 7) as f64)
        };
        let diagonal = |offset: Offset| {
            let k = offset.columns + 5 * usize::from(offset.conjugated);
            (offset, (0..8).map(|i| entry(k, i)).collect())
        };
        let conjugated = Offset { columns: 1 + seed % 3, conjugated: true };
        let offsets = [0.into(), (1 + seed % 3).into(), 6.into(), conjugated];
        LinearTransform::new(3, offsets.map(diagonal).into()).unwrap()
    }

    /// Returns rows of 16 entries, for `x` and its conjugate one after the other.
    fn dense(m: &LinearTransform) -> Vec<Vec<Complex<f64>>> {
        let mut rows = vec![vec![Complex::new(0.0, 0.0); 16]; 8];
        for (k, entries) in m.diagonals() {
            for (i, &entry) in entries.iter().enumerate() {
                rows[i][(i + k.columns) % 8 + 8 * usize::from(k.conjugated)] = entry;
            }
        }
        rows
    }

    #[test]
    fn applies_and_composes_as_dense_matrices_do() {
        let x: Vec<_> = (0..8).map(|i| Complex::new(f64::from(i), 2.0)).collect();
        for seed in 0..5 {
            let a = matrix(seed);
            let b = matrix(seed + 5);
            let product = |row: &Vec<Complex<f64>>| {
                let both = x.iter().copied().chain(x.iter().map(|z| z.conj()));
                row.iter().zip(both).fold(Complex::new(0.0, 0.0), |sum, (&m, x)| sum + m * x)
            };
            assert_eq!(a.apply(&x), dense(&a).iter().map(product).collect::<Vec<_>>());
            assert_eq!(b.after(&a).apply(&x), b.apply(&a.apply(&x)));
            let half = Complex::new(0.0, 0.5);
            let scaled: Vec<_> = a.apply(&x).into_iter().map(|z| z * half).collect();
            assert_eq!(a.scaled(half).apply(&x), scaled);
        }
    }

    #[test]
    fn rotations_move_from_a_matrix_to_the_one_before() {
        let x: Vec<_> = (0..8).map(|i| Complex::new(f64::from(i), f64::from(3 * i % 4))).collect();
        for (seed, columns) in (0..5).flat_map(|seed| (0..8).map(move |k| (seed, k))) {
            let m = matrix(seed);
            let turned = |x: &[Complex<f64>]| [&x[columns..], &x[..columns]].concat();
            assert_eq!(m.rotated(columns).apply(&x), turned(&m.apply(&x)));
            assert_eq!(m.clone().of_rotated(columns).apply(&turned(&x)), m.apply(&x));
            let first = m.first_step();
            assert_eq!(m.of_rotated(first).first_step(), 0);
        }
    }

    #[test]
    fn halves_are_real_and_imaginary_parts() {
        let x: Vec<_> = (0..8).map(|i| Complex::new(f64::from(i * i % 5), f64::from(i))).collect();
        for seed in 0..5 {
            let m = matrix(seed);
            let y = m.apply(&x);

            let twice = m.to_halves().apply(&[x.clone(), x.clone()].concat());
            for (i, y) in y.iter().enumerate() {
                let real_part = |z: Complex<f64>| z + z.conj();
                assert_eq!(real_part(twice[i]), Complex::new(2.0 * y.re, 0.0));
                assert_eq!(real_part(twice[i + 8]), Complex::new(2.0 * y.im, 0.0));
            }

            let parts = x.iter().map(|z| z.re).chain(x.iter().map(|z| z.im));
            let parts: Vec<_> = parts.map(|re| Complex::new(re, 0.0)).collect();
            let halves = m.of_halves().apply(&parts);
            for (i, &y) in y.iter().enumerate() {
                assert_eq!(halves[i] + halves[i + 8], y);
            }
        }
    }

    #[test]
    fn halves_have_the_same_signed_offsets() {
        // Offsets 0, 1 and -2 of 8, and 1 once more.
        let conjugated = Offset { columns: 1, conjugated: true };
        for m in [matrix(0).to_halves(), matrix(0).of_halves()] {
            assert_eq!(m.log_slots(), 4);
            let offsets: Vec<_> = m.diagonals().keys().copied().collect();
            assert_eq!(offsets, [0.into(), 1.into(), conjugated, 14.into()]);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let zeros = |len| vec![Complex::new(0.0, 0.0); len];
        for diagonals in [(8, zeros(8)), (0, zeros(7))] {
            assert!(LinearTransform::new(3, [diagonals].into()).is_err());
        }
        assert!(matches!(
            LinearTransform::new(64, BTreeMap::<usize, _>::new()),
            Err(Error::Circuit(_))
        ));
        let nan = vec![Complex::new(f64::NAN, 0.0); 8];
        let found = LinearTransform::new(3, [(1, nan)].into());
        assert!(matches!(found, Err(Error::NotFinite { index: 0, .. })));
    }
}
