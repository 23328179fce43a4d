/// Errors of planning, building or searching an index, and of reading an answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[non_exhaustive]
pub enum SearchError {
    /// Error of the underlying library.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// A count is out of range.
    #[error("found {found} {what}, but {least} to {most} are possible")]
    Count {
        /// The counted quantity.
        what: &'static str,
        /// The count found.
        found: usize,
        /// The minimum.
        least: usize,
        /// The maximum.
        most: usize,
    },
    /// A number is out of the range of its quantity.
    #[error("{what} of {found}: {needed}")]
    Number {
        /// The quantity.
        what: &'static str,
        /// The number found.
        found: f64,
        /// The allowed values.
        needed: String,
    },
    /// A count differs from the plan.
    #[error("found {found} {what}, but the plan needs {needed}: use objects made for this plan")]
    Shape {
        /// The counted quantity.
        what: &'static str,
        /// The number passed.
        found: usize,
        /// The number planned.
        needed: usize,
    },
    /// A vector cannot be compared with others.
    #[error("{place}: {problem}")]
    Vector {
        /// The query, or the row of a record.
        place: Place,
        /// The problem, and its remedy.
        problem: String,
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
    /// The index or its parameters were made for other answers or another mode.
    #[error("the index was planned for {planned}, not for {asked}: make a plan for {asked}")]
    NotPlanned {
        /// The answer or mode requested.
        asked: &'static str,
        /// The answer or mode planned.
        planned: &'static str,
    },
    /// Blocks were added out of order.
    #[error("found block {found} in place of block {needed}: add each block once, in order from 0")]
    BlockOrder {
        /// The block passed.
        found: usize,
        /// The block expected next.
        needed: usize,
    },
    /// The parameters have too few levels for the answer.
    #[error(
        "the answer needs {needed} levels, but the parameters have {found}: use parameters made \
         for the plan"
    )]
    TooFewLevels {
        /// Levels of the parameters.
        found: u32,
        /// Levels of the answer.
        needed: u32,
    },
    /// The primes or the margin are too small for a correct answer.
    #[error(
        "the error of {what} would be {found:.1e}, but at most {needed:.1e} is allowed: use the \
         parameters made for the plan, or a wider margin"
    )]
    Precision {
        /// The quantity.
        what: &'static str,
        /// The error of the quantity.
        found: f64,
        /// The largest tolerable error.
        needed: f64,
    },
    /// A part of the index could not be read.
    #[error("part {part} of block {block} of the index cannot be read: {problem}")]
    Unreadable {
        /// The block.
        block: usize,
        /// The ciphertext in the block.
        part: usize,
        /// The cause.
        problem: String,
    },
}

/// The vector that an error refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The query.
    Query,
    /// The vector of a record, counted from the first record of the index.
    Row(usize),
}

impl core::fmt::Display for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Query => f.write_str("the query"),
            Self::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// Results of this module.
pub type Result<T> = core::result::Result<T, SearchError>;

/// Rejects a count that differs from the plan.
pub(super) fn expect(what: &'static str, found: usize, needed: usize) -> Result<()> {
    if found == needed { Ok(()) } else { Err(SearchError::Shape { what, found, needed }) }
}

/// Rejects an error that is too large or NaN.
pub(super) fn check_precision(what: &'static str, found: f64, needed: f64) -> Result<()> {
    match found <= needed {
        true => Ok(()),
        false => Err(SearchError::Precision { what, found, needed }),
    }
}
