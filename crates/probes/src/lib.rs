//! Tools for tests that observe a process from outside: forks, its memory, and Valgrind's analysis
//! of secrets. Shipped code does not use this crate.
#![cfg(target_os = "linux")]

pub mod memory;
pub mod valgrind;

use std::{fs::File, io::Read, os::fd::FromRawFd};

/// Runs `f` in a fork of this process and returns its text. `f` must not wait for other threads,
/// which the fork does not have.
///
/// # Panics
/// If the system refuses a process.
#[must_use]
pub fn in_child(f: impl FnOnce() -> String) -> String {
    let mut ends = [0; 2];
    // SAFETY: `pipe` writes two descriptors, and either process owns each of them once. The child
    // ends here, without the handlers of this process.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        match libc::fork() {
            0 => {
                let found = f();
                libc::write(ends[1], found.as_ptr().cast(), found.len());
                // Not `exit`, which would run the parent's handlers and flush its buffers a second
                // time.
                libc::_exit(0)
            }
            child => {
                assert!(child > 0, "the system refuses a process");
                // The end of the child's text shows only when no process has this end open.
                libc::close(ends[1]);
                let mut found = String::new();
                let read = File::from_raw_fd(ends[0]).read_to_string(&mut found);
                libc::waitpid(child, core::ptr::null_mut(), 0);
                assert!(read.is_ok(), "{read:?}");
                found
            }
        }
    }
}
