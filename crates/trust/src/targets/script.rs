//! Alterations of files that are too large for a corpus. An input describes, byte by byte, the
//! alterations of a [`Case`]'s file.

use crate::{
    file::{Content, Parts, Slots},
    world::Case,
};
use sudare::ckks::serial::{self, Label};
use sudare_apps::note;

/// Reads bytes from the front of an input, then zeros.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    fn word<const N: usize>(&mut self) -> [u8; N] {
        let mut word = [0; N];
        let taken = self.bytes(N);
        word[..taken.len()].copy_from_slice(taken);
        word
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Returns the file of a case with the alterations of the remaining input. `other` provides foreign
/// sections.
pub fn altered(case: &Case, file: &[u8], other: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let mut parts = Parts::of(file).unwrap();
    let other = Parts::of(other).unwrap();
    for _ in 0..4 {
        if input.is_empty() {
            break;
        }
        alter(&mut parts, &other, case, input);
    }
    parts.seal()
}

fn alter(parts: &mut Parts, other: &Parts, case: &Case, input: &mut Input<'_>) {
    let kind = input.byte() % 13;
    let count = parts.table.len();
    let at = input.below(count);
    let to = input.below(count);
    // Earlier alterations may have removed every section.
    if count == 0 {
        return;
    }
    match kind {
        0 => {
            let length = usize::from(input.byte());
            parts.label.meta = input.bytes(length).to_vec();
        }
        1 => {
            let place = input.below(parts.label.meta.len());
            if let Some(byte) = parts.label.meta.get_mut(place) {
                *byte = input.byte();
            }
        }
        2 => parts.label.content = String::from_utf8_lossy(input.bytes(10)).into_owned(),
        3 => parts.preamble[16 + input.below(16)] ^= input.byte(),
        4..=6 => {
            let content = &mut parts.table[at].0;
            if let Content::Ciphertext(level, Slots { scale, log_slots }) = content {
                match kind {
                    4 => *scale = (f64::from_le_bytes(input.word()), 0.0),
                    5 => *log_slots = input.byte().into(),
                    _ => *level = input.byte().into(),
                }
            }
        }
        7 => {
            parts.table.swap(at, to);
            parts.sections.swap(at, to);
        }
        8 => {
            parts.table.push(parts.table[at]);
            parts.sections.push(parts.sections[at].clone());
        }
        9 => {
            parts.table.remove(at);
            parts.sections.remove(at);
        }
        10 => {
            let place = usize::from(u16::from_le_bytes(input.word()));
            if let Some(byte) = parts.sections[at].get_mut(place) {
                *byte = input.byte();
            }
        }
        11 => {
            let from = input.below(other.table.len());
            parts.table[at] = other.table[from];
            parts.sections[at] = other.sections[from].clone();
        }
        // A note that anyone with the public key can make.
        _ => {
            let length = usize::from(input.byte());
            let forged = note::encrypt(&case.encryptor, &case.params, input.bytes(length));
            let mut file = Vec::new();
            let label = Label::default();
            serial::write_ciphertexts(&mut file, &case.params, &forged.unwrap(), &label).unwrap();
            let forged: Parts = Parts::of(&file).unwrap();
            parts.table.pop();
            parts.sections.pop();
            parts.table.extend(forged.table);
            parts.sections.extend(forged.sections);
        }
    }
}

/// Returns one input for each alteration, and an empty one, for each of `cases` cases.
pub fn seeds(cases: usize) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = (0..cases).map(|case| vec![case as u8]).collect();
    let some = [3, 5, 7, 9, 11, 13, 15, 17, 19];
    seeds.extend((0..13_u8).map(|kind| [&[kind % cases as u8, kind, 1, 0], &some[..]].concat()));
    seeds
}
