//! Files of keys and ciphertexts. `docs/file-format.md` describes the format.
//!
//! Every file says which parameters and which key it belongs to. Uniform halves of
//! keys are stored as their public seeds. Checksums find damage; they do not stop
//! anyone from writing another valid file, so a file is as trustworthy as its
//! source. Reading checks every length, number and residue before it is used.
//!
//! ```
//! use sudare::{ckks::{Params, Spec, serial}, rlwe::KeyGenerator};
//!
//! # fn main() -> sudare::Result<()> {
//! let params = Params::new(Spec { insecure: true, ..Spec::uniform(10, 40.0, 1, 30.0, vec![40.0]) })?;
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let public = keygen.public_key(&secret)?;
//!
//! let mut file = Vec::new();
//! let bytes = serial::write_public_key(&mut file, &params, &public, &serial::Label::default())?;
//!
//! let reader = serial::Reader::new(&file[..], bytes)?;
//! assert_eq!(reader.info().key_id, secret.id());
//! let params = reader.params()?;
//! let public = reader.public_key(&params)?;
//! assert_eq!(public.id(), secret.id());
//! # Ok(())
//! # }
//! ```

use super::{Ciphertext, Params, Scale, Spec, params::check_sizes};
pub use crate::rlwe::serial::{FORMAT_VERSION, Kind, Label};
use crate::{
    Error, Result,
    rlwe::{
        self, EvaluationKeys, KeyId, KeyRequest, Level, ParamsId, PublicKey, SecretKey,
        serial::{Content, FileReader, FileWriter, Header, Preamble, Scheme, key_contents},
    },
};
use core::ops::Range;
use serde::{Deserialize, Serialize};
use std::io::{Cursor, Read, Seek, Write};
use sudare_arith::mem::Mapping;

/// What the header says of a ciphertext beside its level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Meta {
    scale: Scale,
    log_slots: u32,
}

impl Meta {
    fn check(self, params: &Params) -> Result<()> {
        let malformed = |problem: String| Err(Error::Malformed { what: "ciphertext", problem });
        if !self.scale.is_valid() {
            return malformed("its scale is not a positive number".into());
        }
        if self.log_slots >= params.log_n() {
            let (found, slots) = (self.log_slots, params.max_slots());
            return malformed(format!("it has 2^{found} slots, its parameters {slots}"));
        }
        Ok(())
    }
}

/// What a file says about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// What it holds.
    pub kind: Kind,
    /// Version of its format.
    pub format_version: u32,
    /// Its parameters as written; [`Reader::params`] checks them.
    pub spec: Spec,
    /// Fingerprint of its parameters as written.
    pub params_id: ParamsId,
    /// The key pair that it belongs to.
    pub key_id: KeyId,
    /// What the application says.
    pub label: Label,
    /// Its size.
    pub bytes: u64,
    /// Keys or ciphertexts in it.
    pub count: u64,
}

fn header(params: &Params, label: &Label, contents: Vec<Content<Meta>>) -> Header<Spec, Meta> {
    Header::new(params.rlwe(), params.spec().clone(), label, contents)
}

fn preamble(kind: Kind, params: &Params, key: KeyId) -> Preamble {
    Preamble { kind, params: params.rlwe().id(), key }
}

/// Writes a secret key, two bits a coefficient, and returns the bytes written.
///
/// Nothing that this crate leaves in memory tells the key; give the file itself,
/// since a buffered writer keeps a copy.
///
/// # Errors
/// [`Error::ParamsMismatch`]; [`Error::InvalidSpec`] for a label over 16 MiB;
/// [`Error::Io`].
pub fn write_secret_key(
    out: &mut (impl Write + ?Sized),
    params: &Params,
    key: &SecretKey,
    label: &Label,
) -> Result<u64> {
    key.check(params.rlwe())?;
    let header = header(params, label, vec![Content::SecretKey]);
    let preamble = preamble(Kind::SecretKey, params, key.id);
    let mut file = FileWriter::new(out, Scheme::Ckks, preamble, &header)?;
    file.secret_key(key)?;
    file.finish()
}

/// Writes a public key and returns the bytes written.
///
/// # Errors
/// As [`write_secret_key`].
pub fn write_public_key(
    out: &mut (impl Write + ?Sized),
    params: &Params,
    key: &PublicKey,
    label: &Label,
) -> Result<u64> {
    params.rlwe().check_id(Kind::PublicKey.name(), key.params)?;
    let header = header(params, label, vec![Content::PublicKey]);
    let preamble = preamble(Kind::PublicKey, params, key.id);
    let mut file = FileWriter::new(out, Scheme::Ckks, preamble, &header)?;
    file.public_key(params.rlwe(), key)?;
    file.finish()
}

/// Writes evaluation keys, one section each, and returns the bytes written.
///
/// # Errors
/// As [`write_secret_key`].
pub fn write_evaluation_keys(
    out: &mut (impl Write + ?Sized),
    params: &Params,
    keys: &EvaluationKeys,
    label: &Label,
) -> Result<u64> {
    params.rlwe().check_id(Kind::EvaluationKeys.name(), keys.params)?;
    let header = header(params, label, key_contents(&keys.fulfils()));
    let preamble = preamble(Kind::EvaluationKeys, params, keys.id);
    let mut file = FileWriter::new(out, Scheme::Ckks, preamble, &header)?;
    file.evaluation_keys(keys)?;
    file.finish()
}

/// Exactly the bytes that [`write_evaluation_keys`] writes for the keys of
/// `request`.
///
/// # Errors
/// As [`KeyRequest::bytes`].
pub fn evaluation_keys_bytes(params: &Params, request: &KeyRequest, label: &Label) -> Result<u64> {
    request.check(params.rlwe())?;
    Ok(header(params, label, key_contents(request)).total_bytes())
}

/// What a file says of a ciphertext before it comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Its level.
    pub level: Level,
    /// Its scale.
    pub scale: Scale,
    /// `log2` of its slots.
    pub log_slots: u32,
}

impl Shape {
    /// That of a ciphertext.
    #[must_use]
    pub fn of(item: &Ciphertext) -> Self {
        Self { level: item.level(), scale: item.scale, log_slots: item.log_slots }
    }
}

/// Writes ciphertexts of one key one after the other, and holds none of them.
pub struct CiphertextWriter<'a, W: Write + ?Sized> {
    file: FileWriter<'a, W>,
    params: rlwe::Params,
    key: KeyId,
    /// Of those that are still to come.
    shapes: std::vec::IntoIter<Shape>,
}

impl<'a, W: Write + ?Sized> CiphertextWriter<'a, W> {
    /// Writes the header, which says what will come.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a shape that the parameters do not have; [`Error::InvalidSpec`] if
    /// there are none, or more than one file holds (about a million), or for a label over 16 MiB;
    /// [`Error::LevelOutOfRange`]; [`Error::Io`].
    pub fn new(
        out: &'a mut W,
        params: &Params,
        key: KeyId,
        shapes: Vec<Shape>,
        label: &Label,
    ) -> Result<Self> {
        if shapes.is_empty() {
            return Err(Error::InvalidSpec {
                field: "ciphertexts",
                problem: "there are none: a file needs at least one".into(),
            });
        }
        let content = |&Shape { level, scale, log_slots }: &Shape| {
            params.rlwe().check_level(level)?;
            let meta = Meta { scale, log_slots };
            meta.check(params)?;
            Ok(Content::Ciphertext(level, meta))
        };
        let contents = shapes.iter().map(content).collect::<Result<_>>()?;
        let header = header(params, label, contents);
        let preamble = preamble(Kind::Ciphertexts, params, key);
        let file = FileWriter::new(out, Scheme::Ckks, preamble, &header)?;
        Ok(Self { file, params: params.rlwe().clone(), key, shapes: shapes.into_iter() })
    }

    /// Writes the next one.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`]; [`Error::Malformed`] if it has not the
    /// shape that was said, or is one too many; [`Error::Io`].
    pub fn write(&mut self, item: &Ciphertext) -> Result<()> {
        item.inner.check_owner(&self.params, self.key)?;
        let (found, needed) = (Shape::of(item), self.shapes.next());
        if Some(found) != needed {
            let problem = format!("it is {found:?}, the file's header says {needed:?}");
            return Err(Error::Malformed { what: "ciphertext", problem });
        }
        self.file.ciphertext(&self.params, &item.inner)
    }

    /// Ends the file and returns the bytes written.
    ///
    /// # Errors
    /// [`Error::Malformed`] if ciphertexts are missing; [`Error::Io`].
    pub fn finish(self) -> Result<u64> {
        let missing = self.shapes.len();
        if missing > 0 {
            let problem = format!("{missing} more ciphertexts stand in its header");
            return Err(Error::Malformed { what: "file", problem });
        }
        self.file.finish()
    }
}

/// Writes ciphertexts of one key, in order, and returns the bytes written.
///
/// # Errors
/// As [`write_secret_key`]; [`Error::KeyMismatch`] for ciphertexts of several
/// keys; [`Error::InvalidSpec`] if there are none, or more than one file holds
/// (about a million).
pub fn write_ciphertexts(
    out: &mut (impl Write + ?Sized),
    params: &Params,
    items: &[Ciphertext],
    label: &Label,
) -> Result<u64> {
    let key = items.first().map_or(KeyId(0), Ciphertext::key_id);
    // Before anything is written.
    items.iter().try_for_each(|item| item.inner.check_owner(params.rlwe(), key))?;
    let shapes = items.iter().map(Shape::of).collect();
    let mut file = CiphertextWriter::new(out, params, key, shapes, label)?;
    items.iter().try_for_each(|item| file.write(item))?;
    file.finish()
}

/// The digest of a whole file of keys or ciphertexts by the checksums in it, of which the
/// content is not read: files with the same digest have the same content, as far as reading them
/// finds no damage.
///
/// # Errors
/// As [`Reader::new`].
pub fn digest(input: impl Read + Seek, file_bytes: u64) -> Result<[u8; 32]> {
    let (mut file, _, header) = FileReader::open::<Spec, Meta>(input, file_bytes, Scheme::Ckks)?;
    let starts = header.starts(file.position());
    file.digest(&starts)
}

/// A file whose header was read.
pub struct Reader<R: Read> {
    file: FileReader<R>,
    header: Header<Spec, Meta>,
    info: Info,
}

impl Reader<Cursor<Mapping>> {
    /// As [`Reader::new`], of a file whose evaluation keys stay where they are: their first
    /// halves are read there whenever they are used. Those of a file that is mapped
    /// ([`Mapping::new`]) take no memory but what the system spares to cache the file.
    ///
    /// Everything is checked when the keys are opened, as without mapping. Thereafter the file
    /// must stay as it is: if it is overwritten or cut, results are wrong. Of a file that was cut
    /// [`Mapping::is_intact`] tells, and the size and the time of the last change of it do in any
    /// case. Renaming another file to its name, as `sudare` does, harms nothing.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn shared(file: Mapping) -> Result<Self> {
        let bytes = file.len() as u64;
        let mut reader = Self::new(Cursor::new(file.clone()), bytes)?;
        reader.file.mapping = Some(file);
        Ok(reader)
    }
}

impl<R: Read> Reader<R> {
    /// Reads and checks the header of a file of `file_bytes`, at most 64 MiB of it.
    /// Reading later takes no more memory than the object itself, and that only
    /// once its size is known to follow from the parameters.
    ///
    /// # Errors
    /// [`Error::Malformed`]; [`Error::UnsupportedVersion`]; [`Error::Truncated`];
    /// [`Error::Checksum`]; [`Error::InvalidSpec`] for parameters out of range;
    /// [`Error::Io`].
    pub fn new(input: R, file_bytes: u64) -> Result<Self> {
        let (file, preamble, header) =
            FileReader::open::<Spec, Meta>(input, file_bytes, Scheme::Ckks)?;
        check_sizes(&header.spec)?;
        let info = Info {
            kind: preamble.kind,
            format_version: FORMAT_VERSION,
            spec: header.spec.clone(),
            params_id: preamble.params,
            key_id: preamble.key,
            label: header.label.clone(),
            bytes: file_bytes,
            count: header.sections.len() as u64,
        };
        Ok(Self { file, header, info })
    }

    /// The same reader, whose evaluation keys are whole or small: see [`EvaluationKeys`].
    #[must_use]
    pub fn small_keys(mut self, small: bool) -> Self {
        self.file.small_keys = small;
        self
    }

    /// What the file says about itself.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The parameters of the file, built anew: seconds for the largest.
    ///
    /// # Errors
    /// As [`Params::new`]; [`Error::ParamsMismatch`] if the fingerprint in the file
    /// is not theirs; [`Error::Malformed`] if the file is too small for an object of
    /// theirs, before memory is taken.
    pub fn params(&self) -> Result<Params> {
        let spec = &self.info.spec;
        let sums = |first: usize, levels: &[Vec<f64>]| -> Vec<usize> {
            let sums = levels.iter().scan(first, |sum, level| {
                *sum += level.len();
                Some(*sum)
            });
            sums.collect()
        };
        let mut primes = sums(0, &spec.q_bits);
        let fresh = primes.last().copied().unwrap_or(0);
        let raised = spec.raised.iter();
        primes.extend(raised.flat_map(|raised| sums(raised.base_bits.len(), &raised.levels_bits)));
        self.header.check_room(spec.log_n, &primes, fresh, spec.p_bits.len())?;
        let params = Params::new(self.info.spec.clone())?;
        params.rlwe().check_id("file", self.info.params_id)?;
        Ok(params)
    }

    /// The secret key in the file.
    ///
    /// # Errors
    /// [`Error::WrongKind`]; [`Error::ParamsMismatch`]; [`Error::Malformed`];
    /// [`Error::Checksum`]; [`Error::Truncated`]; [`Error::Io`].
    pub fn secret_key(mut self, params: &Params) -> Result<SecretKey> {
        self.expect(Kind::SecretKey, params)?;
        self.header.check_sizes(params.rlwe())?;
        let key = self.file.secret_key(params.rlwe(), self.info.key_id)?;
        self.file.finish()?;
        Ok(key)
    }

    /// The public key in the file.
    ///
    /// # Errors
    /// As [`Reader::secret_key`].
    pub fn public_key(mut self, params: &Params) -> Result<PublicKey> {
        self.expect(Kind::PublicKey, params)?;
        self.header.check_sizes(params.rlwe())?;
        let key = self.file.public_key(params.rlwe(), self.info.key_id)?;
        self.file.finish()?;
        Ok(key)
    }

    /// What the evaluation keys in the file can do, from the header alone.
    ///
    /// # Errors
    /// [`Error::WrongKind`]; [`Error::ParamsMismatch`]; [`Error::Malformed`]; what
    /// [`KeyRequest::bytes`] refuses.
    pub fn key_request(&self, params: &Params) -> Result<KeyRequest> {
        self.expect(Kind::EvaluationKeys, params)?;
        self.header.key_request(params.rlwe())
    }

    /// The evaluation keys in the file, their uniform halves expanded unless they are to be
    /// small.
    ///
    /// # Errors
    /// As [`Reader::secret_key`]; [`Error::LevelOutOfRange`];
    /// [`Error::InvalidSpec`] for a Galois element that is even or too large.
    pub fn evaluation_keys(mut self, params: &Params) -> Result<EvaluationKeys> {
        let request = self.key_request(params)?;
        self.header.check_sizes(params.rlwe())?;
        let keys = self.file.evaluation_keys(params.rlwe(), self.info.key_id, &request)?;
        self.file.finish()?;
        Ok(keys)
    }

    /// The ciphertexts in the file, in order.
    ///
    /// # Errors
    /// As [`Reader::secret_key`]; [`Error::LevelOutOfRange`].
    pub fn ciphertexts(mut self, params: &Params) -> Result<Vec<Ciphertext>> {
        let (key, shapes) = (self.info.key_id, self.shapes(params)?);
        let read = |shape| read_ciphertext(&mut self.file, params, key, shape);
        let items = shapes.into_iter().map(read).collect::<Result<_>>()?;
        self.file.finish()?;
        Ok(items)
    }

    /// The ciphertexts in the file, to be read when they are asked for.
    ///
    /// # Errors
    /// [`Error::WrongKind`]; [`Error::ParamsMismatch`]; [`Error::Malformed`];
    /// [`Error::LevelOutOfRange`].
    pub fn into_ciphertexts(self, params: &Params) -> Result<CiphertextReader<R>>
    where
        R: Seek,
    {
        let shapes = self.shapes(params)?;
        let starts = self.header.starts(self.file.position());
        let Self { file, info, .. } = self;
        Ok(CiphertextReader { file, params: params.clone(), key: info.key_id, shapes, starts })
    }

    /// Those of the ciphertexts, each checked.
    fn shapes(&self, params: &Params) -> Result<Vec<Shape>> {
        self.expect(Kind::Ciphertexts, params)?;
        let mut shapes = Vec::with_capacity(self.header.sections.len());
        for section in &self.header.sections {
            // The kind of every section was checked with the header.
            if let Content::Ciphertext(level, meta) = section.content {
                params.rlwe().check_level(level)?;
                meta.check(params)?;
                shapes.push(Shape { level, scale: meta.scale, log_slots: meta.log_slots });
            }
        }
        self.header.check_sizes(params.rlwe())?;
        Ok(shapes)
    }

    fn expect(&self, needed: Kind, params: &Params) -> Result<()> {
        if self.info.kind != needed {
            return Err(Error::WrongKind { found: self.info.kind, needed });
        }
        params.rlwe().check_id("file", self.info.params_id)
    }
}

/// The ciphertexts of a file, each read and checked when it is asked for.
pub struct CiphertextReader<R> {
    file: FileReader<R>,
    params: Params,
    key: KeyId,
    shapes: Vec<Shape>,
    /// Where each section begins, and where the last one ends.
    starts: Vec<u64>,
}

impl<R: Read + Seek> CiphertextReader<R> {
    /// Those of all ciphertexts, in order.
    #[must_use]
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// Reads the ciphertexts with these numbers, from 0.
    ///
    /// # Errors
    /// [`Error::Malformed`], also if there are not so many; [`Error::Checksum`];
    /// [`Error::Truncated`]; [`Error::Io`].
    pub fn read(&mut self, numbers: Range<usize>) -> Result<Vec<Ciphertext>> {
        let Some(shapes) = self.shapes.get(numbers.clone()) else {
            let (found, end) = (self.shapes.len(), numbers.end);
            let problem = format!("it has {found} ciphertexts, {end} are needed");
            return Err(Error::Malformed { what: "file", problem });
        };
        if shapes.is_empty() {
            return Ok(Vec::new());
        }
        // Section 0 is the header.
        self.file.seek(numbers.start as u64 + 1, self.starts[numbers.start])?;
        let (params, key) = (&self.params, self.key);
        shapes.iter().map(|&shape| read_ciphertext(&mut self.file, params, key, shape)).collect()
    }
}

fn read_ciphertext<R: Read>(
    file: &mut FileReader<R>,
    params: &Params,
    key: KeyId,
    Shape { level, scale, log_slots }: Shape,
) -> Result<Ciphertext> {
    let inner = file.ciphertext(params.rlwe(), key, level)?;
    Ok(Ciphertext { inner, scale, log_slots })
}

impl<R: Read> core::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Reader").field("info", &self.info).finish_non_exhaustive()
    }
}
