//! What the commands of the server share: the files that they read and write.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{io::Read, path::PathBuf, sync::Arc};
use sudare::ckks::serial::Kind;
use sudare_roles::{
    error::Result,
    files::{self, Access, NewFile, Watch},
    label::{Content, Origin},
    opened::{self, Opened},
    server::Session,
};

/// Files that a computation reads and writes.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Evaluation key
    #[arg(long, value_name = "FILE")]
    pub evaluation_key: PathBuf,
    /// Encrypted table; to train on those of several owners, one -i for each
    #[arg(short, long, value_name = "FILE", required = true)]
    pub input: Vec<PathBuf>,
    /// Encrypted result
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Leave the evaluation key in its file, which must not change meanwhile, and read it there
    #[arg(long)]
    pub map_keys: bool,
    /// Keep half of the evaluation key and compute the other when it is needed: half the memory
    /// for a fifth more time
    #[arg(long)]
    pub small_keys: bool,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

impl Files {
    /// Reads keys and table, which must belong together, and begins the file of the result, so
    /// that no work is done that cannot be written.
    pub fn open(&self) -> Result<(Session, NewFile)> {
        files::check_free(&self.output, self.force)?;
        if self.map_keys {
            let (keys, watch) = Opened::mapped(&self.evaluation_key)?;
            let digest = opened::digest(&self.evaluation_key)?;
            self.with((keys, digest), Some(watch))
        } else {
            self.with(Opened::digested(&self.evaluation_key, Kind::EvaluationKeys)?, None)
        }
    }

    fn with<R: Read>(
        &self,
        (keys, digest): (Opened<R>, [u8; 32]),
        watch: Option<Arc<Watch>>,
    ) -> Result<(Session, NewFile)> {
        keys.meta(&[Content::Keys])?;
        let tables = self.input.iter().map(|path| Opened::digested(path, Kind::Ciphertexts));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        let (tables, digests) = tables.into_iter().unzip();
        let origin = Origin::new(digest, digests);
        let output = NewFile::create(&self.output, Access::Shared, self.force)?;
        let (params, key, label) = (keys.params()?, keys.info().key_id, keys.info().label.clone());
        let read = || Ok((Arc::new(keys.evaluation_keys(&params, self.small_keys)?), watch));
        Ok((Session::new(tables, &params, &label, key, origin, read)?, output))
    }
}
