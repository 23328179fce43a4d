//! Networks from ONNX files.
//!
//! Every operator, attribute, input and axis of a model is either computed as ONNX defines it or
//! rejected. [`operators`] lists the supported nodes. [`constants`] computes the expressions of
//! weights and shapes that exporters leave in a model. This module turns nodes on samples into
//! layers.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

pub(crate) mod constant;
mod constants;
mod operators;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use std::{collections::BTreeMap, rc::Rc};

use super::{
    error::{NnError, Result},
    model::{Activation, Convolution, Layer, MAX_LAYERS, Network},
};
use constant::{Constant, Numbers};
pub use wire::Beside;
use wire::{DOUBLE, FLOAT, Graph, Node, Stored, malformed};

/// Maximum number of numbers in all constants and layers of a model.
const MAX_NUMBERS: usize = 1 << 28;
/// Maximum number of axes of a tensor.
const MAX_AXES: usize = 16;

impl Network {
    /// Reads the network of an ONNX model.
    ///
    /// These operators become layers: `MatMul`, `Gemm`, `Conv`, `AveragePool`, `GlobalAveragePool`,
    /// `BatchNormalization`, `ReduceMean` of rows and columns, sums and products with constants,
    /// `Neg`, `Relu`, `Gelu`, `Sigmoid`, `Tanh`, `Pow`, and products of a tensor with itself.
    /// `Flatten`, `Reshape`, `Squeeze`, `Unsqueeze` and `Transpose` are allowed as long as samples
    /// stay on the first axis. `Identity`, `Dropout` and `Cast` between floats are skipped.
    ///
    /// `Add`, `Sum` and `Sub` of tensors are residual blocks: both tensors come from a common one,
    /// and one of them without an activation. Activations that need an approximation get a
    /// polynomial of this degree.
    ///
    /// The first axis of the input counts samples. Expressions of constants and shapes are
    /// computed, too. Versions 7 to 28 of ONNX's operators are supported, with weights as floats or
    /// doubles.
    ///
    /// # Errors
    /// [`NnError::Operator`] for an unsupported operator, attribute or axis, with a replacement;
    /// [`NnError::Onnx`] for bytes that are not such a model, or whose weights are in another file;
    /// the errors of [`Network::new`].
    pub fn from_onnx(bytes: &[u8], degree: usize) -> Result<Self> {
        Self::from_onnx_with(bytes, degree, &mut |location, _, _| {
            Err(malformed(format!(
                "its weights are in the file {location:?}: load the model by its path, or save them in \
                 it"
            )))
        })
    }

    /// Reads a model as [`Network::from_onnx`] does, with weights in files next to it. `beside`
    /// reads parts of these files. It is called only for names that stay in the directory of the
    /// model.
    ///
    /// # Errors
    /// The errors of [`Network::from_onnx`]; the errors of `beside`.
    pub fn from_onnx_with(bytes: &[u8], degree: usize, beside: &mut Beside<'_>) -> Result<Self> {
        let graph = Graph::of_model(bytes)?;
        let mut read = Reading::begin(&graph, degree, beside)?;
        for node in &graph.nodes {
            read.add(node)?;
        }
        let [output] = &graph.outputs[..] else {
            let outputs = &graph.outputs;
            return Err(malformed(format!("it has the outputs {outputs:?}: one is possible")));
        };
        match read.names.get(output).cloned() {
            Some(Known::Flow(flow)) => {
                let value = read.laid(&flow)?;
                Self::new(read.shape(0).to_vec(), read.layers_after(0, value)?)
            }
            Some(Known::Constant(_)) => {
                Err(malformed(format!("its output {output:?} does not depend on its input")))
            }
            None => Err(malformed(format!("no node gives its output {output:?}"))),
        }
    }
}

/// State of reading a graph node by node.
struct Reading<'a, 'b> {
    version: i64,
    degree: usize,
    /// The number of samples that the model is for, if it is fixed.
    samples: Option<usize>,
    /// Tensors that no node has used yet.
    stored: BTreeMap<String, Stored<'a>>,
    beside: &'a mut Beside<'b>,
    /// Results of nodes, by name.
    names: BTreeMap<String, Known>,
    /// The input, and the results of layers. Each comes after the values that it is computed from.
    values: Vec<Value>,
    /// Reshaped values.
    laid: BTreeMap<(usize, Vec<usize>), usize>,
    /// Number of numbers in constants and layers so far.
    spent: usize,
}

struct Value {
    shape: Vec<usize>,
    /// The layer that computes the value, and the index of its input. `None` for the input of the
    /// model.
    from: Option<(usize, Layer)>,
}

/// The meaning of a name.
#[derive(Clone)]
enum Known {
    Flow(Flow),
    Constant(Rc<Constant>),
}

/// A value, as the graph uses it.
#[derive(Clone, PartialEq)]
struct Flow {
    value: usize,
    /// The shape behind the axis of samples. It has the same number of features as the value, but
    /// may be another shape.
    shape: Vec<usize>,
}

/// The result of a node, or the reason why it is not supported.
type Outcome<T> = core::result::Result<T, Problem>;

enum Problem {
    /// The node cannot be computed. The text has the reason and a remedy.
    Refused(String),
    Other(NnError),
}

impl From<String> for Problem {
    fn from(instead: String) -> Self {
        Self::Refused(instead)
    }
}

impl From<&str> for Problem {
    fn from(instead: &str) -> Self {
        Self::Refused(instead.into())
    }
}

impl From<NnError> for Problem {
    fn from(error: NnError) -> Self {
        Self::Other(error)
    }
}

/// A node with its inputs. `None` marks an omitted input.
struct Call<'n, 'a> {
    node: &'n Node<'a>,
    inputs: Vec<Option<Known>>,
}

impl Call<'_, '_> {
    fn input(&self, number: usize) -> Option<&Known> {
        self.inputs.get(number).and_then(Option::as_ref)
    }

    /// Returns an input that depends on samples.
    fn flow(&self, number: usize) -> Outcome<&Flow> {
        match self.input(number) {
            Some(Known::Flow(flow)) => Ok(flow),
            _ => Err(format!("its input {number} must depend on samples").into()),
        }
    }

    /// Returns an input that does not depend on samples, if it is present.
    fn option(&self, number: usize) -> Outcome<Option<&Constant>> {
        match self.input(number) {
            Some(Known::Constant(constant)) => Ok(Some(constant)),
            None => Ok(None),
            Some(Known::Flow(_)) => Err(format!("its input {number} must be a constant").into()),
        }
    }

    fn constant(&self, number: usize) -> Outcome<&Constant> {
        self.option(number)?.ok_or_else(|| format!("its input {number} is missing").into())
    }

    /// Returns the axes of a tensor whose first axis counts samples, if there are any. The axis of
    /// samples is rejected.
    fn axes(&self, flow: &Flow, new: bool, version: i64) -> Outcome<Option<Vec<usize>>> {
        let Some(numbers) = constants::named_axes(self.node, self.option(1)?)? else {
            return Ok(None);
        };
        let more = if new { numbers.len() } else { 0 };
        let rank = flow.shape.len().saturating_add(1).saturating_add(more);
        let axes = constants::axes(&numbers, rank, version)?;
        let behind = axes.iter().map(|axis| axis.checked_sub(1)).collect::<Option<_>>();
        Ok(Some(behind.ok_or("its first axis counts samples, and must stay as it is")?))
    }

    /// Returns the sizes of an attribute, or the defaults.
    fn sizes<const N: usize>(&self, name: &str, without: [usize; N]) -> Outcome<[usize; N]> {
        let Some(numbers) = self.node.integers(name) else { return Ok(without) };
        let sizes = numbers.iter().map(|&size| usize::try_from(size).ok());
        let sizes = sizes.collect::<Option<Vec<usize>>>().and_then(|sizes| sizes.try_into().ok());
        sizes.ok_or_else(|| {
            format!("its {name} are {numbers:?}: {N} numbers from 0 are needed, of images").into()
        })
    }

    /// Returns the places of windows of this size on an image.
    fn windows(&self, window: [usize; 2], image: [usize; 2]) -> Outcome<Windows> {
        let stride = self.sizes("strides", [1; 2])?;
        let padding = self.sizes("pads", [0; 4])?;
        let dilation = self.sizes("dilations", [1; 2])?;
        let covered = |weights: usize, distance: usize| {
            weights.saturating_sub(1).saturating_mul(distance).saturating_add(1)
        };
        let [height, width] = window;
        let [down, across] = dilation;
        let window = [covered(height, down), covered(width, across)];
        let automatic = self.node.text("auto_pad");
        let padding = match automatic {
            "" | "NOTSET" => padding,
            _ if padding != [0; 4] => {
                return Err(format!("it has pads in addition to auto_pad {automatic:?}").into());
            }
            "VALID" => padding,
            "SAME_UPPER" | "SAME_LOWER" => {
                let mut missing = [0; 2];
                let sides = image.iter().zip(&window).zip(&stride).zip(&mut missing);
                for (((&places, &window), &stride), missing) in sides {
                    let before = places.div_ceil(stride.max(1)).saturating_sub(1);
                    let covered = before.saturating_mul(stride).saturating_add(window);
                    *missing = covered.saturating_sub(places);
                }
                let [first, second] =
                    [missing.map(|zeros| zeros / 2), missing.map(|zeros| zeros.div_ceil(2))];
                // An odd remainder goes to the end, or to the beginning.
                let ([above, left], [below, right]) =
                    if automatic == "SAME_UPPER" { (first, second) } else { (second, first) };
                [above, left, below, right]
            }
            _ => return Err(format!("its auto_pad is {automatic:?}").into()),
        };
        Ok(Windows { stride, padding, dilation })
    }
}

/// Places of windows on an image.
struct Windows {
    stride: [usize; 2],
    /// Zeros above, on the left, below and on the right.
    padding: [usize; 4],
    /// Distance of neighbouring places of a window.
    dilation: [usize; 2],
}

impl<'a, 'b> Reading<'a, 'b> {
    fn begin(graph: &Graph<'a>, degree: usize, beside: &'a mut Beside<'b>) -> Result<Self> {
        if !operators::VERSIONS.contains(&graph.version) {
            let first = operators::VERSIONS.start();
            let last = operators::VERSIONS.end();
            return Err(malformed(format!(
                "it has version {} of ONNX's operators: export it with an opset from {first} to {last}",
                graph.version
            )));
        }
        let mut stored = BTreeMap::new();
        for (name, tensor) in &graph.tensors {
            if stored.insert(name.clone(), *tensor).is_some() {
                return Err(malformed(format!("two tensors have the name {name:?}")));
            }
        }
        // Older exporters list weights among the inputs, too.
        let mut inputs = graph.inputs.iter().filter(|input| !stored.contains_key(&input.name));
        let (Some(input), None) = (inputs.next(), inputs.next()) else {
            return Err(malformed("it must have exactly one input"));
        };
        if !matches!(input.kind, FLOAT | DOUBLE) {
            return Err(malformed(format!(
                "its input has the data type {}: float (1) and double (11) are possible",
                input.kind
            )));
        }
        let sizes = input.shape.get(1..).unwrap_or(&[]);
        let shape: Option<Vec<usize>> = sizes.iter().copied().collect();
        let shape = shape.filter(|shape| !shape.is_empty()).ok_or_else(|| {
            let found = &input.shape;
            malformed(format!(
                "its input has the shape {found:?}: known sizes of samples are needed"
            ))
        })?;
        let flow = Flow { value: 0, shape: shape.clone() };
        Ok(Self {
            version: graph.version,
            degree,
            samples: input.shape.first().copied().flatten().filter(|&samples| samples > 0),
            stored,
            beside,
            names: BTreeMap::from([(input.name.clone(), Known::Flow(flow))]),
            values: vec![Value { shape, from: None }],
            laid: BTreeMap::new(),
            spent: 0,
        })
    }

    fn add(&mut self, node: &Node<'_>) -> Result<()> {
        let refused = |instead: String| {
            let (node, operator) = (node.name.clone(), node.operator.clone());
            NnError::Operator { node, operator, instead }
        };
        if !wire::is_own(&node.domain) {
            return Err(refused(format!(
                "it belongs to the domain {:?}, but only operators of ONNX itself are supported",
                node.domain
            )));
        }
        operators::check(node, self.version).map_err(refused)?;
        let inputs = node.inputs.iter().map(|name| self.known(name)).collect::<Result<Vec<_>>>()?;
        let mut outputs = node.outputs.iter().filter(|name| !name.is_empty());
        let (Some(output), more) = (outputs.next(), outputs.next()) else {
            return Err(malformed(format!("node {:?} has no output", node.name)));
        };
        // The second output of a dropout gets no name, so no node can use it.
        if more.is_some() && node.operator != "Dropout" {
            return Err(refused(format!("it has the outputs {:?}: one is possible", node.outputs)));
        }
        if self.names.contains_key(output) || self.stored.contains_key(output) {
            return Err(malformed(format!("{output:?} is defined twice")));
        }
        let known = match self.apply(&Call { node, inputs }) {
            Ok(known) => known,
            Err(Problem::Refused(instead)) => return Err(refused(instead)),
            Err(Problem::Other(error)) => return Err(error),
        };
        self.names.insert(output.clone(), known);
        Ok(())
    }

    /// Returns an input by its name. Nodes omit inputs by an empty name, for which this returns
    /// `None`.
    fn known(&mut self, name: &str) -> Result<Option<Known>> {
        if name.is_empty() {
            return Ok(None);
        }
        if let Some(known) = self.names.get(name) {
            return Ok(Some(known.clone()));
        }
        let Some(stored) = self.stored.get(name) else {
            return Err(malformed(format!("no node before it gives {name:?}")));
        };
        let constant = stored.read(self.beside)?;
        self.spend(constant.numbers.len())?;
        let known = Known::Constant(Rc::new(constant));
        self.names.insert(name.into(), known.clone());
        Ok(Some(known))
    }

    /// Counts numbers in memory. A small file could otherwise request them many times.
    fn spend(&mut self, numbers: usize) -> Result<()> {
        self.spent = self.spent.saturating_add(numbers);
        match self.spent <= MAX_NUMBERS {
            true => Ok(()),
            false => Err(malformed(format!("it computes more than {MAX_NUMBERS} weights"))),
        }
    }

    fn add_layer(&mut self, value: usize, layer: Layer) -> Result<usize> {
        let number = self.values.len();
        if number > MAX_LAYERS {
            let problem = format!("has over {MAX_LAYERS} layers");
            return Err(NnError::Network { problem });
        }
        let problem = |problem| {
            let name = layer.name();
            NnError::Layer { layer: number.saturating_sub(1), name, problem }
        };
        let shape = layer.output(self.shape(value)).map_err(problem)?;
        self.spend(layer.numbers())?;
        self.values.push(Value { shape, from: Some((value, layer)) });
        Ok(number)
    }

    /// Adds a layer to a value in the shape that it has in the graph. The result has the layer's
    /// shape.
    fn add_to(&mut self, flow: &Flow, layer: Layer) -> Outcome<Known> {
        if flow.shape.is_empty() {
            return Err(
                "its samples are single numbers, without an axis: keep one for features".into()
            );
        }
        let value = self.laid(flow)?;
        let value = self.add_layer(value, layer)?;
        Ok(Known::Flow(Flow { value, shape: self.shape(value).to_vec() }))
    }

    /// Adds a layer to the features of a value of any shape, which stays the same.
    fn add_to_each(&mut self, flow: &Flow, layer: Layer) -> Result<Known> {
        let value = self.add_layer(flow.value, layer)?;
        Ok(Known::Flow(Flow { value, shape: flow.shape.clone() }))
    }

    fn shape(&self, value: usize) -> &[usize] {
        self.values.get(value).map_or(&[], |value| &value.shape)
    }

    /// Returns the index of a value that has the graph's shape of `flow`.
    fn laid(&mut self, flow: &Flow) -> Result<usize> {
        let shape = if flow.shape.is_empty() { vec![1] } else { flow.shape.clone() };
        if self.shape(flow.value) == shape {
            return Ok(flow.value);
        }
        let key = (flow.value, shape);
        if let Some(&known) = self.laid.get(&key) {
            return Ok(known);
        }
        let layer = match &key.1[..] {
            [_] => Layer::Flatten,
            shape => Layer::Reshape(shape.to_vec()),
        };
        let value = self.add_layer(flow.value, layer)?;
        self.laid.insert(key, value);
        Ok(value)
    }

    /// Returns the layers from one value to another.
    fn layers_after(&self, first: usize, mut last: usize) -> Result<Vec<Layer>> {
        let mut layers = Vec::new();
        while last != first {
            let value = self.values.get(last).and_then(|value| value.from.as_ref());
            let (before, layer) = value.ok_or_else(|| malformed("it has branches that part"))?;
            layers.push(layer.clone());
            last = *before;
        }
        layers.reverse();
        Ok(layers)
    }

    /// Returns the sum of two values as a residual block.
    fn residual(&mut self, left: &Flow, right: &Flow) -> Outcome<Known> {
        if left.shape != right.shape {
            return Err(format!(
                "it adds the shapes {:?} and {:?}: equal ones are possible",
                left.shape, right.shape
            )
            .into());
        }
        let left = self.laid(left)?;
        let right = self.laid(right)?;
        let mut a = left;
        let mut b = right;
        // A value is computed from one with a lower index, and all depend on the input. So this
        // loop ends.
        while a != b {
            let later = if a > b { &mut a } else { &mut b };
            let from = self.values.get(*later).and_then(|value| value.from.as_ref());
            *later = from.map_or(0, |(before, _)| *before);
        }
        let left = self.layers_after(a, left)?;
        let right = self.layers_after(a, right)?;
        let affine = |layers: &[Layer]| layers.iter().all(Layer::is_affine);
        let (layers, shortcut) = match (affine(&left), affine(&right)) {
            (true, true) if left.len() < right.len() => (right, left),
            (_, true) => (left, right),
            (true, false) => (right, left),
            (false, false) => {
                return Err("one of the two tensors must come from where both part without an \
                            activation or another sum"
                    .into());
            }
        };
        let value = self.add_layer(a, Layer::Residual { layers, shortcut })?;
        Ok(Known::Flow(Flow { value, shape: self.shape(value).to_vec() }))
    }

    /// Computes a node.
    fn apply(&mut self, call: &Call<'_, '_>) -> Outcome<Known> {
        let node = call.node;
        let version = self.version;
        let degree = self.degree;
        let constants: Option<Vec<Option<Rc<Constant>>>> = call
            .inputs
            .iter()
            .map(|input| match input {
                Some(Known::Constant(constant)) => Some(Some(Rc::clone(constant))),
                None => Some(None),
                Some(Known::Flow(_)) => None,
            })
            .collect();
        if let Some(constants) = constants {
            let constant = constants::evaluated(node, version, &constants, self.beside)?;
            self.spend(constant.numbers.len())?;
            return Ok(Known::Constant(Rc::new(constant)));
        }
        let mut activation =
            |activation| Ok(self.add_to_each(call.flow(0)?, Layer::Activation(activation))?);
        match node.operator.as_str() {
            "Identity" => Ok(Known::Flow(call.flow(0)?.clone())),
            "Dropout" => {
                call.option(1)?;
                constants::check_dropout(call.option(2)?)?;
                Ok(Known::Flow(call.flow(0)?.clone()))
            }
            "Cast" => match node.integer("to", 0) {
                FLOAT | DOUBLE => Ok(Known::Flow(call.flow(0)?.clone())),
                to => {
                    Err(format!("it makes the data type {to} of samples: floats are possible")
                        .into())
                }
            },
            "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze" => self.reshape(call),
            "Transpose" => self.transpose(call),
            "Shape" => {
                let sizes = call.flow(0)?.shape.iter().map(|&size| i64::try_from(size).ok());
                let sizes = core::iter::once(None).chain(sizes).collect();
                Ok(Known::Constant(Rc::new(constants::shape_of(node, sizes))))
            }
            "MatMul" => {
                let weights = call.constant(1)?.clone();
                self.dense(call, &weights, false, 1.0, None)
            }
            "Gemm" => self.general_product(call),
            "Conv" => self.convolution(call),
            "AveragePool" | "GlobalAveragePool" | "ReduceMean" => self.pool(call),
            "BatchNormalization" => self.normalization(call),
            "Add" | "Sub" | "Mul" | "Div" => self.combined(call, call.input(0), call.input(1)),
            "Sum" => {
                let mut sum: Option<Known> = None;
                for input in &call.inputs {
                    sum = Some(match (&sum, input) {
                        (None, Some(first)) => first.clone(),
                        (sum, input) => self.combined(call, sum.as_ref(), input.as_ref())?,
                    });
                }
                sum.ok_or_else(|| "it has no inputs".into())
            }
            "Neg" => self.negative(call.flow(0)?).map_err(Problem::from),
            "Pow" => {
                let exponent = exponent(call.constant(1)?, &call.flow(0)?.shape)?;
                let mut coefficients = vec![0.0; exponent];
                coefficients.push(1.0);
                activation(Activation::Polynomial(coefficients))
            }
            "Relu" => activation(Activation::Relu { degree }),
            "Gelu" => match node.text("approximate") {
                "" | "none" => activation(Activation::Gelu { degree }),
                other => {
                    Err(format!("it is approximated by {other:?}: export it without approximation")
                        .into())
                }
            },
            "Sigmoid" => activation(Activation::Sigmoid { degree }),
            "Tanh" => activation(Activation::Tanh { degree }),
            _ => Err("it is computed of constants alone, not of samples".into()),
        }
    }

    /// Reshapes a value.
    fn reshape(&mut self, call: &Call<'_, '_>) -> Outcome<Known> {
        let node = call.node;
        let flow = call.flow(0)?;
        let version = self.version;
        let shape = match node.operator.as_str() {
            "Flatten" => {
                let rank = flow.shape.len().saturating_add(1);
                // The axis may also equal the number of axes, which would turn features into
                // samples.
                if constants::axis(node.integer("axis", 1), rank, version).ok() != Some(1) {
                    return Err("flatten from axis 1 on: the first one counts samples".into());
                }
                vec![flow.shape.iter().product()]
            }
            "Reshape" => {
                let target = call.constant(1)?.sizes()?;
                self.reshaped(target, &flow.shape, node.integer("allowzero", 0) != 0)?
            }
            "Squeeze" => match call.axes(flow, false, version)? {
                Some(axes) => constants::squeezed(&flow.shape, &axes)?,
                None => {
                    return Err("name the axes to drop, or a single sample loses its own".into());
                }
            },
            _ => {
                let axes = call.axes(flow, true, version)?.ok_or("its axes are missing")?;
                constants::unsqueezed(&flow.shape, &axes)
            }
        };
        match shape.len() < MAX_AXES {
            true => Ok(Known::Flow(Flow { value: flow.value, shape })),
            false => Err(format!("it gives {} axes", shape.len()).into()),
        }
    }

    /// Returns the shape of samples after a reshape, which must keep samples separate.
    fn reshaped(
        &self,
        target: &[Option<i64>],
        shape: &[usize],
        zeros: bool,
    ) -> Outcome<Vec<usize>> {
        let refused = || {
            let target: Vec<_> = target
                .iter()
                .map(|size| size.map_or_else(|| "samples".into(), |size| size.to_string()))
                .collect();
            Problem::Refused(format!(
                "it makes [{}] of samples of the shape {shape:?}: samples must stay apart, on the first \
                 axis",
                target.join(", ")
            ))
        };
        let (first, rest) = target.split_first().ok_or_else(refused)?;
        let rest = rest.iter().copied().collect::<Option<Vec<i64>>>().ok_or_else(refused)?;
        let kept = match *first {
            None => true,
            Some(0) => !zeros,
            // The number of samples stays the same if the other sizes determine the number of
            // features.
            Some(-1) => !rest.contains(&-1),
            Some(samples) => {
                usize::try_from(samples).is_ok_and(|count| self.samples == Some(count))
            }
        };
        match constants::reshaped(&rest, shape, zeros) {
            Ok(shape) if kept => Ok(shape),
            _ => Err(refused()),
        }
    }

    fn transpose(&mut self, call: &Call<'_, '_>) -> Outcome<Known> {
        let flow = call.flow(0)?;
        let order = constants::order(call.node, flow.shape.len().saturating_add(1))?;
        let behind = match order.split_first() {
            Some((0, rest)) => rest.iter().map(|axis| axis.saturating_sub(1)).collect::<Vec<_>>(),
            _ => return Err("its first axis counts samples, and must stay the first".into()),
        };
        let shape = behind.iter().filter_map(|&axis| flow.shape.get(axis).copied()).collect();
        let places = constants::permuted(&flow.shape, &behind);
        // If only axes of one element move, the numbers stay in place.
        if places.iter().copied().eq(0..places.len()) {
            return Ok(Known::Flow(Flow { value: flow.value, shape }));
        }
        let flat = Flow { value: flow.value, shape: vec![places.len()] };
        let value = self.laid(&flat)?;
        let value = self.add_layer(value, Layer::Select(places))?;
        Ok(Known::Flow(Flow { value, shape }))
    }

    /// Adds a dense layer. The weights have a column for each output, or a row if `rows` is true.
    fn dense(
        &mut self,
        call: &Call<'_, '_>,
        weights: &Constant,
        rows: bool,
        factor: f64,
        bias: Option<Vec<f64>>,
    ) -> Outcome<Known> {
        let &[first, second] = &weights.shape[..] else {
            return Err("its second input must be a matrix".into());
        };
        let (outputs, inputs) = if rows { (first, second) } else { (second, first) };
        let numbers = weights.floats()?;
        let row = |output: usize| -> Vec<f64> {
            let numbers = numbers.iter().map(|weight| factor * weight);
            match rows {
                true => numbers.skip(output.saturating_mul(inputs)).take(inputs).collect(),
                false => numbers.skip(output).step_by(outputs.max(1)).collect(),
            }
        };
        let weights = (0..outputs).map(row).collect();
        let bias = bias.unwrap_or_else(|| vec![0.0; outputs]);
        self.add_to(call.flow(0)?, Layer::Dense { weights, bias, step: 1.0 })
    }

    fn general_product(&mut self, call: &Call<'_, '_>) -> Outcome<Known> {
        let node = call.node;
        if node.integer("transA", 0) != 0 {
            return Err("samples must not be transposed".into());
        }
        let rows = node.integer("transB", 0) != 0;
        let weights = call.constant(1)?;
        let bias = match call.option(2)? {
            None => None,
            Some(tensor) => {
                let outputs = weights.shape.get(usize::from(!rows)).copied().unwrap_or(0);
                let beta = node.float("beta", 1.0);
                Some(for_features(tensor, &[outputs])?.iter().map(|x| beta * x).collect())
            }
        };
        let alpha = node.float("alpha", 1.0);
        self.dense(call, &weights.clone(), rows, alpha, bias)
    }

    fn convolution(&mut self, call: &Call<'_, '_>) -> Outcome<Known> {
        let tensor = call.constant(1)?;
        let &[outputs, channels, height, width] = &tensor.shape[..] else {
            return Err("kernels must have two axes of an image".into());
        };
        let &[_, rows, columns] = &call.flow(0)?.shape[..] else {
            return Err(
                format!("it takes an image, not the shape {:?}", call.flow(0)?.shape).into()
            );
        };
        let window = call.sizes("kernel_shape", [height, width])?;
        if window != [height, width] {
            return Err(
                format!("its kernel_shape is {window:?}, kernels {height} by {width}").into()
            );
        }
        let Windows { stride, padding, dilation } = call.windows(window, [rows, columns])?;
        let groups = call.node.integer("group", 1);
        let groups = usize::try_from(groups).map_err(|_| format!("it has {groups} groups"))?;
        let mut numbers = tensor.floats()?.iter().copied();
        let mut line = || -> Vec<f64> { numbers.by_ref().take(width).collect() };
        let mut plane = || -> Vec<Vec<f64>> { (0..height).map(|_| line()).collect() };
        let mut kernel = || -> Vec<Vec<Vec<f64>>> { (0..channels).map(|_| plane()).collect() };
        let kernels = (0..outputs).map(|_| kernel()).collect();
        let bias = match call.option(2)? {
            None => vec![0.0; outputs],
            Some(bias) => for_channels(bias, outputs)?,
        };
        let convolution =
            Convolution { kernels, bias, stride, padding, groups, dilation, step: 1.0 };
        self.add_to(call.flow(0)?, Layer::Convolution(convolution))
    }

    /// Adds the means of windows, or of all rows and columns.
    fn pool(&mut self, call: &Call<'_, '_>) -> Outcome<Known> {
        let node = call.node;
        let flow = call.flow(0)?;
        if node.operator == "ReduceMean" {
            return self.mean(call);
        }
        let &[_, rows, columns] = &flow.shape[..] else {
            return Err(format!("it takes an image, not the shape {:?}", flow.shape).into());
        };
        if node.operator == "GlobalAveragePool" {
            let layer = Layer::AveragePool { window: [rows, columns], stride: [1; 2] };
            return self.add_to(flow, layer);
        }
        let window = call.sizes("kernel_shape", [0; 2])?;
        let Windows { stride, padding, dilation } = call.windows(window, [rows, columns])?;
        if dilation != [1; 2] {
            return Err("pool without dilations".into());
        }
        if padding != [0; 4] {
            return Err("pool without padding".into());
        }
        let even =
            [rows, columns].iter().zip(&window).zip(&stride).all(|((places, window), &by)| {
                places.saturating_sub(*window).checked_rem(by) == Some(0)
            });
        if node.integer("ceil_mode", 0) != 0 && !even {
            return Err("pool without ceil_mode, or with windows that fit".into());
        }
        self.add_to(flow, Layer::AveragePool { window, stride })
    }

    fn mean(&mut self, call: &Call<'_, '_>) -> Outcome<Known> {
        let node = call.node;
        let flow = call.flow(0)?;
        let axes = call.axes(flow, false, self.version)?.filter(|axes| !axes.is_empty());
        let Some(axes) = axes else {
            return match node.integer("noop_with_empty_axes", 0) {
                0 => Err("name the axes to average, or samples are averaged, too".into()),
                _ => Ok(Known::Flow(flow.clone())),
            };
        };
        let [channels, rows, columns] = match flow.shape[..] {
            [channels, rows] => [channels, rows, 1],
            [channels, rows, columns] => [channels, rows, columns],
            _ => return Err(format!("it takes an image, not the shape {:?}", flow.shape).into()),
        };
        if axes.contains(&0) {
            return Err("rows and columns of an image are averaged, not its channels".into());
        }
        let window = [(1, rows), (2, columns)]
            .map(|(axis, places)| if axes.contains(&axis) { places } else { 1 });
        let image = Flow { value: flow.value, shape: vec![channels, rows, columns] };
        let pooled = self.add_to(&image, Layer::AveragePool { window, stride: [1; 2] })?;
        let Known::Flow(Flow { value, .. }) = pooled else { return Ok(pooled) };
        let mean = |(axis, &size): (usize, &usize)| if axes.contains(&axis) { 1 } else { size };
        let shape: Vec<usize> = flow.shape.iter().enumerate().map(mean).collect();
        let shape = match node.integer("keepdims", 1) {
            0 => constants::squeezed(&shape, &axes)?,
            _ => shape,
        };
        Ok(Known::Flow(Flow { value, shape }))
    }

    fn normalization(&mut self, call: &Call<'_, '_>) -> Outcome<Known> {
        let node = call.node;
        let flow = call.flow(0)?;
        if node.integer("training_mode", 0) != 0 {
            return Err("it is in training mode: export the model for inference".into());
        }
        if node.integer("spatial", 1) != 1 {
            return Err("its statistics are for features: use statistics for channels".into());
        }
        let channels = flow.shape.first().copied().unwrap_or(0);
        let part = |input| for_channels(call.constant(input)?, channels);
        // ONNX's default is a float of 32 bits.
        let epsilon = node.float("epsilon", f64::from(1e-5f32));
        let parts = part(1)?.into_iter().zip(part(2)?).zip(part(3)?.into_iter().zip(part(4)?));
        let folded = parts.map(|((scale, shift), (mean, variance))| {
            let factor = scale / (variance + epsilon).sqrt();
            (factor, shift - factor * mean)
        });
        let (factors, offsets) = folded.unzip();
        self.add_to(flow, Layer::Normalize { factors, offsets })
    }

    /// Computes the sum, difference, product or quotient of two inputs.
    fn combined(
        &mut self,
        call: &Call<'_, '_>,
        left: Option<&Known>,
        right: Option<&Known>,
    ) -> Outcome<Known> {
        let operator = call.node.operator.as_str();
        match (left, right) {
            (Some(Known::Flow(left)), Some(Known::Flow(right))) => match operator {
                "Add" | "Sum" => self.residual(left, right),
                "Sub" => match self.negative(right)? {
                    Known::Flow(negative) => self.residual(left, &negative),
                    constant @ Known::Constant(_) => Ok(constant),
                },
                "Mul" if left == right => {
                    Ok(self.add_to_each(left, Layer::Activation(Activation::Square))?)
                }
                _ => {
                    Err("of two tensors that depend on samples, sums and squares are possible"
                        .into())
                }
            },
            (Some(Known::Flow(flow)), Some(Known::Constant(constant))) => {
                self.with_constant(operator, flow, constant, true)
            }
            (Some(Known::Constant(constant)), Some(Known::Flow(flow))) => {
                self.with_constant(operator, flow, constant, false)
            }
            _ => Err("its inputs are missing, or constants".into()),
        }
    }

    fn negative(&mut self, flow: &Flow) -> Result<Known> {
        let channels = self.shape(flow.value).first().copied().unwrap_or(0);
        let factors = vec![-1.0; channels];
        let offsets = vec![0.0; channels];
        self.add_to_each(flow, Layer::Normalize { factors, offsets })
    }

    /// Computes the sum, difference, product or quotient with a constant.
    fn with_constant(
        &mut self,
        operator: &str,
        flow: &Flow,
        constant: &Constant,
        first: bool,
    ) -> Outcome<Known> {
        let mut numbers = for_features(constant, &flow.shape)?;
        // One number for each channel is enough if none depends on rows and columns.
        let channels = flow.shape.first().copied().unwrap_or(1);
        let part = numbers.len().checked_div(channels).unwrap_or(1).max(1);
        let even = |part: &[f64]| part.iter().all(|x| Some(x) == part.first());
        let value = match numbers.chunks(part).all(even) {
            true => {
                numbers = numbers.into_iter().step_by(part).collect();
                self.laid(flow)?
            }
            false => self.laid(&Flow { value: flow.value, shape: vec![numbers.len()] })?,
        };
        let ones = vec![1.0; numbers.len()];
        let zeros = vec![0.0; numbers.len()];
        let mapped = |f: fn(f64) -> f64| numbers.iter().map(|&x| f(x)).collect::<Vec<f64>>();
        let (factors, offsets) = match (operator, first) {
            ("Add" | "Sum", _) => (ones, numbers),
            ("Sub", true) => (ones, mapped(|x| -x)),
            ("Sub", false) => (vec![-1.0; numbers.len()], numbers),
            // Division by 0 is infinite, and the layer refuses it.
            ("Div", true) => (mapped(|x| 1.0 / x), zeros),
            ("Div", false) => {
                return Err("the inverse of encrypted numbers needs a polynomial".into());
            }
            _ => (numbers, zeros),
        };
        let flow = Flow { value, shape: flow.shape.clone() };
        Ok(self.add_to_each(&flow, Layer::Normalize { factors, offsets })?)
    }
}

/// Returns a constant as one number for each feature of a sample, the same for all samples.
fn for_features(constant: &Constant, shape: &[usize]) -> Outcome<Vec<f64>> {
    let axes = shape.len().saturating_add(1);
    let one = match constant.shape.split_first() {
        Some((&1, rest)) if constant.shape.len() == axes => {
            Constant { shape: rest.to_vec(), numbers: constant.numbers.clone() }
        }
        _ if constant.shape.len() >= axes => {
            return Err(format!(
                "a constant of the shape {:?} has other numbers for each sample, or more axes than \
                 samples of the shape {shape:?}",
                constant.shape
            )
            .into());
        }
        _ => constant.clone(),
    };
    one.floats()?;
    match one.spread(shape)? {
        Numbers::Floats { numbers, .. } => Ok(numbers),
        Numbers::Integers(_) => Err("it takes floats".into()),
    }
}

/// Returns a constant as one number for each channel.
fn for_channels(constant: &Constant, channels: usize) -> Outcome<Vec<f64>> {
    match constant.shape == [channels] {
        true => Ok(constant.floats()?.to_vec()),
        false => Err(format!(
            "a constant of the shape {:?} is not one number for each of {channels} channels",
            constant.shape
        )
        .into()),
    }
}

/// Returns the exponent of a power, which must be the same for all features.
fn exponent(constant: &Constant, shape: &[usize]) -> Outcome<usize> {
    let numbers: Vec<f64> = match &constant.numbers {
        Numbers::Floats { numbers, .. } => numbers.clone(),
        Numbers::Integers(_) => constant.integers()?.into_iter().map(|n| n as f64).collect(),
    };
    let floats = Numbers::Floats { numbers, single: false };
    let spread = for_features(&Constant { shape: constant.shape.clone(), numbers: floats }, shape)?;
    let exponent = spread.first().copied().filter(|first| spread.iter().all(|x| x == first));
    let exponent = exponent.filter(|n| (1.0..=255.0).contains(n) && n.fract() == 0.0);
    exponent.map(|n| n as usize).ok_or_else(|| "use one whole exponent of 1 to 255".into())
}
