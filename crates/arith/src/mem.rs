//! 64-byte-aligned buffers of words that return to a pool when dropped, and memory-mapped bytes of
//! files.

mod block;
mod fork;
#[cfg(all(target_os = "linux", not(miri)))]
mod linux;
#[cfg(not(all(target_os = "linux", not(miri))))]
mod portable;

#[cfg(all(target_os = "linux", not(miri)))]
use linux as system;
#[cfg(not(all(target_os = "linux", not(miri))))]
use portable as system;

pub use block::Secrecy;

use block::Block;
use core::{
    fmt,
    ops::{Deref, DerefMut, Range},
    sync::atomic::{AtomicU64, Ordering},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    sync::{Arc, Mutex, PoisonError},
};
use system::FileBytes;
use zeroize::Zeroize;

/// Words aligned to 64 bytes. The buffer returns to its [`Pool`] on drop.
pub struct Buf {
    /// `None` only while dropping.
    block: Option<Block>,
    /// Requested number of words, at most the words of the block.
    len: usize,
    home: Arc<Pool>,
    secrecy: Secrecy,
    /// The process that made the buffer, if it holds a key.
    made_in: u64,
}

/// Prints the size: the words may be secret.
impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} words)", self.len)
    }
}

impl Deref for Buf {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        match &self.block {
            // SAFETY: the block's words are initialised and owned by `self`, and it has at
            // least `len` of them.
            Some(block) => unsafe { core::slice::from_raw_parts(block.start.as_ptr(), self.len) },
            None => &[],
        }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u64] {
        match &mut self.block {
            // SAFETY: as in `deref`; `self` is borrowed exclusively.
            Some(block) => unsafe {
                core::slice::from_raw_parts_mut(block.start.as_ptr(), self.len)
            },
            None => &mut [],
        }
    }
}

impl Buf {
    /// The pool that the buffer came from.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.home
    }

    /// Returns the bytes of the words.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        bytes_of(self)
    }

    /// Returns the bytes of the words, to write to.
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        let len = size_of_val(&**self);
        // SAFETY: as in `as_bytes`; any bytes are words, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), len) }
    }

    /// Views the words as signed bytes, eight per word.
    #[must_use]
    pub fn as_signed(&self) -> &[i8] {
        // SAFETY: initialised words are initialised bytes, borrowed as they are.
        unsafe { core::slice::from_raw_parts(self.as_ptr().cast(), size_of_val(&**self)) }
    }

    /// Views the words as signed bytes, eight per word, to write to.
    #[must_use]
    pub fn as_signed_mut(&mut self) -> &mut [i8] {
        let len = size_of_val(&**self);
        // SAFETY: as in `as_signed`; any bytes are words, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), len) }
    }

    /// The treatment of the words when they are dropped, swapped out, dumped or forked.
    #[must_use]
    pub fn secrecy(&self) -> Secrecy {
        self.secrecy
    }

    /// Returns `true` if the buffer is for a key ([`Secrecy::Key`]) and this process was forked
    /// from the one that made it. The words stayed in that process.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.secrecy == Secrecy::Key && self.made_in != fork::generation()
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        // `take_as` promises zeros, also in blocks that return from the pool.
        if self.secrecy > Secrecy::Public {
            self.zeroize();
        }
        if let Some(block) = self.block.take() {
            self.home.put(block);
        }
    }
}

/// Returns the bytes of words.
#[must_use]
pub fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: initialised words are initialised bytes, borrowed as they are.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Free buffers by size. No thread holds the lock while it computes.
///
/// A steady workload stops allocating after its first pass, which [`Pool::allocations`] lets a test
/// assert.
pub struct Pool {
    free: Mutex<Free>,
    cap_words: usize,
    allocations: AtomicU64,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("cap_words", &self.cap_words)
            .field("allocations", &self.allocations())
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Free {
    by_len: BTreeMap<(Secrecy, usize), Vec<Block>>,
    words: usize,
}

impl Pool {
    /// Makes a pool that keeps at most `cap_bytes` of free buffers.
    #[must_use]
    pub fn new(cap_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::default(),
            cap_words: cap_bytes / 8,
            allocations: AtomicU64::new(0),
        })
    }

    /// Returns `len` words of unspecified contents.
    #[must_use]
    pub fn take(self: &Arc<Self>, len: usize) -> Buf {
        self.take_as(Secrecy::Public, len)
    }

    /// Returns `len` zero words.
    #[must_use]
    pub fn take_zeroed(self: &Arc<Self>, len: usize) -> Buf {
        let mut buf = self.take(len);
        buf.fill(0);
        buf
    }

    /// Returns `len` words: zeros, or unspecified contents if they are public.
    #[must_use]
    pub fn take_as(self: &Arc<Self>, secrecy: Secrecy, len: usize) -> Buf {
        let recycled = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            // Take the smallest that has room, unless it is more than four times too large: a small
            // request would otherwise keep a large block.
            let range = (secrecy, len)..=(secrecy, len.saturating_mul(4));
            let mut fitting = free.by_len.range_mut(range);
            let block = fitting.find_map(|(_, blocks)| blocks.pop());
            free.words -= block.as_ref().map_or(0, |block| block.len);
            block
        };
        let block = recycled.unwrap_or_else(|| {
            // A statistic for tests, which orders nothing.
            self.allocations.fetch_add(1, Ordering::Relaxed);
            Block::new(len, secrecy)
        });
        // Only keys are lost in a fork, so other buffers skip the query.
        let made_in = if secrecy == Secrecy::Key { fork::generation() } else { 0 };
        Buf { block: Some(block), len, home: Arc::clone(self), secrecy, made_in }
    }

    /// Number of buffers that had to be allocated.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::Relaxed)
    }

    /// Returns free buffers to the system.
    pub fn trim(&self) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) = Free::default();
    }

    fn put(&self, block: Block) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // Above the cap the block returns to the system, at the end of this function.
        if free.words + block.len <= self.cap_words {
            free.words += block.len;
            free.by_len.entry((block.secrecy, block.len)).or_default().push(block);
        }
    }
}

/// Immutable bytes in a mapped file or in shared memory. Clones share them.
///
/// The bytes of a file are read from the file, or from the system's cache of it, when they are
/// used. The file must not be changed or truncated while it is mapped, because reads then return
/// old or new bytes. Bytes that no longer exist, since the file was truncated or its disk fails,
/// read as zeros, and [`Mapping::is_intact`] then returns `false`. To replace a file, rename
/// another to its name: the mapping keeps the old one.
///
/// Mapping a file installs a handler of `SIGBUS`, the signal for missing bytes. The handler passes
/// on signals that concern anything else. On systems other than Linux the file is read into memory.
#[derive(Clone)]
pub struct Mapping(Arc<Held>);

/// Prints the size: the bytes may be secret.
impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({} bytes)", self.len())
    }
}

enum Held {
    File(FileBytes),
    Shared(Box<dyn AsRef<[u8]> + Send + Sync>),
}

impl Mapping {
    /// Maps the whole file.
    ///
    /// # Errors
    /// Errors of the system. A pipe, for example, cannot be mapped.
    pub fn new(file: &File) -> io::Result<Self> {
        Ok(Self(Arc::new(Held::File(FileBytes::new(file)?))))
    }

    /// Shares bytes in memory. `bytes` must always return the same bytes.
    #[must_use]
    pub fn shared(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Held::Shared(Box::new(bytes))))
    }

    /// Returns `true` if all bytes read until now existed. If not, discard everything computed from
    /// them.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        match &*self.0 {
            Held::File(file) => file.is_intact(),
            Held::Shared(_) => true,
        }
    }

    /// Returns a part of the bytes, or `None` if `range` ends beyond them.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Bytes> {
        self.get(range.clone())?;
        Some(Bytes(Source::Mapping(self.clone(), range)))
    }
}

impl Deref for Mapping {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &*self.0 {
            Held::File(file) => file.bytes(),
            Held::Shared(bytes) => (**bytes).as_ref(),
        }
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Read-only bytes of a buffer or of a mapping.
pub struct Bytes(Source);

/// Prints the size: the bytes may be secret.
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({} bytes)", self.len())
    }
}

enum Source {
    Buf(Buf),
    Mapping(Mapping, Range<usize>),
}

impl Bytes {
    /// Returns `true` if the bytes belong to a mapping.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Source::Mapping(..))
    }
}

impl From<Buf> for Bytes {
    fn from(buf: Buf) -> Self {
        Self(Source::Buf(buf))
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Buf(buf) => buf.as_bytes(),
            Source::Mapping(mapping, range) => &mapping[range.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{block::HUGE_BYTES, *};

    #[test]
    fn buffers_are_aligned_and_recycled() {
        let pool = Pool::new(1 << 30);
        for len in [0, 1, 1000, HUGE_BYTES / 8] {
            let buf = pool.take(len);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr() as usize % 64, 0);
        }
        let before = pool.allocations();
        for len in [1000, HUGE_BYTES / 8, 1] {
            drop(pool.take(len));
        }
        assert_eq!(pool.allocations(), before);
        pool.trim();
        drop(pool.take(1000));
        assert_eq!(pool.allocations(), before + 1);
    }

    #[test]
    fn bytes_are_those_of_the_words() {
        let mut buf = Pool::new(0).take(2);
        buf.as_bytes_mut().copy_from_slice(&core::array::from_fn::<u8, 16, _>(|k| k as u8));
        assert_eq!(buf[1].to_ne_bytes(), [8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(buf.as_bytes()[..8], buf[0].to_ne_bytes());
    }

    #[test]
    fn a_mapping_is_the_file_it_was_made_of() {
        let path = std::env::temp_dir().join(format!("sudare-mapping-{}", std::process::id()));
        let content: Vec<u8> = (0..10_000).map(|k| (k % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let mapping = Mapping::new(&File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(*mapping, content);
        let bytes = mapping.slice(5000..9000).unwrap();
        assert!(bytes.is_mapped() && *bytes == content[5000..9000]);
        assert!(mapping.slice(5000..10_001).is_none());
        let from = 3;
        let to = 2;
        assert!(mapping.slice(from..to).is_none());
        let shared = Mapping::shared(content.clone());
        assert_eq!(*shared.slice(1..9).unwrap(), content[1..9]);
        assert!(shared.slice(0..10_001).is_none());
    }

    #[test]
    fn secret_buffers_are_wiped_before_reuse() {
        let pool = Pool::new(1 << 20);
        for secrecy in [Secrecy::Value, Secrecy::Key] {
            let before = pool.allocations();
            let mut secret = pool.take_as(secrecy, 64);
            assert!(secret.iter().all(|&x| x == 0));
            secret.fill(0xdead_beef);
            drop(secret);
            assert!(pool.take_as(secrecy, 64).iter().all(|&x| x == 0));
            assert_eq!(pool.allocations(), before + 1);
        }
        let mut plain = pool.take(64);
        plain.fill(7);
        drop(plain);
        assert!(pool.take(64).iter().all(|&x| x == 7));
    }

    #[test]
    fn words_of_every_secrecy_keep_their_own_pages() {
        // Miri checks one word in 64, because it takes minutes for all.
        const WORDS: usize = if cfg!(miri) { 64 } else { 1 };
        let pool = Pool::new(1 << 30);
        let kinds = [Secrecy::Public, Secrecy::Value, Secrecy::Key];
        for len in [0, 1, 600, HUGE_BYTES / 8, HUGE_BYTES / 8 + 1] {
            let taken = |secrecy| {
                let mut buf = pool.take_as(secrecy, len);
                buf.iter_mut().step_by(WORDS).for_each(|x| *x = secrecy as u64 + 1);
                assert_eq!((buf.secrecy(), buf.as_ptr() as usize % 64), (secrecy, 0));
                assert!(!buf.is_lost());
                buf
            };
            let all = kinds.map(taken);
            for (buf, secrecy) in all.iter().zip(kinds) {
                assert!(buf.iter().step_by(WORDS).all(|&x| x == secrecy as u64 + 1));
                assert_eq!(buf.as_signed().len(), 8 * len);
            }
        }
    }

    #[test]
    fn the_cap_holds() {
        let pool = Pool::new(800);
        let a = pool.take(60);
        let b = pool.take(60);
        drop(a);
        drop(b);
        let _ = (pool.take(60), pool.take(60));
        assert_eq!(pool.allocations(), 3);
    }
}
