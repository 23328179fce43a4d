use crate::{
    Modulus,
    kernel::{self, KernelTable},
};
use core::{cmp::Ordering, fmt};

/// Reciprocals `1 / q_i` of several moduli, used to round sums of fractions exactly.
pub struct Fractions {
    list: Vec<Fraction>,
    kernels: &'static KernelTable,
}

/// `1 / q` in fixed point.
pub(crate) struct Fraction {
    pub q: u64,
    /// `q << shift` and `y << shift` fill 62 bits.
    pub shift: u32,
    /// `floor(2^121 / (q << shift))`, of 60 bits.
    pub reciprocal: u64,
}

impl fmt::Debug for Fractions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|fraction| fraction.q)).finish()
    }
}

/// Marks a sum that a kernel could not round because it is too close to a half.
pub(crate) const UNDECIDED: u64 = u64::MAX;

impl Fractions {
    /// Computes the reciprocals of at most 256 `moduli`.
    #[must_use]
    pub fn new(moduli: &[Modulus]) -> Self {
        // The sums of all kernels fit a word up to here (docs/notes/base-conversion.md).
        debug_assert!(moduli.len() <= 256);
        let fraction = |m: &Modulus| {
            let shift = 62 - m.bits();
            // q is odd, so it is never a power of two: `q << shift` exceeds 2^61 and the quotient
            // has 60 bits.
            let reciprocal = (1u128 << 121) / (u128::from(m.value()) << shift);
            Fraction { q: m.value(), shift, reciprocal: reciprocal as u64 }
        };
        Self {
            list: moduli.iter().map(fraction).collect(),
            kernels: moduli.first().map_or(&kernel::SCALAR, Modulus::kernels),
        }
    }

    /// Writes `round(sum_i y_i / q_i)`, a half upwards, for each column of `y`. Row `i` holds
    /// residues modulo `q_i`. The result is exact: a sum that fixed point cannot decide is compared
    /// in integers.
    pub fn round_sum(&self, y: &[&[u64]], out: &mut [u64]) {
        assert_eq!(y.len(), self.list.len());
        assert!(y.iter().all(|row| row.len() == out.len()));
        let rows: Vec<*const u64> = y.iter().map(|row| row.as_ptr()).collect();
        // SAFETY: lengths are equal; `kernels` came from `select`, which checked the CPU.
        let decided =
            unsafe { (self.kernels.round_sum)(&self.list, &rows, out.as_mut_ptr(), out.len()) };
        // The slow path depends on the row alone, and rows are ciphertexts, which are public
        // (docs/notes/base-conversion.md).
        if !decided {
            for (x, v) in out.iter_mut().enumerate().filter(|(_, v)| **v == UNDECIDED) {
                *v = self.decide(y.iter().map(|row| row[x]));
            }
        }
    }

    /// Returns `floor((2 sum_i y_i Q / q_i + Q) / 2 Q)`, where `Q` is the product of all `q_i`.
    #[cold]
    fn decide(&self, y: impl Iterator<Item = u64>) -> u64 {
        let product_but = |skip: usize| {
            let others = self.list.iter().enumerate().filter(|(i, _)| *i != skip);
            others.fold(vec![1], |product, (_, f)| scaled(product, f.q))
        };
        let product = product_but(self.list.len());
        let left = y
            .enumerate()
            .fold(product.clone(), |sum, (i, y)| added(sum, scaled(product_but(i), 2 * y)));
        // The quotient is at most the number of terms.
        let fits = |v: &u64| compare(&scaled(product.clone(), 2 * v), &left).is_le();
        (1..).take_while(fits).last().unwrap_or(0)
    }
}

/// `a * w`, little-endian words.
fn scaled(mut a: Vec<u64>, w: u64) -> Vec<u64> {
    let mut carry = 0u128;
    for x in &mut a {
        carry += u128::from(*x) * u128::from(w);
        *x = carry as u64;
        carry >>= 64;
    }
    a.push(carry as u64);
    a
}

/// `a + b`, little-endian words.
fn added(mut a: Vec<u64>, b: Vec<u64>) -> Vec<u64> {
    a.resize(a.len().max(b.len()) + 1, 0);
    let mut carry = false;
    for (i, x) in a.iter_mut().enumerate() {
        let (sum, over) = x.overflowing_add(b.get(i).copied().unwrap_or(0));
        let (sum, more) = sum.overflowing_add(carry.into());
        *x = sum;
        carry = over || more;
    }
    a
}

fn compare(a: &[u64], b: &[u64]) -> Ordering {
    let word = |x: &[u64], i: usize| x.get(i).copied().unwrap_or(0);
    let order = (0..a.len().max(b.len())).rev().map(|i| word(a, i).cmp(&word(b, i)));
    order.fold(Ordering::Equal, Ordering::then)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, previous_prime};
    use num_bigint::BigUint;

    /// Rounds random residues, among them columns whose sums are as close to a half as possible.
    #[test]
    fn sums_round_like_integers() {
        for bits in [vec![48; 5], vec![30, 50, 61], vec![61; 4], vec![20], vec![50; 20]] {
            let mut end = bits.iter().map(|b| 1u64 << b).collect::<Vec<_>>();
            let mut primes: Vec<u64> = Vec::new();
            for end in &mut end {
                let below = primes.iter().copied().filter(|p| *p <= *end).min().unwrap_or(*end);
                primes.push(previous_prime(below, 2).unwrap());
            }
            let product: BigUint = primes.iter().product();
            let columns: Vec<Vec<u64>> = (0..200u64)
                .map(|x| match x {
                    // Residues y_i of an integer next to half of the product.
                    0..4 => {
                        let a = (&product >> 1) + BigUint::from(x) - BigUint::from(1u8);
                        let y = |q: &u64| {
                            let others = &product / q;
                            let inverse = others.modinv(&BigUint::from(*q)).unwrap();
                            let y: BigUint = &a * inverse % q;
                            y.iter_u64_digits().next().unwrap_or(0)
                        };
                        primes.iter().map(y).collect()
                    }
                    4 => vec![0; primes.len()],
                    5 => primes.iter().map(|q| q - 1).collect(),
                    _ => {
                        let mix = |q: &u64| (x + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ q) % q;
                        primes.iter().map(mix).collect()
                    }
                })
                .collect();
            let rows: Vec<Vec<u64>> =
                (0..primes.len()).map(|i| columns.iter().map(|y| y[i]).collect()).collect();
            let rows: Vec<&[u64]> = rows.iter().map(Vec::as_slice).collect();
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                let moduli: Vec<Modulus> =
                    primes.iter().map(|&q| Modulus::with_isa(q, isa).unwrap()).collect();
                let mut out = vec![0; columns.len()];
                Fractions::new(&moduli).round_sum(&rows, &mut out);
                for (v, y) in out.into_iter().zip(&columns) {
                    let terms = y.iter().zip(&primes).map(|(y, q)| &product / q * y);
                    let sum: BigUint = terms.sum::<BigUint>() * 2u8 + &product;
                    assert_eq!(BigUint::from(v), sum / (&product * 2u8), "{bits:?} {isa:?}");
                }
            }
        }
    }
}
