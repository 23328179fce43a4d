//! Packing of the values of a table in ciphertexts, and the parts common to all plans.

use core::{iter::repeat_n, ops::RangeInclusive};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use sudare::{
    circuits::ckks::{ComplexOps, sim},
    ckks::{
        Ciphertext, Encoder, Encryptor, Params, ProductSum, Release, Scale, Spec,
        planner::{self, FAST_BITS, RINGS, Room},
        serial::Shape,
    },
    rlwe::{KeyRequest, Level},
};
use sudare_arith::{par, prng::Seed, real};
use sudare_table::Table;

use super::{ColumnScaling, MAX_SHARED_BITS, ROOM_BITS, Result, StatsError};
use crate::{
    Slots,
    release::{DECODING_ERROR, precise_params},
};

/// `log2` of the scale of powers and products of columns. Sums of up to `2^10` rows then fit a
/// level 0 of one prime of the fast kernels. Values have 23 bits.
pub(super) const LOG2_SCALE: f64 = 38.0;

/// Maximum bits of a prime of a level. Special primes have 50 bits, because a digit of several
/// primes needs the same number of special primes.
pub(super) const PRIME_BITS: f64 = 46.0;

/// Maximum number of rows of a job.
const MAX_ROWS: u128 = 1 << 24;
/// Maximum number of columns of a job. The owner's matrices of pairs then have 8 MiB each.
const MAX_FEATURES: u128 = 1 << 10;
/// Maximum number of cells of a job. A cell takes about 128 bytes of ciphertext.
const MAX_CELLS: u128 = 1 << 26;
/// Maximum number of ciphertexts of a table's statistics, which a server holds together. Where a column
/// fills ciphertexts of its own, every pair of columns has one: 358 columns stay below this number.
const MAX_RESULTS: u128 = 1 << 16;
/// Maximum number of ciphertexts of a table. Secure rings have enough slots to stay below this
/// number even for the maximum number of cells. A plan iterates over the ciphertexts of a column.
const MAX_CIPHERTEXTS: u128 = 1 << 16;

/// The shape of the table, which is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Maximum number of rows.
    pub rows: usize,
    /// Number of columns, without the target.
    pub features: usize,
}

impl Job {
    /// Returns the shape of `table`.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        Self { rows: table.rows(), features: table.features() }
    }

    pub(super) fn check(self) -> Result<()> {
        let Self { rows, features } = self;
        if rows == 0 || features == 0 {
            return Err(StatsError::Empty { rows, features });
        }
        let rows = rows as u128;
        let features = features as u128;
        for (what, found, limit) in [
            ("rows", rows, MAX_ROWS),
            ("columns", features, MAX_FEATURES),
            ("cells", rows * features, MAX_CELLS),
        ] {
            if found > limit {
                return Err(StatsError::TooLarge { what, found, limit });
            }
        }
        Ok(())
    }

    /// Rejects a table of more rows, and a table or scalings of other columns.
    pub(super) fn check_table(self, table: &Table, scalings: &[ColumnScaling]) -> Result<()> {
        check_rows(table.rows(), self.rows)?;
        check_shape("columns", table.features(), self.features)?;
        self.check_scalings(scalings)
    }

    /// Rejects scalings of other columns.
    pub(super) fn check_scalings(self, scalings: &[ColumnScaling]) -> Result<()> {
        let check = |scaling: &ColumnScaling| {
            check_shape("scaled columns", scaling.features(), self.features)
        };
        scalings.iter().try_for_each(check)
    }
}

/// Places of values in ciphertexts.
///
/// A column with at most one row per slot fills one block, a power of two of slots. A ciphertext
/// holds several blocks, one column each, which form a *group*. A longer column fills several
/// ciphertexts, its *chunks*, and is a group of its own. Unused slots are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    pub features: usize,
    /// Slots of a column in one ciphertext.
    pub block: usize,
    /// Blocks of a ciphertext.
    pub blocks: usize,
    /// Ciphertexts of a column.
    pub chunks: usize,
}

impl Packing {
    pub fn new(job: Job, slots: usize) -> Self {
        let block = job.rows.next_power_of_two().min(slots);
        let chunks = job.rows.div_ceil(slots);
        Self { features: job.features, block, blocks: slots / block, chunks }
    }

    /// Returns the number of rows, including padding.
    pub fn padded_rows(&self) -> u128 {
        self.block as u128 * self.chunks as u128
    }

    pub fn groups(&self) -> usize {
        self.features.div_ceil(self.blocks)
    }

    /// Returns the number of columns in `group`.
    pub fn columns(&self, group: usize) -> usize {
        self.blocks.min(self.features - group * self.blocks)
    }

    /// Returns the column in block `block` of `group`, if there is one.
    pub fn column(&self, group: usize, block: usize) -> Option<usize> {
        (block < self.columns(group)).then_some(group * self.blocks + block)
    }

    /// Returns whether the products of group `a` and group `b`, shifted by `shift` blocks, are
    /// needed to cover all pairs of columns. Within a group, a shift covers pairs of both distances
    /// `shift` and `blocks - shift`. Between groups every shift is needed, since `a` is full.
    pub fn is_needed(&self, a: usize, b: usize, shift: usize) -> bool {
        a != b || (1..self.columns(b)).contains(&shift) && shift <= self.blocks / 2
    }

    /// Returns the slots of a ciphertext of the table.
    pub fn all(&self) -> usize {
        self.block * self.blocks
    }

    /// Returns the ciphertexts of the table, in order of groups, and of chunks within a group.
    pub fn ciphertexts(&self) -> usize {
        self.groups() * self.chunks
    }

    /// Returns the shapes of these ciphertexts.
    pub fn shapes(&self, level: Level, scale: Scale) -> impl Iterator<Item = Shape> + use<> {
        let log_slots = self.all().ilog2();
        repeat_n(Shape { level, scale, log_slots }, self.ciphertexts())
    }

    /// Returns the slots of ciphertext `index`. `slot` returns the slot for the row, the column and
    /// the value of each cell. Rows that a column lacks get `padding`.
    pub fn slots(
        &self,
        table: &Table,
        index: usize,
        slot: impl Fn(usize, usize, f64) -> f64,
        padding: f64,
    ) -> Vec<f64> {
        let Self { block, chunks, features, .. } = *self;
        let group = index / chunks;
        let chunk = index % chunks;
        let mut slots = vec![padding; self.all()];
        for (place, slots) in slots.chunks_exact_mut(block).enumerate() {
            let Some(column) = self.column(group, place) else { break };
            let cells = table.values()[column..].iter().step_by(features).enumerate();
            for (filled, (row, &x)) in slots.iter_mut().zip(cells.skip(chunk * block)) {
                *filled = slot(row, column, x);
            }
        }
        slots
    }

    /// Returns the number of places that are read from a decrypted output.
    fn places(&self, slots: usize) -> usize {
        self.features.min(slots / self.block)
    }

    /// Returns the largest error of a value that can be shared to `bits` bits, for outputs with
    /// these slots.
    pub fn largest_shared_error(&self, outputs: impl Iterator<Item = usize>, bits: u32) -> f64 {
        let values = outputs.map(|slots| self.places(slots)).sum();
        Release::default().largest_error(values, bits)
    }

    /// Prepares decrypted outputs, sums over `rows` rows, for people other than the key's owner.
    /// Each sum is divided by the rows, noise from a seed is added, and the result is rounded to
    /// `bits` bits after the point. `largest_error` bounds the errors of these quotients.
    ///
    /// # Errors
    /// [`StatsError::SharedBits`]; [`StatsError::Library`] with `TooLittlePrecision`.
    pub fn share(
        &self,
        slots: &[Vec<f64>],
        rows: usize,
        largest_error: f64,
        (bits, noise): (u32, &Seed),
    ) -> Result<Vec<Vec<f64>>> {
        check_shared_bits(bits)?;
        let rows = rows as f64;
        let mut values = Vec::new();
        for slots in slots {
            let sums = slots.iter().step_by(self.block).take(self.places(slots.len()));
            values.extend(sums.map(|sum| sum / rows));
        }
        let shared = Release::default().values(&values, largest_error, bits, noise)?;
        let mut shared = shared.into_iter();
        let hidden = |slots: &Vec<f64>| {
            let mut hidden = vec![0.0; slots.len()];
            let places = hidden.iter_mut().step_by(self.block).take(self.places(slots.len()));
            places.zip(&mut shared).for_each(|(slot, value)| *slot = value * rows);
            hidden
        };
        Ok(slots.iter().map(hidden).collect())
    }

    /// Returns a sum over `rows` rows of scaled values, from block `place` of a decrypted output.
    pub fn sum(&self, slots: &[Vec<f64>], output: usize, place: usize, rows: usize) -> Result<f64> {
        let found = slots[output][place * self.block];
        // An error of a hundredth is far beyond the errors of encryption.
        if found.abs() <= 1.01 * rows as f64 {
            Ok(found)
        } else {
            Err(StatsError::OutOfRange { output, rows, found })
        }
    }
}

/// Encrypts slots. `progress` is called with the number of finished ciphertexts after each, from
/// any thread.
pub(super) fn encrypt(
    params: &Params,
    encryptor: &Encryptor,
    all: impl Iterator<Item = Slots>,
    progress: impl Fn(usize) + Send + Sync,
) -> Result<Vec<Ciphertext>> {
    let encoder = Encoder::new(params);
    let done = AtomicUsize::new(0);
    par::try_map(all.collect::<Vec<_>>(), |(slots, level, scale)| {
        let ciphertext = encryptor.encrypt(&encoder.encode_real_at(&slots, level, scale)?)?;
        progress(1 + done.fetch_add(1, Relaxed));
        Ok(ciphertext)
    })
}

/// Returns the sum of one or more ciphertexts.
pub(super) fn total<'a, E: ComplexOps>(
    e: &E,
    xs: impl IntoIterator<Item = &'a E::Ct>,
) -> sudare::Result<E::Ct>
where
    E::Ct: 'a,
{
    let mut xs = xs.into_iter();
    let nothing = || sudare::Error::Circuit("sum: at least one ciphertext is needed".into());
    let first = xs.next().ok_or_else(nothing)?.clone();
    xs.try_fold(first, |sum, x| e.add(&sum, x))
}

/// Returns the sum of the products of pairs, rescaled.
pub(super) fn product<'a, E: ComplexOps>(
    e: &E,
    xs: impl IntoIterator<Item = &'a E::Ct>,
    ys: impl IntoIterator<Item = &'a E::Ct>,
) -> sudare::Result<E::Ct>
where
    E::Ct: 'a,
{
    e.mul_sum_rescale(&ProductSum { products: xs.into_iter().zip(ys).collect(), addend: None })
}

/// Rejects a table of more ciphertexts than a job in a secure ring can have.
pub(super) fn check_ciphertexts(found: u128) -> Result<()> {
    let what = "ciphertexts";
    let limit = MAX_CIPHERTEXTS;
    if found > limit { Err(StatsError::TooLarge { what, found, limit }) } else { Ok(()) }
}

/// Rejects columns whose statistics have more ciphertexts than a server can hold together. `results`
/// returns their number for a number of columns.
pub(super) fn check_results(features: usize, results: impl Fn(usize) -> u128) -> Result<()> {
    if results(features) <= MAX_RESULTS {
        return Ok(());
    }
    let fits = |features: &usize| results(*features) <= MAX_RESULTS;
    let limit = (1..features).take_while(fits).last().unwrap_or(0) as u128;
    Err(StatsError::TooLarge { what: "columns of this length", found: features as u128, limit })
}

/// Rejects a count that no job can have.
pub(super) fn check_count(
    what: &'static str,
    found: usize,
    possible: RangeInclusive<usize>,
) -> Result<()> {
    let needed = *possible.start();
    let limit = *possible.end() as u128;
    match found {
        _ if found < needed => Err(StatsError::TooFew { what, found, needed }),
        _ if possible.contains(&found) => Ok(()),
        _ => Err(StatsError::TooLarge { what, found: found as u128, limit }),
    }
}

fn check_shared_bits(bits: u32) -> Result<()> {
    match bits {
        1..=MAX_SHARED_BITS => Ok(()),
        found => Err(StatsError::SharedBits { found }),
    }
}

/// Rejects more rows than planned, and an empty table.
pub(super) fn check_rows(found: usize, most: usize) -> Result<()> {
    if (1..=most).contains(&found) { Ok(()) } else { Err(StatsError::Rows { found, most }) }
}

pub(super) fn check_shape(what: &'static str, found: usize, needed: usize) -> Result<()> {
    if found == needed { Ok(()) } else { Err(StatsError::Shape { what, found, needed }) }
}

/// Facts that a plan learns from a simulation of sums of each kind.
#[derive(Debug, Clone, Default)]
pub struct Learnt {
    pub request: KeyRequest,
    /// A bound of the errors of the quotients of sums by the number of rows.
    pub largest_error: f64,
    /// Level and scale of each of the sums.
    pub shapes: Vec<(Level, Scale)>,
    /// A bound of the error of each sum.
    errors: Vec<f64>,
    /// Number of operations simulated.
    #[cfg(test)]
    pub operations: u64,
}

impl Learnt {
    pub fn of(e: &sim::Evaluator, sums: &[sim::Ciphertext], rows: usize) -> Self {
        let rows = rows as f64;
        // A sum may be as large as the number of rows, and decoding errors grow with it.
        let error = |sum: &sim::Ciphertext| sum.worst.largest_error() + rows * DECODING_ERROR;
        let errors: Vec<f64> = sums.iter().map(error).collect();
        Self {
            request: e.used_keys(),
            largest_error: errors.iter().copied().fold(0.0, f64::max) / rows,
            shapes: sums.iter().map(|sum| (sum.level, sum.scale)).collect(),
            errors,
            #[cfg(test)]
            operations: {
                let counts = e.counts();
                counts.products + counts.constant_products + counts.automorphisms
            },
        }
    }

    /// Returns bounds of the errors of the sums over `rows` planned rows, either as decrypted or as
    /// shared to some bits.
    pub fn errors(&self, rows: usize, shared_bits: Option<u32>) -> Vec<f64> {
        let Some(bits) = shared_bits else { return self.errors.clone() };
        // Noise of 8 deviations and rounding are half of `2^-bits` each
        // (docs/notes/release-noise.md).
        let shared = real::powi(2.0, -bits.cast_signed()) + self.largest_error;
        vec![rows as f64 * shared; self.errors.len()]
    }
}

/// Finds parameters with scales that are large enough for sharing. `propose` makes them for a
/// `log2` of the scale. `errors` returns the largest error of a value to share, and the largest
/// error that sharing allows.
pub(super) fn shared_params(
    log2_scale: f64,
    bits: u32,
    propose: impl Fn(f64) -> Result<Params>,
    errors: impl Fn(&Params) -> Result<(f64, f64)>,
) -> Result<Params> {
    check_shared_bits(bits)?;
    precise_params(log2_scale, bits, propose, errors)
}

/// Returns the parameters of the smallest ring at 128 bits of security. They have a level 0 for
/// sums of all rows at `2^log2_scale`, `depth` levels of that size, and `special` primes of 50 bits
/// for each prime of a level.
///
/// # Errors
/// Errors for a job out of range; [`StatsError::Library`] if no ring is large enough.
pub(super) fn smallest_params(
    job: &Job,
    log2_scale: f64,
    depth: u32,
    special: usize,
) -> Result<Params> {
    job.check()?;
    let primes = |bits: f64| planner::level(bits, PRIME_BITS);
    let spec = |log_n: u32| {
        let rows = Packing::new(*job, 1 << (log_n - 1)).padded_rows();
        // Scale, sum, sign, and room for errors and for primes below their nominal size.
        let base_bits = log2_scale + real::log2(rows as f64) + 1.0 + 2.0 * ROOM_BITS;
        let base = if base_bits <= FAST_BITS { vec![FAST_BITS] } else { primes(base_bits) };
        let levels = (0..depth).map(|_| primes(log2_scale));
        let q_bits = core::iter::once(base).chain(levels).collect();
        let p_bits = vec![FAST_BITS; special * primes(log2_scale).len()];
        Spec { p_bits, ..planner::chain(log_n, q_bits, log2_scale) }
    };
    let fits = |log_n: &u32| Room::new(*log_n).holds(spec(*log_n).log2_qp() + ROOM_BITS);
    // Without a secure ring, the error for the last ring states its security.
    let log_n = RINGS.clone().find(fits).unwrap_or(*RINGS.end());
    Ok(Params::new(spec(log_n))?)
}
