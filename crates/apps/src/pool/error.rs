//! Why owners cannot pool their rows.

use sudare_table::{Place, TableError};

/// Why owners cannot pool their rows.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Errors of the engine.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// A table cannot be coded by the schema.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A document is no schema, or what it says cannot be.
    #[error("this is no schema of a pool: {problem}; correct it, and give it to all owners again")]
    Schema {
        /// What is wrong.
        problem: String,
    },
    /// Missing values are to be filled by a mean.
    #[error(
        "missing values of a pool cannot be filled by means, which nobody knows beforehand: \
         refuse them, drop their rows, or flag them"
    )]
    FilledByMean,
    /// The schema has no such owner.
    #[error("there is no owner {owner:?} in the schema; its owners are {owners}")]
    UnknownOwner {
        /// The name, or the index, of the wanted owner.
        owner: String,
        /// The owners, or the first of them.
        owners: String,
    },
    /// A value is missing in a column where the schema has none missing.
    #[error(
        "{place}, column {column:?}: the value is missing, but by the schema this column lacks \
         none; fill it, drop the row, or agree on a schema with \"missing\": true for the column"
    )]
    Missing {
        /// Row of the cell.
        place: Place,
        /// Its column.
        column: String,
    },
    /// A value lies outside the bounds of its column.
    #[error(
        "{place}, column {column:?}: found {found:?}, but the schema has values from {low} to \
         {high}; correct it, drop the row, or agree on a schema with wider bounds"
    )]
    OutOfBounds {
        /// Row of the cell.
        place: Place,
        /// Its column.
        column: String,
        /// The value.
        found: f64,
        /// The least value of the schema.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// A table was not coded by the schema.
    #[error("the table has other {what} than the schema: code it by `Schema::apply`")]
    OtherTable {
        /// What differs.
        what: &'static str,
    },
    /// Sums, or what is encrypted of them, are of another schema or plan.
    #[error(
        "{what} are not of this schema and plan: all owners and the holder of the key must use \
         one schema, and sum with or without classes for as many rows"
    )]
    OtherSchema {
        /// What differs.
        what: String,
    },
    /// More or fewer than a pool can have.
    #[error("found {found} {what}, but {least} to {most} are possible here")]
    Count {
        /// What was counted.
        what: &'static str,
        /// How many there are.
        found: u128,
        /// The fewest that are possible.
        least: u128,
        /// The most.
        most: u128,
    },
    /// No level of the parameters has room for the sums.
    #[error(
        "sums of {owners} owners need a modulus of {needed:.0} bits or more, the largest of these \
         parameters (N = 2^{log_n}) has {found:.0}: choose parameters with larger primes or a \
         smaller ring"
    )]
    ParamsTooSmall {
        /// Owners.
        owners: usize,
        /// `log2(N)` of the ring.
        log_n: u32,
        /// `log2` of the modulus that is needed at least.
        needed: f64,
        /// `log2` of the largest modulus of the parameters.
        found: f64,
    },
    /// The ring has too few slots.
    #[error(
        "a ciphertext has {found} slots, but more than {needed} are needed: choose a larger ring"
    )]
    RingTooSmall {
        /// Slots of a ciphertext.
        found: usize,
        /// Slots that each ciphertext has for its marks.
        needed: usize,
    },
    /// Something encrypted or decrypted is not as planned.
    #[error("{what}: found {found}, but the plan needs {needed}; use what was made for this plan")]
    NotAsPlanned {
        /// The quantity.
        what: &'static str,
        /// As found.
        found: String,
        /// As needed.
        needed: String,
    },
    /// The total lacks an owner's sums.
    #[error("the total lacks the sums of owner {owner:?}: add them, then decrypt the new total")]
    OwnerMissing {
        /// The first owner that is missing.
        owner: String,
    },
    /// The total has an owner's sums more than once.
    #[error(
        "the total has the sums of owner {owner:?} {times} times: add those of each owner once, \
         then decrypt the new total"
    )]
    OwnerRepeated {
        /// The first owner that is repeated.
        owner: String,
        /// How often it is in the total.
        times: u64,
    },
    /// What was decrypted is no total.
    #[error(
        "this is no intact total of sums: {problem}; add what the owners sent again, and decrypt \
         it with the key that they encrypted for"
    )]
    Damaged {
        /// What is wrong.
        problem: String,
    },
    /// Rows are to weigh by classes that were not summed apart.
    #[error(
        "the sums are of all classes together, so that rows cannot weigh by their class: plan sums \
         by class"
    )]
    NotByClass,
    /// Weights of classes that rows cannot have.
    #[error(
        "the rows of class {class} weigh {found} each: weights must be finite and not negative, \
         and some rows must weigh more than nothing"
    )]
    RowWeight {
        /// Index of the class.
        class: usize,
        /// The weight.
        found: f64,
    },
}
