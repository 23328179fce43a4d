//! ChaCha20 (RFC 8439) on vectors, a block in each lane.

/// A vector of 32-bit lanes.
///
/// # Safety
/// Every function: only on a CPU with the instruction set. They are inlined into functions
/// compiled for it.
pub(super) trait Blocks: Copy {
    /// Lanes.
    const COUNT: usize;

    unsafe fn splat(word: u32) -> Self;
    /// 0 in the first lane, 1 in the next, and so on.
    unsafe fn numbers() -> Self;
    unsafe fn add(self, other: Self) -> Self;
    /// `self ^ other`, each lane turned left.
    unsafe fn xor_turned<const BITS: i32>(self, other: Self) -> Self;
    /// Writes the blocks, one after the other, whose words these are: of each block one lane.
    unsafe fn write(words: [Self; 16], out: *mut u64);
}

/// Words of a block.
pub(super) const BLOCK_WORDS: usize = 8;

/// Writes the next whole groups of blocks of the key stream that fit `words` and the block counter,
/// `state[12]`; returns how many words that are.
///
/// # Safety
/// As for [`Blocks`].
#[inline(always)]
pub(super) unsafe fn key_stream<B: Blocks>(state: &mut [u32; 16], words: &mut [u64]) -> usize {
    let mut written = 0;
    for group in words.chunks_exact_mut(B::COUNT * BLOCK_WORDS) {
        let Some(next) = state[12].checked_add(B::COUNT as u32) else { break };
        // SAFETY: the caller's; the group has the words of the blocks.
        unsafe { B::write(blocks(state), group.as_mut_ptr()) };
        state[12] = next;
        written += group.len();
    }
    written
}

/// # Safety
/// As for [`Blocks`].
#[inline(always)]
unsafe fn blocks<B: Blocks>(state: &[u32; 16]) -> [B; 16] {
    // SAFETY: the caller's.
    unsafe {
        let mut initial = state.map(|word| B::splat(word));
        initial[12] = initial[12].add(B::numbers());
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
            *v = v.add(initial);
        }
        v
    }
}

/// Section 2.1, on every lane.
///
/// # Safety
/// As for [`Blocks`].
#[inline(always)]
unsafe fn quarter_round<B: Blocks>(v: &mut [B; 16], a: usize, b: usize, c: usize, d: usize) {
    // SAFETY: the caller's.
    unsafe {
        v[a] = v[a].add(v[b]);
        v[d] = v[d].xor_turned::<16>(v[a]);
        v[c] = v[c].add(v[d]);
        v[b] = v[b].xor_turned::<12>(v[c]);
        v[a] = v[a].add(v[b]);
        v[d] = v[d].xor_turned::<8>(v[a]);
        v[c] = v[c].add(v[d]);
        v[b] = v[b].xor_turned::<7>(v[c]);
    }
}
