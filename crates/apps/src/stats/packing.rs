//! Where the values of a table stand in ciphertexts, and what all plans do with these.

use core::{iter::repeat_n, ops::RangeInclusive};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use sudare::{
    circuits::{ComplexOps, sim},
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
/// level 0 of one prime of the fast kernels; values carry 23 bits.
pub(super) const LOG2_SCALE: f64 = 38.0;

/// Most bits of a prime of a level; special primes have 50, as digits of so many primes have as
/// many special ones.
pub(super) const PRIME_BITS: f64 = 46.0;

/// Most rows of a job.
const MAX_ROWS: u128 = 1 << 24;
/// Most columns of a job: their pairs grow with the square.
const MAX_FEATURES: u128 = 1 << 8;
/// Most cells of a job: a cell takes about 128 bytes of ciphertext.
const MAX_CELLS: u128 = 1 << 26;
/// Most ciphertexts of a table. No secure ring has so few slots that a job of most cells takes more,
/// and a plan goes through those of a column.
const MAX_CIPHERTEXTS: u128 = 1 << 16;

/// The shape of the table, which is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Number of rows, at most.
    pub rows: usize,
    /// Number of columns, the target not counted.
    pub features: usize,
}

impl Job {
    /// The shape of `table`.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        Self { rows: table.rows(), features: table.features() }
    }

    pub(super) fn check(self) -> Result<()> {
        let Self { rows, features } = self;
        if rows == 0 || features == 0 {
            return Err(StatsError::Empty { rows, features });
        }
        let (rows, features) = (rows as u128, features as u128);
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

    /// Refuses a table of more rows, or a table or scalings of other columns.
    pub(super) fn check_table(self, table: &Table, scalings: &[ColumnScaling]) -> Result<()> {
        check_rows(table.rows(), self.rows)?;
        check_shape("columns", table.features(), self.features)?;
        self.check_scalings(scalings)
    }

    /// Refuses scalings of other columns.
    pub(super) fn check_scalings(self, scalings: &[ColumnScaling]) -> Result<()> {
        let check = |scaling: &ColumnScaling| {
            check_shape("scaled columns", scaling.features(), self.features)
        };
        scalings.iter().try_for_each(check)
    }
}

/// Where values stand.
///
/// A column of at most as many rows as slots fills one block, of a power of two of
/// slots; a ciphertext holds as many columns as blocks, a *group*. A longer column
/// fills several ciphertexts, its *chunks*, and is a group of its own. Zeros fill up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packing {
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

    /// Rows with those of padding.
    pub fn padded_rows(&self) -> u128 {
        self.block as u128 * self.chunks as u128
    }

    pub fn groups(&self) -> usize {
        self.features.div_ceil(self.blocks)
    }

    /// Columns in `group`.
    pub fn columns(&self, group: usize) -> usize {
        self.blocks.min(self.features - group * self.blocks)
    }

    /// Column in block `block` of `group`, if there is one.
    pub fn column(&self, group: usize, block: usize) -> Option<usize> {
        (block < self.columns(group)).then_some(group * self.blocks + block)
    }

    /// Which products, `a` times `b` shifted by `shift` blocks, meet all pairs of
    /// columns: within a group, a shift meets pairs of both distances
    /// `shift` and `blocks - shift`; between groups every shift is needed, since `a`
    /// is full.
    pub fn is_needed(&self, a: usize, b: usize, shift: usize) -> bool {
        a != b || (1..self.columns(b)).contains(&shift) && shift <= self.blocks / 2
    }

    /// Slots of a ciphertext of the table.
    pub fn all(&self) -> usize {
        self.block * self.blocks
    }

    /// Ciphertexts of the table: group after group, in each chunk after chunk.
    pub fn ciphertexts(&self) -> usize {
        self.groups() * self.chunks
    }

    /// The shapes of these.
    pub fn shapes(&self, level: Level, scale: Scale) -> impl Iterator<Item = Shape> + use<> {
        let log_slots = self.all().ilog2();
        repeat_n(Shape { level, scale, log_slots }, self.ciphertexts())
    }

    /// The slots of ciphertext `index`: `slot` of the row, column and value of each cell, and
    /// `padding` in the rows that a column lacks.
    pub fn slots(
        &self,
        table: &Table,
        index: usize,
        slot: impl Fn(usize, usize, f64) -> f64,
        padding: f64,
    ) -> Vec<f64> {
        let Self { block, chunks, features, .. } = *self;
        let (group, chunk) = (index / chunks, index % chunks);
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

    /// Places of a decrypted output that are read.
    fn places(&self, slots: usize) -> usize {
        self.features.min(slots / self.block)
    }

    /// The largest error of a value to be shared to `bits` bits, of outputs with these slots.
    pub fn largest_shared_error(&self, outputs: impl Iterator<Item = usize>, bits: u32) -> f64 {
        let values = outputs.map(|slots| self.places(slots)).sum();
        Release::default().largest_error(values, bits)
    }

    /// The decrypted outputs, sums over `rows` rows, as others than the owner of the key may see
    /// them: divided by the rows, each has noise of a seed and is rounded to `bits` bits after the
    /// point.
    /// `largest_error` bounds the errors of these quotients.
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

    /// A sum over `rows` rows of scaled values, from block `place` of a decrypted output.
    pub fn sum(&self, slots: &[Vec<f64>], output: usize, place: usize, rows: usize) -> Result<f64> {
        let found = slots[output][place * self.block];
        // Errors of a hundredth are far beyond those of encryption.
        if found.abs() <= 1.01 * rows as f64 {
            Ok(found)
        } else {
            Err(StatsError::OutOfRange { output, rows, found })
        }
    }
}

/// Encryptions of slots. `progress` learns the number done after each, from any thread.
pub(super) fn encrypt(
    params: &Params,
    encryptor: &Encryptor,
    all: impl Iterator<Item = Slots>,
    progress: impl Fn(usize) + Send + Sync,
) -> Result<Vec<Ciphertext>> {
    let encoder = Encoder::new(params);
    let done = AtomicUsize::new(0);
    par::try_map(all.collect::<Vec<_>>(), |(slots, level, scale)| {
        let ciphertext = encryptor.encrypt(&encoder.encode_real(&slots, level, scale)?)?;
        progress(1 + done.fetch_add(1, Relaxed));
        Ok(ciphertext)
    })
}

/// The sum of ciphertexts, at least one.
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

/// The sum of the products of pairs, rescaled.
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

/// Refuses a table of more ciphertexts than a secure ring could have for a job.
pub(super) fn check_ciphertexts(found: u128) -> Result<()> {
    let (what, limit) = ("ciphertexts", MAX_CIPHERTEXTS);
    if found > limit { Err(StatsError::TooLarge { what, found, limit }) } else { Ok(()) }
}

/// Refuses a count that no job has.
pub(super) fn check_count(
    what: &'static str,
    found: usize,
    possible: RangeInclusive<usize>,
) -> Result<()> {
    let (needed, limit) = (*possible.start(), *possible.end() as u128);
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

/// Refuses more rows than planned, or none.
pub(super) fn check_rows(found: usize, most: usize) -> Result<()> {
    if (1..=most).contains(&found) { Ok(()) } else { Err(StatsError::Rows { found, most }) }
}

pub(super) fn check_shape(what: &'static str, found: usize, needed: usize) -> Result<()> {
    if found == needed { Ok(()) } else { Err(StatsError::Shape { what, found, needed }) }
}

/// What a plan learns from a simulator that has computed sums of each kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Learnt {
    pub request: KeyRequest,
    /// A bound of the errors of the quotients of sums by the number of rows.
    pub largest_error: f64,
    /// Level and scale of each of the sums.
    pub shapes: Vec<(Level, Scale)>,
    /// A bound of the error of each of the sums.
    errors: Vec<f64>,
    /// Operations that were simulated.
    #[cfg(test)]
    pub operations: u64,
}

impl Learnt {
    pub fn of(e: &sim::Evaluator, sums: &[sim::Ciphertext], rows: usize) -> Self {
        let rows = rows as f64;
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

    /// Bounds of the errors of the sums over `rows` planned rows, as they are decrypted or as they
    /// were shared to some bits.
    pub fn errors(&self, rows: usize, shared_bits: Option<u32>) -> Vec<f64> {
        let Some(bits) = shared_bits else { return self.errors.clone() };
        let shared = real::powi(2.0, -bits.cast_signed()) + self.largest_error;
        vec![rows as f64 * shared; self.errors.len()]
    }
}

/// Parameters with scales as large as sharing takes: `propose` makes them for a `log2` of the
/// scale, `errors` gives the largest error of a value to be shared and the largest possible.
pub(super) fn shared_params(
    log2_scale: f64,
    bits: u32,
    propose: impl Fn(f64) -> Result<Params>,
    errors: impl Fn(&Params) -> Result<(f64, f64)>,
) -> Result<Params> {
    check_shared_bits(bits)?;
    precise_params(log2_scale, bits, propose, errors)
}

/// The smallest ring at 128 bits of security with a level 0 for sums of all rows at
/// `2^log2_scale`, `depth` levels of that size, and `special` primes of 50 bits for each prime of a
/// level.
///
/// # Errors
/// Those of a job that cannot be; [`StatsError::Library`] if no ring is large enough.
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
        // Scale, sum, sign, and room for errors and primes below their size.
        let base_bits = log2_scale + real::log2(rows as f64) + 1.0 + 2.0 * ROOM_BITS;
        let base = if base_bits <= FAST_BITS { vec![FAST_BITS] } else { primes(base_bits) };
        let levels = (0..depth).map(|_| primes(log2_scale));
        let q_bits = core::iter::once(base).chain(levels).collect();
        let p_bits = vec![FAST_BITS; special * primes(log2_scale).len()];
        Spec { p_bits, ..planner::chain(log_n, q_bits, log2_scale) }
    };
    let fits = |log_n: &u32| Room::new(*log_n).holds(spec(*log_n).log2_qp() + ROOM_BITS);
    // The last ring is refused for its security, with the figures.
    let log_n = RINGS.clone().find(fits).unwrap_or(*RINGS.end());
    Ok(Params::new(spec(log_n))?)
}
