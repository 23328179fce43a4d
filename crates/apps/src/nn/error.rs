/// Errors of reading, planning or running a network, or of using its result.
#[derive(Debug, Clone, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[non_exhaustive]
pub enum NnError {
    /// Error of the underlying library.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// A layer is invalid.
    #[error("layer {layer}, {name}: {problem}")]
    Layer {
        /// The number of the layer, from 0.
        layer: usize,
        /// The kind of the layer.
        name: &'static str,
        /// The problem, and its remedy.
        problem: String,
    },
    /// A network is invalid, or cannot be planned.
    #[error("the network {problem}")]
    Network {
        /// The problem, and its remedy.
        problem: String,
    },
    /// A count differs from the network's.
    #[error("found {found} {what}, but the network needs {needed}")]
    Shape {
        /// The counted quantity.
        what: &'static str,
        /// The count passed.
        found: usize,
        /// The count needed.
        needed: String,
    },
    /// A number is NaN, infinite, or outside its calibrated range.
    #[error(
        "{what} {index} of sample {sample} is {found}, outside the calibrated range {least} to \
         {most}: clip or scale it, or calibrate with samples like this one"
    )]
    OutOfRange {
        /// The kind of the number.
        what: &'static str,
        /// The index of the number.
        index: usize,
        /// The index of the sample.
        sample: usize,
        /// The number found.
        found: f64,
        /// The minimum of the plan.
        least: f64,
        /// The maximum of the plan.
        most: f64,
    },
    /// Without bootstrapping, no ring has enough levels for the network at this precision.
    #[error(
        "the network needs {levels} levels, {log2_q:.0} bits with special primes, but no ring up to \
         N = 2^{log_n} holds them securely: choose activations of lower degree, fewer layers, or \
         less precision"
    )]
    TooDeep {
        /// Levels of the network.
        levels: usize,
        /// Bits of the modulus.
        log2_q: f64,
        /// The largest ring.
        log_n: u32,
    },
    /// An activation takes more levels than bootstrapping leaves.
    #[error(
        "an activation needs {needed} levels, but bootstrapping leaves {left}, and the network is \
         too deep without bootstrapping: choose an activation of lower degree"
    )]
    DeepActivation {
        /// Levels of the activation.
        needed: u32,
        /// Levels available.
        left: u32,
    },
    /// A ciphertext or an evaluator differs from the plan.
    #[error("{what}: found {found}, but the plan needs {needed}; use objects made for this plan")]
    NotAsPlanned {
        /// The quantity.
        what: &'static str,
        /// The value found.
        found: String,
        /// The value planned.
        needed: String,
    },
    /// Bytes are not an ONNX model, or not a supported one.
    #[error("this is not a usable ONNX model: {problem}")]
    Onnx {
        /// The problem, and its remedy.
        problem: String,
    },
    /// An operator of an ONNX model is not supported on encrypted data, or not in the form of the
    /// node.
    #[error(
        "the ONNX node {node:?} has the operator {operator:?}, which cannot be computed on encrypted data: \
         {instead}"
    )]
    Operator {
        /// The name of the node.
        node: String,
        /// The operator of the node.
        operator: String,
        /// A replacement.
        instead: String,
    },
}

/// Results of this module.
pub type Result<T> = core::result::Result<T, NnError>;

/// Rejects a count that differs from the one needed.
pub(super) fn expect(what: &'static str, found: usize, needed: usize) -> Result<()> {
    match found == needed {
        true => Ok(()),
        false => Err(NnError::Shape { what, found, needed: needed.to_string() }),
    }
}
