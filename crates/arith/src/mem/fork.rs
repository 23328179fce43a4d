//! Detection of forks: identifies the current process among processes forked from each other.

use super::system;
use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

/// A word that the system resets to zero in a forked process.
static MARK: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// The last value written there, by this process or by an ancestor.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Returns a number that differs between a forked process and its parent.
pub(super) fn generation() -> u64 {
    let Some(mark) = mark() else { return process() };
    match mark.load(Ordering::Acquire) {
        // The system wiped the page at a fork: this process needs a number of its own.
        0 => {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            // Another thread may be first. All threads must agree on one number.
            let first = mark.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
            first.map_or_else(|other| other, |_| next)
        }
        current => current,
    }
}

/// Returns the process id. WebAssembly has one process, which cannot fork and has no id.
fn process() -> u64 {
    if cfg!(target_family = "wasm") { 0 } else { std::process::id().into() }
}

/// Returns the word, if the system wipes pages in forked processes. Takes no lock: a forked process
/// might find it held for ever.
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
                // SAFETY: mapped above with this size, and no other code knows it.
                unsafe { system::unmap(own, BYTES) };
                refused?.err()?
            }
        };
    }
    // SAFETY: pages of zeros or of such a number, which are never unmapped.
    Some(unsafe { &*mark })
}
