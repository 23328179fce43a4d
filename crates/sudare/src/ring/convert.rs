//! Exact change of basis.

use super::{Eval, LimbSet, RnsBasis, RnsPoly, TILE, Tile};
use core::ops::Deref;
use std::sync::Arc;
use sudare_arith::{
    Fractions, Modulus, Permutation, Shoup,
    mem::{Buf, Pool},
    par::{self, Strategy, Within},
};

/// From residues modulo the primes `q_i` of a set, with product `Q`, to residues
/// modulo other primes.
///
/// With `y_i = a (Q / q_i)^-1 mod q_i`, the representative of `a` in `(-Q/2, Q/2)` is
/// `sum_i y_i Q / q_i - v Q`, where `v` is `sum_i y_i / q_i` rounded to the nearest.
///
/// Reference: [HPS18](https://eprint.iacr.org/2018/117), section 2, with `v` in
/// fixed point and exact arithmetic where that is undecided.
pub struct BaseConverter {
    /// `(Q / q_i)^-1 mod q_i`.
    inverse: Vec<Shoup>,
    fractions: Fractions,
    targets: Vec<Target>,
}

struct Target {
    /// The target prime with kernels that take residues of every source prime.
    modulus: Modulus,
    /// `Q / q_i` for each source prime, then `-Q`.
    factors: Vec<u64>,
}

impl BaseConverter {
    /// From the primes `from` to each of `to`.
    #[must_use]
    pub fn new(from: &[Modulus], to: &[Modulus]) -> Self {
        let product_but = |skip: usize, m: &Modulus| {
            let others = from.iter().enumerate().filter(|(i, _)| *i != skip);
            others.fold(1, |product, (_, q)| m.mul(product, m.reduce(q.value())))
        };
        let widest = from.iter().map(Modulus::bits).max().unwrap_or(0);
        let target = |m: &Modulus| {
            let mut factors: Vec<u64> = (0..from.len()).map(|i| product_but(i, m)).collect();
            factors.push(m.neg(product_but(from.len(), m)));
            Target { modulus: m.for_inputs_of(widest), factors }
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

    /// The factor that turns the residue modulo the `i`-th source prime into `y_i`.
    #[must_use]
    pub fn inverse(&self, i: usize) -> Shoup {
        self.inverse[i]
    }

    /// From the rows `y_i` to rows `(k, out)`, the residues modulo the `k`-th target of
    /// the representatives next to zero. Rows have at most 1,024 words.
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
            let target = &self.targets[k];
            target.modulus.dot(out, &y, &target.factors);
        }
    }

    /// [`BaseConverter::convert`] of whole rows to the targets with the numbers `targets`.
    pub(crate) fn rows<'a>(&'a self, y: Vec<&'a [u64]>, targets: Vec<usize>) -> RowConverter<'a> {
        RowConverter { converter: self, y, targets }
    }
}

/// Converts whole rows.
pub(crate) struct RowConverter<'a> {
    converter: &'a BaseConverter,
    y: Vec<&'a [u64]>,
    /// Numbers of the targets.
    targets: Vec<usize>,
}

impl RowConverter<'_> {
    /// The tiles from `start` on, to `out`.
    fn columns(&self, start: usize, out: Vec<&mut [u64]>) {
        let len = out.first().map_or(0, |part| part.len());
        let y = self.y.iter().map(|row| &row[start..][..len]);
        self.converter.convert(y, self.targets.iter().copied().zip(out));
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

    /// The target `self.targets[k]`.
    fn target(&self, k: usize, quotients: &[u64], out: &mut [u64]) {
        let Target { modulus, factors } = &self.converter.targets[self.targets[k]];
        for (t, tile) in out.chunks_mut(TILE).enumerate() {
            let (start, len) = (t * TILE, tile.len());
            let mut y = cut(&self.y, start, len);
            y.push(&quotients[start..][..len]);
            modulus.dot(tile, &y, factors);
        }
    }
}

/// Fills the rows beside each converter, which are as many as it has targets. They are cut by
/// coefficients, since each needs all residues of the source; targets are jobs only under
/// [`Strategy::Limbs`].
pub(crate) fn convert_rows(pool: &Arc<Pool>, rows: Vec<(RowConverter<'_>, Vec<&mut [u64]>)>) {
    let (converters, rows): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    if par::strategy() != Strategy::Limbs {
        let jobs = converters.iter().zip(rows).flat_map(|(converter, rows)| {
            columns(rows.into_iter(), TILE).map(move |(start, parts)| (converter, start, parts))
        });
        return par::for_each(jobs, |(converter, start, parts)| converter.columns(start, parts));
    }
    let quotients = par::map(&converters, |converter| converter.quotients(pool));
    let jobs = converters.iter().zip(&quotients).zip(rows).flat_map(|(source, rows)| {
        rows.into_iter().enumerate().map(move |(k, row)| (source, k, row))
    });
    par::for_each(jobs, |((converter, quotients), k, row)| converter.target(k, quotients, row));
}

/// `len` words of each row from `start` on.
pub(crate) fn cut<R: Deref<Target = [u64]>>(rows: &[R], start: usize, len: usize) -> Vec<&[u64]> {
    rows.iter().map(|row| &row[start..][..len]).collect()
}

/// The image of `row` under an automorphism.
pub(super) fn permute(within: Within, g: &Permutation, out: &mut [u64], row: &[u64]) {
    let words = Permutation::block_words(out.len().ilog2());
    within.for_blocks(
        out.chunks_mut(words).enumerate(),
        || (),
        |(), (block, out)| {
            g.apply_block(block, out, &row[g.source_block(block) * words..][..words]);
        },
    );
}

/// Tiles of rows of the same length, `(first word, pieces)`.
fn tiles<const P: usize>(rows: [&mut [u64]; P]) -> impl Iterator<Item = (usize, [&mut [u64]; P])> {
    let n = rows.first().map_or(0, |row| row.len());
    let mut pieces = rows.map(|row| row.chunks_mut(TILE));
    (0..n)
        .step_by(TILE)
        .map(move |start| (start, pieces.each_mut().map(|row| row.next().unwrap_or_default())))
}

/// Change of modulus with exact rounding: of `a` modulo the product `B` of some primes to
/// `round(a A / B)` modulo the product `A` of others.
///
/// Either the primes after are the first of the chain primes before: then that is a division by
/// the product of those that go. Or none of them stays.
pub struct Divider {
    before: LimbSet,
    /// Chain primes.
    after: LimbSet,
    /// From the primes that go.
    converter: BaseConverter,
    /// What turns a residue modulo each of them into that of the remainder, as the converter
    /// takes it.
    remainder: Vec<Shoup>,
    /// By each prime after: the inverse of the product of those that go.
    inverse: Vec<Shoup>,
}

/// One limb of `P` polynomials to be divided, made while it is in cache.
pub(crate) trait Dividend<const P: usize>: Send + Sync {
    /// Called once, before [`Dividend::write`].
    fn prepare(&mut self, within: Within);
    /// Writes the evaluations from `start` on of each.
    fn write(&self, start: usize, out: [&mut [u64]; P]);
}

/// Rows that exist.
struct Rows<'a, const P: usize>([&'a [u64]; P]);

impl<const P: usize> Dividend<P> for Rows<'_, P> {
    fn prepare(&mut self, _: Within) {}

    fn write(&self, start: usize, out: [&mut [u64]; P]) {
        for (out, row) in out.into_iter().zip(self.0) {
            let len = out.len();
            out.copy_from_slice(&row[start..][..len]);
        }
    }
}

impl Divider {
    /// From `before` to chain primes `after`: the first of these, or others.
    #[must_use]
    pub fn new(basis: &RnsBasis, before: LimbSet, after: LimbSet) -> Self {
        let moduli = |limbs| basis.tables(limbs).map(|t| *t.modulus()).collect::<Vec<Modulus>>();
        let product_mod = |primes: &[Modulus], m: &Modulus| {
            primes.iter().fold(1, |product, q| m.mul(product, m.reduce(q.value())))
        };
        let kept = if after.start() == before.start() { after.q() } else { 0 };
        let (from, to) = (moduli(before).split_off(kept), moduli(after));
        let converter = BaseConverter::new(&from, &to);
        let remainder = from.iter().enumerate().map(|(i, m)| {
            let factor = product_mod(&to[kept..], m);
            m.shoup(m.mul(factor, converter.inverse(i).value()))
        });
        let inverse = to.iter().map(|m| m.shoup(m.inv(product_mod(&from, m))));
        let (remainder, inverse) = (remainder.collect(), inverse.collect());
        Self { before, after, converter, remainder, inverse }
    }

    /// Of polynomials modulo `limbs`: how many primes stay, and those after.
    fn outcome(&self, limbs: LimbSet) -> (usize, LimbSet) {
        if self.after.start() != self.before.start() {
            return (0, self.after);
        }
        let kept = self.after.q().min(limbs.q());
        (kept, limbs.first(kept))
    }

    /// `round(a A / B)` of each polynomial; all have the same limbs.
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

    /// `round(a A / B)` of polynomials with the given limbs, then permuted. There may be fewer
    /// chain primes than this was made for if all of them stay.
    ///
    /// Per polynomial: a transform for each prime that goes and each that is there afterwards.
    /// After the change of basis each limb is finished while it is in cache.
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
        let mut out = [(); P].map(|()| basis.take(after));
        let conversions = remainders.iter().zip(&mut out).map(|(y, out)| {
            let targets = (0..after.q()).collect();
            let converter = self.converter.rows(y.chunks_exact(n).collect(), targets);
            (converter, out.rows_mut().collect())
        });
        convert_rows(basis.pool(), conversions.collect());
        drop(remainders);

        let mut permuted = permutation.map(|g| (g, [(); P].map(|()| basis.take(after))));
        let targets: Vec<_> = match &mut permuted {
            Some((g, polys)) => {
                let g: &Permutation = g;
                by_limb(polys.each_mut().map(RnsPoly::rows_mut))
                    .map(|rows| Some((g, rows)))
                    .collect()
            }
            None => (0..after.q()).map(|_| None).collect(),
        };
        let rows = by_limb(out.each_mut().map(RnsPoly::rows_mut));
        let dividends = dividends.into_iter().map(Some).chain(core::iter::repeat_with(|| None));
        let jobs = rows.zip(dividends).zip(targets).enumerate();
        par::for_limbs(jobs, |within, (i, ((mut rows, mut dividend), target))| {
            if let Some(dividend) = &mut dividend {
                dividend.prepare(within);
            }
            let (table, w) = (basis.table(after, i), self.inverse[i]);
            within.for_rows(&mut rows, |rows| table.forward_rows(rows));
            let blocks = tiles(rows.each_mut().map(|row| &mut **row));
            within.for_blocks(
                blocks,
                || [Tile::ZERO; P],
                |values, (start, rows)| {
                    let len = rows[0].len();
                    // Modulo a prime that was not there before, all is remainder.
                    if let Some(dividend) = &dividend {
                        dividend.write(start, values.each_mut().map(|tile| &mut tile.0[..len]));
                    }
                    for (row, value) in rows.into_iter().zip(values) {
                        table.modulus().sub_scale_from(row, &value.0[..len], w);
                    }
                },
            );
            if let Some((g, targets)) = target {
                for (target, row) in targets.into_iter().zip(rows) {
                    permute(within, g, target, row);
                }
            }
        });
        match permuted {
            Some((_, permuted)) => permuted,
            None => out.map(RnsPoly::assume_eval),
        }
    }

    /// The remainders modulo the primes that go, row after row.
    fn remainders<const P: usize, D: Dividend<P>>(
        &self,
        basis: &RnsBasis,
        limbs: LimbSet,
        going: Vec<D>,
        out: &mut [Buf; P],
    ) {
        let (n, kept) = (basis.n(), limbs.count() - going.len());
        let rows = by_limb(out.each_mut().map(|buf| buf.chunks_exact_mut(n)));
        par::for_limbs(rows.zip(going).enumerate(), |within, (i, (mut rows, mut dividend))| {
            dividend.prepare(within);
            let blocks = tiles(rows.each_mut().map(|row| &mut **row));
            within.for_blocks(blocks, || (), |(), (start, rows)| dividend.write(start, rows));
            let (table, w) = (basis.table(limbs, kept + i), self.remainder[i]);
            within.for_rows(&mut rows, |rows| table.inverse_scaled(rows, w));
        });
    }
}

/// The rows of several polynomials limb by limb.
fn by_limb<'a, const P: usize>(
    mut polys: [impl Iterator<Item = &'a mut [u64]>; P],
) -> impl Iterator<Item = [&'a mut [u64]; P]> {
    core::iter::from_fn(move || {
        let rows: Vec<_> = polys.iter_mut().map_while(Iterator::next).collect();
        rows.try_into().ok()
    })
}

/// Cuts rows into pieces of `width` words and groups the pieces by place:
/// `(first word, pieces)`.
pub(crate) fn columns<'a>(
    rows: impl Iterator<Item = &'a mut [u64]>,
    width: usize,
) -> impl Iterator<Item = (usize, Vec<&'a mut [u64]>)> {
    let mut pieces: Vec<_> = rows.map(|row| row.chunks_mut(width)).collect();
    let count = pieces.first().map_or(0, ExactSizeIterator::len);
    (0..count).map(move |k| (k * width, pieces.iter_mut().filter_map(Iterator::next).collect()))
}
