//! Extraction of digits in the clear, and the polynomials that it evaluates.
//!
//! Reference: thesis, section 5.2.2 and Figure 5.2, after S. Halevi and V. Shoup, "Bootstrapping for
//! HElib" (EUROCRYPT 2015), Corollaries 5.4 and 5.5.

/// Returns the coefficients, from `X` on, of a polynomial `F` of degree `t` with
/// `F(z_0 + t^k z_1) = z_0 mod t^(k + 1)` for all digits `z_0`, integers `z_1` and
/// `1 <= k <= order`.
///
/// It is `X^t - sum_i t^i f_i(X)`, where the digits of `z_0^t - z_0` define each `f_i` in turn, of
/// degree below `t` and without a constant. For `t = 2` it is `X^2`. Coefficients are between
/// `-t^(order + 1) / 2` and `t^(order + 1) / 2`.
///
/// # Panics
/// If `t` is not a prime, or `t^(order + 1)` exceeds `2^16`.
#[must_use]
pub fn lifting_polynomial(t: u32, order: u32) -> Vec<i64> {
    assert!(sudare_arith::is_prime(t.into()), "{t} is not a prime");
    let p = i64::from(t);
    let modulus = i64::from(t).pow(order + 1);
    // Products of residues then stay far below the limit of `i64`.
    assert!(modulus <= 1 << 16, "{t}^{} is too large", order + 1);
    // Coefficients of X^0 to X^t.
    let mut f = vec![0; t as usize + 1];
    f[t as usize] = 1;
    for i in 1..=order {
        let step = p.pow(i);
        // The remainder at each digit is a multiple of t^i.
        let digits: Vec<i64> =
            (0..p).map(|z| (evaluate(&f, z, modulus) - z).rem_euclid(modulus) / step % p).collect();
        for (coefficient, part) in f.iter_mut().zip(interpolate(&digits, p)) {
            *coefficient = (*coefficient - step * part).rem_euclid(modulus);
        }
    }
    let centred = |c: &i64| if 2 * c > modulus { c - modulus } else { *c };
    f[1..].iter().map(centred).collect()
}

/// Returns `f(x) mod modulus`.
fn evaluate(f: &[i64], x: i64, modulus: i64) -> i64 {
    f.iter().rev().fold(0, |sum, c| (sum * x + c).rem_euclid(modulus))
}

/// Returns the coefficients of the polynomial of degree below the prime `p` with these values at
/// `0..p`.
fn interpolate(values: &[i64], p: i64) -> Vec<i64> {
    // 1 - (X - z)^(p - 1) is one at z and zero elsewhere.
    let mut sum = vec![0; p as usize];
    for (z, value) in (0..).zip(values) {
        let mut power = vec![1i64];
        for degree in 1..p as usize {
            power.resize(degree + 1, 0);
            for i in (0..power.len()).rev() {
                let lower = if i > 0 { power[i - 1] } else { 0 };
                power[i] = (lower - z * power[i]).rem_euclid(p);
            }
        }
        sum[0] += value;
        for (sum, coefficient) in sum.iter_mut().zip(power) {
            *sum = (*sum - value * coefficient).rem_euclid(p);
        }
    }
    sum
}

/// Returns the digit of `t^n` in `x`, by the steps of bootstrapping on ciphertexts.
///
/// # Panics
/// The panics of [`lifting_polynomial`] of order `n`.
#[must_use]
pub fn extract(x: u64, t: u32, n: u32) -> u64 {
    let p = i64::from(t);
    let modulus = i64::from(t).pow(n + 1);
    let mut f = vec![0];
    f.extend(if n == 0 { vec![1] } else { lifting_polynomial(t, n) });
    // `x` without its lower digits, over t^i, and these digits, lifted.
    let mut lifted: Vec<i64> = Vec::new();
    let mut rest = (x % modulus.unsigned_abs()).cast_signed();
    for i in 0..n {
        lifted.push(rest);
        for digit in &mut lifted {
            *digit = evaluate(&f, *digit, modulus);
        }
        let low: i64 = (0..=i).zip(&lifted).map(|(k, digit)| p.pow(k) * digit).sum();
        rest =
            ((x % modulus.unsigned_abs()).cast_signed() - low).rem_euclid(modulus) / p.pow(i + 1);
    }
    rest.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifting_keeps_the_digit_and_clears_the_next_ones() {
        for (t, order) in [(2, 7), (3, 4), (5, 3), (7, 2), (11, 1)] {
            let mut f = vec![0];
            f.extend(lifting_polynomial(t, order));
            assert_eq!(f.len(), t as usize + 1);
            for k in 1..=order {
                let p = i64::from(t);
                let modulus = i64::from(t).pow(k + 1);
                for z in 0..modulus {
                    let low = z % p;
                    let high = z / p;
                    let input = low + p.pow(k) * high;
                    assert_eq!(evaluate(&f, input, modulus), low, "t = {t}, k = {k}, z = {z}");
                }
            }
        }
        assert_eq!(lifting_polynomial(2, 5), [0, 1]);
    }

    #[test]
    fn every_digit_of_every_number_is_extracted() {
        for (t, digits) in [(2, 8), (3, 5), (5, 3), (7, 3)] {
            for n in 0..digits {
                for x in 0..u64::from(t).pow(n + 1) {
                    assert_eq!(extract(x, t, n), x / u64::from(t).pow(n), "{x} by {t}^{n}");
                }
            }
        }
    }
}
