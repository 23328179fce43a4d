use super::Modulus;

/// A commutative ring with the roots of unity of a [`Transform`].
pub(super) trait Ring: Copy {
    type Element: Copy;
    fn one(self) -> Self::Element;
    fn add(self, a: Self::Element, b: Self::Element) -> Self::Element;
    fn sub(self, a: Self::Element, b: Self::Element) -> Self::Element;
    fn mul(self, a: Self::Element, b: Self::Element) -> Self::Element;
}

impl Ring for Modulus {
    type Element = u128;
    fn one(self) -> u128 {
        1
    }
    fn add(self, a: u128, b: u128) -> u128 {
        Self::add(self, a, b)
    }
    fn sub(self, a: u128, b: u128) -> u128 {
        Self::sub(self, a, b)
    }
    fn mul(self, a: u128, b: u128) -> u128 {
        Self::mul(self, a, b)
    }
}

/// Negacyclic transform of `n` elements of a ring with a primitive `2n`-th root of unity `psi`.
///
/// Forward: coefficients in order to evaluations at the odd powers of `psi`. The evaluation at `e`
/// is at [`place`]. The inverse undoes it and includes `1/n`.
///
/// Reference: [LN16](https://eprint.iacr.org/2016/504), Algorithms 1 and 2.
#[derive(Debug)]
pub(super) struct Transform<R: Ring> {
    ring: R,
    /// `psi^rev(i)` and `psi^-rev(i)`, with the reversal of `log2(n)` bits.
    forward: Vec<R::Element>,
    inverse: Vec<R::Element>,
    /// `1/n`.
    scale: R::Element,
}

impl<R: Ring> Transform<R> {
    /// Builds tables from `psi` and the inverse of `n = 2^log_len`.
    pub(super) fn new(ring: R, log_len: u32, psi: R::Element, scale: R::Element) -> Self {
        let n = 1usize << log_len;
        let mut powers = vec![ring.one(); 2 * n];
        for k in 1..2 * n {
            powers[k] = ring.mul(powers[k - 1], psi);
        }
        let power = |k: usize| powers[k % (2 * n)];
        let forward = (0..n).map(|i| power(reverse(i, log_len))).collect();
        let inverse = (0..n).map(|i| power(2 * n - reverse(i, log_len))).collect();
        Self { ring, forward, inverse, scale }
    }

    /// Transforms coefficients to evaluations.
    pub(super) fn forward(&self, row: &mut [R::Element]) {
        let r = self.ring;
        let mut half = row.len() / 2;
        while half > 0 {
            let groups = row.len() / (2 * half);
            for (group, &w) in row.chunks_exact_mut(2 * half).zip(&self.forward[groups..]) {
                let (low, high) = group.split_at_mut(half);
                for (a, b) in low.iter_mut().zip(high) {
                    let product = r.mul(*b, w);
                    (*a, *b) = (r.add(*a, product), r.sub(*a, product));
                }
            }
            half /= 2;
        }
    }

    /// Transforms evaluations to coefficients.
    pub(super) fn inverse(&self, row: &mut [R::Element]) {
        let r = self.ring;
        let mut half = 1;
        while half < row.len() {
            let groups = row.len() / (2 * half);
            for (group, &w) in row.chunks_exact_mut(2 * half).zip(&self.inverse[groups..]) {
                let (low, high) = group.split_at_mut(half);
                for (a, b) in low.iter_mut().zip(high) {
                    (*a, *b) = (r.add(*a, *b), r.mul(r.sub(*a, *b), w));
                }
            }
            half *= 2;
        }
        for a in row {
            *a = r.mul(*a, self.scale);
        }
    }
}

/// Returns the place of the evaluation at `psi^e`, for an odd `e`, in a [`Transform`] of
/// `2^log_len` elements.
pub(super) fn place(log_len: u32, e: usize) -> usize {
    reverse(e / 2 % (1 << log_len), log_len)
}

fn reverse(i: usize, bits: u32) -> usize {
    // For 0 bits the shift by a whole word would overflow.
    if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_are_those_at_odd_powers() {
        let t = Modulus::new(257, 3).unwrap();
        for log_len in 0..=7 {
            let n = 1usize << log_len;
            let psi = t.root_of_unity(log_len + 1).unwrap();
            let transform = Transform::new(t, log_len, psi, t.inverse(n as u128).unwrap());
            let coeffs: Vec<u128> =
                (0..n as u128).map(|i| (i * i + 7) * 65_537 % t.value()).collect();
            let mut row = coeffs.clone();
            transform.forward(&mut row);
            for e in (1..2 * n).step_by(2) {
                let x = t.pow(psi, e as u128);
                let value = coeffs.iter().rev().fold(0, |sum, &c| t.add(t.mul(sum, x), c));
                assert_eq!(row[place(log_len, e)], value, "{n}, {e}");
            }
            transform.inverse(&mut row);
            assert_eq!(row, coeffs);
        }
    }
}
