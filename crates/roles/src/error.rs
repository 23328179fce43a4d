//! Errors of this crate.

mod index;
mod ledger;
mod pooled;
mod receipt;

pub use index::IndexError;
pub use ledger::LedgerError;
pub use pooled::PooledError;
pub use receipt::ReceiptError;

use crate::{sealed::SealError, text::size};
use std::{
    io,
    path::{Path, PathBuf},
};
use sudare::rlwe::KeyId;
use sudare_apps::{
    array::ArrayError, logreg::TrainError, pool::PoolError, search::SearchError, stats::StatsError,
    trees::TreesError,
};
use sudare_table::{TableError, metrics::MetricError};

/// An error with a message for people. [`Error::kind`] and [`Error::exit_code`] are for programs.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
pub enum Error {
    /// The library refused something.
    #[error(transparent)]
    Library(#[from] sudare::Error),
    /// The library refused a file.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: sudare::Error,
    },
    /// A table cannot be used.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A table in a file cannot be used.
    #[error("{}: {source}", .path.display())]
    TableFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: TableError,
    },
    /// A computation on tables is impossible.
    #[error(transparent)]
    Apps(#[from] sudare_apps::Error),
    /// An operation on arrays is impossible.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// Statistics are impossible.
    #[error(transparent)]
    Stats(#[from] StatsError),
    /// Training in the clear is impossible.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// Owners cannot pool their rows.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// An owner cannot pool the rows in a file.
    #[error("{}: {source}", .path.display())]
    PoolFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: PoolError,
    },
    /// Tables of several owners do not fit together.
    #[error(transparent)]
    Pooled(#[from] PooledError),
    /// A search is impossible.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Trees cannot be computed.
    #[error(transparent)]
    Trees(#[from] TreesError),
    /// A model of trees in a file cannot be used.
    #[error("{}: {source}", .path.display())]
    TreesFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: TreesError,
    },
    /// An index on disk cannot be used.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A secret key cannot be sealed or unsealed.
    #[error("{}: {source}", .path.display())]
    Seal {
        /// The file of the key.
        path: PathBuf,
        /// The reason.
        source: SealError,
    },
    /// A passphrase cannot be used.
    #[error(transparent)]
    Passphrase(#[from] SealError),
    /// A sealed secret key without a passphrase.
    #[error(
        "{} is sealed by a passphrase, but you passed none: run the command on a terminal to enter \
         it, or pass a file descriptor with --passphrase-fd (Python: passphrase=…)",
        .path.display()
    )]
    Sealed {
        /// The file of the key.
        path: PathBuf,
    },
    /// A file that this program did not write.
    #[error("{} is not a valid {what}: {problem}", .path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The expected content.
        what: &'static str,
        /// The problem.
        problem: String,
    },
    /// A metric is undefined.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// Arguments that conflict with each other or with the files.
    #[error("{0}")]
    Usage(String),
    /// A parameter set without bootstrapping, where bootstrapping is needed.
    #[error("{name} has no bootstrapping: choose one of {known}")]
    NoBootstrapping {
        /// Name of the parameter set.
        name: String,
        /// Names of the sets with bootstrapping.
        known: String,
    },
    /// The system has too little free memory.
    #[error(
        "{what} need {} of memory, but only {} are available: {advice}",
        size::bytes(*.needed),
        size::bytes(*.available)
    )]
    Memory {
        /// The objects that need the memory, in the plural.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        available: u64,
        /// The remedy.
        advice: &'static str,
    },
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The attempted operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file would be overwritten.
    #[error(
        "{} exists: choose another name, or replace it permanently with --force (Python: \
         overwrite=True)",
        .path.display()
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The directory of a new file does not exist.
    #[error("cannot write {}: there is no directory {}; create it first", .path.display(), .folder.display())]
    NoFolder {
        /// The file.
        path: PathBuf,
        /// The missing directory.
        folder: PathBuf,
    },
    /// A file where a directory is needed.
    #[error("{} is not a directory: name a directory", .path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// A file changed while it was in use.
    #[error(
        "{} has changed: {problem}; pass the file that this process opened first, or open the new \
         one and use it everywhere",
        .path.display()
    )]
    FileChanged {
        /// The file.
        path: PathBuf,
        /// The change.
        problem: String,
    },
    /// A file with an unexpected digest.
    #[error(
        "{} has the digest {found}, but {expected} was expected: do not use it, and ask its owner \
         for the right file",
        .path.display()
    )]
    OtherFile {
        /// The file.
        path: PathBuf,
        /// The digest of the file, in hexadecimal.
        found: String,
        /// The expected digest.
        expected: String,
    },
    /// A public key that claims to belong to a secret key and does not.
    #[error(
        "the public key claims to belong to key {key}, but the secret key does not decrypt what it \
         encrypts: it is forged; encrypt nothing under it, and use the public key that was made \
         with the secret key"
    )]
    ForgedKey {
        /// The key pair.
        key: KeyId,
    },
    /// A result of other tables than the named ones.
    #[error(
        "{} is not a result of {tables}; it says that it comes from {found}: compute it again from \
         the right table, or decrypt it without naming a table",
        .path.display()
    )]
    OtherTable {
        /// The file of the result.
        path: PathBuf,
        /// The named tables.
        tables: String,
        /// The tables that the result names.
        found: String,
    },
    /// A directory or a device where a file is needed.
    #[error("{} is not a regular file: name a file", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Another process writes to a directory of training states or to an index.
    #[error(
        "{} is in use by another process: wait until it ends, or choose another directory",
        .folder.display()
    )]
    InUse {
        /// The directory.
        folder: PathBuf,
    },
    /// The state of a training cannot be written.
    #[error(
        "cannot store the state after iteration {iterations}: {source}; the earlier states in {} \
         are intact: free some space and continue with --resume (Python: resume=True)",
        .folder.display()
    )]
    Checkpoint {
        /// Iterations done.
        iterations: u32,
        /// The directory of states.
        folder: PathBuf,
        /// The reason.
        source: Box<Error>,
    },
    /// A ledger of releases cannot be used.
    #[error("{}: {source}", .path.display())]
    Ledger {
        /// The file of the ledger.
        path: PathBuf,
        /// The reason.
        source: LedgerError,
    },
    /// A release cannot be counted.
    #[error(
        "nothing is released, because the release cannot be counted: {source}; you need write \
         access to the directory of the secret key, with 64 KiB of free space"
    )]
    NotCounted {
        /// The reason.
        source: Box<Error>,
    },
    /// A key has no releases left.
    #[error(
        "{} has counted {counted} releases of this key; {needed} more are requested, but its noise \
         hides only {limit}: make new keys, encrypt and compute again; you can repeat earlier \
         releases",
        .ledger.display()
    )]
    ReleasesSpent {
        /// The ledger.
        ledger: PathBuf,
        /// Releases counted so far.
        counted: u64,
        /// Releases requested.
        needed: u64,
        /// Maximum releases of the key.
        limit: u64,
    },
    /// A receipt is invalid.
    #[error("the receipt of the result cannot be used: {0}")]
    Receipt(#[from] ReceiptError),
    /// A receipt in a file is invalid.
    #[error("{}: {source}", .path.display())]
    ReceiptFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: ReceiptError,
    },
    /// A service refused a request, or could not do a job.
    #[error("the server says: {detail}")]
    Refused {
        /// The server's name for the error, as in [`Error::kind`].
        kind: String,
        /// The server's message.
        detail: String,
    },
    /// A service cannot be reached.
    #[error("cannot reach {url}: {problem}; run the command again: it continues where it stopped")]
    Unreachable {
        /// The address of the service.
        url: String,
        /// The problem.
        problem: String,
    },
    /// A service cannot be used, for a reason that does not pass by itself.
    #[error("cannot connect to {url}: {problem}")]
    NoConnection {
        /// The address of the service.
        url: String,
        /// The problem and its remedy.
        problem: String,
    },
    /// A measured or tested operation gave a wrong result.
    #[error("wrong result: {0}; please report this with the output of `sudare doctor`")]
    WrongResult(String),
    /// An internal invariant does not hold.
    #[error("{0}; this is a bug, please report it with the output of `sudare doctor`")]
    Bug(String),
    /// The result cannot be written to the standard output.
    #[error("cannot write the result to the standard output: {0}")]
    Stdout(io::Error),
}

/// A result with the error of this crate.
pub type Result<T> = core::result::Result<T, Error>;

/// Exit status for a bug or a wrong result.
pub const BUG: u8 = 1;
/// Exit status for a mistake of the user.
pub const MISTAKE: u8 = 2;

impl Error {
    /// Creates the error for a file at `path` on which the operating system refused `action`.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }

    /// Attributes an error to the file at `path`.
    pub fn in_file(path: &Path) -> impl Fn(sudare::Error) -> Self {
        move |source| Self::File { path: path.into(), source }
    }

    /// Attributes an error to the secret key in the file at `path`.
    pub fn in_sealed(path: &Path) -> impl Fn(SealError) -> Self {
        move |source| match source {
            // A damaged file inside the seal is a bad file to the reader, not a bad passphrase.
            SealError::Library(source) => Self::File { path: path.into(), source },
            _ => Self::Seal { path: path.into(), source },
        }
    }

    /// Attributes an error to the table in the file at `path`.
    pub fn in_table(path: &Path) -> impl Fn(TableError) -> Self {
        move |source| match source {
            // This error already names the file.
            TableError::Read { .. } => Self::Table(source),
            _ => Self::TableFile { path: path.into(), source },
        }
    }

    /// Attributes an error to the model of trees in the file at `path`.
    pub fn in_trees(path: &Path) -> impl Fn(TreesError) -> Self {
        move |source| match source {
            TreesError::Library(source) => Self::File { path: path.into(), source },
            _ => Self::TreesFile { path: path.into(), source },
        }
    }

    /// Attributes an error to the receipt in the file at `path`.
    pub fn in_receipt(path: &Path) -> impl Fn(ReceiptError) -> Self {
        move |source| Self::ReceiptFile { path: path.into(), source }
    }

    /// Returns the exit status of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::WrongResult(_) | Self::Bug(_) => BUG,
            // The reader of the pipe, such as `head`, has all that it wants.
            Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            _ => MISTAKE,
        }
    }

    /// Returns a stable identifier of the error: the name of its variant, after a prefix for errors of some areas.
    pub fn kind(&self) -> String {
        match self {
            // The same failure has the same name at every layer, so that programs match one
            // identifier.
            Self::Library(sudare::Error::Expression { source, .. }) => name(&**source),
            Self::Library(error) | Self::File { source: error, .. } => name(error),
            Self::Table(error) | Self::TableFile { source: error, .. } => name(error),
            Self::Apps(sudare_apps::Error::Library(error))
            | Self::Stats(StatsError::Library(error)) => name(error),
            Self::Apps(sudare_apps::Error::Table(error)) => name(error),
            Self::Apps(sudare_apps::Error::Train(error)) | Self::Train(error) => name(error),
            Self::Apps(error) => name(error),
            Self::Array(ArrayError::Library(error)) => name(error),
            Self::Array(error) => name(error),
            Self::Stats(error) => name(error),
            Self::Pool(PoolError::Library(error)) => name(error),
            Self::Pool(PoolError::Table(error)) => name(error),
            Self::Pool(error) | Self::PoolFile { source: error, .. } => {
                // Prefixed, because crates use the same variant names for different remedies.
                format!("Pool{}", name(error))
            }
            Self::Pooled(error) => format!("Pooled{}", name(error)),
            Self::Search(SearchError::Library(error)) => name(error),
            Self::Search(error) => format!("Search{}", name(error)),
            Self::Trees(TreesError::Library(error))
            | Self::TreesFile { source: TreesError::Library(error), .. } => name(error),
            Self::Trees(error) | Self::TreesFile { source: error, .. } => {
                format!("Trees{}", name(error))
            }
            Self::Index(error) => name(error),
            Self::Ledger { source, .. } => format!("Ledger{}", name(source)),
            // A damaged ledger has a remedy of its own, which the outer error would hide.
            Self::NotCounted { source } if matches!(**source, Self::Ledger { .. }) => source.kind(),
            Self::Metric(error) => name(error),
            Self::Receipt(error) | Self::ReceiptFile { source: error, .. } => {
                format!("Receipt{}", name(error))
            }
            // The server's own name: a client handles a remote failure like a local one.
            Self::Refused { kind, .. } => kind.clone(),
            Self::Passphrase(SealError::Library(error)) => name(error),
            Self::Passphrase(error) | Self::Seal { source: error, .. } => name(error),
            _ => name(self),
        }
    }
}

/// Returns the name of the variant.
fn name<'a, E>(error: &'a E) -> String
where
    &'static str: From<&'a E>,
{
    <&str>::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use strum::VariantNames;
    use sudare_apps::{array::ArrayError, nn::NnError};

    /// Kinds are public: in the JSON of the command and the service, and in Python as `error.kind`.
    /// Add new ones to the file, and to a class of `python/sudare/errors.py`.
    #[test]
    fn kinds_are_those_of_the_file() {
        // With a prefix, without the variants whose errors inside say the kind.
        let enums: [(&str, &[&str], &[&str]); 17] = [
            ("", sudare::Error::VARIANTS, &["Expression"]),
            ("", TableError::VARIANTS, &[]),
            ("", sudare_apps::Error::VARIANTS, &["Library", "Table", "Train"]),
            ("", StatsError::VARIANTS, &["Library"]),
            ("", TrainError::VARIANTS, &[]),
            ("", ArrayError::VARIANTS, &["Library"]),
            ("Nn", NnError::VARIANTS, &["Library"]),
            ("Pool", PoolError::VARIANTS, &[]),
            ("Pooled", PooledError::VARIANTS, &[]),
            ("Search", SearchError::VARIANTS, &["Library"]),
            ("Trees", TreesError::VARIANTS, &["Library"]),
            ("", IndexError::VARIANTS, &[]),
            ("Ledger", LedgerError::VARIANTS, &[]),
            ("", MetricError::VARIANTS, &[]),
            ("Receipt", ReceiptError::VARIANTS, &[]),
            ("", SealError::VARIANTS, &["Library"]),
            (
                "",
                Error::VARIANTS,
                &[
                    "Apps",
                    "File",
                    "Index",
                    "Ledger",
                    "Library",
                    "Metric",
                    "Passphrase",
                    "Pool",
                    "PoolFile",
                    "Pooled",
                    "Receipt",
                    "ReceiptFile",
                    "Seal",
                    "Search",
                    "Stats",
                    "Table",
                    "TableFile",
                    "Train",
                    "Trees",
                    "TreesFile",
                ],
            ),
        ];
        let kinds: BTreeSet<String> = enums
            .iter()
            .flat_map(|(prefix, names, inside)| {
                let own = names.iter().filter(|name| !inside.contains(name));
                own.map(move |name| format!("{prefix}{name}"))
            })
            .collect();
        let file: BTreeSet<String> =
            include_str!("error/kinds.txt").lines().map(Into::into).collect();
        assert_eq!(kinds, file);
    }

    #[test]
    fn kinds_and_codes() {
        let library = || sudare::Error::UnknownPreset { name: "x".into(), known: String::new() };
        assert_eq!(Error::from(library()).kind(), "UnknownPreset");
        let in_file = Error::in_file(Path::new("a.ct"))(library());
        assert_eq!((in_file.kind().as_str(), in_file.exit_code()), ("UnknownPreset", 2));
        assert!(in_file.to_string().starts_with("a.ct: "));
        assert_eq!(Error::Bug("x".into()).exit_code(), 1);
        assert_eq!(Error::Usage("x".into()).kind(), "Usage");
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Error::Stdout(gone()).exit_code(), 0);
        assert_eq!(Error::io("read", Path::new("a"), gone()).exit_code(), 2);
    }
}
