//! Which process this is, of those that were forked from each other.

use super::system;
use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

/// A word that is zero again in a forked process.
static MARK: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// What was written there last, here or in a process that this one comes from.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A number that a forked process does not share with the one that it was forked from.
pub(super) fn generation() -> u64 {
    let Some(mark) = mark() else { return process() };
    match mark.load(Ordering::Acquire) {
        0 => {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            let first = mark.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
            first.map_or_else(|other| other, |_| next)
        }
        current => current,
    }
}

/// The number of the process; in WebAssembly there is one, which cannot fork and has no number.
fn process() -> u64 {
    if cfg!(target_family = "wasm") { 0 } else { std::process::id().into() }
}

/// The word, if the system wipes pages in forked processes. No lock is held, which such a process
/// might find held for ever.
fn mark() -> Option<&'static AtomicU64> {
    const BYTES: usize = size_of::<AtomicU64>();
    let mut mark = MARK.load(Ordering::Acquire);
    if mark.is_null() {
        let own = system::map(BYTES)?;
        let start = own.cast::<AtomicU64>().as_ptr();
        let wiped = system::wipe_on_fork(own, BYTES);
        let order = Ordering::AcqRel;
        let first = || MARK.compare_exchange(ptr::null_mut(), start, order, Ordering::Acquire);
        mark = match wiped.then(first) {
            Some(Ok(_)) => start,
            refused => {
                // SAFETY: mapped above with this size, and nobody else knows it.
                unsafe { system::unmap(own, BYTES) };
                refused?.err()?
            }
        };
    }
    // SAFETY: pages of zeros or of such a number, which are never unmapped.
    Some(unsafe { &*mark })
}
