//! Predicts the cost of a planned job on a server, before any key is read.

use crate::error::Result;
use sudare::{
    circuits::ckks::cost::{Rates, Work},
    ckks::Params,
    rlwe::KeyRequest,
};
use sudare_apps::ciphertext_bytes;

/// Memory of a process besides keys and ciphertexts: code, tables of primes and buffers.
const OWN_BYTES: u64 = 48 << 20;
/// Number of top-level ciphertexts in flight on each thread.
const UNDER_WAY: u64 = 6;
/// Maximum bytes of rows in one share of a training. The next share, of the same size, is read
/// during the computation. Larger shares would delay the start and use the memory only once.
pub(crate) const MAX_SHARE_BYTES: u64 = 1 << 30;
/// Number of row groups in memory at once for scoring.
pub(crate) const GROUPS_AT_ONCE: usize = 8;

/// The cost of a job on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Operations of the computation.
    pub work: Work,
    /// Bytes of memory: keys, the ciphertexts held at a time, and ciphertexts in flight.
    pub memory_bytes: u64,
    log_n: u32,
}

impl Price {
    /// Prices `work` with these keys. `held_bytes` is the size of the tables and results held at a
    /// time.
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
        // Labels of strangers determine these sizes, so no sum may overflow.
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

    /// Returns the predicted seconds on `threads` threads of the machine of [`Rates::reference`].
    #[must_use]
    pub fn seconds(&self, threads: usize) -> f64 {
        // At least one thread: a price of 0 threads would be infinite.
        self.work.seconds(&Rates::reference(self.log_n)) / threads.max(1) as f64
    }
}
