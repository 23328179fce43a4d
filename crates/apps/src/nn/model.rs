//! Networks in the clear: layers and their evaluation.

use serde::{Deserialize, Serialize};
use sudare_arith::real;

use super::{
    error::{NnError, Result, expect},
    kernel::{Kernel, Tap, moving, signed},
    map::Map,
};

/// Maximum number of features between two layers.
pub(super) const MAX_FEATURES: usize = 1 << 16;
/// Maximum number of layers, including the layers of residual blocks.
pub(super) const MAX_LAYERS: usize = 256;
/// Maximum number of weights of a layer.
const MAX_WEIGHTS: usize = 1 << 26;
/// The largest magnitude of a number in a description.
const MAX_NUMBER: f64 = 1e30;
/// Ranges of fitted activations.
const FITTED_RANGE: core::ops::RangeInclusive<f64> = 1e-9..=1e30;
/// Maximum degree of an activation.
const MAX_DEGREE: usize = 255;

/// A feed-forward network. Each layer uses the result of the layer before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Description", into = "Description")]
pub struct Network {
    input: Vec<usize>,
    layers: Vec<Layer>,
    outputs: usize,
}

/// A network as a file describes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    input: Vec<usize>,
    layers: Vec<Layer>,
}

/// A layer of a network.
///
/// Images have three axes, `[channels, rows, columns]`. All other values are vectors. If there is a
/// `step`, weights are multiples of it. Integers with a step are encoded exactly, and smaller
/// integers allow a smaller ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Layer {
    /// Keeps these features of a vector, in this order.
    Select(Vec<usize>),
    /// `step * weights x + bias` of a vector.
    Dense {
        /// One row for each output.
        weights: Vec<Vec<f64>>,
        /// One number for each output.
        bias: Vec<f64>,
        /// Factor of all weights.
        #[serde(default = "one")]
        step: f64,
    },
    /// The cross-correlation of an image with kernels, which learning libraries call convolution.
    Convolution(Convolution),
    /// The means of windows of each channel.
    AveragePool {
        /// Number of rows and columns of a window.
        window: [usize; 2],
        /// Distance of neighbouring windows, in rows and columns.
        stride: [usize; 2],
    },
    /// `factors x + offsets`, with a number of each for every channel of an image or every feature
    /// of a vector. Trained batch normalisation has this form.
    Normalize {
        /// The factors.
        factors: Vec<f64>,
        /// The offsets.
        offsets: Vec<f64>,
    },
    /// An image as a vector, its last axis fastest.
    Flatten,
    /// The features in another shape with the same number of features, in the same order.
    Reshape(Vec<usize>),
    /// A function of every feature.
    Activation(Activation),
    /// The sum of the results of layers and of a shortcut past them. Both have the same shape.
    Residual {
        /// The layers, of any kind.
        layers: Vec<Layer>,
        /// Layers of any kind except activations and residual blocks. If empty, the input of
        /// `layers` is added unchanged.
        #[serde(default)]
        shortcut: Vec<Layer>,
    },
}

/// See [`Layer::Convolution`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Convolution {
    /// Weights, by output channel, input channel of the group, row and column.
    pub kernels: Vec<Vec<Vec<Vec<f64>>>>,
    /// One number for each output channel.
    pub bias: Vec<f64>,
    /// Distance of neighbouring positions of kernels, in rows and columns.
    pub stride: [usize; 2],
    /// Rows of zeros above, columns of zeros on the left, then rows below and columns on the right.
    pub padding: [usize; 4],
    /// Number of groups of channels, in order, each with a convolution of its own. It equals the
    /// number of channels if each channel has its own kernels.
    #[serde(default = "one_group", skip_serializing_if = "is_one_group")]
    pub groups: usize,
    /// Distance of neighbouring weights of a kernel, in rows and columns of the image.
    #[serde(default = "side_by_side", skip_serializing_if = "are_side_by_side")]
    pub dilation: [usize; 2],
    /// Factor of all weights.
    #[serde(default = "one")]
    pub step: f64,
}

/// Function applied to every feature between layers.
///
/// Under encryption, a polynomial on the calibrated range approximates each activation except
/// [`Activation::Square`] and [`Activation::Polynomial`]. Polynomials of degree 2 cost one product,
/// the minimum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Activation {
    /// `x^2`.
    Square,
    /// `sum_n coefficients[n] x^n`.
    Polynomial(Vec<f64>),
    /// `max(x, 0)`.
    Relu {
        /// Degree of the approximating polynomial.
        degree: usize,
    },
    /// `x (1 + erf(x / sqrt 2)) / 2`.
    Gelu {
        /// Degree of the approximating polynomial.
        degree: usize,
    },
    /// `1 / (1 + exp(-x))`.
    Sigmoid {
        /// Degree of the approximating polynomial.
        degree: usize,
    },
    /// The hyperbolic tangent.
    Tanh {
        /// Degree of the approximating polynomial.
        degree: usize,
    },
    /// A polynomial in place of a function of numbers in `[-range, range]`, from
    /// [`Network::fitted`].
    Fitted {
        /// The function.
        function: Box<Activation>,
        /// Largest magnitude of numbers.
        range: f64,
        /// Coefficients of the Chebyshev polynomials in `x / range`. The basis of powers would lose
        /// all digits at high degrees.
        coefficients: Vec<f64>,
    },
}

fn one() -> f64 {
    1.0
}

fn one_group() -> usize {
    1
}

fn is_one_group(groups: &usize) -> bool {
    *groups == 1
}

fn side_by_side() -> [usize; 2] {
    [1, 1]
}

fn are_side_by_side(dilation: &[usize; 2]) -> bool {
    *dilation == side_by_side()
}

impl TryFrom<Description> for Network {
    type Error = NnError;

    fn try_from(description: Description) -> Result<Self> {
        Self::new(description.input, description.layers)
    }
}

impl From<Network> for Description {
    fn from(network: Network) -> Self {
        Self { input: network.input, layers: network.layers }
    }
}

impl Network {
    /// Reads a network from its description as JSON, in serde's format.
    ///
    /// # Errors
    /// [`NnError::Network`] for text that does not describe a network; [`NnError::Layer`] as from
    /// [`Network::new`].
    pub fn from_json(text: &str) -> Result<Self> {
        let description: Description = serde_json::from_str(text)
            .map_err(|error| NnError::Network { problem: format!("cannot be read: {error}") })?;
        description.try_into()
    }

    /// Creates a network of these layers for samples of this shape.
    ///
    /// # Errors
    /// [`NnError::Layer`] for a layer that does not match the one before it, or a number that is
    /// NaN or too large; [`NnError::Network`] without layers, for more than 256 or for more than
    /// 2^16 features.
    pub fn new(input: Vec<usize>, layers: Vec<Layer>) -> Result<Self> {
        let found = layers.iter().map(Layer::count).sum();
        if !(1..=MAX_LAYERS).contains(&found) {
            let problem = format!("has {found} layers; 1 to {MAX_LAYERS} are possible");
            return Err(NnError::Network { problem });
        }
        if !matches!(input.len(), 1 | 3) || features(&input).is_none() {
            let problem = format!(
                "has samples of shape {input:?}, but they must have one axis, or the three axes of \
                 an image, and 1 to {MAX_FEATURES} features"
            );
            return Err(NnError::Network { problem });
        }
        let mut shape = input.clone();
        for (i, layer) in layers.iter().enumerate() {
            let problem = |problem| NnError::Layer { layer: i, name: layer.name(), problem };
            shape = layer.output(&shape).map_err(problem)?;
        }
        Ok(Self { input, layers, outputs: shape.iter().product() })
    }

    /// Returns the sizes along the axes of a sample.
    #[must_use]
    pub fn input(&self) -> &[usize] {
        &self.input
    }

    /// Returns the number of numbers of a sample.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.input.iter().product()
    }

    /// Returns the number of numbers of a result.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns the layers.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Evaluates the network on a sample, in the clear and with the exact activations.
    ///
    /// # Errors
    /// [`NnError::Shape`].
    pub fn forward(&self, sample: &[f64]) -> Result<Vec<f64>> {
        expect("features of a sample", sample.len(), self.inputs())?;
        let network = |problem| NnError::Network { problem };
        forward(&self.layers, sample.to_vec(), &self.input).map_err(network)
    }
}

/// Evaluates successive layers on an input of this shape.
fn forward(
    layers: &[Layer],
    mut x: Vec<f64>,
    shape: &[usize],
) -> core::result::Result<Vec<f64>, String> {
    let mut shape = shape.to_vec();
    for layer in layers {
        let output = layer.shape(&shape)?;
        x = layer.forward(&x, &shape, &output)?;
        shape = output;
    }
    Ok(x)
}

/// Returns the number of features of a shape, if it is possible.
fn features(shape: &[usize]) -> Option<usize> {
    let count = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
    (1..=MAX_FEATURES).contains(&count).then_some(count)
}

impl Layer {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Select(_) => "a selection",
            Self::Dense { .. } => "a dense layer",
            Self::Convolution(_) => "a convolution",
            Self::AveragePool { .. } => "an average pooling",
            Self::Normalize { .. } => "a normalisation",
            Self::Flatten => "a flattening",
            Self::Reshape(_) => "a reshaping",
            Self::Activation(_) => "an activation",
            Self::Residual { .. } => "a residual block",
        }
    }

    /// Returns the number of numbers of the layer, including the layers inside.
    pub(super) fn numbers(&self) -> usize {
        match self {
            Self::Select(kept) => kept.len(),
            Self::Dense { weights, bias, .. } => {
                weights.iter().map(Vec::len).sum::<usize>() + bias.len()
            }
            Self::Convolution(Convolution { kernels, bias, .. }) => {
                let planes = kernels.iter().flatten().flatten();
                planes.map(Vec::len).sum::<usize>() + bias.len()
            }
            Self::Normalize { factors, offsets } => factors.len() + offsets.len(),
            Self::Residual { layers, shortcut } => {
                layers.iter().chain(shortcut).map(Self::numbers).sum()
            }
            Self::AveragePool { .. } | Self::Flatten | Self::Reshape(_) | Self::Activation(_) => 0,
        }
    }

    /// Returns the number of layers, including the layers inside.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Residual { layers, shortcut } => {
                1 + layers.iter().chain(shortcut).map(Self::count).sum::<usize>()
            }
            _ => 1,
        }
    }

    /// Returns whether the layer is an affine map.
    pub(super) fn is_affine(&self) -> bool {
        match self {
            Self::Activation(Activation::Polynomial(coefficients)) => degree(coefficients) == 1,
            Self::Activation(_) | Self::Residual { .. } => false,
            _ => true,
        }
    }

    /// Returns the shape of the result, or the problem of the layer.
    pub(super) fn output(&self, input: &[usize]) -> core::result::Result<Vec<usize>, String> {
        self.check_numbers()?;
        self.shape(input)
    }

    fn check_numbers(&self) -> core::result::Result<(), String> {
        match self {
            Self::Dense { weights, bias, step } => {
                check_numbers(weights.iter().flatten().chain(bias).chain([step]))
            }
            Self::Convolution(Convolution { kernels, bias, step, .. }) => {
                let kernels = kernels.iter().flatten().flatten().flatten();
                check_numbers(kernels.chain(bias).chain([step]))
            }
            Self::Normalize { factors, offsets } => check_numbers(factors.iter().chain(offsets)),
            Self::Activation(activation) => activation.check(),
            Self::Residual { layers, shortcut } => {
                layers.iter().chain(shortcut).try_for_each(Self::check_numbers)
            }
            Self::Select(_) | Self::AveragePool { .. } | Self::Flatten | Self::Reshape(_) => Ok(()),
        }
    }

    /// Returns the shape of the result, or the reason why it has no shape.
    pub(super) fn shape(&self, input: &[usize]) -> core::result::Result<Vec<usize>, String> {
        let vector = |what: &str| match *input {
            [features] => Ok(features),
            _ => Err(format!("{what} takes a vector, but gets the shape {input:?}: flatten it")),
        };
        let image = |what: &str| match *input {
            [channels, rows, columns] => Ok([channels, rows, columns]),
            _ => Err(format!("{what} takes an image, but gets the shape {input:?}")),
        };
        let output = match self {
            Self::Select(kept) => {
                let found = vector("it")?;
                if let Some(index) = kept.iter().find(|&&index| index >= found) {
                    return Err(format!("it keeps feature {index}, but there are {found}"));
                }
                vec![kept.len()]
            }
            Self::Dense { weights, bias, .. } => {
                let found = vector("it")?;
                if let Some(row) = weights.iter().find(|row| row.len() != found) {
                    let length = row.len();
                    return Err(format!("a row has {length} weights for {found} features"));
                }
                check_count("outputs", bias.len(), weights.len())?;
                check_weights(weights.len().checked_mul(found))?;
                vec![weights.len()]
            }
            Self::Convolution(convolution) => convolution.shape(image("it")?)?,
            Self::AveragePool { window, stride } => {
                let [channels, rows, columns] = image("it")?;
                let rows = windows(rows, window[0], stride[0])?;
                let columns = windows(columns, window[1], stride[1])?;
                vec![channels, rows, columns]
            }
            Self::Normalize { factors, offsets } => {
                let channels = input.first().copied().unwrap_or(0);
                check_count("channels", factors.len(), channels)?;
                check_count("channels", offsets.len(), channels)?;
                input.to_vec()
            }
            Self::Flatten => vec![input.iter().product()],
            Self::Reshape(shape) => {
                let count: usize = input.iter().product();
                match features(shape) {
                    Some(features) if !shape.is_empty() && features == count => shape.clone(),
                    _ => return Err(format!("it makes the shape {shape:?} of {input:?}")),
                }
            }
            Self::Activation(_) => input.to_vec(),
            Self::Residual { layers, shortcut } => {
                if let Some(layer) = shortcut.iter().find(|layer| !layer.is_affine()) {
                    let name = layer.name();
                    return Err(format!("its shortcut has {name}: affine layers are possible"));
                }
                let [branch, added] = [layers, shortcut].map(|layers| shape_after(layers, input));
                let branch = branch?;
                let added = added?;
                if branch != added {
                    return Err(format!(
                        "its layers have the shape {branch:?} and its shortcut {added:?}: both \
                         shapes must be equal, which layers in the shortcut can achieve"
                    ));
                }
                branch
            }
        };
        match features(&output) {
            Some(_) => Ok(output),
            None => Err(format!(
                "it gives the shape {output:?}; 1 to {MAX_FEATURES} features are possible"
            )),
        }
    }

    /// Returns the kernel of a layer that has one, between images of these shapes.
    pub(super) fn kernel(&self, input: &[usize], output: &[usize]) -> Option<Kernel> {
        let input: [usize; 3] = input.try_into().ok()?;
        let output: [usize; 3] = output.try_into().ok()?;
        Some(match self {
            Self::Convolution(convolution) => convolution.kernel(input, output),
            Self::AveragePool { window, stride } => {
                let weight = 1.0 / (window[0] * window[1]) as f64;
                let places = || {
                    (0..window[0]).flat_map(|row| (0..window[1]).map(move |column| [row, column]))
                };
                let tap = |channel, at: [usize; 2]| Tap { channel, at: at.map(signed), weight };
                let taps = (0..input[0]).map(|c| places().map(|at| tap(c, at)).collect()).collect();
                Kernel { input, output, stride: moving(*stride, output), taps }
            }
            Self::Normalize { factors, .. } => Kernel::of_factors(input, |c| factors[c]),
            _ => return None,
        })
    }

    fn forward(
        &self,
        x: &[f64],
        input: &[usize],
        output: &[usize],
    ) -> core::result::Result<Vec<f64>, String> {
        let channel = |i: usize| i * input[0] / x.len();
        Ok(match self {
            Self::Select(kept) => kept.iter().map(|&index| x[index]).collect(),
            Self::Dense { weights, bias, step } => {
                let dot = |row: &Vec<f64>| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
                weights.iter().zip(bias).map(|(row, bias)| step * dot(row) + bias).collect()
            }
            Self::Convolution(_) | Self::AveragePool { .. } => {
                let mut y = vec![0.0; output.iter().product()];
                if let Some(kernel) = self.kernel(input, output) {
                    Map::Kernel(kernel).add_product(x, &mut y);
                }
                if let Self::Convolution(Convolution { bias, .. }) = self {
                    let places = y.len() / bias.len();
                    y.iter_mut().enumerate().for_each(|(i, y)| *y += bias[i / places]);
                }
                y
            }
            Self::Normalize { factors, offsets } => {
                let x = x.iter().enumerate();
                x.map(|(i, x)| factors[channel(i)] * x + offsets[channel(i)]).collect()
            }
            Self::Flatten | Self::Reshape(_) => x.to_vec(),
            Self::Activation(activation) => x.iter().map(|&x| activation.value(x)).collect(),
            Self::Residual { layers, shortcut } => {
                let branch = forward(layers, x.to_vec(), input)?;
                let added = forward(shortcut, x.to_vec(), input)?;
                branch.iter().zip(&added).map(|(x, y)| x + y).collect()
            }
        })
    }
}

/// Returns the shape of the result of layers inside another one, or the layer without a result.
fn shape_after(layers: &[Layer], input: &[usize]) -> core::result::Result<Vec<usize>, String> {
    let mut shape = input.to_vec();
    for (i, layer) in layers.iter().enumerate() {
        let inside = |problem| format!("its layer {i}, {}: {problem}", layer.name());
        shape = layer.shape(&shape).map_err(inside)?;
    }
    Ok(shape)
}

impl Convolution {
    /// Returns the kernel between images of these shapes.
    fn kernel(&self, input: [usize; 3], output: [usize; 3]) -> Kernel {
        let Self { kernels, padding, stride, dilation, groups, step, .. } = self;
        let place = |i: usize, axis: usize| signed(i * dilation[axis]) - signed(padding[axis]);
        let taps = kernels.iter().enumerate().map(|(channel, kernel)| {
            let first = channel * groups / kernels.len() * kernel.len();
            let mut taps = Vec::new();
            for (plane, rows) in kernel.iter().enumerate() {
                for (row, weights) in rows.iter().enumerate() {
                    taps.extend(weights.iter().enumerate().map(|(column, weight)| Tap {
                        channel: first + plane,
                        at: [place(row, 0), place(column, 1)],
                        weight: step * weight,
                    }));
                }
            }
            taps
        });
        let taps = taps.collect();
        Kernel { input, output, stride: moving(*stride, output), taps }.without_idle()
    }

    /// Returns the rows and columns of a kernel.
    fn window(&self) -> [usize; 2] {
        let kernel = self.kernels.first().and_then(|kernel| kernel.first());
        [kernel.map_or(0, Vec::len), kernel.and_then(|rows| rows.first()).map_or(0, Vec::len)]
    }

    fn shape(
        &self,
        [channels, rows, columns]: [usize; 3],
    ) -> core::result::Result<Vec<usize>, String> {
        let [height, width] = self.window();
        let mut all = self.kernels.iter().flatten();
        // 0 groups divide nothing.
        let even = |count: usize| count.checked_rem(self.groups) == Some(0);
        if !even(channels) || !even(self.kernels.len()) {
            return Err(format!(
                "it has {} groups, which do not divide {channels} input and {} output channels",
                self.groups,
                self.kernels.len()
            ));
        }
        for kernel in &self.kernels {
            let what = "input channels of a kernel";
            check_count(what, kernel.len(), channels / self.groups)?;
        }
        check_count("output channels", self.bias.len(), self.kernels.len())?;
        if all.any(|rows| rows.len() != height || rows.iter().any(|row| row.len() != width)) {
            return Err(format!("kernels differ in size: each needs {height} by {width} weights"));
        }
        let [above, left, below, right] = self.padding;
        let wide = |distance: &usize| !(1..=MAX_FEATURES).contains(distance);
        if self.dilation.iter().any(wide) || height.max(width) > MAX_FEATURES {
            return Err(format!(
                "it has kernels of {height} by {width} weights at distances of {:?}",
                self.dilation
            ));
        }
        // Bounded first, because the sums below must not overflow.
        if self.padding.iter().any(|&zeros| zeros > MAX_FEATURES) {
            return Err(format!("it has a padding of {:?}", self.padding));
        }
        let covered = |weights: usize, distance: usize| match weights {
            0 => 0,
            weights => (weights - 1).saturating_mul(distance).saturating_add(1),
        };
        let covered = [covered(height, self.dilation[0]), covered(width, self.dilation[1])];
        let rows = windows(rows + above + below, covered[0], self.stride[0])?;
        let columns = windows(columns + left + right, covered[1], self.stride[1])?;
        let output = vec![self.kernels.len(), rows, columns];
        let each = (channels / self.groups).checked_mul(height).and_then(|n| n.checked_mul(width));
        check_weights(each.zip(features(&output)).and_then(|(n, outputs)| n.checked_mul(outputs)))?;
        Ok(output)
    }
}

impl Activation {
    pub(super) fn check(&self) -> core::result::Result<(), String> {
        let degree = match self {
            Self::Square => 2,
            Self::Polynomial(coefficients) => {
                check_numbers(coefficients)?;
                let last = degree(coefficients);
                if last == 0 {
                    return Err("the polynomial is a constant: its degree must be 1 or more".into());
                }
                last
            }
            Self::Relu { degree }
            | Self::Gelu { degree }
            | Self::Sigmoid { degree }
            | Self::Tanh { degree } => *degree,
            Self::Fitted { function, range, coefficients } => {
                check_numbers(coefficients)?;
                if !FITTED_RANGE.contains(range) {
                    return Err(format!("it is fitted on a range of {range}"));
                }
                if matches!(**function, Self::Fitted { .. }) {
                    return Err("it is fitted to a fitted function".into());
                }
                function.check()?;
                degree(coefficients)
            }
        };
        match (1..=MAX_DEGREE).contains(&degree) {
            true => Ok(()),
            false => Err(format!("a degree of {degree}; 1 to {MAX_DEGREE} is possible")),
        }
    }

    /// Returns whether a stage of a network ends with it: polynomials of degree 1 are maps.
    pub(super) fn is_stage_of_its_own(&self) -> bool {
        !matches!(self, Self::Square) && !matches!(self, Self::Polynomial(c) if degree(c) <= 2)
    }

    /// Returns the value of the function, of the polynomial if it is fitted.
    #[must_use]
    pub fn value(&self, x: f64) -> f64 {
        match self {
            Self::Square => x * x,
            Self::Polynomial(coefficients) => {
                coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
            }
            Self::Relu { .. } => x.max(0.0),
            Self::Gelu { .. } => x * normal(x),
            Self::Sigmoid { .. } => 1.0 / (1.0 + real::exp(-x)),
            Self::Tanh { .. } => real::tanh(x),
            Self::Fitted { range, coefficients, .. } => {
                real::chebyshev_sum(coefficients, x / range)
            }
        }
    }
}

/// Returns the distribution function of the standard normal distribution, to `1e-12`. It uses the
/// series of its density around 0, and its continued fraction far from 0.
fn normal(x: f64) -> f64 {
    let density = real::exp(-x * x / 2.0) / core::f64::consts::TAU.sqrt();
    if x.abs() > 4.0 {
        let fraction = (1..=60).rev().fold(x.abs(), |sum, k| x.abs() + f64::from(k) / sum);
        let tail = density / fraction;
        return if x > 0.0 { 1.0 - tail } else { tail };
    }
    let mut term = x;
    let mut sum = x;
    for k in 1..100 {
        term *= x * x / f64::from(2 * k + 1);
        sum += term;
    }
    0.5 + density * sum
}

/// Returns the degree: the index of the last nonzero coefficient.
pub(super) fn degree(coefficients: &[f64]) -> usize {
    coefficients.iter().rposition(|&c| c != 0.0).unwrap_or(0)
}

fn check_numbers<'a>(
    numbers: impl IntoIterator<Item = &'a f64>,
) -> core::result::Result<(), String> {
    match numbers.into_iter().find(|x| x.is_nan() || x.abs() > MAX_NUMBER) {
        Some(x) => Err(format!("a weight is {x}; numbers up to {MAX_NUMBER:e} are possible")),
        None => Ok(()),
    }
}

fn check_count(what: &str, found: usize, needed: usize) -> core::result::Result<(), String> {
    match found == needed {
        true => Ok(()),
        false => Err(format!("it has numbers for {found} {what}, but there are {needed}")),
    }
}

fn check_weights(count: Option<usize>) -> core::result::Result<(), String> {
    match count {
        Some(count) if count <= MAX_WEIGHTS => Ok(()),
        _ => Err(format!("it has more than {MAX_WEIGHTS} weights")),
    }
}

/// Returns the number of windows that fit into `places` places.
fn windows(places: usize, window: usize, stride: usize) -> core::result::Result<usize, String> {
    if window == 0 || stride == 0 || window > places {
        return Err(format!(
            "windows of {window} with a stride of {stride} do not fit {places} places"
        ));
    }
    Ok((places - window) / stride + 1)
}
