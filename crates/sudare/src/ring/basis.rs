use super::{
    Coeff, Eval, Half, LimbSet, Repr, RnsPoly, TILE,
    rows::{columns, finish, permute},
};
use crate::Result;
use std::sync::Arc;
use sudare_arith::{
    ConstantDot, Modulus, NttTable, Permutation,
    mem::{Pool, Secrecy},
    par::{self, Tile},
    real,
};

/// The words of `a`, whose primes include `limbs`, in a tile of a polynomial modulo these.
fn piece<R: Repr>(a: &RnsPoly<R>, limbs: LimbSet, tile: Tile, len: usize) -> &[u64] {
    &a.row(limbs.place(tile.row, a.limbs()))[tile.start..][..len]
}

/// Words of each polynomial that several sums process before the next ones. With this length, some
/// hundred polynomials stay in the second-level cache.
const DOTS_WORDS: usize = 128;

/// Maximum free memory, in bytes, that a basis keeps for reuse.
const POOL_BYTES: usize = 4 << 30;

/// All primes of a parameter set with their tables, each built once.
///
/// A level is a view ([`LimbSet`]), never a second copy of the tables.
pub struct RnsBasis {
    log_n: u32,
    q: Vec<NttTable>,
    p: Vec<NttTable>,
    pool: Arc<Pool>,
}

impl core::fmt::Debug for RnsBasis {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let chain = self.q.len();
        let special = self.p.len();
        write!(f, "RnsBasis(N = 2^{}, {chain} chain primes, {special} special)", self.log_n)
    }
}

impl RnsBasis {
    /// Builds tables for chain primes `q` and special primes `p`.
    ///
    /// # Errors
    /// [`crate::Error::Arith`] if one of them is not a prime `1 mod 2N` below `2^62`.
    pub fn new(log_n: u32, q: &[u64], p: &[u64]) -> Result<Self> {
        let table = |&prime: &u64| NttTable::new(Modulus::new(prime)?, log_n);
        Ok(Self {
            log_n,
            q: par::try_map(q, table)?,
            p: par::try_map(p, table)?,
            pool: Pool::new(POOL_BYTES),
        })
    }

    /// `log2(N)`.
    #[must_use]
    pub fn log_n(&self) -> u32 {
        self.log_n
    }

    /// `N`.
    #[must_use]
    pub fn n(&self) -> usize {
        1 << self.log_n
    }

    /// All primes.
    #[must_use]
    pub fn all(&self) -> LimbSet {
        LimbSet::chain(self.q.len()).with_special(self.p.len())
    }

    /// The pool of the buffers.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Tables of the `i`-th prime of `limbs`.
    #[must_use]
    pub fn table(&self, limbs: LimbSet, i: usize) -> &NttTable {
        if i < limbs.q() { &self.q[limbs.start() + i] } else { &self.p[i - limbs.q()] }
    }

    /// The `i`-th prime of `limbs`.
    #[must_use]
    pub fn modulus(&self, limbs: LimbSet, i: usize) -> &Modulus {
        self.table(limbs, i).modulus()
    }

    /// Tables of the primes of `limbs`, in order.
    pub fn tables(&self, limbs: LimbSet) -> impl ExactSizeIterator<Item = &NttTable> {
        (0..limbs.count()).map(move |i| self.table(limbs, i))
    }

    /// Returns the primes of `limbs` at the places `wanted`: their numbers among all primes, and
    /// their tables.
    pub(crate) fn targets(
        &self,
        limbs: LimbSet,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<(usize, &NttTable)> {
        let places = (0..limbs.count()).filter(|&i| wanted(i));
        places.map(|i| (limbs.place(i, self.all()), self.table(limbs, i))).collect()
    }

    /// `log2` of the product of the primes of `limbs`.
    #[must_use]
    pub fn log2_product(&self, limbs: LimbSet) -> f64 {
        self.tables(limbs).map(|t| real::log2(t.modulus().value() as f64)).sum()
    }

    /// Returns a polynomial of unspecified contents.
    #[must_use]
    pub fn take<R: Repr>(&self, limbs: LimbSet) -> RnsPoly<R> {
        RnsPoly::new(limbs, self.n(), self.pool.take(limbs.count() * self.n()))
    }

    /// Returns the zero polynomial.
    #[must_use]
    pub fn zero<R: Repr>(&self, limbs: LimbSet) -> RnsPoly<R> {
        RnsPoly::new(limbs, self.n(), self.pool.take_zeroed(limbs.count() * self.n()))
    }

    /// Returns a zero polynomial, or one of unspecified contents if it is public.
    #[must_use]
    pub fn take_as<R: Repr>(&self, secrecy: Secrecy, limbs: LimbSet) -> RnsPoly<R> {
        RnsPoly::new(limbs, self.n(), self.pool.take_as(secrecy, limbs.count() * self.n()))
    }

    /// Returns the limbs of `a` for the primes of `limbs`, which the primes of `a` must include. As
    /// secret as `a`.
    #[must_use]
    pub fn restricted<R: Repr>(&self, a: &RnsPoly<R>, limbs: LimbSet) -> RnsPoly<R> {
        let mut out = self.take_as(a.secrecy(), limbs);
        for (i, out) in out.rows_mut().enumerate() {
            out.copy_from_slice(a.row(limbs.place(i, a.limbs())));
        }
        out
    }

    /// Transforms every limb.
    #[must_use]
    pub fn into_eval(&self, mut a: RnsPoly<Coeff>) -> RnsPoly<Eval> {
        let limbs = a.limbs();
        par::for_limbs(self.tables(limbs).zip(a.rows_mut()), |_, (t, row)| t.forward(row));
        a.cast()
    }

    /// Finishes the transform of every limb.
    #[must_use]
    pub(crate) fn finished(&self, a: &RnsPoly<Half>) -> RnsPoly<Eval> {
        let mut out = self.take(a.limbs());
        let rows = self.tables(a.limbs()).zip(a.rows().zip(out.rows_mut()));
        par::for_limbs(rows, |within, (t, (half, row))| finish(within, t, half, row));
        out
    }

    /// Transforms every limb back to coefficients.
    #[must_use]
    pub fn into_coeff(&self, mut a: RnsPoly<Eval>) -> RnsPoly<Coeff> {
        let limbs = a.limbs();
        par::for_limbs(self.tables(limbs).zip(a.rows_mut()), |_, (t, row)| t.inverse(row));
        a.cast()
    }

    /// Runs `f(modulus, out, a)` on matching tiles of the limbs of `out` and `a` for the same
    /// primes.
    fn zip_rows<R: Repr>(
        &self,
        out: &mut RnsPoly<R>,
        a: &RnsPoly<R>,
        f: impl Fn(&Modulus, &mut [u64], &[u64]) + Send + Sync,
    ) {
        let limbs = out.limbs();
        par::for_tiles(out.words_mut(), self.n(), 4 * TILE, |tile, part| {
            let other = piece(a, limbs, tile, part.len());
            f(self.modulus(limbs, tile.row), part, other);
        });
    }

    /// `a += b`. Further primes of `b` are ignored.
    pub fn add_assign<R: Repr>(&self, a: &mut RnsPoly<R>, b: &RnsPoly<R>) {
        self.zip_rows(a, b, |m, x, y| m.add_assign(x, y));
    }

    /// `a -= b`. Further primes of `b` are ignored.
    pub fn sub_assign<R: Repr>(&self, a: &mut RnsPoly<R>, b: &RnsPoly<R>) {
        self.zip_rows(a, b, |m, x, y| m.sub_assign(x, y));
    }

    /// `a *= b`. Further primes of `b` are ignored.
    pub fn mul_assign(&self, a: &mut RnsPoly<Eval>, b: &RnsPoly<Eval>) {
        self.zip_rows(a, b, |m, x, y| m.mul_assign(x, y));
    }

    /// `a = -a`.
    pub fn neg_assign<R: Repr>(&self, a: &mut RnsPoly<R>) {
        let limbs = a.limbs();
        par::for_tiles(a.words_mut(), self.n(), 4 * TILE, |tile, part| {
            self.modulus(limbs, tile.row).neg_assign(part);
        });
    }

    /// `a + b` on the primes of `limbs`.
    #[must_use]
    pub fn add<R: Repr>(&self, limbs: LimbSet, a: &RnsPoly<R>, b: &RnsPoly<R>) -> RnsPoly<R> {
        let mut out = self.take(limbs);
        par::for_tiles(out.words_mut(), self.n(), 4 * TILE, |tile, part| {
            let len = part.len();
            self.modulus(limbs, tile.row).add_rows(
                part,
                piece(a, limbs, tile, len),
                piece(b, limbs, tile, len),
            );
        });
        out
    }

    /// Returns `a` plus a constant, `c(m)` modulo each prime `m`.
    #[must_use]
    pub fn add_constant(
        &self,
        a: &RnsPoly<Eval>,
        c: impl Fn(&Modulus) -> u64 + Send + Sync,
    ) -> RnsPoly<Eval> {
        let limbs = a.limbs();
        let mut out = self.take(limbs);
        par::for_tiles(out.words_mut(), self.n(), 4 * TILE, |tile, part| {
            let m = self.modulus(limbs, tile.row);
            part.copy_from_slice(piece(a, limbs, tile, part.len()));
            // A constant polynomial has the same value at every root.
            m.add_constant(part, c(m));
        });
        out
    }

    /// `a - b` on the primes of `limbs`.
    #[must_use]
    pub fn sub<R: Repr>(&self, limbs: LimbSet, a: &RnsPoly<R>, b: &RnsPoly<R>) -> RnsPoly<R> {
        let mut out = self.take(limbs);
        par::for_tiles(out.words_mut(), self.n(), 4 * TILE, |tile, part| {
            let len = part.len();
            self.modulus(limbs, tile.row).sub_rows(
                part,
                piece(a, limbs, tile, len),
                piece(b, limbs, tile, len),
            );
        });
        out
    }

    /// `sum_i a[i] * b[i]` on the primes of `limbs`.
    #[must_use]
    pub fn mul_sum(
        &self,
        limbs: LimbSet,
        a: &[&RnsPoly<Eval>],
        b: &[&RnsPoly<Eval>],
    ) -> RnsPoly<Eval> {
        let mut out = self.take(limbs);
        par::for_tiles(out.words_mut(), self.n(), 4 * TILE, |tile, part| {
            let x: Vec<&[u64]> = a.iter().map(|a| piece(a, limbs, tile, part.len())).collect();
            let y: Vec<&[u64]> = b.iter().map(|b| piece(b, limbs, tile, part.len())).collect();
            self.modulus(limbs, tile.row).mul_sum(part, &x, &y);
        });
        out
    }

    /// `sum_i factors[i] a[i]` on the primes of `limbs`. `factors(i)` are the factors modulo the
    /// `i`-th prime.
    #[must_use]
    pub fn dot<R: Repr>(
        &self,
        limbs: LimbSet,
        a: &[&RnsPoly<R>],
        factors: impl Fn(usize) -> Vec<u64>,
    ) -> RnsPoly<R> {
        let mut out = self.take(limbs);
        let weights = |i| {
            let m = self.modulus(limbs, i);
            ConstantDot::new(m, &factors(i), &vec![m.value() - 1; a.len()])
        };
        let weights: Vec<ConstantDot> = (0..limbs.count()).map(weights).collect();
        par::for_tiles(out.words_mut(), self.n(), 4 * TILE, |tile, part| {
            let x: Vec<&[u64]> = a.iter().map(|a| piece(a, limbs, tile, part.len())).collect();
            weights[tile.row].dot(part, &x);
        });
        out
    }

    /// Computes `count` sums of the same polynomials, each like [`RnsBasis::dot`]. `factors(k, i)`
    /// are the factors of sum `k` modulo the `i`-th prime. Every word is read from memory once for
    /// all sums.
    #[must_use]
    pub fn dots<R: Repr>(
        &self,
        limbs: LimbSet,
        a: &[&RnsPoly<R>],
        count: usize,
        factors: impl Fn(usize, usize) -> Vec<u64> + Send + Sync,
    ) -> Vec<RnsPoly<R>> {
        let mut out: Vec<RnsPoly<R>> = (0..count).map(|_| self.take(limbs)).collect();
        let mut rows: Vec<Vec<&mut [u64]>> = (0..limbs.count()).map(|_| Vec::new()).collect();
        for poly in &mut out {
            for (limb, row) in rows.iter_mut().zip(poly.rows_mut()) {
                limb.push(row);
            }
        }
        par::for_limbs(rows.into_iter().enumerate(), |within, (i, rows)| {
            let m = self.modulus(limbs, i);
            let largest = vec![m.value() - 1; a.len()];
            let weights: Vec<ConstantDot> =
                (0..count).map(|k| ConstantDot::new(m, &factors(k, i), &largest)).collect();
            let weights: Vec<&ConstantDot> = weights.iter().collect();
            let columns = columns(rows.into_iter(), DOTS_WORDS);
            within.for_blocks(
                columns,
                || (),
                |(), (start, mut out)| {
                    let len = out.first().map_or(0, |out| out.len());
                    let place = |a: &RnsPoly<R>| limbs.place(i, a.limbs());
                    let x: Vec<&[u64]> =
                        a.iter().map(|a| &a.row(place(a))[start..][..len]).collect();
                    ConstantDot::dots(&weights, &mut out, &x);
                },
            );
        });
        out
    }

    /// Multiplies each limb of `a` by its own factor, `factor(i)` modulo the `i`-th prime.
    #[must_use]
    pub fn scale<R: Repr>(
        &self,
        a: &RnsPoly<R>,
        factor: impl Fn(usize) -> u64 + Sync,
    ) -> RnsPoly<R> {
        let limbs = a.limbs();
        let mut out = self.take_as(a.secrecy(), limbs);
        par::for_tiles(out.words_mut(), self.n(), 4 * TILE, |tile, part| {
            let m = self.modulus(limbs, tile.row);
            m.scale(part, piece(a, limbs, tile, part.len()), m.shoup(factor(tile.row)));
        });
        out
    }

    /// Returns `a(X^g)`, for the permutation of `g`. As secret as `a`.
    #[must_use]
    pub fn automorphism(&self, a: &RnsPoly<Eval>, g: &Permutation) -> RnsPoly<Eval> {
        let mut out = self.take_as(a.secrecy(), a.limbs());
        par::for_limbs(out.rows_mut().zip(a.rows()), |within, (out, row)| {
            permute(within, g, out, row);
        });
        out
    }

    /// Returns the polynomial with these small coefficients.
    #[must_use]
    pub fn from_small(&self, coeffs: &[i8], limbs: LimbSet, secrecy: Secrecy) -> RnsPoly<Eval> {
        debug_assert_eq!(coeffs.len(), self.n());
        let mut out: RnsPoly<Eval> = self.take_as(secrecy, limbs);
        par::for_each(self.tables(limbs).zip(out.rows_mut()), |(t, row)| {
            t.modulus().lift(row, coeffs);
            t.forward(row);
        });
        out
    }
}
