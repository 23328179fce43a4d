//! Allocations of words, with pages of their own for secrets.

use super::system;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

/// Blocks of at least this size are aligned to huge pages and request them.
pub(super) const HUGE_BYTES: usize = 2 << 20;

/// The treatment of words that are dropped, swapped out, dumped or forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Secrecy {
    /// No protection: the words are public.
    Public,
    /// Values: wiped when dropped. On Linux they are in pages of their own. Core dumps leave these
    /// pages out, and they stay out of swap as far as this process may lock memory.
    Value,
    /// Keys and randomness: protected like values. On Linux a process forked from this one reads
    /// them as zeros. On any system [`Buf::is_lost`](super::Buf::is_lost) reports the loss in the
    /// forked process.
    Key,
}

/// An allocation of initialised words, zero when made.
pub(super) struct Block {
    pub(super) start: NonNull<u64>,
    pub(super) len: usize,
    pub(super) secrecy: Secrecy,
    /// `true` if the block has pages of its own.
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
            // If the system refuses, `Buf::is_lost` still reports the fork.
            system::wipe_on_fork(pages, bytes(len));
        }
        let start = pages.map_or_else(|| on_heap(len), NonNull::cast);
        let mapped = pages.is_some();
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

/// Bytes of an allocation of `len` words.
fn bytes(len: usize) -> usize {
    // Allocations of size zero are not allowed. `layout` rejects a saturated size.
    len.max(1).saturating_mul(8)
}

/// Allocates `len` zero words.
fn on_heap(len: usize) -> NonNull<u64> {
    let layout = layout(len);
    // SAFETY: the layout has a nonzero size.
    let start =
        NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
    if layout.align() == HUGE_BYTES {
        system::advise_huge(start, layout.size());
    }
    let start = start.cast::<u64>();
    // Only now: pages touched before the advice would be small ones.
    // SAFETY: the allocation has at least `len` words.
    unsafe { start.as_ptr().write_bytes(0, len) };
    start
}

fn layout(len: usize) -> Layout {
    let bytes = bytes(len);
    let align = if bytes >= HUGE_BYTES { HUGE_BYTES } else { 64 };
    // Round up to whole huge pages: the system would use small ones for a partial page.
    let bytes = bytes.checked_next_multiple_of(align).unwrap_or(bytes);
    // The allocator rejects a size that overflows.
    Layout::from_size_align(bytes, align)
        .unwrap_or_else(|_| handle_alloc_error(Layout::new::<u64>()))
}
