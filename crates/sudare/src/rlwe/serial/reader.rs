use super::{
    super::{EvaluationKeys, KeyId, KeyRequest, ParamsId, PublicKey, SecretKey},
    FORMAT_VERSION, FileReader, Kind, Label, Scheme, Sections,
};
use crate::{Error, Result};
use core::{fmt, ops::Range};
use std::io::{Cursor, Read, Seek};
use sudare_arith::mem::Mapping;

/// Information in a file's header. `S` is the specification of its scheme.
#[derive(Debug, Clone, PartialEq)]
pub struct Info<S> {
    /// Kind of the content.
    pub kind: Kind,
    /// Version of the file format.
    pub format_version: u32,
    /// Parameters as written. [`Reader::params`] checks them.
    pub spec: S,
    /// Fingerprint of the parameters as written.
    pub params_id: ParamsId,
    /// The key pair that the content belongs to.
    pub key_id: KeyId,
    /// Label of the application.
    pub label: Label,
    /// Size of the file.
    pub bytes: u64,
    /// Number of keys or ciphertexts.
    pub count: u64,
}

/// Computes the digest of a whole file of keys or ciphertexts of the scheme `P` from its checksums,
/// without reading the content. Files with the same digest have the same content, unless reading
/// them detects damage.
///
/// # Errors
/// See [`Reader::new`].
pub fn digest<P: Scheme>(input: impl Read + Seek, file_bytes: u64) -> Result<[u8; 32]> {
    let (mut file, _, header) = FileReader::open::<P>(input, file_bytes)?;
    let starts = header.sections.starts(file.position());
    file.digest(&starts)
}

/// A file of the scheme `P` whose header was read.
pub struct Reader<R: Read, P: Scheme> {
    file: FileReader<R>,
    sections: Sections<P::Meta>,
    info: Info<P::Spec>,
}

impl<P: Scheme> Reader<Cursor<Mapping>, P> {
    /// Opens a mapped file and leaves its evaluation keys in it: the first halves are read there at
    /// each use. Keys in a mapped file ([`Mapping::new`]) use only the memory that the system
    /// spares to cache the file. See [`Reader::new`].
    ///
    /// Opening the keys checks everything, as without a mapping. Afterwards the file must not
    /// change: if it is overwritten or truncated, results are wrong. [`Mapping::is_intact`] detects
    /// a truncation. The size and the modification time of the file detect every change. Renaming
    /// another file to its name, as `sudare` does, is safe.
    ///
    /// # Errors
    /// See [`Reader::new`].
    pub fn shared(file: Mapping) -> Result<Self> {
        let bytes = file.len() as u64;
        let mut reader = Self::new(Cursor::new(file.clone()), bytes)?;
        reader.file.mapping = Some(file);
        Ok(reader)
    }
}

impl<R: Read, P: Scheme> Reader<R, P> {
    /// Reads and checks the header of a file of `file_bytes`. The header has at most 64 MiB, and
    /// memory stays below twice the file plus a mebibyte. Later reads allocate only the memory of
    /// the object itself, after its size was checked against the parameters.
    ///
    /// # Errors
    /// [`Error::Malformed`]; [`Error::UnsupportedVersion`]; [`Error::Truncated`];
    /// [`Error::Checksum`]; [`Error::InvalidSpec`] for parameters out of range; [`Error::Io`].
    pub fn new(input: R, file_bytes: u64) -> Result<Self> {
        let (file, preamble, header) = FileReader::open::<P>(input, file_bytes)?;
        // Rejects sizes out of range at once, before anyone asks for tables of them.
        P::count_primes(&header.spec)?;
        let info = Info {
            kind: preamble.kind,
            format_version: FORMAT_VERSION,
            spec: header.spec,
            params_id: preamble.params,
            key_id: preamble.key,
            label: header.label,
            bytes: file_bytes,
            count: header.sections.count() as u64,
        };
        Ok(Self { file, sections: header.sections, info })
    }

    /// Selects whole or small evaluation keys; see [`EvaluationKeys`].
    #[must_use]
    pub fn small_keys(mut self, small: bool) -> Self {
        self.file.small_keys = small;
        self
    }

    /// Information in the file's header.
    #[must_use]
    pub fn info(&self) -> &Info<P::Spec> {
        &self.info
    }

    /// Returns the approximate bytes of the tables that [`Reader::params`] makes: at most half a
    /// gibibyte, for any file.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for sizes that no parameters can have.
    pub fn table_bytes(&self) -> Result<u64> {
        Ok(P::count_primes(&self.info.spec)?.table_bytes())
    }

    /// Builds the parameters of the file: seconds for the largest.
    ///
    /// # Errors
    /// Errors of making parameters; [`Error::ParamsMismatch`] if the fingerprint in the file
    /// differs; [`Error::Malformed`] if the file is too small for an object under the parameters,
    /// before memory is allocated.
    pub fn params(&self) -> Result<P> {
        // A file too small for its own parameters must not make this process build their tables.
        self.sections.check_room(&P::count_primes(&self.info.spec)?)?;
        let params = P::from_spec(self.info.spec.clone())?;
        params.as_ref().check_id("file", self.info.params_id)?;
        Ok(params)
    }

    /// Reads the secret key.
    ///
    /// # Errors
    /// [`Error::WrongKind`]; [`Error::ParamsMismatch`]; [`Error::Malformed`]; [`Error::Checksum`];
    /// [`Error::Truncated`]; [`Error::Io`].
    pub fn secret_key(mut self, params: &P) -> Result<SecretKey> {
        self.expect(Kind::SecretKey, params)?;
        self.sections.check_sizes(params.as_ref())?;
        let key = self.file.secret_key(params.as_ref(), self.info.key_id)?;
        self.file.finish()?;
        Ok(key)
    }

    /// Reads the public key.
    ///
    /// # Errors
    /// See [`Reader::secret_key`].
    pub fn public_key(mut self, params: &P) -> Result<PublicKey> {
        self.expect(Kind::PublicKey, params)?;
        self.sections.check_sizes(params.as_ref())?;
        let key = self.file.public_key(params.as_ref(), self.info.key_id)?;
        self.file.finish()?;
        Ok(key)
    }

    /// Returns the request that the evaluation keys in the file fulfil, from the header alone.
    ///
    /// # Errors
    /// [`Error::WrongKind`]; [`Error::ParamsMismatch`]; [`Error::Malformed`]; errors of
    /// [`KeyRequest::bytes`].
    pub fn key_request(&self, params: &P) -> Result<KeyRequest> {
        self.expect(Kind::EvaluationKeys, params)?;
        self.sections.key_request(params.as_ref())
    }

    /// Reads the evaluation keys. Their uniform halves are expanded unless the keys are to be
    /// small.
    ///
    /// # Errors
    /// Errors of [`Reader::secret_key`]; [`Error::LevelOutOfRange`]; [`Error::InvalidSpec`] for a
    /// Galois element that is even or too large.
    pub fn evaluation_keys(mut self, params: &P) -> Result<EvaluationKeys> {
        let request = self.key_request(params)?;
        self.sections.check_sizes(params.as_ref())?;
        let keys = self.file.evaluation_keys(params.as_ref(), self.info.key_id, &request)?;
        self.file.finish()?;
        Ok(keys)
    }

    /// Reads the ciphertexts in order.
    ///
    /// # Errors
    /// Errors of [`Reader::secret_key`]; [`Error::LevelOutOfRange`]; for exact ciphertexts also
    /// [`Error::PlaintextModulusNotPrime`], [`Error::PlaintextModulusOutOfRange`],
    /// [`Error::PlaintextModulusNotCoprime`] and [`Error::NotAUnit`].
    pub fn ciphertexts(mut self, params: &P) -> Result<Vec<P::Ciphertext>> {
        let (key, (forms, seeded)) = (self.info.key_id, self.forms(params)?);
        let mut items = Vec::with_capacity(forms.len());
        for said in forms.into_iter().zip(seeded) {
            items.push(read_ciphertext(&mut self.file, params, key, said)?);
        }
        self.file.finish()?;
        Ok(items)
    }

    /// Returns a reader of individual ciphertexts.
    ///
    /// # Errors
    /// Errors of [`Reader::ciphertexts`], except errors in content.
    pub fn into_ciphertexts(self, params: &P) -> Result<CiphertextReader<R, P>>
    where
        R: Seek,
    {
        let (forms, seeded) = self.forms(params)?;
        let starts = self.sections.starts(self.file.position());
        let Self { file, info, .. } = self;
        let params = params.clone();
        let key = info.key_id;
        Ok(CiphertextReader { file, params, key, forms, seeded, starts })
    }

    /// Returns the forms of the ciphertexts, sizes checked first, and a flag per ciphertext that
    /// tells whether it is seeded.
    fn forms(&self, params: &P) -> Result<(Vec<P::Form>, Vec<bool>)> {
        self.expect(Kind::Ciphertexts, params)?;
        // The kind of every section was checked with the header.
        let said = || self.sections.contents().filter_map(|content| content.ciphertext());
        // Before the sizes: a level out of range has no primes to compute a size from.
        said().try_for_each(|(level, ..)| params.as_ref().check_level(level))?;
        self.sections.check_sizes(params.as_ref())?;
        let count = self.sections.count();
        let mut forms = Vec::with_capacity(count);
        let mut all_seeded = Vec::with_capacity(count);
        let mut known = P::Known::default();
        for (level, meta, seeded) in said() {
            forms.push(params.checked_form(level, meta, &mut known)?);
            all_seeded.push(seeded);
        }
        Ok((forms, all_seeded))
    }

    fn expect(&self, needed: Kind, params: &P) -> Result<()> {
        if self.info.kind != needed {
            return Err(Error::WrongKind { found: self.info.kind, needed });
        }
        params.as_ref().check_id("file", self.info.params_id)
    }
}

impl<R: Read, P: Scheme> fmt::Debug for Reader<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("info", &self.info).finish_non_exhaustive()
    }
}

/// The ciphertexts of a file of the scheme `P`. Each is read and checked on request.
pub struct CiphertextReader<R, P: Scheme> {
    file: FileReader<R>,
    params: P,
    key: KeyId,
    forms: Vec<P::Form>,
    /// Flag per ciphertext: `true` if it is seeded.
    seeded: Vec<bool>,
    /// Start of each section, and the end of the last.
    starts: Vec<u64>,
}

impl<R, P: Scheme> fmt::Debug for CiphertextReader<R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CiphertextReader").field("forms", &self.forms).finish_non_exhaustive()
    }
}

impl<R: Read + Seek, P: Scheme> CiphertextReader<R, P> {
    /// The forms of all ciphertexts, in order.
    #[must_use]
    pub fn shapes(&self) -> &[P::Form] {
        &self.forms
    }

    /// Reads the ciphertexts with these numbers, from 0.
    ///
    /// # Errors
    /// [`Error::Malformed`], also if `numbers` exceeds the ciphertexts in the file;
    /// [`Error::Checksum`]; [`Error::Truncated`]; [`Error::Io`].
    pub fn read(&mut self, numbers: Range<usize>) -> Result<Vec<P::Ciphertext>> {
        let found = (
            self.forms.get(numbers.clone()),
            self.seeded.get(numbers.clone()),
            self.starts.get(numbers.start),
        );
        let (Some(forms), Some(seeded), Some(&start)) = found else {
            let found = self.forms.len();
            let end = numbers.end;
            let problem = format!("it has {found} ciphertexts, but {end} are needed");
            return Err(Error::Malformed { what: "file", problem });
        };
        // An empty range may start at the end of the file, where no section begins.
        if forms.is_empty() {
            return Ok(Vec::new());
        }
        // Section 0 is the header.
        self.file.seek((numbers.start as u64).saturating_add(1), start)?;
        let params = &self.params;
        let key = self.key;
        let said = forms.iter().copied().zip(seeded.iter().copied());
        said.map(|said| read_ciphertext(&mut self.file, params, key, said)).collect()
    }
}

fn read_ciphertext<R: Read, P: Scheme>(
    file: &mut FileReader<R>,
    params: &P,
    key: KeyId,
    (form, seeded): (P::Form, bool),
) -> Result<P::Ciphertext> {
    let (level, _) = P::described(form);
    Ok(P::ciphertext(file.ciphertext(params.as_ref(), key, level, seeded)?, form))
}
