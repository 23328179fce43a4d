//! Values of slots and of polynomials, in the clear.

use sudare::ckks::Complex;
use sudare_arith::{
    NttTable,
    prng::{Seed, Stream},
};

/// Bits of the scale that results may lose, besides `log2(N)`: half of them for the norm of the
/// noise and the rest for its size.
pub const NOISE_BITS: f64 = 10.0;

/// Evaluates the polynomial `row` at the root that `place` stands for.
#[must_use]
pub fn horner(table: &NttTable, row: &[u64], place: usize) -> u64 {
    let m = table.modulus();
    let log_n = table.log_n();
    // The polynomial X has the root itself as value.
    let mut x = vec![0; row.len()];
    x[1] = 1;
    table.forward(&mut x);
    let psi = x[NttTable::place(log_n, 1)];
    let root = m.pow(psi, NttTable::exponent(log_n, place) as u64);
    row.iter().rev().fold(0, |sum, &c| m.add(m.mul(sum, root), c))
}

/// Draws complex numbers with parts in [-1, 1).
#[must_use]
pub fn uniform(seed: &Seed, label: &str, count: usize) -> Vec<Complex<f64>> {
    let mut stream = Stream::new(seed, label, 0);
    // 53 random bits fill the mantissa, so each part is exact and uniform.
    let mut part = || (stream.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
    (0..count).map(|_| Complex { re: part(), im: part() }).collect()
}

/// Returns `-log2` of the largest error.
#[must_use]
pub fn precision(found: &[Complex<f64>], expected: &[Complex<f64>]) -> f64 {
    if found.len() != expected.len() {
        // A short result is wrong, although `zip` would find no error in it.
        return f64::NAN;
    }
    let errors = found.iter().zip(expected).map(|(x, y)| (x.re - y.re).hypot(x.im - y.im));
    // A NaN is the worst error.
    let worst = errors.fold(0.0f64, |worst, e| if e > worst || e.is_nan() { e } else { worst });
    // Equal values have no error. JSON has no infinity, so the largest finite precision stands for
    // it.
    if worst == 0.0 { -f64::MIN_POSITIVE.log2() } else { -worst.log2() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precision_is_that_of_the_worst_slot() {
        let slots = |parts: &[f64]| -> Vec<Complex<f64>> {
            parts.iter().map(|&re| Complex { re, im: 0.0 }).collect()
        };
        assert_eq!(precision(&slots(&[1.0, 2.25]), &slots(&[1.0625, 2.0])), 2.0);
        assert!(precision(&slots(&[1.0, f64::NAN, 2.0]), &slots(&[1.0, 2.0, 2.0])).is_nan());
        assert!(precision(&slots(&[1.0]), &slots(&[1.0, 2.0])).is_nan());
        assert!(precision(&slots(&[1.0]), &slots(&[1.0])) > 100.0);
    }
}
