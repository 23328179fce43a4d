use std::path::PathBuf;

/// What is wrong with an index on disk. Blocks are counted from 0.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A folder that holds no index of this version.
    #[error("{} holds no index: {problem}; name the folder that `sudare search index` made", .folder.display())]
    NoIndex {
        /// The folder.
        folder: PathBuf,
        /// What was found.
        problem: String,
    },
    /// An index, or the catalogue of one, of another key pair or another plan.
    #[error("{} is of {found}, but the keys are of {needed}: use what was made with one key pair", .path.display())]
    ForeignIndex {
        /// The folder of the index, or the catalogue.
        path: PathBuf,
        /// What it is of.
        found: String,
        /// What the keys are of.
        needed: String,
    },
    /// An index that was not encrypted to its end.
    #[error("the index in {} is unfinished: its owner completes it by running the same `sudare search index` again", .folder.display())]
    UnfinishedIndex {
        /// The folder.
        folder: PathBuf,
    },
    /// A block has no file.
    #[error("block {block} of the index is missing: there is no file {}; copy it from its owner, who makes it by running the same `sudare search index` again", .path.display())]
    MissingBlock {
        /// The block.
        block: usize,
        /// Its file.
        path: PathBuf,
    },
    /// The file of a block is not as it was written.
    #[error("block {block} of the index was altered: {}: {problem}; copy it again from its owner, who makes it anew by removing the file and running the same `sudare search index` again", .path.display())]
    AlteredBlock {
        /// The block.
        block: usize,
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The file of a block is of another key pair, another plan or another place.
    #[error("block {block} of the index is another one: {}: {problem}; copy it again from the owner of the index", .path.display())]
    ForeignBlock {
        /// The block.
        block: usize,
        /// Its file.
        path: PathBuf,
        /// What it is.
        problem: String,
    },
}
