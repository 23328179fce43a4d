use crate::{Error, Result, ckks::Complex};
use std::collections::BTreeMap;

/// A square matrix over the slots, by its diagonals that are not zero.
///
/// Diagonal `k` holds the entries `(i, i + k mod slots)` in the order of `i`, so the
/// product with `x` is `sum_k diagonal_k * rotate(x, k)`.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearTransform {
    log_slots: u32,
    diagonals: BTreeMap<usize, Vec<Complex<f64>>>,
}

impl LinearTransform {
    /// The matrix of `2^log_slots` rows with these diagonals, each by its offset
    /// below the number of rows.
    ///
    /// # Errors
    /// [`Error::Circuit`] for an offset or a length that does not fit the number of rows;
    /// [`Error::NotFinite`] for an entry that is NaN or infinite.
    pub fn new(log_slots: u32, diagonals: BTreeMap<usize, Vec<Complex<f64>>>) -> Result<Self> {
        let slots = 1usize << log_slots;
        for (&offset, entries) in &diagonals {
            if offset >= slots || entries.len() != slots {
                return Err(Error::Circuit(format!(
                    "linear transform: diagonal {offset} with {} entries does not fit a matrix \
                     of {slots} rows",
                    entries.len()
                )));
            }
            let bad = entries.iter().position(|z| !(z.re.is_finite() && z.im.is_finite()));
            if let Some(index) = bad {
                let value = format!("{} + {}i", entries[index].re, entries[index].im);
                return Err(Error::NotFinite { index, value });
            }
        }
        Ok(Self { log_slots, diagonals })
    }

    /// `log2` of the number of rows.
    #[must_use]
    pub fn log_slots(&self) -> u32 {
        self.log_slots
    }

    /// The diagonals by offset.
    #[must_use]
    pub fn diagonals(&self) -> &BTreeMap<usize, Vec<Complex<f64>>> {
        &self.diagonals
    }

    /// The product with `x`, in the clear; `x` has one value a row.
    #[must_use]
    pub fn apply(&self, x: &[Complex<f64>]) -> Vec<Complex<f64>> {
        debug_assert_eq!(x.len(), 1 << self.log_slots);
        let mut out = vec![Complex::new(0.0, 0.0); x.len()];
        for (&offset, entries) in &self.diagonals {
            let turned = x[offset..].iter().chain(&x[..offset]);
            for ((out, &entry), &x) in out.iter_mut().zip(entries).zip(turned) {
                *out = *out + times(entry, x);
            }
        }
        out
    }

    /// The matrix of applying `first` and then `self`; both have as many rows.
    #[must_use]
    pub fn after(&self, first: &Self) -> Self {
        debug_assert_eq!(self.log_slots, first.log_slots);
        let slots = 1 << self.log_slots;
        let mut diagonals = BTreeMap::new();
        for (&k, left) in &self.diagonals {
            for (&l, right) in &first.diagonals {
                let sum = diagonals
                    .entry((k + l) % slots)
                    .or_insert_with(|| vec![Complex::new(0.0, 0.0); slots]);
                for (i, (sum, &left)) in sum.iter_mut().zip(left).enumerate() {
                    *sum = *sum + times(left, right[(i + k) % slots]);
                }
            }
        }
        Self { log_slots: self.log_slots, diagonals }
    }

    /// The matrix with every entry multiplied by `factor`.
    #[must_use]
    pub fn scaled(mut self, factor: Complex<f64>) -> Self {
        for entry in self.diagonals.values_mut().flatten() {
            *entry = times(*entry, factor);
        }
        self
    }
}

fn times(a: Complex<f64>, b: Complex<f64>) -> Complex<f64> {
    Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three diagonals of small whole numbers, so that sums are exact.
    fn matrix(seed: usize) -> LinearTransform {
        let entry = |k: usize, i: usize| {
            let x = (seed + 7 * k + 3 * i) % 11;
            Complex::new(x as f64 - 5.0, (x * x % 7) as f64)
        };
        let diagonal = |k: usize| (k, (0..8).map(|i| entry(k, i)).collect());
        LinearTransform::new(3, [0, 1 + seed % 3, 6].map(diagonal).into()).unwrap()
    }

    fn dense(m: &LinearTransform) -> Vec<Vec<Complex<f64>>> {
        let mut rows = vec![vec![Complex::new(0.0, 0.0); 8]; 8];
        for (&k, entries) in m.diagonals() {
            for (i, &entry) in entries.iter().enumerate() {
                rows[i][(i + k) % 8] = entry;
            }
        }
        rows
    }

    #[test]
    fn applies_and_composes_as_dense_matrices_do() {
        let x: Vec<_> = (0..8).map(|i| Complex::new(f64::from(i), 2.0)).collect();
        for seed in 0..5 {
            let (a, b) = (matrix(seed), matrix(seed + 5));
            let product = |row: &Vec<Complex<f64>>| {
                row.iter().zip(&x).fold(Complex::new(0.0, 0.0), |sum, (&m, &x)| sum + times(m, x))
            };
            assert_eq!(a.apply(&x), dense(&a).iter().map(product).collect::<Vec<_>>());
            assert_eq!(b.after(&a).apply(&x), b.apply(&a.apply(&x)));
            let half = Complex::new(0.0, 0.5);
            let scaled: Vec<_> = a.apply(&x).into_iter().map(|z| times(z, half)).collect();
            assert_eq!(a.scaled(half).apply(&x), scaled);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let zeros = |len| vec![Complex::new(0.0, 0.0); len];
        for diagonals in [(8, zeros(8)), (0, zeros(7))] {
            assert!(LinearTransform::new(3, [diagonals].into()).is_err());
        }
        let nan = vec![Complex::new(f64::NAN, 0.0); 8];
        let found = LinearTransform::new(3, [(1, nan)].into());
        assert!(matches!(found, Err(Error::NotFinite { index: 0, .. })));
    }
}
