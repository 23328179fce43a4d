//! Files of keys and ciphertexts, as their readers see them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    error::{Error, Result},
    files::{self, Access, Watch},
    label::{Content, Meta, Origin},
    memory,
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

/// An open file of keys or ciphertexts, its header read.
pub struct Opened<R: Read = BufReader<File>> {
    path: PathBuf,
    reader: Reader<R>,
    /// Of a file that is mapped.
    watch: Option<Arc<Watch>>,
}

impl Opened<Cursor<Mapping>> {
    /// Opens a file of evaluation keys that stay in it, and watches it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`]; [`Error::FileChanged`] if it is changed meanwhile, as
    /// whatever is read from it then.
    pub fn mapped(path: &Path) -> Result<(Self, Arc<Watch>)> {
        let (file, _) = files::open(path, Access::Shared)?;
        let watch = Arc::new(Watch::new(path, file.get_ref())?);
        let reader = Reader::shared(watch.mapping().clone());
        let reader = reader.map_err(in_file(path, Some(&watch)))?;
        let this = Self { path: path.into(), reader, watch: Some(Arc::clone(&watch)) };
        Ok((this.expect(Kind::EvaluationKeys)?, watch))
    }
}

impl Opened {
    /// Opens a file that must hold `kind`; for secret keys there is
    /// [`SecretFile`](crate::secret::SecretFile).
    ///
    /// # Errors
    /// As [`Opened::any`].
    pub fn open(path: &Path, kind: Kind) -> Result<Self> {
        Self::any(path, Access::Shared)?.expect(kind)
    }

    /// Opens a file that must hold `kind`, and digests it as [`digest`].
    ///
    /// # Errors
    /// As [`Opened::open`].
    pub fn digested(path: &Path, kind: Kind) -> Result<(Self, [u8; 32])> {
        let (mut file, bytes) = files::open(path, Access::Shared)?;
        // Few bytes are read at many places, without the buffer.
        let digest = serial::digest(file.get_ref(), bytes).map_err(Error::in_file(path))?;
        file.rewind().map_err(|error| Error::io("read", path, error))?;
        Ok((Self::new(file, bytes, path)?.expect(kind)?, digest))
    }

    /// Opens the file of a public key, which must have this digest, if one is expected.
    ///
    /// # Errors
    /// As [`Opened::open`]; [`Error::OtherFile`].
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
    /// A file of so many bytes, wherever they are; messages call it `path`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn new(file: R, bytes: u64, path: &Path) -> Result<Self> {
        let reader = Reader::new(file, bytes).map_err(Error::in_file(path))?;
        Ok(Self { path: path.into(), reader, watch: None })
    }

    /// This file, which must hold `needed`.
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

    /// What the header says.
    pub fn info(&self) -> &Info {
        self.reader.info()
    }

    /// What messages call the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the label carries; its content must be one of `contents`.
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
            None if Meta::is_of_another_version(label) => Err(Error::Usage(format!(
                "{path} was made by another version of this program: make it again by this one, \
                 from keys on"
            ))),
            None => Err(Error::Usage(format!(
                "{path} does not say what it is for, but {} of this program is needed here: make \
                 it with `sudare keygen` and `sudare encrypt` of this version",
                needed()
            ))),
        }
    }

    /// Bytes of the tables that [`Opened::params`] builds, at most.
    ///
    /// # Errors
    /// [`Error::File`] for sizes that no parameters have.
    pub fn table_bytes(&self) -> Result<u64> {
        self.reader.table_bytes().map_err(in_file(&self.path, self.watch.as_deref()))
    }

    /// The parameters.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Memory`] if the machine has no room for their tables.
    pub fn params(&self) -> Result<Params> {
        memory::check(
            "the tables of the parameters",
            self.table_bytes()?,
            "end other programs, or use a machine with more memory",
        )?;
        self.reader.params().map_err(in_file(&self.path, self.watch.as_deref()))
    }

    /// Refuses this file unless it belongs to these parameters and this key.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn expect_key(&self, params: ParamsId, key: KeyId) -> Result<()> {
        let (info, what) = (self.info(), "file");
        let (found, expected) = (info.params_id, params);
        if found != expected {
            let source = sudare::Error::ParamsMismatch { what, found, expected };
            return Err(Error::in_file(&self.path)(source));
        }
        let (found, expected) = (info.key_id, key);
        if found != expected {
            let source = sudare::Error::KeyMismatch { what, found, expected };
            return Err(Error::in_file(&self.path)(source));
        }
        Ok(())
    }

    /// The keys that evaluation keys are.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn key_request(&self, params: &Params) -> Result<KeyRequest> {
        self.reader.key_request(params).map_err(Error::in_file(&self.path))
    }

    /// The secret key.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn secret_key(self, params: &Params) -> Result<SecretKey> {
        self.reader.secret_key(params).map_err(Error::in_file(&self.path))
    }

    /// The public key.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn public_key(self, params: &Params) -> Result<PublicKey> {
        self.reader.public_key(params).map_err(Error::in_file(&self.path))
    }

    /// The evaluation keys; `small` ones compute their uniform halves when these are used.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn evaluation_keys(self, params: &Params, small: bool) -> Result<EvaluationKeys> {
        let keys = self.reader.small_keys(small).evaluation_keys(params);
        keys.map_err(in_file(&self.path, self.watch.as_deref()))
    }

    /// The ciphertexts, of which the last `note` are apart.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn ciphertexts(self, params: &Params, note: u32) -> Result<SplitCiphertexts> {
        let mut content = self.reader.ciphertexts(params).map_err(Error::in_file(&self.path))?;
        let note = content.split_off(before_note(&self.path, content.len(), note)?);
        Ok(SplitCiphertexts { content, note })
    }

    /// The ciphertexts of the file, each read when it is asked for.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn into_reader(self, params: &Params) -> Result<CiphertextReader<R>>
    where
        R: Seek,
    {
        self.reader.into_ciphertexts(params).map_err(Error::in_file(&self.path))
    }

    /// This file, of which only the note is read now.
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
        let note = reader.read(count..all).map_err(Error::in_file(&path))?;
        Ok(Stored { path, reader: Mutex::new(reader), count, note })
    }
}

/// `source` is about the file at `path`, unless that was changed while it was mapped.
pub fn in_file(path: &Path, watch: Option<&Watch>) -> impl Fn(sudare::Error) -> Error {
    move |source| {
        let changed = watch.and_then(|watch| watch.check().err());
        changed.unwrap_or_else(|| Error::in_file(path)(source))
    }
}

/// How many of `all` ciphertexts are before the `note` last ones.
fn before_note(path: &Path, all: usize, note: u32) -> Result<usize> {
    all.checked_sub(note as usize).ok_or_else(|| Error::File {
        path: path.into(),
        source: sudare::Error::Malformed {
            what: "file",
            problem: format!("it lists {note} ciphertexts of a note and has {all}"),
        },
    })
}

/// Refuses a result unless it says that it comes from the encrypted tables in these files.
///
/// # Errors
/// [`Error::OtherTable`]; as [`digest`].
pub fn expect_tables(result: &Path, origin: Option<&Origin>, tables: &[PathBuf]) -> Result<()> {
    let digests = tables.iter().map(|path| digest(path)).collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = tables.iter().map(|path| path.display().to_string()).collect();
    expect_origin(result, origin, digests, &names)
}

/// As [`expect_tables`], of encrypted tables with these digests; messages call them `names`.
///
/// # Errors
/// [`Error::OtherTable`].
pub fn expect_origin(
    result: &Path,
    origin: Option<&Origin>,
    digests: Vec<[u8; 32]>,
    names: &[String],
) -> Result<()> {
    if origin.is_some_and(|origin| origin.is_of(digests)) {
        return Ok(());
    }
    let found = origin.map_or_else(
        || "nothing that it names".into(),
        |origin| format!("a table of digest {}", blake3::Hash::from(origin.table)),
    );
    Err(Error::OtherTable { path: result.into(), tables: names.join(" and "), found })
}

/// The digest of a file of keys or ciphertexts, by the checksums in it.
///
/// # Errors
/// [`Error::Io`]; [`Error::File`].
pub fn digest(path: &Path) -> Result<[u8; 32]> {
    let (file, bytes) = files::open(path, Access::Shared)?;
    // Few bytes are read at many places.
    serial::digest(file.into_inner(), bytes).map_err(Error::in_file(path))
}

/// The ciphertexts of a file.
pub struct SplitCiphertexts {
    /// But those of the note.
    pub content: Vec<Ciphertext>,
    /// Ciphertexts of the note.
    pub note: Vec<Ciphertext>,
}

/// The ciphertexts of a table, left in their file until they are needed.
pub struct Stored<R = BufReader<File>> {
    path: PathBuf,
    reader: Mutex<CiphertextReader<R>>,
    count: usize,
    /// Ciphertexts of the note, which are read.
    pub note: Vec<Ciphertext>,
}

impl<R: Read + Seek> Stored<R> {
    /// Without those of the note.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What is wrong with the file.
    #[must_use]
    pub fn malformed(&self, problem: String) -> Error {
        Error::in_file(&self.path)(sudare::Error::Malformed { what: "file", problem })
    }

    /// The ciphertexts with these numbers.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn read(&self, numbers: Range<usize>) -> Result<Vec<Ciphertext>> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.read(numbers).map_err(Error::in_file(&self.path))
    }
}
