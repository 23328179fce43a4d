//! What a planned job takes of a server, before any key is read.

use crate::error::Result;
use sudare::{
    circuits::cost::{Rates, Work},
    ckks::Params,
    rlwe::{KeyRequest, Level},
};
use sudare_apps::stats::Cost;

/// What a process takes beside keys and ciphertexts: its code, tables of primes, buffers.
const OWN_BYTES: u64 = 48 << 20;
/// Ciphertexts of the top level that operations under way have room for on each thread.
const UNDER_WAY: u64 = 6;
/// Most bytes of rows that a training computes with at a time. As many more are read meanwhile: with
/// more, computing begins later, and memory is not used again.
pub(crate) const MOST_SHARE_BYTES: u64 = 1 << 30;
/// Groups of rows that are in memory at once to be scored.
pub(crate) const GROUPS_AT_ONCE: usize = 8;

/// What a job takes of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// What it computes.
    pub work: Work,
    /// Bytes of memory: keys, the ciphertexts that are held at a time, and those under way.
    pub memory_bytes: u64,
    log_n: u32,
}

impl Price {
    /// Of `work` with these keys, which holds so many bytes of tables and results at a time.
    ///
    /// # Errors
    /// [`Error::Library`](crate::error::Error::Library) for keys that the parameters do not have.
    pub(crate) fn new(
        params: &Params,
        keys: &KeyRequest,
        work: Work,
        held_bytes: u64,
        threads: usize,
    ) -> Result<Self> {
        let under_way = UNDER_WAY
            .saturating_mul(ciphertext_bytes(params, params.top()))
            .saturating_mul(threads as u64);
        let memory_bytes = keys
            .bytes(params.rlwe())?
            .saturating_add(held_bytes)
            .saturating_add(under_way)
            .saturating_add(OWN_BYTES);
        Ok(Self { work, memory_bytes, log_n: params.log_n() })
    }

    /// Of statistics, whose table is read at once.
    ///
    /// # Errors
    /// As [`Price::new`].
    pub(crate) fn of_statistics(
        params: &Params,
        keys: &KeyRequest,
        cost: Cost,
        threads: usize,
    ) -> Result<Self> {
        let held = cost.input_bytes.saturating_add(cost.output_bytes);
        Self::new(params, keys, cost.work, held, threads)
    }

    /// About the seconds that it takes on so many threads of the machine that
    /// [`Rates::reference`] knows.
    #[must_use]
    pub fn seconds(&self, threads: usize) -> f64 {
        self.work.seconds(&Rates::reference(self.log_n)) / threads.max(1) as f64
    }
}

/// Bytes in memory of a ciphertext.
pub(crate) fn ciphertext_bytes(params: &Params, level: Level) -> u64 {
    16 * ((params.rlwe().limbs(level).q() as u64) << params.log_n())
}
