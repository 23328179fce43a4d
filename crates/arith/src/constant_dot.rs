use crate::{
    Modulus, NttTable,
    kernel::{KernelTable, TERMS},
    modulus::pointers,
};
use core::{fmt, ptr};

/// Constants `c_i` of sums `sum_i a[i][x] c_i` modulo a prime, prepared once for many sums.
pub struct ConstantDot {
    /// The modulus, with kernels that accept the words of the rows.
    modulus: Modulus,
    /// The constants in the form that the kernels read.
    factors: Vec<u64>,
    /// Upper bound of all words.
    widest: u64,
    width: u64,
    /// [`ConstantDot::middle`] times the sum of the constants, in `[0, q)`.
    middle_sum: u64,
}

/// One row of sums and the table that transforms it; see [`ConstantDot::columns`].
pub struct Column<'a> {
    /// Constants of the sums.
    pub weights: &'a ConstantDot,
    /// Table of the transform, modulo the same prime.
    pub table: &'a NttTable,
    /// Whole groups in column order.
    pub out: &'a mut [u64],
}

impl fmt::Debug for ConstantDot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConstantDot({} terms modulo {})", self.factors.len(), self.modulus.value())
    }
}

/// The sums may be secret, so only their number is printed.
impl fmt::Debug for Column<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Column({:?}, {} words)", self.weights, self.out.len())
    }
}

/// Columns handled together: one group of each stays in the first-level cache.
// The largest `Lanes::DOTS`: one reading of the words serves four sums (performance log, key
// switching).
const TOGETHER: usize = 4;

impl ConstantDot {
    /// Prepares the constants `c`, in `[0, q)`. `largest` bounds the words of each row, below
    /// `2^62`. Words need not be residues of `q`. For `q < 2^50` of `b` bits, words of more than 52
    /// bits or of more than `100 - b` bits are slower.
    #[must_use]
    pub fn new(m: &Modulus, c: &[u64], largest: &[u64]) -> Self {
        assert_eq!(c.len(), largest.len());
        debug_assert!(c.iter().all(|&c| c < m.value()));
        let widest = largest.iter().copied().max().unwrap_or(0);
        let modulus = m.for_inputs_of(u64::BITS - widest.leading_zeros());
        let total = |part: &[u64]| part.iter().map(|&word| u128::from(word)).sum::<u128>();
        // Sums are reduced after `TERMS` products, so only the words of one run add up.
        let total = largest.chunks(TERMS).map(total).max().unwrap_or(0);
        let factors = c.iter().map(|&c| (modulus.kernels().weight)(&modulus, c)).collect();
        // One modulus more, because Montgomery's reduction adds `q` to stay positive.
        let width = 1 + total.div_ceil(1 << 52) as u64;
        let sum = c.iter().fold(0, |sum, &c| m.add(sum, c));
        let middle_sum = m.mul(sum, m.reduce(widest.div_ceil(2)));
        Self { modulus, factors, widest, width, middle_sum }
    }

    pub(crate) fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    pub(crate) fn factors(&self) -> &[u64] {
        &self.factors
    }

    /// Returns `max(1, s / 2^52)` rounded up, where `s` is the largest possible sum of the words at
    /// one place over up to 15 rows. The products of these rows are reduced together.
    pub(crate) fn width(&self) -> u64 {
        self.width
    }

    /// Returns an upper bound of the words, the same for all weights of a sum if they were prepared
    /// alike.
    pub(crate) fn widest(&self) -> u64 {
        self.widest
    }

    /// Returns half of the largest word, rounded up, and its product with the sum of the constants,
    /// in `[0, q)`. Kernels that subtract the first from each word add the second to each sum.
    pub(crate) fn middle(&self) -> (u64, u64) {
        (self.widest.div_ceil(2), self.middle_sum)
    }

    fn kernels(&self) -> &'static KernelTable {
        self.modulus.kernels()
    }

    /// Returns pointers to the rows: one of `len` words for each constant.
    fn words(&self, a: &[&[u64]], len: usize) -> Vec<*const u64> {
        assert_eq!(a.len(), self.factors.len());
        // Kernels compute nonsense from larger words.
        debug_assert!(a.iter().all(|row| row.iter().all(|&word| word <= self.widest)));
        pointers(a, len)
    }

    /// Writes `out[x] = sum_i a[i][x] c_i`, canonical.
    pub fn dot(&self, out: &mut [u64], a: &[&[u64]]) {
        let a = self.words(a, out.len());
        // SAFETY: `words` checked the lengths; the table came from `select`, which checked the
        // CPU, and made the factors.
        unsafe { (self.kernels().dot)(&[self], &[out.as_mut_ptr()], &a, false, out.len()) }
    }

    /// Computes [`ConstantDot::dot`] of the same words with each of several weights of one modulus.
    /// The weights must use the same kernels. A group of sums then reads the words once.
    pub fn dots(weights: &[&Self], out: &mut [&mut [u64]], a: &[&[u64]]) {
        assert_eq!(weights.len(), out.len());
        let len = out.first().map_or(0, |out| out.len());
        let Some(kernels) = weights.first().map(|weights| weights.kernels()) else { return };
        let words = weights[0].words(a, len);
        for (weights, out) in weights.iter().zip(&*out) {
            // One kernel runs all sums. It would misread factors in the form of another table.
            assert!(ptr::eq(weights.kernels(), kernels));
            assert!(weights.factors.len() == a.len() && out.len() == len);
        }
        let out: Vec<*mut u64> = out.iter_mut().map(|out| out.as_mut_ptr()).collect();
        // SAFETY: as in `dot`, for each of the weights; the outputs have as many words.
        unsafe { (kernels.dot)(weights, &out, &words, false, len) }
    }

    /// Computes [`ConstantDot::dot`] of the same words for all `columns`, and then
    /// [`NttTable::forward_columns`] of each while it is in the first-level cache.
    pub fn columns(columns: &mut [Column<'_>], a: &[&[u64]]) {
        let Some(Column { weights, out, .. }) = columns.first() else { return };
        let len = out.len();
        let words = weights.words(a, len);
        let takes = |column: &Column<'_>| (column.weights.kernels(), column.table.kernels());
        let alike = |x: &Column<'_>, y: &Column<'_>| {
            let ((x0, x1), (y0, y1)) = (takes(x), takes(y));
            ptr::eq(x0, y0) && ptr::eq(x1, y1)
        };
        for together in columns.chunks_mut(TOGETHER) {
            // Primes of different lengths use different tables, and one call serves only one table.
            for same in together.chunk_by_mut(alike) {
                let weights: Vec<&Self> = same.iter().map(|column| column.weights).collect();
                let out: Vec<*mut u64> =
                    same.iter_mut().map(|column| column.out.as_mut_ptr()).collect();
                for Column { weights, table, out } in &*same {
                    assert!(out.len() == len && weights.factors.len() == a.len());
                    debug_assert_eq!(table.modulus(), weights.modulus());
                }
                // Only the transform of the same kernels knows the form of lazy sums.
                let (sums, transforms) = takes(&same[0]);
                let lazy = ptr::eq(sums, transforms);
                // SAFETY: as in `dot`; the outputs have as many words.
                unsafe { (sums.dot)(&weights, &out, &words, lazy, len) }
                for Column { table, out, .. } in same {
                    if lazy { table.forward_sums(out) } else { table.forward_columns(out) }
                }
            }
        }
    }
}
