//! Memory where no system call is known for what is asked.

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

/// Gives pages back.
///
/// # Safety
/// As [`map`] returns none, nobody can call it.
pub(super) unsafe fn unmap(_: NonNull<u8>, _: usize) {}

/// Whether forked processes find these pages zero.
pub(super) fn wipe_on_fork(_: NonNull<u8>, _: usize) -> bool {
    false
}

/// The bytes of a file, read.
pub(super) struct FileBytes(Vec<u8>);

impl FileBytes {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        let (mut file, mut bytes) = (file, Vec::new());
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// They stay in memory.
    pub(super) fn is_intact(&self) -> bool {
        true
    }
}
