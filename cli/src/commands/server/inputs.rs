//! Files that computations read and write.

use std::path::{Path, PathBuf};
use sudare_roles::{
    error::Result,
    os::files::{Access, NewFile},
    server::session::{Inputs, Session},
};

/// Files that a computation reads and writes.
#[derive(Debug, clap::Args)]
pub struct ComputationFiles {
    /// Evaluation key
    #[arg(long, value_name = "FILE")]
    pub evaluation_key: PathBuf,
    /// Encrypted table; with tables of several owners, one -i for each
    #[arg(short, long, value_name = "FILE", required = true)]
    pub input: Vec<PathBuf>,
    /// File for the encrypted result
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Read the evaluation key from its file during the computation, without loading it; the file
    /// must not change meanwhile
    #[arg(long)]
    pub map_keys: bool,
    /// Store half of the evaluation key and compute the other half when it is needed: half the
    /// memory for a fifth more time
    #[arg(long)]
    pub small_keys: bool,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

impl ComputationFiles {
    /// Returns the first encrypted table; there is at least one.
    pub fn first(&self) -> &Path {
        self.input.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Reads keys and tables, which must belong together. It begins the file of the result first,
    /// so that no work is done that cannot be written.
    pub fn open(&self) -> Result<(Session, NewFile)> {
        let output = NewFile::create(&self.output, Access::Shared, self.force)?;
        let inputs = Inputs {
            evaluation_key: self.evaluation_key.clone(),
            tables: self.input.clone(),
            map_keys: self.map_keys,
            small_keys: self.small_keys,
        };
        Ok((Session::open(&inputs)?, output))
    }
}
