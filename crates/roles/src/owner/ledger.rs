//! Counts the released results of a key, in a file next to the secret key. A release is counted
//! before any of its values is shown.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    error::{Error, LedgerError, Result},
    os::files::{self, Access, NewFile},
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use sudare::{
    ckks::{Decryptor, Release},
    rlwe::{KeyId, ParamsId},
};
use sudare_arith::prng::Seed;

/// Magic bytes. The first one is not valid text.
const MAGIC: [u8; 8] = *b"\x89sudareL";
const VERSION: u32 = 1;
/// Bytes before the releases.
const HEAD_BYTES: usize = 48;
const ID_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 32;
/// Maximum releases in a ledger that this program writes.
const MAX_RELEASES: u64 = 1 << 20;
const MAX_BYTES: u64 = (HEAD_BYTES + CHECKSUM_BYTES) as u64 + MAX_RELEASES * ID_BYTES as u64;

/// Identifies a release of a key. It reveals nothing about the release without the key.
pub type ReleaseId = [u8; ID_BYTES];

/// The content of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// The parameters of the key.
    pub params: ParamsId,
    /// The key.
    pub key: KeyId,
    /// Number of releases that the key's noise hides.
    pub limit: u64,
    /// The counted releases, in order.
    releases: Vec<ReleaseId>,
}

impl Entries {
    fn none(params: ParamsId, key: KeyId) -> Self {
        Self { params, key, limit: Release::default().releases, releases: Vec::new() }
    }

    /// Returns the number of counted releases.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.releases.len() as u64
    }

    /// Returns whether a file with these first bytes is a ledger, possibly a damaged one.
    #[must_use]
    pub fn begin(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Reads the ledger in a file.
    ///
    /// # Errors
    /// [`Error::Ledger`]; [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        let (file, bytes) = files::open(path, Access::Owner)?;
        let refuse = |problem: String| {
            let source = LedgerError::Malformed { problem };
            Error::Ledger { path: path.into(), source }
        };
        // Before reading, because a ledger is read as a whole.
        if bytes > MAX_BYTES {
            return Err(refuse(format!("it has {bytes} bytes, but the maximum is {MAX_BYTES}")));
        }
        let mut content = Vec::new();
        let read = file.take(MAX_BYTES).read_to_end(&mut content);
        read.map_err(|error| Error::io("read", path, error))?;
        Self::from_bytes(&content).map_err(|source| Error::Ledger { path: path.into(), source })
    }

    fn from_bytes(bytes: &[u8]) -> core::result::Result<Self, LedgerError> {
        let malformed = |problem: &str| LedgerError::Malformed { problem: problem.into() };
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let (content, checksum) = bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .filter(|(content, _)| content.len() >= HEAD_BYTES)
            .ok_or_else(|| malformed("it is too short"))?;
        let (head, releases) = content.split_at(HEAD_BYTES);
        let (words, _) = head.as_chunks::<8>();
        let [magic, version, params, key, limit, count] = words else {
            return Err(malformed("it is too short"));
        };
        // The magic comes first, because any other file would fail the later checks with wrong
        // remedies.
        if *magic != MAGIC {
            return Err(malformed("it does not start like a ledger"));
        }
        // Before the checksum, whose place may differ in another version.
        if number(version) != u64::from(VERSION) {
            let found = u32::try_from(number(version)).unwrap_or(u32::MAX);
            return Err(LedgerError::Version { found, supported: VERSION });
        }
        if *blake3::hash(content).as_bytes() != *checksum {
            return Err(malformed("its checksum does not match"));
        }
        let (releases, rest) = releases.as_chunks::<ID_BYTES>();
        if !rest.is_empty() || releases.len() as u64 != number(count) {
            return Err(malformed("it does not have the number of releases that it states"));
        }
        Ok(Self {
            params: ParamsId(number(params)),
            key: KeyId(number(key)),
            limit: number(limit),
            releases: releases.to_vec(),
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let numbers = [VERSION.into(), self.params.0, self.key.0, self.limit, self.counted()];
        numbers.iter().for_each(|number: &u64| bytes.extend(number.to_le_bytes()));
        self.releases.iter().for_each(|id| bytes.extend(id));
        let checksum = blake3::hash(&bytes);
        bytes.extend(checksum.as_bytes());
        bytes
    }

    /// Adds the new ones among `ids` and returns whether there were any.
    fn add(&mut self, ids: &[ReleaseId], place: &Path) -> Result<bool> {
        let before = self.releases.len();
        for id in ids {
            // Releasing the same result to the same bits adds the same noise, so it reveals nothing
            // more.
            if !self.releases.contains(id) {
                self.releases.push(*id);
            }
        }
        let counted = before as u64;
        // A file that states a higher limit does not raise it.
        let limit = self.limit.min(Release::default().releases);
        if self.releases.len() > before && self.counted() > limit {
            let needed = self.counted().saturating_sub(counted);
            // All or nothing: the vectors of one result are counted together.
            self.releases.truncate(before);
            return Err(Error::ReleasesSpent { ledger: place.into(), counted, needed, limit });
        }
        Ok(self.releases.len() > before)
    }

    fn write(&self, path: &Path) -> Result<()> {
        let mut file = NewFile::create(path, Access::Owner, true)?;
        file.write_all(&self.to_bytes()).map_err(|error| Error::io("write", path, error))?;
        file.finish()
    }
}

/// The ledger of a key. It is a file, or it is in memory while the key exists only in memory.
pub struct Ledger {
    state: Mutex<State>,
}

/// The state of a ledger. One lock guards both fields, so that no release is counted in memory
/// while the ledger moves to a file.
struct State {
    file: Option<PathBuf>,
    /// Content of the file as this process last saw it.
    known: Entries,
}

impl Ledger {
    /// Creates the ledger of a key that exists only in memory.
    #[must_use]
    pub fn in_memory(params: ParamsId, key: KeyId) -> Self {
        Self::new(None, Entries::none(params, key))
    }

    /// Returns the ledger of the key in the file `secret`: `KEY.ledger` in the directory of that
    /// file, where `KEY` is the key's fingerprint. Copies of the key in one directory therefore
    /// share a ledger. The file need not exist; the first release creates it.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be found.
    pub fn beside(secret: &Path, params: ParamsId, key: KeyId) -> Result<Self> {
        Ok(Self::new(Some(file_beside(secret, key)?), Entries::none(params, key)))
    }

    fn new(file: Option<PathBuf>, known: Entries) -> Self {
        Self { state: Mutex::new(State { file, known }) }
    }

    /// Returns the path of the ledger, if it has a file.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        self.state().file.clone()
    }

    /// Returns a notice for the first release, while the ledger has no file. Earlier releases, by a
    /// copy of the key elsewhere or with a lost ledger, count too.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let path = self.path().filter(|path| !path.exists())?;
        Some(format!(
            "there is no ledger of releases {}: counting starts at 0; if you released results of \
             this key before, put the ledger that counted them there",
            path.display()
        ))
    }

    /// Returns the current content.
    ///
    /// # Errors
    /// [`Error::Ledger`] for a file that is not the ledger of this key; [`Error::Io`].
    pub fn entries(&self) -> Result<Entries> {
        self.state().entries()
    }

    /// Counts releases. A release that was counted before does not count again. When this returns,
    /// the counts are on the disk and survive a crash.
    ///
    /// # Errors
    /// [`Error::ReleasesSpent`] if too few releases are left; [`Error::NotCounted`] if the file
    /// cannot be read or written, or is not the ledger of this key. The file is then unchanged.
    pub fn count(&self, ids: &[ReleaseId]) -> Result<()> {
        self.state().count(ids)
    }

    /// Counts all releases in the directory of a copy of the key, which is in the file `secret`
    /// now. If the key existed only in memory, its ledger moves to that file. No concurrent release
    /// is counted anywhere else.
    ///
    /// # Errors
    /// The errors of [`Ledger::count`].
    pub fn copy_beside(&self, secret: &Path) -> Result<()> {
        // Locked until the end: a release on another thread counts before or after the move, not in
        // between.
        let mut state = self.state();
        let known = state.entries()?;
        let file = Some(file_beside(secret, known.key)?);
        let mut copy = State { file, known: Entries::none(known.params, known.key) };
        // Without releases there is nothing to copy, and a missing ledger counts from 0.
        if known.counted() > 0 {
            copy.count(&known.releases)?;
        }
        // A ledger with a file stays there: the copy of the key counts on its own.
        if state.file.is_none() {
            *state = copy;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn entries(&self) -> Result<Entries> {
        match &self.file {
            Some(path) => Self::current(path, &self.known),
            None => Ok(self.known.clone()),
        }
    }

    fn count(&mut self, ids: &[ReleaseId]) -> Result<()> {
        let Some(path) = &self.file else {
            return self.known.add(ids, Path::new("the ledger in memory")).map(|_| ());
        };
        let count = || {
            // Before the file is read: another process could count between reading and writing.
            let _lock = lock(path)?;
            let mut entries = Self::current(path, &self.known)?;
            if entries.add(ids, path)? {
                entries.write(path)?;
            }
            Ok(entries)
        };
        self.known = count().map_err(|error| match error {
            Error::ReleasesSpent { .. } => error,
            _ => Error::NotCounted { source: Box::new(error) },
        })?;
        Ok(())
    }

    /// Reads the file; a missing file is empty. Refuses a file that lacks any of the `known`
    /// releases.
    fn current(path: &Path, known: &Entries) -> Result<Entries> {
        let entries = match Entries::read(path) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Entries::none(known.params, known.key)
            }
            read => read?,
        };
        let refuse = |source| Err(Error::Ledger { path: path.into(), source });
        if (entries.params, entries.key) != (known.params, known.key) {
            let found = entries.key;
            let expected = known.key;
            return refuse(LedgerError::OtherKey { found, expected });
        }
        // A ledger only grows, so everything known is at its beginning.
        if !entries.releases.starts_with(&known.releases) {
            let there = |id| entries.releases.contains(id);
            let found = known.releases.iter().filter(|id| there(id)).count() as u64;
            return refuse(LedgerError::Older { found, known: known.counted() });
        }
        Ok(entries)
    }
}

/// Returns the path of a key's ledger in the directory of the file `secret`, after following links.
fn file_beside(secret: &Path, key: KeyId) -> Result<PathBuf> {
    // Otherwise a link to the key in another directory would have a ledger of its own.
    let secret = fs::canonicalize(secret).map_err(|error| Error::io("find", secret, error))?;
    Ok(secret.with_file_name(format!("{key}.ledger")))
}

/// Waits until no other process counts in the ledger.
fn lock(ledger: &Path) -> Result<File> {
    // A file of its own, because each count replaces the ledger and a lock on it would be lost.
    let path = ledger.with_extension("ledger.lock");
    let io = |error| Error::io("lock", &path, error);
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}

/// A release in preparation. It supplies noise, and is counted before it is shown.
pub struct Draft {
    seed: Seed,
    drawn: u64,
}

impl Draft {
    /// Prepares a release of `values` to `bits` fractional bits. `write` writes the ciphertexts of
    /// the values, so that the same result always gets the same noise.
    ///
    /// # Errors
    /// Errors from `write`.
    pub fn new(
        decryptor: &Decryptor,
        bits: u32,
        values: impl IntoIterator<Item = f64>,
        write: impl FnOnce(&mut blake3::Hasher) -> sudare::Result<u64>,
    ) -> Result<Self> {
        let mut hasher = blake3::Hasher::new();
        let written = write(&mut hasher)?;
        let Release { statistical_bits, releases } = Release::default();
        let numbers = [written, bits.into(), statistical_bits.into(), releases];
        numbers.iter().for_each(|number| {
            hasher.update(&number.to_le_bytes());
        });
        // Whatever the ciphertexts say: two different values must never get the same noise.
        for value in values {
            hasher.update(&value.to_bits().to_le_bytes());
        }
        Ok(Self { seed: decryptor.release_seed(hasher.finalize().as_bytes())?, drawn: 0 })
    }

    /// Returns the noise of the next vector of values. Each vector is one release of the key.
    pub fn noise(&mut self) -> Seed {
        self.drawn = self.drawn.saturating_add(1);
        self.seed.derive("noise", self.drawn)
    }

    /// Counts the vectors that noise was drawn for. Values may only be shown after this returns.
    ///
    /// # Errors
    /// The errors of [`Ledger::count`].
    pub fn count(self, ledger: &Ledger) -> Result<()> {
        // Another label than the noise has, so that the ledger reveals nothing about the noise.
        let id = |number| *self.seed.derive("ledger", number).as_bytes();
        ledger.count(&(1..=self.drawn).map(id).collect::<Vec<ReleaseId>>())
    }
}
