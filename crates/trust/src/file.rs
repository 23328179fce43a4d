//! Updates the checksums of altered files, so that readers get past them. This module follows
//! `docs/file-format.md` and does not use the library's writers.

use crate::mutate::{self, Rng};
use core::fmt::Debug;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{cell::RefCell, collections::HashMap, thread::LocalKey};
use sudare::{
    ckks::{self, Spec, UpperSpec, serial::Label},
    exact,
    rlwe::{ParamsId, SecretDistribution},
};

const MAGIC: &[u8; 8] = b"\x89sudare\n";
const PREAMBLE_BYTES: usize = 64;
/// Maximum bytes by which a section is extended, whatever its header claims.
const MAX_ADDED: usize = 1 << 12;

/// The specification of a scheme in the form that files store.
pub trait Written: Clone + Debug + PartialEq + Serialize + DeserializeOwned {
    /// Metadata of a ciphertext in files, besides its level.
    type Meta: Copy + Debug + PartialEq + Serialize + DeserializeOwned;

    /// Alters sizes of primes, levels and secrets to valid or invalid ones.
    fn mutate(&mut self, rng: &mut Rng);

    /// Alters the metadata of a ciphertext.
    fn mutate_meta(meta: &mut Self::Meta, rng: &mut Rng);

    /// Returns the fingerprint of the parameters, if they are small and valid.
    fn id(&self) -> Option<ParamsId>;
}

/// A file in parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts<S: Written = Spec> {
    /// The first 64 bytes. Sizes and counts in them follow from the other parts.
    pub preamble: [u8; PREAMBLE_BYTES],
    /// The parameters.
    pub spec: S,
    /// Label of the application.
    pub label: Label,
    /// Content and size of each section.
    pub table: Vec<Entry<S>>,
    /// The sections.
    pub sections: Vec<Vec<u8>>,
}

/// Content and size of a section.
pub type Entry<S> = (Content<<S as Written>::Meta>, u64);

/// The content of a section.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "said by the names")]
pub enum Content<M = Slots> {
    SecretKey,
    PublicKey,
    Relinearization(u32),
    Galois(u32, u32),
    Ciphertext(u32, M),
    Raising { level: u32, weight: u32 },
    Raised(u32, u32),
    LevelRelinearization(u32),
    LevelGalois(u32, u32),
    DividedRaising { level: u32, weight: u32, divisor: u128 },
    SeededCiphertext(u32, M),
}

/// Metadata of a CKKS ciphertext in files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "said by the names")]
pub struct Slots {
    pub scale: (f64, f64),
    pub log_slots: u32,
}

/// Metadata of a BGV or BFV ciphertext in files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "said by the names")]
pub struct Residues {
    pub modulus: (u64, u32),
    pub factor: u128,
    pub noise: (f64, f64, f64),
}

/// The specification of BGV and BFV, with a plaintext modulus that may be invalid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "said by the names")]
pub struct ExactSpec {
    pub log_n: u32,
    pub q_bits: Vec<Vec<f64>>,
    pub upper: Option<UpperSpec>,
    pub p_bits: Vec<f64>,
    pub extra_p_bits: Vec<f64>,
    pub plaintext_modulus: (u64, u32),
    pub secret: SecretDistribution,
    pub insecure: bool,
}

impl<S: Written> Parts<S> {
    /// Splits bytes, which may be altered or cut, into parts. Sections get the bytes that exist.
    /// Returns `None` if the header cannot be read.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let (&preamble, rest) = bytes.split_first_chunk::<PREAMBLE_BYTES>()?;
        let claimed = u64::from_le_bytes(*preamble[48..].first_chunk()?);
        let header = rest.get(..usize::try_from(claimed).ok()?)?;
        let (spec, label, table): (_, _, Vec<Entry<S>>) = postcard::from_bytes(header).ok()?;
        let mut at = sealed_bytes(PREAMBLE_BYTES + header.len());
        let mut sections = Vec::with_capacity(table.len());
        for (_, size) in &table {
            let there = bytes.get(at..).unwrap_or_default();
            let size = usize::try_from(*size).unwrap_or(usize::MAX).min(there.len() + MAX_ADDED);
            let mut section = there[..size.min(there.len())].to_vec();
            section.resize(size, 0);
            sections.push(section);
            at = at.saturating_add(sealed_bytes(size));
        }
        Some(Self { preamble, spec, label, table, sections })
    }

    /// Returns the file with matching sizes, counts and checksums.
    #[must_use]
    pub fn seal(&self) -> Vec<u8> {
        let header = postcard::to_allocvec(&(&self.spec, &self.label, &self.table)).unwrap();
        let sections = self.sections.iter().map(|section| sealed_bytes(section.len()));
        let total = sealed_bytes(PREAMBLE_BYTES + header.len()) + sections.sum::<usize>();
        let mut file = Vec::with_capacity(total);
        file.extend(self.preamble);
        file[..8].copy_from_slice(MAGIC);
        for (at, word) in [(32, self.table.len()), (40, total), (48, header.len())] {
            file[at..at + 8].copy_from_slice(&(word as u64).to_le_bytes());
        }
        file.extend(&header);
        let first = seal(&mut file, 0, &[]);
        // Section 0 is the header, so the sections count from 1.
        for (number, section) in (1u64..).zip(&self.sections) {
            let start = file.len();
            file.extend(section);
            seal(&mut file, start, &[&first, &number.to_le_bytes()]);
        }
        file
    }

    /// Updates the fingerprint if the parameters are valid.
    pub fn set_params(&mut self) {
        if let Some(id) = self.spec.id() {
            self.preamble[16..24].copy_from_slice(&id.0.to_le_bytes());
        }
    }

    /// Alters one fact in the header.
    pub fn mutate(&mut self, rng: &mut Rng) {
        let section = rng.below(self.table.len());
        match rng.below(16) {
            // Not the first 12 bytes: readers refuse another magic or version at once.
            0 => self.preamble[12 + rng.below(20)] ^= 1 << rng.below(8),
            1..=4 => self.spec.mutate(rng),
            5 => mutate::bytes(&mut self.label.meta, &[], rng),
            6 => self.label.content = "x".repeat(rng.below(3000)),
            7..=10 if !self.table.is_empty() => self.table[section].0.mutate::<S>(rng),
            11 if !self.table.is_empty() => self.table[section].1 = rng.edge(),
            12 if !self.table.is_empty() => {
                let size = rng.below(5000);
                self.table[section].1 = size as u64;
                self.sections[section].resize(size, 0);
            }
            13 if !self.table.is_empty() => {
                self.table.push(self.table[section]);
                self.sections.push(self.sections[section].clone());
            }
            14 if self.table.len() > 1 => {
                self.table.remove(section);
                self.sections.remove(section);
            }
            _ if !self.table.is_empty() => mutate::bytes(&mut self.sections[section], &[], rng),
            _ => {}
        }
    }
}

impl Written for Spec {
    type Meta = Slots;

    fn mutate(&mut self, rng: &mut Rng) {
        match rng.below(7) {
            0 => self.log2_scale = rng.number(),
            1 => self.upper = Some(some_upper(rng)),
            2 => self.insecure = !self.insecure,
            3 => self.secret = some_secret(rng),
            _ => mutate_sizes(
                (&mut self.log_n, &mut self.q_bits),
                [&mut self.p_bits, &mut self.extra_p_bits],
                rng,
            ),
        }
    }

    fn mutate_meta(Slots { scale, log_slots }: &mut Slots, rng: &mut Rng) {
        match rng.below(3) {
            0 => *log_slots = small(rng),
            1 => *scale = (rng.number(), rng.number()),
            _ => *scale = (rng.number(), 0.0),
        }
    }

    fn id(&self) -> Option<ParamsId> {
        thread_local!(static IDS: Known<Option<ParamsId>> = Known::default());
        if !are_small(self.log_n, &self.q_bits) {
            return None;
        }
        once(&IDS, self, || Some(ckks::Params::new(self.clone()).ok()?.rlwe().id()))
    }
}

impl Written for ExactSpec {
    type Meta = Residues;

    fn mutate(&mut self, rng: &mut Rng) {
        match rng.below(7) {
            0 => self.plaintext_modulus = some_modulus(rng),
            1 => self.insecure = !self.insecure,
            2 => self.secret = some_secret(rng),
            3 => self.upper = Some(some_upper(rng)),
            _ => mutate_sizes(
                (&mut self.log_n, &mut self.q_bits),
                [&mut self.p_bits, &mut self.extra_p_bits],
                rng,
            ),
        }
    }

    fn mutate_meta(meta: &mut Residues, rng: &mut Rng) {
        match rng.below(4) {
            0 => meta.modulus = some_modulus(rng),
            1 => meta.factor = u128::from(rng.edge()) << 64 | u128::from(rng.edge()),
            2 => meta.factor = rng.edge().into(),
            _ => meta.noise = (rng.number(), rng.number(), rng.number()),
        }
    }

    fn id(&self) -> Option<ParamsId> {
        thread_local!(static IDS: Known<Option<ParamsId>> = Known::default());
        if !are_small(self.log_n, &self.q_bits) {
            return None;
        }
        once(&IDS, self, || {
            let spec: exact::Spec =
                postcard::from_bytes(&postcard::to_allocvec(self).ok()?).ok()?;
            Some(exact::Params::new(spec).ok()?.rlwe().id())
        })
    }
}

/// Cached results by the bytes of their inputs.
type Known<T> = RefCell<HashMap<Vec<u8>, T>>;
/// Maximum number of cached results.
const MAX_KNOWN: usize = 1 << 12;

/// Caches a slow function of an input. Most inputs of a campaign share their parameters with
/// others.
fn once<T: Copy>(
    known: &'static LocalKey<Known<T>>,
    input: &impl Serialize,
    make: impl FnOnce() -> T,
) -> T {
    let key = postcard::to_allocvec(input).unwrap();
    if let Some(found) = known.with_borrow(|known| known.get(&key).copied()) {
        return found;
    }
    let made = make();
    known.with_borrow_mut(|known| {
        // Cleared as a whole: a result that is made anew is the same.
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key, made);
    });
    made
}

/// Builds the parameters that a file states, as anyone can, if ring and number of primes are small
/// enough to take no time.
pub fn build_small(
    (spec, id): (&impl Serialize, ParamsId),
    (log_n, primes): (u32, usize),
    build: impl FnOnce(),
) {
    thread_local!(static BUILT: Known<()> = Known::default());
    if log_n <= 8 && primes < 16 {
        once(&BUILT, &(spec, id), build);
    }
}

/// Returns whether parameters of these sizes are built in no time.
fn are_small(log_n: u32, q_bits: &[Vec<f64>]) -> bool {
    log_n <= 8 && q_bits.iter().flatten().count() < 12
}

fn mutate_sizes(
    (log_n, q_bits): (&mut u32, &mut Vec<Vec<f64>>),
    [p_bits, extra_p_bits]: [&mut Vec<f64>; 2],
    rng: &mut Rng,
) {
    match rng.below(5) {
        0 => *log_n = if rng.below(4) == 0 { rng.edge() as u32 } else { rng.below(9) as u32 },
        1 => {
            let level = rng.below(q_bits.len());
            if let Some(bits) = q_bits.get_mut(level) {
                let at = rng.below(bits.len());
                bits.splice(at..bits.len().min(at + rng.below(2)), [rng.number()]);
            }
        }
        2 => q_bits.truncate(rng.below(4)),
        3 => p_bits.push(rng.number()),
        _ => extra_p_bits.push(rng.number()),
    }
}

fn some_upper(rng: &mut Rng) -> UpperSpec {
    let mut some = |most| (0..rng.below(most)).map(|_| rng.number()).collect::<Vec<_>>();
    let levels_bits = vec![some(3), some(3)];
    UpperSpec { base_bits: some(4), levels_bits }
}

fn some_secret(rng: &mut Rng) -> SecretDistribution {
    match rng.below(2) {
        0 => SecretDistribution::UniformTernary,
        _ => SecretDistribution::FixedWeight { h: rng.edge() as u32 },
    }
}

/// Returns a power of a prime, or an invalid modulus.
fn some_modulus(rng: &mut Rng) -> (u64, u32) {
    let prime = rng.one_of(&[2, 3, 127, 257, 65_537, (1 << 60) - 93]);
    match rng.below(3) {
        0 => (rng.edge(), small(rng)),
        1 => (prime, small(rng)),
        _ => (prime, 1),
    }
}

fn small(rng: &mut Rng) -> u32 {
    if rng.below(3) == 0 { rng.edge() as u32 } else { rng.below(8) as u32 }
}

impl<M> Content<M> {
    fn mutate<S: Written<Meta = M>>(&mut self, rng: &mut Rng) {
        let small = small(rng);
        let first = rng.below(2) == 0;
        match self {
            Self::SecretKey => *self = Self::PublicKey,
            Self::PublicKey => *self = Self::Relinearization(small),
            Self::Relinearization(level) | Self::LevelRelinearization(level) => *level = small,
            Self::Galois(g, _) | Self::Raised(g, _) | Self::LevelGalois(g, _) if first => {
                // Mostly odd, since readers refuse even elements at once.
                *g = small | u32::from(rng.below(4) > 0);
            }
            Self::Galois(_, level) | Self::Raised(_, level) | Self::LevelGalois(_, level) => {
                *level = small;
            }
            Self::DividedRaising { divisor, .. } if rng.below(3) == 0 => {
                *divisor = rng.edge().into();
            }
            Self::Raising { weight, .. } | Self::DividedRaising { weight, .. } if first => {
                *weight = small;
            }
            Self::Raising { level, .. } | Self::DividedRaising { level, .. } => *level = small,
            Self::Ciphertext(level, _) | Self::SeededCiphertext(level, _) if rng.below(4) == 0 => {
                *level = small;
            }
            Self::Ciphertext(_, meta) | Self::SeededCiphertext(_, meta) => {
                S::mutate_meta(meta, rng);
            }
        }
    }
}

/// Updates the checksums of a file as far as its header can be read. Leaves one in sixteen files
/// unchanged, so that damage is tested too.
#[must_use]
pub fn resealed<S: Written>(bytes: &[u8]) -> Vec<u8> {
    let digest = blake3::hash(bytes);
    if digest.as_bytes()[0] < 16 {
        return bytes.to_vec();
    }
    Parts::<S>::of(bytes).map_or_else(|| with_sealed_header(bytes), |parts| parts.seal())
}

/// Updates the checksum of a header that cannot be read.
fn with_sealed_header(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let header = bytes.get(48..56).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes);
    let end = header.and_then(|header| usize::try_from(header).ok()?.checked_add(PREAMBLE_BYTES));
    if let Some(end) = end.filter(|end| *end <= bytes.len()) {
        file.truncate(end);
        let total = sealed_bytes(end) as u64;
        file[40..48].copy_from_slice(&total.to_le_bytes());
        seal(&mut file, 0, &[]);
    }
    file
}

/// Pads the section from `start` and appends its checksum, which also covers `before`.
fn seal(file: &mut Vec<u8>, start: usize, before: &[&[u8]]) -> [u8; 32] {
    // The checksum ends at a multiple of 64, where the next section starts.
    file.resize((file.len() + 32).next_multiple_of(64) - 32, 0);
    let mut hasher = blake3::Hasher::new();
    for part in before.iter().chain([&&file[start..]]) {
        hasher.update(part);
    }
    let hash = *hasher.finalize().as_bytes();
    file.extend(hash);
    hash
}

fn sealed_bytes(content: usize) -> usize {
    (content + 32).div_ceil(64) * 64
}
