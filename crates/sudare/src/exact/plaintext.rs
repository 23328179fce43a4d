use super::{Modulus, modulus::WordReducer};
use crate::{Error, Result, rlwe::GaloisElement};
use core::fmt;
use std::sync::Arc;
use sudare_arith::{self as arith, NttTable, previous_prime};
use zeroize::Zeroizing;

/// `log2` of the maximum ring degree, a power of two.
const MAX_LOG_N: u32 = 17;

/// Minimum `log2(N)` of the transforms for products.
const MIN_TRANSFORM_LOG_N: u32 = 4;

/// A plaintext: a polynomial of `Z_t[X]/(X^N + 1)`, coefficients in `[0, t)`.
///
/// Slots are an interpretation of it; see [`BatchEncoder`](super::BatchEncoder) and
/// [`Slots`](super::Slots). Copies share their coefficients, which are wiped with the last one.
#[derive(Clone, PartialEq, Eq)]
pub struct PlainPoly {
    modulus: Modulus,
    coeffs: Arc<Zeroizing<Vec<u128>>>,
}

impl PlainPoly {
    /// Makes the polynomial with these coefficients, the constant first.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] unless their number is a power of two from 2 to `2^17`;
    /// [`Error::ValueOutOfRange`] for a coefficient that is not below `t`.
    pub fn new(modulus: Modulus, coeffs: Vec<u128>) -> Result<Self> {
        let coeffs = Zeroizing::new(coeffs);
        check_degree(coeffs.len())?;
        match coeffs.iter().position(|&c| c >= modulus.value()) {
            Some(index) => Err(Error::ValueOutOfRange {
                index,
                value: coeffs[index].to_string(),
                most: modulus.value() - 1,
                signed: false,
            }),
            None => Ok(Self::from_residues(modulus, coeffs)),
        }
    }

    /// Makes the polynomial from residues. Their number is a ring degree.
    pub(super) fn from_residues(modulus: Modulus, coeffs: Zeroizing<Vec<u128>>) -> Self {
        debug_assert!(coeffs.iter().all(|&c| c < modulus.value()));
        Self { modulus, coeffs: Arc::new(coeffs) }
    }

    /// Packs values as coefficients: `values` are the first ones, and the others are 0.
    ///
    /// # Errors
    /// [`Error::TooManySlots`] for more than `N = 2^log_n` values; [`Error::ValueOutOfRange`] for a
    /// value beyond `t / 2` in magnitude; [`Error::InvalidSpec`] for `log_n` outside `1..=17`.
    pub fn from_signed(modulus: Modulus, log_n: u32, values: &[i128]) -> Result<Self> {
        let mut coeffs = zeros(log_n, values.len())?;
        residues_of_signed(modulus, values, &mut coeffs)?;
        Ok(Self::from_residues(modulus, coeffs))
    }

    /// Packs values in `[0, t)` as coefficients; see [`PlainPoly::from_signed`].
    ///
    /// # Errors
    /// Errors of [`PlainPoly::from_signed`], for values that are not below `t`.
    pub fn from_unsigned(modulus: Modulus, log_n: u32, values: &[u128]) -> Result<Self> {
        let mut coeffs = zeros(log_n, values.len())?;
        residues_of_unsigned(modulus, values, &mut coeffs)?;
        Ok(Self::from_residues(modulus, coeffs))
    }

    /// Makes the constant `c mod t`, the same in every slot.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for `log_n` outside `1..=17`.
    pub fn constant(modulus: Modulus, log_n: u32, c: i128) -> Result<Self> {
        let mut coeffs = zeros(log_n, 1)?;
        coeffs[0] = modulus.reduce_i128(c);
        Ok(Self::from_residues(modulus, coeffs))
    }

    /// `t`.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// `log2(N)`.
    #[must_use]
    pub fn log_n(&self) -> u32 {
        self.coeffs.len().ilog2()
    }

    /// The coefficients, in `[0, t)`.
    #[must_use]
    pub fn coeffs(&self) -> &[u128] {
        &self.coeffs
    }

    /// The coefficients, in `(-t/2, t/2]`.
    #[must_use]
    pub fn centered(&self) -> Vec<i128> {
        self.coeffs.iter().map(|&c| self.modulus.centered(c)).collect()
    }

    /// Returns `true` for the polynomial 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.coeffs.iter().all(|&c| c == 0)
    }

    /// `a + b`.
    ///
    /// # Errors
    /// [`Error::PlaintextMismatch`] for polynomials of different rings.
    pub fn add(&self, other: &Self) -> Result<Self> {
        self.check_ring("sum of plaintexts", other.modulus, other.log_n())?;
        let t = self.modulus;
        Ok(self.zipped(other, |a, b| t.add(a, b)))
    }

    /// `a - b`.
    ///
    /// # Errors
    /// See [`PlainPoly::add`].
    pub fn sub(&self, other: &Self) -> Result<Self> {
        self.check_ring("difference of plaintexts", other.modulus, other.log_n())?;
        let t = self.modulus;
        Ok(self.zipped(other, |a, b| t.sub(a, b)))
    }

    /// `-a`.
    #[must_use]
    pub fn neg(&self) -> Self {
        self.mapped(self.modulus, |c| self.modulus.neg(c))
    }

    /// `c a`, for a residue `c`.
    #[must_use]
    pub fn scaled(&self, c: u128) -> Self {
        let c = self.modulus.reduce(c);
        self.mapped(self.modulus, |a| self.modulus.mul(a, c))
    }

    /// `a b` in the ring.
    ///
    /// # Errors
    /// Errors of [`PlainPoly::add`] and of making the transforms.
    pub fn mul(&self, other: &Self) -> Result<Self> {
        self.check_ring("product of plaintexts", other.modulus, other.log_n())?;
        Products::new(self.modulus, self.log_n())?.of(self, other)
    }

    /// `a(X^g)`, an automorphism for odd `g`.
    #[must_use]
    pub fn image(&self, g: GaloisElement) -> Self {
        let n = self.coeffs.len();
        let mut coeffs = Zeroizing::new(vec![0; n]);
        for (i, &c) in self.coeffs.iter().enumerate() {
            // The remainder by `2 n`, a power of two.
            let k = (i * g.0 as usize) & (2 * n - 1);
            let image = if k < n { c } else { self.modulus.neg(c) };
            let place = k & (n - 1);
            // Added, because an even `g` brings several coefficients to one place.
            coeffs[place] = self.modulus.add(coeffs[place], image);
        }
        Self::from_residues(self.modulus, coeffs)
    }

    /// Returns the plaintext of a ciphertext after its modulus is interpreted as another power of
    /// `p`. From `p^e` to `p^r` coefficients are divided by `p^(e-r)`, and from `p^r` to `p^e`
    /// multiplied.
    ///
    /// # Errors
    /// [`Error::NotAMultiple`] if a coefficient is not a multiple of `p^(e-r)`;
    /// [`Error::PlaintextMismatch`] for a power of another prime.
    pub fn relabelled(&self, modulus: Modulus) -> Result<Self> {
        let from = self.modulus;
        let to = modulus;
        if from.prime() != to.prime() {
            return Err(self.mismatch("new modulus", to, self.log_n()));
        }
        if from.exponent() <= to.exponent() {
            let factor = to.value() / from.value();
            // Below `p^e`, so it cannot overflow and is a residue.
            return Ok(self.mapped(to, |c| c * factor));
        }
        let divisor = from.value() / to.value();
        match self.coeffs.iter().position(|c| !c.is_multiple_of(divisor)) {
            Some(index) => Err(Error::NotAMultiple { index, divisor }),
            None => Ok(self.mapped(to, |c| c / divisor)),
        }
    }

    fn mapped(&self, modulus: Modulus, map: impl Fn(u128) -> u128) -> Self {
        Self::from_residues(modulus, collect(self.coeffs.iter().map(|&c| map(c))))
    }

    fn zipped(&self, other: &Self, map: impl Fn(u128, u128) -> u128) -> Self {
        let pairs = self.coeffs.iter().zip(other.coeffs.iter());
        Self::from_residues(self.modulus, collect(pairs.map(|(&a, &b)| map(a, b))))
    }

    /// Checks that this is a plaintext of the ring.
    pub(super) fn check_ring(&self, op: &'static str, modulus: Modulus, log_n: u32) -> Result<()> {
        if (self.modulus, self.log_n()) == (modulus, log_n) {
            return Ok(());
        }
        Err(self.mismatch(op, modulus, log_n))
    }

    fn mismatch(&self, op: &'static str, modulus: Modulus, log_n: u32) -> Error {
        let ring = |t: Modulus, log_n| (t.prime(), t.exponent(), log_n);
        let left = ring(self.modulus, self.log_n());
        let right = ring(modulus, log_n);
        Error::PlaintextMismatch { op, left, right }
    }
}

/// Shows the ring, not the message.
impl fmt::Debug for PlainPoly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlainPoly(mod {}, N = {})", self.modulus, self.coeffs.len())
    }
}

/// Collects into memory of the final size: growing would leave copies behind.
fn collect(values: impl ExactSizeIterator<Item = u128>) -> Zeroizing<Vec<u128>> {
    let mut all = Zeroizing::new(Vec::with_capacity(values.len()));
    all.extend(values);
    all
}

fn check_degree(n: usize) -> Result<usize> {
    if n.is_power_of_two() && (1..=MAX_LOG_N).contains(&n.ilog2()) {
        return Ok(n);
    }
    Err(Error::InvalidSpec {
        field: "log_n",
        problem: format!("{n} coefficients are not a ring degree: 2, 4, .. 2^{MAX_LOG_N} are"),
    })
}

/// `N = 2^log_n`.
pub(super) fn degree(log_n: u32) -> Result<usize> {
    check_degree(1usize.checked_shl(log_n).unwrap_or(0))
}

/// Returns `2^log_n` zeros, after checking that `count` values fit.
pub(super) fn zeros(log_n: u32, count: usize) -> Result<Zeroizing<Vec<u128>>> {
    let n = degree(log_n)?;
    if count > n {
        return Err(Error::TooManySlots { found: count, slots: n });
    }
    Ok(Zeroizing::new(vec![0; n]))
}

/// Converts values of at most `t / 2` in magnitude to residues.
pub(super) fn residues_of_signed(t: Modulus, values: &[i128], out: &mut [u128]) -> Result<()> {
    let most = t.value() / 2;
    for (index, (out, &value)) in out.iter_mut().zip(values).enumerate() {
        if value.unsigned_abs() > most {
            let value = value.to_string();
            return Err(Error::ValueOutOfRange { index, value, most, signed: true });
        }
        *out = t.reduce_i128(value);
    }
    Ok(())
}

/// Converts values below `t` to residues.
pub(super) fn residues_of_unsigned(t: Modulus, values: &[u128], out: &mut [u128]) -> Result<()> {
    let most = t.value() - 1;
    for (index, (out, &value)) in out.iter_mut().zip(values).enumerate() {
        if value > most {
            let value = value.to_string();
            return Err(Error::ValueOutOfRange { index, value, most, signed: false });
        }
        *out = value;
    }
    Ok(())
}

/// Products in one ring. Its transforms are made once.
///
/// They are computed over the integers modulo enough primes below `2^61` for the result.
pub(crate) struct Products {
    t: Modulus,
    log_n: u32,
    /// Empty for the smallest rings.
    tables: Vec<NttTable>,
    garner: Garner,
}

impl Products {
    /// Prepares products in the ring of degree `N = 2^log_n` modulo `t`.
    ///
    /// # Errors
    /// Errors of making the transforms.
    pub(crate) fn new(t: Modulus, log_n: u32) -> Result<Self> {
        let tables = if log_n < MIN_TRANSFORM_LOG_N { Vec::new() } else { tables(t, log_n)? };
        let garner = Garner::new(t, tables.iter().map(|table| *table.modulus()).collect());
        Ok(Self { t, log_n, tables, garner })
    }

    /// `a b`.
    ///
    /// # Errors
    /// Errors of [`PlainPoly::add`], also if both are of another ring.
    pub(crate) fn of(&self, a: &PlainPoly, b: &PlainPoly) -> Result<PlainPoly> {
        for factor in [a, b] {
            factor.check_ring("product of plaintexts", self.t, self.log_n)?;
        }
        Ok(PlainPoly::from_residues(self.t, self.of_coeffs(&a.coeffs, &b.coeffs)))
    }

    /// Returns the product of polynomials given by `N` coefficients each.
    pub(super) fn of_coeffs(&self, a: &[u128], b: &[u128]) -> Zeroizing<Vec<u128>> {
        if self.tables.is_empty() {
            return schoolbook(self.t, a, b);
        }
        let product = |table: &NttTable| {
            let q = table.modulus();
            let transformed = |a: &[u128]| {
                let mut row = Zeroizing::new(vec![0u64; a.len()]);
                for (x, &a) in row.iter_mut().zip(a) {
                    *x = q.reduce_u128(a);
                }
                table.forward(&mut row);
                row
            };
            let mut row = transformed(a);
            let other = transformed(b);
            q.mul_assign(&mut row, &other);
            table.inverse(&mut row);
            row
        };
        let rows: Vec<_> = self.tables.iter().map(product).collect();
        collect((0..a.len()).map(|i| self.garner.residue(rows.iter().map(|row| row[i]))))
    }
}

/// Bits of transform primes, except for the highest.
const PRIME_BITS: u32 = 60;
/// Maximum number of primes for a product: moduli of 124 bits in the largest ring.
const MAX_PRIMES: usize = (2 * 124 + MAX_LOG_N + 3).div_ceil(PRIME_BITS) as usize;

/// Returns tables of primes whose product is at least eight times any coefficient of a product.
fn tables(t: Modulus, log_n: u32) -> Result<Vec<NttTable>> {
    // A coefficient is a sum of `N` products below `t^2`. Three bits make it eight times that.
    let bits = 2 * (u128::BITS - t.value().leading_zeros()) + log_n + 3;
    let mut end = 2u64 << PRIME_BITS;
    let mut tables = Vec::new();
    for _ in 0..bits.div_ceil(PRIME_BITS) {
        // Primes in `[2^60, 2^61)`, so that each adds at least 60 bits.
        let prime = previous_prime(end, 2 << log_n).filter(|p| p >> PRIME_BITS == 1);
        end = prime.ok_or(arith::Error::NoRootOfUnity { q: end, log_2n: log_n + 1 })?;
        tables.push(NttTable::new(arith::Modulus::new(end)?, log_n)?);
    }
    Ok(tables)
}

fn schoolbook(t: Modulus, a: &[u128], b: &[u128]) -> Zeroizing<Vec<u128>> {
    let n = a.len();
    let mut sums = Zeroizing::new(vec![0; n]);
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            let k = (i + j) % n;
            let product = t.mul(x, y);
            sums[k] = if i + j < n { t.add(sums[k], product) } else { t.sub(sums[k], product) };
        }
    }
    sums
}

/// Converts residues of integers, at most an eighth of `q_0 q_1 ..` in magnitude, to residues
/// modulo `t`, by Garner's algorithm.
struct Garner {
    t: Modulus,
    words: WordReducer,
    primes: Vec<GarnerPrime>,
    /// The product of all primes modulo `t`.
    product: u128,
}

/// A prime `q_j` among the primes of [`Garner`].
struct GarnerPrime {
    q: arith::Modulus,
    /// `q_0 .. q_(i-1) mod q_j` for all `i < j`.
    radices: Vec<u64>,
    /// `(q_0 .. q_(j-1))^-1 mod q_j`.
    inverse: u64,
    /// `q_0 .. q_(j-1) mod t`.
    radix: u128,
}

impl Garner {
    fn new(t: Modulus, primes: Vec<arith::Modulus>) -> Self {
        let mut product = 1 % t.value();
        let prime = |(j, &q): (usize, &arith::Modulus)| {
            let mut radices = Vec::with_capacity(j);
            let mut below = 1;
            for p in &primes[..j] {
                radices.push(below);
                below = q.mul(below, q.reduce(p.value()));
            }
            let radix = product;
            product = t.mul(product, t.reduce(q.value().into()));
            GarnerPrime { q, radices, inverse: q.inv(below), radix }
        };
        let primes = primes.iter().enumerate().map(prime).collect();
        Self { t, words: WordReducer::new(t), primes, product }
    }

    fn residue(&self, residues: impl Iterator<Item = u64>) -> u128 {
        let mut digits = Zeroizing::new([0u64; MAX_PRIMES]);
        let mut sum = 0;
        let mut negative = false;
        for (j, (residue, GarnerPrime { q, radices, inverse, radix })) in
            residues.zip(&self.primes).enumerate()
        {
            // The digits so far, modulo this prime.
            let known = digits
                .iter()
                .zip(radices)
                .fold(0, |known, (&digit, &radix)| q.add(known, q.mul(q.reduce(digit), radix)));
            let digit = q.mul(q.sub(residue, known), *inverse);
            sum = self.t.add(sum, self.t.mul(self.words.reduce(digit as i64), *radix));
            // The integer is at most an eighth of the product, so the highest digit tells its sign.
            negative = digit > q.value() / 2;
            digits[j] = digit;
        }
        self.t.sub(sum, if negative { self.product } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poly(t: Modulus, log_n: u32, seed: u128) -> PlainPoly {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645)
                .wrapping_add(seed | 1);
            t.reduce(state >> 2)
        };
        PlainPoly::new(t, (0..1 << log_n).map(|_| next()).collect()).unwrap()
    }

    fn moduli() -> Vec<Modulus> {
        [(2, 1), (2, 124), (257, 1), (127, 3), (65537, 7), (1_073_741_789, 4)]
            .map(|(p, k)| Modulus::new(p, k).unwrap())
            .to_vec()
    }

    #[test]
    fn products_equal_the_definition() {
        for t in moduli() {
            for log_n in 1..=7 {
                let a = poly(t, log_n, 1);
                let b = poly(t, log_n, 2);
                let expected = schoolbook(t, a.coeffs(), b.coeffs());
                assert_eq!(a.mul(&b).unwrap().coeffs(), &expected[..], "{t}, {log_n}");
            }
            // The largest coefficients, positive and negative.
            let last = PlainPoly::new(t, vec![t.value() - 1; 64]).unwrap();
            let expected = schoolbook(t, last.coeffs(), last.coeffs());
            assert_eq!(last.mul(&last).unwrap().coeffs(), &expected[..]);
        }
    }

    #[test]
    fn images_are_ring_homomorphisms() {
        for t in moduli() {
            let a = poly(t, 5, 3);
            let b = poly(t, 5, 4);
            for g in (1..64).step_by(2).map(GaloisElement) {
                let image = a.mul(&b).unwrap().image(g);
                assert_eq!(image, a.image(g).mul(&b.image(g)).unwrap());
                assert_eq!(a.image(g).image(g.inverse(5)), a);
            }
            assert_eq!(a.image(GaloisElement(1)), a);
        }
    }

    #[test]
    fn the_ring_has_its_laws() {
        for t in moduli() {
            let [a, b, c] = [5, 6, 7].map(|seed| poly(t, 6, seed));
            let sum = a.add(&b).unwrap();
            assert_eq!(sum.sub(&b).unwrap(), a);
            let left = sum.mul(&c).unwrap();
            assert_eq!(left, a.mul(&c).unwrap().add(&b.mul(&c).unwrap()).unwrap());
            assert_eq!(a.add(&a.neg()).unwrap(), PlainPoly::constant(t, 6, 0).unwrap());
            let three = PlainPoly::constant(t, 6, 3).unwrap();
            assert_eq!(a.scaled(3), three.mul(&a).unwrap());
            assert_eq!(PlainPoly::from_signed(t, 6, &a.centered()).unwrap(), a);
            assert_eq!(PlainPoly::from_unsigned(t, 6, a.coeffs()).unwrap(), a);
        }
    }

    #[test]
    fn plaintexts_are_read_with_other_powers() {
        let [low, high, other] = [(5, 1), (5, 3), (7, 1)].map(|(p, k)| Modulus::new(p, k).unwrap());
        let a = PlainPoly::from_signed(low, 2, &[1, -2, 2]).unwrap();
        let lifted = a.relabelled(high).unwrap();
        assert_eq!(lifted.centered(), [25, -50, 50, 0]);
        assert_eq!(lifted.relabelled(low).unwrap(), a);
        let b = PlainPoly::from_signed(high, 2, &[25, 50, 5]).unwrap();
        assert_eq!(b.relabelled(low), Err(Error::NotAMultiple { index: 2, divisor: 25 }));
        assert!(matches!(a.relabelled(other), Err(Error::PlaintextMismatch { .. })));
    }

    #[test]
    fn what_is_no_plaintext_is_refused() {
        let t = Modulus::new(7, 1).unwrap();
        for n in [0, 1, 3, 1 << 18] {
            assert!(matches!(PlainPoly::new(t, vec![0; n]), Err(Error::InvalidSpec { .. })), "{n}");
        }
        let out = |index, value: &str, most, signed| {
            Err(Error::ValueOutOfRange { index, value: value.into(), most, signed })
        };
        assert_eq!(PlainPoly::new(t, vec![6, 7]), out(1, "7", 6, false));
        assert_eq!(PlainPoly::from_signed(t, 1, &[-3, -4]), out(1, "-4", 3, true));
        assert_eq!(PlainPoly::from_unsigned(t, 1, &[7]), out(0, "7", 6, false));
        let many = Err(Error::TooManySlots { found: 3, slots: 2 });
        assert_eq!(PlainPoly::from_signed(t, 1, &[0; 3]), many);
        let a = poly(t, 1, 1);
        let b = poly(t, 2, 1);
        assert!(matches!(a.add(&b), Err(Error::PlaintextMismatch { .. })));
        assert_eq!(format!("{a:?}"), "PlainPoly(mod 7, N = 2)");
    }
}
