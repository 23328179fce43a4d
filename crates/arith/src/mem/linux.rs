//! Pages from Linux.

mod file;

pub(super) use file::FileBytes;

use super::block::HUGE_BYTES;
use core::ptr::{self, NonNull};

/// Asks for huge pages.
pub(super) fn advise_huge(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the range is a fresh allocation of ours; the call only advises, and may fail
    // without consequence.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// Maps zero pages for at least `bytes` bytes of secrets. Core dumps leave them out, and they are
/// not swapped out if this process may lock enough memory. Returns `None` if the system has no
/// room.
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (align, bytes) = extent(bytes)?;
    // Room to start at a huge page.
    let room = if align == HUGE_BYTES { bytes.checked_add(align)? } else { bytes };
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new private pages, which touch no memory of this process.
    let start = unsafe { libc::mmap(ptr::null_mut(), room, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    // `align_offset` may return `usize::MAX`.
    let before = start.align_offset(align).min(room - bytes);
    let after = room - bytes - before;
    // SAFETY: parts of the pages above, which no other code knows yet. A refused call leaves them
    // unchanged. Failures are ignored because most users may lock little memory.
    let own = unsafe {
        let own = start.add(before);
        for (start, bytes) in [(start, before), (own.add(bytes), after)] {
            if bytes > 0 {
                libc::munmap(start.cast(), bytes);
            }
        }
        if align == HUGE_BYTES {
            libc::madvise(own.cast(), bytes, libc::MADV_HUGEPAGE);
        }
        libc::madvise(own.cast(), bytes, libc::MADV_DONTDUMP);
        libc::mlock(own.cast(), bytes);
        own
    };
    NonNull::new(own)
}

/// Returns pages to the system.
///
/// # Safety
/// [`map`] returned `start` for `bytes` bytes, and they are no longer in use.
pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    if let Some((_, bytes)) = extent(bytes) {
        // SAFETY: guaranteed by the caller.
        unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    }
}

/// Asks the system to zero these pages in forked processes. Returns `true` if it agrees. The pages
/// come from [`map`] for `bytes` bytes.
pub(super) fn wipe_on_fork(start: NonNull<u8>, bytes: usize) -> bool {
    extent(bytes).is_some_and(|(_, bytes)| {
        // SAFETY: the call changes nothing in this process.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_WIPEONFORK) == 0 }
    })
}

/// Returns the alignment of an allocation of `bytes` bytes, and the number of bytes to map for it.
fn extent(bytes: usize) -> Option<(usize, usize)> {
    let align = if bytes >= HUGE_BYTES { HUGE_BYTES } else { page_bytes() };
    Some((align, bytes.checked_next_multiple_of(align)?))
}

/// Bytes of a page.
fn page_bytes() -> usize {
    // SAFETY: the call only returns a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
