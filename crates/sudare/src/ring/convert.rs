//! Exact change of basis.

use super::{Eval, Half, LimbSet, RnsBasis, RnsPoly, TILE, Tile, rows::columns};
use std::sync::Arc;
use sudare_arith::{
    Column, ConstantDot, Fractions, Modulus, NttTable, Permutation, Shoup,
    mem::{Buf, Pool, bytes_of},
    par::{self, Strategy, Within},
};

/// Converts residues modulo the primes `q_i` of a set, with product `Q`, to residues modulo other
/// primes.
///
/// With `y_i = a (Q / q_i)^-1 mod q_i`, the representative of `a` in `(-Q/2, Q/2)` is
/// `sum_i y_i Q / q_i - v Q`, where `v` is `sum_i y_i / q_i` rounded to the nearest.
///
/// Reference: [HPS18](https://eprint.iacr.org/2018/117), section 2, with `v` in fixed point, and in
/// exact arithmetic if fixed point cannot decide the rounding.
pub struct BaseConverter {
    /// `(Q / q_i)^-1 mod q_i`.
    inverse: Vec<Shoup>,
    fractions: Fractions,
    /// By target: `Q / q_i` for each source prime, then `-Q`.
    targets: Vec<ConstantDot>,
}

impl core::fmt::Debug for BaseConverter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let from = self.inverse.len();
        write!(f, "BaseConverter({from} to {} primes)", self.targets.len())
    }
}

impl BaseConverter {
    /// Prepares the conversion from the primes `from` to each of `to`.
    #[must_use]
    pub fn new(from: &[Modulus], to: &[Modulus]) -> Self {
        let product_but = |skip: usize, m: &Modulus| {
            let others = from.iter().enumerate().filter(|(i, _)| *i != skip);
            others.fold(1, |product, (_, q)| m.mul(product, m.reduce(q.value())))
        };
        // Bounds of each fraction, below 1, and of their rounded sum.
        let mut largest: Vec<u64> = from.iter().map(|m| m.value() - 1).collect();
        largest.push(from.len() as u64);
        let target = |m: &Modulus| {
            let mut factors: Vec<u64> = (0..from.len()).map(|i| product_but(i, m)).collect();
            factors.push(m.neg(product_but(from.len(), m)));
            ConstantDot::new(m, &factors, &largest)
        };
        Self {
            inverse: from
                .iter()
                .enumerate()
                .map(|(i, m)| m.shoup(m.inv(product_but(i, m))))
                .collect(),
            fractions: Fractions::new(from),
            targets: to.iter().map(target).collect(),
        }
    }

    /// Returns the factor that turns the residue modulo the `i`-th source prime into `y_i`.
    #[must_use]
    pub fn inverse(&self, i: usize) -> Shoup {
        self.inverse[i]
    }

    /// Converts the rows `y_i` to rows `(k, out)`: the residues modulo the `k`-th target of the
    /// representatives next to zero. Rows have at most 2,048 words.
    pub fn convert<'a>(
        &self,
        y: impl IntoIterator<Item = &'a [u64]>,
        out: impl IntoIterator<Item = (usize, &'a mut [u64])>,
    ) {
        let mut quotients = Tile::ZERO;
        let mut y: Vec<&[u64]> = y.into_iter().collect();
        let quotients = &mut quotients.0[..y.first().map_or(0, |row| row.len())];
        self.fractions.round_sum(&y, quotients);
        y.push(quotients);
        for (k, out) in out {
            self.targets[k].dot(out, &y);
        }
    }

    /// Runs [`BaseConverter::convert`] on whole rows in column order, to each of `targets`: its
    /// number and its transforms.
    pub(crate) fn rows<'a>(
        &'a self,
        y: Vec<&'a [u64]>,
        targets: Vec<(usize, &'a NttTable)>,
    ) -> RowConverter<'a> {
        RowConverter { converter: self, y, targets }
    }
}

/// Converts whole rows and runs the first half of their transforms.
pub(crate) struct RowConverter<'a> {
    converter: &'a BaseConverter,
    y: Vec<&'a [u64]>,
    targets: Vec<(usize, &'a NttTable)>,
}

impl RowConverter<'_> {
    /// Writes the groups from `start` on to `out`, each while it is in the first-level cache.
    fn groups(&self, pool: &Arc<Pool>, start: usize, out: Vec<&mut [u64]>) {
        let len = out.first().map_or(0, |part| part.len());
        let mut y = cut(&self.y, start, len);
        let mut quotients = pool.take(len);
        self.converter.fractions.round_sum(&y, &mut quotients);
        y.push(&quotients);
        let columns = self.targets.iter().zip(out);
        let columns = columns.map(|(&target, out)| self.column(target, out));
        ConstantDot::columns(&mut columns.collect::<Vec<_>>(), &y);
    }

    /// The rounded sums of fractions of all columns.
    fn quotients(&self, pool: &Arc<Pool>) -> Buf {
        let n = self.y.first().map_or(0, |row| row.len());
        let mut out = pool.take(n);
        for (start, tile) in (0..).step_by(TILE).zip(out.chunks_mut(TILE)) {
            self.converter.fractions.round_sum(&cut(&self.y, start, tile.len()), tile);
        }
        out
    }

    /// Writes the row of the target `self.targets[i]`.
    fn target(&self, i: usize, quotients: &[u64], out: &mut [u64]) {
        let mut y = self.y.clone();
        y.push(quotients);
        ConstantDot::columns(&mut [self.column(self.targets[i], out)], &y);
    }

    fn column<'b>(&'b self, target: (usize, &'b NttTable), out: &'b mut [u64]) -> Column<'b> {
        let (k, table) = target;
        Column { weights: &self.converter.targets[k], table, out }
    }
}

/// Fills the rows next to each converter, one per target. The work is cut by coefficients, because
/// each result needs all residues of the source. Targets are jobs only under [`Strategy::Limbs`].
pub(crate) fn convert_rows(pool: &Arc<Pool>, rows: Vec<(RowConverter<'_>, Vec<&mut [u64]>)>) {
    let (converters, rows): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    if par::strategy() != Strategy::Limbs {
        let jobs = converters.iter().zip(rows).flat_map(|(converter, rows)| {
            let log_n = rows.first().map_or(0, |row| row.len().ilog2());
            let words = NttTable::group_words(log_n).max(TILE);
            columns(rows.into_iter(), words).map(move |(start, parts)| (converter, start, parts))
        });
        return par::for_each(jobs, |(converter, start, parts)| {
            converter.groups(pool, start, parts);
        });
    }
    let quotients = par::map(&converters, |converter| converter.quotients(pool));
    let jobs = converters.iter().zip(&quotients).zip(rows).flat_map(|(source, rows)| {
        rows.into_iter().enumerate().map(move |(k, row)| (source, k, row))
    });
    par::for_each(jobs, |((converter, quotients), k, row)| converter.target(k, quotients, row));
}

/// Returns `len` words of each row from `start` on.
pub(crate) fn cut<'a>(rows: &[&'a [u64]], start: usize, len: usize) -> Vec<&'a [u64]> {
    rows.iter().map(|row| &row[start..][..len]).collect()
}

/// Evaluations of a row, block by block.
pub(crate) enum Blocks<'a> {
    Row(&'a [u64]),
    /// The function writes the evaluations from a word on. The slices list the memory that it
    /// reads, for the given number of words.
    Made(
        &'a (dyn Fn(usize, &mut [u64]) + Send + Sync),
        &'a (dyn Fn(usize, usize) -> Vec<&'a [u8]> + Send + Sync),
    ),
}

/// Computes the coefficients times `w`, in column order, of evaluations.
pub(crate) fn to_columns(
    pool: &Arc<Pool>,
    within: Within,
    table: &NttTable,
    evaluations: Blocks<'_>,
    out: &mut [u64],
    w: Shoup,
) {
    let n = out.len();
    let words = Permutation::block_words(table.log_n());
    let mut lines = pool.take(n);
    within.for_blocks(
        lines.chunks_mut(words).enumerate(),
        || pool.take(words),
        |room, (block, out)| {
            let start = block * words;
            match evaluations {
                Blocks::Row(row) => {
                    let (from, rest) = row[start..].split_at(words);
                    let next = bytes_of(&rest[..words.min(rest.len())]);
                    table.inverse_lines(block, from, out, &[next]);
                }
                Blocks::Made(write, parts) => {
                    write(start, room);
                    let last = start + 2 * words > n;
                    let next = if last { Vec::new() } else { parts(start + words, words) };
                    table.inverse_lines(block, room, out, &next);
                }
            }
        },
    );
    table.inverse_columns(out, &lines, w);
}

/// Blocks of a limb that go through one step before the next step starts. Reads from memory are
/// then in longer pieces, and results stay in the second-level cache for the next step.
pub(crate) const STRETCH: usize = 4;

/// The `P` pieces of a block of rows, with the block's number.
pub(crate) type Block<'a, const P: usize> = (usize, [&'a mut [u64]; P]);

/// Splits rows of the same length into blocks, [`STRETCH`] at a time or all, with the first word of
/// their sources. They are in the order of their sources under a permutation, so that reads follow
/// the order of memory.
pub(crate) fn stretches<'a, const P: usize>(
    rows: [&'a mut [u64]; P],
    permutation: Option<&Permutation>,
) -> impl Iterator<Item = (usize, Vec<Block<'a, P>>)> + use<'a, P> {
    let n = rows.first().map_or(1, |row| row.len());
    let words = Permutation::block_words(n.ilog2());
    let mut pieces = rows.map(|row| row.chunks_mut(words));
    let mut blocks: Vec<Block<'a, P>> = (0..n / words)
        .map(|block| (block, pieces.each_mut().map(|row| row.next().unwrap_or_default())))
        .collect();
    if let Some(g) = permutation {
        blocks.sort_unstable_by_key(|(block, _)| g.source_block(*block));
    }
    let mut blocks = blocks.into_iter();
    (0..n)
        .step_by(STRETCH * words)
        .map(move |start| (start, blocks.by_ref().take(STRETCH).collect()))
}

/// Change of basis of polynomials: from residues modulo some primes to residues of the
/// representatives next to zero modulo others.
#[derive(Debug)]
pub struct Lifter {
    from: LimbSet,
    to: LimbSet,
    converter: BaseConverter,
}

impl Lifter {
    /// Prepares the change from the primes of `from` to the primes of `to`.
    #[must_use]
    pub fn new(basis: &RnsBasis, from: LimbSet, to: LimbSet) -> Self {
        let moduli = |limbs| basis.tables(limbs).map(|t| *t.modulus()).collect::<Vec<Modulus>>();
        Self { from, to, converter: BaseConverter::new(&moduli(from), &moduli(to)) }
    }

    /// Lifts polynomials, whose limbs include the source primes, to the target primes. Cost: one
    /// transform for each prime of both sets.
    #[must_use]
    pub fn lift<const P: usize>(
        &self,
        basis: &RnsBasis,
        polys: [&RnsPoly<Eval>; P],
    ) -> [RnsPoly<Eval>; P] {
        self.lift_to(basis, polys, [self.to; P])
    }

    /// Runs [`Lifter::lift`], with each polynomial modulo some of the target primes only.
    #[must_use]
    pub fn lift_to<const P: usize>(
        &self,
        basis: &RnsBasis,
        polys: [&RnsPoly<Eval>; P],
        to: [LimbSet; P],
    ) -> [RnsPoly<Eval>; P] {
        let n = basis.n();
        let pool = basis.pool();
        let mut y = [(); P].map(|()| pool.take(self.from.count() * n));
        let rows = y.iter_mut().zip(polys).flat_map(|(y, a)| {
            let row = |(i, y)| (i, y, a.row(self.from.place(i, a.limbs())));
            y.chunks_exact_mut(n).take(self.from.count()).enumerate().map(row)
        });
        par::for_limbs(rows, |within, (i, y, row)| {
            let table = basis.table(self.from, i);
            let w = self.converter.inverse(i);
            to_columns(pool, within, table, Blocks::Row(row), y, w);
        });
        let mut halves: [RnsPoly<Half>; P] = to.map(|limbs| basis.take(limbs));
        let conversions = y.iter().zip(&mut halves).map(|(y, halves)| {
            let rows = y.chunks_exact(n).take(self.from.count()).collect();
            let limbs = halves.limbs();
            let target = |(i, table)| (limbs.place(i, self.to), table);
            let targets = basis.tables(limbs).enumerate().map(target).collect();
            (self.converter.rows(rows, targets), halves.rows_mut().collect())
        });
        convert_rows(pool, conversions.collect());
        halves.map(|halves| basis.finished(&halves))
    }
}

/// Change of modulus with exact rounding: from `a` modulo the product `B` of some primes to
/// `round(a A / B)` modulo the product `A` of others.
///
/// There are two cases. If the target primes are the first of the source's chain primes, this is a
/// division by the product of the removed primes. Otherwise no source prime remains.
pub struct Divider {
    before: LimbSet,
    after: LimbSet,
    /// Converter from the removed primes.
    converter: BaseConverter,
    /// Factors that turn a residue modulo each removed prime into the residue of the remainder that
    /// the converter reads.
    remainder: Vec<Shoup>,
    /// By target prime: the inverse of the product of the removed primes.
    inverse: Vec<Shoup>,
}

impl core::fmt::Debug for Divider {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Divider({:?} to {:?})", self.before, self.after)
    }
}

/// One limb of `P` dividends, computed while it is in cache.
pub(crate) trait Dividend<const P: usize>: Send + Sync {
    /// Called once, before [`Dividend::write`].
    fn prepare(&mut self, within: Within);
    /// Writes blocks of the evaluations of each, from word `start` on.
    fn write(&self, start: usize, out: [&mut [u64]; P]);
    /// Lists the memory that [`Dividend::add_deferred`] will read for a block.
    fn deferred(&self, _k: usize, _start: usize) -> Vec<&[u8]> {
        Vec::new()
    }
    /// Adds the part omitted from the dividend to a block of the `k`-th quotient, from word `start`
    /// on.
    fn add_deferred(&self, _k: usize, _start: usize, _out: &mut [u64]) {}
}

/// Rows already computed.
struct Rows<'a, const P: usize>([&'a [u64]; P]);

impl<const P: usize> Dividend<P> for Rows<'_, P> {
    fn prepare(&mut self, _: Within) {}

    fn write(&self, start: usize, out: [&mut [u64]; P]) {
        for (out, row) in out.into_iter().zip(self.0) {
            let words = out.len();
            out.copy_from_slice(&row[start..][..words]);
        }
    }
}

impl Divider {
    /// Prepares the division from `before` to `after`: the first of its chain primes, or others.
    #[must_use]
    pub fn new(basis: &RnsBasis, before: LimbSet, after: LimbSet) -> Self {
        let moduli = |limbs| basis.tables(limbs).map(|t| *t.modulus()).collect::<Vec<Modulus>>();
        let product_mod = |primes: &[Modulus], m: &Modulus| {
            primes.iter().fold(1, |product, q| m.mul(product, m.reduce(q.value())))
        };
        let kept = if stays(before, after) { after.q() } else { 0 };
        let from = moduli(before).split_off(kept);
        let to = moduli(after);
        let converter = BaseConverter::new(&from, &to);
        let remainder = from.iter().enumerate().map(|(i, m)| {
            // Primes that are new in the result multiply the dividend.
            let factor = product_mod(&to[kept..], m);
            m.shoup(m.mul(factor, converter.inverse(i).value()))
        });
        let inverse = to.iter().map(|m| m.shoup(m.inv(product_mod(&from, m))));
        let remainder = remainder.collect();
        let inverse = inverse.collect();
        Self { before, after, converter, remainder, inverse }
    }

    /// Returns, for polynomials modulo `limbs`, the number of primes that remain and the primes of
    /// the result.
    fn outcome(&self, limbs: LimbSet) -> (usize, LimbSet) {
        if !stays(self.before, self.after) {
            return (0, self.after);
        }
        let kept = self.after.q().min(limbs.q());
        (kept, limbs.first(kept))
    }

    /// Returns `round(a A / B)` of each polynomial. All have the same limbs.
    #[must_use]
    pub fn divide<const P: usize>(
        &self,
        basis: &RnsBasis,
        polys: [&RnsPoly<Eval>; P],
    ) -> [RnsPoly<Eval>; P] {
        let limbs = polys.first().map_or(self.before, |a| a.limbs());
        let rows = (0..limbs.count()).map(|i| Rows(polys.map(|a| a.row(i))));
        self.run(basis, limbs, rows.collect(), None)
    }

    /// Returns `round(a A / B)` of polynomials with the given limbs, then permuted. There may be
    /// fewer chain primes than this divider was made for if all of them remain.
    ///
    /// Cost per polynomial: a transform for each removed prime and for each prime of the result.
    /// After the change of basis, each stretch of a limb is finished while it is in cache.
    pub(crate) fn run<const P: usize, D: Dividend<P>>(
        &self,
        basis: &RnsBasis,
        limbs: LimbSet,
        mut dividends: Vec<D>,
        permutation: Option<&Permutation>,
    ) -> [RnsPoly<Eval>; P] {
        debug_assert!(limbs == self.before || self.after == self.before.first(self.before.q()));
        let (n, (kept, after)) = (basis.n(), self.outcome(limbs));
        let going = dividends.split_off(kept);
        let mut remainders = [(); P].map(|()| basis.pool().take(going.len() * n));
        self.remainders(basis, limbs, going, &mut remainders);
        let mut halves: [RnsPoly<Half>; P] = [(); P].map(|()| basis.take(after));
        let conversions = remainders.iter().zip(&mut halves).map(|(y, halves)| {
            let targets = basis.tables(after).enumerate().collect();
            let converter = self.converter.rows(y.chunks_exact(n).collect(), targets);
            (converter, halves.rows_mut().collect())
        });
        convert_rows(basis.pool(), conversions.collect());
        // Their buffers return to the pool, which the results are taken from.
        drop(remainders);

        let mut out = [(); P].map(|()| basis.take(after));
        let rows = by_limb(out.each_mut().map(RnsPoly::rows_mut));
        let dividends = dividends.into_iter().map(Some).chain(core::iter::repeat_with(|| None));
        let words = Permutation::block_words(basis.log_n());
        par::for_limbs(rows.zip(dividends).enumerate(), |within, (i, (rows, mut dividend))| {
            if let Some(dividend) = &mut dividend {
                dividend.prepare(within);
            }
            let table = basis.table(after, i);
            let w = self.inverse[i];
            let halves = halves.each_ref().map(|poly| poly.row(i));
            let room = || basis.pool().take((P * STRETCH + 1) * words);
            let blocks = stretches(rows, permutation);
            within.for_blocks(blocks, room, |room, (start, mut blocks)| {
                let (image, values) = room.split_at_mut(words);
                let mut values: [_; P] = pieces(&mut values[..P * blocks.len() * words]);
                // Modulo a new prime, the result is the remainder alone.
                match &dividend {
                    Some(dividend) => dividend.write(start, values.each_mut().map(|v| &mut **v)),
                    None => values.iter_mut().for_each(|value| value.fill(0)),
                }
                for (k, values) in values.into_iter().enumerate() {
                    let sources = (start..).step_by(words).zip(values.chunks_exact(words));
                    for ((source, values), (block, rows)) in sources.zip(&mut blocks) {
                        let row = &mut *rows[k];
                        let mut wanted =
                            dividend.as_ref().map_or_else(Vec::new, |d| d.deferred(k, source));
                        // The result is prefetched too, because stores would wait for its lines.
                        wanted.push(bytes_of(row));
                        table.forward_lines(halves[k], source / words, image, &wanted);
                        let add = |quotient: &mut [u64]| {
                            if let Some(dividend) = &dividend {
                                dividend.add_deferred(k, source, quotient);
                            }
                        };
                        match permutation {
                            None => {
                                table.modulus().sub_scale(row, values, image, w);
                                add(row);
                            }
                            Some(g) => {
                                // In the scratch block: the permutation reads other places than it
                                // writes.
                                table.modulus().sub_scale_from(image, values, w);
                                add(image);
                                g.apply_block(*block, row, image);
                            }
                        }
                    }
                }
            });
        });
        out
    }

    /// Computes the remainders modulo the removed primes, row after row, in column order.
    fn remainders<const P: usize, D: Dividend<P>>(
        &self,
        basis: &RnsBasis,
        limbs: LimbSet,
        going: Vec<D>,
        out: &mut [Buf; P],
    ) {
        let n = basis.n();
        let kept = limbs.count() - going.len();
        let rows = by_limb(out.each_mut().map(|buf| buf.chunks_exact_mut(n)));
        par::for_limbs(rows.zip(going).enumerate(), |within, (i, (rows, mut dividend))| {
            dividend.prepare(within);
            let table = basis.table(limbs, kept + i);
            let w = self.remainder[i];
            let mut lines = basis.pool().take(P * n);
            let words = Permutation::block_words(basis.log_n());
            let room = || basis.pool().take(P * STRETCH * words);
            let blocks = stretches::<P>(pieces(&mut lines), None);
            within.for_blocks(blocks, room, |room, (start, mut blocks)| {
                let mut values: [_; P] = pieces(&mut room[..P * blocks.len() * words]);
                dividend.write(start, values.each_mut().map(|words| &mut **words));
                for (k, values) in values.into_iter().enumerate() {
                    for (from, (block, lines)) in values.chunks_exact(words).zip(&mut blocks) {
                        table.inverse_lines(*block, from, lines[k], &[]);
                    }
                }
            });
            within.for_rows(rows.into_iter().zip(lines.chunks_exact(n)), |(row, lines)| {
                table.inverse_columns(row, lines, w);
            });
        });
    }
}

/// Returns `true` if the primes `after` are the first of `before`.
fn stays(before: LimbSet, after: LimbSet) -> bool {
    after.start() == before.start() && after.p() == 0
}

/// Splits a buffer into `P` parts of the same length.
fn pieces<const P: usize>(words: &mut [u64]) -> [&mut [u64]; P] {
    let mut parts = words.chunks_exact_mut(words.len() / P);
    core::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// Returns the rows of several polynomials limb by limb.
fn by_limb<'a, const P: usize>(
    mut polys: [impl Iterator<Item = &'a mut [u64]>; P],
) -> impl Iterator<Item = [&'a mut [u64]; P]> {
    core::iter::from_fn(move || {
        let rows: Vec<_> = polys.iter_mut().map_while(Iterator::next).collect();
        rows.try_into().ok()
    })
}
