//! Residues as bytes: each in as few whole bytes as its prime needs.

use super::{LimbSet, RnsBasis};
use sudare_arith::Modulus;

/// Bytes of a residue: `ceil(bits(q) / 8)`, 1 to 8.
pub(crate) fn word_bytes(m: &Modulus) -> usize {
    m.bits().div_ceil(8) as usize
}

impl RnsBasis {
    /// Bytes of a packed polynomial.
    pub(crate) fn packed_bytes(&self, limbs: LimbSet) -> u64 {
        let residue: usize = self.tables(limbs).map(|t| word_bytes(t.modulus())).sum();
        (residue as u64) << self.log_n()
    }
}

/// The low `out.len() / words.len()` bytes, 1 to 8, of each word, little endian.
pub(crate) fn pack(words: &[u64], out: &mut [u8]) {
    match out.len().checked_div(words.len()) {
        Some(1) => pack_as::<1>(words, out),
        Some(2) => pack_as::<2>(words, out),
        Some(3) => pack_as::<3>(words, out),
        Some(4) => pack_as::<4>(words, out),
        Some(5) => pack_as::<5>(words, out),
        Some(6) => pack_as::<6>(words, out),
        Some(7) => pack_as::<7>(words, out),
        Some(8) => pack_as::<8>(words, out),
        width => debug_assert!(width.is_none(), "{width:?} bytes a word"),
    }
}

/// Undoes [`pack`]. Whether every word is below `q`.
#[must_use]
pub(crate) fn unpack(bytes: &[u8], q: u64, out: &mut [u64]) -> bool {
    match bytes.len().checked_div(out.len()) {
        Some(1) => unpack_as::<1>(bytes, q, out),
        Some(2) => unpack_as::<2>(bytes, q, out),
        Some(3) => unpack_as::<3>(bytes, q, out),
        Some(4) => unpack_as::<4>(bytes, q, out),
        Some(5) => unpack_as::<5>(bytes, q, out),
        Some(6) => unpack_as::<6>(bytes, q, out),
        Some(7) => unpack_as::<7>(bytes, q, out),
        Some(8) => unpack_as::<8>(bytes, q, out),
        width => width.is_none(),
    }
}

fn pack_as<const WIDTH: usize>(words: &[u64], out: &mut [u8]) {
    let (chunks, rest) = out.as_chunks_mut::<WIDTH>();
    debug_assert!(chunks.len() == words.len() && rest.is_empty());
    for (chunk, word) in chunks.iter_mut().zip(words) {
        debug_assert!(WIDTH == 8 || word >> (8 * WIDTH) == 0);
        chunk.copy_from_slice(&word.to_le_bytes()[..WIDTH]);
    }
}

fn unpack_as<const WIDTH: usize>(bytes: &[u8], q: u64, out: &mut [u64]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<WIDTH>();
    debug_assert!(chunks.len() == out.len() && rest.is_empty());
    let mut below = true;
    for (chunk, word) in chunks.iter().zip(out) {
        let mut wide = [0; 8];
        wide[..WIDTH].copy_from_slice(chunk);
        *word = u64::from_le_bytes(wide);
        below &= *word < q;
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packing_keeps_the_low_bytes_in_order(
            width in 1usize..=8,
            words in prop::collection::vec(any::<u64>(), 1..80),
        ) {
            let words: Vec<u64> = words.iter().map(|w| w >> (64 - 8 * width)).collect();
            let mut bytes = vec![0xaa; width * words.len()];
            pack(&words, &mut bytes);
            for (k, &byte) in bytes.iter().enumerate() {
                prop_assert_eq!(u64::from(byte), words[k / width] >> (8 * (k % width)) & 0xff);
            }
            let max = words.iter().copied().max().unwrap_or(0);
            let mut out = vec![0; words.len()];
            prop_assert_eq!(unpack(&bytes, u64::MAX, &mut out), max < u64::MAX);
            prop_assert_eq!(&out, &words);
            prop_assert!(!unpack(&bytes, max, &mut out));
        }
    }

    #[test]
    fn a_residue_takes_the_bytes_of_its_prime() {
        let cases = [(97, 1), (257, 2), (65_537, 3), ((1 << 48) - 59, 6), ((1 << 61) - 1, 8)];
        for (q, bytes) in cases {
            assert_eq!(word_bytes(&Modulus::new(q).unwrap()), bytes, "{q}");
        }
        let basis = RnsBasis::new(5, &[193, 65_537], &[257]).unwrap();
        assert_eq!(basis.packed_bytes(LimbSet::chain(1)), 32);
        assert_eq!(basis.packed_bytes(basis.all()), 32 * (1 + 3 + 2));
    }

    #[test]
    fn nothing_packs_to_nothing() {
        pack(&[], &mut []);
        assert!(unpack(&[], 1, &mut []));
    }
}
