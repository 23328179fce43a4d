//! Seeds and counter-mode random streams.
//!
//! A stream depends only on a seed, a label and an index. Its words are the same on every machine,
//! with any number of threads, and in any order of use:
//!
//! ```text
//! key    = BLAKE3-derive_key("sudare v1 stream", seed || label)
//! nonce  = index (8 bytes) || 0 (4 bytes)
//! word i = bytes 8i .. 8i + 8 of the ChaCha20 key stream (RFC 8439, block counter from 0)
//! ```
//!
//! and a derived seed is `BLAKE3-derive_key("sudare v1 seed", seed || index (8 bytes) || label)`.
//! All integers are little endian. Labels are UTF-8 of any length.
//!
//! Seeds, keys and buffered words are wiped when dropped. Copies that a move, a register spill or
//! the hash and cipher implementations leave on the stack are out of reach.

use core::{fmt, iter::zip};
use std::sync::Arc;

use chacha20::{
    ChaCha20,
    cipher::{KeyIvInit, StreamCipher, StreamCipherSeek},
};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::{
    Error, Result, kernel,
    mem::{Buf, Pool, Secrecy},
};

// Part of the file format: other contexts would expand stored seeds to other words.
const STREAM_CONTEXT: &str = "sudare v1 stream";
const SEED_CONTEXT: &str = "sudare v1 seed";

/// Words that a [`Stream`] buffers: a whole number of 64-byte cipher blocks.
const BUFFER_WORDS: usize = 64;

/// Words zeroed and then encrypted at a time: 4 KiB, so that they stay in the L1 cache between the
/// two steps.
const CHUNK_WORDS: usize = 512;

/// 256 bits from which streams and further seeds are derived.
///
/// Wiped on drop; `Debug` prints no bytes. A seed published with a uniform half of a ciphertext or
/// key must neither be the seed of its secrets and errors nor a parent of that seed.
#[derive(Clone)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Draws a seed from the operating system.
    ///
    /// # Errors
    /// [`Error::NoEntropy`] if the operating system returns none; there is no other source.
    pub fn random() -> Result<Self> {
        Self::from_source(getrandom::fill)
    }

    fn from_source<E: fmt::Display>(
        source: impl FnOnce(&mut [u8]) -> core::result::Result<(), E>,
    ) -> Result<Self> {
        let mut seed = Self([0; 32]);
        source(&mut seed.0).map_err(|reason| Error::NoEntropy(reason.to_string()))?;
        Ok(seed)
    }

    /// Makes the seed with these bytes.
    ///
    /// For stored seeds and for tests. The caller is responsible for their entropy and for wiping
    /// its own copy.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for storage.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Derives the seed bound to `label` and `index` under this one.
    ///
    /// The result reveals nothing about this seed, nor about seeds and streams with another label
    /// or index.
    #[must_use]
    pub fn derive(&self, label: &str, index: u64) -> Self {
        let mut seed = Self([0; 32]);
        // The label comes last, after parts of fixed length: no two inputs give the same bytes.
        let parts = [&self.0, &index.to_le_bytes()[..], label.as_bytes()];
        derive_key(SEED_CONTEXT, &parts, &mut seed.0);
        seed
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Seed {}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seed").finish_non_exhaustive()
    }
}

/// A [`Seed`] kept for later, in memory for keys ([`Secrecy::Key`]). It is unusable in a process
/// that is forked meanwhile, which would otherwise draw the same randomness as this one.
pub struct KeptSeed(Buf);

impl KeptSeed {
    /// Keeps a copy in memory of `pool`.
    #[must_use]
    pub fn new(pool: &Arc<Pool>, seed: &Seed) -> Self {
        let mut buf = pool.take_as(Secrecy::Key, seed.0.len() / size_of::<u64>());
        buf.as_bytes_mut().copy_from_slice(&seed.0);
        Self(buf)
    }

    /// Returns the seed, or `None` in a process forked from the one that kept it.
    #[must_use]
    pub fn get(&self) -> Option<Seed> {
        let mut seed = Seed([0; 32]);
        seed.0.copy_from_slice(self.0.as_bytes());
        // The bytes are read before the check: if they are not lost now, they existed then.
        (!self.0.is_lost()).then_some(seed)
    }
}

impl fmt::Debug for KeptSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptSeed").finish_non_exhaustive()
    }
}

/// BLAKE3 in its key-derivation mode over the concatenated `parts`.
fn derive_key(context: &str, parts: &[&[u8]], key: &mut [u8; 32]) {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in parts {
        hasher.update(part);
    }
    let mut output = hasher.finalize_xof();
    output.fill(key);
    output.zeroize();
    hasher.zeroize();
}

/// A sequence of uniform 64-bit words, determined by a seed, a label and an index.
///
/// [`fill`](Self::fill) and [`next_u64`](Self::next_u64) read the same sequence: the words do not
/// depend on the sizes of the reads. State and buffer are wiped on drop.
///
/// # Panics
/// Reads panic at the end of the sequence, just short of 256 GiB.
pub struct Stream {
    key_stream: KeyStream,
    buffer: [u64; BUFFER_WORDS],
    /// Words of `buffer` already read.
    used: usize,
}

impl Stream {
    /// Opens the stream for `(seed, label, index)`.
    #[must_use]
    pub fn new(seed: &Seed, label: &str, index: u64) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        derive_key(STREAM_CONTEXT, &[&seed.0, label.as_bytes()], &mut key);
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&index.to_le_bytes());
        Self {
            key_stream: KeyStream::new(&key, &nonce),
            buffer: [0; BUFFER_WORDS],
            // Nothing is buffered yet, so the first read fills the buffer.
            used: BUFFER_WORDS,
        }
    }

    /// Overwrites `words` with the next words.
    pub fn fill(&mut self, words: &mut [u64]) {
        let (head, rest) = words.split_at_mut(words.len().min(BUFFER_WORDS - self.used));
        head.copy_from_slice(&self.buffer[self.used..][..head.len()]);
        self.used += head.len();

        let (body, tail) = rest.split_at_mut(rest.len() / BUFFER_WORDS * BUFFER_WORDS);
        // Whole buffers go straight to the caller, which saves a copy.
        for chunk in body.chunks_mut(CHUNK_WORDS) {
            self.key_stream.write(chunk);
        }
        if !tail.is_empty() {
            self.key_stream.write(&mut self.buffer);
            tail.copy_from_slice(&self.buffer[..tail.len()]);
            self.used = tail.len();
        }
    }

    /// The next word.
    pub fn next_u64(&mut self) -> u64 {
        if self.used == BUFFER_WORDS {
            self.key_stream.write(&mut self.buffer);
            self.used = 0;
        }
        let word = self.buffer[self.used];
        self.used += 1;
        word
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.buffer.zeroize();
    }
}

impl ZeroizeOnDrop for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// ChaCha20: the kernels of this CPU write whole groups of blocks, and the cipher writes the rest.
struct KeyStream {
    cipher: ChaCha20,
    /// State of the next block, as in RFC 8439, section 2.3.
    state: [u32; 16],
}

impl KeyStream {
    fn new(key: &[u8; 32], nonce: &[u8; 12]) -> Self {
        let mut state = [0; 16];
        let parts = b"expand 32-byte k".chunks(4).chain(key.chunks(4)).chain([&[0; 4][..]]);
        for (word, part) in zip(&mut state, parts.chain(nonce.chunks(4))) {
            *word = part.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        }
        Self { cipher: ChaCha20::new(key.into(), nonce.into()), state }
    }

    /// Overwrites `words`, whole blocks, with the next words of the key stream.
    fn write(&mut self, words: &mut [u64]) {
        debug_assert_eq!(words.len() % 8, 0);
        let written = kernel::key_stream(&mut self.state, words);
        let words = &mut words[written..];
        if words.is_empty() {
            return;
        }
        // The kernels advance only the counter in `state`, so the cipher must follow.
        self.cipher.seek(64 * u64::from(self.state[12]));
        // The cipher combines its key stream with these words by XOR.
        words.fill(0);
        // SAFETY: the bytes are exactly those of `words`, borrowed exclusively for the same
        // lifetime; `u8` has alignment 1, and every pattern of bytes is a valid `u64`.
        let bytes = unsafe {
            core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), size_of_val(words))
        };
        // Panics if the counter would overflow.
        self.cipher.apply_keystream(bytes);
        self.state[12] += (words.len() / 8) as u32;
        for word in words {
            *word = u64::from_le(*word);
        }
    }
}

impl Drop for KeyStream {
    fn drop(&mut self) {
        // Fails to compile unless the cipher wipes its key, which requires its feature `zeroize`.
        const fn wipes_itself<T: ZeroizeOnDrop>() {}
        const { wipes_itself::<ChaCha20>() };
        self.state.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::{mem::MaybeUninit, ptr};
    use proptest::prelude::*;

    fn seed() -> Seed {
        Seed::from_bytes(core::array::from_fn(|i| i as u8))
    }

    fn first_words<const N: usize>(mut stream: Stream) -> [u64; N] {
        core::array::from_fn(|_| stream.next_u64())
    }

    /// The ChaCha20 block function as RFC 8439, section 2.3 writes it.
    fn chacha20_block(key: &[u8; 32], counter: u32, nonce: &[u8; 12]) -> [u8; 64] {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        let mut initial = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574].to_vec();
        initial.extend(key.chunks(4).map(word));
        initial.push(counter);
        initial.extend(nonce.chunks(4).map(word));

        let mut s = initial.clone();
        let mut quarter_round = |a: usize, b: usize, c: usize, d: usize| {
            for (x, y, z, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
                s[x] = s[x].wrapping_add(s[y]);
                s[z] = (s[z] ^ s[x]).rotate_left(turn);
            }
        };
        for _ in 0..10 {
            for i in 0..4 {
                quarter_round(i, 4 + i, 8 + i, 12 + i);
            }
            for i in 0..4 {
                quarter_round(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
            }
        }
        let mut block = [0; 64];
        for (bytes, (x, y)) in block.chunks_mut(4).zip(s.iter().zip(&initial)) {
            bytes.copy_from_slice(&x.wrapping_add(*y).to_le_bytes());
        }
        block
    }

    #[test]
    fn reference_block_matches_rfc_8439() {
        // Section 2.3.2.
        let nonce = [0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0];
        let block = chacha20_block(seed().as_bytes(), 1, &nonce);
        let expected = "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e\
                        d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e";
        assert_eq!(block.map(|byte| format!("{byte:02x}")).concat(), expected);
    }

    #[test]
    fn words_are_those_of_the_documented_construction() {
        let index = 0x0123_4567_89ab_cdef_u64;
        let mut material = seed().as_bytes().to_vec();
        material.extend(b"errors");
        let key = blake3::derive_key("sudare v1 stream", &material);
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&index.to_le_bytes());
        let expected: Vec<u64> = (0..130)
            .flat_map(|counter| chacha20_block(&key, counter, &nonce))
            .collect::<Vec<u8>>()
            .chunks(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
            .collect();

        let mut words = vec![1; expected.len()];
        Stream::new(&seed(), "errors", index).fill(&mut words);
        assert_eq!(words, expected);

        let mut material = seed().as_bytes().to_vec();
        material.extend(index.to_le_bytes());
        material.extend(b"errors");
        let derived = seed().derive("errors", index);
        assert_eq!(*derived.as_bytes(), blake3::derive_key("sudare v1 seed", &material));
    }

    #[test]
    fn blocks_are_right_up_to_the_last_ones() {
        let nonce = core::array::from_fn(|i| i as u8);
        for start in [0, 1, u32::MAX - 40, u32::MAX - 33, u32::MAX - 32] {
            let mut stream = KeyStream::new(seed().as_bytes(), &nonce);
            stream.state[12] = start;
            let mut words = vec![0; 32 * 8];
            // Blocks of the kernels, and the others between them.
            let (first, second) = words.split_at_mut(3 * 8);
            stream.write(first);
            stream.write(second);
            for (i, block) in words.chunks(8).enumerate() {
                let expected = chacha20_block(seed().as_bytes(), start + i as u32, &nonce);
                let found: Vec<u8> = block.iter().flat_map(|word| word.to_le_bytes()).collect();
                assert_eq!(found, expected, "block {i} from {start}");
            }
            assert_eq!(stream.state[12], start + 32);
        }
    }

    #[test]
    fn known_answers() {
        let mut words = vec![0; 4096];
        Stream::new(&seed(), "known answers", 7).fill(&mut words);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(
            blake3::hash(&bytes).to_hex().as_str(),
            "e449b082bcb4ba01316573eb51551ffd73ceaed9943339e6d8977f6415347cbf"
        );
        assert_eq!(
            blake3::hash(seed().derive("known answers", 7).as_bytes()).to_hex().as_str(),
            "c2586ef9dfb9d82235d6e68604caa06c78871b113acb7e2ab871200a5a657cd3",
        );
    }

    proptest! {
        #[test]
        fn reads_of_any_sizes_give_one_sequence(
            sizes in prop::collection::vec(0_usize..700, 1..12),
        ) {
            let total = sizes.iter().sum();
            let mut whole = vec![0; total];
            Stream::new(&seed(), "sizes", 0).fill(&mut whole);

            let mut stream = Stream::new(&seed(), "sizes", 0);
            let mut pieces = vec![0; total];
            let mut rest = &mut pieces[..];
            for (i, size) in sizes.into_iter().enumerate() {
                let (piece, after) = rest.split_at_mut(size);
                if i % 2 == 0 {
                    stream.fill(piece);
                } else {
                    piece.fill_with(|| stream.next_u64());
                }
                rest = after;
            }
            prop_assert_eq!(pieces, whole);
        }
    }

    #[test]
    fn streams_differ_by_seed_label_and_index() {
        let other = Seed::from_bytes([1; 32]);
        let mut streams = vec![
            first_words::<8>(Stream::new(&seed(), "a", 0)),
            first_words(Stream::new(&other, "a", 0)),
            first_words(Stream::new(&seed(), "b", 0)),
            first_words(Stream::new(&seed(), "a\0", 0)),
            first_words(Stream::new(&seed(), "", 0)),
            first_words(Stream::new(&seed(), "a", 1)),
            first_words(Stream::new(&seed(), "a", 1 << 32)),
            first_words(Stream::new(&seed(), "a", u64::MAX)),
            first_words(Stream::new(&seed().derive("a", 0), "a", 0)),
        ];
        let mut words = streams.concat();
        streams.sort_unstable();
        streams.dedup();
        assert_eq!(streams.len(), 9);
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 72, "streams share words");
    }

    #[test]
    fn derived_seeds_differ_by_parent_label_and_index() {
        let other = Seed::from_bytes([1; 32]);
        let mut seeds = [
            seed(),
            seed().derive("a", 0),
            other.derive("a", 0),
            seed().derive("b", 0),
            seed().derive("", 0),
            seed().derive("a", 1),
            seed().derive("a", 1 << 56),
            seed().derive("a", 0).derive("a", 0),
        ]
        .map(|seed| *seed.as_bytes());
        seeds.sort_unstable();
        assert!(seeds.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn random_seeds_differ() {
        let [a, b] = [Seed::random().unwrap(), Seed::random().unwrap()];
        assert_ne!(a.as_bytes(), b.as_bytes());
        assert_ne!(*a.as_bytes(), [0; 32]);
    }

    #[test]
    fn without_entropy_there_is_no_seed() {
        let half_filled = Seed::from_source(|bytes| {
            bytes[..16].fill(7);
            Err("source closed")
        });
        assert_eq!(half_filled.unwrap_err(), Error::NoEntropy("source closed".into()));
    }

    #[test]
    fn debug_shows_no_bytes() {
        let seed = Seed::from_bytes([0xab; 32]);
        assert_eq!(format!("{seed:?}"), "Seed { .. }");
        assert_eq!(format!("{:?}", Stream::new(&seed, "debug", 0)), "Stream { .. }");
    }

    #[test]
    fn a_kept_seed_is_the_seed() {
        let kept = KeptSeed::new(&Pool::new(0), &seed());
        assert_eq!(kept.get().unwrap().as_bytes(), seed().as_bytes());
        assert_eq!(format!("{kept:?}"), "KeptSeed { .. }");
    }

    #[test]
    fn dropping_wipes() {
        let seed = Box::into_raw(Box::new(Seed::from_bytes([0xab; 32])));
        let stream = Box::into_raw(Box::new(Stream::new(&self::seed(), "wiped", 0)));
        // SAFETY: both are dropped once, and their memory is freed as a type without a destructor.
        // The fields read in between are plain integers in that memory, which still exists.
        let (bytes, before, after) = unsafe {
            (*stream).next_u64();
            let read = || {
                let words = ptr::read_volatile(&raw const (*stream).buffer);
                (words, ptr::read_volatile(&raw const (*stream).key_stream.state))
            };
            let before = read();
            ptr::drop_in_place(seed);
            ptr::drop_in_place(stream);
            let after = read();
            let bytes = ptr::read_volatile(&raw const (*seed).0);
            drop(Box::from_raw(seed.cast::<MaybeUninit<Seed>>()));
            drop(Box::from_raw(stream.cast::<MaybeUninit<Stream>>()));
            (bytes, before, after)
        };
        assert_eq!(bytes, [0; 32]);
        assert!(before.0 != [0; BUFFER_WORDS] && before.1 != [0; 16]);
        assert_eq!(after, ([0; BUFFER_WORDS], [0; 16]));
    }
}
