use super::{
    super::{EvaluationKeys, KeyId, KeyRequest, ParamsId, PublicKey, SecretKey},
    FORMAT_VERSION, FileReader, Kind, Label, Scheme, Sections,
};
use crate::{Error, Result};
use core::{fmt, ops::Range};
use std::io::{Cursor, Read, Seek};
use sudare_arith::mem::Mapping;

/// What a file says about itself. `S` is the specification of its scheme.
#[derive(Debug, Clone, PartialEq)]
pub struct Info<S> {
    /// What it holds.
    pub kind: Kind,
    /// Version of its format.
    pub format_version: u32,
    /// Parameters as written; [`Reader::params`] checks them.
    pub spec: S,
    /// Fingerprint of its parameters as written.
    pub params_id: ParamsId,
    /// The key pair that it belongs to.
    pub key_id: KeyId,
    /// What the application says.
    pub label: Label,
    /// Size of the file.
    pub bytes: u64,
    /// Keys or ciphertexts in it.
    pub count: u64,
}

/// The digest of a whole file of keys or ciphertexts of the scheme `P` by the checksums in it, of
/// which the content is not read: files with the same digest have the same content, as far as
/// reading them finds no damage.
///
/// # Errors
/// As [`Reader::new`].
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

impl<R: Read, P: Scheme> Reader<R, P> {
    /// Reads and checks the header of a file of `file_bytes`, at most 64 MiB of it, in memory for
    /// at most twice the file and a mebibyte. Reading later takes no more memory than the object
    /// itself, and that only once its size is known to follow from the parameters.
    ///
    /// # Errors
    /// [`Error::Malformed`]; [`Error::UnsupportedVersion`]; [`Error::Truncated`];
    /// [`Error::Checksum`]; [`Error::InvalidSpec`] for parameters out of range;
    /// [`Error::Io`].
    pub fn new(input: R, file_bytes: u64) -> Result<Self> {
        let (file, preamble, header) = FileReader::open::<P>(input, file_bytes)?;
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

    /// This reader, whose evaluation keys are whole or small: see [`EvaluationKeys`].
    #[must_use]
    pub fn small_keys(mut self, small: bool) -> Self {
        self.file.small_keys = small;
        self
    }

    /// What the file says about itself.
    #[must_use]
    pub fn info(&self) -> &Info<P::Spec> {
        &self.info
    }

    /// Bytes of the tables that [`Reader::params`] makes, about: at most half a gibibyte, however
    /// small the file is.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for sizes that no parameters have.
    pub fn table_bytes(&self) -> Result<u64> {
        Ok(P::count_primes(&self.info.spec)?.table_bytes())
    }

    /// The parameters of the file, built anew: seconds for the largest.
    ///
    /// # Errors
    /// What making parameters refuses; [`Error::ParamsMismatch`] if the fingerprint in the file
    /// is not theirs; [`Error::Malformed`] if the file is too small for an object of
    /// theirs, before memory is taken.
    pub fn params(&self) -> Result<P> {
        self.sections.check_room(&P::count_primes(&self.info.spec)?)?;
        let params = P::from_spec(self.info.spec.clone())?;
        params.as_ref().check_id("file", self.info.params_id)?;
        Ok(params)
    }

    /// The secret key in the file.
    ///
    /// # Errors
    /// [`Error::WrongKind`]; [`Error::ParamsMismatch`]; [`Error::Malformed`];
    /// [`Error::Checksum`]; [`Error::Truncated`]; [`Error::Io`].
    pub fn secret_key(mut self, params: &P) -> Result<SecretKey> {
        self.expect(Kind::SecretKey, params)?;
        self.sections.check_sizes(params.as_ref())?;
        let key = self.file.secret_key(params.as_ref(), self.info.key_id)?;
        self.file.finish()?;
        Ok(key)
    }

    /// The public key in the file.
    ///
    /// # Errors
    /// As [`Reader::secret_key`].
    pub fn public_key(mut self, params: &P) -> Result<PublicKey> {
        self.expect(Kind::PublicKey, params)?;
        self.sections.check_sizes(params.as_ref())?;
        let key = self.file.public_key(params.as_ref(), self.info.key_id)?;
        self.file.finish()?;
        Ok(key)
    }

    /// What the evaluation keys in the file can do, from the header alone.
    ///
    /// # Errors
    /// [`Error::WrongKind`]; [`Error::ParamsMismatch`]; [`Error::Malformed`]; what
    /// [`KeyRequest::bytes`] refuses.
    pub fn key_request(&self, params: &P) -> Result<KeyRequest> {
        self.expect(Kind::EvaluationKeys, params)?;
        self.sections.key_request(params.as_ref())
    }

    /// The evaluation keys in the file, their uniform halves expanded unless they are to be
    /// small.
    ///
    /// # Errors
    /// As [`Reader::secret_key`]; [`Error::LevelOutOfRange`];
    /// [`Error::InvalidSpec`] for a Galois element that is even or too large.
    pub fn evaluation_keys(mut self, params: &P) -> Result<EvaluationKeys> {
        let request = self.key_request(params)?;
        self.sections.check_sizes(params.as_ref())?;
        let keys = self.file.evaluation_keys(params.as_ref(), self.info.key_id, &request)?;
        self.file.finish()?;
        Ok(keys)
    }

    /// The ciphertexts in the file, in order.
    ///
    /// # Errors
    /// As [`Reader::secret_key`]; [`Error::LevelOutOfRange`]; for exact ciphertexts also
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

    /// The ciphertexts in the file, to be read when they are asked for.
    ///
    /// # Errors
    /// As [`Reader::ciphertexts`], but for those of content.
    pub fn into_ciphertexts(self, params: &P) -> Result<CiphertextReader<R, P>>
    where
        R: Seek,
    {
        let (forms, seeded) = self.forms(params)?;
        let starts = self.sections.starts(self.file.position());
        let Self { file, info, .. } = self;
        let (params, key) = (params.clone(), info.key_id);
        Ok(CiphertextReader { file, params, key, forms, seeded, starts })
    }

    /// Those of the ciphertexts, each checked, sizes first, and which of them are seeded.
    fn forms(&self, params: &P) -> Result<(Vec<P::Form>, Vec<bool>)> {
        self.expect(Kind::Ciphertexts, params)?;
        // The kind of every section was checked with the header.
        let said = || self.sections.contents().filter_map(|content| content.ciphertext());
        said().try_for_each(|(level, ..)| params.as_ref().check_level(level))?;
        self.sections.check_sizes(params.as_ref())?;
        let count = self.sections.count();
        let (mut forms, mut all_seeded) = (Vec::with_capacity(count), Vec::with_capacity(count));
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

/// The ciphertexts of a file of the scheme `P`, each read and checked when it is asked for.
pub struct CiphertextReader<R, P: Scheme> {
    file: FileReader<R>,
    params: P,
    key: KeyId,
    forms: Vec<P::Form>,
    /// Which of them are seeded.
    seeded: Vec<bool>,
    /// Where each section begins, and where the last one ends.
    starts: Vec<u64>,
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
    /// [`Error::Malformed`], also if there are not so many; [`Error::Checksum`];
    /// [`Error::Truncated`]; [`Error::Io`].
    pub fn read(&mut self, numbers: Range<usize>) -> Result<Vec<P::Ciphertext>> {
        let found = (
            self.forms.get(numbers.clone()),
            self.seeded.get(numbers.clone()),
            self.starts.get(numbers.start),
        );
        let (Some(forms), Some(seeded), Some(&start)) = found else {
            let (found, end) = (self.forms.len(), numbers.end);
            let problem = format!("it has {found} ciphertexts, {end} are needed");
            return Err(Error::Malformed { what: "file", problem });
        };
        if forms.is_empty() {
            return Ok(Vec::new());
        }
        // Section 0 is the header.
        self.file.seek((numbers.start as u64).saturating_add(1), start)?;
        let (params, key) = (&self.params, self.key);
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
