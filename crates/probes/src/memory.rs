//! Searches the memory of this process through the system.

use crate::valgrind;
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

/// Bytes of memory to read at a time.
const PART: usize = 1 << 20;

/// Returns the addresses of `pattern` in the memory of this process. They include the pattern
/// itself and the caller's copies.
///
/// # Errors
/// Errors from the system.
pub fn find(pattern: &[u8]) -> std::io::Result<Vec<u64>> {
    let memory = File::open("/proc/self/mem")?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    // Longer than a part, so that a match across the border of two parts is found.
    let mut part = vec![0; PART + pattern.len()];
    // The buffer holds copies of the memory that it reads. They do not count.
    let own = part.as_ptr() as u64..part.as_ptr() as u64 + part.len() as u64;
    let mut found = Vec::new();
    for (start, end) in maps.lines().filter_map(bounds) {
        let mut at = start;
        while at < end {
            let length = part.len().min((end - at) as usize);
            // Regions that cannot be read are skipped.
            let read = memory.read_at(&mut part[..length], at).unwrap_or(0);
            let places = matches(&part[..read], pattern).map(|place| at + place as u64);
            found.extend(places.filter(|place| !own.contains(place)));
            at += PART as u64;
        }
    }
    // Leaves no copies of the memory behind.
    part.fill(0);
    std::hint::black_box(&part);
    Ok(found)
}

/// Marks `bytes` bytes at an address from [`find`] as secret for Valgrind.
pub fn hide_at(place: u64, bytes: usize) {
    valgrind::hide_range(place as usize, bytes);
}

/// Returns the addresses of a readable and writable region.
fn bounds(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    // Secrets are in memory that was written. Code and mapped files would only cost time.
    rest.starts_with("rw").then_some((address(start)?, address(end)?))
}

/// Returns the offsets of `pattern` that start in the first `PART` bytes.
fn matches<'a>(bytes: &'a [u8], pattern: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = pattern.first().copied().unwrap_or(0);
    let candidates = bytes.iter().take(PART).enumerate().filter(move |(_, byte)| **byte == first);
    candidates.map(|(at, _)| at).filter(move |&at| bytes[at..].starts_with(pattern))
}
