/// Why an index cannot be planned, built, searched or an answer read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// Errors of the engine.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// A count that no index has.
    #[error("found {found} {what}; {least} to {most} are possible")]
    Count {
        /// What was counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// The fewest that are possible.
        least: usize,
        /// The most that are possible.
        most: usize,
    },
    /// A number that has no meaning in its place.
    #[error("{what} of {found}: {needed}")]
    Number {
        /// The quantity.
        what: &'static str,
        /// As found.
        found: f64,
        /// What it may be.
        needed: String,
    },
    /// Something has another shape than planned.
    #[error("found {found} {what}, but the plan needs {needed}: use what was made for this plan")]
    Shape {
        /// What was counted.
        what: &'static str,
        /// How many were given.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// A vector that cannot be compared with others.
    #[error("{place}: {problem}")]
    Vector {
        /// Which one.
        place: Place,
        /// What is wrong, and what would work.
        problem: String,
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
    /// The index or its parameters were made for other answers or another mode.
    #[error("{asked} was asked for, but the index was planned for {planned}: plan for it")]
    NotPlanned {
        /// What was asked for.
        asked: &'static str,
        /// What was planned.
        planned: &'static str,
    },
    /// Blocks come in another order than theirs.
    #[error("block {found} was given in place of block {needed}: give each once, from 0 on")]
    BlockOrder {
        /// The one that was given.
        found: usize,
        /// The one that is next.
        needed: usize,
    },
    /// The parameters have too few levels.
    #[error(
        "the answer takes {needed} levels, the parameters have {found}: use those made for the plan"
    )]
    TooFewLevels {
        /// Levels of the parameters.
        found: u32,
        /// Levels that it takes.
        needed: u32,
    },
    /// The primes are too small, or the margin is, for a right answer.
    #[error(
        "{what} would be off by {found:.1e}, but at most {needed:.1e} is possible: use the \
         parameters made for the plan, or a wider margin"
    )]
    Precision {
        /// The quantity.
        what: &'static str,
        /// Its error.
        found: f64,
        /// The largest tolerable one.
        needed: f64,
    },
    /// A part of the index could not be read.
    #[error("part {part} of block {block} of the index could not be read: {problem}")]
    Unreadable {
        /// The block.
        block: usize,
        /// The ciphertext in it.
        part: usize,
        /// What went wrong.
        problem: String,
    },
}

/// Which vector something is said about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The query.
    Query,
    /// That of a record, counted from the first of the index.
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

/// Refuses another number of something than planned.
pub(super) fn expect(what: &'static str, found: usize, needed: usize) -> Result<()> {
    if found == needed { Ok(()) } else { Err(SearchError::Shape { what, found, needed }) }
}

/// Refuses an error that is too large, or not a number.
pub(super) fn check_precision(what: &'static str, found: f64, needed: f64) -> Result<()> {
    match found <= needed {
        true => Ok(()),
        false => Err(SearchError::Precision { what, found, needed }),
    }
}
