//! Seals the bytes of secret keys by a passphrase, without files and terminals.
//!
//! The header of a sealed key stays in clear, so that everyone can see which keys it belongs to.
//! XChaCha20-Poly1305 encrypts the content, under a key that Argon2id (RFC 9106) derives from the
//! passphrase. `docs/file-format.md` describes the bytes.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use argon2::{Algorithm, Argon2, Block, Version};
use chacha20poly1305::{AeadInOut, KeyInit, Tag, XChaCha20Poly1305, XNonce};
use core::fmt;
use sudare::{ckks, exact, exact::serial::Kind};
use sudare_arith::prng::Seed;
use zeroize::Zeroizing;

/// Magic bytes of a sealed file.
pub const MAGIC: [u8; 8] = *b"\x89sealed\n";
const VERSION: u32 = 1;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// Bytes before the file of the key.
const ENVELOPE_BYTES: usize = 64;

/// A secret key that cannot be sealed or unsealed.
#[derive(Debug, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
pub enum SealError {
    /// An empty passphrase.
    #[error("the passphrase is empty: choose one that nobody can guess, such as six random words")]
    EmptyPassphrase,
    /// A passphrase that is too long.
    #[error("the passphrase has more than {most} bytes: choose a shorter one", most = Passphrase::MAX_BYTES)]
    LongPassphrase,
    /// A wrong passphrase, or altered bytes.
    #[error(
        "the passphrase is wrong, or somebody changed the file: try again, or use an unchanged \
         copy of the file"
    )]
    WrongPassphrase,
    /// Costs outside of the permitted range.
    #[error(
        "unsealing would take {memory_kib} KiB of memory, {passes} passes and {lanes} lanes, which \
         this program never requests: use an unchanged copy of the file"
    )]
    SealCosts {
        /// Memory in KiB.
        memory_kib: u32,
        /// Passes over the memory.
        passes: u32,
        /// Lanes of the memory.
        lanes: u32,
    },
    /// The system has too little memory.
    #[error(
        "unsealing needs {memory_kib} KiB of memory, which the system does not have: close other \
         programs"
    )]
    SealMemory {
        /// Memory in KiB.
        memory_kib: u32,
    },
    /// A file other than a secret key.
    #[error(transparent)]
    Library(#[from] sudare::Error),
}

type Result<T> = core::result::Result<T, SealError>;

/// A passphrase that seals a secret key. It is wiped when it is dropped.
#[derive(PartialEq, Eq)]
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// Maximum length of a passphrase in bytes.
    pub const MAX_BYTES: usize = 1024;

    /// Creates a passphrase from its bytes, which are UTF-8 if it was typed as text.
    ///
    /// # Errors
    /// [`SealError::EmptyPassphrase`]; [`SealError::LongPassphrase`].
    pub fn new(bytes: Vec<u8>) -> Result<Self> {
        let bytes = Zeroizing::new(bytes);
        match bytes.len() {
            0 => Err(SealError::EmptyPassphrase),
            1..=Self::MAX_BYTES => Ok(Self(bytes)),
            _ => Err(SealError::LongPassphrase),
        }
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(...)")
    }
}

/// The costs of one attempt at a passphrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Lanes of the memory, which could run in parallel.
    pub lanes: u32,
}

impl Costs {
    /// Costs of new files: 0.3 to 1 s on one core. A browser has less memory, so it makes more
    /// passes.
    pub const USUAL: Self = match cfg!(target_family = "wasm") {
        true => Self { memory_kib: 64 << 10, passes: 8, lanes: 1 },
        false => Self { memory_kib: 128 << 10, passes: 4, lanes: 1 },
    };
    /// The minimum outside of tests.
    const MIN_MEMORY_KIB: u32 = if cfg!(test) { 8 } else { 8 << 10 };
    // A hostile file could otherwise take all memory.
    const MAX_MEMORY_KIB: u32 = 1 << 20;
    /// Maximum of memory times passes, a few seconds of work.
    const MAX_WORK_KIB: u64 = 4 << 20;

    /// Refuses costs that only a hostile file asks for, before memory is allocated.
    fn check(self) -> Result<()> {
        let Self { memory_kib, passes, lanes } = self;
        let memory = Self::MIN_MEMORY_KIB..=Self::MAX_MEMORY_KIB;
        let work = u64::from(memory_kib).saturating_mul(passes.into());
        let usual = memory.contains(&memory_kib) && passes > 0 && lanes == 1;
        if usual && work <= Self::MAX_WORK_KIB {
            return Ok(());
        }
        Err(SealError::SealCosts { memory_kib, passes, lanes })
    }
}

/// The parts of a sealed file.
pub struct Sealed<'a> {
    /// The costs of unsealing.
    pub costs: Costs,
    /// The header of the secret key's file, and its encrypted content.
    pub file: &'a [u8],
    salt: &'a [u8],
    nonce: [u8; NONCE_BYTES],
    /// Everything in clear: the envelope, and the header of the file.
    clear: &'a [u8],
    content: &'a [u8],
    tag: [u8; TAG_BYTES],
}

impl<'a> Sealed<'a> {
    /// Reads and checks the parts in clear.
    ///
    /// # Errors
    /// [`SealError::SealCosts`]; [`SealError::Library`] for any other file.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let truncated = || {
            let found = bytes.len() as u64;
            let needed = (ENVELOPE_BYTES + TAG_BYTES) as u64;
            SealError::from(sudare::Error::Truncated { found, needed })
        };
        let envelope = Envelope::of(bytes).ok_or_else(truncated)?;
        let Envelope { magic, version, costs, salt, nonce, rest } = envelope;
        let (file, &tag) = rest.split_last_chunk().ok_or_else(truncated)?;
        if magic != &MAGIC {
            let problem = "it is not a sealed secret key".to_owned();
            return Err(sudare::Error::Malformed { what: "file", problem }.into());
        }
        // Before costs and header, whose places may differ in another version.
        if version != VERSION {
            let source = sudare::Error::UnsupportedVersion { found: version, supported: VERSION };
            return Err(source.into());
        }
        // Before the header is parsed: the costs are what a hostile file would abuse.
        costs.check()?;
        let content = content(file)?;
        let after = content.len().saturating_add(TAG_BYTES);
        let (clear, _) = bytes.split_at(bytes.len().saturating_sub(after));
        Ok(Self { costs, file, salt, nonce, clear, content, tag })
    }

    /// Decrypts the file of the secret key.
    ///
    /// # Errors
    /// [`SealError::WrongPassphrase`]; [`SealError::SealMemory`].
    pub fn open(&self, passphrase: &Passphrase) -> Result<Zeroizing<Vec<u8>>> {
        let cipher = cipher(passphrase, self.salt, self.costs)?;
        // A copy of the whole file: the header is needed in front of the decrypted content.
        let mut file = Zeroizing::new(self.file.to_vec());
        let header = self.file.len().saturating_sub(self.content.len());
        let (_, content) = file.split_at_mut(header);
        let nonce = XNonce::from(self.nonce);
        let tag = Tag::from(self.tag);
        cipher
            .decrypt_inout_detached(&nonce, self.clear, content.into(), &tag)
            // The tag does not tell a wrong passphrase from altered bytes.
            .map_err(|_| SealError::WrongPassphrase)?;
        Ok(file)
    }
}

/// The parts before the file of a key, and the rest.
struct Envelope<'a> {
    magic: &'a [u8; MAGIC.len()],
    version: u32,
    costs: Costs,
    salt: &'a [u8; SALT_BYTES],
    nonce: [u8; NONCE_BYTES],
    rest: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let number = |bytes: &'a [u8]| {
            let (&number, rest) = bytes.split_first_chunk()?;
            Some((u32::from_le_bytes(number), rest))
        };
        let (magic, rest) = bytes.split_first_chunk()?;
        let (version, rest) = number(rest)?;
        let (memory_kib, rest) = number(rest)?;
        let (passes, rest) = number(rest)?;
        let (lanes, rest) = number(rest)?;
        let (salt, rest) = rest.split_first_chunk()?;
        let (&nonce, rest) = rest.split_first_chunk()?;
        let costs = Costs { memory_kib, passes, lanes };
        Some(Self { magic, version, costs, salt, nonce, rest })
    }
}

/// Returns the part after the header in the file of a secret key.
fn content(file: &[u8]) -> Result<&[u8]> {
    let bytes = file.len() as u64;
    let mut rest = file;
    let kind = match ckks::serial::Reader::new(&mut rest, bytes).map(|reader| reader.info().kind) {
        Ok(kind) => kind,
        // The file may belong to the exact scheme.
        Err(error) => {
            rest = file;
            let reader = exact::serial::Reader::new(&mut rest, bytes).map_err(|_| error)?;
            reader.info().kind
        }
    };
    match kind {
        Kind::SecretKey => Ok(rest),
        found => Err(sudare::Error::WrongKind { found, needed: Kind::SecretKey }.into()),
    }
}

/// Seals the file of a secret key.
///
/// # Errors
/// [`SealError::Library`] for any other file, or if the machine has no randomness;
/// [`SealError::SealMemory`].
pub fn seal(file: &[u8], passphrase: &Passphrase) -> Result<Vec<u8>> {
    let random = || -> Result<Seed> { Ok(Seed::random().map_err(sudare::Error::from)?) };
    let salt = random()?;
    let nonce = random()?;
    let (salt, _) = salt.as_bytes().split_at(SALT_BYTES);
    let (nonce, _) = nonce.as_bytes().split_at(NONCE_BYTES);
    seal_with(file, passphrase, Costs::USUAL, (salt, nonce))
}

fn seal_with(
    file: &[u8],
    passphrase: &Passphrase,
    costs: Costs,
    (salt, nonce): (&[u8], &[u8]),
) -> Result<Vec<u8>> {
    let content = content(file)?;
    let Costs { memory_kib, passes, lanes } = costs;
    let numbers = [VERSION, memory_kib, passes, lanes].map(u32::to_le_bytes);
    let mut sealed = [&MAGIC[..], numbers.as_flattened(), salt, nonce].concat();
    let header = file.len().saturating_sub(content.len());
    let clear = sealed.len().saturating_add(header);
    // A growing vector would leave copies of the key in memory.
    sealed.reserve_exact(file.len().saturating_add(TAG_BYTES));
    sealed.extend(file);
    let (clear, content) = sealed.split_at_mut(clear);
    let mut own_nonce = [0; NONCE_BYTES];
    own_nonce.copy_from_slice(nonce);
    let cipher = cipher(passphrase, salt, costs)?;
    // Everything in clear is authenticated, so no header passes for the header of another key.
    let tag = cipher.encrypt_inout_detached(&XNonce::from(own_nonce), clear, content.into());
    let long = |_| sudare::Error::Malformed { what: "file", problem: "it is too long".into() };
    sealed.extend(tag.map_err(long)?);
    Ok(sealed)
}

/// Returns the cipher under the key that is derived from a passphrase.
fn cipher(passphrase: &Passphrase, salt: &[u8], costs: Costs) -> Result<XChaCha20Poly1305> {
    let Costs { memory_kib, passes, lanes } = costs;
    let refused = |_| SealError::SealCosts { memory_kib, passes, lanes };
    let params = argon2::Params::new(memory_kib, passes, lanes, Some(KEY_BYTES));
    let params = params.map_err(refused)?;
    // The blocks depend on the passphrase, so they are wiped, too.
    let mut blocks = Zeroizing::new(Vec::new());
    let count = params.block_count();
    // A file may ask for a gibibyte. Too little memory must be an error, not an abort.
    blocks.try_reserve_exact(count).map_err(|_| SealError::SealMemory { memory_kib })?;
    blocks.resize(count, Block::new());
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(&passphrase.0, salt, &mut key[..], &mut blocks[..])
        .map_err(refused)?;
    let cipher = XChaCha20Poly1305::new_from_slice(&key[..]);
    cipher.map_err(|_| SealError::SealCosts { memory_kib, passes, lanes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;
    use sudare::{
        ckks::{
            Params, Spec,
            serial::{self, Label},
        },
        rlwe::KeyGenerator,
    };

    /// Costs that only tests permit.
    const CHEAP: Costs = Costs { memory_kib: 8, passes: 1, lanes: 1 };
    const RANDOM: (&[u8], &[u8]) = (&[1; SALT_BYTES], &[2; NONCE_BYTES]);

    /// The file of a secret key in a small ring.
    static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| key_file(1));

    fn key_file(seed: u8) -> Vec<u8> {
        let spec = Spec { insecure: true, ..Spec::uniform(10, 40.0, 1, 30.0, vec![40.0]) };
        let params = Params::new(spec).unwrap();
        let seed = Seed::from_bytes([seed; 32]);
        let key = KeyGenerator::from_seed(params.rlwe(), &seed).secret_key().unwrap();
        let mut file = Vec::new();
        serial::write_secret_key(&mut file, &params, &key, &Label::default()).unwrap();
        file
    }

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(text.into()).unwrap()
    }

    fn cheaply_sealed() -> Vec<u8> {
        seal_with(&FILE, &passphrase("six random words"), CHEAP, RANDOM).unwrap()
    }

    fn open(sealed: &[u8], text: &str) -> Result<Zeroizing<Vec<u8>>> {
        Sealed::new(sealed)?.open(&passphrase(text))
    }

    #[test]
    fn the_passphrase_opens_and_no_other() {
        let sealed = cheaply_sealed();
        assert!(**open(&sealed, "six random words").unwrap() == **FILE);
        for other in ["six random word", "six random words ", "Six random words", "\0"] {
            let refused = open(&sealed, other).unwrap_err();
            assert!(matches!(refused, SealError::WrongPassphrase), "{refused}");
        }
        assert!(matches!(Passphrase::new(vec![]), Err(SealError::EmptyPassphrase)));
        let long = vec![b'a'; Passphrase::MAX_BYTES + 1];
        assert!(matches!(Passphrase::new(long), Err(SealError::LongPassphrase)));
        assert!(!format!("{:?}", passphrase("six random words")).contains("six"));
    }

    /// libsodium sealed this file according to the format's description. See `tests/data/seal.py`.
    #[test]
    fn keys_sealed_by_libsodium_are_opened() {
        let sealed = include_bytes!("../tests/data/sealed.bin");
        assert!(**open(sealed, "six random words").unwrap() == **FILE);
    }

    /// The header is in clear. The content is not.
    #[test]
    fn the_file_has_no_secret_in_clear() {
        let sealed = cheaply_sealed();
        let content = content(&FILE).unwrap();
        let header = &FILE[..FILE.len() - content.len()];
        assert_eq!(&sealed[ENVELOPE_BYTES..ENVELOPE_BYTES + header.len()], header);
        assert_eq!(sealed.len(), ENVELOPE_BYTES + FILE.len() + TAG_BYTES);
        let secret = |part: &[u8]| content.windows(16).any(|known| known == part);
        assert!(!sealed[ENVELOPE_BYTES + header.len()..].windows(16).any(secret));
        // Salt and nonce differ each time.
        let usual = [(); 2].map(|()| seal(&FILE, &passphrase("p")).unwrap());
        assert_eq!(Sealed::new(&usual[0]).unwrap().costs, Costs::USUAL);
        let differs = usual[0].iter().zip(&usual[1]).filter(|(a, b)| a != b).count();
        assert!(differs > content.len() / 2, "{differs}");
        assert!(**open(&usual[0], "p").unwrap() == **FILE);
    }

    /// Every byte counts, even if checksums are corrected.
    #[test]
    fn altered_files_are_refused() {
        let sealed = cheaply_sealed();
        let mut seed = 1_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        for _ in 0..10_000 {
            let mut altered = sealed.clone();
            match random(4) {
                0 => altered.truncate(random(sealed.len())),
                1 => altered.extend(vec![random(256) as u8; 1 + random(100)]),
                _ => {
                    for _ in 0..=random(3) {
                        altered[random(sealed.len())] ^= 1 << random(8);
                    }
                }
            }
            if altered != sealed {
                assert!(open(&altered, "six random words").is_err());
            }
        }
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 0x80;
            assert!(open(&altered, "six random words").is_err(), "byte {at}");
        }
    }

    /// A header of another key with a valid checksum is refused.
    #[test]
    fn a_header_of_another_key_is_refused() {
        let other = key_file(2);
        let sealed = cheaply_sealed();
        let header = other.len() - content(&other).unwrap().len();
        let mut swapped = sealed.clone();
        swapped[ENVELOPE_BYTES..ENVELOPE_BYTES + header].copy_from_slice(&other[..header]);
        let parts = Sealed::new(&swapped).unwrap();
        let refused = parts.open(&passphrase("six random words")).unwrap_err();
        assert!(matches!(refused, SealError::WrongPassphrase), "{refused}");
    }

    /// Costs are refused before memory is allocated.
    #[test]
    fn absurd_costs_are_refused() {
        let sealed = cheaply_sealed();
        for (memory_kib, passes, lanes) in [
            (u32::MAX, 1, 1),
            ((1 << 20) + 1, 1, 1),
            (1 << 20, 5, 1),
            (8, u32::MAX, 1),
            (8, 0, 1),
            (7, 1, 1),
            (0, 1, 1),
            (8, 1, 0),
            (64, 1, 2),
            (64, 1, u32::MAX),
        ] {
            let mut absurd = sealed.clone();
            for (i, number) in [memory_kib, passes, lanes].into_iter().enumerate() {
                absurd[12 + 4 * i..16 + 4 * i].copy_from_slice(&number.to_le_bytes());
            }
            let refused = Sealed::new(&absurd).map(|_| ()).unwrap_err();
            assert!(matches!(refused, SealError::SealCosts { .. }), "{refused}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        let p = passphrase("p");
        assert!(matches!(seal(b"text", &p), Err(SealError::Library(_))));
        let sealed = cheaply_sealed();
        assert!(matches!(seal(&sealed, &p), Err(SealError::Library(_))));
        let refused = Sealed::new(&FILE).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("not a sealed secret key"), "{refused}");
        let mut later = sealed;
        later[8] = 2;
        let refused = Sealed::new(&later).map(|_| ()).unwrap_err();
        assert!(matches!(
            refused,
            SealError::Library(sudare::Error::UnsupportedVersion { found: 2, supported: 1 })
        ));
    }
}
