//! Layout of rows in ciphertexts, and the order of products of an iteration.

use super::{
    sigmoid::Sigmoid,
    spec::{TrainError, TrainSpec},
};
use crate::{Error, Result};

/// Order in which an iteration computes `o(x . v) x` for each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// `x` is first multiplied by `x . v`, and then by the rest of the polynomial. This saves a
    /// level, but each ciphertext of rows needs a relinearisation. It suits few rows.
    RowsFirst,
    /// The polynomial is evaluated first, once for each group of rows. This needs another level,
    /// but products with the ciphertexts of rows are summed before relinearisation. It suits many
    /// rows.
    SigmoidFirst,
}

impl Order {
    pub const ALL: [Self; 2] = [Self::RowsFirst, Self::SigmoidFirst];

    /// Returns the levels of an iteration.
    pub fn levels(self, sigmoid: &Sigmoid) -> u32 {
        let rows_first = if sigmoid.tail.is_some() { 4 } else { 3 };
        rows_first + u32::from(self == Self::SigmoidFirst)
    }
}

/// Layout of a batch of rows in ciphertexts.
///
/// A row has `features + 1` entries and zeros after them, and is cut into pieces of `width`
/// entries. Slots are a sequence of blocks twice as long. Each block has a piece in its first half
/// and zeros in the second. Sums over the slots around an entry therefore cover all entries of its
/// piece and no others. A group has one row for each block of a ciphertext, and one ciphertext for
/// each piece of a row. Block `p` of the `j`-th ciphertext has piece `p + j`, cyclically, of row
/// `p`.
///
/// Weights have their pieces in order, repeated. Rotated by `j` blocks they match the `j`-th
/// ciphertext of every group. They are a single ciphertext for rows of any length. With a single
/// piece, a row is a block.
///
/// If rows have weights, a second copy of the group follows the first, with each row times its
/// weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Entries of a row, including its intercept.
    pub entries: usize,
    /// Entries of a piece, a power of two.
    pub width: usize,
    /// Pieces of a row, which is also the number of ciphertexts of a copy of a group. A power of
    /// two.
    pub pieces: usize,
    /// Copies of each group: 1, or 2 if rows have weights.
    pub copies: usize,
    /// Blocks of a ciphertext, which is also the number of rows of a group. A power of two, at
    /// least [`Layout::pieces`].
    pub blocks: usize,
    /// Groups of a batch.
    pub groups: usize,
    /// Number of groups whose products are summed before relinearisation.
    pub summed: usize,
}

/// Key switches of an iteration: pairs of a number, and its levels below the first level of the
/// iteration.
pub(super) type Switches = [(f64, u32); 4];

impl Layout {
    /// Maximum number of groups whose products are summed before relinearisation, and the maximum
    /// number of their ciphertexts, which are in memory together.
    const SUMMED: usize = 8;
    const SUMMED_CIPHERTEXTS: usize = 256;

    /// Returns the layout of batches of up to `rows` rows at the minimum cost of an iteration. The
    /// layouts considered can be divided among the workers of a spec, or among the maximum number
    /// if none can.
    pub fn of_training(
        (rows, features): (usize, usize),
        log_n: u32,
        (order, sigmoid): (Order, &Sigmoid),
        spec: &TrainSpec,
    ) -> Result<Self> {
        let workers = spec.workers.unwrap_or(1);
        let copies = if spec.class_weights.is_some() { 2 } else { 1 };
        let planned = |layout: &Self| {
            let layout = Self { copies, ..*layout };
            // The last group of each table, except one, may be nearly empty.
            let groups = layout.groups.saturating_add(spec.tables - 1);
            let most = (Self::SUMMED_CIPHERTEXTS / layout.group()).clamp(1, Self::SUMMED);
            Self { groups, summed: (groups / workers).clamp(1, most), ..layout }
        };
        let rank = |layout: &Self| {
            let layout = planned(layout);
            // Idle workers count first, and cost only among layouts with the same number of them.
            (workers.saturating_sub(layout.sums()), layout.cost(order, sigmoid))
        };
        Ok(planned(&Self::cheapest(rows, features, log_n, rank)?))
    }

    /// Returns the layout of up to `rows` rows at the minimum cost. Of equal ones, the one with the
    /// longest pieces.
    pub fn cheapest<C: PartialOrd>(
        rows: usize,
        features: usize,
        log_n: u32,
        cost: impl Fn(&Self) -> C,
    ) -> Result<Self> {
        if rows == 0 || features == 0 {
            return Err(TrainError::Empty.into());
        }
        let slots = 1usize << (log_n - 1);
        // A block is twice as long as a row, which has an entry for the intercept.
        let fit = (slots / 2).saturating_sub(1);
        if features > fit {
            return Err(Error::TooManyFeatures { found: features, log_n, fit });
        }
        let entries = features + 1;
        let padded = entries.next_power_of_two();
        let mut best = Self::of_width(rows, entries, padded, slots);
        let widths = core::iter::successors(Some(padded / 2), |width| Some(width / 2));
        for width in widths.take_while(|&width| width > 0) {
            let other = Self::of_width(rows, entries, width, slots);
            if cost(&other) < cost(&best) {
                best = other;
            }
        }
        Ok(best)
    }

    /// Returns the layout with pieces of `width` entries, for ciphertexts of `slots` slots.
    pub fn of_width(rows: usize, entries: usize, width: usize, slots: usize) -> Self {
        let pieces = entries.next_power_of_two() / width;
        let blocks = rows.min(slots / (2 * width)).next_power_of_two().max(pieces);
        let groups = rows.div_ceil(blocks);
        Self { entries, width, pieces, copies: 1, blocks, groups, summed: Self::SUMMED }
    }

    /// Returns the cost of the other work on a ciphertext of rows, as a number of key switches. The
    /// work is two products before relinearisation, and a rescaling if rows are multiplied first.
    pub fn ciphertext_cost(order: Order) -> f64 {
        match order {
            Order::RowsFirst => 0.5,
            Order::SigmoidFirst => 0.25,
        }
    }

    /// Returns the cost of an iteration, in key switches.
    pub fn cost(&self, order: Order, sigmoid: &Sigmoid) -> f64 {
        let switches = self.key_switches(order, sigmoid);
        let switches: f64 = switches.iter().map(|(count, _)| count).sum();
        switches + Self::ciphertext_cost(order) * self.multiplied() as f64
    }

    /// Returns the key switches of an iteration.
    pub fn key_switches(&self, order: Order, sigmoid: &Sigmoid) -> Switches {
        let Self { pieces, groups, .. } = *self;
        let [rows, sums] = [self.row_sums().count(), self.block_sums().count()];
        // Products for `y` and other powers, for each group, and products for each of some
        // ciphertexts.
        let (powers, products) = match &sigmoid.tail {
            None => (1, 1),
            Some(tail) => (1 + usize::from(tail.inner.is_some()), 2),
        };
        let (per_group, per_ciphertext) = match order {
            Order::RowsFirst => (powers, products),
            Order::SigmoidFirst => (powers + products, 0),
        };
        let turns = (pieces - 1) as f64;
        let within = (rows + per_group) as f64 * groups as f64;
        let relinearised = pieces as f64 * self.sums() as f64;
        let levels = order.levels(sigmoid);
        [
            (turns + groups as f64, 0),
            (within + per_ciphertext as f64 * self.multiplied() as f64, 1),
            (relinearised, levels - 1),
            (turns + sums as f64, levels),
        ]
    }

    /// Returns the slots of a block.
    pub fn block(&self) -> usize {
        2 * self.width
    }

    /// Returns the number of slots after which weights repeat.
    pub fn period(&self) -> usize {
        self.block() * self.pieces
    }

    pub fn slots(&self) -> usize {
        self.block() * self.blocks
    }

    /// Returns the number of ciphertexts of a group.
    pub fn group(&self) -> usize {
        self.copies * self.pieces
    }

    /// Returns the ciphertexts of a group: those for inner products, and those to sum.
    pub fn split<'a, C>(&self, group: &'a [C]) -> (&'a [C], &'a [C]) {
        (&group[..self.pieces], &group[group.len() - self.pieces..])
    }

    /// Returns the number of ciphertexts of the groups whose products are summed before
    /// relinearisation.
    pub fn summed_ciphertexts(&self) -> usize {
        self.summed * self.group()
    }

    /// Returns the number of ciphertexts of a batch.
    pub fn ciphertexts(&self) -> usize {
        self.groups * self.group()
    }

    /// Returns the number of ciphertexts of a batch for inner products. The same number is
    /// multiplied later.
    pub fn multiplied(&self) -> usize {
        self.groups * self.pieces
    }

    /// Returns the number of relinearised sums of products of a batch, for each piece.
    pub fn sums(&self) -> usize {
        self.groups.div_ceil(self.summed)
    }

    /// Returns the rotations that put the sum of a piece into each of its entries. Each rotation is
    /// followed by a sum with the unrotated value.
    pub fn row_sums(&self) -> impl Iterator<Item = i64> {
        let width = self.width as i64;
        // A piece of one entry equals its sum.
        let copy = (width > 1).then_some(-width);
        copy.into_iter().chain(powers_of_two(1, width))
    }

    /// Returns the rotations that put the sum of all periods into each period.
    pub fn block_sums(&self) -> impl Iterator<Item = i64> {
        powers_of_two(self.period() as i64, self.slots() as i64)
    }

    /// Returns the slots of the ciphertext of a group whose pieces are turned by `turn` blocks.
    /// Rows have [`Layout::entries`] entries each, one row after the other.
    pub fn packed(&self, rows: &[f64], turn: usize) -> Vec<f64> {
        let mut slots = vec![0.0; self.slots()];
        let rows = rows.chunks_exact(self.entries);
        for (p, (block, row)) in slots.chunks_exact_mut(self.block()).zip(rows).enumerate() {
            if let Some(piece) = row.chunks(self.width).nth((p + turn) % self.pieces) {
                block[..piece.len()].copy_from_slice(piece);
            }
        }
        slots
    }

    /// Returns a period of the slots of a vector in the layout of weights, turned by `turn` blocks.
    /// It has an entry for each entry of a row.
    pub fn packed_vector(&self, entries: &[f64], turn: usize) -> Vec<f64> {
        let period = Self { blocks: self.pieces, ..*self };
        period.packed(&entries.repeat(self.pieces), turn)
    }

    /// Returns the vector that [`Layout::packed_vector`] packed, from slots that repeat it. It is
    /// the mean of the repetitions, which have independent errors. Empty if there are too few
    /// slots.
    pub fn unpacked_vector(&self, slots: &[f64]) -> Vec<f64> {
        let mean = |entry: usize| {
            let slot = entry / self.width * self.block() + entry % self.width;
            let copies = slots.iter().skip(slot).step_by(self.period());
            copies.clone().sum::<f64>() / copies.count() as f64
        };
        let entries = if slots.len() < self.period() { 0 } else { self.entries };
        (0..entries).map(mean).collect()
    }

    /// Returns the steps of rotation whose sums turn pieces to every place: 1, 2, 4 … blocks.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = i64> {
        let block = self.block() as i64;
        (0..self.pieces.ilog2()).map(move |k| block << k)
    }
}

/// Returns `start, 2 start, 4 start, …` below `end`.
pub(super) fn powers_of_two(start: i64, end: i64) -> impl Iterator<Item = i64> {
    core::iter::successors(Some(start), |k| Some(2 * k)).take_while(move |&k| k < end)
}
