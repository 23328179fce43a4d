use crate::{
    Error, Isa, Modulus, Result, Shoup,
    kernel::{self, BLOCK, COLUMNS, KernelTable, ROW},
    mem::{Buf, Pool},
};

/// Negacyclic transform of rows modulo one prime, for `Z_q[X]/(X^N + 1)`.
///
/// Forward: coefficients in order to evaluations `a(psi^e)` at the odd powers of a primitive
/// `2N`-th root of unity `psi`. The evaluation at `e = 2 rev(i) + 1`, with `rev` the reversal of
/// `log_n` bits, is at place `i` for `N < 2^11`. For larger `N` each block of 2,048 places, seen as
/// 8 rows of 256, is stored transposed, which is the order that vector kernels produce.
/// [`NttTable::exponent`] maps places to exponents. The inverse transform undoes the forward one
/// and includes `1/N`. Both work in place, canonical to canonical.
///
/// Reference: [LN16](https://eprint.iacr.org/2016/504), Algorithms 1 and 2.
pub struct NttTable {
    modulus: Modulus,
    log_n: u32,
    kernels: &'static KernelTable,
    /// Twiddle factors in the layout of the kernels, aligned.
    forward: Buf,
    inverse: Buf,
}

impl core::fmt::Debug for NttTable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "NttTable({:?}, 2^{})", self.modulus, self.log_n)
    }
}

impl NttTable {
    /// Words of a group that may repeat; see [`NttTable::log_repeats`].
    pub const GROUP: usize = COLUMNS;

    /// Builds tables from the least primitive `2N`-th root of unity. They use the kernels of
    /// `modulus` if these support `log_n`.
    ///
    /// # Errors
    /// [`Error::DegreeOutOfRange`]; [`Error::NoRootOfUnity`].
    pub fn new(modulus: Modulus, log_n: u32) -> Result<Self> {
        // Word ranges (`may_grow`) and buffers (`MAX_LINES`) are sized for at most 17 layers.
        if !(4..=17).contains(&log_n) {
            return Err(Error::DegreeOutOfRange(log_n));
        }
        let psi = least_root(&modulus, log_n + 1)?;
        let n = 1usize << log_n;
        let kernels = match modulus.kernels() {
            // Vector transforms need at least one whole block of eight lines.
            table if log_n >= table.min_log_n => table,
            _ => &kernel::SCALAR,
        };
        let powers = |root: u64| {
            let mut table = vec![0; n];
            let mut power = 1;
            for k in 0..n {
                table[reverse(k, log_n)] = power;
                power = modulus.mul(power, root);
            }
            table
        };
        let forward = powers(psi);
        let mut inverse = powers(modulus.inv(psi));
        // Node 0 has no butterfly; its place holds 1/N.
        inverse[0] = modulus.inv(n as u64 % modulus.value());
        let aligned = |powers: &[u64]| {
            let table = (kernels.twiddles)(&modulus, log_n, powers);
            // This pool keeps nothing for reuse; it only aligns the table.
            let mut aligned = Pool::new(0).take(table.len());
            aligned.copy_from_slice(&table);
            aligned
        };
        let forward = aligned(&forward);
        let inverse = aligned(&inverse);
        Ok(Self { modulus, log_n, kernels, forward, inverse })
    }

    /// Builds tables with an instruction set of at most `best`. For tests and benchmarks.
    ///
    /// # Errors
    /// See [`Modulus::new`] and [`NttTable::new`].
    pub fn with_isa(q: u64, log_n: u32, best: Isa) -> Result<Self> {
        Self::new(Modulus::with_isa(q, best)?, log_n)
    }

    /// The modulus.
    #[must_use]
    pub fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    /// `log2(N)`.
    #[must_use]
    pub fn log_n(&self) -> u32 {
        self.log_n
    }

    pub(crate) fn kernels(&self) -> &'static KernelTable {
        self.kernels
    }

    pub(crate) fn forward_twiddles(&self) -> &[u64] {
        &self.forward
    }

    pub(crate) fn inverse_twiddles(&self) -> &[u64] {
        &self.inverse
    }

    /// Transforms coefficients to evaluations.
    pub fn forward(&self, row: &mut [u64]) {
        self.forward_rows(&mut [row]);
    }

    /// Runs [`NttTable::forward`] on each of `rows`, prefetching the next row meanwhile.
    pub fn forward_rows(&self, rows: &mut [&mut [u64]]) {
        let rows: Vec<*mut u64> = rows.iter_mut().map(|row| self.start(row)).collect();
        // SAFETY: the lengths are N; the modulus' table came from `select`.
        unsafe { (self.kernels.ntt_forward)(self, &rows) }
    }

    /// Transforms evaluations to coefficients.
    pub fn inverse(&self, row: &mut [u64]) {
        self.inverse_scaled(&mut [row], self.modulus.shoup(1));
    }

    /// Transforms each of `rows` to coefficients times `w`, prefetching the next row meanwhile.
    pub fn inverse_scaled(&self, rows: &mut [&mut [u64]], w: Shoup) {
        let rows: Vec<*mut u64> = rows.iter_mut().map(|row| self.start(row)).collect();
        // SAFETY: as in `forward_rows`.
        unsafe { (self.kernels.ntt_inverse)(self, &rows, w) }
    }

    /// Words of a group in [column order](NttTable::column_place): the words that the first half of
    /// a forward transform mixes.
    #[must_use]
    pub fn group_words(log_n: u32) -> usize {
        let n = 1 << log_n;
        if n < BLOCK { n } else { n / ROW * COLUMNS }
    }

    /// Returns the place of coefficient `i` in column order. Seen as lines of 256, the coefficients
    /// of eight adjacent columns are stored together, line after line. Rows of `N < 2^11` keep
    /// their order.
    ///
    /// In this order, the code that fills a row and the transform share the first-level cache,
    /// group by group. Evaluations are finished block by block, just before their use.
    #[must_use]
    pub fn column_place(log_n: u32, i: usize) -> usize {
        if 1 << log_n < BLOCK {
            return i;
        }
        let line = i / ROW;
        let column = i % ROW;
        column / COLUMNS * Self::group_words(log_n) + line * COLUMNS + column % COLUMNS
    }

    /// Runs the first half of a forward transform on whole groups of coefficients in column order.
    /// Pass the result only to [`NttTable::forward_lines`] of the same table.
    pub fn forward_columns(&self, groups: &mut [u64]) {
        let count = self.groups(groups);
        // SAFETY: the buffer holds `count` groups; the modulus' table came from `select`.
        unsafe { (self.kernels.ntt_forward_groups)(self, groups.as_mut_ptr(), count) }
    }

    /// Runs [`NttTable::forward_columns`] on sums that the same kernels left for it.
    pub(crate) fn forward_sums(&self, groups: &mut [u64]) {
        let count = self.groups(groups);
        // SAFETY: as in `forward_columns`.
        unsafe { (self.kernels.ntt_forward_sums)(self, groups.as_mut_ptr(), count) }
    }

    /// Returns the number of groups, which are whole.
    fn groups(&self, groups: &[u64]) -> usize {
        let words = Self::group_words(self.log_n);
        assert!(groups.len().is_multiple_of(words));
        groups.len() / words
    }

    /// Runs the second half of a forward transform: computes one block of evaluations, of
    /// [`Permutation::block_words`] words, from a row whose groups went through
    /// [`NttTable::forward_columns`]. Meanwhile it prefetches the next block of the row and
    /// `prefetch` to the second-level cache.
    pub fn forward_lines(&self, row: &[u64], block: usize, out: &mut [u64], prefetch: &[&[u8]]) {
        let words = Permutation::block_words(self.log_n);
        assert!(row.len() == 1 << self.log_n && out.len() == words && block < row.len() / words);
        // SAFETY: the lengths are checked; the rest as in `forward_columns`.
        unsafe {
            (self.kernels.ntt_forward_block)(self, row.as_ptr(), block, out.as_mut_ptr(), prefetch);
        }
    }

    /// Runs the first half of an inverse transform, from a block of evaluations to the same place
    /// of a row. Pass the result only to [`NttTable::inverse_columns`] of the same table. Meanwhile
    /// `prefetch` is brought into the second-level cache.
    pub fn inverse_lines(&self, block: usize, from: &[u64], out: &mut [u64], prefetch: &[&[u8]]) {
        let words = Permutation::block_words(self.log_n);
        assert!(from.len() == words && out.len() == words && block < (1 << self.log_n) / words);
        // SAFETY: the lengths are checked; the rest as in `forward_columns`.
        unsafe {
            (self.kernels.ntt_inverse_block)(
                self,
                block,
                from.as_ptr(),
                out.as_mut_ptr(),
                prefetch,
            );
        }
    }

    /// Runs the second half of an inverse transform: computes coefficients times `w`, in column
    /// order, from a row whose blocks went through [`NttTable::inverse_lines`].
    pub fn inverse_columns(&self, out: &mut [u64], row: &[u64], w: Shoup) {
        assert_eq!(out.len(), row.len());
        let out = self.start(out);
        // SAFETY: the lengths are N; as in `forward_columns`.
        unsafe { (self.kernels.ntt_inverse_groups)(self, row.as_ptr(), out, w) }
    }

    /// Returns `log2` of the length of runs of equal groups of eight words in a row of evaluations
    /// of a polynomial in `X^(2^log_gap)`, as all blocks have them at least.
    ///
    /// An evaluation at `psi^e` depends only on the lowest bits of `e`, so equal evaluations are
    /// neighbours in the order of `rev(i)`. A group has one word of each of the eight rows of a
    /// block, or eight neighbours in a row of less than 2^11 words.
    #[must_use]
    pub fn log_repeats(log_n: u32, log_gap: u32) -> u32 {
        // Constants alone have a larger gap.
        let log_gap = log_gap.min(log_n - 1);
        if 1 << log_n < BLOCK {
            log_gap.saturating_sub(COLUMNS.ilog2())
        } else {
            log_gap.min(ROW.ilog2())
        }
    }

    /// Returns `log2` of the length of runs of equal groups of eight words in a row, as
    /// [`NttTable::log_repeats`] predicts it: at most the value for constants.
    #[must_use]
    pub fn found_repeats(row: &[u64]) -> u32 {
        let log_n = row.len().ilog2();
        let runs = |log: &u32| {
            let mut runs = row.chunks_exact(COLUMNS << log);
            runs.all(|run| {
                let (first, rest) = run.split_at(COLUMNS);
                rest.chunks_exact(COLUMNS).all(|group| group == first)
            })
        };
        (1..=Self::log_repeats(log_n, log_n)).rev().find(runs).unwrap_or(0)
    }

    fn start(&self, row: &mut [u64]) -> *mut u64 {
        assert_eq!(row.len(), 1 << self.log_n);
        row.as_mut_ptr()
    }

    /// Returns the odd exponent `e` whose evaluation `a(psi^e)` is at `place`.
    #[must_use]
    pub fn exponent(log_n: u32, place: usize) -> usize {
        2 * reverse(unblock(log_n, place), log_n) + 1
    }

    /// Returns the place of the evaluation at the odd exponent `e`: the inverse of
    /// [`NttTable::exponent`].
    #[must_use]
    pub fn place(log_n: u32, e: usize) -> usize {
        debug_assert!(e % 2 == 1 && e < 2 << log_n);
        let i = reverse(e / 2, log_n);
        if 1 << log_n < BLOCK { i } else { i / BLOCK * BLOCK + i % ROW * COLUMNS + i % BLOCK / ROW }
    }
}

/// Converts a place in a transposed block to its row-major index.
fn unblock(log_n: u32, place: usize) -> usize {
    if 1 << log_n < BLOCK {
        return place;
    }
    place / BLOCK * BLOCK + place % COLUMNS * ROW + place % BLOCK / COLUMNS
}

fn reverse(i: usize, bits: u32) -> usize {
    i.reverse_bits() >> (usize::BITS - bits)
}

/// Returns the least primitive `2^log_order`-th root of unity.
fn least_root(m: &Modulus, log_order: u32) -> Result<u64> {
    let q = m.value();
    let error = Error::NoRootOfUnity { q, log_2n: log_order };
    if q % (1 << log_order) != 1 || !crate::is_prime(q) {
        return Err(error);
    }
    let root = (2..q)
        .map(|x| m.pow(x, (q - 1) >> log_order))
        // A root that is -1 at half the order has exactly this order.
        .find(|&root| m.pow(root, 1 << (log_order - 1)) == q - 1)
        .ok_or(error)?;
    // The primitive roots are the odd powers of any one of them.
    let square = m.mul(root, root);
    let powers = core::iter::successors(Some(root), |&x| Some(m.mul(x, square)));
    Ok(powers.take(1 << (log_order - 1)).fold(root, u64::min))
}

/// The action of `X -> X^g` on evaluations: one permutation for all moduli.
///
/// Rows consist of blocks of [`Permutation::block_words`] words. All words of a block of the result
/// come from one block of the argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    /// Source block of each block of the result.
    blocks: Vec<u32>,
    /// Source of each word within the source block, below [`Permutation::block_words`].
    source: Vec<u16>,
}

impl Permutation {
    /// Maps evaluations of `a(X)` to evaluations of `a(X^g)`, for an odd `g`.
    #[must_use]
    pub fn galois(log_n: u32, g: usize) -> Self {
        debug_assert!(g % 2 == 1);
        let mask = (2 << log_n) - 1;
        let words = Self::block_words(log_n);
        let from = |x| NttTable::place(log_n, (NttTable::exponent(log_n, x) * g) & mask);
        Self {
            blocks: (0..1 << log_n).step_by(words).map(|x| (from(x) / words) as u32).collect(),
            source: (0..1 << log_n).map(|x| (from(x) % words) as u16).collect(),
        }
    }

    /// `out[x] = a[source(x)]`.
    pub fn apply(&self, out: &mut [u64], a: &[u64]) {
        assert!(out.len() == self.source.len() && a.len() == self.source.len());
        let words = out.len() / self.blocks.len();
        for (block, out) in out.chunks_exact_mut(words).enumerate() {
            self.apply_block(block, out, &a[self.source_block(block) * words..][..words]);
        }
    }

    /// Words in a block: 2,048, or all of a shorter row.
    #[must_use]
    pub fn block_words(log_n: u32) -> usize {
        BLOCK.min(1 << log_n)
    }

    /// The source block of `block`.
    #[must_use]
    pub fn source_block(&self, block: usize) -> usize {
        self.blocks[block] as usize
    }

    /// Writes the words of `block` of the result, given its source block.
    pub fn apply_block(&self, block: usize, out: &mut [u64], a: &[u64]) {
        let words = self.source.len() / self.blocks.len();
        assert!(out.len() == words && a.len() == words);
        let source = &self.source[block * words..][..words];
        // SAFETY: both have as many words as a block, and every source is below that number.
        unsafe { kernel::pick(out, a, source) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::previous_prime;

    fn table(log_n: u32, bits: u32) -> NttTable {
        let q = previous_prime(1 << bits, 2 << log_n).unwrap();
        NttTable::new(Modulus::new(q).unwrap(), log_n).unwrap()
    }

    fn poly(n: usize, q: u64, seed: u64) -> Vec<u64> {
        let step = |s: &mut u64| {
            *s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some((*s >> 2) % q)
        };
        let mut state = seed;
        core::iter::from_fn(|| step(&mut state)).take(n).collect()
    }

    fn schoolbook(m: &Modulus, a: &[u64], b: &[u64]) -> Vec<u64> {
        let n = a.len();
        let mut c = vec![0; n];
        for (i, &x) in a.iter().enumerate() {
            for (j, &y) in b.iter().enumerate() {
                let p = m.mul(x, y);
                let k = (i + j) % n;
                c[k] = if i + j < n { m.add(c[k], p) } else { m.sub(c[k], p) };
            }
        }
        c
    }

    #[test]
    fn products_equal_schoolbook() {
        for (log_n, bits) in [(4, 20), (5, 50), (8, 61), (11, 48), (11, 49), (11, 50), (12, 61)] {
            let t = table(log_n, bits);
            let m = t.modulus();
            let a = poly(1 << log_n, m.value(), 1);
            let b = poly(1 << log_n, m.value(), 2);
            let expected = schoolbook(m, &a, &b);
            let mut x = a;
            let mut y = b;
            t.forward(&mut x);
            t.forward(&mut y);
            m.mul_assign(&mut x, &y);
            t.inverse(&mut x);
            assert_eq!(x, expected, "2^{log_n}, {bits} bits");
        }
    }

    #[test]
    fn evaluations_are_where_the_map_says() {
        for log_n in [4, 10, 11, 13] {
            let t = table(log_n, 45);
            let m = t.modulus();
            let a = poly(1 << log_n, m.value(), 3);
            let mut x = a.clone();
            t.forward(&mut x);
            let psi = least_root(m, log_n + 1).unwrap();
            for place in [0, 1, 7, (1 << log_n) - 1] {
                let e = NttTable::exponent(log_n, place);
                assert_eq!(NttTable::place(log_n, e), place);
                let at = m.pow(psi, e as u64);
                let value = a.iter().rev().fold(0, |s, &c| m.add(m.mul(s, at), c));
                assert_eq!(x[place], value);
            }
        }
    }

    /// In rings on both sides of the size of a block, and on every table.
    #[test]
    fn evaluations_repeat_as_the_gap_says() {
        for log_n in [4, 6, 10, 11, 12, 13] {
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                let q = previous_prime(1 << 45, 2 << log_n).unwrap();
                let t = NttTable::with_isa(q, log_n, isa).unwrap();
                for log_gap in 0..=log_n {
                    let mut row = poly(1 << log_n, q, 5);
                    row.iter_mut()
                        .enumerate()
                        .for_each(|(i, x)| *x *= u64::from(i % (1 << log_gap) == 0));
                    t.forward(&mut row);
                    let predicted = NttTable::log_repeats(log_n, log_gap);
                    assert_eq!(NttTable::found_repeats(&row), predicted, "2^{log_n}, 2^{log_gap}");
                    // A row that differs anywhere does not repeat.
                    let at = (1 << log_n) - 1 - (log_gap as usize & 7);
                    row[at] = (row[at] + 1) % q;
                    assert_eq!(NttTable::found_repeats(&row), 0);
                }
            }
        }
    }

    #[test]
    fn permutation_is_the_automorphism() {
        for (log_n, g) in [(4, 5), (11, 25), (12, 8191)] {
            let t = table(log_n, 40);
            let m = t.modulus();
            let n = 1usize << log_n;
            let a = poly(n, m.value(), 4);
            let mut image = vec![0; n];
            for (i, &c) in a.iter().enumerate() {
                let k = i * g % (2 * n);
                image[k % n] = if k < n { c } else { m.neg(c) };
            }
            let mut x = a;
            t.forward(&mut x);
            t.forward(&mut image);
            let mut y = vec![0; n];
            let permutation = Permutation::galois(log_n, g);
            permutation.apply(&mut y, &x);
            assert_eq!(y, image);
            y.fill(0);
            let words = Permutation::block_words(log_n);
            for (block, out) in y.chunks_mut(words).enumerate() {
                let source = permutation.source_block(block) * words;
                permutation.apply_block(block, out, &x[source..][..words]);
            }
            assert_eq!(y, image);
        }
    }

    #[test]
    fn wrong_moduli_and_degrees_are_refused() {
        let m = Modulus::new((1 << 50) - 27).unwrap();
        assert!(matches!(NttTable::new(m, 10), Err(Error::NoRootOfUnity { log_2n: 11, .. })));
        assert_eq!(NttTable::new(m, 3).unwrap_err(), Error::DegreeOutOfRange(3));
        assert_eq!(NttTable::new(m, 18).unwrap_err(), Error::DegreeOutOfRange(18));
    }
}
