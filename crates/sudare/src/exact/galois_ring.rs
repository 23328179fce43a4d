use super::{Modulus, plaintext::Products, transform::Ring};
use crate::{Error, Result};
use zeroize::Zeroizing;

/// The Galois ring `R(p^k, d) = Z_(p^k)[X]/(f)` of the slots of `Z_(p^k)[X]/(X^N + 1)`. Here `f` is
/// a factor of `X^N + 1` of degree `d`, the order of `p` modulo `2N`, and irreducible modulo `p`.
/// The class of `X` is `zeta`, a primitive `2N`-th root of unity.
///
/// `f` is `X^d - c` for `p = 1 mod 4` and `X^d + a X^(d/2) + b` for `p = 3 mod 4`. Elements are the
/// `d` coefficients of the powers of `zeta`, residues modulo `p^k`.
#[derive(Debug, Clone)]
pub struct GaloisRing {
    base: Quadratic,
    log_n: u32,
    degree: usize,
    /// Exponent of the lowest power of `zeta` in the base ring: `d` or `d / 2`.
    width: usize,
    /// All powers of `omega = zeta^width`.
    omegas: Vec<[u128; 2]>,
}

impl GaloisRing {
    /// Makes the ring of the slots of the ring of degree `2^log_n`.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for `p = 2`, which ramifies in these rings, and `log_n` outside
    /// `2..=17`.
    pub fn new(t: Modulus, log_n: u32) -> Result<Self> {
        if !(2..=17).contains(&log_n) {
            return Err(Error::InvalidSpec {
                field: "log_n",
                problem: format!("slots are in rings of degree 2^2 to 2^17, not 2^{log_n}"),
            });
        }
        let degree = order(t.prime(), 2 << log_n);
        let base = degree.and_then(|d| Quadratic::of_slots(t, (1 << log_n) / d));
        let (Some(degree), Some((base, omega))) = (degree, base) else {
            return Err(Error::InvalidSpec {
                field: "plaintext modulus",
                problem: format!(
                    "{t} has no slots, since 2 ramifies in rings of power-of-two degree: use a \
                     power of an odd prime"
                ),
            });
        };
        let width = if omega[1] == 0 { degree } else { degree / 2 };
        let next = |x: &[u128; 2]| Some(base.mul(*x, omega));
        let omegas = core::iter::successors(Some(base.one()), next);
        let omegas = omegas.take((2 << log_n) / width).collect();
        Ok(Self { base, log_n, degree, width, omegas })
    }

    /// `p^k`.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.base.t
    }

    /// `log2(N)`.
    #[must_use]
    pub fn log_n(&self) -> u32 {
        self.log_n
    }

    /// `d`.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// Number of slots: `N / d`.
    #[must_use]
    pub fn slots(&self) -> usize {
        (1 << self.log_n) / self.degree
    }

    /// The `d + 1` coefficients of `f`, the constant first.
    #[must_use]
    pub fn factor(&self) -> Vec<u128> {
        let mut f = vec![0; self.degree + 1];
        f[self.degree] = 1;
        for (c, x) in f.iter_mut().zip(self.power(self.degree)) {
            *c = self.base.t.neg(x);
        }
        f
    }

    /// `zeta^e`.
    #[must_use]
    pub fn power(&self, e: usize) -> Vec<u128> {
        let mut power = vec![0; self.degree];
        self.add_multiple(&mut power, 1, e);
        power
    }

    /// `out += c zeta^e`.
    fn add_multiple(&self, out: &mut [u128], c: u128, e: usize) {
        let t = self.base.t;
        let omega = self.omega(e / self.width);
        for (out, x) in out.iter_mut().skip(e % self.width).step_by(self.width).zip(omega) {
            *out = t.add(*out, t.mul(c, x));
        }
    }

    /// Returns `a b`, the product of two elements.
    ///
    /// # Errors
    /// [`Error::SlotMismatch`] unless both have `d` coefficients; [`Error::ValueOutOfRange`] for a
    /// coefficient that is not below `t`; errors of making transforms.
    pub fn mul(&self, a: &[u128], b: &[u128]) -> Result<Vec<u128>> {
        let t = self.base.t;
        let d = self.degree;
        let padded = |a: &[u128]| -> Result<Zeroizing<Vec<u128>>> {
            self.check(a)?;
            // Zeros make room for the whole product, so that nothing wraps around in dimension `2
            // d`.
            Ok(Zeroizing::new(a.iter().copied().chain(core::iter::repeat_n(0, d)).collect()))
        };
        let a = padded(a)?;
        let b = padded(b)?;
        let product = Products::new(t, a.len().ilog2())?.of_coeffs(&a, &b);
        let mut reduced = vec![0; d];
        for (e, &c) in product.iter().enumerate() {
            self.add_multiple(&mut reduced, c, e);
        }
        Ok(reduced)
    }

    /// Applies the automorphism `zeta -> zeta^p`, which is the `p`-th power modulo `p`.
    ///
    /// # Errors
    /// [`Error::SlotMismatch`] for an element without `d` coefficients; [`Error::ValueOutOfRange`]
    /// for a coefficient that is not below `t`.
    pub fn frobenius(&self, a: &[u128]) -> Result<Vec<u128>> {
        self.check(a)?;
        // Exponents of `zeta` count modulo its order, `2N`.
        let p = (self.base.t.prime() % (2 << self.log_n)) as usize;
        let mut image = vec![0; self.degree];
        for (e, &c) in a.iter().enumerate() {
            self.add_multiple(&mut image, c, e * p % (2 << self.log_n));
        }
        Ok(image)
    }

    pub(super) fn check(&self, a: &[u128]) -> Result<()> {
        let found = a.len();
        let expected = self.degree;
        if found != expected {
            return Err(Error::SlotMismatch { op: "element of a Galois ring", found, expected });
        }
        let most = self.base.t.value() - 1;
        match a.iter().position(|&c| c > most) {
            Some(index) => {
                let value = a[index].to_string();
                Err(Error::ValueOutOfRange { index, value, most, signed: false })
            }
            None => Ok(()),
        }
    }

    pub(super) fn base(&self) -> Quadratic {
        self.base
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// `omega^e`.
    pub(super) fn omega(&self, e: usize) -> [u128; 2] {
        self.omegas[e % self.omegas.len()]
    }

    /// The order of `omega`: `2N / width`.
    pub(super) fn omega_order(&self) -> usize {
        self.omegas.len()
    }
}

/// The ring of `u + v y` with `y^2 + a y + b = 0` modulo `t`. It contains `omega`, a root of unity
/// of order `2 n` for `p = 1 mod 4` and `4 n` for `p = 3 mod 4`, where `n` is the number of slots.
///
/// `omega` is a residue in the first case, where `v = 0` throughout, and `y` in the second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quadratic {
    t: Modulus,
    a: u128,
    b: u128,
}

impl Quadratic {
    /// Returns the ring with its `omega`, for `p` odd.
    fn of_slots(t: Modulus, slots: usize) -> Option<(Self, [u128; 2])> {
        if t.prime() % 4 == 1 {
            let root = t.root_of_unity(slots.ilog2() + 1)?;
            return Some((Self { t, a: 0, b: 0 }, [root, 0]));
        }
        // From a root of order 4 to one of twice the order: z^4 + a z^2 + 1 = (z^2 + r z + b)(z^2 -
        // r z + b) with r^2 = 2 b - a. The norm b = z^(p + 1) of a root of order m is 1 if m
        // divides p + 1, and -1 otherwise.
        let mut a = 0;
        let mut b = 1;
        let mut order = 4;
        while order < 4 * slots as u64 {
            order *= 2;
            b = if (t.prime() + 1).is_multiple_of(order) { 1 } else { t.value() - 1 };
            a = square_root(t, t.sub(t.add(b, b), a))?;
        }
        Some((Self { t, a, b }, [0, 1]))
    }

    /// Applies `y -> y^p`, the other root of `y^2 + a y + b`.
    pub(super) fn conjugate(self, [u, v]: [u128; 2]) -> [u128; 2] {
        [self.t.sub(u, self.t.mul(self.a, v)), self.t.neg(v)]
    }
}

impl Ring for Quadratic {
    type Element = [u128; 2];
    fn one(self) -> [u128; 2] {
        [1, 0]
    }
    fn add(self, a: [u128; 2], b: [u128; 2]) -> [u128; 2] {
        [self.t.add(a[0], b[0]), self.t.add(a[1], b[1])]
    }
    fn sub(self, a: [u128; 2], b: [u128; 2]) -> [u128; 2] {
        [self.t.sub(a[0], b[0]), self.t.sub(a[1], b[1])]
    }
    fn mul(self, a: [u128; 2], b: [u128; 2]) -> [u128; 2] {
        let t = self.t;
        let square = t.mul(a[1], b[1]);
        let mixed = t.add(t.mul(a[0], b[1]), t.mul(a[1], b[0]));
        [t.sub(t.mul(a[0], b[0]), t.mul(self.b, square)), t.sub(mixed, t.mul(self.a, square))]
    }
}

/// The order of `p` modulo the power of two `m`, for `p` odd.
pub(super) fn order(p: u64, m: u64) -> Option<usize> {
    let p = p % m;
    let powers = core::iter::successors(Some(p), |x| Some(x * p % m));
    (p % 2 == 1).then(|| powers.take_while(|&x| x != 1).count() + 1)
}

/// Returns a square root of `x` modulo `t`, for `p = 3 mod 4` and a square `x` that is a unit. It
/// is the smaller root modulo `p`, lifted by Newton's method.
fn square_root(t: Modulus, x: u128) -> Option<u128> {
    let p = t.with_exponent(1).ok()?;
    // The exponent is `(p + 1) / 4` for `p = 3 mod 4`.
    let root = p.pow(p.reduce(x), u128::from(t.prime() / 4 + 1));
    let mut root = root.min(p.neg(root));
    // Newton's method doubles the number of correct digits to base `p`.
    for _ in 0..t.exponent().next_power_of_two().ilog2() {
        let excess = t.sub(t.mul(root, root), x);
        root = t.sub(root, t.mul(excess, t.inverse(t.add(root, root))?));
    }
    // If `x` is not a square, the power above is a root of `-x` instead.
    (t.mul(root, root) == x).then_some(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modulus(p: u64, k: u32) -> Modulus {
        Modulus::new(p, k).unwrap()
    }

    /// Products by the definition: modulo the dense factor, one coefficient at a time.
    fn long_mul(ring: &GaloisRing, a: &[u128], b: &[u128]) -> Vec<u128> {
        let t = ring.modulus();
        let d = ring.degree();
        let f = ring.factor();
        let mut product = vec![0; 2 * d];
        for (i, &a) in a.iter().enumerate() {
            for (j, &b) in b.iter().enumerate() {
                product[i + j] = t.add(product[i + j], t.mul(a, b));
            }
        }
        for i in (d..2 * d).rev() {
            for j in 0..d {
                product[i - d + j] = t.sub(product[i - d + j], t.mul(product[i], f[j]));
            }
        }
        product[..d].to_vec()
    }

    #[test]
    fn factors_divide_and_have_the_order_of_p_as_their_degree() {
        for log_n in 2..=8 {
            for p in [3, 5, 7, 17, 31, 97, 127, 193, 257, 8191, 65537, 131_071] {
                for k in [1, 2, 5] {
                    let t = modulus(p, k);
                    let ring = GaloisRing::new(t, log_n).unwrap();
                    let d = ring.degree();
                    let of_p = (1..=d as u128).filter(|&e| {
                        let m = Modulus::new(2, log_n + 1).unwrap();
                        m.pow(m.reduce(p.into()), e) == 1
                    });
                    assert_eq!(of_p.collect::<Vec<_>>(), [d as u128]);
                    // X^N = -1 modulo f, by squaring X.
                    let mut power = ring.power(1);
                    let mut expected = vec![0; d];
                    if d > 1 {
                        expected[1] = 1;
                        assert_eq!(power, expected);
                    }
                    for e in 1..=log_n {
                        power = long_mul(&ring, &power, &power);
                        assert_eq!(power, ring.power(1 << e), "{t}, {log_n}, {e}");
                    }
                    let mut minus_one = vec![0; d];
                    minus_one[0] = t.value() - 1;
                    assert_eq!(power, minus_one);
                    assert_eq!(power.len() * ring.slots(), 1 << log_n);
                    let terms = ring.factor().iter().filter(|&&c| c != 0).count();
                    assert!(terms <= if p % 4 == 1 { 2 } else { 3 });
                }
            }
        }
    }

    #[test]
    fn products_and_the_frobenius_map() {
        for (p, k, log_n) in [(7, 1, 5), (7, 3, 6), (17, 2, 6), (31, 1, 5), (257, 1, 10), (3, 2, 7)]
        {
            let ring = GaloisRing::new(modulus(p, k), log_n).unwrap();
            let t = ring.modulus();
            let element = |seed: u128| -> Vec<u128> {
                (0..ring.degree() as u128).map(|i| t.reduce((i + seed).pow(5) + i)).collect()
            };
            let a = element(2);
            let b = element(3);
            let product = ring.mul(&a, &b).unwrap();
            assert_eq!(product, long_mul(&ring, &a, &b));
            let [x, y, xy] = [&a, &b, &product].map(|a| ring.frobenius(a).unwrap());
            assert_eq!(ring.mul(&x, &y).unwrap(), xy);
            let around = (0..ring.degree()).fold(a.clone(), |x, _| ring.frobenius(&x).unwrap());
            assert_eq!(around, a);
            if k == 1 {
                let power = (1..p).fold(a.clone(), |x, _| ring.mul(&x, &a).unwrap());
                assert_eq!(x, power);
            }
            assert!(ring.mul(&a, &[]).is_err());
        }
    }

    #[test]
    fn degrees_and_slots_are_those_of_the_literature() {
        for (p, log_n, degree, slots) in [
            (127, 14, 256, 64),
            (127, 15, 512, 64),
            (127, 16, 1024, 64),
            (257, 14, 128, 128),
            (257, 15, 256, 128),
            (8191, 15, 8, 4096),
            (131_071, 15, 2, 16384),
            (65537, 15, 1, 32768),
            (65537, 16, 2, 32768),
        ] {
            let ring = GaloisRing::new(modulus(p, 1), log_n).unwrap();
            assert_eq!((ring.degree(), ring.slots()), (degree, slots));
        }
        for (p, log_n) in [(2, 5), (3, 1), (3, 18)] {
            let error = GaloisRing::new(modulus(p, 1), log_n).unwrap_err();
            assert!(matches!(error, Error::InvalidSpec { .. }));
        }
    }
}
