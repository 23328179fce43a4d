//! Memory on systems without the system calls for secrets and mapped files.

use core::ptr::NonNull;
use std::{
    fs::File,
    io::{self, Read, Seek},
};

/// Asks for huge pages.
pub(super) fn advise_huge(_: NonNull<u8>, _: usize) {}

/// Pages for secrets.
pub(super) fn map(_: usize) -> Option<NonNull<u8>> {
    None
}

/// Returns pages to the system.
///
/// # Safety
/// [`map`] returns `None`, so no caller can have such pages.
pub(super) unsafe fn unmap(_: NonNull<u8>, _: usize) {}

/// Returns `false`: no system call zeroes pages in forked processes.
pub(super) fn wipe_on_fork(_: NonNull<u8>, _: usize) -> bool {
    false
}

/// The bytes of a file, read into memory.
pub(super) struct FileBytes(Vec<u8>);

impl FileBytes {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        let mut file = file;
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns `true`: the bytes stay in memory.
    pub(super) fn is_intact(&self) -> bool {
        true
    }
}
