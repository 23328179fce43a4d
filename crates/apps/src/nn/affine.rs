//! Layers as they are computed on encrypted data: affine maps, and a function after each.

use sudare::circuits::Polynomial;

use super::{
    error::{NnError, Result, expect},
    model::{Activation, Layer, Network, each_window},
};

/// The most entries of a map.
const MAX_ENTRIES: usize = 1 << 26;

/// The largest multiple of a step that is encoded exactly.
const LARGEST_MULTIPLE: f64 = (1 << 16) as f64;

/// `weights x + bias`, with the weights that are not zero.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Affine {
    pub(super) inputs: usize,
    pub(super) rows: Vec<Vec<(usize, f64)>>,
    pub(super) bias: Vec<f64>,
    /// What all weights are small integer multiples of, if there is such a number.
    pub(super) step: Option<f64>,
}

/// What follows an affine map.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Function {
    Square,
    /// On the calibrated range.
    Of(Activation),
}

/// An affine map and what follows it, nothing after the last.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stage {
    pub(super) affine: Affine,
    pub(super) function: Option<Function>,
}

impl Affine {
    fn identity(inputs: usize) -> Self {
        let rows = (0..inputs).map(|i| vec![(i, 1.0)]).collect();
        Self { inputs, rows, bias: vec![0.0; inputs], step: Some(1.0) }
    }

    /// Of a layer that is affine.
    fn of_layer(layer: &Layer, input: &[usize], output: &[usize]) -> Option<Self> {
        let inputs: usize = input.iter().product();
        let channel = |i: usize| i * input[0] / inputs;
        let mut map = Self { inputs, rows: Vec::new(), bias: Vec::new(), step: None };
        match layer {
            Layer::Select(kept) => {
                map.rows = kept.iter().map(|&index| vec![(index, 1.0)]).collect();
                map.step = Some(1.0);
            }
            Layer::Dense { weights, bias, step } => {
                let row = |row: &Vec<f64>| {
                    let weights = row.iter().enumerate().filter(|(_, w)| **w != 0.0);
                    weights.map(|(i, w)| (i, step * w)).collect()
                };
                map.rows = weights.iter().map(row).collect();
                map.bias.clone_from(bias);
                map.step = step_of(*step, weights.iter().flatten());
            }
            Layer::Convolution(convolution) => {
                convolution.each_output(input, output, |channel, terms| {
                    let terms = terms.iter().filter(|(_, w)| *w != 0.0);
                    map.rows.push(terms.map(|&(i, w)| (i, convolution.step * w)).collect());
                    map.bias.push(convolution.bias[channel]);
                });
                let weights = convolution.kernels.iter().flatten().flatten().flatten();
                map.step = step_of(convolution.step, weights);
            }
            Layer::AveragePool { window, stride } => {
                let share = 1.0 / (window[0] * window[1]) as f64;
                each_window(input, output, *window, *stride, |places| {
                    map.rows.push(places.iter().map(|&place| (place, share)).collect());
                });
                map.step = Some(share);
            }
            Layer::Normalize { factors, offsets } => {
                map.rows = (0..inputs).map(|i| vec![(i, factors[channel(i)])]).collect();
                map.bias = (0..inputs).map(|i| offsets[channel(i)]).collect();
                map.step = step_of(1.0, factors);
            }
            Layer::Flatten => return Some(Self::identity(inputs)),
            Layer::Activation(Activation::Polynomial(coefficients))
                if degree(coefficients) == 1 =>
            {
                let (offset, factor) = (coefficients[0], coefficients[1]);
                map.rows = (0..inputs).map(|i| vec![(i, factor)]).collect();
                map.bias = vec![offset; inputs];
                map.step = Some(factor.abs());
            }
            Layer::Activation(_) => return None,
        }
        map.bias.resize(map.rows.len(), 0.0);
        Some(map)
    }

    /// This map of what `first` gives.
    fn after(&self, first: &Self) -> Result<Self> {
        let mut sums = vec![0.0; first.inputs];
        let mut entries = 0;
        let mut out = Self { inputs: first.inputs, rows: Vec::new(), bias: Vec::new(), step: None };
        for (row, bias) in self.rows.iter().zip(&self.bias) {
            let (mut touched, mut constant) = (Vec::new(), *bias);
            for &(i, weight) in row {
                constant += weight * first.bias[i];
                for &(j, inner) in &first.rows[i] {
                    touched.push(j);
                    sums[j] += weight * inner;
                }
            }
            touched.sort_unstable();
            touched.dedup();
            entries += touched.len();
            if entries > MAX_ENTRIES {
                let problem = format!("has affine layers that merge to over {MAX_ENTRIES} weights");
                return Err(NnError::Network { problem });
            }
            let row = touched.into_iter().map(|j| (j, core::mem::take(&mut sums[j])));
            out.rows.push(row.filter(|(_, weight)| *weight != 0.0).collect());
            out.bias.push(constant);
        }
        let step = self.step.zip(first.step).map(|(a, b)| a * b);
        out.step = step.filter(|step| out.largest() <= LARGEST_MULTIPLE * step);
        Ok(out)
    }

    /// The largest magnitude of a weight.
    pub(super) fn largest(&self) -> f64 {
        self.rows.iter().flatten().fold(0.0, |most, (_, weight)| weight.abs().max(most))
    }

    /// The largest Euclidean norm of a row.
    pub(super) fn norm(&self) -> f64 {
        let square = |row: &Vec<(usize, f64)>| row.iter().map(|(_, w)| w * w).sum::<f64>();
        self.rows.iter().map(square).fold(0.0, f64::max).sqrt()
    }

    /// The most weights of a row.
    pub(super) fn widest(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(0)
    }

    pub(super) fn apply(&self, x: &[f64]) -> Vec<f64> {
        let dot = |row: &Vec<(usize, f64)>| row.iter().map(|&(i, w)| w * x[i]).sum::<f64>();
        self.rows.iter().zip(&self.bias).map(|(row, bias)| dot(row) + bias).collect()
    }
}

/// The step of integers, if they are small ones.
fn step_of<'a>(step: f64, weights: impl IntoIterator<Item = &'a f64>) -> Option<f64> {
    let small = |w: &f64| w.fract() == 0.0 && w.abs() <= LARGEST_MULTIPLE;
    (step != 0.0 && weights.into_iter().all(small)).then(|| step.abs())
}

/// That of the last coefficient that is not zero.
fn degree(coefficients: &[f64]) -> usize {
    coefficients.iter().rposition(|&c| c != 0.0).unwrap_or(0)
}

/// The stages of a network: affine layers that follow each other are merged, and a polynomial of
/// degree 2 becomes a square between two changes of scale and origin, which are merged, too.
pub(super) fn stages(network: &Network) -> Result<Vec<Stage>> {
    let mut stages = Vec::new();
    let mut open: Option<Affine> = None;
    for (layer, input, output) in network.shaped_layers() {
        let inputs: usize = input.iter().product();
        if let Some(map) = Affine::of_layer(layer, input, output) {
            open = Some(match open {
                Some(first) => map.after(&first)?,
                None => map,
            });
            continue;
        }
        let Layer::Activation(activation) = layer else { continue };
        let mut affine = open.take().unwrap_or_else(|| Affine::identity(inputs));
        let function = match activation {
            Activation::Square => Function::Square,
            Activation::Polynomial(coefficients) if degree(coefficients) == 2 => {
                let [offset, slope, curve] = [0, 1, 2].map(|n| coefficients[n]);
                let centre = slope / (2.0 * curve);
                affine.bias.iter_mut().for_each(|bias| *bias += centre);
                let rows = (0..inputs).map(|i| vec![(i, curve)]).collect();
                let bias = vec![offset - curve * centre * centre; inputs];
                open = Some(Affine { inputs, rows, bias, step: Some(curve.abs()) });
                Function::Square
            }
            other => Function::Of(other.clone()),
        };
        stages.push(Stage { affine, function: Some(function) });
    }
    let affine = open.unwrap_or_else(|| Affine::identity(network.outputs()));
    stages.push(Stage { affine, function: None });
    match stages.iter().any(|stage| stage.affine.largest() == 0.0) {
        true => Err(NnError::Network { problem: "has a layer whose weights are all zero".into() }),
        false => Ok(stages),
    }
}

impl Function {
    /// The value under encryption, if approximations are exact.
    pub(super) fn value(&self, x: f64) -> f64 {
        match self {
            Self::Square => x * x,
            Self::Of(activation) => activation.value(x),
        }
    }

    /// The polynomial in place of what is not a square, on `[-r, r]`.
    pub(super) fn polynomial(&self, r: f64) -> sudare::Result<Option<Polynomial>> {
        let (activation, range) = match self {
            Self::Square => return Ok(None),
            Self::Of(activation) => (activation, -r..r),
        };
        let exact = |x: f64| activation.value(x);
        let polynomial = match activation {
            Activation::Square => return Ok(None),
            Activation::Polynomial(coefficients) => {
                Polynomial::chebyshev(exact, range, degree(coefficients))
            }
            // Its bend makes interpolation overshoot.
            Activation::Relu { degree } => Polynomial::least_squares(exact, range, *degree),
            Activation::Gelu { degree }
            | Activation::Sigmoid { degree }
            | Activation::Tanh { degree } => Polynomial::chebyshev(exact, range, *degree),
        };
        polynomial.map(Some)
    }
}

/// Calls `each` with the number of every stage and what its affine map gives.
pub(super) fn walk(
    stages: &[Stage],
    sample: &[f64],
    mut each: impl FnMut(usize, &[f64]),
) -> Result<()> {
    let needed = stages.first().map_or(0, |stage| stage.affine.inputs);
    expect("features of a sample", sample.len(), needed)?;
    let mut x = sample.to_vec();
    for (i, stage) in stages.iter().enumerate() {
        x = stage.affine.apply(&x);
        each(i, &x);
        if let Some(function) = &stage.function {
            x.iter_mut().for_each(|x| *x = function.value(*x));
        }
    }
    Ok(())
}
