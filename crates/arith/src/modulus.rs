use crate::{
    Error, Isa, Result,
    kernel::{self, COLUMNS, KernelTable, ROW, Repeated},
    wide,
};

/// A fixed factor with the quotient that makes multiplication by it cheap.
///
/// `quotient = floor(value * 2^64 / q)`. Made by [`Modulus::shoup`] and valid with that modulus
/// only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shoup {
    pub(crate) value: u64,
    pub(crate) quotient: u64,
}

impl Shoup {
    /// The factor, in `[0, q)`.
    #[must_use]
    pub fn value(self) -> u64 {
        self.value
    }
}

/// An odd modulus `3 <= q < 2^62`, its reduction constants and its kernels.
///
/// Scalar arguments are in `[0, q)` unless stated otherwise. Debug builds check this. No code
/// branches on them. Rows are canonical, in `[0, q)`, before and after every call, and all rows of
/// a call have the same length.
#[derive(Clone, Copy)]
pub struct Modulus {
    q: u64,
    /// `floor(2^128 / q)`, low word first.
    barrett: [u64; 2],
    /// The factor 1.
    one: Shoup,
    /// The factor `2^r mod q`, where `2^r` is the radix of the kernels.
    radix: Shoup,
    /// `q^-1 mod 2^64`.
    inverse: u64,
    kernels: &'static KernelTable,
}

impl core::fmt::Debug for Modulus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Modulus({}, {})", self.q, self.kernels.name)
    }
}

impl PartialEq for Modulus {
    fn eq(&self, other: &Self) -> bool {
        self.q == other.q
    }
}

impl Modulus {
    /// Selects the best instruction set; see [`Isa::detect`].
    ///
    /// # Errors
    /// [`Error::ModulusOutOfRange`].
    pub fn new(q: u64) -> Result<Self> {
        Self::with_isa(q, Isa::detect())
    }

    /// Selects an instruction set of at most `best`. For tests and benchmarks.
    ///
    /// # Errors
    /// [`Error::ModulusOutOfRange`].
    pub fn with_isa(q: u64, best: Isa) -> Result<Self> {
        // Lazy values need `4 q < 2^64`, sums of 15 products `15 q^2 < 2^128`, and inverses modulo
        // powers of two an odd `q`.
        if q < 3 || q.is_multiple_of(2) || q >> 62 != 0 {
            return Err(Error::ModulusOutOfRange(q));
        }
        // q is odd, so floor((2^128 - 1) / q) = floor(2^128 / q).
        let barrett = u128::MAX / u128::from(q);
        let kernels = kernel::select(q, best);
        let zero = Shoup { value: 0, quotient: 0 };
        let mut m = Self {
            q,
            barrett: [barrett as u64, (barrett >> 64) as u64],
            one: zero,
            radix: zero,
            inverse: inverse(q),
            kernels,
        };
        m.one = m.shoup(1);
        Ok(m.with_kernels(kernels))
    }

    fn with_kernels(mut self, kernels: &'static KernelTable) -> Self {
        self.kernels = kernels;
        self.radix = self.shoup(((1u128 << kernels.radix_bits) % u128::from(self.q)) as u64);
        self
    }

    /// Returns the modulus with kernels for input rows of words of other moduli, of up to `bits`
    /// bits, in [`Modulus::scale`] and [`Modulus::reduce_rows`].
    #[must_use]
    pub fn for_inputs_of(&self, bits: u32) -> Self {
        match self.kernels.wide {
            // These multipliers read 52 bits of a word, and their sums hold products of 100 bits.
            Some(kernels) if bits > 52.min(100 - self.bits()) => self.with_kernels(kernels),
            _ => *self,
        }
    }

    /// `q`.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.q
    }

    /// Bits of `q`: the least `b` with `q < 2^b`.
    #[must_use]
    pub fn bits(&self) -> u32 {
        64 - self.q.leading_zeros()
    }

    /// The name of the kernels in use: `scalar`, `neon-50`, `avx2-50`, `avx512-50`,
    /// `avx512ifma-47`, `-48`, `-49`, `-49.6`, `-50` or `avx512-62`.
    #[must_use]
    pub fn kernel_name(&self) -> &'static str {
        self.kernels.name
    }

    pub(crate) fn kernels(&self) -> &'static KernelTable {
        self.kernels
    }

    pub(crate) fn one(&self) -> Shoup {
        self.one
    }

    pub(crate) fn radix(&self) -> Shoup {
        self.radix
    }

    pub(crate) fn inverse(&self) -> u64 {
        self.inverse
    }

    /// `a + b mod q`.
    #[must_use]
    pub fn add(&self, a: u64, b: u64) -> u64 {
        debug_assert!(a < self.q && b < self.q);
        let s = a + b;
        // Below `q` the difference wraps to a huge word, so the minimum reduces without a branch.
        s.min(s.wrapping_sub(self.q))
    }

    /// `a - b mod q`.
    #[must_use]
    pub fn sub(&self, a: u64, b: u64) -> u64 {
        debug_assert!(a < self.q && b < self.q);
        let d = a.wrapping_sub(b);
        d.min(d.wrapping_add(self.q))
    }

    /// `-a mod q`.
    #[must_use]
    pub fn neg(&self, a: u64) -> u64 {
        self.sub(0, a)
    }

    /// `a * b mod q`.
    #[must_use]
    pub fn mul(&self, a: u64, b: u64) -> u64 {
        debug_assert!(a < self.q && b < self.q);
        self.reduce_u128(wide::product(a, b))
    }

    /// `a mod q` for any `a`.
    #[must_use]
    pub fn reduce(&self, a: u64) -> u64 {
        self.reduce_u128(u128::from(a))
    }

    /// `a mod q` for any `a`.
    ///
    /// Barrett: the quotient estimate is the high half of `a * floor(2^128 / q)`
    /// less at most 1, so one conditional subtraction follows.
    #[must_use]
    pub fn reduce_u128(&self, a: u128) -> u64 {
        let ([a0, a1], [b0, b1]) = ([a as u64, (a >> 64) as u64], self.barrett);
        let mid0 = wide::product(a0, b1) + u128::from(wide::high(a0, b0));
        let mid1 = wide::product(a1, b0) + u128::from(mid0 as u64);
        let carried = ((mid0 >> 64) as u64).wrapping_add((mid1 >> 64) as u64);
        // Only low words from here on: the remainder is below `2 q`, which fits a word.
        let quotient = a1.wrapping_mul(b1).wrapping_add(carried);
        let r = a0.wrapping_sub(quotient.wrapping_mul(self.q));
        r.min(r.wrapping_sub(self.q))
    }

    /// `a mod q` for a signed `a`.
    #[must_use]
    pub fn reduce_i64(&self, a: i64) -> u64 {
        let r = self.reduce(a.unsigned_abs());
        // Negates without a branch: `!r + q + 1 = q - r`. Zero must stay zero, not become `q`.
        let mask = ((a >> 63) as u64) & u64::from(r != 0).wrapping_neg();
        (r ^ mask).wrapping_add(mask & (self.q + 1))
    }

    /// `a mod q` for a signed `a`.
    #[must_use]
    pub fn reduce_i128(&self, a: i128) -> u64 {
        let r = self.reduce_u128(a.unsigned_abs());
        let mask = ((a >> 127) as u64) & u64::from(r != 0).wrapping_neg();
        (r ^ mask).wrapping_add(mask & (self.q + 1))
    }

    /// The representative of `a` in `(-q/2, q/2)`.
    #[must_use]
    pub fn centered(&self, a: u64) -> i64 {
        debug_assert!(a < self.q);
        // The sign bit is the comparison with `q / 2`: coefficients may be secret.
        let high = ((self.q / 2).wrapping_sub(a) as i64) >> 63;
        a as i64 - (self.q as i64 & high)
    }

    /// `a^e mod q`. Time depends on `e`.
    #[must_use]
    pub fn pow(&self, a: u64, e: u64) -> u64 {
        let mut result = 1;
        for bit in (0..64 - e.leading_zeros()).rev() {
            result = self.mul(result, result);
            if e >> bit & 1 == 1 {
                result = self.mul(result, a);
            }
        }
        result
    }

    /// `a^-1 mod q` for a prime `q` and `a != 0`.
    #[must_use]
    pub fn inv(&self, a: u64) -> u64 {
        debug_assert!(a != 0);
        // Fermat's little theorem. The exponent is public, so its time is too.
        self.pow(a, self.q - 2)
    }

    /// Prepares the factor `w mod q` for [`Modulus::scale`].
    #[must_use]
    pub fn shoup(&self, w: u64) -> Shoup {
        let value = self.reduce(w);
        Shoup { value, quotient: self.quotient(value) }
    }

    /// Returns `floor(2^(k + 62) / q)` for `q` of `k` bits: the upper bits of the longer
    /// reciprocal.
    pub(crate) fn reciprocal(&self) -> u64 {
        let [low, high] = self.barrett;
        let shift = 66 - self.bits();
        ((u128::from(high) << 64 | u128::from(low)) >> shift) as u64
    }

    /// Returns `floor(w * 2^64 / q)`, from the reciprocal and one correction.
    pub(crate) fn quotient(&self, w: u64) -> u64 {
        debug_assert!(w < self.q);
        let [low, high] = self.barrett;
        // At most 1 too small, since only the low part of `w low` is cut.
        let estimate = w.wrapping_mul(high).wrapping_add(wide::high(w, low));
        // `w 2^64` is 0 modulo `2^64`, so the low word of the multiple is all that is needed.
        let remainder = 0u64.wrapping_sub(estimate.wrapping_mul(self.q));
        estimate + u64::from(remainder >= self.q)
    }

    /// `out = a + b`.
    pub fn add_rows(&self, out: &mut [u64], a: &[u64], b: &[u64]) {
        assert!(out.len() == a.len() && out.len() == b.len());
        // SAFETY: lengths are equal; `kernels` came from `select`, which checked the CPU.
        unsafe { (self.kernels.add)(self, out.as_mut_ptr(), a.as_ptr(), b.as_ptr(), out.len()) }
    }

    /// `a += b`.
    pub fn add_assign(&self, a: &mut [u64], b: &[u64]) {
        assert_eq!(a.len(), b.len());
        let p = a.as_mut_ptr();
        // SAFETY: as in `add_rows`; kernels read word `i` of every input before writing it.
        unsafe { (self.kernels.add)(self, p, p, b.as_ptr(), a.len()) }
    }

    /// `out = a - b`.
    pub fn sub_rows(&self, out: &mut [u64], a: &[u64], b: &[u64]) {
        assert!(out.len() == a.len() && out.len() == b.len());
        // SAFETY: as in `add_rows`.
        unsafe { (self.kernels.sub)(self, out.as_mut_ptr(), a.as_ptr(), b.as_ptr(), out.len()) }
    }

    /// `a -= b`.
    pub fn sub_assign(&self, a: &mut [u64], b: &[u64]) {
        assert_eq!(a.len(), b.len());
        let p = a.as_mut_ptr();
        // SAFETY: as in `add_assign`.
        unsafe { (self.kernels.sub)(self, p, p, b.as_ptr(), a.len()) }
    }

    /// `a = -a`.
    pub fn neg_assign(&self, a: &mut [u64]) {
        for x in a {
            *x = self.neg(*x);
        }
    }

    /// `out = a * b`, word by word.
    pub fn mul_rows(&self, out: &mut [u64], a: &[u64], b: &[u64]) {
        self.mul_sum(out, &[a], &[b]);
    }

    /// `a *= b`, word by word.
    pub fn mul_assign(&self, a: &mut [u64], b: &[u64]) {
        assert_eq!(a.len(), b.len());
        let p = a.as_mut_ptr();
        // SAFETY: as in `add_assign`.
        unsafe { (self.kernels.mul_sum)(self, p, &[p.cast_const()], &[b.as_ptr()], a.len()) }
    }

    /// `out = a * b + c`, word by word in one pass.
    pub fn mul_add(&self, out: &mut [u64], a: &[u64], b: &[u64], c: &[u64]) {
        let [a, b, c] = [a, b, c].map(|row| {
            assert_eq!(row.len(), out.len());
            row.as_ptr()
        });
        // SAFETY: as in `add_rows`.
        unsafe { (self.kernels.mul_add)(self, out.as_mut_ptr(), a, b, c, out.len()) }
    }

    /// `out[x] = sum_i a[i][x] * b[i][x]`, with one reduction for up to 15 terms.
    pub fn mul_sum(&self, out: &mut [u64], a: &[&[u64]], b: &[&[u64]]) {
        assert_eq!(a.len(), b.len());
        let a = pointers(a, out.len());
        let b = pointers(b, out.len());
        // SAFETY: `pointers` checked the lengths; the rest as in `add_rows`.
        unsafe { (self.kernels.mul_sum)(self, out.as_mut_ptr(), &a, &b, out.len()) }
    }

    /// Bytes of a packed residue: `ceil(bits(q) / 8)`, 1 to 8.
    #[must_use]
    pub fn packed_bytes(&self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    /// Packs residues: the low [`Modulus::packed_bytes`] bytes of each, little endian, one after
    /// the other. `out` has exactly the required length.
    pub fn pack(&self, out: &mut [u8], a: &[u64]) {
        assert_eq!(out.len(), self.packed_bytes() * a.len());
        debug_assert!(a.iter().all(|&a| a < self.q));
        // SAFETY: `out` has the bytes of `a.len()` packed words; the rest as in `add_rows`.
        unsafe { (self.kernels.pack)(self, out.as_mut_ptr(), a.as_ptr(), a.len()) }
    }

    /// Undoes [`Modulus::pack`]. Returns `true` if all words are in `[0, q)`, which can only fail
    /// for bytes from another source.
    #[must_use]
    pub fn unpack(&self, out: &mut [u64], a: &[u8]) -> bool {
        assert_eq!(a.len(), self.packed_bytes() * out.len());
        // SAFETY: `a` has the bytes of `out.len()` packed words; the rest as in `add_rows`.
        unsafe { (self.kernels.unpack)(self, out.as_mut_ptr(), a.as_ptr(), out.len()) }
    }

    /// Returns `true` if all packed words are in `[0, q)`.
    #[must_use]
    pub fn are_residues(&self, a: &[u8]) -> bool {
        // A tile on the stack instead of a buffer of the row's size: the words are only checked.
        let mut words = [0; 512];
        let width = self.packed_bytes();
        let mut tiles = a.chunks(words.len() * width);
        tiles.all(|tile| self.unpack(&mut words[..tile.len() / width], tile))
    }

    /// [`Modulus::mul_sum`] with packed `b`.
    pub fn mul_sum_packed(&self, out: &mut [u64], a: &[&[u64]], b: &[&[u8]]) {
        assert_eq!(a.len(), b.len());
        let a = pointers(a, out.len());
        let b = pointers(b, self.packed_bytes() * out.len());
        let b = Repeated { rows: &b[..], log_repeats: 0 };
        // SAFETY: as in `mul_sum`; rows of `b` have the bytes of `out.len()` packed words.
        unsafe { (self.kernels.mul_sum_packed)(self, &[out.as_mut_ptr()], &[&a], b, out.len()) }
    }

    /// Computes [`Modulus::mul_sum_packed`] of two `a` with one `b`, reading `b` once. Rows of `b`
    /// have one of every `2^log_repeats` groups of eight words, which are equal; see
    /// [`NttTable::log_repeats`](crate::NttTable::log_repeats). Outputs have whole runs of such groups, or any length without
    /// repetition.
    pub fn mul_sums_packed(
        &self,
        out: [&mut [u64]; 2],
        a: [&[&[u64]]; 2],
        b: &[&[u8]],
        log_repeats: u32,
    ) {
        let len = out[0].len();
        assert!(out[1].len() == len && a.iter().all(|a| a.len() == b.len()));
        assert!(log_repeats <= ROW.ilog2());
        assert!(log_repeats == 0 || len.is_multiple_of(COLUMNS << log_repeats));
        let a = a.map(|a| pointers(a, len));
        let b = pointers(b, self.packed_bytes() * (len >> log_repeats));
        let b = Repeated { rows: &b[..], log_repeats };
        let out = out.map(<[u64]>::as_mut_ptr);
        // SAFETY: as in `mul_sum_packed`; both outputs have `len` words, and rows of `b` the groups
        // of their runs.
        unsafe { (self.kernels.mul_sum_packed)(self, &out, &a.each_ref().map(|a| &a[..]), b, len) }
    }

    /// `out = a * w`. The words of `a` are below `2^52` if `q < 2^50`, and arbitrary otherwise.
    pub fn scale(&self, out: &mut [u64], a: &[u64], w: Shoup) {
        assert_eq!(out.len(), a.len());
        // SAFETY: as in `add_rows`.
        unsafe { (self.kernels.scale)(self, out.as_mut_ptr(), a.as_ptr(), w, out.len()) }
    }

    /// `a *= w`.
    pub fn scale_assign(&self, a: &mut [u64], w: Shoup) {
        let p = a.as_mut_ptr();
        // SAFETY: as in `add_assign`.
        unsafe { (self.kernels.scale)(self, p, p, w, a.len()) }
    }

    /// `out = a mod q`, for words as in [`Modulus::scale`].
    pub fn reduce_rows(&self, out: &mut [u64], a: &[u64]) {
        self.scale(out, a, self.one);
    }

    /// `out += a * w`.
    pub fn scale_add(&self, out: &mut [u64], a: &[u64], w: Shoup) {
        assert_eq!(out.len(), a.len());
        // SAFETY: as in `add_rows`.
        unsafe { (self.kernels.scale_add)(self, out.as_mut_ptr(), a.as_ptr(), w, out.len()) }
    }

    /// `out = (a - b) * w`.
    pub fn sub_scale(&self, out: &mut [u64], a: &[u64], b: &[u64], w: Shoup) {
        assert!(out.len() == a.len() && out.len() == b.len());
        let o = out.as_mut_ptr();
        let a = a.as_ptr();
        let b = b.as_ptr();
        // SAFETY: as in `add_rows`.
        unsafe { (self.kernels.sub_scale)(self, o, a, b, w, out.len()) }
    }

    /// `b = (a - b) * w`.
    pub fn sub_scale_from(&self, b: &mut [u64], a: &[u64], w: Shoup) {
        assert_eq!(a.len(), b.len());
        let p = b.as_mut_ptr();
        // SAFETY: as in `add_assign`.
        unsafe { (self.kernels.sub_scale)(self, p, a.as_ptr(), p, w, b.len()) }
    }

    /// `a += c` in every word.
    pub fn add_constant(&self, a: &mut [u64], c: u64) {
        debug_assert!(c < self.q);
        // SAFETY: as in `add_rows`.
        unsafe { (self.kernels.add_constant)(self, a.as_mut_ptr(), c, a.len()) }
    }

    /// `out = a mod q` for signed numbers with `|a| < q`.
    pub fn lift(&self, out: &mut [u64], a: &[i8]) {
        assert_eq!(out.len(), a.len());
        debug_assert!(a.iter().all(|a| u64::from(a.unsigned_abs()) < self.q));
        // SAFETY: as in `add_rows`.
        unsafe { (self.kernels.lift)(self, out.as_mut_ptr(), a.as_ptr(), out.len()) }
    }
}

/// Returns `q^-1 mod 2^64` for an odd `q`, by Newton's method from three bits.
fn inverse(q: u64) -> u64 {
    // `q q = 1 mod 8`, so `q` is its own inverse to 3 bits. Five doublings reach 96.
    (0..5).fold(q, |x, _| x.wrapping_mul(2u64.wrapping_sub(q.wrapping_mul(x))))
}

/// Returns the start of each row. All rows have `len` words.
pub(crate) fn pointers<T>(rows: &[&[T]], len: usize) -> Vec<*const T> {
    rows.iter()
        .map(|row| {
            assert_eq!(row.len(), len);
            row.as_ptr()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moduli() -> impl Strategy<Value = u64> {
        prop_oneof![Just(3), Just((1 << 50) - 27), Just((1 << 62) - 57), 1u64..1 << 61]
            .prop_map(|q| q.max(3) | 1)
    }

    proptest! {
        #[test]
        fn scalar_operations_equal_wide_integers(
            q in moduli(), x: u64, y: u64, z: u128, s: i64, t: i128,
        ) {
            let m = Modulus::new(q).unwrap();
            let a = x % q;
            let b = y % q;
            let w = u128::from(q);
            prop_assert_eq!(m.value(), q);
            prop_assert_eq!(u128::from(m.neg(a)), (w - u128::from(a)) % w);
            prop_assert_eq!(m.reduce_i128(t), (t.rem_euclid(w as i128)) as u64);
            prop_assert_eq!(u128::from(m.add(a, b)), (u128::from(a) + u128::from(b)) % w);
            prop_assert_eq!(u128::from(m.sub(a, b)), (u128::from(a) + w - u128::from(b)) % w);
            prop_assert_eq!(u128::from(m.mul(a, b)), u128::from(a) * u128::from(b) % w);
            prop_assert_eq!(u128::from(m.reduce_u128(z)), z % w);
            prop_assert_eq!(m.reduce(x), x % q);
            prop_assert_eq!(i128::from(m.reduce_i64(s)), i128::from(s).rem_euclid(w as i128));
            prop_assert_eq!(m.reduce_i64(m.centered(a)), a);
            prop_assert!(m.centered(a).unsigned_abs() <= q / 2);
        }
    }

    proptest! {
        #[test]
        fn constants_are_quotients_of_wide_integers(q in moduli(), x: u64) {
            let m = Modulus::new(q).unwrap();
            let a = x % q;
            let w = u128::from(q);
            let bits = q.ilog2() + 1;
            prop_assert_eq!(m.bits(), bits);
            prop_assert_eq!(u128::from(m.reciprocal()), (1 << (bits + 62)) / w);
            prop_assert_eq!(u128::from(m.quotient(a)), (u128::from(a) << 64) / w);
            prop_assert_eq!(m.shoup(x).value(), a);
            prop_assert_eq!(m.inverse().wrapping_mul(q), 1);
        }
    }

    #[test]
    fn moduli_are_equal_by_value() {
        let [m, other] = [3, 5].map(|q| Modulus::new(q).unwrap());
        let scalar = Modulus::with_isa(3, Isa::Scalar).unwrap();
        assert!(m == scalar && m != other);
        assert_eq!(scalar.kernel_name(), "scalar");
        assert_eq!(format!("{scalar:?}"), "Modulus(3, scalar)");
    }

    /// Kernels for wider words are selected only for rows with such words.
    #[test]
    fn narrow_inputs_keep_their_kernels() {
        for q in [(1 << 47) - 115, (1 << 50) - 27, (1 << 62) - 57] {
            let m = Modulus::new(q).unwrap();
            let most = 52.min(100 - m.bits());
            assert_eq!(m.for_inputs_of(most).kernel_name(), m.kernel_name());
            let wide = m.kernels().wide.unwrap_or(m.kernels()).name;
            assert_eq!(m.for_inputs_of(most + 1).kernel_name(), wide);
        }
    }

    #[test]
    fn extremes_reduce() {
        for q in [3, 5, (1 << 50) - 27, (1 << 62) - 57] {
            let m = Modulus::new(q).unwrap();
            for a in [0, 1, u128::from(q) - 1, u128::from(q), u128::MAX - 1, u128::MAX] {
                assert_eq!(u128::from(m.reduce_u128(a)), a % u128::from(q));
            }
            assert_eq!(m.reduce_i64(i64::MIN), i128::from(i64::MIN).rem_euclid(q.into()) as u64);
            assert_eq!(m.reduce_i128(-1), q - 1);
        }
    }

    #[test]
    fn out_of_range_moduli_are_refused() {
        for q in [0, 1, 2, 4, 1 << 62, u64::MAX] {
            assert_eq!(Modulus::new(q).unwrap_err(), Error::ModulusOutOfRange(q));
        }
    }

    #[test]
    fn powers_and_inverses() {
        let m = Modulus::new(1_000_003).unwrap();
        assert_eq!(m.pow(2, 10), 1024);
        assert_eq!(m.pow(5, 0), 1);
        assert_eq!(m.mul(m.inv(12345), 12345), 1);
    }
}
