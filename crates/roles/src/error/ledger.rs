use sudare::rlwe::KeyId;

/// An invalid ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A damaged ledger, or another file.
    #[error(
        "it is no ledger of releases, or a damaged one: {problem}; restore the last copy of it, or \
         make new keys, since how many results of this key others have seen is not known"
    )]
    Malformed {
        /// The problem.
        problem: String,
    },
    /// A ledger in another version of the format.
    #[error(
        "it is a ledger of releases of version {found}, this program reads {supported}: release \
         with the program that wrote it"
    )]
    Version {
        /// The version of the file.
        found: u32,
        /// The version of this program.
        supported: u32,
    },
    /// The ledger of another key.
    #[error(
        "it counts releases of the key {found}, not of {expected}: put the ledger of this key in \
         its place"
    )]
    OtherKey {
        /// The key of the ledger.
        found: KeyId,
        /// The key of the result.
        expected: KeyId,
    },
    /// An earlier copy of the ledger.
    #[error(
        "it is older than it was: it has {found} releases of the {known} that this process has \
         seen counted; put the last one in its place"
    )]
    Older {
        /// Known releases that the file has.
        found: u64,
        /// Releases that this process has seen.
        known: u64,
    },
}
