//! Reads files of keys and ciphertexts.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    error::{Error, Result},
    format::label::{Content, Meta, Origin},
    os::{
        files::{self, Access, Watch},
        memory,
    },
};
use std::{
    fs::File,
    io::{BufReader, Cursor, Read, Seek},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use sudare::{
    ckks::{
        Ciphertext, Params,
        serial::{self, CiphertextReader, Info, Kind, Reader},
    },
    rlwe::{EvaluationKeys, KeyId, KeyRequest, ParamsId, PublicKey, SecretKey},
};
use sudare_arith::mem::Mapping;

/// An open file of keys or ciphertexts, after its header.
pub struct Opened<R: Read = BufReader<File>> {
    path: PathBuf,
    reader: Reader<R>,
    /// Watches the file if it is mapped.
    watch: Option<Arc<Watch>>,
}

impl Opened<Cursor<Mapping>> {
    /// Maps a file of evaluation keys, and watches it for changes.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`]; [`Error::FileChanged`] if the file changes while it is read.
    /// Later reads return [`Error::FileChanged`] too.
    pub fn mapped(path: &Path) -> Result<(Self, Arc<Watch>)> {
        let (file, _) = files::open(path, Access::Shared)?;
        let watch = Arc::new(Watch::new(path, file.get_ref())?);
        // Mapped keys are shared with the file, so they must not change as long as they are used.
        let reader = Reader::shared(watch.mapping().clone());
        let reader = reader.map_err(in_file(path, Some(&watch)))?;
        let this = Self { path: path.into(), reader, watch: Some(Arc::clone(&watch)) };
        Ok((this.expect(Kind::EvaluationKeys)?, watch))
    }
}

impl Opened {
    /// Opens a file that must hold `kind`. Open secret keys with
    /// [`SecretFile`](crate::owner::secret::SecretFile).
    ///
    /// # Errors
    /// The errors of [`Opened::any`].
    pub fn open(path: &Path, kind: Kind) -> Result<Self> {
        Self::any(path, Access::Shared)?.expect(kind)
    }

    /// Opens a file that must hold `kind`, and returns its [`digest`].
    ///
    /// # Errors
    /// The errors of [`Opened::open`].
    pub fn digested(path: &Path, kind: Kind) -> Result<(Self, [u8; 32])> {
        let (mut file, bytes) = files::open(path, Access::Shared)?;
        // The digest reads few bytes at many positions, which a buffer would slow down.
        let digest = serial::digest(file.get_ref(), bytes).map_err(Error::in_file(path))?;
        file.rewind().map_err(|error| Error::io("read", path, error))?;
        Ok((Self::new(file, bytes, path)?.expect(kind)?, digest))
    }

    /// Opens the file of a public key. It must have the `expected` digest, if there is one.
    ///
    /// # Errors
    /// The errors of [`Opened::open`]; [`Error::OtherFile`].
    pub fn public_key_file(path: &Path, expected: Option<[u8; 32]>) -> Result<Self> {
        let (opened, found) = Self::digested(path, Kind::PublicKey)?;
        match expected {
            Some(expected) if expected != found => {
                let [found, expected] =
                    [found, expected].map(|d| blake3::Hash::from(d).to_string());
                Err(Error::OtherFile { path: path.into(), found, expected })
            }
            _ => Ok(opened),
        }
    }

    /// Opens a file of any kind.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`].
    pub fn any(path: &Path, access: Access) -> Result<Self> {
        let (file, bytes) = files::open(path, access)?;
        Self::new(file, bytes, path)
    }
}

impl<R: Read> Opened<R> {
    /// Reads the header of a file of `bytes` bytes. Messages call the file `path`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn new(file: R, bytes: u64, path: &Path) -> Result<Self> {
        let reader = Reader::new(file, bytes).map_err(Error::in_file(path))?;
        Ok(Self { path: path.into(), reader, watch: None })
    }

    /// Returns this file, if it holds `needed`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn expect(self, needed: Kind) -> Result<Self> {
        let found = self.info().kind;
        if found == needed {
            Ok(self)
        } else {
            Err(Error::in_file(&self.path)(sudare::Error::WrongKind { found, needed }))
        }
    }

    /// Returns the header.
    pub fn info(&self) -> &Info {
        self.reader.info()
    }

    /// Returns the path that messages show.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the metadata of the label. The content must be one of `contents`.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn meta(&self, contents: &[Content]) -> Result<(Content, Meta)> {
        let path = self.path.display();
        let label = &self.info().label;
        let needed = || {
            let names: Vec<&str> = contents.iter().map(|content| content.name()).collect();
            names.join(" or ")
        };
        match Meta::read(label) {
            Some((content, meta)) if contents.contains(&content) => Ok((content, meta)),
            Some((content, _)) => Err(Error::Usage(format!(
                "{path} holds {}, but {} is needed here: name another file",
                content.name(),
                needed()
            ))),
            // Told apart from other files, because the remedy differs: the keys must be made again.
            None if Meta::is_of_another_version(label) => Err(Error::Usage(format!(
                "{path} was made by another version of this program: make it again with this \
                 version, starting from the keys"
            ))),
            None => Err(Error::Usage(format!(
                "{path} has no label of this program, but {} is needed here: make it with `sudare \
                 keygen` and `sudare encrypt` of this version",
                needed()
            ))),
        }
    }

    /// Returns an upper bound of the bytes of the tables that [`Opened::params`] builds.
    ///
    /// # Errors
    /// [`Error::File`] for sizes that no valid parameters have.
    pub fn table_bytes(&self) -> Result<u64> {
        self.reader.table_bytes().map_err(in_file(&self.path, self.watch.as_deref()))
    }

    /// Builds the parameters.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Memory`] if the machine has no room for their tables.
    pub fn params(&self) -> Result<Params> {
        // A failed allocation of the tables would abort the program.
        memory::check(
            "the tables of the parameters",
            self.table_bytes()?,
            "close other programs, or use a machine with more memory",
        )?;
        self.reader.params().map_err(in_file(&self.path, self.watch.as_deref()))
    }

    /// Refuses a file of other parameters or another key.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn expect_key(&self, params: ParamsId, key: KeyId) -> Result<()> {
        let info = self.info();
        let what = "file";
        let found = info.params_id;
        let expected = params;
        // Parameters before the key: a key of other parameters has another fingerprint in any case.
        if found != expected {
            let source = sudare::Error::ParamsMismatch { what, found, expected };
            return Err(Error::in_file(&self.path)(source));
        }
        let found = info.key_id;
        let expected = key;
        if found != expected {
            let source = sudare::Error::KeyMismatch { what, found, expected };
            return Err(Error::in_file(&self.path)(source));
        }
        Ok(())
    }

    /// Returns the set of evaluation keys in the file.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn key_request(&self, params: &Params) -> Result<KeyRequest> {
        self.reader.key_request(params).map_err(Error::in_file(&self.path))
    }

    /// Reads the secret key.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn secret_key(self, params: &Params) -> Result<SecretKey> {
        self.reader.secret_key(params).map_err(Error::in_file(&self.path))
    }

    /// Reads the public key.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn public_key(self, params: &Params) -> Result<PublicKey> {
        self.reader.public_key(params).map_err(Error::in_file(&self.path))
    }

    /// Reads the evaluation keys. With `small`, keys compute their uniform halves at each use.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn evaluation_keys(self, params: &Params, small: bool) -> Result<EvaluationKeys> {
        let keys = self.reader.small_keys(small).evaluation_keys(params);
        keys.map_err(in_file(&self.path, self.watch.as_deref()))
    }

    /// Reads the ciphertexts, and splits off the last `note` ones.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn ciphertexts(self, params: &Params, note: u32) -> Result<SplitCiphertexts> {
        let mut content = self.reader.ciphertexts(params).map_err(Error::in_file(&self.path))?;
        let note = content.split_off(before_note(&self.path, content.len(), note)?);
        Ok(SplitCiphertexts { content, note })
    }

    /// Returns a reader that reads each ciphertext on request.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn into_reader(self, params: &Params) -> Result<CiphertextReader<R>>
    where
        R: Seek,
    {
        self.reader.into_ciphertexts(params).map_err(Error::in_file(&self.path))
    }

    /// Reads the note now, and leaves the other ciphertexts in the file.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn into_stored(self, params: &Params, note: u32) -> Result<Stored<R>>
    where
        R: Seek,
    {
        let path = self.path.clone();
        let mut reader = self.into_reader(params)?;
        let all = reader.shapes().len();
        let count = before_note(&path, all, note)?;
        // The note is small and every result needs it, so it does not wait for the rows.
        let note = reader.read(count..all).map_err(Error::in_file(&path))?;
        Ok(Stored { path, reader: Mutex::new(reader), count, note })
    }
}

/// Attributes an error to the file at `path`, or to a change of the file while it was mapped.
pub fn in_file(path: &Path, watch: Option<&Watch>) -> impl Fn(sudare::Error) -> Error {
    move |source| {
        // A file that changed under the map looks damaged, and the change is the true cause.
        let changed = watch.and_then(|watch| watch.check().err());
        changed.unwrap_or_else(|| Error::in_file(path)(source))
    }
}

/// Returns the number of ciphertexts before the last `note` ones.
fn before_note(path: &Path, all: usize, note: u32) -> Result<usize> {
    // The label states the number of notes, and anyone can write a label.
    all.checked_sub(note as usize).ok_or_else(|| Error::File {
        path: path.into(),
        source: sudare::Error::Malformed {
            what: "file",
            problem: format!("it lists {note} ciphertexts of a note, but has {all} in total"),
        },
    })
}

/// Refuses a result unless its origin names the encrypted tables in these files.
///
/// # Errors
/// [`Error::OtherTable`]; the errors of [`digest`].
pub fn expect_tables(result: &Path, origin: Option<&Origin>, tables: &[PathBuf]) -> Result<()> {
    let digests = tables.iter().map(|path| digest(path)).collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = tables.iter().map(|path| path.display().to_string()).collect();
    expect_origin(result, origin, digests, &names)
}

/// Same as [`expect_tables`], for encrypted tables with these digests. Messages call the tables
/// `names`.
///
/// # Errors
/// [`Error::OtherTable`].
pub fn expect_origin(
    result: &Path,
    origin: Option<&Origin>,
    digests: Vec<[u8; 32]>,
    names: &[String],
) -> Result<()> {
    // A result without an origin names no table, so it proves nothing about this one.
    if origin.is_some_and(|origin| origin.is_of(digests)) {
        return Ok(());
    }
    let found = origin.map_or_else(
        || "no table that it names".into(),
        |origin| format!("a table with the digest {}", blake3::Hash::from(origin.table)),
    );
    Err(Error::OtherTable { path: result.into(), tables: names.join(" and "), found })
}

/// Returns the digest of a file of keys or ciphertexts, from the checksums in it.
///
/// # Errors
/// [`Error::Io`]; [`Error::File`].
pub fn digest(path: &Path) -> Result<[u8; 32]> {
    let (file, bytes) = files::open(path, Access::Shared)?;
    // Few bytes are read at many positions, so no buffer.
    serial::digest(file.into_inner(), bytes).map_err(Error::in_file(path))
}

/// The ciphertexts of a file.
pub struct SplitCiphertexts {
    /// Ciphertexts before the note.
    pub content: Vec<Ciphertext>,
    /// Ciphertexts of the note.
    pub note: Vec<Ciphertext>,
}

/// The ciphertexts of a table. They stay in their file until they are needed.
pub struct Stored<R = BufReader<File>> {
    path: PathBuf,
    // The reader has one position in the file, and several threads ask for parts.
    reader: Mutex<CiphertextReader<R>>,
    count: usize,
    /// Ciphertexts of the note, already read.
    pub note: Vec<Ciphertext>,
}

impl<R: Read + Seek> Stored<R> {
    /// Returns the number of ciphertexts without the note.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Creates the error for a malformed file.
    #[must_use]
    pub fn malformed(&self, problem: String) -> Error {
        Error::in_file(&self.path)(sudare::Error::Malformed { what: "file", problem })
    }

    /// Reads the ciphertexts with these numbers.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn read(&self, numbers: Range<usize>) -> Result<Vec<Ciphertext>> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.read(numbers).map_err(Error::in_file(&self.path))
    }
}
