//! Files whose checksums are made anew after they were altered, so that readers get to what is
//! behind them. Written after `docs/file-format.md`, apart from the library's own writers.

use crate::mutate::{self, Rng};
use serde::{Deserialize, Serialize};
use sudare::{
    ckks::{Params, RaisedSpec, Spec, serial::Label},
    rlwe::SecretDistribution,
};

const MAGIC: &[u8; 8] = b"\x89sudare\n";
const PREAMBLE_BYTES: usize = 64;
/// Larger sections than this are not made, whatever a header claims.
const MAX_SECTION_BYTES: u64 = 1 << 20;

/// A file in parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// The first 64 bytes, of which sizes and counts follow from the rest.
    pub preamble: [u8; PREAMBLE_BYTES],
    /// The parameters.
    pub spec: Spec,
    /// What the application says.
    pub label: Label,
    /// What each section is, and its bytes.
    pub table: Vec<(Content, u64)>,
    /// The sections.
    pub sections: Vec<Vec<u8>>,
}

/// What a section is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "said by the names")]
pub enum Content {
    SecretKey,
    PublicKey,
    Relinearization(u32),
    Galois(u32, u32),
    Ciphertext { level: u32, scale: (f64, f64), log_slots: u32 },
    Raising { level: u32, weight: u32 },
    Raised(u32, u32),
    FittedRelinearization(u32),
    FittedGalois(u32, u32),
}

impl Parts {
    /// Those of bytes that may be altered or cut: sections take what there is. None if the header
    /// cannot be told.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let (&preamble, rest) = bytes.split_first_chunk::<PREAMBLE_BYTES>()?;
        let claimed = u64::from_le_bytes(*preamble[48..].first_chunk()?);
        let header = rest.get(..usize::try_from(claimed).ok()?)?;
        let (spec, label, table): (_, _, Vec<(Content, u64)>) =
            postcard::from_bytes(header).ok()?;
        let mut at = sealed_bytes(PREAMBLE_BYTES + header.len());
        let mut sections = Vec::with_capacity(table.len());
        for (_, size) in &table {
            let size = (*size).min(MAX_SECTION_BYTES) as usize;
            let there = bytes.get(at..).unwrap_or_default();
            let mut section = there[..size.min(there.len())].to_vec();
            section.resize(size, 0);
            sections.push(section);
            at = at.saturating_add(sealed_bytes(size));
        }
        Some(Self { preamble, spec, label, table, sections })
    }

    /// The file, with sizes, counts and checksums that fit.
    #[must_use]
    pub fn seal(&self) -> Vec<u8> {
        let header = postcard::to_allocvec(&(&self.spec, &self.label, &self.table)).unwrap();
        let sections = self.sections.iter().map(|section| sealed_bytes(section.len()));
        let total = sealed_bytes(PREAMBLE_BYTES + header.len()) + sections.sum::<usize>();
        let mut file = self.preamble.to_vec();
        file[..8].copy_from_slice(MAGIC);
        for (at, word) in [(32, self.table.len()), (40, total), (48, header.len())] {
            file[at..at + 8].copy_from_slice(&(word as u64).to_le_bytes());
        }
        file.extend(&header);
        let first = seal(&mut file, 0, &[]);
        for (number, section) in (1u64..).zip(&self.sections) {
            let start = file.len();
            file.extend(section);
            seal(&mut file, start, &[&first[..], &number.to_le_bytes()].concat());
        }
        file
    }

    /// Says that the file is of these parameters.
    pub fn set_params(&mut self, params: &Params) {
        self.preamble[16..24].copy_from_slice(&params.rlwe().id().0.to_le_bytes());
    }

    /// Alters one of the things that a header says.
    pub fn mutate(&mut self, rng: &mut Rng) {
        let section = rng.below(self.table.len());
        match rng.below(16) {
            0 => self.preamble[12 + rng.below(20)] ^= 1 << rng.below(8),
            1..=4 => mutate_spec(&mut self.spec, rng),
            5 => mutate::bytes(&mut self.label.meta, &[], rng),
            6 => self.label.content = "x".repeat(rng.below(3000)),
            7..=10 if !self.table.is_empty() => mutate_content(&mut self.table[section].0, rng),
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

/// Sizes of primes, levels and secrets that there are, or are not.
fn mutate_spec(spec: &mut Spec, rng: &mut Rng) {
    match rng.below(10) {
        0 => spec.log_n = if rng.below(4) == 0 { rng.edge() as u32 } else { rng.below(9) as u32 },
        1 => {
            let level = rng.below(spec.q_bits.len());
            if let Some(bits) = spec.q_bits.get_mut(level) {
                let at = rng.below(bits.len());
                bits.splice(at..bits.len().min(at + rng.below(2)), [rng.number()]);
            }
        }
        2 => spec.q_bits.truncate(rng.below(4)),
        3 => spec.p_bits.push(rng.number()),
        4 => spec.fitted_p_bits.push(rng.number()),
        5 => spec.log2_scale = rng.number(),
        6 => spec.secret = SecretDistribution::FixedWeight { h: rng.edge() as u32 },
        7 => spec.secret = SecretDistribution::UniformTernary,
        8 => {
            let mut some = |most| (0..rng.below(most)).map(|_| rng.number()).collect::<Vec<_>>();
            let levels_bits = vec![some(3), some(3)];
            spec.raised = Some(RaisedSpec { base_bits: some(4), levels_bits });
        }
        _ => spec.insecure = !spec.insecure,
    }
}

fn mutate_content(content: &mut Content, rng: &mut Rng) {
    let small = if rng.below(3) == 0 { rng.edge() as u32 } else { rng.below(8) as u32 };
    let first = rng.below(2) == 0;
    match content {
        Content::SecretKey => *content = Content::PublicKey,
        Content::PublicKey => *content = Content::Relinearization(small),
        Content::Relinearization(level) | Content::FittedRelinearization(level) => *level = small,
        Content::Galois(g, _) | Content::Raised(g, _) | Content::FittedGalois(g, _) if first => {
            *g = small | u32::from(rng.below(4) > 0);
        }
        Content::Galois(_, level) | Content::Raised(_, level) | Content::FittedGalois(_, level) => {
            *level = small;
        }
        Content::Raising { weight, .. } if first => *weight = small,
        Content::Raising { level, .. } => *level = small,
        Content::Ciphertext { level, scale, log_slots } => match rng.below(4) {
            0 => *level = small,
            1 => *log_slots = small,
            2 => *scale = (rng.number(), rng.number()),
            _ => *scale = (rng.number(), 0.0),
        },
    }
}

/// Bytes with checksums that fit, as far as their header can be told. One in sixteen stays as it is,
/// so that damage is met too.
#[must_use]
pub fn resealed(bytes: &[u8]) -> Vec<u8> {
    let digest = blake3::hash(bytes);
    if digest.as_bytes()[0] < 16 {
        return bytes.to_vec();
    }
    Parts::of(bytes).map_or_else(|| with_sealed_header(bytes), |parts| parts.seal())
}

/// With a checksum for a header that cannot be told.
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

/// Pads the section from `start` and appends its checksum.
fn seal(file: &mut Vec<u8>, start: usize, prefix: &[u8]) -> [u8; 32] {
    while file.len() % 64 != 32 {
        file.push(0);
    }
    let hash = *blake3::hash(&[prefix, &file[start..]].concat()).as_bytes();
    file.extend(hash);
    hash
}

fn sealed_bytes(content: usize) -> usize {
    (content + 32).div_ceil(64) * 64
}
