use sudare::rlwe::KeyId;

/// Why a ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Not a ledger, or damaged.
    #[error(
        "it is no ledger of releases, or a damaged one: {problem}; restore the last copy of it, or \
         make new keys, since how many results of this key others have seen is not known"
    )]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// Of another version of the format.
    #[error(
        "it is a ledger of releases of version {found}, this program reads {supported}: release \
         with the program that wrote it"
    )]
    Version {
        /// That of the file.
        found: u32,
        /// That of this program.
        supported: u32,
    },
    /// Of another key.
    #[error(
        "it counts releases of the key {found}, not of {expected}: put the ledger of this key in \
         its place"
    )]
    OtherKey {
        /// That of the ledger.
        found: KeyId,
        /// That of the result.
        expected: KeyId,
    },
    /// An earlier state of itself.
    #[error(
        "it is older than it was: it has {found} releases of the {known} that this process has \
         seen counted; put the last one in its place"
    )]
    Older {
        /// That are there and were.
        found: u64,
        /// That were there.
        known: u64,
    },
}
