use crate::{
    Error, Result,
    circuits::exact::interpolation::{divided, interpolate, product},
    exact::Modulus,
};

/// Maximum degree of polynomials that hold for every digit; their degree grows with `p`.
const MAX_DEGREE: u64 = 1 << 12;

/// A polynomial over the integers modulo `p^e`.
///
/// Different polynomials can be the same function of residues. Properties stated here hold for the
/// functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResiduePolynomial {
    modulus: Modulus,
    /// Never empty. The last is not zero, unless it is the only one.
    coeffs: Vec<u128>,
}

impl ResiduePolynomial {
    /// Makes `sum coeffs[n] x^n`.
    ///
    /// # Errors
    /// [`Error::ValueOutOfRange`] for a coefficient that is not below the modulus.
    pub fn new(modulus: Modulus, coeffs: Vec<u128>) -> Result<Self> {
        let most = modulus.value() - 1;
        match coeffs.iter().position(|&c| c > most) {
            Some(index) => {
                let value = coeffs[index].to_string();
                Err(Error::ValueOutOfRange { index, value, most, signed: false })
            }
            None => Ok(Self::trimmed(modulus, coeffs)),
        }
    }

    fn trimmed(modulus: Modulus, mut coeffs: Vec<u128>) -> Self {
        let len = coeffs.iter().rposition(|&c| c != 0).map_or(1, |degree| degree + 1);
        coeffs.resize(len, 0);
        Self { modulus, coeffs }
    }

    /// Makes the polynomial that retains the lowest digit: `G(x)` is the lowest digit of `x` modulo
    /// `p^e`, for every `x`. Its degree is at most `(e-1)(p-1) + 1`.
    ///
    /// `x - G(x)` is the polynomial over the rationals that interpolates its values at
    /// `0..=(e-1)(p-1)+1`. Its coefficients are integers at `p`.
    ///
    /// Reference: Han, "Bootstrapping methods for homomorphic encryption" (PhD thesis, Seoul
    /// National University), Lemma 3.2.2.
    ///
    /// # Errors
    /// [`Error::Circuit`] for a degree beyond `2^12` or `p^(2e-1)` beyond `2^124`.
    pub fn retain(modulus: Modulus) -> Result<Self> {
        let p = modulus.prime();
        let e = modulus.exponent();
        let degree = u64::from(e - 1).saturating_mul(p - 1).saturating_add(1);
        // The factorials to divide by have at most `e - 1` factors `p`.
        let wide = modulus.with_exponent(2 * e - 1).ok().filter(|_| degree <= MAX_DEGREE);
        let Some(wide) = wide else {
            return Err(Error::Circuit(format!(
                "a polynomial retaining any lowest digit modulo {modulus} has degree {degree}: at \
                 most {MAX_DEGREE} and residues modulo {p}^{} of at most 124 bits are possible; \
                 bound the digits",
                2 * u64::from(e) - 1
            )));
        };
        let removed = |i: u64| wide.reduce_i128(i128::from(i) - lowest_digit(p, i));
        let mut coeffs =
            interpolate_at_naturals(modulus, wide, (0..=degree).map(removed).collect());
        for c in &mut coeffs {
            *c = modulus.neg(*c);
        }
        // `G(x) = x - (x - G(x))`. The degree is at least 1, so this coefficient exists.
        coeffs[1] = modulus.add(coeffs[1], 1);
        Ok(Self::trimmed(modulus, coeffs))
    }

    /// Makes a polynomial for the same function as [`ResiduePolynomial::retain`], with half of the
    /// coefficients. For odd `p` it is odd and has at most the same degree. For `p = 2` it is even,
    /// and its degree is higher by at most 1.
    ///
    /// # Errors
    /// Errors of [`ResiduePolynomial::retain`], for `p = 2` with the next exponent.
    pub fn retain_symmetric(modulus: Modulus) -> Result<Self> {
        // For odd p, negating a number negates its digit. For p = 2 the digit stays, and the even
        // part, half of G(x) + G(-x), is correct modulo half of the modulus of G.
        let parity = usize::from(modulus.prime() != 2);
        let source =
            if parity == 1 { modulus } else { modulus.with_exponent(modulus.exponent() + 1)? };
        let mut coeffs = Self::retain(source)?.coeffs;
        for (n, c) in coeffs.iter_mut().enumerate() {
            *c = if n % 2 == parity { modulus.reduce(*c) } else { 0 };
        }
        Ok(Self::trimmed(modulus, coeffs))
    }

    /// Makes the lifting polynomial of degree `p`: `F(z + p^k y) = z modulo p^(k+1)` for every
    /// digit `z`, every `y` and `1 <= k < e`.
    ///
    /// It is `x^2` for `p = 2`. Otherwise it is `x^p + p h(x)` of degree `p` such that `F(z) = z`
    /// for each digit.
    ///
    /// Reference: Han, "Bootstrapping methods for homomorphic encryption" (PhD thesis, Seoul
    /// National University), Lemma 3.2.1.
    ///
    /// # Errors
    /// [`Error::Circuit`] for a degree beyond `2^12`.
    pub fn lifting(modulus: Modulus) -> Result<Self> {
        let p = modulus.prime();
        if p > MAX_DEGREE {
            return Err(Error::Circuit(format!(
                "the lifting polynomial modulo {modulus} has degree {p}: at most {MAX_DEGREE} is \
                 possible; remove one digit only, or bound it"
            )));
        }
        let mut coeffs = vec![0; p as usize + 1];
        coeffs[p as usize] = 1;
        // `x^p` alone keeps the digits 0 and 1 of `p = 2`, and all digits modulo `p` (Fermat).
        if let (true, Ok(lower)) = (p > 2, modulus.with_exponent(modulus.exponent() - 1)) {
            let digits: Vec<_> = (0..p).map(|i| lowest_digit(p, i)).collect();
            let excess = digits.iter().map(|&z| {
                let z = modulus.reduce_i128(z);
                // Exact: `z^p = z` modulo `p`.
                modulus.sub(z, modulus.pow(z, p.into())) / u128::from(p)
            });
            let excess = excess.collect();
            let h = interpolate(lower, &digits, &[excess]).remove(0);
            for (c, h) in coeffs.iter_mut().zip(h) {
                *c = h * u128::from(p);
            }
        }
        Ok(Self::trimmed(modulus, coeffs))
    }

    /// Makes the polynomial that removes the lowest digit if that is at most `bound` in magnitude:
    /// `F(i + p y) = p y` for `|i| <= bound` and every `y`. It is odd, of degree at most
    /// `e (2 bound + 1) - 1`, for any `p`, and `4 bound + 1` for `e = 2`.
    ///
    /// It equals `x - i` up to terms of order `e` in `p` and `x - i`, at each `i`. With `b` the
    /// product of all `x - i`, it is `sum_(0 < m < e) b^m h_m(x)`. The `h_m` have degree at most
    /// `2 bound` and are needed modulo `p^(e-m)` only.
    ///
    /// Reference: Ma, Huang, Wang, Wang ([2024/115](https://eprint.iacr.org/2024/115)), for the
    /// idea.
    ///
    /// # Errors
    /// [`Error::Circuit`] unless `2 bound + 1 <= p`, and for a degree beyond `2^12`.
    pub fn bounded_removal(modulus: Modulus, bound: u32) -> Result<Self> {
        let p = modulus.prime();
        let e = modulus.exponent();
        let nodes = 2 * u64::from(bound) + 1;
        if p == 2 || nodes > p || nodes * u64::from(e) > MAX_DEGREE {
            return Err(Error::Circuit(format!(
                "lowest digits of at most {bound} modulo {modulus}: at most {} are digits of an \
                 odd prime, and polynomials of degree at most {MAX_DEGREE} possible",
                p.min(MAX_DEGREE / u64::from(e)).saturating_sub(1) / 2
            )));
        }
        let digits: Vec<i128> = (-i128::from(bound)..=i128::from(bound)).collect();
        let mut base = vec![1];
        for &i in &digits {
            base = product(modulus, &base, &[modulus.reduce_i128(-i), 1]);
        }
        // At the digit `i`: `b(x) = slope (x - i) + ..`
        let slopes: Vec<_> = digits.iter().map(|&i| taylor(modulus, &base, i, 1)).collect();
        let mut exact = vec![0];
        let mut reduced = vec![0];
        let mut power = vec![1];
        let mut slope_powers = vec![1; digits.len()];
        for m in 1..e {
            power = product(modulus, &power, &base);
            let values =
                digits.iter().zip(&slopes).zip(&mut slope_powers).map(|((&i, &s), power)| {
                    *power = modulus.mul(*power, s);
                    // Around `i`, the result is `x - i`: 1 at order 1, then 0 up to order `e`.
                    let wanted = modulus.sub(u128::from(m == 1), taylor(modulus, &exact, i, m));
                    // Digits differ modulo `p`, so slopes are units.
                    modulus.mul(wanted, modulus.inverse(*power).unwrap_or(0))
                });
            let mut h = interpolate(modulus, &digits, &[values.collect()]).remove(0);
            exact = sum(modulus, &exact, &product(modulus, &power, &h));
            // `b^m` is a multiple of `p^m` at every `i + p y`, so values remain. Taylor
            // coefficients do not, so later orders need `exact`.
            let enough = modulus.with_exponent(e - m)?;
            for c in &mut h {
                *c = enough.reduce(*c);
            }
            reduced = sum(modulus, &reduced, &product(modulus, &power, &h));
        }
        Ok(Self::trimmed(modulus, reduced))
    }

    /// Makes the polynomial that retains the lowest digit if that is at most `bound` in magnitude:
    /// `x` minus [`ResiduePolynomial::bounded_removal`].
    ///
    /// # Errors
    /// See [`ResiduePolynomial::bounded_removal`].
    pub fn bounded_retain(modulus: Modulus, bound: u32) -> Result<Self> {
        let mut coeffs = Self::bounded_removal(modulus, bound)?.coeffs;
        for c in &mut coeffs {
            *c = modulus.neg(*c);
        }
        Ok(Self::trimmed(modulus, sum(modulus, &coeffs, &[0, 1])))
    }

    /// `p^e`.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// The coefficients in `[0, p^e)`, from the constant to the last nonzero one.
    #[must_use]
    pub fn coeffs(&self) -> &[u128] {
        &self.coeffs
    }

    /// The coefficients, in `(-p^e/2, p^e/2]`.
    #[must_use]
    pub fn centered(&self) -> Vec<i128> {
        self.coeffs.iter().map(|&c| self.modulus.centered(c)).collect()
    }

    /// The degree; 0 for the zero polynomial.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.coeffs.len() - 1
    }

    /// Returns `true` if only odd powers of `x` occur.
    #[must_use]
    pub fn is_odd(&self) -> bool {
        self.coeffs.iter().step_by(2).all(|&c| c == 0)
    }

    /// Returns `true` if only even powers of `x` occur.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.coeffs.iter().skip(1).step_by(2).all(|&c| c == 0)
    }

    /// Returns the value at the residue `x`.
    #[must_use]
    pub fn evaluate(&self, x: u128) -> u128 {
        let t = self.modulus;
        let x = self.modulus.reduce(x);
        self.coeffs.iter().rev().fold(0, |value, &c| t.add(t.mul(value, x), c))
    }
}

/// Returns the lowest base-`p` digit: 0 or 1 for `p = 2`, otherwise balanced.
fn lowest_digit(p: u64, x: u64) -> i128 {
    let digit = i128::from(x % p);
    if p > 2 && 2 * digit > i128::from(p) { digit - i128::from(p) } else { digit }
}

/// Returns the polynomial modulo `t` with these values at `0, 1, ..`, by Newton's formula. The
/// values must be known modulo `wide`, a power of `p` that exceeds `t` by the factors `p` of the
/// factorial of their number.
fn interpolate_at_naturals(t: Modulus, wide: Modulus, mut values: Vec<u128>) -> Vec<u128> {
    let len = values.len();
    let p = u128::from(t.prime());
    let mut coeffs = vec![0; len];
    let mut falling = vec![1];
    // k! is `power unit`, a power of `p` and a unit.
    let mut power = 1;
    let mut unit = 1;
    for k in 0..len {
        if k > 0 {
            falling = product(t, &falling, &[t.reduce_i128(1 - k as i128), 1]);
            let mut factor = k as u128;
            while factor.is_multiple_of(p) {
                factor /= p;
                power *= p;
            }
            unit = t.mul(unit, t.reduce(factor));
        }
        // The k-th difference at 0.
        debug_assert!(values[0].is_multiple_of(power));
        // `unit` has lost all factors `p`, so its inverse exists.
        let c = t.mul(t.reduce(values[0] / power), t.inverse(unit).unwrap_or(0));
        for (sum, &f) in coeffs.iter_mut().zip(&falling) {
            *sum = t.add(*sum, t.mul(c, f));
        }
        for i in 1..values.len() {
            values[i - 1] = wide.sub(values[i], values[i - 1]);
        }
        values.pop();
    }
    coeffs
}

/// Returns the coefficient of `(x - z)^m`.
fn taylor(t: Modulus, coeffs: &[u128], z: i128, m: u32) -> u128 {
    let mut rest = coeffs.to_vec();
    for _ in 0..m {
        rest = divided(t, &rest, z).0;
    }
    divided(t, &rest, z).1
}

fn sum(t: Modulus, a: &[u128], b: &[u128]) -> Vec<u128> {
    let at = |a: &[u128], i: usize| a.get(i).copied().unwrap_or(0);
    (0..a.len().max(b.len())).map(|i| t.add(at(a, i), at(b, i))).collect()
}

#[cfg(test)]
mod tests;
