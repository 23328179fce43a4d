//! Files of keys and ciphertexts. `docs/file-format.md` describes the frame that all schemes
//! share.
//!
//! Every file says which parameters and which key it belongs to. Uniform halves of keys are
//! stored as their public seeds. Of a ciphertext the header says its plaintext modulus, its
//! factor and the bound of its error: what is refused for its error is so as it was before.
//! Checksums find damage; they do not stop anyone from writing another valid file, so a file is
//! as trustworthy as its source. Reading checks every length, number and residue before it is
//! used.
//!
//! ```
//! use sudare::{exact::{Params, preset, serial}, rlwe::KeyGenerator};
//!
//! # fn main() -> sudare::Result<()> {
//! let params = Params::new(preset("toy-n8")?.spec)?;
//! let mut keygen = KeyGenerator::new(params.rlwe())?;
//! let secret = keygen.secret_key()?;
//! let public = keygen.public_key(&secret)?;
//!
//! let mut file = Vec::new();
//! let bytes = serial::write_public_key(&mut file, &params, &public, &serial::Label::default())?;
//!
//! let reader = serial::Reader::new(&file[..], bytes)?;
//! let params = reader.params()?;
//! assert_eq!(reader.public_key(&params)?.id(), secret.id());
//! # Ok(())
//! # }
//! ```

use super::{Ciphertext, Modulus, NoiseBound, Params, Spec, Unit, params::check_sizes};
pub use crate::rlwe::serial::{FORMAT_VERSION, Kind, Label};
use crate::{
    Error, Result,
    rlwe::{
        EvaluationKeys, KeyId, KeyRequest, ParamsId, PublicKey, SecretKey,
        serial::{Content, FileReader, FileWriter, Header, Preamble, Scheme, key_contents},
    },
};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// What the header says of a ciphertext beside its level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Meta {
    modulus: Modulus,
    factor: u128,
    noise: NoiseBound,
}

impl Meta {
    fn of(a: &Ciphertext) -> Self {
        Self { modulus: a.plaintext_modulus(), factor: a.factor.value(), noise: a.noise }
    }

    /// Its factor, if all is in range.
    fn check(self, params: &Params) -> Result<Unit> {
        params.check_modulus(self.modulus)?;
        if self.factor >= self.modulus.value() || !self.noise.is_valid() {
            let problem = "its factor or the bound of its error is out of range".into();
            return Err(Error::Malformed { what: "ciphertext", problem });
        }
        Unit::new(self.factor, self.modulus)
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

/// The header of a file and a writer behind it.
fn start<'a, W: Write + ?Sized>(
    out: &'a mut W,
    params: &Params,
    (kind, key): (Kind, KeyId),
    contents: Vec<Content<Meta>>,
    label: &Label,
) -> Result<FileWriter<'a, W>> {
    let header = Header::new(params.rlwe(), params.spec().clone(), label, contents);
    let preamble = Preamble { kind, params: params.rlwe().id(), key };
    FileWriter::new(out, Scheme::Exact, preamble, &header)
}

/// Writes a secret key, two bits a coefficient, and returns the bytes written.
///
/// Nothing that this crate leaves in memory tells the key; give the file itself, since a buffered
/// writer keeps a copy.
///
/// # Errors
/// [`Error::ParamsMismatch`]; [`Error::InvalidSpec`] for a label over 16 MiB; [`Error::Forked`];
/// [`Error::Io`].
pub fn write_secret_key(
    out: &mut (impl Write + ?Sized),
    params: &Params,
    key: &SecretKey,
    label: &Label,
) -> Result<u64> {
    key.check(params.rlwe())?;
    let contents = vec![Content::SecretKey];
    let mut file = start(out, params, (Kind::SecretKey, key.id), contents, label)?;
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
    let contents = vec![Content::PublicKey];
    let mut file = start(out, params, (Kind::PublicKey, key.id), contents, label)?;
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
    let contents = key_contents(&keys.fulfils());
    let mut file = start(out, params, (Kind::EvaluationKeys, keys.id), contents, label)?;
    file.evaluation_keys(keys)?;
    file.finish()
}

/// Writes ciphertexts of one key, in order, and returns the bytes written.
///
/// # Errors
/// As [`write_secret_key`]; [`Error::KeyMismatch`] for ciphertexts of several keys;
/// [`Error::InvalidSpec`] if there are none, or more than one file holds (about a million).
pub fn write_ciphertexts(
    out: &mut (impl Write + ?Sized),
    params: &Params,
    items: &[Ciphertext],
    label: &Label,
) -> Result<u64> {
    let Some(key) = items.first().map(Ciphertext::key_id) else {
        let problem = "there are none: a file needs at least one".into();
        return Err(Error::InvalidSpec { field: "ciphertexts", problem });
    };
    // Before anything is written.
    items.iter().try_for_each(|item| item.inner.check_owner(params.rlwe(), key))?;
    let content = |item: &Ciphertext| Content::Ciphertext(item.level(), Meta::of(item));
    let contents = items.iter().map(content).collect();
    let mut file = start(out, params, (Kind::Ciphertexts, key), contents, label)?;
    items.iter().try_for_each(|item| file.ciphertext(params.rlwe(), &item.inner))?;
    file.finish()
}

/// A file whose header was read.
pub struct Reader<R: Read> {
    file: FileReader<R>,
    header: Header<Spec, Meta>,
    info: Info,
}

impl<R: Read> Reader<R> {
    /// Reads and checks the header of a file of `file_bytes`, at most 64 MiB of it. Reading later
    /// takes no more memory than the object itself, and that only once its size is known to
    /// follow from the parameters.
    ///
    /// # Errors
    /// [`Error::Malformed`]; [`Error::UnsupportedVersion`]; [`Error::Truncated`];
    /// [`Error::Checksum`]; [`Error::InvalidSpec`] for parameters out of range; [`Error::Io`].
    pub fn new(input: R, file_bytes: u64) -> Result<Self> {
        let (file, preamble, header) =
            FileReader::open::<Spec, Meta>(input, file_bytes, Scheme::Exact)?;
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
    /// As [`Params::new`]; [`Error::ParamsMismatch`] if the fingerprint in the file is not
    /// theirs; [`Error::Malformed`] if the file is too small for an object of theirs, before
    /// memory is taken.
    pub fn params(&self) -> Result<Params> {
        let spec = &self.info.spec;
        let primes: Vec<usize> = spec
            .q_bits
            .iter()
            .scan(0, |sum, level| {
                *sum += level.len();
                Some(*sum)
            })
            .collect();
        let fresh = primes.last().copied().unwrap_or(0);
        self.header.check_room(spec.log_n, &primes, fresh, spec.p_bits.len())?;
        let params = Params::new(spec.clone())?;
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
    /// As [`Reader::secret_key`]; [`Error::LevelOutOfRange`]; [`Error::InvalidSpec`] for a Galois
    /// element that is even or too large.
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
    /// As [`Reader::secret_key`]; [`Error::LevelOutOfRange`];
    /// [`Error::PlaintextModulusNotCoprime`]; [`Error::NotAUnit`].
    pub fn ciphertexts(mut self, params: &Params) -> Result<Vec<Ciphertext>> {
        self.expect(Kind::Ciphertexts, params)?;
        let mut shapes = Vec::with_capacity(self.header.sections.len());
        for section in &self.header.sections {
            // The kind of every section was checked with the header.
            if let Content::Ciphertext(level, meta) = section.content {
                params.rlwe().check_level(level)?;
                shapes.push((level, meta.check(params)?, meta.noise));
            }
        }
        self.header.check_sizes(params.rlwe())?;
        let mut items = Vec::with_capacity(shapes.len());
        for (level, factor, noise) in shapes {
            let inner = self.file.ciphertext(params.rlwe(), self.info.key_id, level)?;
            items.push(Ciphertext { inner, factor, noise });
        }
        self.file.finish()?;
        Ok(items)
    }

    fn expect(&self, needed: Kind, params: &Params) -> Result<()> {
        if self.info.kind != needed {
            return Err(Error::WrongKind { found: self.info.kind, needed });
        }
        params.rlwe().check_id("file", self.info.params_id)
    }
}

impl<R: Read> core::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Reader").field("info", &self.info).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exact::{
            Decryptor, Encryptor, Evaluator,
            tests::{Session, chain, modulus, mul},
        },
        rlwe::KeyGenerator,
    };
    use std::sync::Arc;
    use sudare_arith::prng::Seed;

    fn open(file: &[u8]) -> Reader<&[u8]> {
        Reader::new(file, file.len() as u64).unwrap()
    }

    /// Everything goes through files, and what was refused stays so.
    #[test]
    fn keys_and_ciphertexts_come_back() {
        let t = modulus(257, 1);
        let mut session = Session::new(chain(5, t, 2), 51);
        let (params, label) = (session.params.clone(), Label::default());
        let public = KeyGenerator::from_seed(params.rlwe(), &Seed::from_bytes([9; 32]))
            .public_key(&session.secret)
            .unwrap();
        let (a, b) = (session.random(t), session.random(modulus(127, 2)));
        let items = [session.encrypt(&a), session.encrypt(&b)];
        let items = [items[0].clone(), session.evaluator.rescale(&items[1]).unwrap()];
        let mut files: [Vec<u8>; 4] = Default::default();
        let [secret, open_key, keys, ciphertexts] = &mut files;
        let written = [
            write_secret_key(secret, &params, &session.secret, &label).unwrap(),
            write_public_key(open_key, &params, &public, &label).unwrap(),
            write_evaluation_keys(keys, &params, &session.keys, &label).unwrap(),
            write_ciphertexts(ciphertexts, &params, &items, &label).unwrap(),
        ];
        assert_eq!(written, files.each_ref().map(|file| file.len() as u64));

        let params = open(&files[3]).params().unwrap();
        assert_eq!(open(&files[3]).info().spec, *session.params.spec());
        let secret = open(&files[0]).secret_key(&params).unwrap();
        let decryptor = Decryptor::new(&params, Arc::new(secret)).unwrap();
        let public = open(&files[1]).public_key(&params).unwrap();
        let encryptor = Encryptor::new(&params, Arc::new(public)).unwrap();
        let keys = open(&files[2]).evaluation_keys(&params).unwrap();
        let evaluator = Evaluator::new(&params, Arc::new(keys)).unwrap();
        let read = open(&files[3]).ciphertexts(&params).unwrap();
        for (read, (item, plain)) in read.iter().zip(items.iter().zip([&a, &b])) {
            assert_eq!(read.form(), item.form());
            assert_eq!(decryptor.decrypt(read).unwrap(), *plain);
        }
        let fresh = encryptor.encrypt(&a).unwrap();
        let product = evaluator.mul(&fresh, &read[0]).unwrap();
        assert_eq!(decryptor.decrypt(&product).unwrap(), mul(&a, &a));
        let wrong = open(&files[1]).ciphertexts(&params);
        assert!(matches!(wrong, Err(Error::WrongKind { .. })));
        let none = write_ciphertexts(&mut Vec::new(), &params, &[], &label);
        assert!(matches!(none, Err(Error::InvalidSpec { field: "ciphertexts", .. })));
    }

    #[test]
    fn metadata_out_of_range_is_refused() {
        let t = modulus(257, 1);
        let mut session = Session::new(chain(5, t, 1), 52);
        let a = session.random(t);
        let a = session.encrypt(&a);
        let meta = Meta::of(&a);
        assert!(meta.check(&session.params).is_ok());
        let prime = modulus(session.params.rlwe().spec().q[0][0], 1);
        for bad in [
            Meta { factor: 257, ..meta },
            Meta { factor: 0, ..meta },
            Meta { modulus: prime, ..meta },
        ] {
            assert!(bad.check(&session.params).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn damage_is_refused() {
        let t = modulus(257, 1);
        let mut session = Session::new(chain(5, t, 1), 53);
        let a = session.random(t);
        let items = [session.encrypt(&a)];
        let (params, mut file) = (session.params.clone(), Vec::new());
        write_ciphertexts(&mut file, &params, &items, &Label::default()).unwrap();
        let damaged = |at: usize| {
            let mut file = file.clone();
            file[at] ^= 1;
            let bytes = file.len() as u64;
            Reader::new(&file[..], bytes).and_then(|reader| reader.ciphertexts(&params)).is_err()
        };
        assert!((0..file.len()).step_by(7).chain(0..64).all(damaged));
        // The scheme of the file, which other readers refuse.
        assert_eq!(file[12..14], [2, 0]);
    }
}
