use super::{
    super::{
        EvaluationKeys, KeyGenerator, KeyId, KeyRequest, PublicKey, SecretKey, Seeded,
        keys::KeySection,
    },
    Content, FileWriter, Header, Kind, Label, Preamble, Scheme,
    header::{HeaderOf, key_contents},
};
use crate::{Error, Result};
use std::io::Write;

fn header<P: Scheme>(params: &P, label: &Label, contents: Vec<Content<P::Meta>>) -> HeaderOf<P> {
    Header::new(params.as_ref(), params.to_spec(), label, contents)
}

/// Writes the header of a file.
fn start<'a, W: Write + ?Sized, P: Scheme>(
    out: &'a mut W,
    params: &P,
    (kind, key): (Kind, KeyId),
    label: &Label,
    contents: Vec<Content<P::Meta>>,
) -> Result<FileWriter<'a, W>> {
    let preamble = Preamble { kind, params: params.as_ref().id(), key };
    FileWriter::new::<P>(out, preamble, &header(params, label, contents))
}

/// Writes a secret key, two bits per coefficient, and returns the bytes written.
///
/// This crate leaves no trace of the key in memory. Pass the file itself, because a buffered writer
/// keeps a copy.
///
/// # Errors
/// [`Error::ParamsMismatch`]; [`Error::InvalidSpec`] for a label over 16 MiB; [`Error::Forked`];
/// [`Error::Io`].
pub fn write_secret_key<P: Scheme>(
    out: &mut (impl Write + ?Sized),
    params: &P,
    key: &SecretKey,
    label: &Label,
) -> Result<u64> {
    key.check(params.as_ref())?;
    if params.as_ref().spec().secret.is_shared() {
        let problem = "several key holders share this secret, so that no file may hold it".into();
        return Err(Error::InvalidSpec { field: "secret", problem });
    }
    let contents = vec![Content::SecretKey];
    let mut file = start(out, params, (Kind::SecretKey, key.id), label, contents)?;
    file.secret_key(key)?;
    file.finish()
}

/// Writes a public key and returns the bytes written.
///
/// # Errors
/// See [`write_secret_key`].
pub fn write_public_key<P: Scheme>(
    out: &mut (impl Write + ?Sized),
    params: &P,
    key: &PublicKey,
    label: &Label,
) -> Result<u64> {
    params.as_ref().check_id(Kind::PublicKey.name(), key.params)?;
    let contents = vec![Content::PublicKey];
    let mut file = start(out, params, (Kind::PublicKey, key.id), label, contents)?;
    file.public_key(params.as_ref(), key)?;
    file.finish()
}

/// Writes evaluation keys, one section each, and returns the bytes written.
///
/// # Errors
/// See [`write_secret_key`].
pub fn write_evaluation_keys<P: Scheme>(
    out: &mut (impl Write + ?Sized),
    params: &P,
    keys: &EvaluationKeys,
    label: &Label,
) -> Result<u64> {
    params.as_ref().check_id(Kind::EvaluationKeys.name(), keys.params)?;
    let contents = key_contents(&keys.fulfils());
    let mut file = start(out, params, (Kind::EvaluationKeys, keys.id), label, contents)?;
    file.evaluation_keys(keys)?;
    file.finish()
}

/// Makes the evaluation keys of a request and writes each at once, so that memory holds only one,
/// and returns the bytes written. The bytes equal the output of [`KeyGenerator::evaluation_keys`]
/// followed by [`write_evaluation_keys`]. `progress` receives the number of keys after each.
///
/// # Errors
/// See [`KeyGenerator::evaluation_keys`] and [`write_evaluation_keys`].
pub fn generate_evaluation_keys<P: Scheme>(
    out: &mut (impl Write + ?Sized),
    params: &P,
    (generator, secret): (&mut KeyGenerator, &SecretKey),
    request: &KeyRequest,
    label: &Label,
    progress: impl FnMut(usize),
) -> Result<u64> {
    secret.check(params.as_ref())?;
    // Rejected before the first byte is written.
    request.check(params.as_ref())?;
    let contents = key_contents(request);
    let mut file = start(out, params, (Kind::EvaluationKeys, secret.id), label, contents)?;
    let write = |section: KeySection| file.switching_keys(section.keys());
    generator.each_section(secret, request, write, progress)?;
    file.finish()
}

/// Returns the exact number of bytes that [`write_evaluation_keys`] writes for the keys of
/// `request`.
///
/// # Errors
/// See [`KeyRequest::bytes`].
pub fn evaluation_keys_bytes<P: Scheme>(
    params: &P,
    request: &KeyRequest,
    label: &Label,
) -> Result<u64> {
    // First, because sizes of keys exist only for levels in range.
    request.check(params.as_ref())?;
    Ok(header(params, label, key_contents(request)).total_bytes())
}

/// Writes ciphertexts of one key and of the scheme `P` one after the other, without storing them.
pub struct CiphertextWriter<'a, W: Write + ?Sized, P: Scheme> {
    file: FileWriter<'a, W>,
    params: P,
    key: KeyId,
    /// Forms of the ciphertexts still to come.
    forms: std::vec::IntoIter<P::Form>,
    /// `true` if the file has seeds in place of uniform halves.
    seeded: bool,
}

impl<W: Write + ?Sized, P: Scheme> core::fmt::Debug for CiphertextWriter<'_, W, P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CiphertextWriter")
            .field("remaining", &self.forms.as_slice())
            .finish_non_exhaustive()
    }
}

impl<'a, W: Write + ?Sized, P: Scheme> CiphertextWriter<'a, W, P> {
    /// Writes the header, which describes all ciphertexts to come.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a form that the parameters do not have; [`Error::InvalidSpec`]
    /// without ciphertexts, for more than a file can hold (about a million), or for a label over 16
    /// MiB; [`Error::LevelOutOfRange`]; [`Error::Io`].
    pub fn new(
        out: &'a mut W,
        params: &P,
        key: KeyId,
        forms: Vec<P::Form>,
        label: &Label,
    ) -> Result<Self> {
        Self::with(out, (params, key), forms, label, false)
    }

    /// Makes a writer of fresh encryptions under the secret key, with seeds in place of their
    /// uniform halves; see [`CiphertextWriter::new`]. Readers treat them like any other
    /// ciphertexts.
    ///
    /// # Errors
    /// See [`CiphertextWriter::new`].
    pub fn seeded(
        out: &'a mut W,
        params: &P,
        key: KeyId,
        forms: Vec<P::Form>,
        label: &Label,
    ) -> Result<Self> {
        Self::with(out, (params, key), forms, label, true)
    }

    fn with(
        out: &'a mut W,
        (params, key): (&P, KeyId),
        forms: Vec<P::Form>,
        label: &Label,
        seeded: bool,
    ) -> Result<Self> {
        if forms.is_empty() {
            return Err(Error::InvalidSpec {
                field: "ciphertexts",
                problem: "found 0, but a file needs at least one".into(),
            });
        }
        let mut known = P::Known::default();
        let content = |&form: &P::Form| {
            let (level, meta) = P::described(form);
            params.as_ref().check_level(level)?;
            // A writer makes no file that readers would reject.
            params.checked_form(level, meta, &mut known)?;
            Ok(match seeded {
                true => Content::SeededCiphertext(level, meta),
                false => Content::Ciphertext(level, meta),
            })
        };
        let contents = forms.iter().map(content).collect::<Result<_>>()?;
        let file = start(out, params, (Kind::Ciphertexts, key), label, contents)?;
        Ok(Self { file, params: params.clone(), key, forms: forms.into_iter(), seeded })
    }

    /// Writes the next ciphertext.
    ///
    /// # Errors
    /// [`Error::ParamsMismatch`]; [`Error::KeyMismatch`]; [`Error::Malformed`] if its form differs
    /// from the header, if it is one too many, or if the file has seeds; [`Error::Io`].
    pub fn write(&mut self, item: &P::Ciphertext) -> Result<()> {
        self.expect_next(item, false)?;
        self.file.ciphertext(self.params.as_ref(), item.as_ref())
    }

    /// Writes the next ciphertext of a file of [`CiphertextWriter::seeded`].
    ///
    /// # Errors
    /// Errors of [`CiphertextWriter::write`]; the file must have seeds.
    pub fn write_seeded(&mut self, item: &Seeded<P::Ciphertext>) -> Result<()> {
        self.expect_next(item.ciphertext(), true)?;
        self.file.seeded_ciphertext(self.params.as_ref(), item)
    }

    /// Rejects a ciphertext unless it is the next one and is written as the header describes.
    fn expect_next(&mut self, item: &P::Ciphertext, seeded: bool) -> Result<()> {
        item.as_ref().check_owner(self.params.as_ref(), self.key)?;
        let malformed = |problem: String| Err(Error::Malformed { what: "ciphertext", problem });
        if seeded != self.seeded {
            let said =
                |seeded| if seeded { "a seed and one polynomial" } else { "two polynomials" };
            let found = said(seeded);
            let needed = said(self.seeded);
            return malformed(format!("it is {found}, the file's header says {needed}"));
        }
        let found = P::form(item);
        let needed = self.forms.next();
        if Some(found) != needed {
            return malformed(format!("it is {found:?}, the file's header says {needed:?}"));
        }
        Ok(())
    }

    /// Ends the file and returns the bytes written.
    ///
    /// # Errors
    /// [`Error::Malformed`] if ciphertexts are missing; [`Error::Io`].
    pub fn finish(self) -> Result<u64> {
        // The header is already written, so no reader would accept a file that lacks some.
        let missing = self.forms.len();
        if missing > 0 {
            let problem = format!("its header announces {missing} more ciphertexts");
            return Err(Error::Malformed { what: "file", problem });
        }
        self.file.finish()
    }
}

/// Writes ciphertexts of one key, in order, and returns the bytes written.
///
/// # Errors
/// Errors of [`write_secret_key`]; [`Error::KeyMismatch`] for ciphertexts of several keys;
/// [`Error::InvalidSpec`] without ciphertexts, or for more than a file can hold (about a million).
pub fn write_ciphertexts<P: Scheme>(
    out: &mut (impl Write + ?Sized),
    params: &P,
    items: &[P::Ciphertext],
    label: &Label,
) -> Result<u64> {
    // The writer rejects an empty list below, so this id is never written.
    let key = items.first().map_or(KeyId(0), |item| item.as_ref().key);
    // Checked before the first byte is written.
    items.iter().try_for_each(|item| item.as_ref().check_owner(params.as_ref(), key))?;
    let forms = items.iter().map(P::form).collect();
    let mut file = CiphertextWriter::new(out, params, key, forms, label)?;
    items.iter().try_for_each(|item| file.write(item))?;
    file.finish()
}

/// Writes fresh encryptions under one secret key, in order, with seeds in place of their uniform
/// halves, and returns the bytes written.
///
/// # Errors
/// See [`write_ciphertexts`].
pub fn write_seeded_ciphertexts<P: Scheme>(
    out: &mut (impl Write + ?Sized),
    params: &P,
    items: &[Seeded<P::Ciphertext>],
    label: &Label,
) -> Result<u64> {
    let plain = || items.iter().map(Seeded::ciphertext);
    // As in `write_ciphertexts`.
    let key = plain().next().map_or(KeyId(0), |item| item.as_ref().key);
    // Checked before the first byte is written.
    plain().try_for_each(|item| item.as_ref().check_owner(params.as_ref(), key))?;
    let mut file =
        CiphertextWriter::seeded(out, params, key, plain().map(P::form).collect(), label)?;
    items.iter().try_for_each(|item| file.write_seeded(item))?;
    file.finish()
}
