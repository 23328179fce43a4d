//! Files that may leave their owner's machine.
//!
//! Clients open every file as [`Outgoing`] before they connect to a service, and send nothing else.
//! The browser page, whose files belong to the browser, calls [`check`].
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    clear::model::Model,
    error::{Error, Result},
    format::{label::Content, opened::Opened},
    os::files::{self, Access},
    sealed,
};
use std::{
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    str::FromStr,
};
use sudare::ckks::serial::Kind;

/// Bytes at the start of a file that identify secret keys.
const START_BYTES: u64 = 64;
/// Magic bytes of files of keys and ciphertexts.
pub const MAGIC: &[u8; 8] = b"\x89sudare\n";
/// The scheme of all files that a service accepts.
const CKKS: [u8; 2] = 1_u16.to_le_bytes();
/// The number of secret keys among kinds of files, the same in all schemes.
const SECRET_KEY: [u8; 2] = 1_u16.to_le_bytes();
/// Maximum size of a model in clear that a service accepts, in bytes.
pub const MAX_MODEL_BYTES: u64 = 16 << 20;

/// The part of a service that a file is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The collection of evaluation keys.
    Keys,
    /// The collection of encrypted tables.
    Tables,
    /// The collection of models.
    Models,
    /// States of a training, which a worker sends to its server.
    States,
    /// The result of a job, from a worker to its server.
    Results,
}

impl Destination {
    /// The collections that owners send files to.
    pub const COLLECTIONS: [Self; 3] = [Self::Keys, Self::Tables, Self::Models];

    /// Returns the name in addresses of a service.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Tables => "tables",
            Self::Models => "models",
            Self::States => "states",
            Self::Results => "results",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Keys => Kind::EvaluationKeys,
            _ => Kind::Ciphertexts,
        }
    }

    fn contents(self) -> &'static [Content] {
        match self {
            Self::Keys => &[Content::Keys],
            Self::Tables => &[Content::Table],
            Self::Models => &[Content::Model],
            Self::States => &[Content::Checkpoint, Content::Weights],
            Self::Results => &Content::RESULTS,
        }
    }

    fn files(self) -> &'static str {
        match self {
            Self::Keys => "evaluation keys",
            Self::Tables => "encrypted tables",
            Self::Models => "models",
            Self::States => "encrypted states of trainings",
            Self::Results => "encrypted results",
        }
    }
}

impl FromStr for Destination {
    type Err = Error;

    /// Parses the name of a collection.
    fn from_str(name: &str) -> Result<Self> {
        let found = Self::COLLECTIONS.into_iter().find(|collection| collection.name() == name);
        found.ok_or_else(|| {
            let names = Self::COLLECTIONS.map(Self::name).join(", ");
            Error::Usage(format!("{name:?} is not a collection of a service: use one of {names}"))
        })
    }
}

/// Returns whether a file with these first bytes is a secret key, of any scheme, sealed or not.
#[must_use]
pub fn is_secret(start: &[u8]) -> bool {
    // A sealed key stays here, too: an attacker with it can guess passphrases.
    start.starts_with(&sealed::MAGIC)
        || (start.starts_with(MAGIC) && start.get(14..16) == Some(&SECRET_KEY[..]))
}

/// Decides whether a file of `bytes` bytes may be sent to one of `allowed`, and to which. Reads
/// only the header, except for a model in clear, which may be sent if `plain_model` is set.
/// Messages call the file `path`.
///
/// # Errors
/// [`Error::Usage`] for every file that must stay here: secret keys, and all files except the
/// `allowed` kinds; [`Error::File`] for a damaged header; [`Error::Io`].
pub fn check(
    mut file: impl Read,
    bytes: u64,
    path: &Path,
    allowed: &[Destination],
    plain_model: bool,
) -> Result<Destination> {
    let mut start = Vec::new();
    let read = file.by_ref().take(START_BYTES).read_to_end(&mut start);
    read.map_err(|error| Error::io("read", path, error))?;
    let needed = allowed.iter().map(|destination| destination.files());
    let needed = needed.collect::<Vec<_>>().join(", ");
    let refused = |found: &str| {
        Error::Usage(format!("{} {found}, so it is not sent: only {needed} are", path.display()))
    };
    // Before anything is parsed, so that damaged secret keys stay here, too.
    if is_secret(&start) {
        return Err(Error::Usage(format!(
            "{} is a secret key, which never leaves its owner's machine: name another file",
            path.display()
        )));
    }
    let whole = Cursor::new(&start[..]).chain(file);
    if !start.starts_with(MAGIC) {
        if !allowed.contains(&Destination::Models) {
            return Err(refused("is neither a file of keys nor of ciphertexts"));
        }
        let model = plain(whole, bytes, path).map_err(|problem| refused(&problem))?;
        return match plain_model {
            true => Ok(Destination::Models),
            false => Err(unencrypted(path, &model)),
        };
    }
    // After the check for secret keys, which must get their own message in every scheme.
    if start.get(12..14) != Some(&CKKS[..]) {
        return Err(refused("belongs to a scheme for exact integers"));
    }
    let opened = Opened::new(whole, bytes, path)?;
    let kind = opened.info().kind;
    let of_kind = || allowed.iter().copied().filter(|destination| destination.kind() == kind);
    if of_kind().next().is_none() {
        return Err(refused(&format!("holds {}", named(kind))));
    }
    let contents: Vec<Content> = of_kind().flat_map(Destination::contents).copied().collect();
    let (content, _) = opened.meta(&contents)?;
    let found = of_kind().find(|destination| destination.contents().contains(&content));
    found.ok_or_else(|| refused(&format!("holds {}", content.name())))
}

fn named(kind: Kind) -> String {
    match kind {
        Kind::SecretKey | Kind::PublicKey => format!("a {kind}"),
        Kind::EvaluationKeys | Kind::Ciphertexts => kind.to_string(),
    }
}

/// Reads a model in clear, or explains why the file is not one.
fn plain(file: impl Read, bytes: u64, path: &Path) -> core::result::Result<Model, String> {
    // Refused by size first, because the whole text is read into memory.
    if bytes > MAX_MODEL_BYTES {
        return Err(format!("is neither encrypted nor a model, with {bytes} bytes"));
    }
    let mut text = Vec::new();
    let read = file.take(bytes).read_to_end(&mut text);
    read.map_err(|error| format!("cannot be read ({error})"))?;
    Model::from_json(&text, path).map_err(|_| "is neither encrypted nor a model".into())
}

fn unencrypted(path: &Path, model: &Model) -> Error {
    let danger = match model.shared_bits {
        // Released weights have noise that hides the key, so only their values are at stake.
        Some(_) => "",
        None => {
            "; weights that were decrypted without --share also reveal information about the \
             secret key, so decrypt them with --share first"
        }
    };
    Error::Usage(format!(
        "{} is a model in clear, and the server would see its weights: encrypt it with `sudare \
         encrypt --model`, or send it as it is with --plain-model (Python: \
         plain_model=True){danger}",
        path.display()
    ))
}

/// An open file that may be sent.
pub struct Outgoing {
    file: File,
    path: PathBuf,
    bytes: u64,
    destination: Destination,
}

impl Outgoing {
    /// Opens a file to send to one of `allowed`.
    ///
    /// # Errors
    /// The errors of [`check`]; [`Error::NotAFile`].
    pub fn open(path: &Path, allowed: &[Destination], plain_model: bool) -> Result<Self> {
        // No buffer, in case the user named a secret key by mistake.
        let (file, bytes) = files::open(path, Access::Owner)?;
        let file = file.into_inner();
        let destination = check(&file, bytes, path, allowed, plain_model)?;
        // The checked file stays open. Another file that gets its name is never sent.
        Ok(Self { file, path: path.into(), bytes, destination })
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the part of a service that accepts the file.
    #[must_use]
    pub fn destination(&self) -> Destination {
        self.destination
    }

    /// Returns the BLAKE3 digest of the file in hexadecimal. Services name the file by it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn digest(&self) -> Result<String> {
        let digest = self.rewound().and_then(|mut file| files::digest_of(&mut file));
        digest.map(|(digest, _)| digest).map_err(|error| Error::io("read", &self.path, error))
    }

    /// Reads at most `max` bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn part(&self, offset: u64, max: u64) -> Result<Vec<u8>> {
        let mut part = Vec::new();
        // Nothing beyond the checked size is sent, even if the file grows.
        let left = self.bytes.saturating_sub(offset);
        let mut file = &self.file;
        let read = file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| file.take(max.min(left)).read_to_end(&mut part));
        read.map(|_| part).map_err(|error| Error::io("read", &self.path, error))
    }

    /// Rewinds the file for reading from its start.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn rewound(&self) -> io::Result<&File> {
        let mut file = &self.file;
        file.rewind().map(|()| file)
    }
}

#[cfg(test)]
mod tests;
