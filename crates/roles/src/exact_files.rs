//! Files of exact arrays (BGV and BFV) and of their keys.
//!
//! Key files name the scheme and whether elements may be negative, so owner and server agree on
//! both. Array files name the shape and the range of the elements. Files of words name their type,
//! and the range of each digit.

use crate::{
    error::{Error, Result},
    os::files::{self, Access},
    owner::secret,
    sealed::{Passphrase, Sealed},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{Cursor, Read, Seek, Write},
    path::Path,
    sync::Arc,
};
use sudare::{
    exact::{
        BatchEncoder, Decryptor, Encryptor, Form, Params,
        serial::{self, Info, Kind, Label, Reader},
    },
    rlwe::{KeyId, KeyRequest, PublicKey, SecretKey},
};
use sudare_apps::{
    array,
    exact::{IntegerArray, IntegerRange, Layout, Scheme, Setting},
    words::{self, EncryptedPlane, Plane, Radix, Word, WordType},
};

/// Content of the labels of keys and of arrays.
const KEYS: &str = "keys of integers";
const ARRAY: &str = "integers";
const WORDS: &str = "words";

/// Metadata in the label of a key.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyMeta {
    scheme: Scheme,
    signed: bool,
}

/// Metadata in the label of an array.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayMeta {
    shape: Vec<usize>,
    padding_is_zero: bool,
    /// Range of the elements. Files of earlier versions have none.
    #[serde(default)]
    range: Option<IntegerRange>,
}

/// Metadata in the label of an array of words.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WordsMeta {
    shape: Vec<usize>,
    /// Type of the elements, as NumPy names it.
    dtype: String,
    /// Bits of a digit.
    digit_bits: u32,
    /// Range of each plane, the lowest digit first.
    ranges: Vec<IntegerRange>,
}

impl WordsMeta {
    fn kind(&self) -> sudare::Result<(WordType, Radix)> {
        let kind = self.dtype.parse().and_then(|kind| Ok((kind, Radix::of_bits(self.digit_bits)?)));
        kind.map_err(|error: array::ArrayError| {
            let problem = error.to_string();
            sudare::Error::Malformed { what: "file", problem }
        })
    }
}

fn label(name: &str, content: &str, meta: &impl Serialize) -> sudare::Result<Label> {
    let meta = serde_json::to_vec(meta).map_err(std::io::Error::other)?;
    Ok(Label { name: name.into(), content: content.into(), meta })
}

fn read_meta<M: DeserializeOwned>(info: &Info, content: &str) -> sudare::Result<M> {
    let meta = serde_json::from_slice(&info.label.meta).ok();
    meta.filter(|_| info.label.content == content).ok_or_else(|| sudare::Error::Malformed {
        what: "file",
        problem: format!("its label is not for {content}"),
    })
}

/// Makes the label of keys for arrays of this setting, under parameters of this name.
///
/// # Errors
/// [`sudare::Error::Io`] if the metadata cannot be encoded.
pub fn key_label(name: &str, setting: &Setting) -> sudare::Result<Label> {
    let meta = KeyMeta { scheme: setting.scheme(), signed: setting.is_signed() };
    label(name, KEYS, &meta)
}

/// Reads the setting of arrays under the key of a file, whose kind must be `needed`. Arrays are
/// bootstrapped if the parameters have the name of a set for bootstrapping.
///
/// # Errors
/// [`sudare::Error::WrongKind`]; [`sudare::Error::Malformed`]; the errors of [`Reader::params`] and
/// [`Setting::named`].
pub fn read_setting<R: Read>(reader: &Reader<R>, needed: Kind) -> sudare::Result<Setting> {
    let info = reader.info();
    if info.kind != needed {
        return Err(sudare::Error::WrongKind { found: info.kind, needed });
    }
    let KeyMeta { scheme, signed } = read_meta(info, KEYS)?;
    Setting::named(&info.label.name, reader.params()?, scheme, signed)
}

/// Writes an array and returns the number of bytes written.
///
/// # Errors
/// The errors of [`serial::write_ciphertexts`].
pub fn write_array(
    out: &mut (impl Write + ?Sized),
    name: &str,
    setting: &Setting,
    array: &IntegerArray,
) -> sudare::Result<u64> {
    let shape = array.shape().to_vec();
    let padding_is_zero = array.padding_is_zero();
    let range = Some(array.range());
    let label = label(name, ARRAY, &ArrayMeta { shape, padding_is_zero, range })?;
    serial::write_ciphertexts(out, setting.params(), array.blocks(), &label)
}

/// Reads the shape and the key pair of the array in a file.
///
/// # Errors
/// [`sudare::Error::WrongKind`]; [`sudare::Error::Malformed`].
pub fn array_facts(info: &Info) -> sudare::Result<(Vec<usize>, KeyId)> {
    if info.kind != Kind::Ciphertexts {
        return Err(sudare::Error::WrongKind { found: info.kind, needed: Kind::Ciphertexts });
    }
    Ok((read_meta::<ArrayMeta>(info, ARRAY)?.shape, info.key_id))
}

/// Reads the array in a file.
///
/// # Errors
/// The errors of [`array_facts`], [`Reader::ciphertexts`], [`IntegerArray::from_blocks`] and
/// [`IntegerArray::within`].
pub fn read_array<R: Read>(reader: Reader<R>, setting: &Setting) -> array::Result<IntegerArray> {
    array_facts(reader.info())?;
    let ArrayMeta { shape, padding_is_zero, range } = read_meta(reader.info(), ARRAY)?;
    let layout: Layout = setting.layout(&shape)?;
    let blocks = reader.ciphertexts(setting.params())?;
    let array = IntegerArray::from_blocks(setting, layout, blocks, padding_is_zero)?;
    match range {
        Some(range) => array.within(setting, range).map_err(|_| {
            let problem = format!("its elements cannot be {range}");
            sudare::Error::Malformed { what: "file", problem }.into()
        }),
        None => Ok(array),
    }
}

/// Writes an array of words and returns the number of bytes written.
///
/// # Errors
/// The errors of [`serial::write_ciphertexts`].
pub fn write_words(
    out: &mut (impl Write + ?Sized),
    name: &str,
    setting: &Setting,
    word: &Word<EncryptedPlane>,
) -> sudare::Result<u64> {
    let planes = word.planes();
    let meta = WordsMeta {
        shape: planes.first().map_or_else(Vec::new, |plane| plane.layout().shape().to_vec()),
        dtype: word.kind().to_string(),
        digit_bits: word.radix().bits(),
        ranges: planes.iter().map(Plane::range).collect(),
    };
    let label = label(name, WORDS, &meta)?;
    let blocks: Vec<_> = planes.iter().flat_map(|plane| plane.blocks().to_vec()).collect();
    serial::write_ciphertexts(out, setting.params(), &blocks, &label)
}

/// Public facts about an array of words in a file.
pub struct WordFacts {
    /// Elements along each axis.
    pub shape: Vec<usize>,
    /// Type of the elements.
    pub kind: WordType,
    /// Size of the digits.
    pub radix: Radix,
    /// The key pair.
    pub key_id: KeyId,
}

/// Reads the facts about the array of words in a file.
///
/// # Errors
/// [`sudare::Error::WrongKind`]; [`sudare::Error::Malformed`].
pub fn word_facts(info: &Info) -> sudare::Result<WordFacts> {
    if info.kind != Kind::Ciphertexts {
        return Err(sudare::Error::WrongKind { found: info.kind, needed: Kind::Ciphertexts });
    }
    let meta: WordsMeta = read_meta(info, WORDS)?;
    let (kind, radix) = meta.kind()?;
    Ok(WordFacts { shape: meta.shape, kind, radix, key_id: info.key_id })
}

/// Reads the array of words in a file.
///
/// # Errors
/// The errors of [`word_facts`], [`Reader::ciphertexts`] and [`words::word_of_blocks`].
pub fn read_words<R: Read>(
    reader: Reader<R>,
    setting: &Setting,
) -> array::Result<Word<EncryptedPlane>> {
    let WordFacts { shape, kind, radix, .. } = word_facts(reader.info())?;
    let meta: WordsMeta = read_meta(reader.info(), WORDS)?;
    let blocks = reader.ciphertexts(setting.params())?;
    words::word_of_blocks(setting, &shape, kind, radix, blocks, &meta.ranges)
}

/// Facts in a file of exact keys or arrays.
pub struct Facts {
    /// Facts in files of all schemes.
    pub info: Info,
    /// True for a secret key that a passphrase seals.
    pub sealed: bool,
    /// The parameters of the file.
    pub params: Params,
    /// The setting of arrays under a key.
    pub setting: Option<Setting>,
    /// Shape of an array.
    pub shape: Option<Vec<usize>>,
    /// Public facts about each ciphertext.
    pub forms: Vec<Form>,
    /// Operations of evaluation keys.
    pub request: Option<KeyRequest>,
    /// Digest of the file, from its checksums; a sealed file has none.
    pub digest: Option<[u8; 32]>,
}

/// Reads the facts in an exact file, without a secret; nothing for the file of another scheme.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotAFile`]; [`Error::File`]; [`Error::Seal`] for a file sealed at
/// impossible costs.
pub fn facts(path: &Path) -> Result<Option<Facts>> {
    let (mut file, bytes) = files::open(path, Access::Owner)?;
    let io = |error| Error::io("read", path, error);
    if secret::starts_sealed(&mut file).map_err(io)? {
        let all = secret::sealed_file(file, bytes, path)?;
        let sealed = Sealed::new(&all).map_err(Error::in_sealed(path))?;
        let facts = read_facts(Cursor::new(sealed.file), sealed.file.len() as u64, path)?;
        return Ok(facts.map(|facts| Facts { sealed: true, digest: None, ..facts }));
    }
    // Unbuffered, since the file may be a secret key.
    read_facts(file.into_inner(), bytes, path)
}

/// Reads the bytes of a file up to its scheme.
const SCHEME_BYTES: u64 = 14;

fn read_facts(mut file: impl Read + Seek, bytes: u64, path: &Path) -> Result<Option<Facts>> {
    let io = |error| Error::io("read", path, error);
    let mut start = Vec::new();
    let in_file = Error::in_file(path);
    file.by_ref().take(SCHEME_BYTES).read_to_end(&mut start).map_err(io)?;
    file.rewind().map_err(io)?;
    // A reader that runs out of bytes here has accepted the scheme. Otherwise the scheme is another
    // one.
    if matches!(Reader::new(&start[..], SCHEME_BYTES), Err(sudare::Error::Malformed { .. })) {
        return Ok(None);
    }
    let digest = serial::digest(&mut file, bytes).ok();
    file.rewind().map_err(io)?;
    Ok(Some(read_opened(file, bytes, digest).map_err(in_file)?))
}

fn read_opened(
    file: impl Read + Seek,
    bytes: u64,
    digest: Option<[u8; 32]>,
) -> sudare::Result<Facts> {
    let reader = Reader::new(file, bytes)?;
    let info = reader.info().clone();
    let params = reader.params()?;
    let is_array = info.kind == Kind::Ciphertexts;
    // A file without a label of this program still has facts to show.
    let setting = if is_array { None } else { read_setting(&reader, info.kind).ok() };
    let words = || word_facts(&info).ok().map(|facts| facts.shape);
    let shape = array_facts(&info).ok().map(|(shape, _)| shape).or_else(words);
    let request = match info.kind {
        Kind::EvaluationKeys => Some(reader.key_request(&params)?),
        _ => None,
    };
    let forms = match is_array {
        true => reader.into_ciphertexts(&params)?.shapes().to_vec(),
        false => Vec::new(),
    };
    Ok(Facts { info, sealed: false, params, setting, shape, forms, request, digest })
}

/// A secret key with the facts in its file.
pub struct Secret {
    /// The setting of arrays under the key.
    pub setting: Setting,
    /// Label of the file.
    pub label: Label,
    /// The key.
    pub key: SecretKey,
    /// Warning for the owner if others can read the file.
    pub warning: Option<String>,
}

/// Reads the file of a secret key; `passphrase` is called if it is sealed.
///
/// # Errors
/// [`Error::Io`]; [`Error::File`] for any other file; [`Error::Seal`]; errors from `passphrase`.
pub fn read_secret(path: &Path, passphrase: impl FnOnce() -> Result<Passphrase>) -> Result<Secret> {
    let read = |reader: Unsealed<'_>| {
        let setting = read_setting(&reader, Kind::SecretKey)?;
        let label = reader.info().label.clone();
        let key = reader.secret_key(setting.params())?;
        Ok((setting, label, key))
    };
    let ((setting, label, key), warning) = with_secret(path, passphrase, read)?;
    Ok(Secret { setting, label, key, warning })
}

/// The content of the file of a secret key.
pub(crate) type Unsealed<'a> = Reader<Box<dyn Read + 'a>>;

/// Opens the file of a secret key, and returns the result of `read` on its content. Also returns a
/// warning for the owner if others can read the file.
///
/// # Errors
/// The errors of [`read_secret`] and of `read`.
pub(crate) fn with_secret<T>(
    path: &Path,
    passphrase: impl FnOnce() -> Result<Passphrase>,
    read: impl FnOnce(Unsealed<'_>) -> sudare::Result<T>,
) -> Result<(T, Option<String>)> {
    let (mut file, bytes) = files::open(path, Access::Owner)?;
    let io = |error| Error::io("read", path, error);
    let exposed = files::others_may_read(&file.get_ref().metadata().map_err(io)?);
    let sealed = secret::starts_sealed(&mut file).map_err(io)?;
    let warning = exposed.then(|| secret::exposed(path, sealed));
    let found = if sealed {
        let all = secret::sealed_file(file, bytes, path)?;
        let sealed = Sealed::new(&all).map_err(Error::in_sealed(path))?;
        let clear = sealed.open(&passphrase()?).map_err(Error::in_sealed(path))?;
        let inside: Box<dyn Read + '_> = Box::new(&clear[..]);
        Reader::new(inside, clear.len() as u64).and_then(read)
    } else {
        let inside: Box<dyn Read> = Box::new(file);
        Reader::new(inside, bytes).and_then(read)
    };
    Ok((found.map_err(Error::in_file(path))?, warning))
}

/// Writes the file of a secret key, sealed if there is a passphrase, and returns its bytes.
/// Messages call the file `path`.
///
/// # Errors
/// [`Error::File`]; [`Error::Seal`]; [`Error::Io`].
pub fn write_secret(
    out: &mut (impl Write + ?Sized),
    path: &Path,
    params: &Params,
    key: &SecretKey,
    label: &Label,
    passphrase: Option<&Passphrase>,
) -> Result<u64> {
    let content = |out: &mut dyn Write| serial::write_secret_key(out, params, key, label);
    secret::write_with(out, path, passphrase, content)
}

/// Rejects a public key that names the pair of a secret key and does not belong to it: the secret key
/// could not decrypt its ciphertexts.
///
/// # Errors
/// [`Error::ForgedKey`]; [`Error::Library`] for a key that names another pair.
pub fn expect_pair(setting: &Setting, secret: &Decryptor, public: Arc<PublicKey>) -> Result<()> {
    let params = setting.params();
    let encoder = BatchEncoder::with_slots(setting.modulus(), params.log_n(), 1)?;
    let zero = encoder.encode(&[0, 0])?;
    let encrypted = Encryptor::new(params, public)?.encrypt(&zero)?;
    // Under another key the result would be random.
    match secret.decrypt(&encrypted)? == zero {
        true => Ok(()),
        false => Err(Error::ForgedKey { key: secret.key_id() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare::{exact, rlwe::KeyGenerator};
    use sudare_apps::exact::{PlainIntegers, decrypt, encrypt};

    fn setting(scheme: Scheme) -> Setting {
        let params = Params::new(exact::preset("toy-n8").unwrap().spec).unwrap();
        Setting::new(params, scheme, false).unwrap()
    }

    #[test]
    fn secret_keys_and_arrays_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let setting = setting(Scheme::Bfv);
        let path = folder.path().join("secret.key");
        let mut keygen = KeyGenerator::new(setting.params().rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = Arc::new(keygen.public_key(&secret).unwrap());
        let label = key_label("toy-n8", &setting).unwrap();
        for words in [None, Some("six random words")] {
            let passphrase = |text: &str| Ok(Passphrase::new(text.into())?);
            let sealing = words.map(|words| passphrase(words).unwrap());
            let mut file = Vec::new();
            let params = setting.params();
            write_secret(&mut file, &path, params, &secret, &label, sealing.as_ref()).unwrap();
            std::fs::write(&path, file).unwrap();
            let read = read_secret(&path, || passphrase(words.unwrap_or_default())).unwrap();
            assert_eq!((read.setting.scheme(), read.setting.is_signed()), (Scheme::Bfv, false));
            assert_eq!((read.key.id(), &read.label), (secret.id(), &label));
            if words.is_some() {
                let wrong = read_secret(&path, || passphrase("another")).err().unwrap();
                assert_eq!(wrong.kind(), "WrongPassphrase");
            }
        }
        let decryptor = Decryptor::new(setting.params(), Arc::new(secret)).unwrap();
        expect_pair(&setting, &decryptor, Arc::clone(&public)).unwrap();

        let encryptor = Encryptor::new(setting.params(), public).unwrap();
        let plain = PlainIntegers::new(&[2, 150], (0..300).collect());
        let array = encrypt(&encryptor, &setting, &plain).unwrap();
        let mut file = Vec::new();
        let bytes = write_array(&mut file, "toy-n8", &setting, &array).unwrap();
        let open = || Reader::new(&file[..], bytes).unwrap();
        assert_eq!(array_facts(open().info()).unwrap(), (vec![2, 150], decryptor.key_id()));
        let again = read_array(open(), &setting).unwrap();
        assert_eq!(decrypt(&decryptor, &setting, &again).unwrap(), plain);
        assert_eq!((again.range().low, again.range().high), (0, 511));
        assert!(matches!(
            read_setting(&open(), Kind::SecretKey),
            Err(sudare::Error::WrongKind { .. })
        ));
        let mut other = Vec::new();
        serial::write_ciphertexts(&mut other, setting.params(), array.blocks(), &label).unwrap();
        let other = Reader::new(&other[..], other.len() as u64).unwrap();
        assert!(matches!(array_facts(other.info()), Err(sudare::Error::Malformed { .. })));
    }
}
