//! Errors of pooling the rows of several owners.

use sudare_table::{Place, TableError};

/// Errors of pooling the rows of several owners.
#[derive(Debug, Clone, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[non_exhaustive]
pub enum PoolError {
    /// Error of the underlying library.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// The schema cannot encode a table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A document is not a schema, or describes an impossible one.
    #[error(
        "this is not a schema of a pool: {problem}; correct it, and send it to all owners again"
    )]
    Schema {
        /// The problem, and its remedy.
        problem: String,
    },
    /// The schema fills missing values by a mean.
    #[error(
        "missing values of a pool cannot be filled by means, which are unknown until all rows are \
         summed: refuse them, drop their rows, or flag them"
    )]
    FilledByMean,
    /// The schema has no owner of this name or index.
    #[error("there is no owner {owner:?} in the schema; its owners are {owners}")]
    UnknownOwner {
        /// The name or the index.
        owner: String,
        /// The owners, or the first of them.
        owners: String,
    },
    /// A value is missing in a column that has no missing values by the schema.
    #[error(
        "{place}, column {column:?}: the value is missing, but the schema allows no missing values \
         in this column; fill it, drop the row, or agree on a schema with \"missing\": true for \
         the column"
    )]
    Missing {
        /// Row of the cell.
        place: Place,
        /// The column of the cell.
        column: String,
    },
    /// A value is outside the bounds of its column.
    #[error(
        "{place}, column {column:?}: found {found:?}, but the schema allows values from {low} to \
         {high}; correct it, drop the row, or agree on a schema with wider bounds"
    )]
    OutOfBounds {
        /// Row of the cell.
        place: Place,
        /// The column of the cell.
        column: String,
        /// The value.
        found: f64,
        /// The lower bound of the schema.
        low: f64,
        /// The upper bound.
        high: f64,
    },
    /// The table was not encoded by the schema.
    #[error("the table has other {what} than the schema: encode it with `Schema::apply`")]
    OtherTable {
        /// The difference.
        what: &'static str,
    },
    /// Sums or their ciphertexts belong to another schema or plan.
    #[error(
        "{what} do not belong to this schema and plan: all owners and the holder of the key must \
         use the same schema and the same number of rows, all with or all without classes"
    )]
    OtherSchema {
        /// The difference.
        what: String,
    },
    /// A count is out of the range of a pool.
    #[error("found {found} {what}, but {least} to {most} are possible here")]
    Count {
        /// The counted quantity.
        what: &'static str,
        /// The count found.
        found: u128,
        /// The minimum.
        least: u128,
        /// The maximum.
        most: u128,
    },
    /// No level of the parameters has room for the sums.
    #[error(
        "sums of {owners} owners need a modulus of {needed:.0} bits or more, but the largest of \
         these parameters (N = 2^{log_n}) has {found:.0}: choose parameters with larger primes or \
         a smaller ring"
    )]
    ParamsTooSmall {
        /// Number of owners.
        owners: usize,
        /// `log2(N)` of the ring.
        log_n: u32,
        /// `log2` of the minimum modulus.
        needed: f64,
        /// `log2` of the largest modulus of the parameters.
        found: f64,
    },
    /// The ring has too few slots.
    #[error(
        "a ciphertext has {found} slots, but {needed} are reserved for marks, so more are needed: choose \
         a larger ring"
    )]
    RingTooSmall {
        /// Slots of a ciphertext.
        found: usize,
        /// Slots of each ciphertext that are reserved for marks.
        needed: usize,
    },
    /// A ciphertext or a decrypted vector differs from the plan.
    #[error("{what}: found {found}, but the plan needs {needed}; use objects made for this plan")]
    NotAsPlanned {
        /// The quantity.
        what: &'static str,
        /// The value found.
        found: String,
        /// The value planned.
        needed: String,
    },
    /// The total lacks an owner's sums.
    #[error("the total lacks the sums of owner {owner:?}: add them, then decrypt the new total")]
    OwnerMissing {
        /// The first missing owner.
        owner: String,
    },
    /// The total contains an owner's sums more than once.
    #[error(
        "the total has the sums of owner {owner:?} {times} times: add the sums of each owner once, \
         then decrypt the new total"
    )]
    OwnerRepeated {
        /// The first repeated owner.
        owner: String,
        /// The number of times that the owner is in the total.
        times: u64,
    },
    /// The decrypted slots are not a total.
    #[error(
        "this is not an intact total of sums: {problem}; add the owners' ciphertexts again, and \
         decrypt the total with the key that they encrypted for"
    )]
    Damaged {
        /// The problem.
        problem: String,
    },
    /// Rows are weighted by class, but the sums do not separate classes.
    #[error(
        "the sums do not separate classes, so they cannot weight rows by class: plan sums by class"
    )]
    NotByClass,
    /// The weight of a class is not allowed.
    #[error(
        "the rows of class {class} weigh {found} each: weights must be finite and not negative, \
         and some rows must have a positive weight"
    )]
    RowWeight {
        /// Index of the class.
        class: usize,
        /// The weight.
        found: f64,
    },
}
