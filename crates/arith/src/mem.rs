//! 64-byte-aligned buffers of words that go back to a pool when dropped, and bytes of files
//! that are read where they are used.

use core::{
    ops::{Deref, DerefMut, Range},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};
use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    collections::BTreeMap,
    fs::File,
    io,
    sync::{Arc, Mutex, PoisonError},
};
use zeroize::Zeroize;

/// Buffers from this size on are aligned to huge pages and ask for them.
const HUGE_BYTES: usize = 2 << 20;

/// An allocation of initialised words.
struct Block {
    start: NonNull<u64>,
    len: usize,
}

// SAFETY: a block owns its words, which are plain data.
unsafe impl Send for Block {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Block {}

impl Block {
    fn layout(len: usize) -> Layout {
        let bytes = len.max(1).saturating_mul(8);
        let align = if bytes >= HUGE_BYTES { HUGE_BYTES } else { 64 };
        // Whole huge pages: a part of one would be made of small ones.
        let bytes = bytes.checked_next_multiple_of(align).unwrap_or(bytes);
        // A size that overflows is refused by the allocator below.
        Layout::from_size_align(bytes, align)
            .unwrap_or_else(|_| handle_alloc_error(Layout::new::<u64>()))
    }

    fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout has a nonzero size.
        let start = NonNull::new(unsafe { alloc(layout) }.cast::<u64>())
            .unwrap_or_else(|| handle_alloc_error(layout));
        advise_huge(start.as_ptr(), layout);
        // SAFETY: the allocation has at least `len` words.
        unsafe { start.as_ptr().write_bytes(0, len) };
        Self { start, len }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout.
        unsafe { dealloc(self.start.as_ptr().cast(), Self::layout(self.len)) }
    }
}

#[cfg(target_os = "linux")]
fn advise_huge(start: *mut u64, layout: Layout) {
    if layout.align() == HUGE_BYTES {
        // SAFETY: the range is a fresh allocation of ours; the call only advises,
        // and may fail without consequence.
        unsafe { libc::madvise(start.cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_: *mut u64, _: Layout) {}

/// Words aligned to 64 bytes. It returns to its [`Pool`] on drop.
pub struct Buf {
    /// `None` only while dropping.
    block: Option<Block>,
    /// Words asked for, at most those of the block.
    len: usize,
    home: Arc<Pool>,
    secret: bool,
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
    /// The pool it came from.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.home
    }

    /// The bytes of its words.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        bytes_of(self)
    }

    /// The bytes of its words.
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        let len = size_of_val(&**self);
        // SAFETY: as in `as_bytes`; any bytes are words, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), len) }
    }

    /// The same buffer, to be wiped when dropped.
    #[must_use]
    pub fn into_secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Whether it is wiped when dropped.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.secret
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if self.secret {
            self.zeroize();
        }
        if let Some(block) = self.block.take() {
            self.home.put(block);
        }
    }
}

/// The bytes of words.
#[must_use]
pub fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: initialised words are initialised bytes, borrowed as they are.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Free buffers by size. No lock is held while anyone computes.
///
/// A steady workload stops allocating after its first pass, which
/// [`Pool::allocations`] lets a test assert.
pub struct Pool {
    free: Mutex<Free>,
    cap_words: usize,
    allocations: AtomicU64,
}

#[derive(Default)]
struct Free {
    by_len: BTreeMap<usize, Vec<Block>>,
    words: usize,
}

impl Pool {
    /// A pool that keeps at most `cap_bytes` of free buffers.
    #[must_use]
    pub fn new(cap_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::default(),
            cap_words: cap_bytes / 8,
            allocations: AtomicU64::new(0),
        })
    }

    /// `len` words of unspecified contents.
    #[must_use]
    pub fn take(self: &Arc<Self>, len: usize) -> Buf {
        let recycled = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            // The smallest that has room, unless that is far too large.
            let mut fitting = free.by_len.range_mut(len..=len.saturating_mul(4));
            let block = fitting.find_map(|(_, blocks)| blocks.pop());
            free.words -= block.as_ref().map_or(0, |block| block.len);
            block
        };
        let block = recycled.unwrap_or_else(|| {
            self.allocations.fetch_add(1, Ordering::Relaxed);
            Block::new(len)
        });
        Buf { block: Some(block), len, home: Arc::clone(self), secret: false }
    }

    /// `len` zero words.
    #[must_use]
    pub fn take_zeroed(self: &Arc<Self>, len: usize) -> Buf {
        let mut buf = self.take(len);
        buf.fill(0);
        buf
    }

    /// `len` zero words that are wiped when dropped: keys, randomness,
    /// decryptions.
    #[must_use]
    pub fn take_secret(self: &Arc<Self>, len: usize) -> Buf {
        self.take_zeroed(len).into_secret()
    }

    /// Buffers taken so far that had to be allocated.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        self.allocations.load(Ordering::Relaxed)
    }

    /// Gives free buffers back to the system.
    pub fn trim(&self) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) = Free::default();
    }

    fn put(&self, block: Block) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.words + block.len <= self.cap_words {
            free.words += block.len;
            free.by_len.entry(block.len).or_default().push(block);
        }
    }
}

/// Bytes that stay where they are, in a file or in memory that others hold, too. Clones share
/// them.
///
/// Those of a file are read from it, or from the system's cache of it, when they are used. The
/// file must not be changed or cut as long as it is mapped. Nothing here prevents that or
/// finds it out: what is read then may be old bytes or new ones, and reading beyond the end of
/// a file that was cut ends the process (`SIGBUS`). To replace a file, rename another to its
/// name: the mapping keeps the old one.
#[derive(Clone)]
pub struct Mapping(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl Mapping {
    /// The whole of a file.
    ///
    /// # Errors
    /// Those of the system: a pipe cannot be mapped, for example.
    pub fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the mapping is private to this process and only read. That nobody changes
        // the file meanwhile is asked of callers above; should somebody do, bytes are taken
        // for nothing but numbers, whatever they are.
        unsafe { memmap2::Mmap::map(file) }.map(Self::shared)
    }

    /// Bytes in memory, which must always be the same ones.
    #[must_use]
    pub fn shared(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(bytes))
    }

    /// A part of them, if they are that many.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Bytes> {
        self.get(range.clone())?;
        Some(Bytes(Source::Mapping(self.clone(), range)))
    }
}

impl Deref for Mapping {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Bytes that are only read, of a buffer or of a mapping.
pub struct Bytes(Source);

enum Source {
    Buf(Buf),
    Mapping(Mapping, Range<usize>),
}

impl Bytes {
    /// Whether they are those of a mapping.
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
    use super::*;

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
        let (from, to) = (3, 2);
        assert!(mapping.slice(from..to).is_none());
        let shared = Mapping::shared(content.clone());
        assert_eq!(*shared.slice(1..9).unwrap(), content[1..9]);
        assert!(shared.slice(0..10_001).is_none());
    }

    #[test]
    fn secret_buffers_are_wiped_before_reuse() {
        let pool = Pool::new(1 << 20);
        let mut secret = pool.take_secret(64);
        secret.fill(0xdead_beef);
        drop(secret);
        assert!(pool.take(64).iter().all(|&x| x == 0));
        let mut plain = pool.take(64);
        plain.fill(7);
        drop(plain);
        assert!(pool.take(64).iter().all(|&x| x == 7));
    }

    #[test]
    fn the_cap_holds() {
        let pool = Pool::new(800);
        let (a, b) = (pool.take(60), pool.take(60));
        drop(a);
        drop(b);
        let _ = (pool.take(60), pool.take(60));
        assert_eq!(pool.allocations(), 3);
    }
}
