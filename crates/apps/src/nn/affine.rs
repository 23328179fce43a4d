//! Layers in the form computed on encrypted data: affine maps, each followed by a function.

use core::ops::Range;

use sudare::circuits::ckks::Polynomial;

use super::{
    error::{NnError, Result, expect},
    model::{Activation, Layer, Network, degree, each_window},
};

/// Maximum number of entries of a map.
const MAX_ENTRIES: usize = 1 << 26;

/// The largest multiple of a step that is encoded exactly.
const LARGEST_MULTIPLE: f64 = (1 << 16) as f64;

/// The map `weights x + bias`, with its nonzero weights.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Affine {
    pub(super) inputs: usize,
    pub(super) rows: Vec<Vec<(usize, f64)>>,
    pub(super) bias: Vec<f64>,
    /// The number that all weights are small integer multiples of, if any.
    pub(super) step: Option<f64>,
}

/// The function after an affine map.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Function {
    Square,
    /// An activation, on the calibrated range.
    Of(Activation),
}

/// An affine map and the function after it. The last stage has no function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stage {
    /// The inputs of the map, side by side.
    pub(super) sources: Vec<Source>,
    pub(super) affine: Affine,
    pub(super) function: Option<Function>,
}

/// A value that a stage uses as input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source {
    /// Index of the value: 0 for a sample, `k + 1` for the result of stage `k`.
    pub(super) value: usize,
    /// Number of numbers in the value.
    pub(super) width: usize,
}

impl Affine {
    fn identity(inputs: usize) -> Self {
        let rows = (0..inputs).map(|i| vec![(i, 1.0)]).collect();
        Self { inputs, rows, bias: vec![0.0; inputs], step: Some(1.0) }
    }

    /// Returns the map of an affine layer, or `None` for other layers.
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
            Layer::Flatten | Layer::Reshape(_) => return Some(Self::identity(inputs)),
            Layer::Activation(Activation::Polynomial(coefficients))
                if degree(coefficients) == 1 =>
            {
                let offset = coefficients[0];
                let factor = coefficients[1];
                map.rows = (0..inputs).map(|i| vec![(i, factor)]).collect();
                map.bias = vec![offset; inputs];
                map.step = Some(factor.abs());
            }
            Layer::Activation(_) | Layer::Residual { .. } => return None,
        }
        map.bias.resize(map.rows.len(), 0.0);
        Some(map)
    }

    /// Returns the composition: this map after `first`.
    fn after(&self, first: &Self) -> Result<Self> {
        let mut sums = vec![0.0; first.inputs];
        let mut entries = 0;
        let mut out = Self { inputs: first.inputs, rows: Vec::new(), bias: Vec::new(), step: None };
        for (row, bias) in self.rows.iter().zip(&self.bias) {
            let mut touched = Vec::new();
            let mut constant = *bias;
            for &(i, weight) in row {
                constant += weight * first.bias[i];
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

    /// Returns the sum of two maps with the same number of outputs. `place` maps the inputs of
    /// `other` to inputs of the sum.
    fn plus(mut self, other: &Self, inputs: usize, place: impl Fn(usize) -> usize) -> Self {
        self.inputs = inputs;
        for (row, added) in self.rows.iter_mut().zip(&other.rows) {
            row.extend(added.iter().map(|&(i, weight)| (place(i), weight)));
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
        self.bias.iter_mut().zip(&other.bias).for_each(|(bias, added)| *bias += added);
        self.step = self.step.filter(|step| other.step == Some(*step));
        self.step = self.step.filter(|step| self.largest() <= LARGEST_MULTIPLE * step);
        self
    }

    /// Returns, for each input, whether a weight touches it.
    fn touched(&self) -> Vec<bool> {
        let mut touched = vec![false; self.inputs];
        self.rows.iter().flatten().for_each(|&(i, _)| touched[i] = true);
        touched
    }

    /// Removes the inputs that are not in `kept`. No weight touches them.
    fn keep(&mut self, kept: &[bool]) {
        let mut places = Vec::with_capacity(kept.len());
        let mut count = 0;
        for &kept in kept {
            places.push(count);
            count += usize::from(kept);
        }
        self.rows.iter_mut().flatten().for_each(|(i, _)| *i = places[*i]);
        self.inputs = count;
    }

    /// Returns the map of some of the inputs, without the bias.
    pub(super) fn part(&self, inputs: Range<usize>) -> Self {
        let within = |row: &Vec<(usize, f64)>| {
            let row = row.iter().filter(|(i, _)| inputs.contains(i));
            row.map(|&(i, weight)| (i - inputs.start, weight)).collect()
        };
        let rows: Vec<_> = self.rows.iter().map(within).collect();
        Self { inputs: inputs.len(), bias: vec![0.0; rows.len()], rows, step: self.step }
    }

    /// Returns the largest magnitude of a weight.
    pub(super) fn largest(&self) -> f64 {
        self.rows.iter().flatten().fold(0.0, |most, (_, weight)| weight.abs().max(most))
    }

    /// Returns the largest Euclidean norm of a row.
    pub(super) fn norm(&self) -> f64 {
        let square = |row: &Vec<(usize, f64)>| row.iter().map(|(_, w)| w * w).sum::<f64>();
        self.rows.iter().map(square).fold(0.0, f64::max).sqrt()
    }

    /// Returns the maximum number of weights of a row.
    pub(super) fn widest(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(0)
    }

    pub(super) fn apply(&self, x: &[f64]) -> Vec<f64> {
        let dot = |row: &Vec<(usize, f64)>| row.iter().map(|&(i, w)| w * x[i]).sum::<f64>();
        self.rows.iter().zip(&self.bias).map(|(row, bias)| dot(row) + bias).collect()
    }
}

/// Returns the step of the weights, if they are small multiples of it.
fn step_of<'a>(step: f64, weights: impl IntoIterator<Item = &'a f64>) -> Option<f64> {
    let small = |w: &f64| w.fract() == 0.0 && w.abs() <= LARGEST_MULTIPLE;
    (step != 0.0 && weights.into_iter().all(small)).then(|| step.abs())
}

/// An affine map of values that can still grow: layers are merged into it until a function follows.
#[derive(Clone)]
struct Open {
    sources: Vec<Source>,
    /// The map, where `None` is the identity.
    map: Option<Affine>,
}

impl Open {
    fn of(value: usize, width: usize) -> Self {
        Self { sources: vec![Source { value, width }], map: None }
    }

    fn then(self, map: Affine) -> Result<Self> {
        let map = match self.map {
            Some(first) => map.after(&first)?,
            None => map,
        };
        Ok(Self { map: Some(map), ..self })
    }

    fn into_map(self) -> (Vec<Source>, Affine) {
        let inputs = self.sources.iter().map(|source| source.width).sum();
        (self.sources, self.map.unwrap_or_else(|| Affine::identity(inputs)))
    }

    /// Returns the sum with another map that has the same number of outputs.
    fn plus(self, other: Self) -> Self {
        let ((mut sources, map), (added, other)) = (self.into_map(), other.into_map());
        sources.extend(
            added.iter().filter(|&source| !sources.contains(source)).copied().collect::<Vec<_>>(),
        );
        let place: Vec<usize> = added
            .iter()
            .flat_map(|source| {
                let before = sources.iter().take_while(|&other| other != source);
                let first: usize = before.map(|source| source.width).sum();
                first..first + source.width
            })
            .collect();
        let inputs = sources.iter().map(|source| source.width).sum();
        Self { map: Some(map.plus(&other, inputs, |i| place[i])), sources }
    }

    fn close(self, function: Option<Function>) -> Stage {
        let (sources, affine) = self.into_map();
        let mut stage = Stage { sources, affine, function };
        // Inputs that are multiplied by zeros only are dropped.
        let touched = stage.affine.touched();
        let spans: Vec<_> = stage.spans().collect();
        let used = |span: &Range<usize>| touched[span.clone()].contains(&true);
        let kept: Vec<_> =
            spans.iter().flat_map(|(_, span)| vec![used(span); span.len()]).collect();
        stage.affine.keep(&kept);
        stage.sources =
            spans.iter().filter(|(_, span)| used(span)).map(|&(source, _)| source).collect();
        stage
    }
}

/// Returns the stages of a network.
///
/// Successive affine layers are merged, even past a residual block. A polynomial of degree 2
/// becomes a square between two changes of scale and origin, which are merged into the maps.
pub(super) fn stages(network: &Network) -> Result<Vec<Stage>> {
    let mut stages = Vec::new();
    let input = Open::of(0, network.inputs());
    let end = add_layers(network.layers(), network.input(), input, &mut stages)?;
    stages.push(end.close(None));
    // The scales of a layer follow from the size of its weights.
    match stages.iter().any(|stage| stage.affine.largest() == 0.0) {
        true => Err(NnError::Network { problem: "has a layer whose weights are all zero".into() }),
        false => Ok(stages),
    }
}

/// Adds the stages of layers for inputs of this shape. The map after the last function stays open.
fn add_layers(
    layers: &[Layer],
    shape: &[usize],
    mut open: Open,
    stages: &mut Vec<Stage>,
) -> Result<Open> {
    let mut shape = shape.to_vec();
    for layer in layers {
        let output = layer.shape(&shape).map_err(|problem| NnError::Network { problem })?;
        open = match layer {
            Layer::Residual { layers, shortcut } => {
                let branch = add_layers(layers, &shape, open.clone(), stages)?;
                branch.plus(add_layers(shortcut, &shape, open, stages)?)
            }
            _ => match (Affine::of_layer(layer, &shape, &output), layer) {
                (Some(map), _) => open.then(map)?,
                (None, Layer::Activation(activation)) => add_function(activation, open, stages),
                (None, _) => open,
            },
        };
        shape = output;
    }
    Ok(open)
}

fn add_function(activation: &Activation, open: Open, stages: &mut Vec<Stage>) -> Open {
    let mut stage = open.close(None);
    let width = stage.affine.rows.len();
    let mut after = Open::of(stages.len() + 1, width);
    stage.function = Some(match activation {
        Activation::Square => Function::Square,
        Activation::Polynomial(coefficients) if degree(coefficients) == 2 => {
            let [offset, slope, curve] = [0, 1, 2].map(|n| coefficients[n]);
            // The polynomial is `curve (x + centre)^2 + offset - curve centre^2`.
            let centre = slope / (2.0 * curve);
            stage.affine.bias.iter_mut().for_each(|bias| *bias += centre);
            let rows = (0..width).map(|i| vec![(i, curve)]).collect();
            let bias = vec![offset - curve * centre * centre; width];
            after.map = Some(Affine { inputs: width, rows, bias, step: Some(curve.abs()) });
            Function::Square
        }
        other => Function::Of(other.clone()),
    });
    stages.push(stage);
    after
}

impl Stage {
    /// Returns whether the stage uses exactly the result of the stage before it.
    pub(super) fn follows(&self, number: usize) -> bool {
        matches!(&self.sources[..], [source] if source.value == number)
    }

    /// Returns each source with its places among the inputs of the map.
    pub(super) fn spans(&self) -> impl Iterator<Item = (Source, Range<usize>)> {
        self.sources.iter().scan(0, |first, &source| {
            let span = *first..*first + source.width;
            *first = span.end;
            Some((source, span))
        })
    }

    /// Applies the function after the map, exactly.
    pub(super) fn apply_function(&self, y: &mut [f64]) {
        if let Some(function) = &self.function {
            y.iter_mut().for_each(|y| *y = function.value(*y));
        }
    }

    /// Returns the inputs of the map, from the values of all sources.
    pub(super) fn gather<'a, T>(&self, values: &'a [Vec<T>]) -> Vec<&'a T> {
        self.sources.iter().flat_map(|source| &values[source.value]).collect()
    }
}

/// Drops the features of a sample that no weight touches, and returns the indices of the others.
pub(super) fn keep_used(stages: &mut [Stage]) -> Vec<usize> {
    let of_sample = |stage: &Stage| stage.spans().find(|(source, _)| source.value == 0);
    let mut used = Vec::new();
    for stage in stages.iter() {
        let Some((source, span)) = of_sample(stage) else { continue };
        used.resize(source.width, false);
        let touched = stage.affine.touched();
        used.iter_mut().zip(&touched[span]).for_each(|(used, touched)| *used |= touched);
    }
    let count = used.iter().filter(|&&used| used).count();
    for stage in stages {
        let Some((_, span)) = of_sample(stage) else { continue };
        let mut kept = vec![true; stage.affine.inputs];
        kept[span].copy_from_slice(&used);
        stage.affine.keep(&kept);
        stage
            .sources
            .iter_mut()
            .filter(|source| source.value == 0)
            .for_each(|source| source.width = count);
    }
    (0..used.len()).filter(|&i| used[i]).collect()
}

impl Function {
    /// Returns the value under encryption, if approximations are exact.
    pub(super) fn value(&self, x: f64) -> f64 {
        match self {
            Self::Square => x * x,
            Self::Of(activation) => activation.value(x),
        }
    }

    /// Returns the polynomial on `[-r, r]` that replaces a function other than a square.
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
            // The kink makes interpolation overshoot, so this is a least-squares fit.
            Activation::Relu { degree } => Polynomial::least_squares(exact, range, *degree),
            Activation::Gelu { degree }
            | Activation::Sigmoid { degree }
            | Activation::Tanh { degree } => Polynomial::chebyshev(exact, range, *degree),
        };
        polynomial.map(Some)
    }
}

/// Computes the stages of a sample, and returns the value of the last. `apply` gets the number of
/// each stage and the value of its affine map, and replaces it by the value of the stage.
pub(super) fn walk(
    stages: &[Stage],
    sample: &[f64],
    mut apply: impl FnMut(usize, &mut [f64]) -> Result<()>,
) -> Result<Vec<f64>> {
    let needed = stages.iter().flat_map(|stage| &stage.sources).find(|source| source.value == 0);
    expect("features of a sample", sample.len(), needed.map_or(0, |source| source.width))?;
    let mut values = vec![sample.to_vec()];
    for (i, stage) in stages.iter().enumerate() {
        let x: Vec<f64> = stage.gather(&values).into_iter().copied().collect();
        let mut y = stage.affine.apply(&x);
        apply(i, &mut y)?;
        values.push(y);
    }
    Ok(values.pop().unwrap_or_default())
}
