//! An encrypted index on disk: a directory with a manifest and a file for each block.

use super::{
    records::{Batch, Records},
    setup::{self, Content, Session, Setup},
    writer::Writer,
};
use crate::{
    error::{Error, IndexError, Result},
    format::opened::{self, Opened},
    os::files::{self, Access, NewFile},
};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};
use sudare::ckks::{
    Ciphertext,
    serial::{CiphertextReader, Kind},
};
use sudare_apps::search::Record;

const MANIFEST: &str = "index.json";
const VERSION: u32 = 1;
/// Maximum size of a manifest or catalogue in bytes: some million blocks, or deleted records.
const MAX_JSON: u64 = 64 << 20;

/// The public part of an index.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    of: Of,
    /// Number of records, including deleted ones.
    rows: usize,
    /// True if all blocks are up to date.
    complete: bool,
    /// Digests of the blocks' files, in hexadecimal.
    blocks: Vec<String>,
}

/// The part of an index that only the owner keeps: digests of the blocks' contents.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    of: Of,
    deleted: BTreeSet<usize>,
    /// Digests of the blocks' contents, in hexadecimal.
    contents: Vec<String>,
}

/// The keys and the plan of an index, or of its catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Of {
    version: u32,
    params: String,
    key: String,
    setup: Setup,
}

impl Of {
    fn new(session: &Session) -> Self {
        let params = session.plan.params().rlwe().id().to_string();
        let key = session.key.to_string();
        Self { version: VERSION, params, key, setup: session.setup }
    }

    fn expect(&self, session: &Session, path: &Path) -> Result<()> {
        let needed = Self::new(session);
        if *self == needed {
            return Ok(());
        }
        // A plan is named only under the same key, since another key explains any difference.
        let said = |of: &Self| match self.key == needed.key {
            true => format!("another plan, version {}", of.version),
            false => format!("key {}", of.key),
        };
        let found = said(self);
        let needed = said(&needed);
        Err(IndexError::ForeignIndex { path: path.into(), found, needed }.into())
    }
}

/// Metadata in the label of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockMeta {
    setup: Setup,
    block: usize,
}

fn block_path(folder: &Path, block: usize) -> PathBuf {
    folder.join(format!("block-{block:05}.ct"))
}

fn write_json(path: &Path, access: Access, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value).map_err(|error| Error::Bug(error.to_string()))?;
    let mut file = NewFile::create(path, access, true)?;
    file.write_text(&text)?;
    file.finish()
}

/// Returns the default path of the owner's catalogue of the index in `folder`.
#[must_use]
pub fn catalogue_path(folder: &Path) -> PathBuf {
    let mut path = folder.as_os_str().to_owned();
    path.push(".owner");
    path.into()
}

/// Reads the deleted rows from the owner's catalogue.
///
/// # Errors
/// [`Error::Io`]; [`Error::Parse`]; [`Error::Index`] for the catalogue of another index.
pub fn deleted(catalogue: &Path, session: &Session) -> Result<BTreeSet<usize>> {
    Ok(read_catalogue(catalogue, session)?.deleted)
}

fn read_catalogue(path: &Path, session: &Session) -> Result<Catalogue> {
    let text = files::read_text(path, MAX_JSON)?;
    let catalogue: Catalogue = serde_json::from_str(&text).map_err(|error| {
        let what = "catalogue of an index of this version";
        Error::Parse { path: path.into(), what, problem: error.to_string() }
    })?;
    catalogue.of.expect(session, path)?;
    Ok(catalogue)
}

/// An index as its server sees it.
#[derive(Debug)]
pub struct Index {
    folder: PathBuf,
    manifest: Manifest,
}

impl Index {
    /// Opens the index in a directory.
    ///
    /// # Errors
    /// [`Error::Index`] if the index is invalid, unfinished, or of other keys.
    pub fn open(folder: &Path, session: &Session) -> Result<Self> {
        Self::of(read_manifest(folder, session)?, folder, session)
    }

    /// Same as [`Index::open`], from the text of the directory's manifest.
    ///
    /// # Errors
    /// The errors of [`Index::open`].
    pub fn parse(manifest: &str, folder: &Path, session: &Session) -> Result<Self> {
        Self::of(parse_manifest(manifest, folder, session)?, folder, session)
    }

    fn of(manifest: Manifest, folder: &Path, session: &Session) -> Result<Self> {
        // The owner's update was interrupted, so the blocks may be of two states.
        if !manifest.complete {
            return Err(IndexError::UnfinishedIndex { folder: folder.into() }.into());
        }
        let found = manifest.blocks.len();
        let needed = session.plan.blocks(manifest.rows)?;
        // A shortened list would hide records from every search without an error.
        if found != needed {
            let rows = manifest.rows;
            let problem = format!("{rows} rows need {needed} blocks, but it lists {found}");
            return Err(IndexError::NoIndex { folder: folder.into(), problem }.into());
        }
        Ok(Self { folder: folder.into(), manifest })
    }

    /// Returns the number of records, including deleted ones.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.manifest.rows
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.manifest.blocks.len()
    }

    /// Returns the total size of the blocks' files in bytes.
    ///
    /// # Errors
    /// [`Error::Index`] for a missing block.
    pub fn bytes(&self) -> Result<u64> {
        let bytes = (0..self.blocks()).map(|block| {
            let path = block_path(&self.folder, block);
            let metadata = fs::metadata(&path).map_err(missing(block, &path))?;
            Ok(metadata.len())
        });
        bytes.sum()
    }

    /// Opens a block, whose ciphertexts are read on request.
    pub(super) fn block(&self, block: usize, session: &Session) -> Result<BlockFile> {
        let path = block_path(&self.folder, block);
        // A missing file is told apart from a damaged one, because the owner can make it again.
        fs::metadata(&path).map_err(missing(block, &path))?;
        let altered =
            |problem: String| IndexError::AlteredBlock { block, path: path.clone(), problem };
        let foreign =
            |problem: String| IndexError::ForeignBlock { block, path: path.clone(), problem };
        let (file, digest) = Opened::digested(&path, Kind::Ciphertexts).map_err(|e| match e {
            Error::File { source, .. } => altered(source.to_string()).into(),
            error => error,
        })?;
        session.expect(&file).map_err(|error| foreign(error.to_string()))?;
        let meta: BlockMeta =
            setup::read(&file, Content::Block).map_err(|error| foreign(error.to_string()))?;
        // Blocks of one index could be exchanged for each other.
        if meta != (BlockMeta { setup: session.setup, block }) {
            return Err(foreign(format!("it says that it is block {}", meta.block)).into());
        }
        // A block of an earlier state has the right label and another digest.
        if self.manifest.blocks.get(block) != Some(&HEXLOWER.encode(&digest)) {
            return Err(altered("its digest differs from the digest in the manifest".into()).into());
        }
        let reader = file.into_reader(session.plan.params())?;
        Ok(BlockFile { reader, block, path })
    }
}

fn missing(block: usize, path: &Path) -> impl Fn(io::Error) -> Error {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => IndexError::MissingBlock { block, path: path.into() }.into(),
        _ => Error::io("read", path, error),
    }
}

fn read_manifest(folder: &Path, session: &Session) -> Result<Manifest> {
    let text = files::read_text(&folder.join(MANIFEST), MAX_JSON);
    let text = text.map_err(|error| no_index(folder, error.to_string()))?;
    parse_manifest(&text, folder, session)
}

fn parse_manifest(text: &str, folder: &Path, session: &Session) -> Result<Manifest> {
    let manifest: Manifest =
        serde_json::from_str(text).map_err(|error| no_index(folder, error.to_string()))?;
    manifest.of.expect(session, folder)?;
    Ok(manifest)
}

fn no_index(folder: &Path, problem: String) -> IndexError {
    IndexError::NoIndex { folder: folder.into(), problem }
}

/// An open file of a block.
pub(super) struct BlockFile {
    reader: CiphertextReader<BufReader<File>>,
    block: usize,
    path: PathBuf,
}

impl BlockFile {
    /// Reads the ciphertext with this number.
    pub fn read(&mut self, part: usize) -> Result<Ciphertext> {
        let altered = |problem: String| {
            let block = self.block;
            let path = self.path.clone();
            Error::from(IndexError::AlteredBlock { block, path, problem })
        };
        let read = self.reader.read(part..part.saturating_add(1));
        let mut read = read.map_err(|error| altered(error.to_string()))?;
        read.pop().ok_or_else(|| altered(format!("it has no ciphertext {part}")))
    }
}

/// The result of an update of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Number of records, including deleted ones.
    pub rows: usize,
    /// Number of blocks of the index.
    pub blocks: usize,
    /// Numbers of the blocks that were encrypted.
    pub encrypted: Vec<usize>,
    /// Bytes of the files of the encrypted blocks.
    pub bytes: u64,
}

/// Updates an index that is locked by this process.
pub struct Builder {
    writer: Arc<Writer>,
    folder: PathBuf,
    manifest: Manifest,
    /// The owner's catalogue, and its file.
    catalogue: (Catalogue, PathBuf),
    /// Holds the lock until the process ends, even if it is killed.
    _lock: File,
}

impl Builder {
    /// Opens the index in a directory, and creates it if it does not exist. `writer` encrypts its
    /// blocks. `catalogue` is the owner's file with digests of the blocks' contents.
    ///
    /// # Errors
    /// [`Error::Index`] for an index or a catalogue of other keys; [`Error::InUse`]; [`Error::Io`].
    pub fn open(folder: &Path, catalogue: &Path, writer: Arc<Writer>) -> Result<Self> {
        let session = writer.session();
        files::make_folder(folder)?;
        // Before anything is read, because another process may be writing.
        let lock = files::lock_folder(folder)?;
        let of = Of::new(session);
        let manifest = match folder.join(MANIFEST).exists() {
            true => read_manifest(folder, session)?,
            false => Manifest { of: of.clone(), rows: 0, complete: false, blocks: Vec::new() },
        };
        let kept = match catalogue.exists() {
            true => read_catalogue(catalogue, session)?,
            false => Catalogue { of, deleted: BTreeSet::new(), contents: Vec::new() },
        };
        let catalogue = (kept, catalogue.into());
        Ok(Self { writer, folder: folder.into(), manifest, catalogue, _lock: lock })
    }

    /// Returns the public facts of the search.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.writer.session()
    }

    /// Returns the deleted rows in the owner's catalogue.
    #[must_use]
    pub fn deleted(&self) -> &BTreeSet<usize> {
        &self.catalogue.0.deleted
    }

    /// Updates the index to these records without the deleted rows. Encrypts the blocks whose
    /// contents changed or whose files are missing. After an interruption, the same call continues.
    /// Memory holds one block at a time. Calls `progress` with the number of finished records.
    ///
    /// # Errors
    /// [`Error::Search`] for vectors that cannot be searched; [`Error::Usage`] for deleted rows
    /// that do not exist; errors from `records`; [`Error::Io`].
    pub fn update(
        &mut self,
        records: &mut dyn Records,
        deleted: &BTreeSet<usize>,
        mut progress: impl FnMut(usize),
    ) -> Result<Update> {
        let length = self.session().plan.block_len();
        let mut update = Update { rows: 0, blocks: 0, encrypted: Vec::new(), bytes: 0 };
        loop {
            let batch = records.next(length)?;
            let count = batch.payloads.len();
            if count > 0 {
                self.session().plan.blocks(update.rows + count)?;
                let block = update.blocks;
                if let Some(bytes) = self.update_block(block, &batch, deleted)? {
                    update.encrypted.push(block);
                    update.bytes += bytes;
                }
                (update.rows, update.blocks) = (update.rows + count, block + 1);
                progress(update.rows);
            }
            if count < length {
                break;
            }
        }
        // Only now is the number of records known, since they arrive block by block.
        if let Some(&row) = deleted.range(update.rows..).next() {
            let rows = update.rows;
            return Err(Error::Usage(format!(
                "row {row} cannot be deleted: there are {rows} rows, counted from 0"
            )));
        }
        self.finish(&update, deleted)?;
        Ok(update)
    }

    /// Encrypts a block if necessary, and returns the bytes of its file.
    fn update_block(
        &mut self,
        block: usize,
        batch: &Batch,
        deleted: &BTreeSet<usize>,
    ) -> Result<Option<u64>> {
        let Session { setup, plan, .. } = self.session();
        let dimension = setup.spec.dimension;
        let first = block * plan.block_len();
        let pairs = batch.vectors.chunks_exact(dimension).zip(&batch.payloads).enumerate();
        let records: Vec<_> = pairs
            .map(|(i, (vector, payload))| {
                (!deleted.contains(&(first + i))).then_some(Record { vector, payload })
            })
            .collect();
        let content = self.content_digest(block, &records)?;
        // The file may be lost or altered while the catalogue still knows its content.
        let path = block_path(&self.folder, block);
        // Besides the content, the file itself must be as it was written.
        let known = self.catalogue.0.contents.get(block) == Some(&content);
        if known
            && opened::digest(&path).ok().map(|digest| HEXLOWER.encode(&digest)).as_ref()
                == self.manifest.blocks.get(block)
        {
            return Ok(None);
        }
        // Unfinished on the disk first: a server must not search an index between two states.
        self.manifest.complete = false;
        write_json(&self.folder.join(MANIFEST), Access::Shared, &self.manifest)?;
        let bytes = self.encrypt(block, &records, &path)?;
        set(&mut self.manifest.blocks, block, HEXLOWER.encode(&opened::digest(&path)?));
        set(&mut self.catalogue.0.contents, block, content);
        write_json(&self.folder.join(MANIFEST), Access::Shared, &self.manifest)?;
        // After the manifest: a block that the catalogue lacks is encrypted again.
        write_json(&self.catalogue.1, Access::Owner, &self.catalogue.0)?;
        Ok(Some(bytes))
    }

    fn encrypt(&self, block: usize, records: &[Option<Record<'_>>], path: &Path) -> Result<u64> {
        let meta = BlockMeta { setup: self.session().setup, block };
        let mut file = NewFile::create(path, Access::Shared, true)?;
        let bytes = self.writer.write_block(&mut file, path, &meta, block, records)?;
        file.finish()?;
        Ok(bytes)
    }

    /// Removes blocks beyond the last record, and marks the index complete.
    fn finish(&mut self, update: &Update, deleted: &BTreeSet<usize>) -> Result<()> {
        let before = self.manifest.blocks.len();
        self.manifest.blocks.truncate(update.blocks);
        self.manifest.rows = update.rows;
        self.manifest.complete = true;
        self.catalogue.0.contents.truncate(update.blocks);
        self.catalogue.0.deleted.clone_from(deleted);
        write_json(&self.folder.join(MANIFEST), Access::Shared, &self.manifest)?;
        write_json(&self.catalogue.1, Access::Owner, &self.catalogue.0)?;
        // Last, so that no manifest lists a block that is gone.
        for block in update.blocks..before {
            files::remove(&block_path(&self.folder, block))?;
        }
        Ok(())
    }

    /// Returns the digest of a block's content, by which its owner detects changes.
    fn content_digest(&self, block: usize, records: &[Option<Record<'_>>]) -> Result<String> {
        // The digest has no key. A reader of it can test guesses, so only the catalogue has it.
        let of = serde_json::to_vec(&self.manifest.of);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&of.map_err(|error| Error::Bug(error.to_string()))?);
        // The number counts: records that move to another block need the file of that block.
        hasher.update(&(block as u64).to_le_bytes());
        for record in records {
            // A byte for each record, so that a deletion at the end changes the digest as well.
            hasher.update(&[record.is_some().into()]);
            let Some(Record { vector, payload }) = record else { continue };
            vector.iter().for_each(|x| {
                hasher.update(&x.to_le_bytes());
            });
            hasher.update(payload);
        }
        Ok(hasher.finalize().to_string())
    }
}

/// Replaces an entry of the list, or appends the next one.
fn set(list: &mut Vec<String>, at: usize, value: String) {
    match list.get_mut(at) {
        Some(entry) => *entry = value,
        None => list.push(value),
    }
}
