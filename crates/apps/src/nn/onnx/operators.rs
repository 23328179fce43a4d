//! The supported operators: versions of ONNX's operators, numbers of inputs, and attributes. A node
//! with any other feature is rejected, because its meaning is unknown.
//!
//! Source: the [changelog of operators](https://github.com/onnx/onnx/blob/main/docs/Changelog.md),
//! up to version 28.

use core::ops::RangeInclusive;

use super::wire::{Content, Node};

/// Supported versions of ONNX's operators. Before version 7, sums broadcast differently.
pub(super) const VERSIONS: RangeInclusive<i64> = FIRST..=LAST;
const FIRST: i64 = 7;
const LAST: i64 = 28;

/// The first version in which axes may be negative and count from the end.
pub(super) const NEGATIVE_AXES: i64 = 11;

/// Kind of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    Integer,
    Text,
    Tensor,
    Floats,
    Integers,
}

use Kind::{Float, Floats, Integer, Integers, Tensor, Text};

/// An operator in some versions.
struct Operator {
    name: &'static str,
    versions: RangeInclusive<i64>,
    inputs: RangeInclusive<usize>,
    attributes: &'static [(&'static str, Kind)],
}

const fn operator(
    name: &'static str,
    versions: RangeInclusive<i64>,
    inputs: RangeInclusive<usize>,
    attributes: &'static [(&'static str, Kind)],
) -> Operator {
    Operator { name, versions, inputs, attributes }
}

/// Number of inputs of operators that accept any number.
const MANY: usize = usize::MAX;

const OPERATORS: &[Operator] = &[
    operator("Add", FIRST..=LAST, 2..=2, &[]),
    operator(
        "AveragePool",
        FIRST..=9,
        1..=1,
        &[
            ("auto_pad", Text),
            ("count_include_pad", Integer),
            ("kernel_shape", Integers),
            ("pads", Integers),
            ("strides", Integers),
        ],
    ),
    operator(
        "AveragePool",
        10..=18,
        1..=1,
        &[
            ("auto_pad", Text),
            ("ceil_mode", Integer),
            ("count_include_pad", Integer),
            ("kernel_shape", Integers),
            ("pads", Integers),
            ("strides", Integers),
        ],
    ),
    operator(
        "AveragePool",
        19..=LAST,
        1..=1,
        &[
            ("auto_pad", Text),
            ("ceil_mode", Integer),
            ("count_include_pad", Integer),
            ("dilations", Integers),
            ("kernel_shape", Integers),
            ("pads", Integers),
            ("strides", Integers),
        ],
    ),
    operator(
        "BatchNormalization",
        FIRST..=8,
        5..=5,
        &[("epsilon", Float), ("momentum", Float), ("spatial", Integer)],
    ),
    operator("BatchNormalization", 9..=13, 5..=5, &[("epsilon", Float), ("momentum", Float)]),
    operator(
        "BatchNormalization",
        14..=LAST,
        5..=5,
        &[("epsilon", Float), ("momentum", Float), ("training_mode", Integer)],
    ),
    operator("Cast", FIRST..=18, 1..=1, &[("to", Integer)]),
    operator("Cast", 19..=23, 1..=1, &[("saturate", Integer), ("to", Integer)]),
    operator(
        "Cast",
        24..=LAST,
        1..=1,
        &[("round_mode", Text), ("saturate", Integer), ("to", Integer)],
    ),
    operator("Concat", FIRST..=LAST, 1..=MANY, &[("axis", Integer)]),
    operator("Constant", FIRST..=11, 0..=0, &[("value", Tensor)]),
    operator(
        "Constant",
        12..=LAST,
        0..=0,
        &[
            ("value", Tensor),
            ("value_float", Float),
            ("value_floats", Floats),
            ("value_int", Integer),
            ("value_ints", Integers),
        ],
    ),
    operator(
        "Conv",
        FIRST..=LAST,
        2..=3,
        &[
            ("auto_pad", Text),
            ("dilations", Integers),
            ("group", Integer),
            ("kernel_shape", Integers),
            ("pads", Integers),
            ("strides", Integers),
        ],
    ),
    operator("Div", FIRST..=LAST, 2..=2, &[]),
    operator("Dropout", FIRST..=11, 1..=1, &[("ratio", Float)]),
    operator("Dropout", 12..=LAST, 1..=3, &[("seed", Integer)]),
    operator("Flatten", FIRST..=LAST, 1..=1, &[("axis", Integer)]),
    operator("Gather", FIRST..=LAST, 2..=2, &[("axis", Integer)]),
    operator("Gelu", 20..=LAST, 1..=1, &[("approximate", Text)]),
    operator(
        "Gemm",
        FIRST..=LAST,
        2..=3,
        &[("alpha", Float), ("beta", Float), ("transA", Integer), ("transB", Integer)],
    ),
    operator("GlobalAveragePool", FIRST..=LAST, 1..=1, &[]),
    operator("Identity", FIRST..=LAST, 1..=1, &[]),
    operator("MatMul", FIRST..=LAST, 2..=2, &[]),
    operator("Mul", FIRST..=LAST, 2..=2, &[]),
    operator("Neg", FIRST..=LAST, 1..=1, &[]),
    operator("Pow", FIRST..=LAST, 2..=2, &[]),
    operator("ReduceMean", FIRST..=17, 1..=1, &[("axes", Integers), ("keepdims", Integer)]),
    operator(
        "ReduceMean",
        18..=LAST,
        1..=2,
        &[("keepdims", Integer), ("noop_with_empty_axes", Integer)],
    ),
    operator("Relu", FIRST..=LAST, 1..=1, &[]),
    operator("Reshape", FIRST..=13, 2..=2, &[]),
    operator("Reshape", 14..=LAST, 2..=2, &[("allowzero", Integer)]),
    operator("Shape", FIRST..=14, 1..=1, &[]),
    operator("Shape", 15..=LAST, 1..=1, &[("end", Integer), ("start", Integer)]),
    operator("Sigmoid", FIRST..=LAST, 1..=1, &[]),
    operator(
        "Slice",
        FIRST..=9,
        1..=1,
        &[("axes", Integers), ("ends", Integers), ("starts", Integers)],
    ),
    operator("Slice", 10..=LAST, 3..=5, &[]),
    operator("Sqrt", FIRST..=LAST, 1..=1, &[]),
    operator("Squeeze", FIRST..=12, 1..=1, &[("axes", Integers)]),
    operator("Squeeze", 13..=LAST, 1..=2, &[]),
    operator("Sub", FIRST..=LAST, 2..=2, &[]),
    operator("Sum", FIRST..=LAST, 1..=MANY, &[]),
    operator("Tanh", FIRST..=LAST, 1..=1, &[]),
    operator("Transpose", FIRST..=LAST, 1..=1, &[("perm", Integers)]),
    operator("Unsqueeze", FIRST..=12, 1..=1, &[("axes", Integers)]),
    operator("Unsqueeze", 13..=LAST, 2..=2, &[]),
];

/// Checks a node. The error has the unsupported feature and a remedy.
pub(super) fn check(node: &Node<'_>, version: i64) -> Result<(), String> {
    let named = || OPERATORS.iter().filter(|operator| operator.name == node.operator);
    let Some(operator) = named().find(|operator| operator.versions.contains(&version)) else {
        return Err(match named().map(|operator| operator.versions.start()).min() {
            Some(first) => format!("it is one of ONNX's operators from version {first} on"),
            None => replacement(&node.operator).into(),
        });
    };
    let inputs = node.inputs.len();
    let required = node.inputs.iter().take(*operator.inputs.start());
    if !operator.inputs.contains(&inputs) || required.clone().any(String::is_empty) {
        return Err(format!(
            "it has the inputs {:?}, but version {version} of the operator has other inputs",
            node.inputs
        ));
    }
    for (number, attribute) in node.attributes.iter().enumerate() {
        let name = &attribute.name;
        let known = operator.attributes.iter().find(|(known, _)| known == name);
        let kind = match attribute.content {
            Content::Float(_) => Some(Float),
            Content::Integer(_) => Some(Integer),
            Content::Text(_) => Some(Text),
            Content::Tensor(_) => Some(Tensor),
            Content::Floats(_) => Some(Floats),
            Content::Integers(_) => Some(Integers),
            Content::Texts(_) | Content::Other => None,
        };
        if known.is_none_or(|&(_, needed)| kind != Some(needed)) {
            return Err(format!(
                "its attribute {name:?} is not read in version {version} of the operator: export the \
                 model without it"
            ));
        }
        if node.attributes.iter().skip(number.saturating_add(1)).any(|other| other.name == *name) {
            return Err(format!("it has the attribute {name:?} twice"));
        }
    }
    Ok(())
}

/// Suggests a replacement for an operator.
fn replacement(operator: &str) -> &'static str {
    match operator {
        "MaxPool" | "GlobalMaxPool" => "AveragePool is a sum, which costs nothing in its layer",
        "Softmax" | "LogSoftmax" | "ArgMax" => {
            "leave it out: the owner applies it to decrypted results"
        }
        "LeakyRelu" | "Elu" | "Selu" | "HardSigmoid" | "Softplus" | "PRelu" | "Clip"
        | "HardSwish" | "Mish" | "Erf" => "use Relu, Gelu, Sigmoid, Tanh or a polynomial",
        "LayerNormalization" | "InstanceNormalization" => {
            "BatchNormalization is a product with constants"
        }
        "LSTM" | "GRU" | "RNN" => "feed-forward layers are possible",
        _ => "use dense and convolutional layers, average pooling, normalisation and activations",
    }
}

impl Node<'_> {
    /// Returns the integer of an attribute, or the default.
    pub(super) fn integer(&self, name: &str, without: i64) -> i64 {
        match self.content(name) {
            Some(Content::Integer(number)) => *number,
            _ => without,
        }
    }

    pub(super) fn integers(&self, name: &str) -> Option<&[i64]> {
        match self.content(name) {
            Some(Content::Integers(numbers)) => Some(numbers),
            _ => None,
        }
    }

    pub(super) fn float(&self, name: &str, without: f64) -> f64 {
        match self.content(name) {
            Some(Content::Float(number)) => *number,
            _ => without,
        }
    }

    pub(super) fn text(&self, name: &str) -> &str {
        match self.content(name) {
            Some(Content::Text(text)) => text,
            _ => "",
        }
    }
}
