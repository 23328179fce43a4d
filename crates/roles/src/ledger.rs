//! How many results of a key others have seen: a file beside the secret key, which is counted in
//! before a value is shown.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    error::{Error, LedgerError, Result},
    files::{self, Access, NewFile},
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

/// A byte that is no text, and a name.
const MAGIC: [u8; 8] = *b"\x89sudareL";
const VERSION: u32 = 1;
/// Before the releases.
const HEAD_BYTES: usize = 48;
const ID_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 32;
/// No ledger that this program writes has more.
const MOST_RELEASES: u64 = 1 << 20;
const MOST_BYTES: u64 = (HEAD_BYTES + CHECKSUM_BYTES) as u64 + MOST_RELEASES * ID_BYTES as u64;

/// What tells a release from all others of a key, and nothing about it without the key.
pub type ReleaseId = [u8; ID_BYTES];

/// What a ledger says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// The parameters of the key.
    pub params: ParamsId,
    /// The key.
    pub key: KeyId,
    /// Releases that its noise hides.
    pub limit: u64,
    /// In the order in which they were counted.
    releases: Vec<ReleaseId>,
}

impl Entries {
    fn none(params: ParamsId, key: KeyId) -> Self {
        Self { params, key, limit: Release::default().releases, releases: Vec::new() }
    }

    /// Releases that were counted.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.releases.len() as u64
    }

    /// Whether a file that begins so is a ledger, or was meant to be one.
    #[must_use]
    pub fn begin(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// The ledger in a file.
    ///
    /// # Errors
    /// [`Error::Ledger`]; [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        let (file, bytes) = files::open(path, Access::Owner)?;
        let refuse = |problem: String| {
            let source = LedgerError::Malformed { problem };
            Error::Ledger { path: path.into(), source }
        };
        if bytes > MOST_BYTES {
            return Err(refuse(format!("it has {bytes} bytes, at most {MOST_BYTES} are possible")));
        }
        let mut content = Vec::new();
        let read = file.take(MOST_BYTES).read_to_end(&mut content);
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
        if *magic != MAGIC {
            return Err(malformed("it begins otherwise"));
        }
        if number(version) != u64::from(VERSION) {
            let found = u32::try_from(number(version)).unwrap_or(u32::MAX);
            return Err(LedgerError::Version { found, supported: VERSION });
        }
        if *blake3::hash(content).as_bytes() != *checksum {
            return Err(malformed("its checksum is another"));
        }
        let (releases, rest) = releases.as_chunks::<ID_BYTES>();
        if !rest.is_empty() || releases.len() as u64 != number(count) {
            return Err(malformed("it has not as many releases as it says"));
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

    /// Adds those of `ids` that are not there; whether there are any.
    fn add(&mut self, ids: &[ReleaseId], place: &Path) -> Result<bool> {
        let before = self.releases.len();
        for id in ids {
            if !self.releases.contains(id) {
                self.releases.push(*id);
            }
        }
        let (counted, limit) = (before as u64, self.limit.min(Release::default().releases));
        if self.releases.len() > before && self.counted() > limit {
            let needed = self.counted().saturating_sub(counted);
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

/// The ledger of a key: in a file, or in memory as long as the key is only there.
pub struct Ledger {
    state: Mutex<State>,
}

/// Where releases are counted, and how many were: one lock for both, so that no release is counted in
/// memory while the ledger moves to a file.
struct State {
    file: Option<PathBuf>,
    /// What this process has seen of the file.
    known: Entries,
}

impl Ledger {
    /// The ledger of a key that is nowhere but in memory.
    #[must_use]
    pub fn in_memory(params: ParamsId, key: KeyId) -> Self {
        Self::new(None, Entries::none(params, key))
    }

    /// The ledger of the key in the file `secret`: `KEY.ledger` in the folder of that file, with the key's
    /// fingerprint for its name, so that copies of the key in one folder count together. It need
    /// not exist; the first release makes it.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be found.
    pub fn beside(secret: &Path, params: ParamsId, key: KeyId) -> Result<Self> {
        Ok(Self::new(Some(file_beside(secret, key)?), Entries::none(params, key)))
    }

    fn new(file: Option<PathBuf>, known: Entries) -> Self {
        Self { state: Mutex::new(State { file, known }) }
    }

    /// The file of the ledger, if it has one.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        self.state().file.clone()
    }

    /// What to say before the first release: no file has counted others, but if there were any, by
    /// a copy of the key elsewhere or with a ledger that was lost, they count as well.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let path = self.path().filter(|path| !path.exists())?;
        Some(format!(
            "there is no ledger of releases {}: counting begins at 0; if results of this key were \
             released before, put the ledger that counted them there",
            path.display()
        ))
    }

    /// What it says now.
    ///
    /// # Errors
    /// [`Error::Ledger`] for a file that is not the ledger of this key; [`Error::Io`].
    pub fn entries(&self) -> Result<Entries> {
        self.state().entries()
    }

    /// Counts releases; those that were counted before count no more. When this returns, the file
    /// has them, whatever happens to the machine.
    ///
    /// # Errors
    /// [`Error::ReleasesSpent`] if so many are not left; [`Error::NotCounted`] if the file cannot
    /// be read or written, or is not the ledger of this key, which is then as it was.
    pub fn count(&self, ids: &[ReleaseId]) -> Result<()> {
        self.state().count(ids)
    }

    /// Counts all releases beside a copy of the key, which is in the file `secret` now. The ledger of a
    /// key that was nowhere but in memory is the file there from then on: no release that is made
    /// meanwhile is counted anywhere else.
    ///
    /// # Errors
    /// As [`Ledger::count`].
    pub fn copy_beside(&self, secret: &Path) -> Result<()> {
        let mut state = self.state();
        let known = state.entries()?;
        let file = Some(file_beside(secret, known.key)?);
        let mut copy = State { file, known: Entries::none(known.params, known.key) };
        if known.counted() > 0 {
            copy.count(&known.releases)?;
        }
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

    /// What the file has, none if there is none, and what is `known` of it at least.
    fn current(path: &Path, known: &Entries) -> Result<Entries> {
        let entries = match Entries::read(path) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Entries::none(known.params, known.key)
            }
            read => read?,
        };
        let refuse = |source| Err(Error::Ledger { path: path.into(), source });
        if (entries.params, entries.key) != (known.params, known.key) {
            let (found, expected) = (entries.key, known.key);
            return refuse(LedgerError::OtherKey { found, expected });
        }
        if !entries.releases.starts_with(&known.releases) {
            let there = |id| entries.releases.contains(id);
            let found = known.releases.iter().filter(|id| there(id)).count() as u64;
            return refuse(LedgerError::Older { found, known: known.counted() });
        }
        Ok(entries)
    }
}

/// The ledger of a key in the folder of the file `secret`, whichever link leads to that.
fn file_beside(secret: &Path, key: KeyId) -> Result<PathBuf> {
    let secret = fs::canonicalize(secret).map_err(|error| Error::io("find", secret, error))?;
    Ok(secret.with_file_name(format!("{key}.ledger")))
}

/// Waits until no other process counts in a ledger.
fn lock(ledger: &Path) -> Result<File> {
    let path = ledger.with_extension("ledger.lock");
    let io = |error| Error::io("lock", &path, error);
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}

/// A release that is being made: gives its noise, and is counted before it is shown.
pub struct Draft {
    seed: Seed,
    drawn: u64,
}

impl Draft {
    /// A release of `values` to so many bits after the point, which are decrypted from what `write` writes:
    /// the same has the same noise whenever it is released.
    ///
    /// # Errors
    /// What `write` fails with.
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
        for value in values {
            hasher.update(&value.to_bits().to_le_bytes());
        }
        Ok(Self { seed: decryptor.release_seed(hasher.finalize().as_bytes())?, drawn: 0 })
    }

    /// The noise of the next vector of values, each of which is one of the releases of a key.
    pub fn noise(&mut self) -> Seed {
        self.drawn = self.drawn.saturating_add(1);
        self.seed.derive("noise", self.drawn)
    }

    /// Counts the vectors for which noise was drawn. Nothing may be shown before.
    ///
    /// # Errors
    /// As [`Ledger::count`].
    pub fn count(self, ledger: &Ledger) -> Result<()> {
        let id = |number| *self.seed.derive("ledger", number).as_bytes();
        ledger.count(&(1..=self.drawn).map(id).collect::<Vec<ReleaseId>>())
    }
}
