/// Errors of reading, planning or running trees, or of using their results.
#[derive(Debug, Clone, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[non_exhaustive]
pub enum TreesError {
    /// Error of the underlying library.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// A file is not a model of trees that can be computed.
    #[error("this is not a usable {format} model: {problem}")]
    Format {
        /// The format of the file.
        format: &'static str,
        /// The problem, and its remedy.
        problem: String,
    },
    /// A model is invalid, or cannot be planned.
    #[error("the model {problem}")]
    Forest {
        /// The problem, and its remedy.
        problem: String,
    },
    /// A tree of a model is invalid.
    #[error("tree {tree}, node {node}: {problem}")]
    Node {
        /// The number of the tree, from 0.
        tree: usize,
        /// The number of the node, from 0.
        node: usize,
        /// The problem, and its remedy.
        problem: String,
    },
    /// The grid of a feature is invalid.
    #[error("feature {feature:?}: {problem}")]
    Grid {
        /// The name of the feature.
        feature: String,
        /// The problem, and its remedy.
        problem: String,
    },
    /// A number of a row is not on the grid of its feature.
    #[error(
        "feature {feature:?} of row {row} is {found}, but its grid has numbers from {least} to {most}: \
         clamp the rows, or plan with a wider grid"
    )]
    Row {
        /// The name of the feature.
        feature: String,
        /// The number of the row, from 0.
        row: usize,
        /// The number found, or NaN for a missing one.
        found: f64,
        /// The least point of the grid.
        least: f64,
        /// The greatest point of the grid.
        most: f64,
    },
    /// A count differs from the plan.
    #[error("found {found} {what}, but {needed} are needed: use objects made for this model")]
    Count {
        /// The counted quantity.
        what: &'static str,
        /// The count passed.
        found: usize,
        /// The count needed.
        needed: usize,
    },
    /// No ring has enough levels for the trees.
    #[error(
        "trees of height {height} on features of {digits} digits need {levels} levels, but no ring \
         holds them securely: limit the depth of the trees, or plan with fewer digits"
    )]
    TooDeep {
        /// The height of the highest tree.
        height: usize,
        /// The most digits of a feature.
        digits: usize,
        /// Levels of the circuit.
        levels: u32,
    },
    /// No plaintext modulus rounds the leaves that finely.
    #[error(
        "leaves cannot be rounded within {tolerance}: the least error is {least}; choose a larger \
         tolerance"
    )]
    Tolerance {
        /// The tolerance asked for.
        tolerance: f64,
        /// The error under the largest modulus.
        least: f64,
    },
    /// A model or ciphertexts differ from the plan.
    #[error("{what}: found {found}, but the plan needs {needed}; use objects made for this plan")]
    NotAsPlanned {
        /// The quantity.
        what: &'static str,
        /// The value found.
        found: String,
        /// The value planned.
        needed: String,
    },
}

/// Results of this module.
pub type Result<T> = core::result::Result<T, TreesError>;

/// Rejects a count that differs from the one needed.
pub(super) fn expect(what: &'static str, found: usize, needed: usize) -> Result<()> {
    match found == needed {
        true => Ok(()),
        false => Err(TreesError::Count { what, found, needed }),
    }
}

/// Rejects a node of a tree.
pub(super) fn bad_node<T>(tree: usize, node: usize, problem: impl Into<String>) -> Result<T> {
    Err(TreesError::Node { tree, node, problem: problem.into() })
}
