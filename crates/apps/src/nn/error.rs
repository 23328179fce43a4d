/// Why a network cannot be read, planned, run or its result be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NnError {
    /// Errors of the engine.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// A layer that cannot be.
    #[error("layer {layer}, {name}: {problem}")]
    Layer {
        /// Its number, from 0.
        layer: usize,
        /// What it is.
        name: &'static str,
        /// What is wrong, and what would work.
        problem: String,
    },
    /// A network that cannot be, or not be planned.
    #[error("the network {problem}")]
    Network {
        /// What is wrong, and what would work.
        problem: String,
    },
    /// A count that is not as the network needs it.
    #[error("found {found} {what}, but {needed} are needed")]
    Shape {
        /// What was counted.
        what: &'static str,
        /// How many were given.
        found: usize,
        /// How many are needed.
        needed: String,
    },
    /// A number that was not foreseen: NaN, infinite, or beyond its calibrated range.
    #[error(
        "{what} {index} of sample {sample} is {found}, outside the calibrated range {least} to \
         {most}: clip or scale it, or calibrate with samples like this one"
    )]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// Its index.
        index: usize,
        /// Of which sample.
        sample: usize,
        /// As found.
        found: f64,
        /// The least that was planned for.
        least: f64,
        /// The most that was planned for.
        most: f64,
    },
    /// No ring has the levels that the network takes at this precision, without bootstrapping.
    #[error(
        "the network takes {levels} levels, {log2_q:.0} bits with special primes, and no ring up to \
         N = 2^{log_n} holds them securely: choose activations of lower degree, fewer layers, or \
         less precision"
    )]
    TooDeep {
        /// Levels that it takes.
        levels: usize,
        /// Bits of the modulus.
        log2_q: f64,
        /// The largest ring.
        log_n: u32,
    },
    /// A function takes more levels than bootstrapping gives.
    #[error(
        "the network must be bootstrapped, and one of its activations takes {needed} levels where \
         bootstrapping leaves {left}: choose a lower degree"
    )]
    DeepActivation {
        /// Levels that it takes.
        needed: u32,
        /// Levels that there are for it.
        left: u32,
    },
    /// Something encrypted, or an evaluator, is not what was planned for.
    #[error("{what}: found {found}, but the plan needs {needed}; use what was made for this plan")]
    NotAsPlanned {
        /// The quantity.
        what: &'static str,
        /// As found.
        found: String,
        /// As needed.
        needed: String,
    },
    /// Bytes that are no ONNX model, or one of a kind that is not read.
    #[error("not a usable ONNX model: {problem}")]
    Onnx {
        /// What is wrong, and what would work.
        problem: String,
    },
    /// An operator of an ONNX model that is not computed on encrypted data, or not as the node has it.
    #[error("the ONNX node {node:?} is {operator:?}, which cannot be encrypted here: {instead}")]
    Operator {
        /// The name of the node.
        node: String,
        /// Its operator.
        operator: String,
        /// What could replace it.
        instead: String,
    },
}

/// Results of this module.
pub type Result<T> = core::result::Result<T, NnError>;

/// Refuses another number of something than needed.
pub(super) fn expect(what: &'static str, found: usize, needed: usize) -> Result<()> {
    match found == needed {
        true => Ok(()),
        false => Err(NnError::Shape { what, found, needed: needed.to_string() }),
    }
}
