//! Disk space: a reserve that stays free, and a ballast for emergencies.
//!
//! A full disk would reject the operations that free it, since a removal is recorded before it is done, and
//! so is a start. So the server rejects uploads and new jobs while less than the reserve is free. It
//! removes the ballast, a file of some megabytes, when it cannot even write records.

use crate::problem::{Answer, Problem};
use axum::http::StatusCode;
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};
use sudare_roles::text::size;

/// Default reserve: the smaller of these bytes and this part of the disk.
// Other programs of the machine write to the disk, too.
const RESERVE_BYTES: u64 = 1 << 30;
const RESERVE_PART: u64 = 20;
/// Size of the ballast: the smaller of these bytes and this part of the disk.
// Room for the log of the records while tenants delete objects.
const BALLAST_BYTES: u64 = 16 << 20;
const BALLAST_PART: u64 = 32;
/// Free bytes that a server needs to start. Its records need them for a moment.
const START_BYTES_FREE: u64 = 256 << 10;
/// Bytes of the ballast that are written at a time.
const WRITTEN_AT_ONCE: usize = 1 << 16;

/// Space of a disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Space {
    free: u64,
    all: u64,
}

/// Returns the space of the disk with a directory, where the system provides it.
fn space(folder: &Path) -> Option<Space> {
    #[cfg(unix)]
    {
        let found = rustix::fs::statvfs(folder).ok()?;
        // `statvfs` counts in units of `f_frsize`. `f_bavail` leaves out root's part.
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(Space { free: bytes(found.f_bavail), all: bytes(found.f_blocks) })
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

/// The disk of a server.
pub struct Disk {
    folder: PathBuf,
    reserve: Option<u64>,
    ballast: Ballast,
}

impl Disk {
    /// Returns the disk with a directory, on which `reserve` bytes stay free. Default: a gibibyte, or a
    /// twentieth of a smaller disk.
    #[must_use]
    pub fn of(folder: &Path, reserve: Option<u64>) -> Self {
        Self { folder: folder.into(), reserve, ballast: Ballast::of(folder) }
    }

    fn reserve(&self, space: Space) -> u64 {
        self.reserve.unwrap_or_else(|| RESERVE_BYTES.min(space.all / RESERVE_PART))
    }

    /// Checks that `more` bytes leave the reserve free.
    ///
    /// # Errors
    /// A [`Problem`] of 507.
    pub fn expect_room(&self, more: u64) -> Answer<()> {
        // If the system does not tell, only failed writes show that the disk is full.
        let Some(space) = space(&self.folder) else { return Ok(()) };
        let reserve = self.reserve(space);
        if space.free >= reserve.saturating_add(more) {
            return Ok(());
        }
        let detail = format!(
            "the server has {} of its disk left and keeps {} free: remove objects that you no longer need, \
             or try again later",
            size::bytes(space.free),
            size::bytes(reserve)
        );
        Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, "StorageFull", detail))
    }

    /// Writes the ballast again, if it is gone and there is room besides the reserve.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn restore_ballast(&self) -> io::Result<()> {
        let Some(space) = space(&self.folder) else { return Ok(()) };
        let bytes = BALLAST_BYTES.min(space.all / BALLAST_PART);
        let is_there = self.ballast.bytes() >= bytes;
        // Only beyond the reserve. Otherwise the ballast would take the room that it gave.
        if is_there || space.free < self.reserve(space).saturating_add(bytes) {
            return Ok(());
        }
        self.ballast.write(bytes)
    }
}

/// A file that occupies space until the space is needed.
pub struct Ballast(PathBuf);

impl Ballast {
    /// Returns the ballast of the server in a directory.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        Self(folder.join("ballast"))
    }

    fn bytes(&self) -> u64 {
        self.0.metadata().map_or(0, |found| found.len())
    }

    /// Writes bytes without a pattern, which no file system can compress.
    fn write(&self, bytes: u64) -> io::Result<()> {
        let mut random = blake3::Hasher::new().finalize_xof();
        let mut file = File::create(&self.0)?;
        let mut left = bytes;
        let mut part = vec![0; WRITTEN_AT_ONCE];
        while left > 0 {
            let count = left.min(part.len() as u64);
            let part = part.get_mut(..count as usize).unwrap_or_default();
            random.read_exact(part)?;
            file.write_all(part)?;
            left = left.saturating_sub(count);
        }
        // A file system that allocates late would not take up the space yet.
        file.sync_all()
    }

    /// Removes the file. Returns whether it freed any space.
    #[must_use]
    pub fn give_up(&self) -> bool {
        // Only a file with bytes frees space and justifies another attempt.
        let bytes = self.bytes();
        let freed = fs::remove_file(&self.0).is_ok() && bytes > 0;
        if freed {
            tracing::warn!(bytes, "the disk is full: the ballast is removed");
        }
        freed
    }

    /// Removes the file if there is too little space to start.
    pub fn release_to_start(&self) {
        let folder = self.0.parent().unwrap_or(Path::new("."));
        if space(folder).is_some_and(|space| space.free < START_BYTES_FREE) {
            let _ = self.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_stays_free() {
        let folder = tempfile::tempdir().unwrap();
        let none = Disk::of(folder.path(), Some(0));
        let all = Disk::of(folder.path(), Some(u64::MAX));
        none.expect_room(0).unwrap();
        none.expect_room(u64::MAX).unwrap_err();
        let refused = all.expect_room(0).unwrap_err();
        assert_eq!((refused.status.as_u16(), &refused.kind[..]), (507, "StorageFull"));
        // The reserve is a part of a small disk, and a gibibyte of a large one.
        let reserve = |all| Disk::of(folder.path(), None).reserve(Space { free: 0, all });
        assert_eq!((reserve(2000), reserve(1 << 40)), (100, 1 << 30));
    }

    #[test]
    fn the_ballast_is_given_up_once_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::of(folder.path(), Some(0));
        let full = Disk::of(folder.path(), Some(u64::MAX));
        let path = folder.path().join("ballast");
        full.restore_ballast().unwrap();
        assert!(!path.exists() && !disk.ballast.give_up());
        disk.restore_ballast().unwrap();
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.is_empty() && bytes.len() as u64 <= BALLAST_BYTES);
        // The bytes are as good as random: no byte is much more frequent than the others.
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        assert!(zeros < bytes.len() / 128, "{zeros} of {}", bytes.len());
        disk.ballast.release_to_start();
        assert!(path.exists() && disk.ballast.give_up() && !disk.ballast.give_up());
        disk.restore_ballast().unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}
