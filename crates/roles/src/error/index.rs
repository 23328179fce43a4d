use std::path::PathBuf;

/// An invalid index on disk. Blocks are counted from 0.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
pub enum IndexError {
    /// A directory without an index of this version.
    #[error("{} holds no index: {problem}; name the directory that `sudare search index` made", .folder.display())]
    NoIndex {
        /// The directory.
        folder: PathBuf,
        /// The problem.
        problem: String,
    },
    /// An index, or its catalogue, of another key pair or plan.
    #[error("{} belongs to {found}, but the keys belong to {needed}: use files of one key pair", .path.display())]
    ForeignIndex {
        /// The directory of the index, or the catalogue.
        path: PathBuf,
        /// The key or plan of the index.
        found: String,
        /// The key or plan of the search.
        needed: String,
    },
    /// An index whose encryption did not finish.
    #[error("the index in {} is unfinished: its owner must run the same `sudare search index` again", .folder.display())]
    UnfinishedIndex {
        /// The directory.
        folder: PathBuf,
    },
    /// The file of a block is missing.
    #[error("block {block} of the index is missing: there is no file {}; copy it from its owner, who can recreate it by running the same `sudare search index` again", .path.display())]
    MissingBlock {
        /// The block.
        block: usize,
        /// The file of the block.
        path: PathBuf,
    },
    /// The file of a block was changed.
    #[error("block {block} of the index was altered: {}: {problem}; copy it again from its owner, who can recreate it by removing the file and running the same `sudare search index` again", .path.display())]
    AlteredBlock {
        /// The block.
        block: usize,
        /// The file of the block.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The file of a block belongs to another key pair, plan or position.
    #[error("block {block} of the index is the wrong file: {}: {problem}; copy it again from the owner of the index", .path.display())]
    ForeignBlock {
        /// The block.
        block: usize,
        /// The file of the block.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}
