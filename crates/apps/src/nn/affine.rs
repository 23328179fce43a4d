//! Layers in the form computed on encrypted data: affine maps, each followed by a function.

use sudare::circuits::ckks::Polynomial;

use super::{
    error::{NnError, Result, expect},
    map::{Map, RowSize, Rows},
    model::{Activation, Layer, Network, degree},
};

/// The largest multiple of a step that is encoded exactly.
const LARGEST_MULTIPLE: f64 = (1 << 16) as f64;

/// The sum of a linear map of each source of a stage and a bias.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Affine {
    /// One map for each source, all with the same number of outputs. They stay apart, because the
    /// values of sources are in different ciphertexts.
    pub(super) maps: Vec<Map>,
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
    /// The values that the maps read.
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

/// A source of a stage, with its map.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) source: Source,
    pub(super) map: &'a Map,
}

/// The map of an affine layer.
struct LayerMap {
    map: Map,
    bias: Vec<f64>,
    step: Option<f64>,
}

impl LayerMap {
    /// Returns the map of an affine layer, or `None` for other layers and for layers that change
    /// shapes alone.
    fn of(layer: &Layer, input: &[usize], output: &[usize]) -> Option<Self> {
        let inputs: usize = input.iter().product();
        let outputs: usize = output.iter().product();
        let channel = |i: usize| i * input[0] / inputs;
        let rows = |rows| Map::Rows(Rows { inputs, rows });
        let kernel = || layer.kernel(input, output).map(Map::Kernel);
        Some(match layer {
            Layer::Select(kept) => Self {
                map: rows(kept.iter().map(|&index| vec![(index, 1.0)]).collect()),
                bias: vec![0.0; outputs],
                step: Some(1.0),
            },
            Layer::Dense { weights, bias, step } => {
                let row = |row: &Vec<f64>| {
                    let weights = row.iter().enumerate().filter(|(_, w)| **w != 0.0);
                    weights.map(|(i, w)| (i, step * w)).collect()
                };
                Self {
                    map: rows(weights.iter().map(row).collect()),
                    bias: bias.clone(),
                    step: step_of(*step, weights.iter().flatten()),
                }
            }
            Layer::Convolution(convolution) => {
                let places = outputs / convolution.kernels.len();
                let weights = convolution.kernels.iter().flatten().flatten().flatten();
                Self {
                    map: kernel()?,
                    bias: (0..outputs).map(|i| convolution.bias[i / places]).collect(),
                    step: step_of(convolution.step, weights),
                }
            }
            Layer::AveragePool { window, .. } => Self {
                map: kernel()?,
                bias: vec![0.0; outputs],
                step: Some(1.0 / (window[0] * window[1]) as f64),
            },
            Layer::Normalize { factors, offsets } => Self {
                map: kernel().unwrap_or_else(|| {
                    let row = |i| match factors[channel(i)] {
                        0.0 => Vec::new(),
                        factor => vec![(i, factor)],
                    };
                    rows((0..inputs).map(row).collect())
                }),
                bias: (0..inputs).map(|i| offsets[channel(i)]).collect(),
                step: step_of(1.0, factors),
            },
            Layer::Activation(Activation::Polynomial(coefficients))
                if degree(coefficients) == 1 =>
            {
                Self {
                    map: Map::of_factor(input, coefficients[1]),
                    bias: vec![coefficients[0]; inputs],
                    step: Some(coefficients[1].abs()),
                }
            }
            Layer::Flatten | Layer::Reshape(_) | Layer::Activation(_) | Layer::Residual { .. } => {
                return None;
            }
        })
    }
}

impl Affine {
    pub(super) fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Returns the largest magnitude of a weight.
    fn largest(&self) -> f64 {
        self.maps.iter().map(Map::largest).fold(0.0, f64::max)
    }

    fn sizes(&self) -> Vec<RowSize> {
        let mut sizes = vec![RowSize::default(); self.outputs()];
        self.maps.iter().for_each(|map| map.add_sizes(&mut sizes));
        sizes
    }

    /// Returns the largest Euclidean norm of a row.
    pub(super) fn norm(&self) -> f64 {
        self.sizes().iter().map(|row| row.squares).fold(0.0, f64::max).sqrt()
    }

    /// Returns the maximum number of weights of a row.
    pub(super) fn widest(&self) -> usize {
        self.sizes().iter().map(|row| row.count).max().unwrap_or(0)
    }

    /// Returns the result for the values of the sources.
    pub(super) fn apply<'a>(&self, values: impl IntoIterator<Item = &'a [f64]>) -> Vec<f64> {
        let mut sum = self.bias.clone();
        self.maps.iter().zip(values).for_each(|(map, x)| map.add_product(x, &mut sum));
        sum
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
    /// The map, where `None` is the identity of the only source.
    map: Option<Affine>,
}

impl Open {
    fn of(value: usize, width: usize) -> Self {
        Self { sources: vec![Source { value, width }], map: None }
    }

    fn then(self, layer: LayerMap) -> Result<Self> {
        let LayerMap { map, mut bias, step } = layer;
        let Some(first) = self.map else {
            let map = Some(Affine { maps: vec![map], bias, step });
            return Ok(Self { map, ..self });
        };
        map.add_product(&first.bias, &mut bias);
        let maps = first.maps.iter().map(|first| map.after(first)).collect::<Result<_>>()?;
        let step = step.zip(first.step).map(|(a, b)| a * b);
        Ok(Self { map: Some(Affine { maps, bias, step }.with_exact_step()), ..self })
    }

    /// Returns the sources and the map, whose results have this shape.
    fn into_map(self, shape: &[usize]) -> (Vec<Source>, Affine) {
        let identity = || Affine {
            maps: vec![Map::of_factor(shape, 1.0)],
            bias: vec![0.0; shape.iter().product()],
            step: Some(1.0),
        };
        (self.sources, self.map.unwrap_or_else(identity))
    }

    /// Returns the sum with another map whose results have the same shape.
    fn plus(self, other: Self, shape: &[usize]) -> Result<Self> {
        let (mut sources, mut sum) = self.into_map(shape);
        let (added, other) = other.into_map(shape);
        for (source, map) in added.into_iter().zip(other.maps) {
            match sources.iter().position(|&known| known == source) {
                Some(i) => sum.maps[i] = sum.maps[i].plus(&map)?,
                None => {
                    sources.push(source);
                    sum.maps.push(map);
                }
            }
        }
        sum.bias.iter_mut().zip(&other.bias).for_each(|(bias, added)| *bias += added);
        sum.step = sum.step.filter(|step| other.step == Some(*step));
        Ok(Self { map: Some(sum.with_exact_step()), sources })
    }

    fn close(self, shape: &[usize], function: Option<Function>) -> Stage {
        let (sources, mut affine) = self.into_map(shape);
        let parts = sources.into_iter().zip(affine.maps);
        // Sources that are multiplied by zeros only are dropped.
        let (sources, maps) = parts.filter(|(_, map)| !map.is_zero()).unzip();
        affine.maps = maps;
        Stage { sources, affine, function }
    }
}

impl Affine {
    /// Forgets a step if weights are such large multiples of it that they are not exact.
    fn with_exact_step(mut self) -> Self {
        self.step = self.step.filter(|step| self.largest() <= LARGEST_MULTIPLE * step);
        self
    }
}

/// Returns the stages of a network.
///
/// Successive affine layers are merged, even past a residual block. A polynomial of degree 2
/// becomes a square between two changes of scale and origin, which are merged into the maps.
pub(super) fn stages(network: &Network) -> Result<Vec<Stage>> {
    let mut stages = Vec::new();
    let input = Open::of(0, network.inputs());
    let (end, end_shape) = add_layers(network.layers(), network.input(), input, &mut stages)?;
    stages.push(end.close(&end_shape, None));
    // The scales of a layer follow from the size of its weights.
    match stages.iter().any(|stage| stage.affine.maps.is_empty()) {
        true => Err(NnError::Network { problem: "has a layer whose weights are all zero".into() }),
        false => Ok(stages),
    }
}

/// Adds the stages of layers for inputs of this shape. The map after the last function stays open.
/// Returns it with the shape of its results.
fn add_layers(
    layers: &[Layer],
    shape: &[usize],
    mut open: Open,
    stages: &mut Vec<Stage>,
) -> Result<(Open, Vec<usize>)> {
    let mut shape = shape.to_vec();
    for layer in layers {
        let output = layer.shape(&shape).map_err(|problem| NnError::Network { problem })?;
        open = match layer {
            Layer::Residual { layers, shortcut } => {
                let (branch, _) = add_layers(layers, &shape, open.clone(), stages)?;
                let (added, _) = add_layers(shortcut, &shape, open, stages)?;
                branch.plus(added, &output)?
            }
            _ => match (LayerMap::of(layer, &shape, &output), layer) {
                (Some(map), _) => open.then(map)?,
                (None, Layer::Activation(activation)) => {
                    add_function(activation, open, &shape, stages)
                }
                (None, _) => open,
            },
        };
        shape = output;
    }
    Ok((open, shape))
}

fn add_function(
    activation: &Activation,
    open: Open,
    shape: &[usize],
    stages: &mut Vec<Stage>,
) -> Open {
    let mut stage = open.close(shape, None);
    let width = stage.affine.outputs();
    let mut after = Open::of(stages.len() + 1, width);
    stage.function = Some(match activation {
        Activation::Square => Function::Square,
        Activation::Polynomial(coefficients) if degree(coefficients) == 2 => {
            let [offset, slope, curve] = [0, 1, 2].map(|n| coefficients[n]);
            // The polynomial is `curve (x + centre)^2 + offset - curve centre^2`.
            let centre = slope / (2.0 * curve);
            stage.affine.bias.iter_mut().for_each(|bias| *bias += centre);
            let bias = vec![offset - curve * centre * centre; width];
            let maps = vec![Map::of_factor(shape, curve)];
            after.map = Some(Affine { maps, bias, step: Some(curve.abs()) });
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

    /// Returns each source with its map.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.sources.iter().zip(&self.affine.maps).map(|(&source, map)| Part { source, map })
    }

    /// Applies the function after the map, exactly.
    pub(super) fn apply_function(&self, y: &mut [f64]) {
        if let Some(function) = &self.function {
            y.iter_mut().for_each(|y| *y = function.value(*y));
        }
    }
}

/// Drops the features of a sample that no weight touches, and returns the indices of the others. With
/// `images`, the images that kernels read stay whole, because their places matter.
pub(super) fn keep_used(stages: &mut [Stage], images: bool) -> Result<Vec<usize>> {
    let mut used = Vec::new();
    for part in stages.iter().flat_map(Stage::parts).filter(|part| part.source.value == 0) {
        used.resize(part.source.width, false);
        match part.map {
            Map::Kernel(_) if images => used.fill(true),
            map => used.iter_mut().zip(map.touched()).for_each(|(used, touched)| *used |= touched),
        }
    }
    let count = used.iter().filter(|&&used| used).count();
    for stage in stages {
        let parts = stage.sources.iter_mut().zip(&mut stage.affine.maps);
        for (source, map) in parts.filter(|(source, _)| source.value == 0) {
            map.keep(&used)?;
            source.width = count;
        }
    }
    Ok((0..used.len()).filter(|&i| used[i]).collect())
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
            Activation::Fitted { range, coefficients, .. } => {
                Polynomial::chebyshev_series(coefficients.clone(), -range..*range)
            }
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
        let sources = stage.sources.iter().map(|source| &values[source.value][..]);
        let mut y = stage.affine.apply(sources);
        apply(i, &mut y)?;
        values.push(y);
    }
    Ok(values.pop().unwrap_or_default())
}
