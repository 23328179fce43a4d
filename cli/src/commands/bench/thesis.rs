//! What Han's thesis prints of bootstrapping exact ciphertexts and of removing digits, to stand
//! beside ours.

use serde::Serialize;

/// A row of Table 3.4 or 3.5, on one core as it seems.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Refreshed {
    /// Products one after the other, of a fresh ciphertext.
    pub levels_before: u32,
    /// And of a refreshed one.
    pub levels_left: u32,
    pub seconds: f64,
    /// Before the first bootstrapping.
    pub prepare_s: f64,
    pub memory_gb: f64,
    /// Bits of security as printed there, by an estimator of its time.
    pub security_bits: f64,
    pub table: &'static str,
}

/// The row for a set of this name.
pub(super) fn refreshed(set: &str) -> Option<Refreshed> {
    const FULL: &str = "Han, Table 3.4";
    const SLIM: &str = "Han, Table 3.5";
    let row = |table, security_bits, [levels_before, levels_left]: [u32; 2], rest: [f64; 3]| {
        let [seconds, memory_gb, prepare_s] = rest;
        Refreshed {
            levels_before,
            levels_left,
            seconds,
            prepare_s,
            memory_gb,
            security_bits,
            table,
        }
    };
    Some(match set {
        "bfv-thesis-full-127" => row(FULL, 92.9, [24, 7], [2027.0, 8.9, 193.0]),
        "bfv-thesis-full-257" => row(FULL, 92.9, [22, 4], [1381.0, 7.5, 242.0]),
        "n15-t127-2-full" => row(FULL, 126.2, [32, 12], [21295.0, 27.6, 658.0]),
        "n15-t257-2-full" => row(FULL, 126.2, [23, 6], [11753.0, 26.6, 732.0]),
        "bfv-thesis-slim-127" => row(SLIM, 92.9, [23, 10], [6.75, 2.0, 57.0]),
        "n15-t127-2-boot" => row(SLIM, 126.2, [25, 11], [30.2, 2.0, 59.0]),
        "n15-t127-3-boot" => row(SLIM, 126.2, [20, 6], [34.5, 8.9, 257.0]),
        "bfv-thesis-slim-257" => row(SLIM, 92.9, [22, 7], [10.8, 2.0, 59.0]),
        "n15-t257-boot" => row(SLIM, 126.2, [31, 15], [36.8, 7.4, 207.0]),
        "n15-t257-2-boot" => row(SLIM, 126.2, [23, 7], [42.1, 7.4, 196.0]),
        _ => return None,
    })
}

/// A row of Table 3.3: its own method, and the one that it was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Removed {
    pub seconds: f64,
    pub levels_before: u32,
    pub levels_left: u32,
    /// Seconds of Halevi and Shoup's procedure, as HElib had it.
    pub helib_seconds: f64,
    pub helib_levels_left: u32,
    pub table: &'static str,
}

/// Sizes of Table 3.3: removal of the `v` lowest digits of integers modulo `p^e`.
pub(super) const REMOVALS: [(u64, u32, u32); 6] =
    [(2, 11, 5), (2, 21, 13), (5, 6, 3), (17, 4, 2), (31, 3, 1), (127, 3, 1)];

/// The row for the sizes `(p, e, v)`.
pub(super) fn removed(sizes: (u64, u32, u32)) -> Option<Removed> {
    // Seconds and levels left, theirs first.
    let rows = [
        (23, [15.0, 16.0], [3, 10]),
        (56, [264.0, 239.0], [16, 22]),
        (39, [49.5, 30.0], [5, 13]),
        (38, [61.2, 35.5], [5, 14]),
        (32, [26.3, 12.13], [8, 18]),
        (42, [73.2, 38.0], [3, 20]),
    ];
    let row = REMOVALS.iter().position(|&row| row == sizes)?;
    let (levels_before, [helib_seconds, seconds], [helib_levels_left, levels_left]) = rows[row];
    Some(Removed {
        seconds,
        levels_before,
        levels_left,
        helib_seconds,
        helib_levels_left,
        table: "Han, Table 3.3",
    })
}
