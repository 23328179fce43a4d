use std::path::PathBuf;

/// Tables of several owners, or their sums, that do not fit together.
#[derive(
    Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames,
)]
pub enum PooledError {
    /// A table that was encrypted on its own, among tables of several owners.
    #[error(
        "{} was encrypted on its own, but the other tables were encrypted with a common transform: encrypt each \
         table with --transform",
        .path.display()
    )]
    Alone {
        /// The file.
        path: PathBuf,
    },
    /// Several tables for a job on one table.
    #[error(
        "found {found} tables, but the job is for one table: make keys for several owners \
         with --schema, or pass one table"
    )]
    Single {
        /// Number of given tables.
        found: usize,
    },
    /// A table of another schema.
    #[error("{} has another schema than {}: all owners need the same schema", .path.display(), .other.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// A file of the other schema.
        other: PathBuf,
    },
    /// A table that was prepared by another transform.
    #[error(
        "{} was prepared by another transform than {}: encrypt all tables with the latest \
         transform from the holder of the key",
        .path.display(),
        .other.display()
    )]
    Transform {
        /// The file.
        path: PathBuf,
        /// A file of the other transform.
        other: PathBuf,
    },
    /// Two files of the same owner.
    #[error("{} belongs to {owner:?}, and so does another file: pass one file of each owner", .path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The owner.
        owner: String,
    },
    /// An owner without a file.
    #[error(
        "there is no file of {}: pass the files of all owners, or start over with a schema without \
         them",
        .owners.join(", ")
    )]
    Missing {
        /// The owners.
        owners: Vec<String>,
    },
}
