//! Files of secret keys, sealed by a passphrase or not.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    error::{Error, Result},
    format::opened::Opened,
    os::files::{self, Access},
    sealed::{self, Costs, Passphrase, Sealed},
};
use std::{
    io::{self, Cursor, Read, Seek, Write},
    path::Path,
    sync::Arc,
};
use sudare::{
    ckks::{
        Decryptor, Encoder, Encryptor, Params, Scale,
        serial::{self, Kind, Label},
    },
    rlwe::{Level, PublicKey, SecretKey},
};
use zeroize::Zeroizing;

/// Maximum size of a sealed file, which is read as a whole.
// A header may have 64 MiB. A key in the largest ring needs far less than the rest.
const MAX_SEALED_BYTES: u64 = 80 << 20;

/// An open file of a secret key, after its header.
pub struct SecretFile {
    opened: Opened<Box<dyn Read + Send>>,
    /// The whole file and the costs of unsealing it, if it is sealed.
    sealed: Option<(Vec<u8>, Costs)>,
    exposed: bool,
}

impl SecretFile {
    /// Opens the file of a secret key.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::File`] for any other file; [`Error::Seal`] for a file sealed at
    /// impossible costs.
    pub fn open(path: &Path) -> Result<Self> {
        let (mut file, bytes) = files::open(path, Access::Owner)?;
        let io = |error| Error::io("read", path, error);
        // The permissions of the open file, since another one may have the path by now.
        let exposed = files::others_may_read(&file.get_ref().metadata().map_err(io)?);
        if !starts_sealed(&mut file).map_err(io)? {
            let file: Box<dyn Read + Send> = Box::new(file);
            let opened = Opened::new(file, bytes, path)?.expect(Kind::SecretKey)?;
            return Ok(Self { opened, sealed: None, exposed });
        }
        Ok(Self { exposed, ..Self::from_sealed(sealed_file(file, bytes, path)?, path)? })
    }

    /// Reads a sealed file from memory. Messages call it `path`.
    ///
    /// # Errors
    /// [`Error::File`] for any other file; [`Error::Seal`] for a file that is not sealed, or sealed
    /// at impossible costs.
    pub fn from_sealed(all: Vec<u8>, path: &Path) -> Result<Self> {
        let Sealed { costs, file, .. } = Sealed::new(&all).map_err(Error::in_sealed(path))?;
        let bytes = file.len() as u64;
        let file = Cursor::new(file.to_vec());
        let file: Box<dyn Read + Send> = Box::new(file);
        let opened = Opened::new(file, bytes, path)?.expect(Kind::SecretKey)?;
        Ok(Self { opened, sealed: Some((all, costs)), exposed: false })
    }

    /// Returns the file after its header.
    #[must_use]
    pub fn opened(&self) -> &Opened<Box<dyn Read + Send>> {
        &self.opened
    }

    /// Returns the costs of unsealing, if the file is sealed.
    #[must_use]
    pub fn sealed(&self) -> Option<Costs> {
        self.sealed.as_ref().map(|(_, costs)| *costs)
    }

    /// Returns a warning for the owner if other users may read the file.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        self.exposed.then(|| exposed(self.opened.path(), self.sealed.is_some()))
    }

    /// Reads the key. Calls `passphrase` if the file is sealed.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Seal`]; errors from `passphrase`.
    pub fn key(
        self,
        params: &Params,
        passphrase: impl FnOnce() -> Result<Passphrase>,
    ) -> Result<SecretKey> {
        let Some((all, _)) = self.sealed else { return self.opened.secret_key(params) };
        let path = self.opened.path();
        let open = |passphrase: &Passphrase| Sealed::new(&all)?.open(passphrase);
        let file = open(&passphrase()?).map_err(Error::in_sealed(path))?;
        // The seal proves only the passphrase, so the content is checked like any other file.
        Opened::new(&file[..], file.len() as u64, path)?.secret_key(params)
    }
}

/// Formats the warning that other users may read a file.
pub(crate) fn exposed(path: &Path, sealed: bool) -> String {
    let danger = match sealed {
        true => "who can then try passphrases",
        false => "who can then decrypt all that was encrypted for it",
    };
    format!(
        "{} can be read by other users of this machine, {danger}: remove the permission, for \
         example with chmod 600",
        path.display()
    )
}

/// Reads the whole file of a sealed key.
pub(crate) fn sealed_file(file: impl Read, bytes: u64, path: &Path) -> Result<Vec<u8>> {
    let io = |error| Error::io("read", path, error);
    // Before memory is allocated: the size comes from a file of anyone.
    if bytes > MAX_SEALED_BYTES {
        return Err(io(io::ErrorKind::FileTooLarge.into()));
    }
    let mut all = Vec::new();
    file.take(bytes).read_to_end(&mut all).map_err(io)?;
    Ok(all)
}

/// Returns whether a file holds a sealed secret key.
///
/// # Errors
/// [`Error::Io`]; [`Error::NotAFile`].
pub fn is_sealed(path: &Path) -> Result<bool> {
    let (mut file, _) = files::open(path, Access::Owner)?;
    starts_sealed(&mut file).map_err(|error| Error::io("read", path, error))
}

/// Returns whether a file begins like a sealed one, and rewinds it.
pub(crate) fn starts_sealed(file: &mut (impl Read + Seek)) -> io::Result<bool> {
    let mut start = Vec::new();
    file.by_ref().take(sealed::MAGIC.len() as u64).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start == sealed::MAGIC)
}

/// Refuses a public key that claims to belong to a secret key but encrypts under another one.
///
/// # Errors
/// [`Error::ForgedKey`]; [`Error::Library`] for a public key of another pair.
pub fn expect_pair(params: &Params, secret: &Decryptor, public: Arc<PublicKey>) -> Result<()> {
    // Any level shows a forged key, and this one takes the least work.
    let lowest = Level(0);
    let log2_modulus = params.chain().log2_q(lowest);
    let zero = Encoder::new(params).encode_real_at(&[0.0], lowest, Scale::from_log2(0.0))?;
    let encrypted = Encryptor::new(params, public)?.encrypt(&zero)?;
    // Under another key the noise would fill the whole modulus.
    if secret.measure_noise(&encrypted, &zero)? < log2_modulus - 4.0 {
        return Ok(());
    }
    Err(Error::ForgedKey { key: secret.key_id() })
}

/// Writes the file of a secret key, sealed if there is a passphrase, and returns its bytes.
/// Messages call the file `path`.
///
/// # Errors
/// [`Error::File`]; [`Error::Seal`]; [`Error::Io`].
pub fn write(
    out: &mut (impl Write + ?Sized),
    path: &Path,
    params: &Params,
    key: &SecretKey,
    label: &Label,
    passphrase: Option<&Passphrase>,
) -> Result<u64> {
    write_with(out, path, passphrase, |out| serial::write_secret_key(out, params, key, label))
}

/// Same as [`write`](fn@write), for any `content`.
pub(crate) fn write_with(
    mut out: &mut (impl Write + ?Sized),
    path: &Path,
    passphrase: Option<&Passphrase>,
    content: impl Fn(&mut dyn Write) -> sudare::Result<u64>,
) -> Result<u64> {
    let in_file = Error::in_file(path);
    let Some(passphrase) = passphrase else {
        return content(&mut out).map_err(in_file);
    };
    // Written twice, the first time only to learn its size for the allocation below.
    let bytes = content(&mut io::sink()).map_err(&in_file)?;
    // The full capacity is reserved, since a growing vector would leave copies behind.
    let mut file = Zeroizing::new(Vec::with_capacity(bytes as usize));
    content(&mut *file).map_err(&in_file)?;
    let sealed = sealed::seal(&file, passphrase).map_err(Error::in_sealed(path))?;
    out.write_all(&sealed).map_err(|error| Error::io("write", path, error))?;
    Ok(sealed.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::PathBuf};
    use sudare::{
        ckks::{Spec, serial::Reader},
        rlwe::KeyGenerator,
    };

    fn key() -> (Params, SecretKey) {
        let spec = Spec { insecure: true, ..Spec::uniform(10, 40.0, 1, 30.0, vec![40.0]) };
        let params = Params::new(spec).unwrap();
        let key = KeyGenerator::new(params.rlwe()).unwrap().secret_key().unwrap();
        (params, key)
    }

    fn written(
        folder: &tempfile::TempDir,
        (params, key): &(Params, SecretKey),
        passphrase: Option<&Passphrase>,
    ) -> PathBuf {
        let path = folder.path().join("secret.key");
        let mut file = Vec::new();
        let bytes = write(&mut file, &path, params, key, &Label::default(), passphrase).unwrap();
        assert_eq!(bytes, file.len() as u64);
        fs::write(&path, file).unwrap();
        path
    }

    #[test]
    fn sealed_keys_are_read_with_their_passphrase() {
        let folder = tempfile::tempdir().unwrap();
        let keys = key();
        let passphrase = |text: &str| Ok(Passphrase::new(text.into())?);
        let path = written(&folder, &keys, Some(&passphrase("right").unwrap()));
        let file = SecretFile::open(&path).unwrap();
        assert_eq!((file.sealed(), is_sealed(&path).unwrap()), (Some(Costs::USUAL), true));
        assert_eq!(file.opened().info().key_id, keys.1.id());
        let read = file.key(&keys.0, || passphrase("right")).unwrap();
        let mut again = Vec::new();
        write(&mut again, &path, &keys.0, &read, &Label::default(), None).unwrap();
        let clear = written(&folder, &keys, None);
        assert!(fs::read(&clear).unwrap() == again);

        let path = written(&folder, &keys, Some(&passphrase("right").unwrap()));
        let in_memory = SecretFile::from_sealed(fs::read(&path).unwrap(), &path).unwrap();
        assert_eq!(in_memory.key(&keys.0, || passphrase("right")).unwrap().id(), keys.1.id());
        let unsealed = SecretFile::from_sealed(again, &path).map(|_| ()).unwrap_err();
        assert_eq!(unsealed.kind(), "Malformed");
        let wrong = SecretFile::open(&path).unwrap().key(&keys.0, || passphrase("wrong"));
        let wrong = wrong.unwrap_err();
        assert_eq!(wrong.kind(), "WrongPassphrase");
        assert!(wrong.to_string().starts_with(&path.display().to_string()), "{wrong}");
        let empty = SecretFile::open(&path).unwrap().key(&keys.0, || passphrase(""));
        assert_eq!(empty.unwrap_err().kind(), "EmptyPassphrase");
    }

    /// A public key of another pair, with the fingerprint in its file replaced.
    #[test]
    fn public_keys_that_only_say_that_they_belong_are_refused() {
        let (params, own) = key();
        let (_, other) = key();
        let public = |key: &SecretKey| {
            let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
            let mut file = Vec::new();
            let public = keygen.public_key(key).unwrap();
            serial::write_public_key(&mut file, &params, &public, &Label::default()).unwrap();
            file
        };
        let id = public(&own)[24..32].to_vec();
        let secret = Decryptor::new(&params, own).unwrap();
        let read = |file: &[u8]| {
            let reader = Reader::new(file, file.len() as u64).unwrap();
            Arc::new(reader.public_key(&params).unwrap())
        };
        expect_pair(&params, &secret, read(&public(secret.key()))).unwrap();
        let mut forged = public(&other);
        let stranger = expect_pair(&params, &secret, read(&forged)).unwrap_err();
        assert_eq!(stranger.kind(), "KeyMismatch");
        forged[24..32].copy_from_slice(&id);
        let hash = |parts: &[&[u8]]| *blake3::hash(&parts.concat()).as_bytes();
        let encoded = u64::from_le_bytes(forged[48..56].try_into().unwrap()) as usize;
        let header = (64 + encoded + 32).next_multiple_of(64);
        let last = forged.len() - 32;
        let sum = hash(&[&forged[..header - 32]]);
        forged[header - 32..header].copy_from_slice(&sum);
        let sum = hash(&[&sum, &1_u64.to_le_bytes(), &forged[header..last]]);
        forged[last..].copy_from_slice(&sum);
        let refused = expect_pair(&params, &secret, read(&forged)).unwrap_err();
        assert_eq!(refused.kind(), "ForgedKey");
    }

    #[cfg(unix)]
    #[test]
    fn keys_that_others_can_read_are_warned_of() {
        use std::{fs::Permissions, os::unix::fs::PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let keys = key();
        let path = written(&folder, &keys, None);
        for (mode, exposed) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let file = SecretFile::open(&path).unwrap();
            assert_eq!(file.warning().is_some(), exposed, "{mode:o}");
            let asked = || Err(Error::Bug("it is in clear".into()));
            assert_eq!(file.key(&keys.0, asked).unwrap().id(), keys.1.id());
        }
    }
}
