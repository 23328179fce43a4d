//! Activations fitted to the numbers that they see.
//!
//! A polynomial cannot follow a kink everywhere on a range. Numbers of a layer are mostly near 0, and
//! far fewer near the ends. A fit by the distribution of numbers is several times as close as one by
//! the range. A small part of the weight is spread over the range, so that rare numbers are not far
//! off.

use sudare_arith::{par, real};

use super::{
    affine::{Function, Stage, stages, walk},
    error::{NnError, Result},
    model::{Activation, Layer, Network},
    ranges::{check_margin, largest},
};
use crate::logreg::solved;

/// Number of bins of a histogram, even: 0 is between two bins.
const BINS: usize = 4096;
/// Nodes of the weight over the range, for each coefficient.
const NODES: usize = 8;
/// Part of the weight that is spread over the range, with the density of the orthogonality of
/// Chebyshev polynomials.
const SPREAD: f64 = 0.01;
/// The smallest range.
const LEAST_RANGE: f64 = 1e-6;

impl Network {
    /// Returns the network with activations replaced by polynomials of this degree. Each has the
    /// least squares error for the numbers that samples lead to, on a range of `margin` times the
    /// largest. Activations that are polynomials stay as they are.
    ///
    /// A fitted network computes the same in the clear and on encrypted samples. Degree 63 takes six
    /// levels, and networks of ReLU then classify nearly as with ReLU. Rare samples may have larger
    /// numbers than all of the calibration, and are refused ([`Plan::check`](super::Plan::check)):
    /// pass 1,000 samples or more, and a margin of 1.35. Everyone who gets the network learns the
    /// ranges and how its numbers are distributed.
    ///
    /// # Errors
    /// [`NnError::Network`] for a degree beyond 1 to 255; the errors of
    /// [`Ranges::calibrate`](super::Ranges::calibrate).
    pub fn fitted(&self, samples: &[&[f64]], degree: usize, margin: f64) -> Result<Self> {
        check_margin(margin)?;
        let check = Activation::Relu { degree }.check();
        let refused =
            |problem| NnError::Network { problem: format!("cannot be fitted with {problem}") };
        check.map_err(refused)?;
        let stages = stages(self)?;
        let ranges: Vec<f64> = largest(&stages, samples)?
            .sizes
            .iter()
            .map(|most| (margin * most).max(LEAST_RANGE))
            .collect();
        let histograms = histograms(&stages, samples, &ranges)?;
        let mut fits = stages.iter().zip(&ranges).zip(&histograms).filter_map(|((stage, r), h)| {
            let Some(Function::Of(activation)) = &stage.function else { return None };
            Some(activation.fitted(*r, h, degree))
        });
        let layers = self.layers().iter().map(|layer| refitted(layer, &mut fits)).collect();
        Self::new(self.input().to_vec(), layers)
    }
}

/// Returns the layer with the next fits in place of its activations.
fn refitted(layer: &Layer, fits: &mut impl Iterator<Item = Activation>) -> Layer {
    match layer {
        Layer::Residual { layers, shortcut } => Layer::Residual {
            layers: layers.iter().map(|layer| refitted(layer, fits)).collect(),
            shortcut: shortcut.clone(),
        },
        Layer::Activation(activation) if activation.is_stage_of_its_own() => {
            Layer::Activation(fits.next().unwrap_or_else(|| activation.clone()))
        }
        layer => layer.clone(),
    }
}

/// Returns, for each stage, the number of values of its map in each bin of its range.
fn histograms(stages: &[Stage], samples: &[&[f64]], ranges: &[f64]) -> Result<Vec<Vec<u32>>> {
    let mut all = vec![vec![0u32; BINS]; stages.len()];
    // A few samples at a time, so that few histograms are in memory.
    for samples in samples.chunks(8) {
        let found = par::try_map(samples, |sample| -> Result<_> {
            let mut found: Vec<Vec<u32>> = vec![Vec::new(); stages.len()];
            walk(stages, sample, |k, y| {
                let bin = |y: &f64| (y / ranges[k] + 1.0) * (BINS / 2) as f64;
                found[k] = y.iter().map(|y| (bin(y) as u32).min(BINS as u32 - 1)).collect();
                stages[k].apply_function(y);
                Ok(())
            })?;
            Ok(found)
        })?;
        for found in found {
            for (all, bins) in all.iter_mut().zip(found) {
                bins.into_iter()
                    .for_each(|bin| all[bin as usize] = all[bin as usize].saturating_add(1));
            }
        }
    }
    Ok(all)
}

impl Activation {
    /// Returns the fit on `[-range, range]` for numbers distributed as in a histogram.
    fn fitted(&self, range: f64, histogram: &[u32], degree: usize) -> Self {
        let function = match self {
            Self::Square | Self::Polynomial(_) => return self.clone(),
            Self::Fitted { function, .. } => (**function).clone(),
            Self::Relu { .. } => Self::Relu { degree },
            Self::Gelu { .. } => Self::Gelu { degree },
            Self::Sigmoid { .. } => Self::Sigmoid { degree },
            Self::Tanh { .. } => Self::Tanh { degree },
        };
        let count: f64 = histogram.iter().map(|&count| f64::from(count)).sum();
        let centre = |bin: usize| (bin as f64 + 0.5) / (BINS / 2) as f64 - 1.0;
        let seen = histogram.iter().enumerate().filter(|(_, count)| **count > 0);
        let seen = seen.map(|(bin, &n)| (centre(bin), (1.0 - SPREAD) * f64::from(n) / count));
        let nodes = NODES * (degree + 1);
        let spread = (0..nodes).map(|i| {
            let angle = core::f64::consts::PI * (i as f64 + 0.5) / nodes as f64;
            (real::cos(angle), SPREAD / nodes as f64)
        });
        // The normal equations. The spread weight alone makes them diagonal, so they are well
        // conditioned.
        let mut equations = vec![vec![0.0; degree + 2]; degree + 1];
        for (t, weight) in seen.chain(spread) {
            let mut row: Vec<f64> = real::chebyshev(t).take(degree + 1).collect();
            row.push(function.value(range * t));
            for (equation, factor) in equations.iter_mut().zip(&row) {
                equation.iter_mut().zip(&row).for_each(|(sum, x)| *sum += weight * factor * x);
            }
        }
        let coefficients = solved(equations);
        Self::Fitted { function: Box::new(function), range, coefficients }
    }
}
