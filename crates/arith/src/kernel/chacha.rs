//! ChaCha20 (RFC 8439) on vectors, one block per lane.

/// A vector of 32-bit lanes.
///
/// # Safety
/// Call every function only on a CPU with the instruction set. They are inlined into functions
/// compiled for it.
pub(super) trait Blocks: Copy {
    /// Number of lanes.
    const COUNT: usize;

    unsafe fn splat(word: u32) -> Self;
    /// Returns 0 in the first lane, 1 in the next, and so on.
    unsafe fn numbers() -> Self;
    unsafe fn add(self, other: Self) -> Self;
    /// Returns `self ^ other`, with each lane rotated left.
    unsafe fn xor_turned<const BITS: i32>(self, other: Self) -> Self;
    /// Writes the blocks one after the other. Each vector has one word of every block, one block
    /// per lane.
    unsafe fn write(words: [Self; 16], out: *mut u64);
}

/// Words of a block.
pub(super) const BLOCK_WORDS: usize = 8;

/// Writes to `words` the next groups of blocks of the key stream that fit entirely, and advances
/// the block counter, `state[12]`. Returns the number of words written.
///
/// # Safety
/// See [`Blocks`].
#[inline(always)]
pub(super) unsafe fn key_stream<B: Blocks>(state: &mut [u32; 16], words: &mut [u64]) -> usize {
    let mut written = 0;
    for group in words.chunks_exact_mut(B::COUNT * BLOCK_WORDS) {
        // The cipher writes the last blocks before the counter overflows, and panics there.
        let Some(next) = state[12].checked_add(B::COUNT as u32) else { break };
        // SAFETY: guaranteed by the caller; the group has as many words as the blocks.
        unsafe { B::write(blocks(state), group.as_mut_ptr()) };
        state[12] = next;
        written += group.len();
    }
    written
}

/// # Safety
/// See [`Blocks`].
#[inline(always)]
unsafe fn blocks<B: Blocks>(state: &[u32; 16]) -> [B; 16] {
    // SAFETY: guaranteed by the caller.
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

/// The quarter round of RFC 8439, section 2.1, on every lane.
///
/// # Safety
/// See [`Blocks`].
#[inline(always)]
unsafe fn quarter_round<B: Blocks>(v: &mut [B; 16], a: usize, b: usize, c: usize, d: usize) {
    // SAFETY: guaranteed by the caller.
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
