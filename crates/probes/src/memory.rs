//! The memory of this process, as the system shows it.

use crate::valgrind;
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

/// Part of the memory that is read at a time.
const PART: usize = 1 << 20;

/// Where `pattern` is in the memory of this process. The pattern itself is found, and so is what
/// the caller holds of it.
///
/// # Errors
/// Those of the system.
pub fn find(pattern: &[u8]) -> std::io::Result<Vec<u64>> {
    let memory = File::open("/proc/self/mem")?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    let mut part = vec![0; PART + pattern.len()];
    let own = part.as_ptr() as u64..part.as_ptr() as u64 + part.len() as u64;
    let mut found = Vec::new();
    for (start, end) in maps.lines().filter_map(bounds) {
        let mut at = start;
        while at < end {
            let length = part.len().min((end - at) as usize);
            // What cannot be read is not memory.
            let read = memory.read_at(&mut part[..length], at).unwrap_or(0);
            let places = matches(&part[..read], pattern).map(|place| at + place as u64);
            found.extend(places.filter(|place| !own.contains(place)));
            at += PART as u64;
        }
    }
    // Copies of what was read stay nowhere.
    part.fill(0);
    std::hint::black_box(&part);
    Ok(found)
}

/// Tells Valgrind that so many bytes at a place that [`find`] gave are secret.
pub fn hide_at(place: u64, bytes: usize) {
    valgrind::hide_range(place as usize, bytes);
}

/// Addresses of memory that is read and written.
fn bounds(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    rest.starts_with("rw").then_some((address(start)?, address(end)?))
}

/// Where `pattern` begins in the first `PART` bytes.
fn matches<'a>(bytes: &'a [u8], pattern: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = pattern.first().copied().unwrap_or(0);
    let candidates = bytes.iter().take(PART).enumerate().filter(move |(_, byte)| **byte == first);
    candidates.map(|(at, _)| at).filter(move |&at| bytes[at..].starts_with(pattern))
}
