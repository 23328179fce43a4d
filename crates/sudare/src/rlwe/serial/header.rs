//! The variable part of a header: parameters, label, and a description of each section.

use super::{
    super::{GaloisElement, KeyRequest, Level, Params, Raise},
    ALIGN, HASH_BYTES, Kind, Label, PREAMBLE_BYTES, PrimeCounts, Scheme, malformed,
};
use crate::{Error, Result};
use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Limits on parts that are parsed before parameters are known. Lists of empty lists use 24 times
/// their encoding in memory.
const MAX_SPEC_BYTES: usize = 16 << 10;
pub(super) const MAX_LABEL_BYTES: usize = 16 << 20;

const SEED_BYTES: u64 = 32;

/// Content of a section. `M` is a scheme's description of a ciphertext in addition to its level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Content<M> {
    // Files store the number of a variant, so new ones go to the end.
    SecretKey,
    PublicKey,
    Relinearization(Level),
    Galois(GaloisElement, Level),
    Ciphertext(Level, M),
    Raising(Level, u32),
    Raised(GaloisElement, Level),
    LevelRelinearization(Level),
    LevelGalois(GaloisElement, Level),
    /// Keys for raising with a divisor other than 1.
    DividedRaising(Level, u32, u128),
    /// A ciphertext with a seed in place of its uniform half.
    SeededCiphertext(Level, M),
}

impl<M> Content<M> {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::SecretKey => Kind::SecretKey,
            Self::PublicKey => Kind::PublicKey,
            Self::Relinearization(_)
            | Self::Galois(..)
            | Self::Raising(..)
            | Self::DividedRaising(..)
            | Self::Raised(..)
            | Self::LevelRelinearization(_)
            | Self::LevelGalois(..) => Kind::EvaluationKeys,
            Self::Ciphertext(..) | Self::SeededCiphertext(..) => Kind::Ciphertexts,
        }
    }

    /// Returns the description of a ciphertext. The flag tells whether it is seeded.
    pub(super) fn ciphertext(&self) -> Option<(Level, M, bool)>
    where
        M: Copy,
    {
        match *self {
            Self::Ciphertext(level, meta) => Some((level, meta, false)),
            Self::SeededCiphertext(level, meta) => Some((level, meta, true)),
            _ => None,
        }
    }

    /// Bytes of the section, without padding and checksum. Levels must be in range.
    fn bytes(&self, params: &Params) -> u64 {
        let basis = params.basis();
        let seeded = |bytes: u64| bytes.saturating_add(SEED_BYTES);
        let relinearization = |limbs| match params.half_key_bytes(limbs) {
            // Both halves, and no seed.
            half if params.spec().secret.is_shared() => half.saturating_mul(2),
            half => seeded(half),
        };
        match *self {
            Self::SecretKey => basis.n() as u64 / 4,
            Self::PublicKey => seeded(basis.packed_bytes(params.limbs(params.top()))),
            Self::Relinearization(level) => relinearization(params.key_limbs(level)),
            Self::Galois(_, level) => seeded(params.half_key_bytes(params.key_limbs(level))),
            Self::Ciphertext(level, _) => basis.packed_bytes(params.limbs(level)).saturating_mul(2),
            Self::SeededCiphertext(level, _) => seeded(basis.packed_bytes(params.limbs(level))),
            Self::Raising(level, _) | Self::DividedRaising(level, ..) => {
                let keys = Raise::to(level).limbs(params);
                keys.map(|limbs| seeded(basis.packed_bytes(limbs))).iter().sum()
            }
            Self::Raised(_, level) => seeded(basis.packed_bytes(params.raising_limbs(level))),
            Self::LevelRelinearization(level) => {
                relinearization(params.limbs_of_keys(Some(level), level))
            }
            Self::LevelGalois(_, level) => {
                seeded(params.half_key_bytes(params.limbs_of_keys(Some(level), level)))
            }
        }
    }

    /// Minimum bytes of the section under any parameters with these primes: residues modulo primes
    /// above `2N`.
    fn least_bytes(&self, primes: &PrimeCounts) -> u64 {
        let n = 1u64.checked_shl(primes.log_n).unwrap_or(u64::MAX);
        // Primes `1 mod 2N` exceed `2N`, so a residue has at least `log_n + 2` bits.
        let row = n.saturating_mul(primes.log_n.saturating_add(2).div_ceil(8).into());
        let rows = |primes: usize| row.saturating_mul(primes as u64);
        let up_to = |level: Level| {
            let counts = &primes.up_to;
            // Levels are not checked yet. One that is too high counts as the highest.
            counts.get(level.index()).or(counts.last()).copied().unwrap_or(0)
        };
        match *self {
            Self::SecretKey => n / 4,
            Self::PublicKey => rows(primes.fresh),
            Self::Relinearization(level) | Self::Galois(_, level) => {
                rows(up_to(level).saturating_add(primes.special))
            }
            Self::Ciphertext(level, _) => rows(up_to(level).saturating_mul(2)),
            Self::SeededCiphertext(level, _) => rows(up_to(level)),
            // Each key has at least one special prime.
            Self::Raising(level, _) | Self::DividedRaising(level, ..) => {
                rows(up_to(Level(0)).saturating_add(up_to(level)).saturating_add(2))
            }
            Self::Raised(_, level)
            | Self::LevelRelinearization(level)
            | Self::LevelGalois(_, level) => rows(up_to(level).saturating_add(1)),
        }
    }
}

/// Returns the sections of a request's keys, in the order of the file.
pub(super) fn key_contents<M>(request: &KeyRequest) -> Vec<Content<M>> {
    let galois = request.galois.iter().map(|(&g, &level)| Content::Galois(g, level));
    let raise = request.raise.map(|Raise { level, weight, divisor }| match divisor {
        // Each value has one encoding in files: a divisor of 1 is left out.
        1 => Content::Raising(level, weight),
        _ => Content::DividedRaising(level, weight, divisor),
    });
    let raised = request
        .raise
        .into_iter()
        .flat_map(|raise| request.raised.iter().map(move |&g| Content::Raised(g, raise.level)));
    let level_keys = request.level_keys.iter().flat_map(|(&level, keys)| {
        let relinearize = keys.relinearize.then_some(Content::LevelRelinearization(level));
        let galois = keys.galois.iter().map(move |&g| Content::LevelGalois(g, level));
        relinearize.into_iter().chain(galois)
    });
    request
        .relinearize
        .map(Content::Relinearization)
        .into_iter()
        .chain(galois)
        .chain(raise)
        .chain(raised)
        .chain(level_keys)
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Section<M> {
    content: Content<M>,
    /// Size without padding and checksum.
    bytes: u64,
}

/// Descriptions of the sections after the header.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Sections<M>(Vec<Section<M>>);

impl<M: Copy + PartialEq> Sections<M> {
    /// Describes the sections of `contents`. Levels must be in range.
    fn new(params: &Params, contents: Vec<Content<M>>) -> Self {
        let section = |content: Content<M>| Section { bytes: content.bytes(params), content };
        Self(contents.into_iter().map(section).collect())
    }

    /// Number of sections.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contents(&self) -> impl Iterator<Item = &Content<M>> {
        self.0.iter().map(|section| &section.content)
    }

    /// Returns the start of each section after the header, and the end of the last one.
    /// [`FileReader::open`](super::FileReader::open) checked the sizes of the file.
    pub(super) fn starts(&self, first: u64) -> Vec<u64> {
        let ends = self.0.iter().scan(first, |end, section| {
            *end = end.saturating_add(section_bytes(section.bytes)?);
            Some(*end)
        });
        core::iter::once(first).chain(ends).collect()
    }

    /// Rejects sections whose sizes do not follow from the parameters and their content. Levels
    /// must be in range.
    pub(super) fn check_sizes(&self, params: &Params) -> Result<()> {
        for section in &self.0 {
            let found = section.bytes;
            let needed = section.content.bytes(params);
            if found != needed {
                return Err(malformed(format!("a section has {found} bytes instead of {needed}")));
            }
        }
        Ok(())
    }

    /// Rejects sections that are too small for any parameters with these primes.
    pub(super) fn check_room(&self, primes: &PrimeCounts) -> Result<()> {
        for section in &self.0 {
            let found = section.bytes;
            let least = section.content.least_bytes(primes);
            if found < least {
                return Err(malformed(format!(
                    "a section has {found} bytes, its parameters need {least} or more"
                )));
            }
        }
        Ok(())
    }

    /// Returns the request that the sections' keys fulfil. Rejects keys out of order or repeated.
    pub(super) fn key_request(&self, params: &Params) -> Result<KeyRequest> {
        // Maps sort keys and drop repetitions. The comparison at the end finds both.
        let mut request = KeyRequest::new();
        for content in self.contents() {
            match *content {
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
                Content::LevelRelinearization(level) => {
                    request.level_keys.entry(level).or_default().relinearize = true;
                }
                Content::LevelGalois(g, level) => {
                    request.level_keys.entry(level).or_default().galois.insert(g);
                }
                _ => {}
            }
        }
        request.check(params)?;
        if key_contents(&request).iter().eq(self.contents()) {
            Ok(request)
        } else {
            Err(malformed("its keys are not in order, or one is there twice".into()))
        }
    }
}

/// The variable part of a header. `S` is a scheme's specification.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header<S, M> {
    pub(super) spec: S,
    pub(super) label: Label,
    pub(super) sections: Sections<M>,
}

/// Header of files of the scheme `P`.
pub(super) type HeaderOf<P> = Header<<P as Scheme>::Spec, <P as Scheme>::Meta>;

/// A [`Label`] in its encoding.
#[derive(Deserialize)]
struct EncodedLabel<'a> {
    name: &'a str,
    content: &'a str,
    meta: &'a [u8],
}

impl<S, M> Header<S, M>
where
    S: Serialize + DeserializeOwned,
    M: Copy + PartialEq + Serialize + DeserializeOwned,
{
    /// Makes a header. Levels must be in range.
    pub(super) fn new(params: &Params, spec: S, label: &Label, contents: Vec<Content<M>>) -> Self {
        Self { spec, label: label.clone(), sections: Sections::new(params, contents) }
    }

    fn parts(&self) -> (&S, &Label, &Sections<M>) {
        (&self.spec, &self.label, &self.sections)
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(&self.parts()).map_err(malformed_header)
    }

    /// Returns `true` if the encoding of this header equals `bytes`.
    pub(super) fn is_encoded_as(&self, bytes: &[u8]) -> bool {
        // Compares while it encodes, without memory for a second encoding.
        postcard::serialize_with_flavor(&self.parts(), Compared(bytes)).is_ok()
    }

    /// Decodes a header with `count` sections, and rejects bytes after them.
    ///
    /// In addition to `bytes` it uses memory for the label once and a few words per section, so the
    /// count must be small enough for that.
    pub(super) fn decode(bytes: &[u8], count: u64) -> Result<Self> {
        // A value may use many times its encoding in memory. The decoder of a part with a limit
        // therefore sees no more bytes than the limit.
        let (spec, rest) = decode_part::<S>(bytes, MAX_SPEC_BYTES)?;
        let (label, rest) = decode_part::<EncodedLabel<'_>>(rest, MAX_LABEL_BYTES)?;
        let (claimed, mut rest) = decode_part::<u64>(rest, rest.len())?;
        if claimed != count {
            return Err(malformed(format!("it lists {claimed} sections and has {count}")));
        }
        // Each section is encoded in at least two bytes.
        let count = usize::try_from(count).ok().filter(|&count| count <= rest.len() / 2);
        let count =
            count.ok_or_else(|| malformed(format!("it has no list of {claimed} sections")))?;
        let mut sections = Vec::with_capacity(count);
        for _ in 0..count {
            let (section, after) = decode_part(rest, rest.len())?;
            sections.push(section);
            rest = after;
        }
        if !rest.is_empty() {
            return Err(malformed("bytes follow the list of sections".into()));
        }
        let EncodedLabel { name, content, meta } = label;
        let label = Label { name: name.into(), content: content.into(), meta: meta.into() };
        Ok(Self { spec, label, sections: Sections(sections) })
    }

    /// Bytes of the file whose header has `header_bytes`; `None` if they overflow.
    pub(super) fn file_bytes(&self, header_bytes: u64) -> Option<u64> {
        let header = PREAMBLE_BYTES.checked_add(header_bytes)?;
        let contents = self.sections.0.iter().map(|section| section.bytes);
        core::iter::once(header)
            .chain(contents)
            .try_fold(0u64, |sum, bytes| sum.checked_add(section_bytes(bytes)?))
    }

    /// Bytes of the file, or the maximum integer if the header is too large.
    pub(super) fn total_bytes(&self) -> u64 {
        let header = self.encode().map_or(u64::MAX, |bytes| bytes.len() as u64);
        self.file_bytes(header).unwrap_or(u64::MAX)
    }
}

/// Accepts only an encoding equal to these bytes.
struct Compared<'a>(&'a [u8]);

impl Flavor for Compared<'_> {
    type Output = ();

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.0 = self.0.strip_prefix(data).ok_or(postcard::Error::SerializeBufferFull)?;
        Ok(())
    }

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.try_extend(&[data])
    }

    fn finalize(self) -> postcard::Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(postcard::Error::SerializeBufferFull) }
    }
}

/// Bytes of a section with padding and checksum; `None` if they overflow.
fn section_bytes(content: u64) -> Option<u64> {
    content.checked_add(HASH_BYTES)?.checked_next_multiple_of(ALIGN)
}

fn decode_part<'a, T: Deserialize<'a>>(bytes: &'a [u8], max: usize) -> Result<(T, &'a [u8])> {
    let head = bytes.get(..max).unwrap_or(bytes);
    let (value, rest) = postcard::take_from_bytes(head).map_err(malformed_header)?;
    let taken = head.len().saturating_sub(rest.len());
    Ok((value, bytes.get(taken..).unwrap_or_default()))
}

fn malformed_header(e: postcard::Error) -> Error {
    malformed(format!("its header cannot be read: {e}"))
}
