use std::path::PathBuf;

/// Why the tables of several owners, or their sums, do not go together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PooledError {
    /// A table of one owner among those of several.
    #[error(
        "{} was encrypted by itself, the others by what their owners have in common: encrypt each \
         with --transform",
        .path.display()
    )]
    Alone {
        /// The file.
        path: PathBuf,
    },
    /// Several tables that are for themselves.
    #[error(
        "{found} tables are given, but they are of jobs for one table: make keys for several owners \
         with --schema, or give one table"
    )]
    Single {
        /// Tables given.
        found: usize,
    },
    /// A table of other columns, units or owners.
    #[error("{} is of another schema than {}: all owners need the same one", .path.display(), .other.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Another.
        other: PathBuf,
    },
    /// A table whose rows were prepared otherwise.
    #[error(
        "{} was prepared by another transform than {}: encrypt all tables by the one that the \
         holder of the key made last",
        .path.display(),
        .other.display()
    )]
    Transform {
        /// The file.
        path: PathBuf,
        /// Another.
        other: PathBuf,
    },
    /// The same owner twice.
    #[error("{} is of {owner:?}, of whom another file is given: give one file of each owner", .path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The owner.
        owner: String,
    },
    /// Somebody whom the others count on.
    #[error(
        "nothing is given of {}: name the files of all owners, or begin with a schema without them",
        .owners.join(", ")
    )]
    Missing {
        /// The owners.
        owners: Vec<String>,
    },
}
