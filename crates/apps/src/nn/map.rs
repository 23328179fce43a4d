//! Linear maps of one value to another.

use std::borrow::Cow;

use super::{
    error::{NnError, Result},
    kernel::Kernel,
};

/// Maximum number of entries of a map.
const MAX_ENTRIES: usize = 1 << 26;

/// A linear map. Images keep their kernels, since rows would hold many copies of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Map {
    Rows(Rows),
    Kernel(Kernel),
}

/// A matrix by the nonzero weights of its rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rows {
    pub(super) inputs: usize,
    /// Pairs of an input and its weight, in ascending order of inputs.
    pub(super) rows: Vec<Vec<(usize, f64)>>,
}

impl Map {
    /// Returns the product of every feature of this shape with a factor.
    pub(super) fn of_factor(shape: &[usize], factor: f64) -> Self {
        if let Ok(image) = shape.try_into() {
            return Self::Kernel(Kernel::of_factors(image, |_| factor));
        }
        let inputs = shape.iter().product();
        Self::Rows(Rows { inputs, rows: (0..inputs).map(|i| vec![(i, factor)]).collect() })
    }

    pub(super) fn inputs(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.inputs,
            Self::Kernel(kernel) => kernel.input.iter().product(),
        }
    }

    pub(super) fn outputs(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.rows.len(),
            Self::Kernel(kernel) => kernel.output.iter().product(),
        }
    }

    /// Returns the summands of an output: the indices of inputs with weights, in ascending order.
    pub(super) fn row(&self, output: usize) -> Cow<'_, [(usize, f64)]> {
        match self {
            Self::Rows(rows) => Cow::Borrowed(&rows.rows[output]),
            Self::Kernel(kernel) => Cow::Owned(kernel.row(output)),
        }
    }

    /// Returns the number of nonzero weights, or an upper bound of it.
    pub(super) fn entries(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.rows.iter().map(Vec::len).sum(),
            Self::Kernel(kernel) => kernel.entries(),
        }
    }

    /// Calls `each` with every output, input and weight.
    pub(super) fn each(&self, mut each: impl FnMut(usize, usize, f64)) {
        match self {
            Self::Rows(rows) => {
                for (output, row) in rows.rows.iter().enumerate() {
                    row.iter().for_each(|&(input, weight)| each(output, input, weight));
                }
            }
            Self::Kernel(kernel) => {
                kernel.each(|read, weight| each(read.output, read.input, weight))
            }
        }
    }

    /// Adds the product with `x` to `sum`.
    pub(super) fn add_product(&self, x: &[f64], sum: &mut [f64]) {
        match self {
            Self::Rows(rows) => {
                for (sum, row) in sum.iter_mut().zip(&rows.rows) {
                    *sum += row.iter().map(|&(i, weight)| weight * x[i]).sum::<f64>();
                }
            }
            Self::Kernel(kernel) => kernel.add_product(x, sum),
        }
    }

    pub(super) fn to_rows(&self) -> Result<Rows> {
        check_entries(self.entries())?;
        Ok(match self {
            Self::Rows(rows) => rows.clone(),
            Self::Kernel(_) => Rows {
                inputs: self.inputs(),
                rows: (0..self.outputs()).map(|output| self.row(output).into_owned()).collect(),
            },
        })
    }

    /// Returns the map that applies `first` and then this one.
    pub(super) fn after(&self, first: &Self) -> Result<Self> {
        if let (Self::Kernel(kernel), Self::Kernel(first)) = (self, first)
            && let Some(joined) = kernel.after(first)
        {
            check_entries(joined.entries())?;
            return Ok(Self::Kernel(joined));
        }
        let first = first.to_rows()?;
        let mut sums = vec![0.0; first.inputs];
        let mut entries = 0;
        let mut rows = Vec::new();
        for output in 0..self.outputs() {
            let mut touched = Vec::new();
            for &(i, weight) in &*self.row(output) {
                for &(j, inner) in &first.rows[i] {
                    touched.push(j);
                    sums[j] += weight * inner;
                }
            }
            // Only touched sums are read and cleared, so a sparse row stays cheap.
            touched.sort_unstable();
            touched.dedup();
            entries += touched.len();
            // Row by row, before more memory is used.
            check_entries(entries)?;
            let row = touched.into_iter().map(|j| (j, core::mem::take(&mut sums[j])));
            rows.push(row.filter(|(_, weight)| *weight != 0.0).collect());
        }
        Ok(Self::Rows(Rows { inputs: first.inputs, rows }))
    }

    /// Returns the sum of two maps of the same value to the same outputs.
    pub(super) fn plus(&self, other: &Self) -> Result<Self> {
        if let (Self::Kernel(kernel), Self::Kernel(other)) = (self, other)
            && let Some(sum) = kernel.plus(other)
        {
            return Ok(Self::Kernel(sum));
        }
        let mut sum = self.to_rows()?;
        for (row, added) in sum.rows.iter_mut().zip(&other.to_rows()?.rows) {
            row.extend(added);
            row.sort_by_key(|&(i, _)| i);
            row.dedup_by(|(i, weight), (kept, sum)| {
                let same = i == kept;
                if same {
                    *sum += *weight;
                }
                same
            });
            row.retain(|&(_, weight)| weight != 0.0);
        }
        Ok(Self::Rows(sum))
    }

    /// Returns, for each input, whether a weight touches it.
    pub(super) fn touched(&self) -> Vec<bool> {
        let mut touched = vec![false; self.inputs()];
        self.each(|_, input, _| touched[input] = true);
        touched
    }

    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Rows(rows) => rows.rows.iter().all(Vec::is_empty),
            Self::Kernel(kernel) => kernel.taps.iter().all(Vec::is_empty),
        }
    }

    /// Removes the inputs that are not in `kept`. No weight touches them.
    pub(super) fn keep(&mut self, kept: &[bool]) -> Result<()> {
        if !kept.contains(&false) {
            return Ok(());
        }
        let mut rows = self.to_rows()?;
        let mut places = Vec::with_capacity(kept.len());
        let mut count = 0;
        for &kept in kept {
            places.push(count);
            count += usize::from(kept);
        }
        rows.rows.iter_mut().flatten().for_each(|(i, _)| *i = places[*i]);
        rows.inputs = count;
        *self = Self::Rows(rows);
        Ok(())
    }

    /// Returns the largest magnitude of a weight.
    pub(super) fn largest(&self) -> f64 {
        let most = |most: f64, weight: f64| weight.abs().max(most);
        match self {
            Self::Rows(rows) => rows.rows.iter().flatten().map(|&(_, w)| w).fold(0.0, most),
            Self::Kernel(kernel) => kernel.taps.iter().flatten().map(|t| t.weight).fold(0.0, most),
        }
    }

    /// Adds the number of weights of each row, and the sum of their squares.
    pub(super) fn add_sizes(&self, sizes: &mut [RowSize]) {
        self.each(|output, _, weight| {
            sizes[output].count += 1;
            sizes[output].squares += weight * weight;
        });
    }
}

/// Size of a row of weights.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowSize {
    pub(super) count: usize,
    /// Sum of the squares of weights.
    pub(super) squares: f64,
}

fn check_entries(count: usize) -> Result<()> {
    if count <= MAX_ENTRIES {
        return Ok(());
    }
    let problem = format!("has affine layers that merge to over {MAX_ENTRIES} weights");
    Err(NnError::Network { problem })
}
