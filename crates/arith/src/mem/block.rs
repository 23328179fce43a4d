//! Allocations of words, and pages of their own for secrets.

use super::system;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

/// Blocks from this size on are aligned to huge pages and ask for them.
pub(super) const HUGE_BYTES: usize = 2 << 20;

/// What becomes of words that are dropped, swapped out, dumped or forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Secrecy {
    /// Nothing is done: anybody may see them.
    Public,
    /// Values: wiped when dropped. On Linux they lie in pages of their own, which core dumps leave
    /// out and which stay out of swap as far as this process may lock memory.
    Value,
    /// Keys and randomness: as values, and on Linux zero in a process that is forked from this
    /// one. There [`Buf::is_lost`](super::Buf::is_lost) says so, on any system.
    Key,
}

/// An allocation of initialised words, zero when made.
pub(super) struct Block {
    pub(super) start: NonNull<u64>,
    pub(super) len: usize,
    pub(super) secrecy: Secrecy,
    /// Whether it has pages of its own.
    mapped: bool,
}

// SAFETY: a block owns its words, which are plain data.
unsafe impl Send for Block {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Block {}

impl Block {
    pub(super) fn new(len: usize, secrecy: Secrecy) -> Self {
        let pages = (secrecy > Secrecy::Public).then(|| system::map(bytes(len))).flatten();
        if let (Some(pages), Secrecy::Key) = (pages, secrecy) {
            // Where the system refuses, `Buf::is_lost` still tells.
            system::wipe_on_fork(pages, bytes(len));
        }
        let (start, mapped) = (pages.map_or_else(|| on_heap(len), NonNull::cast), pages.is_some());
        Self { start, len, secrecy, mapped }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let start = self.start.cast();
        if self.mapped {
            // SAFETY: mapped with this size.
            unsafe { system::unmap(start, bytes(self.len)) };
        } else {
            // SAFETY: allocated with the same layout.
            unsafe { dealloc(start.as_ptr(), layout(self.len)) }
        }
    }
}

/// Bytes of an allocation of so many words.
fn bytes(len: usize) -> usize {
    len.max(1).saturating_mul(8)
}

/// So many zero words.
fn on_heap(len: usize) -> NonNull<u64> {
    let layout = layout(len);
    // SAFETY: the layout has a nonzero size.
    let start =
        NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
    if layout.align() == HUGE_BYTES {
        system::advise_huge(start, layout.size());
    }
    let start = start.cast::<u64>();
    // SAFETY: the allocation has at least `len` words.
    unsafe { start.as_ptr().write_bytes(0, len) };
    start
}

fn layout(len: usize) -> Layout {
    let bytes = bytes(len);
    let align = if bytes >= HUGE_BYTES { HUGE_BYTES } else { 64 };
    // Whole huge pages: a part of one would be made of small ones.
    let bytes = bytes.checked_next_multiple_of(align).unwrap_or(bytes);
    // A size that overflows is refused by the allocator.
    Layout::from_size_align(bytes, align)
        .unwrap_or_else(|_| handle_alloc_error(Layout::new::<u64>()))
}
