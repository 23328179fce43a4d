//! Networks from ONNX files.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod wire;

use std::collections::BTreeMap;

use super::{
    error::{NnError, Result},
    model::{Activation, Convolution, Layer, MAX_LAYERS, Network},
};
use wire::{Graph, Node, Tensor, malformed};

impl Network {
    /// The network of an ONNX model: a chain of `MatMul`, `Gemm`, `Conv`, `AveragePool`,
    /// `GlobalAveragePool`, `BatchNormalization`, `Flatten`, `Reshape` to a vector, sums and products
    /// with constants, `Relu`, `Gelu`, `Sigmoid`, `Tanh`, `Pow` and products of a tensor with itself;
    /// `Identity` and `Dropout` are left out. `Add` of two tensors is a residual block: both come from
    /// one tensor, and one of them without an activation. The first axis of its input counts samples.
    /// Activations that need one get a polynomial of this degree.
    ///
    /// Of ONNX (version 1 of its intermediate representation, any set of operators) only what such a
    /// graph takes is read: weights as floats or doubles in the file itself.
    ///
    /// # Errors
    /// [`NnError::Operator`] for an operator that is not computed here, with what could replace it;
    /// [`NnError::Onnx`] for bytes that are no such model; those of [`Network::new`].
    pub fn from_onnx(bytes: &[u8], degree: usize) -> Result<Self> {
        let graph = Graph::of_model(bytes)?;
        let mut read = Reading::begin(&graph, degree)?;
        for node in &graph.nodes {
            read.add(node)?;
        }
        match &graph.outputs[..] {
            [output] => match read.names.get(output) {
                Some(&value) => Self::new(read.shape(0).to_vec(), read.layers_after(0, value)?),
                None => Err(malformed(format!("no node gives its output {output:?}"))),
            },
            outputs => Err(malformed(format!("it has the outputs {outputs:?}: one is possible"))),
        }
    }
}

/// A graph that is read node by node.
struct Reading {
    constants: BTreeMap<String, Tensor>,
    degree: usize,
    /// What nodes give, the input first, each after what it is computed from.
    values: Vec<Value>,
    /// Numbers of values.
    names: BTreeMap<String, usize>,
}

struct Value {
    shape: Vec<usize>,
    /// The layer that gives it, and the number of what that takes; none for the input.
    from: Option<(usize, Layer)>,
}

impl Reading {
    fn begin(graph: &Graph, degree: usize) -> Result<Self> {
        let constants = graph.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.clone()));
        let constants: BTreeMap<_, _> = constants.collect();
        let mut inputs = graph.inputs.iter().filter(|input| !constants.contains_key(&input.name));
        let (Some(input), None) = (inputs.next(), inputs.next()) else {
            return Err(malformed("it takes none or several inputs: one is possible"));
        };
        let sizes = input.shape.get(1..).unwrap_or(&[]);
        let shape: Option<Vec<usize>> = sizes.iter().copied().collect();
        let shape = shape.filter(|shape| !shape.is_empty()).ok_or_else(|| {
            let found = &input.shape;
            malformed(format!(
                "its input has the shape {found:?}: known sizes of samples are needed"
            ))
        })?;
        let names = BTreeMap::from([(input.name.clone(), 0)]);
        Ok(Self { constants, degree, values: vec![Value { shape, from: None }], names })
    }

    fn add(&mut self, node: &Node) -> Result<()> {
        let Some(output) = node.outputs.first().cloned() else {
            return Err(malformed(format!("node {:?} has no output", node.name)));
        };
        if node.operator == "Constant" {
            let tensor = node.attribute("value").and_then(|value| value.tensor.clone());
            let tensor = tensor.ok_or_else(|| self.refused(node, "give it as a tensor"))?;
            self.constants.insert(output, tensor);
            return Ok(());
        }
        let mut taken = node.inputs.iter().filter_map(|input| self.names.get(input).copied());
        let Some(mut value) = taken.next() else {
            let instead = "layers are needed, each of which takes what one before it gives";
            return Err(self.refused(node, instead));
        };
        let layers = match (node.operator.as_str(), taken.next()) {
            ("Add", Some(other)) => {
                let (common, block) = self.residual(node, value, other)?;
                value = common;
                vec![block]
            }
            _ => self.layers(node, value)?,
        };
        for layer in layers {
            value = self.add_layer(value, layer)?;
        }
        self.names.insert(output, value);
        Ok(())
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
        self.values.push(Value { shape, from: Some((value, layer)) });
        Ok(number)
    }

    fn shape(&self, value: usize) -> &[usize] {
        self.values.get(value).map_or(&[], |value| &value.shape)
    }

    /// The layers that lead from one value to another.
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

    /// The sum of two values as a block, and the value from which both come.
    fn residual(&self, node: &Node, left: usize, right: usize) -> Result<(usize, Layer)> {
        let (mut a, mut b) = (left, right);
        // What a value comes from has a lower number, and all come from the input.
        while a != b {
            let later = if a > b { &mut a } else { &mut b };
            let from = self.values.get(*later).and_then(|value| value.from.as_ref());
            *later = from.map_or(0, |(before, _)| *before);
        }
        let (left, right) = (self.layers_after(a, left)?, self.layers_after(a, right)?);
        let affine = |layers: &[Layer]| layers.iter().all(Layer::is_affine);
        let (layers, shortcut) = match (affine(&left), affine(&right)) {
            (true, true) if left.len() < right.len() => (right, left),
            (_, true) => (left, right),
            (true, false) => (right, left),
            (false, false) => {
                let instead = "one of the two tensors must come from where both part without an \
                               activation or another sum";
                return Err(self.refused(node, instead));
            }
        };
        Ok((a, Layer::Residual { layers, shortcut }))
    }

    fn refused(&self, node: &Node, instead: &'static str) -> NnError {
        let (node, operator) = (node.name.clone(), node.operator.clone());
        NnError::Operator { node, operator, instead }
    }

    /// A constant input of a node.
    fn constant(&self, node: &Node, input: usize) -> Result<&Tensor> {
        let tensor = node.inputs.get(input).and_then(|name| self.constants.get(name));
        tensor
            .ok_or_else(|| self.refused(node, "its further inputs must be constants in the model"))
    }

    /// Whether the first input of a node is a value, and no constant.
    fn is_first(&self, node: &Node) -> bool {
        node.inputs.first().is_some_and(|name| self.names.contains_key(name))
    }

    /// What a node does with a value.
    fn layers(&self, node: &Node, value: usize) -> Result<Vec<Layer>> {
        let degree = self.degree;
        let activation = |activation| Ok(vec![Layer::Activation(activation)]);
        match node.operator.as_str() {
            "Identity" | "Dropout" => Ok(Vec::new()),
            "MatMul" => self.dense(node, false, 1.0, Vec::new()),
            "Gemm" => self.general_product(node),
            "Conv" => self.convolution(node),
            "AveragePool" | "GlobalAveragePool" => self.pool(node, self.shape(value)),
            "BatchNormalization" => self.normalization(node),
            "Flatten" => match integer(node, "axis", 1) {
                1 => Ok(vec![Layer::Flatten]),
                _ => Err(self.refused(node, "flatten from axis 1 on")),
            },
            "Reshape" => match self.constant(node, 1)?.numbers.len() {
                2 => Ok(vec![Layer::Flatten]),
                _ => Err(self.refused(node, "reshape to two axes, samples and features")),
            },
            "Mul" if node.inputs.iter().all(|input| self.names.get(input) == Some(&value)) => {
                activation(Activation::Square)
            }
            "Add" | "Sub" | "Div" | "Mul" => self.with_constant(node, self.shape(value)),
            "Pow" => {
                let exponent = &self.constant(node, 1)?.numbers;
                let exponent = exponent.first().copied().filter(|n| (1.0..=255.0).contains(n));
                let exponent = exponent.filter(|n| n.fract() == 0.0);
                let exponent =
                    exponent.ok_or_else(|| self.refused(node, "a whole exponent of 1 to 255"))?;
                let mut coefficients = vec![0.0; exponent as usize];
                coefficients.push(1.0);
                activation(Activation::Polynomial(coefficients))
            }
            "Relu" => activation(Activation::Relu { degree }),
            "Gelu" => activation(Activation::Gelu { degree }),
            "Sigmoid" => activation(Activation::Sigmoid { degree }),
            "Tanh" => activation(Activation::Tanh { degree }),
            operator => Err(self.refused(node, replacement(operator))),
        }
    }

    /// Of weights with a column for each output, or a row if `rows` says so.
    fn dense(&self, node: &Node, rows: bool, factor: f64, bias: Vec<f64>) -> Result<Vec<Layer>> {
        if !self.is_first(node) {
            return Err(self.refused(node, "samples must be its first input"));
        }
        let tensor = self.constant(node, 1)?;
        let &[first, second] = &tensor.shape[..] else {
            return Err(self.refused(node, "its second input must be a matrix"));
        };
        let (outputs, inputs) = if rows { (first, second) } else { (second, first) };
        let row = |output: usize| -> Vec<f64> {
            let numbers = tensor.numbers.iter().map(|weight| factor * weight);
            match rows {
                true => numbers.skip(output.saturating_mul(inputs)).take(inputs).collect(),
                false => numbers.skip(output).step_by(outputs.max(1)).collect(),
            }
        };
        let weights = (0..outputs).map(row).collect();
        let bias = if bias.is_empty() { vec![0.0; outputs] } else { bias };
        Ok(vec![Layer::Dense { weights, bias, step: 1.0 }])
    }

    fn general_product(&self, node: &Node) -> Result<Vec<Layer>> {
        if integer(node, "transA", 0) != 0 {
            return Err(self.refused(node, "samples must not be transposed"));
        }
        let rows = integer(node, "transB", 0) != 0;
        let mut bias = Vec::new();
        if node.inputs.len() > 2 {
            let tensor = self.constant(node, 2)?;
            let outputs = self.constant(node, 1)?.shape.get(usize::from(!rows)).copied();
            let beta = float(node, "beta", 1.0);
            bias = tensor.numbers.iter().map(|x| beta * x).collect();
            if bias.len() == 1 {
                bias = vec![bias.first().copied().unwrap_or(0.0); outputs.unwrap_or(0)];
            }
        }
        self.dense(node, rows, float(node, "alpha", 1.0), bias)
    }

    fn convolution(&self, node: &Node) -> Result<Vec<Layer>> {
        let tensor = self.constant(node, 1)?;
        let &[outputs, channels, height, width] = &tensor.shape[..] else {
            return Err(self.refused(node, "kernels must have two axes of an image"));
        };
        let dilated =
            node.attribute("dilations").is_some_and(|d| d.integers.iter().any(|&n| n != 1));
        if dilated || integer(node, "group", 1) != 1 || has_automatic_padding(node) {
            let instead =
                "convolutions without dilations, groups and automatic padding are possible";
            return Err(self.refused(node, instead));
        }
        let mut numbers = tensor.numbers.iter().copied();
        let mut line = || -> Vec<f64> { numbers.by_ref().take(width).collect() };
        let mut plane = || -> Vec<Vec<f64>> { (0..height).map(|_| line()).collect() };
        let mut kernel = || -> Vec<Vec<Vec<f64>>> { (0..channels).map(|_| plane()).collect() };
        let kernels = (0..outputs).map(|_| kernel()).collect();
        let bias = match node.inputs.len() {
            ..=2 => vec![0.0; outputs],
            _ => self.constant(node, 2)?.numbers.clone(),
        };
        let stride = self.sizes(node, "strides", [1; 2])?;
        let padding = self.sizes(node, "pads", [0; 4])?;
        let convolution = Convolution { kernels, bias, stride, padding, step: 1.0 };
        Ok(vec![Layer::Convolution(convolution)])
    }

    fn pool(&self, node: &Node, shape: &[usize]) -> Result<Vec<Layer>> {
        let global = node.operator == "GlobalAveragePool";
        let (window, stride) = match (shape, global) {
            (&[_, rows, columns], true) => ([rows, columns], [1, 1]),
            _ => (self.sizes(node, "kernel_shape", [0; 2])?, self.sizes(node, "strides", [1; 2])?),
        };
        let padded = self.sizes(node, "pads", [0; 4])? != [0; 4] || has_automatic_padding(node);
        if padded || integer(node, "ceil_mode", 0) != 0 {
            return Err(self.refused(node, "pool without padding"));
        }
        Ok(vec![Layer::AveragePool { window, stride }])
    }

    fn normalization(&self, node: &Node) -> Result<Vec<Layer>> {
        let part = |input| self.constant(node, input).map(|tensor| tensor.numbers.iter());
        let epsilon = float(node, "epsilon", 1e-5);
        let parts = part(1)?.zip(part(2)?).zip(part(3)?.zip(part(4)?));
        let folded = parts.map(|((scale, shift), (mean, variance))| {
            let factor = scale / (variance + epsilon).sqrt();
            (factor, shift - factor * mean)
        });
        let (factors, offsets) = folded.unzip();
        Ok(vec![Layer::Normalize { factors, offsets }])
    }

    /// The sum, difference, product or quotient with a constant: one number, or one a channel.
    fn with_constant(&self, node: &Node, shape: &[usize]) -> Result<Vec<Layer>> {
        let first = self.is_first(node);
        let tensor = self.constant(node, usize::from(first))?;
        let channels = shape.first().copied().unwrap_or(0);
        // Axes of an image follow that of channels.
        let trailing = shape.len().saturating_sub(1);
        let ends = tensor.shape.iter().rev().take(trailing).all(|&size| size == 1);
        let numbers = match tensor.numbers.len() {
            1 => vec![tensor.numbers.first().copied().unwrap_or(0.0); channels],
            count if count == channels && ends => tensor.numbers.clone(),
            _ => return Err(self.refused(node, "one number, or one for each channel or feature")),
        };
        let ones = vec![1.0; channels];
        let mapped = |f: fn(f64) -> f64| numbers.iter().map(|&x| f(x)).collect::<Vec<f64>>();
        let (factors, offsets) = match (node.operator.as_str(), first) {
            ("Add", _) => (ones, numbers),
            ("Sub", true) => (ones, mapped(|x| -x)),
            ("Sub", false) => (vec![-1.0; channels], numbers),
            ("Div", true) => (mapped(|x| 1.0 / x), vec![0.0; channels]),
            ("Div", false) => {
                return Err(
                    self.refused(node, "an inverse of encrypted numbers takes a polynomial")
                );
            }
            _ => (numbers, vec![0.0; channels]),
        };
        Ok(vec![Layer::Normalize { factors, offsets }])
    }

    /// Sizes that a node has, or those in their place.
    fn sizes<const N: usize>(
        &self,
        node: &Node,
        name: &str,
        without: [usize; N],
    ) -> Result<[usize; N]> {
        let Some(attribute) = node.attribute(name) else { return Ok(without) };
        let sizes: Option<Vec<usize>> =
            attribute.integers.iter().map(|&size| usize::try_from(size).ok()).collect();
        let sizes = sizes.and_then(|sizes| sizes.try_into().ok());
        sizes.ok_or_else(|| self.refused(node, "windows of images have two axes"))
    }
}

fn integer(node: &Node, name: &str, without: i64) -> i64 {
    node.attribute(name).and_then(|attribute| attribute.integer).unwrap_or(without)
}

fn float(node: &Node, name: &str, without: f64) -> f64 {
    node.attribute(name).and_then(|attribute| attribute.float).unwrap_or(without)
}

fn has_automatic_padding(node: &Node) -> bool {
    let padding = node.attribute("auto_pad").map(|attribute| attribute.text.as_str());
    !matches!(padding, None | Some("NOTSET" | "VALID" | ""))
}

/// What could stand in place of an operator.
fn replacement(operator: &str) -> &'static str {
    match operator {
        "MaxPool" | "GlobalMaxPool" => "AveragePool is a sum, which costs nothing beside its layer",
        "Softmax" | "LogSoftmax" | "ArgMax" => {
            "leave it out: the owner applies it to decrypted results"
        }
        "LeakyRelu" | "Elu" | "Selu" | "HardSigmoid" | "Softplus" | "PRelu" | "Clip"
        | "HardSwish" | "Mish" | "Erf" => "use Relu, Gelu, Sigmoid, Tanh or a polynomial",
        "LayerNormalization" | "InstanceNormalization" => {
            "BatchNormalization is a product with constants"
        }
        "LSTM" | "GRU" | "RNN" => "feed-forward layers are possible",
        _ => "dense and convolutional layers, average pooling, normalisation and activations are",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes.
    fn field(number: u64, content: &[u8]) -> Vec<u8> {
        let mut out = number_bytes(number << 3 | 2);
        out.extend(number_bytes(content.len() as u64));
        out.extend(content);
        out
    }

    fn whole(number: u64, value: u64) -> Vec<u8> {
        [number_bytes(number << 3), number_bytes(value)].concat()
    }

    fn number_bytes(mut value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }

    fn tensor(name: &str, shape: &[u64], numbers: &[f32]) -> Vec<u8> {
        let dims: Vec<u8> = shape.iter().flat_map(|&size| whole(1, size)).collect();
        let raw: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        [dims, whole(2, 1), field(8, name.as_bytes()), field(9, &raw)].concat()
    }

    fn integers(name: &str, values: &[u64]) -> Vec<u8> {
        let values: Vec<u8> = values.iter().flat_map(|&value| whole(8, value)).collect();
        field(5, &[field(1, name.as_bytes()), values].concat())
    }

    fn node(operator: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
        let inputs: Vec<u8> = inputs.iter().flat_map(|name| field(1, name.as_bytes())).collect();
        let rest = [field(2, output.as_bytes()), field(4, operator.as_bytes())].concat();
        [inputs, rest, field(3, b"it"), attributes.concat()].concat()
    }

    fn value(name: &str, shape: &[u64]) -> Vec<u8> {
        let dims: Vec<u8> = shape.iter().flat_map(|&size| field(1, &whole(1, size))).collect();
        [field(1, name.as_bytes()), field(2, &field(1, &field(2, &dims)))].concat()
    }

    /// A model from `x` to `y`.
    fn model(shape: &[u64], tensors: &[Vec<u8>], nodes: &[Vec<u8>]) -> Vec<u8> {
        let tensors: Vec<u8> = tensors.iter().flat_map(|tensor| field(5, tensor)).collect();
        let nodes: Vec<u8> = nodes.iter().flat_map(|node| field(1, node)).collect();
        let ends = [field(11, &value("x", shape)), field(12, &value("y", &[]))].concat();
        field(7, &[nodes, tensors, ends].concat())
    }

    /// An image of one channel through all kinds of layers.
    fn image_model() -> Vec<u8> {
        let kernel: Vec<f32> = (0u8..8).map(|i| f32::from(i) / 4.0 - 1.0).collect();
        let dense: Vec<f32> = (0u8..12).map(|i| f32::from(i) - 5.0).collect();
        let tensors = [
            tensor("k", &[2, 1, 2, 2], &kernel),
            tensor("kb", &[2], &[0.5, -0.5]),
            tensor("s", &[2], &[1.0, 2.0]),
            tensor("b", &[2], &[0.25, 0.0]),
            tensor("m", &[2], &[0.5, 1.0]),
            tensor("v", &[2], &[1.0, 3.0]),
            tensor("w", &[4, 3], &dense),
            tensor("c", &[3], &[1.0, 2.0, 3.0]),
        ];
        let epsilon = [field(1, b"epsilon"), vec![0x15], 1.0f32.to_le_bytes().to_vec()].concat();
        let nodes = [
            node("Conv", &["x", "k", "kb"], "1", &[integers("pads", &[1, 0, 0, 1])]),
            node("BatchNormalization", &["1", "s", "b", "m", "v"], "2", &[field(5, &epsilon)]),
            node("Mul", &["2", "2"], "3", &[]),
            node(
                "AveragePool",
                &["3"],
                "4",
                &[integers("kernel_shape", &[2, 4]), integers("strides", &[2, 1])],
            ),
            node("Flatten", &["4"], "5", &[]),
            node("MatMul", &["5", "w"], "6", &[]),
            node("Add", &["c", "6"], "y", &[]),
        ];
        model(&[1, 1, 4, 4], &tensors, &nodes)
    }

    #[test]
    fn a_model_computes_what_onnx_defines() {
        let network = Network::from_onnx(&image_model(), 7).unwrap();
        assert_eq!((network.input(), network.outputs()), (&[1, 4, 4][..], 3));
        let image: Vec<f64> = (0..16).map(|i| f64::from(i * i % 7) / 4.0).collect();
        let at = |row: i32, column: i32| match (0..4).contains(&row) && (0..4).contains(&column) {
            true => image[(4 * row + column) as usize],
            false => 0.0,
        };
        let mut pooled = Vec::new();
        for channel in 0..2 {
            let (scale, shift, mean, variance, bias) = match channel {
                0 => (1.0, 0.25, 0.5, 1.0, 0.5),
                _ => (2.0, 0.0, 1.0, 3.0, -0.5),
            };
            for half in 0..2 {
                let mut sum = 0.0;
                for row in 2 * half..2 * half + 2 {
                    for column in 0..4 {
                        let mut y = bias;
                        for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                            let weight = f64::from(4 * channel + 2 * i + j) / 4.0 - 1.0;
                            y += weight * at(row + i - 1, column + j);
                        }
                        let y: f64 = scale * (y - mean) / f64::sqrt(variance + 1.0) + shift;
                        sum += y * y;
                    }
                }
                pooled.push(sum / 8.0);
            }
        }
        let found = network.forward(&image).unwrap();
        for (j, found) in found.iter().enumerate() {
            let sum: f64 =
                pooled.iter().enumerate().map(|(i, x)| x * ((3 * i + j) as f64 - 5.0)).sum();
            assert!((found - (sum + j as f64 + 1.0)).abs() < 1e-9);
        }
    }

    #[test]
    fn general_products_and_powers_are_read() {
        let weights = tensor("w", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let alpha = [field(1, b"alpha"), vec![0x15], 0.5f32.to_le_bytes().to_vec()].concat();
        let transposed = field(5, &[field(1, b"transB"), whole(3, 1)].concat());
        let tensors = [weights, tensor("c", &[2], &[1.0, -1.0]), tensor("e", &[], &[3.0])];
        let nodes = [
            node("Gemm", &["x", "w", "c"], "1", &[field(5, &alpha), transposed]),
            node("Pow", &["1", "e"], "y", &[]),
        ];
        let network = Network::from_onnx(&model(&[1, 3], &tensors, &nodes), 7).unwrap();
        let found = network.forward(&[1.0, 0.0, -1.0]).unwrap();
        assert_eq!(found, [0.0f64.powi(3), (-2.0f64).powi(3)]);
    }

    #[test]
    fn unknown_operators_are_named_with_what_would_replace_them() {
        for (operator, instead) in [
            ("MaxPool", "AveragePool"),
            ("Softmax", "leave it out"),
            ("LeakyRelu", "use Relu"),
            ("Nonsense", "dense and convolutional"),
        ] {
            let bytes = model(&[1, 3], &[], &[node(operator, &["x"], "y", &[])]);
            let error = Network::from_onnx(&bytes, 7).unwrap_err();
            assert!(matches!(error, NnError::Operator { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(operator) && text.contains(instead), "{text}");
        }
    }

    /// A block with an identity, one with an affine shortcut, and sums that are none.
    #[test]
    fn sums_of_branches_are_residual_blocks() {
        let tensors = [
            tensor("w", &[2, 3], &[1.0, 0.0, 2.0, -1.0, 1.0, 0.5]),
            tensor("v", &[3, 2], &[1.0, 2.0, 0.0, -1.0, 1.0, 1.0]),
            tensor("s", &[2, 3], &[1.0, 1.0, 0.0, 0.0, 2.0, -1.0]),
            tensor("b", &[3], &[1.0, 2.0, 3.0]),
        ];
        let nodes = [
            node("MatMul", &["x", "w"], "1", &[]),
            node("Mul", &["1", "1"], "2", &[]),
            node("MatMul", &["2", "v"], "3", &[]),
            node("Add", &["3", "x"], "4", &[]),
            node("MatMul", &["4", "s"], "5", &[]),
            node("Add", &["b", "5"], "6", &[]),
            node("MatMul", &["4", "w"], "7", &[]),
            node("Mul", &["7", "7"], "8", &[]),
            node("Add", &["6", "8"], "y", &[]),
        ];
        let network = Network::from_onnx(&model(&[1, 2], &tensors, &nodes), 7).unwrap();
        assert_eq!(network.layers().len(), 2);
        for [x, y] in [[0.0f64, 1.0], [0.5, -2.0]] {
            let found = network.forward(&[x, y]).unwrap();
            let [a, b, c] = [x - y, y, 2.0 * x + 0.5 * y].map(|sum| sum * sum);
            let [x, y] = [a + c + x, 2.0 * a - b + c + y];
            let [a, b, c] = [x - y, y, 2.0 * x + 0.5 * y].map(|sum| sum * sum);
            assert_eq!(found, [a + x + 1.0, b + x + 2.0 * y + 2.0, c - y + 3.0]);
        }
        let refused = |nodes: &[Vec<u8>], part: &str| {
            let error = Network::from_onnx(&model(&[1, 2], &tensors, nodes), 7).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        };
        let branches = [
            node("Relu", &["x"], "1", &[]),
            node("Tanh", &["x"], "2", &[]),
            node("Add", &["1", "2"], "y", &[]),
        ];
        refused(&branches, "without an activation");
        let shapes = [node("MatMul", &["x", "w"], "1", &[]), node("Add", &["1", "x"], "y", &[])];
        refused(&shapes, "the shape [3] and its shortcut [2]");
        let product = [node("Relu", &["x"], "1", &[]), node("Mul", &["1", "x"], "y", &[])];
        refused(&product, "constants");
    }

    /// Models that another program wrote, and what a third one computes with them: of
    /// `tests/onnx/make.py`.
    #[test]
    fn models_compute_what_onnxruntime_does() {
        #[derive(serde::Deserialize)]
        struct Said {
            samples: Vec<Vec<f64>>,
            results: Vec<Vec<f64>>,
        }
        for (model, said) in [
            (
                &include_bytes!("../../tests/onnx/dense.onnx")[..],
                include_str!("../../tests/onnx/dense.json"),
            ),
            (
                &include_bytes!("../../tests/onnx/image.onnx")[..],
                include_str!("../../tests/onnx/image.json"),
            ),
            (
                &include_bytes!("../../tests/onnx/residual.onnx")[..],
                include_str!("../../tests/onnx/residual.json"),
            ),
        ] {
            let network = Network::from_onnx(model, 7).unwrap();
            let said: Said = serde_json::from_str(said).unwrap();
            for (sample, expected) in said.samples.iter().zip(&said.results) {
                let found = network.forward(sample).unwrap();
                assert_eq!(found.len(), expected.len());
                for (x, y) in found.iter().zip(expected) {
                    assert!((x - y).abs() < 1e-5, "{x} {y}");
                }
            }
        }
    }

    /// Damage of any kind gives an error or another network, and never more.
    #[test]
    fn damaged_models_are_refused() {
        let whole = image_model();
        for length in 0..whole.len() {
            assert!(Network::from_onnx(&whole[..length], 7).is_err(), "{length}");
        }
        for place in 0..whole.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] ^= flip;
                let _ = Network::from_onnx(&bytes, 7);
            }
        }
    }
}
