//! What the files of all schemes share: their frame, and keys in it.
//!
//! The format is described in `docs/file-format.md`. Writers and readers stream:
//! beside the object itself they hold the header and one packed row.

use super::{
    Ciphertext, EvaluationKeys, GaloisElement, KeyId, KeyRequest, Level, Params, ParamsId,
    PublicKey, Raise, SecretKey, SwitchingKey,
    keygen::expand,
    keygen::small_secret,
    keys::{FittedSwitchingKeys, GaloisKey, RaisingKeys},
};
use crate::{
    Error, Result,
    ring::{Eval, LimbSet, PackedPolys, RnsBasis, RnsPoly},
};
use blake3::Hasher;
use core::fmt;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{ErrorKind, Read, Seek, SeekFrom, Write},
};
use sudare_arith::{
    Permutation,
    mem::{Buf, Mapping, Secrecy},
    prng::Seed,
};
use zeroize::Zeroizing;

/// The version of the format written and read here.
pub const FORMAT_VERSION: u32 = 1;

/// A byte that is no text, so that nobody takes the file for one, the name, and a
/// line end that a transfer in text mode would change.
const MAGIC: [u8; 8] = *b"\x89sudare\n";
const ALIGN: u64 = 64;
const SEED_BYTES: usize = 32;
const HASH_BYTES: u64 = blake3::OUT_LEN as u64;
const PREAMBLE_BYTES: usize = 64;
/// Limits on what is parsed before parameters are known.
const MAX_HEADER_BYTES: u64 = 64 << 20;
const MAX_SPEC_BYTES: usize = 64 << 10;
const MAX_LABEL_BYTES: usize = 16 << 20;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A secret key.
    SecretKey,
    /// A public key.
    PublicKey,
    /// Evaluation keys.
    EvaluationKeys,
    /// Ciphertexts.
    Ciphertexts,
}

impl Kind {
    const ALL: [Self; 4] =
        [Self::SecretKey, Self::PublicKey, Self::EvaluationKeys, Self::Ciphertexts];

    /// Its number in files.
    fn code(self) -> u16 {
        self as u16 + 1
    }

    /// As [`Kind`] is displayed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SecretKey => "secret key",
            Self::PublicKey => "public key",
            Self::EvaluationKeys => "evaluation keys",
            Self::Ciphertexts => "ciphertexts",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The scheme of a file, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Ckks = 1,
    /// BGV and BFV.
    Exact = 2,
}

/// What an application says about the content. This crate stores it and gives it
/// back; together at most 16 MiB.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Name of the parameters or preset.
    pub name: String,
    /// What the content is, such as `table`.
    pub content: String,
    /// Anything else.
    pub meta: Vec<u8>,
}

/// What a section holds. `M` is what a scheme says of a ciphertext beside its level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Content<M> {
    SecretKey,
    PublicKey,
    Relinearization(Level),
    Galois(GaloisElement, Level),
    Ciphertext(Level, M),
    Raising(Level, u32),
    Raised(GaloisElement, Level),
    FittedRelinearization(Level),
    FittedGalois(GaloisElement, Level),
    /// With the divisor, if that is not 1.
    DividedRaising(Level, u32, u128),
}

impl<M> Content<M> {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::SecretKey => Kind::SecretKey,
            Self::PublicKey => Kind::PublicKey,
            Self::Relinearization(_)
            | Self::Galois(..)
            | Self::Raising(..)
            | Self::DividedRaising(..)
            | Self::Raised(..)
            | Self::FittedRelinearization(_)
            | Self::FittedGalois(..) => Kind::EvaluationKeys,
            Self::Ciphertext(..) => Kind::Ciphertexts,
        }
    }

    /// Bytes of the section, without padding and checksum. Levels are in range.
    fn bytes(&self, params: &Params) -> u64 {
        let basis = params.basis();
        let seed = SEED_BYTES as u64;
        match *self {
            Self::SecretKey => basis.n() as u64 / 4,
            Self::PublicKey => seed + basis.packed_bytes(params.limbs(params.top())),
            Self::Relinearization(level) | Self::Galois(_, level) => {
                seed + params.half_key_bytes(params.key_limbs(level))
            }
            Self::Ciphertext(level, _) => 2 * basis.packed_bytes(params.limbs(level)),
            Self::Raising(level, _) | Self::DividedRaising(level, ..) => {
                let keys = Raise::to(level).limbs(params);
                keys.map(|limbs| seed + basis.packed_bytes(limbs)).iter().sum()
            }
            Self::Raised(_, level) => seed + basis.packed_bytes(params.raising_limbs(level)),
            Self::FittedRelinearization(level) | Self::FittedGalois(_, level) => {
                seed + params.half_key_bytes(params.tier_limbs(Some(level), level))
            }
        }
    }
}

/// The sections of a request's keys, in the order of the file.
pub(crate) fn key_contents<M>(request: &KeyRequest) -> Vec<Content<M>> {
    let galois = request.galois.iter().map(|(&g, &level)| Content::Galois(g, level));
    let raise = request.raise.map(|Raise { level, weight, divisor }| match divisor {
        1 => Content::Raising(level, weight),
        _ => Content::DividedRaising(level, weight, divisor),
    });
    let raised = request
        .raise
        .into_iter()
        .flat_map(|raise| request.raised.iter().map(move |&g| Content::Raised(g, raise.level)));
    let fitted = request.fitted.iter().flat_map(|(&level, keys)| {
        let relinearize = keys.relinearize.then_some(Content::FittedRelinearization(level));
        let galois = keys.galois.iter().map(move |&g| Content::FittedGalois(g, level));
        relinearize.into_iter().chain(galois)
    });
    request
        .relinearize
        .map(Content::Relinearization)
        .into_iter()
        .chain(galois)
        .chain(raise)
        .chain(raised)
        .chain(fitted)
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Section<M> {
    pub(crate) content: Content<M>,
    /// Without padding and checksum.
    bytes: u64,
}

/// The variable part of a header. `S` is a scheme's specification.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Header<S, M> {
    pub(crate) spec: S,
    pub(crate) label: Label,
    pub(crate) sections: Vec<Section<M>>,
}

impl<S: Serialize + DeserializeOwned, M: Serialize + DeserializeOwned> Header<S, M> {
    /// Levels are in range.
    pub(crate) fn new(params: &Params, spec: S, label: &Label, contents: Vec<Content<M>>) -> Self {
        let section = |content: Content<M>| Section { bytes: content.bytes(params), content };
        let sections = contents.into_iter().map(section).collect();
        Self { spec, label: label.clone(), sections }
    }

    fn encode(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(&(&self.spec, &self.label, &self.sections)).map_err(malformed_header)
    }

    /// `count` sections, and nothing after them.
    fn decode(bytes: &[u8], count: u64) -> Result<Self> {
        // A value may take many times its encoding in memory: a part that must be
        // small is shown no more bytes than it may have.
        let (spec, rest) = decode_part::<S>(bytes, MAX_SPEC_BYTES)?;
        let (label, rest) = decode_part::<Label>(rest, MAX_LABEL_BYTES)?;
        let (claimed, _) = decode_part::<u64>(rest, rest.len())?;
        if claimed != count {
            return Err(malformed(format!("it lists {claimed} sections and has {count}")));
        }
        let (sections, rest) = decode_part(rest, rest.len())?;
        match rest {
            [] => Ok(Self { spec, label, sections }),
            _ => Err(malformed("bytes follow the list of sections".into())),
        }
    }

    /// Bytes of the file whose header has `header_bytes`, unless they overflow.
    fn file_bytes(&self, header_bytes: u64) -> Option<u64> {
        let header = (PREAMBLE_BYTES as u64).checked_add(header_bytes)?;
        let contents = self.sections.iter().map(|section| section.bytes);
        core::iter::once(header)
            .chain(contents)
            .try_fold(0u64, |sum, bytes| sum.checked_add(section_bytes(bytes)?))
    }

    /// Where the sections after the header begin, and where the last one ends, of a file whose
    /// sizes [`FileReader::open`] checked.
    pub(crate) fn starts(&self, first: u64) -> Vec<u64> {
        let ends = self.sections.iter().scan(first, |end, section| {
            *end = end.saturating_add(section_bytes(section.bytes)?);
            Some(*end)
        });
        core::iter::once(first).chain(ends).collect()
    }

    /// Bytes of the file; more than any file if the header is too large for one.
    pub(crate) fn total_bytes(&self) -> u64 {
        let header = self.encode().map_or(u64::MAX, |bytes| bytes.len() as u64);
        self.file_bytes(header).unwrap_or(u64::MAX)
    }

    /// Refuses sections whose sizes do not follow from the parameters and their
    /// content, whose levels are in range.
    pub(crate) fn check_sizes(&self, params: &Params) -> Result<()> {
        for section in &self.sections {
            let (found, needed) = (section.bytes, section.content.bytes(params));
            if found != needed {
                return Err(malformed(format!("a section has {found} bytes instead of {needed}")));
            }
        }
        Ok(())
    }

    /// Refuses sections that no parameters of this ring, with `primes[l]` primes at level `l`,
    /// `fresh` at the top of the chain and `special` ones, could have: they are too small for
    /// residues modulo primes above `2N`.
    pub(crate) fn check_room(
        &self,
        log_n: u32,
        primes: &[usize],
        fresh: usize,
        special: usize,
    ) -> Result<()> {
        let row = u64::from((log_n + 2).div_ceil(8)) << log_n;
        let rows = |primes: usize| row.saturating_mul(primes as u64);
        let up_to =
            |level: Level| primes.get(level.index()).or(primes.last()).copied().unwrap_or(0);
        for section in &self.sections {
            let least = match section.content {
                Content::SecretKey => 1 << log_n >> 2,
                Content::PublicKey => rows(fresh),
                Content::Relinearization(level) | Content::Galois(_, level) => {
                    rows(up_to(level) + special)
                }
                Content::Ciphertext(level, _) => rows(2 * up_to(level)),
                // Each key has a special prime or more.
                Content::Raising(level, _) | Content::DividedRaising(level, ..) => {
                    rows(up_to(Level(0)) + up_to(level) + 2)
                }
                Content::Raised(_, level)
                | Content::FittedRelinearization(level)
                | Content::FittedGalois(_, level) => rows(up_to(level) + 1),
            };
            let found = section.bytes;
            if found < least {
                return Err(malformed(format!(
                    "a section has {found} bytes, its parameters need {least} or more"
                )));
            }
        }
        Ok(())
    }

    /// The request whose keys the sections are: in order, each once.
    pub(crate) fn key_request(&self, params: &Params) -> Result<KeyRequest>
    where
        M: PartialEq,
    {
        let mut request = KeyRequest::new();
        for section in &self.sections {
            match section.content {
                Content::Relinearization(level) => request.relinearize = Some(level),
                Content::Galois(g, level) => {
                    request.galois.insert(g, level);
                }
                Content::Raising(level, weight) => {
                    request.raise = Some(Raise::to(level).with_weight(weight));
                }
                Content::DividedRaising(level, weight, divisor) => {
                    request.raise = Some(Raise { level, weight, divisor });
                }
                Content::Raised(g, _) => {
                    request.raised.insert(g);
                }
                Content::FittedRelinearization(level) => {
                    request.fitted.entry(level).or_default().relinearize = true;
                }
                Content::FittedGalois(g, level) => {
                    request.fitted.entry(level).or_default().galois.insert(g);
                }
                _ => {}
            }
        }
        request.check(params)?;
        if key_contents(&request).iter().eq(self.sections.iter().map(|s| &s.content)) {
            Ok(request)
        } else {
            Err(malformed("its keys are not in order, or one is there twice".into()))
        }
    }
}

/// Bytes of a section with padding and checksum, unless they overflow.
fn section_bytes(content: u64) -> Option<u64> {
    content.checked_add(HASH_BYTES)?.checked_next_multiple_of(ALIGN)
}

/// Zeros between `content` bytes of a section and its checksum.
fn padding(content: u64) -> usize {
    let over = (content + HASH_BYTES) % ALIGN;
    ((ALIGN - over) % ALIGN) as usize
}

fn decode_part<T: DeserializeOwned>(bytes: &[u8], max: usize) -> Result<(T, &[u8])> {
    let head = &bytes[..bytes.len().min(max)];
    let (value, rest) = postcard::take_from_bytes(head).map_err(malformed_header)?;
    Ok((value, &bytes[head.len() - rest.len()..]))
}

fn malformed(problem: String) -> Error {
    Error::Malformed { what: "file", problem }
}

fn malformed_header(e: postcard::Error) -> Error {
    malformed(format!("its header cannot be read: {e}"))
}

/// The fixed start of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preamble {
    pub(crate) kind: Kind,
    pub(crate) params: ParamsId,
    pub(crate) key: KeyId,
}

/// Writes a file section by section.
pub(crate) struct FileWriter<'a, W: ?Sized> {
    out: &'a mut W,
    hasher: Zeroizing<Hasher>,
    /// Checksum of the header, which the others start from.
    header: [u8; HASH_BYTES as usize],
    /// The number of the section being written.
    section: u64,
    written: u64,
    total: u64,
    row: Vec<u8>,
}

impl<'a, W: Write + ?Sized> FileWriter<'a, W> {
    /// Writes the header.
    pub(crate) fn new<S, M>(
        out: &'a mut W,
        scheme: Scheme,
        preamble: Preamble,
        header: &Header<S, M>,
    ) -> Result<Self>
    where
        S: Serialize + DeserializeOwned,
        M: Serialize + DeserializeOwned,
    {
        let label = &header.label;
        let label_bytes = label.name.len() + label.content.len() + label.meta.len();
        // Lengths take at most five bytes each.
        if label_bytes + 15 > MAX_LABEL_BYTES {
            return Err(Error::InvalidSpec {
                field: "label",
                problem: format!("{label_bytes} bytes are too many: at most 16 MiB less 15 fit"),
            });
        }
        let encoded = header.encode()?;
        let bytes = encoded.len() as u64;
        let total =
            header.file_bytes(bytes).filter(|_| bytes <= MAX_HEADER_BYTES).ok_or_else(|| {
                let count = header.sections.len();
                let problem = format!("{count} objects are too many for one file: use several");
                Error::InvalidSpec { field: "file", problem }
            })?;
        let mut start = [0; PREAMBLE_BYTES];
        start[..8].copy_from_slice(&MAGIC);
        start[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        start[12..14].copy_from_slice(&(scheme as u16).to_le_bytes());
        start[14..16].copy_from_slice(&preamble.kind.code().to_le_bytes());
        let words =
            [preamble.params.0, preamble.key.0, header.sections.len() as u64, total, bytes, 0];
        for (place, word) in start[16..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let mut writer = Self {
            out,
            hasher: Zeroizing::new(Hasher::new()),
            header: [0; HASH_BYTES as usize],
            section: 0,
            written: 0,
            total,
            row: Vec::new(),
        };
        writer.put(&start)?;
        writer.put(&encoded)?;
        writer.end_section()?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn end_section(&mut self) -> Result<()> {
        let zeros = [0; ALIGN as usize];
        self.put(&zeros[..padding(self.written)])?;
        let hash = self.hasher.finalize();
        self.out.write_all(hash.as_bytes())?;
        self.written += HASH_BYTES;
        if self.section == 0 {
            self.header = *hash.as_bytes();
        }
        self.section += 1;
        self.hasher = section_hasher(&self.header, self.section);
        Ok(())
    }

    /// Flushes. The bytes written.
    pub(crate) fn finish(self) -> Result<u64> {
        debug_assert_eq!(self.written, self.total);
        self.out.flush()?;
        Ok(self.written)
    }

    fn put_poly(&mut self, params: &Params, limbs: LimbSet, a: &RnsPoly<Eval>) -> Result<()> {
        let mut row = core::mem::take(&mut self.row);
        for (table, words) in params.basis().tables(limbs).zip(a.rows()) {
            let m = table.modulus();
            row.resize(words.len() * m.packed_bytes(), 0);
            m.pack(&mut row, words);
            self.put(&row)?;
        }
        self.row = row;
        Ok(())
    }

    pub(crate) fn secret_key(&mut self, key: &SecretKey) -> Result<()> {
        let coeffs = key.coeffs();
        let code = |&c: &i8| c as u8 & 3;
        let pack = |four: &[i8]| four.iter().rev().fold(0, |byte, c| byte << 2 | code(c));
        let mut packed = packed_secret(key.params().basis());
        let bytes = &mut packed.as_bytes_mut()[..coeffs.as_signed().len() / 4];
        for (byte, four) in bytes.iter_mut().zip(coeffs.as_signed().chunks_exact(4)) {
            *byte = pack(four);
        }
        self.put(bytes)?;
        self.end_section()
    }

    pub(crate) fn public_key(&mut self, params: &Params, key: &PublicKey) -> Result<()> {
        self.put(key.seed.as_bytes())?;
        self.put_poly(params, params.limbs(params.top()), &key.zero[0])?;
        self.end_section()
    }

    pub(crate) fn evaluation_keys(&mut self, keys: &EvaluationKeys) -> Result<()> {
        for section in keys.sections() {
            for key in section {
                self.put_switching_key(key)?;
            }
            self.end_section()?;
        }
        Ok(())
    }

    fn put_switching_key(&mut self, key: &SwitchingKey) -> Result<()> {
        self.put(key.seed.as_bytes())?;
        self.put(key.first.bytes())
    }

    pub(crate) fn ciphertext(&mut self, params: &Params, a: &Ciphertext) -> Result<()> {
        for poly in &a.polys {
            self.put_poly(params, params.limbs(a.level), poly)?;
        }
        self.end_section()
    }
}

/// Room for the coefficients of a secret key, four in a byte.
fn packed_secret(basis: &RnsBasis) -> Buf {
    basis.pool().take_as(Secrecy::Key, basis.n().div_ceil(32))
}

fn section_hasher(header: &[u8], section: u64) -> Zeroizing<Hasher> {
    let mut hasher = Zeroizing::new(Hasher::new());
    hasher.update(header);
    hasher.update(&section.to_le_bytes());
    hasher
}

/// A switching key whose section is not yet known to be undamaged.
struct UncheckedKey {
    level: Level,
    seed: Seed,
    first: PackedPolys,
    /// Whether residues are below their primes.
    valid: bool,
}

impl UncheckedKey {
    /// With its second halves, unless it is to be small.
    fn finish(self, params: &Params, small: bool) -> SwitchingKey {
        let Self { level, seed, first, .. } = self;
        let second = (!small).then(|| {
            let mut packer = params.basis().packer(first.limbs(), first.count());
            for digit in 0..first.count() {
                packer.push(&expand(params, first.limbs(), &seed, digit as u64));
            }
            packer.finish()
        });
        SwitchingKey { level, seed, first, second }
    }
}

/// Reads a file section by section.
pub(crate) struct FileReader<R> {
    input: R,
    file_bytes: u64,
    hasher: Zeroizing<Hasher>,
    header: [u8; HASH_BYTES as usize],
    section: u64,
    read: u64,
    row: Vec<u8>,
    /// Of the same file: keys stay in it.
    pub(crate) mapping: Option<Mapping>,
    /// Whether evaluation keys are small.
    pub(crate) small_keys: bool,
}

impl<R: Read> FileReader<R> {
    /// Reads the header of a file of `file_bytes`. What it claims is consistent in
    /// itself and with that size, but not yet with any parameters.
    pub(crate) fn open<S, M>(
        input: R,
        file_bytes: u64,
        scheme: Scheme,
    ) -> Result<(Self, Preamble, Header<S, M>)>
    where
        S: Serialize + DeserializeOwned,
        M: Serialize + DeserializeOwned,
    {
        let mut file = Self {
            input,
            file_bytes,
            hasher: Zeroizing::new(Hasher::new()),
            header: [0; HASH_BYTES as usize],
            section: 0,
            read: 0,
            row: Vec::new(),
            mapping: None,
            small_keys: false,
        };
        let mut start = [0; PREAMBLE_BYTES];
        file.take(&mut start)?;
        let word = |at: usize, bytes: usize| {
            start[at..at + bytes].iter().rev().fold(0, |word, &b| word << 8 | u64::from(b))
        };
        if start[..8] != MAGIC {
            return Err(malformed("it is not a file of this library".into()));
        }
        let version = word(8, 4) as u32;
        if version != FORMAT_VERSION {
            let supported = FORMAT_VERSION;
            return Err(Error::UnsupportedVersion { found: version, supported });
        }
        if word(12, 2) != scheme as u64 {
            return Err(malformed(format!("scheme {} is not {scheme:?}", word(12, 2))));
        }
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| u64::from(kind.code()) == word(14, 2))
            .ok_or_else(|| malformed(format!("there is no kind {}", word(14, 2))))?;
        let [params, key, count, total, header_bytes, zero] =
            core::array::from_fn(|i| word(16 + 8 * i, 8));
        if total > file_bytes {
            return Err(Error::Truncated { found: file_bytes, needed: total });
        }
        if total < file_bytes {
            let surplus = file_bytes - total;
            return Err(malformed(format!("{surplus} bytes follow its end")));
        }
        if zero != 0 || header_bytes > MAX_HEADER_BYTES.min(total) || count > total / ALIGN {
            return Err(malformed("its header has impossible sizes".into()));
        }
        // Grows with the bytes there are, whatever the header claims.
        let mut encoded = Vec::new();
        file.input.by_ref().take(header_bytes).read_to_end(&mut encoded)?;
        file.hasher.update(&encoded);
        file.read += encoded.len() as u64;
        if (encoded.len() as u64) < header_bytes {
            return Err(Error::Truncated { found: file.read, needed: total });
        }
        file.end_section()?;
        let header = Header::<S, M>::decode(&encoded, count)?;
        if header.encode()? != encoded {
            return Err(malformed("its header is not in the one form that writers give it".into()));
        }
        if header.file_bytes(header_bytes) != Some(total) {
            return Err(malformed(format!("its sections do not have {total} bytes together")));
        }
        if header.sections.iter().any(|section| section.content.kind() != kind) {
            return Err(malformed(format!("a section does not belong to {kind}")));
        }
        if matches!(kind, Kind::SecretKey | Kind::PublicKey) && count != 1 {
            return Err(malformed(format!("a file of a {kind} has one section, this {count}")));
        }
        Ok((file, Preamble { kind, params: ParamsId(params), key: KeyId(key) }, header))
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => {
                    let found = self.read + filled as u64;
                    let needed = self.file_bytes.max(self.read + bytes.len() as u64);
                    return Err(Error::Truncated { found, needed });
                }
                Ok(read) => filled += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.hasher.update(bytes);
        self.read += bytes.len() as u64;
        Ok(())
    }

    /// Checks padding and checksum.
    fn end_section(&mut self) -> Result<()> {
        let mut zeros = [0; ALIGN as usize];
        let zeros = &mut zeros[..padding(self.read)];
        self.take(zeros)?;
        let hash = self.hasher.finalize();
        let mut found = [0; HASH_BYTES as usize];
        self.take(&mut found)?;
        let section = self.section;
        if hash != found {
            return Err(Error::Checksum { section });
        }
        if zeros.iter().any(|&byte| byte != 0) {
            return Err(malformed(format!("the padding of section {section} is not zero")));
        }
        if section == 0 {
            self.header = found;
        }
        self.section += 1;
        self.hasher = section_hasher(&self.header, self.section);
        Ok(())
    }

    /// How far the file is read: after [`FileReader::open`], where its first section begins.
    pub(crate) fn position(&self) -> u64 {
        self.read
    }

    /// Goes to a section, by its number, that begins at `start`.
    pub(crate) fn seek(&mut self, section: u64, start: u64) -> Result<()>
    where
        R: Seek,
    {
        self.input.seek(SeekFrom::Start(start))?;
        (self.section, self.read) = (section, start);
        self.hasher = section_hasher(&self.header, section);
        Ok(())
    }

    /// The digest of all checksums of a file whose sections have these starts and end.
    pub(crate) fn digest(&mut self, starts: &[u64]) -> Result<[u8; HASH_BYTES as usize]>
    where
        R: Seek,
    {
        let mut hasher = Hasher::new();
        hasher.update(&self.header);
        for &end in &starts[1..] {
            let mut checksum = [0; HASH_BYTES as usize];
            self.input.seek(SeekFrom::Start(end - HASH_BYTES))?;
            self.input.read_exact(&mut checksum)?;
            hasher.update(&checksum);
        }
        Ok(*hasher.finalize().as_bytes())
    }

    /// Refuses bytes after the last section.
    pub(crate) fn finish(mut self) -> Result<()> {
        let mut more = Vec::new();
        self.input.by_ref().take(1).read_to_end(&mut more)?;
        if more.is_empty() { Ok(()) } else { Err(malformed("bytes follow its end".into())) }
    }

    fn seed(&mut self) -> Result<Seed> {
        let mut bytes = [0; SEED_BYTES];
        self.take(&mut bytes)?;
        Ok(Seed::from_bytes(bytes))
    }

    /// A polynomial, and whether its residues are below their primes.
    fn poly(&mut self, params: &Params, limbs: LimbSet) -> Result<(RnsPoly<Eval>, bool)> {
        let basis = params.basis();
        let mut a = basis.take(limbs);
        let mut valid = true;
        let mut row = core::mem::take(&mut self.row);
        for (table, words) in basis.tables(limbs).zip(a.rows_mut()) {
            let m = table.modulus();
            row.resize(words.len() * m.packed_bytes(), 0);
            self.take(&mut row)?;
            valid &= m.unpack(words, &row);
        }
        self.row = row;
        Ok((a, valid))
    }

    /// Ends the section of residues that are `valid`. Damage shows in its checksum
    /// first.
    fn end_polys(&mut self, valid: bool) -> Result<()> {
        let section = self.section;
        self.end_section()?;
        if valid {
            return Ok(());
        }
        Err(malformed(format!("a residue of section {section} is not below its prime")))
    }

    pub(crate) fn secret_key(&mut self, params: &Params, id: KeyId) -> Result<SecretKey> {
        let mut packed = packed_secret(params.basis());
        let bytes = &mut packed.as_bytes_mut()[..params.basis().n() / 4];
        self.take(bytes)?;
        self.end_section()?;
        let mut coeffs = small_secret(params.basis());
        for (four, &byte) in coeffs.as_signed_mut().chunks_exact_mut(4).zip(bytes.iter()) {
            for (k, c) in four.iter_mut().enumerate() {
                // The two bits, as a signed number.
                *c = ((byte >> (2 * k)) << 6) as i8 >> 6;
            }
        }
        SecretKey::from_coeffs(params, id, coeffs.as_signed())
    }

    pub(crate) fn public_key(&mut self, params: &Params, id: KeyId) -> Result<PublicKey> {
        let limbs = params.limbs(params.top());
        let seed = self.seed()?;
        let (b, valid) = self.poly(params, limbs)?;
        self.end_polys(valid)?;
        let a = expand(params, limbs, &seed, 0);
        Ok(PublicKey { params: params.id(), id, seed, zero: [b, a] })
    }

    /// A switching key at any place of its section.
    fn part(
        &mut self,
        params: &Params,
        level: Level,
        limbs: LimbSet,
        digits: usize,
    ) -> Result<UncheckedKey> {
        let (seed, basis) = (self.seed()?, params.basis());
        let mut valid = true;
        let first = match self.mapping.clone() {
            None => {
                let mut packer = basis.packer(limbs, digits);
                for _ in 0..digits {
                    for (m, row) in packer.next_rows() {
                        self.take(row)?;
                        valid &= m.are_residues(row);
                    }
                }
                packer.finish()
            }
            Some(mapping) => {
                let start = self.read as usize;
                let mut row = core::mem::take(&mut self.row);
                for table in (0..digits).flat_map(|_| basis.tables(limbs)) {
                    row.resize(table.modulus().packed_bytes() << basis.log_n(), 0);
                    self.take(&mut row)?;
                    valid &= table.modulus().are_residues(&row);
                }
                self.row = row;
                let (found, needed) = (mapping.len() as u64, self.read);
                let bytes = mapping.slice(start..needed as usize);
                basis.packed(limbs, bytes.ok_or(Error::Truncated { found, needed })?)
            }
        };
        Ok(UncheckedKey { level, seed, first, valid })
    }

    fn switching_key(
        &mut self,
        params: &Params,
        level: Level,
        limbs: LimbSet,
        small: bool,
    ) -> Result<SwitchingKey> {
        let digits = params.digit_primes_of(limbs).len();
        let key = self.part(params, level, limbs, digits)?;
        self.end_polys(key.valid)?;
        Ok(key.finish(params, small))
    }

    fn galois_key(
        &mut self,
        params: &Params,
        g: GaloisElement,
        level: Level,
        limbs: LimbSet,
    ) -> Result<GaloisKey> {
        let key = self.switching_key(params, level, limbs, self.small_keys)?;
        Ok(GaloisKey { key, permutation: Permutation::galois(params.log_n(), g.0 as usize) })
    }

    fn raising_keys(
        &mut self,
        params: &Params,
        raise: Raise,
        raised: &BTreeSet<GaloisElement>,
    ) -> Result<RaisingKeys> {
        let [to_sparse, back] = raise.limbs(params);
        let to_sparse = self.part(params, Level(0), to_sparse, 1)?;
        let to_dense = self.part(params, raise.level, back, 1)?;
        self.end_polys(to_sparse.valid & to_dense.valid)?;
        let small = self.small_keys;
        let [to_sparse, to_dense] = [to_sparse, to_dense].map(|key| key.finish(params, small));
        let mut images = BTreeMap::new();
        for &g in raised {
            let key = self.part(params, raise.level, back, 1)?;
            self.end_polys(key.valid)?;
            let permutation = Permutation::galois(params.log_n(), g.0 as usize);
            images.insert(g, GaloisKey { key: key.finish(params, small), permutation });
        }
        let Raise { weight, divisor, .. } = raise;
        Ok(RaisingKeys { weight, divisor, to_sparse, to_dense, images })
    }

    /// The keys of a request that [`Header::key_request`] returned.
    pub(crate) fn evaluation_keys(
        &mut self,
        params: &Params,
        id: KeyId,
        request: &KeyRequest,
    ) -> Result<EvaluationKeys> {
        let relinearize = request
            .relinearize
            .map(|level| self.switching_key(params, level, params.key_limbs(level), false))
            .transpose()?;
        let mut galois = BTreeMap::new();
        for (&g, &level) in &request.galois {
            galois.insert(g, self.galois_key(params, g, level, params.key_limbs(level))?);
        }
        let raise = (request.raise)
            .map(|raise| self.raising_keys(params, raise, &request.raised))
            .transpose()?;
        let mut fitted = BTreeMap::new();
        for (&level, keys) in &request.fitted {
            let limbs = params.tier_limbs(Some(level), level);
            let mut read = FittedSwitchingKeys::default();
            if keys.relinearize {
                read.relinearize = Some(self.switching_key(params, level, limbs, false)?);
            }
            for &g in &keys.galois {
                read.galois.insert(g, self.galois_key(params, g, level, limbs)?);
            }
            fitted.insert(level, read);
        }
        Ok(EvaluationKeys { params: params.id(), id, relinearize, galois, raise, fitted })
    }

    /// A ciphertext of a level in range.
    pub(crate) fn ciphertext(
        &mut self,
        params: &Params,
        key: KeyId,
        level: Level,
    ) -> Result<Ciphertext> {
        let limbs = params.limbs(level);
        let (c0, first) = self.poly(params, limbs)?;
        let (c1, second) = self.poly(params, limbs)?;
        self.end_polys(first & second)?;
        Ok(Ciphertext { polys: [c0, c1], level, params: params.id(), key })
    }
}
