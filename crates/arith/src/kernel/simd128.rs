//! Random streams by the vectors of WebAssembly: four blocks of ChaCha20 at a time. A module has
//! them or not for as long as it is, so that they are chosen when it is built.

use core::arch::wasm32::*;

/// Blocks computed together, one in each lane.
const BLOCKS: usize = 4;
/// Words of a block.
const BLOCK_WORDS: usize = 8;

/// Writes the next whole groups of four blocks of the key stream that fit `words` and the block
/// counter, `state[12]`; returns how many words that are.
pub(super) fn key_stream(state: &mut [u32; 16], words: &mut [u64]) -> usize {
    let mut written = 0;
    for group in words.as_chunks_mut().0 {
        let Some(next) = state[12].checked_add(BLOCKS as u32) else { break };
        blocks(state, group);
        state[12] = next;
        written += group.len();
    }
    written
}

fn blocks(state: &[u32; 16], out: &mut [u64; BLOCKS * BLOCK_WORDS]) {
    let mut initial = state.map(|word| u32x4_splat(word));
    initial[12] = u32x4_add(initial[12], u32x4(0, 1, 2, 3));
    let mut v = initial;
    for _ in 0..10 {
        for i in 0..4 {
            quarter_round(&mut v, i, 4 + i, 8 + i, 12 + i);
        }
        for i in 0..4 {
            quarter_round(&mut v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
        }
    }
    // The transpose: two words of a block from two rows each.
    for pair in 0..BLOCK_WORDS {
        let [a, b] = [2 * pair, 2 * pair + 1].map(|row| u32x4_add(v[row], initial[row]));
        let (low, high) = (u32x4_shuffle::<0, 4, 1, 5>(a, b), u32x4_shuffle::<2, 6, 3, 7>(a, b));
        out[pair] = u64x2_extract_lane::<0>(low);
        out[BLOCK_WORDS + pair] = u64x2_extract_lane::<1>(low);
        out[2 * BLOCK_WORDS + pair] = u64x2_extract_lane::<0>(high);
        out[3 * BLOCK_WORDS + pair] = u64x2_extract_lane::<1>(high);
    }
}

/// RFC 8439, section 2.1, on every lane.
#[inline(always)]
fn quarter_round(v: &mut [v128; 16], a: usize, b: usize, c: usize, d: usize) {
    v[a] = u32x4_add(v[a], v[b]);
    v[d] = rotated::<16>(v128_xor(v[d], v[a]));
    v[c] = u32x4_add(v[c], v[d]);
    v[b] = rotated::<12>(v128_xor(v[b], v[c]));
    v[a] = u32x4_add(v[a], v[b]);
    v[d] = rotated::<8>(v128_xor(v[d], v[a]));
    v[c] = u32x4_add(v[c], v[d]);
    v[b] = rotated::<7>(v128_xor(v[b], v[c]));
}

/// Each lane turned left.
#[inline(always)]
fn rotated<const BITS: u32>(a: v128) -> v128 {
    v128_or(u32x4_shl(a, BITS), u32x4_shr(a, 32 - BITS))
}
