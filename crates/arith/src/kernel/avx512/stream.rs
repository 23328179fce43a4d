//! Random streams: sixteen blocks of ChaCha20 at a time, and rejection.

use super::{LANES, load, splat, store};
use core::arch::x86_64::*;

/// Blocks computed together, one in each 32-bit lane.
const BLOCKS: usize = 16;
/// Words of a block.
const BLOCK_WORDS: usize = 8;

/// Writes the next whole groups of sixteen blocks of the key stream that fit `words` and the
/// block counter, `state[12]`; returns how many words that are.
///
/// # Safety
/// The CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(in crate::kernel) unsafe fn key_stream(state: &mut [u32; 16], words: &mut [u64]) -> usize {
    let mut written = 0;
    for group in words.chunks_exact_mut(BLOCKS * BLOCK_WORDS) {
        let Some(next) = state[12].checked_add(BLOCKS as u32) else { break };
        // SAFETY: the caller's; the group has the words of sixteen blocks.
        unsafe { blocks(state, group.as_mut_ptr()) };
        state[12] = next;
        written += group.len();
    }
    written
}

/// # Safety
/// There is room for sixteen blocks at `out`; the CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
unsafe fn blocks(state: &[u32; 16], out: *mut u64) {
    let mut initial = state.map(|word| _mm512_set1_epi32(word as i32));
    let numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    initial[12] = _mm512_add_epi32(initial[12], numbers);
    let mut v = initial;
    for _ in 0..10 {
        for i in 0..4 {
            quarter_round(&mut v, i, 4 + i, 8 + i, 12 + i);
        }
        for i in 0..4 {
            quarter_round(&mut v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
        }
    }
    for (v, initial) in v.iter_mut().zip(initial) {
        *v = _mm512_add_epi32(*v, initial);
    }
    // The transpose: four words of four blocks at a time, then parts of 128 bits.
    let parts: [[__m512i; 4]; 4] = core::array::from_fn(|g| {
        let [a, b, c, d] = [v[4 * g], v[4 * g + 1], v[4 * g + 2], v[4 * g + 3]];
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(ab, cd),
            _mm512_unpackhi_epi64(ab, cd),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ]
    });
    for j in 0..4 {
        let [a, b, c, d] = parts.map(|part| part[j]);
        let (ab, cd) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d));
        let (ab_high, cd_high) =
            (_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d));
        let blocks = [
            _mm512_shuffle_i32x4::<0x88>(ab, cd),
            _mm512_shuffle_i32x4::<0xdd>(ab, cd),
            _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
            _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
        ];
        for (k, block) in blocks.into_iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { store(out.add((4 * k + j) * BLOCK_WORDS), block) };
        }
    }
}

/// RFC 8439, section 2.1, on every lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn quarter_round(v: &mut [__m512i; 16], a: usize, b: usize, c: usize, d: usize) {
    v[a] = _mm512_add_epi32(v[a], v[b]);
    v[d] = _mm512_rol_epi32::<16>(_mm512_xor_si512(v[d], v[a]));
    v[c] = _mm512_add_epi32(v[c], v[d]);
    v[b] = _mm512_rol_epi32::<12>(_mm512_xor_si512(v[b], v[c]));
    v[a] = _mm512_add_epi32(v[a], v[b]);
    v[d] = _mm512_rol_epi32::<8>(_mm512_xor_si512(v[d], v[a]));
    v[c] = _mm512_add_epi32(v[c], v[d]);
    v[b] = _mm512_rol_epi32::<7>(_mm512_xor_si512(v[b], v[c]));
}

/// Moves the words of full vectors that are below `q` once masked to the front, in order;
/// returns how many they are and how many words were looked at.
///
/// # Safety
/// The CPU has AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(in crate::kernel) unsafe fn compact(q: u64, mask: u64, words: &mut [u64]) -> (usize, usize) {
    let (start, end) = (words.as_mut_ptr(), words.len() / LANES * LANES);
    let mut accepted = 0;
    for i in (0..end).step_by(LANES) {
        // SAFETY: the caller's; no more words are accepted than were read, so that what is
        // written is within the row and was read.
        unsafe {
            let masked = _mm512_and_si512(load(start.add(i)), splat(mask));
            let below = _mm512_cmplt_epu64_mask(masked, splat(q));
            store(start.add(accepted), _mm512_maskz_compress_epi64(below, masked));
            accepted += below.count_ones() as usize;
        }
    }
    (accepted, end)
}
