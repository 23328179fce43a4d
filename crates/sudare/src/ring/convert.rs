//! Exact change of basis.

use super::{Coeff, Eval, LimbSet, RnsBasis, RnsPoly, TILE, Tile};
use sudare_arith::{Fractions, Modulus, Permutation, Shoup, mem::Buf, par};

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

    /// As [`BaseConverter::convert`] of whole polynomials, from the `y_i` row after row; the
    /// `i`-th prime of `limbs` is target number `target(limbs, i)`.
    pub(crate) fn spread<const P: usize>(
        &self,
        y: &[Buf; P],
        out: &mut [RnsPoly<Coeff>; P],
        target: impl Fn(LimbSet, usize) -> usize + Send + Sync,
    ) {
        let jobs = out.iter_mut().zip(y).flat_map(|(out, y)| {
            let (n, limbs) = (out.n(), out.limbs());
            columns(out.rows_mut(), TILE).map(move |(start, parts)| (y, n, limbs, start, parts))
        });
        par::for_each(jobs, |(y, n, limbs, start, parts)| {
            let len = parts.first().map_or(0, |part| part.len());
            let y = y.chunks_exact(n).map(|row| &row[start..][..len]);
            let parts = parts.into_iter().enumerate();
            self.convert(y, parts.map(|(i, part)| (target(limbs, i), part)));
        });
    }
}

/// Division by the product `D` of some primes with exact rounding: `round(a / D)`
/// modulo the primes that stay.
pub struct Divider {
    /// Limbs before; the divisor is made of the last chain primes and all special
    /// primes of these.
    before: LimbSet,
    /// Chain primes after.
    after: usize,
    converter: BaseConverter,
    /// `D^-1` modulo each prime that stays.
    inverse: Vec<Shoup>,
}

/// One limb of `P` polynomials to be divided, made while it is in cache.
pub(crate) trait Dividend<const P: usize>: Send {
    /// Called once, before [`Dividend::write`].
    fn prepare(&mut self);
    /// Writes the evaluations from `start` on of each.
    fn write(&self, start: usize, out: [&mut [u64]; P]);
}

/// Rows that exist.
struct Rows<'a, const P: usize>([&'a [u64]; P]);

impl<const P: usize> Dividend<P> for Rows<'_, P> {
    fn prepare(&mut self) {}

    fn write(&self, start: usize, out: [&mut [u64]; P]) {
        for (out, row) in out.into_iter().zip(self.0) {
            let len = out.len();
            out.copy_from_slice(&row[start..][..len]);
        }
    }
}

impl Divider {
    /// From `before` to its first `after` chain primes.
    #[must_use]
    pub fn new(basis: &RnsBasis, before: LimbSet, after: usize) -> Self {
        let moduli: Vec<Modulus> = basis.tables(before).map(|t| *t.modulus()).collect();
        let (to, from) = moduli.split_at(after);
        let inverse = to.iter().map(|m| {
            let product = from.iter().fold(1, |product, q| m.mul(product, m.reduce(q.value())));
            m.shoup(m.inv(product))
        });
        Self { before, after, inverse: inverse.collect(), converter: BaseConverter::new(from, to) }
    }

    /// `round(a / D)` of each polynomial; all have the same limbs.
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

    /// `round(a / D)` of polynomials with the given limbs, then permuted. If
    /// there are fewer chain primes than this was made for, the divisor is the
    /// special primes alone.
    ///
    /// Per polynomial: a transform for each prime of the divisor and each that
    /// stays. Every limb is written once and stays in cache meanwhile.
    pub(crate) fn run<const P: usize, D: Dividend<P>>(
        &self,
        basis: &RnsBasis,
        limbs: LimbSet,
        mut dividends: Vec<D>,
        permutation: Option<&Permutation>,
    ) -> [RnsPoly<Eval>; P] {
        debug_assert!(limbs == self.before || self.after == self.before.q());
        let (n, after) = (basis.n(), self.after.min(limbs.q()));
        let going = dividends.split_off(after);
        let mut remainders = [(); P].map(|()| basis.pool().take(going.len() * n));
        self.remainders(basis, limbs, going, &mut remainders);
        let mut out = [(); P].map(|()| basis.take(LimbSet::chain(after)));
        self.converter.spread(&remainders, &mut out, |_, i| i);
        drop(remainders);

        let mut permuted =
            permutation.map(|g| (g, [(); P].map(|()| basis.take(LimbSet::chain(after)))));
        let mut targets: Vec<_> = match &mut permuted {
            Some((g, polys)) => {
                let g: &Permutation = g;
                by_limb(polys.each_mut().map(RnsPoly::rows_mut))
                    .map(|rows| Some((g, rows)))
                    .collect()
            }
            None => (0..after).map(|_| None).collect(),
        };
        let rows = by_limb(out.each_mut().map(RnsPoly::rows_mut));
        let jobs = rows.zip(dividends).zip(targets.drain(..)).enumerate();
        par::for_each(jobs, |(i, ((mut rows, mut dividend), target))| {
            dividend.prepare();
            let (table, w) = (basis.table(limbs, i), self.inverse[i]);
            table.forward_rows(&mut rows);
            let mut values = [Tile::ZERO; P];
            for start in (0..n).step_by(TILE) {
                let len = TILE.min(n - start);
                dividend.write(start, values.each_mut().map(|tile| &mut tile.0[..len]));
                for (row, value) in rows.iter_mut().zip(&values) {
                    table.modulus().sub_scale_from(&mut row[start..][..len], &value.0[..len], w);
                }
            }
            if let Some((g, targets)) = target {
                for (target, row) in targets.into_iter().zip(rows) {
                    g.apply(target, row);
                }
            }
        });
        drop(targets);
        match permuted {
            Some((_, permuted)) => permuted,
            None => out.map(RnsPoly::assume_eval),
        }
    }

    /// The `y_i` of the primes that go, row after row.
    fn remainders<const P: usize, D: Dividend<P>>(
        &self,
        basis: &RnsBasis,
        limbs: LimbSet,
        going: Vec<D>,
        out: &mut [Buf; P],
    ) {
        let (n, after) = (basis.n(), limbs.count() - going.len());
        let rows = by_limb(out.each_mut().map(|buf| buf.chunks_exact_mut(n)));
        par::for_each(rows.zip(going).enumerate(), |(i, (mut rows, mut dividend))| {
            dividend.prepare();
            for start in (0..n).step_by(TILE) {
                let len = TILE.min(n - start);
                dividend.write(start, rows.each_mut().map(|row| &mut row[start..][..len]));
            }
            let table = basis.table(limbs, after + i);
            table.inverse_scaled(&mut rows, self.converter.inverse(i));
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
