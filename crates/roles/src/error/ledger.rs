use sudare::rlwe::KeyId;

/// An invalid ledger.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
pub enum LedgerError {
    /// A damaged ledger, or another file.
    #[error(
        "it is not a ledger of releases, or it is damaged: {problem}; restore its last copy, or \
         make new keys, since the number of results of this key that others have seen is unknown"
    )]
    Malformed {
        /// The problem.
        problem: String,
    },
    /// A ledger in another version of the format.
    #[error(
        "it is a ledger of releases of version {found}, but this program reads version \
         {supported}: release with the program that wrote it"
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
        "it is out of date: it has {found} releases, but this process has already counted {known}; \
         restore the latest copy"
    )]
    Older {
        /// Known releases that the file has.
        found: u64,
        /// Releases that this process has seen.
        known: u64,
    },
}
