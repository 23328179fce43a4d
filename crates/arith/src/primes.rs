//! Primes for negacyclic transforms.

/// Returns `true` if `n` is prime. Miller-Rabin with the twelve bases that decide every `n < 2^64`
/// (Sorenson and Webster, 2015).
#[must_use]
pub fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    // Afterwards `n` is coprime to every base, as the test requires.
    if let Some(p) = BASES.into_iter().find(|p| n.is_multiple_of(*p)) {
        return n == p;
    }
    let mul = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(n)) as u64;
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    BASES.into_iter().all(|base| {
        let mut x = 1;
        for bit in (0..64 - odd.leading_zeros()).rev() {
            x = mul(x, x);
            if odd >> bit & 1 == 1 {
                x = mul(x, base);
            }
        }
        let mut passes = x == 1;
        for _ in 0..twos {
            passes |= x == n - 1;
            x = mul(x, x);
        }
        passes
    })
}

/// Returns the least prime `p >= start` with `p = 1 mod step`, or `None` if it exceeds 62 bits.
#[must_use]
pub fn next_prime(start: u64, step: u64) -> Option<u64> {
    let first = start.saturating_sub(1).div_ceil(step) * step + 1;
    // `Modulus` accepts no more than 62 bits.
    (0..).map(|k| first + k * step).take_while(|p| p >> 62 == 0).find(|p| is_prime(*p))
}

/// Returns the greatest prime `p < end` with `p = 1 mod step`, or `None` if none exists.
#[must_use]
pub fn previous_prime(end: u64, step: u64) -> Option<u64> {
    // `k step + 1 < end` means `k <= (end - 2) / step`. `k = 0` would give 1.
    let multiples = end.saturating_sub(2) / step;
    (1..=multiples).rev().map(|k| k * step + 1).find(|p| is_prime(*p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_sieve() {
        let divides = |n: usize| (2..n).take_while(|d| d * d <= n).any(|d| n.is_multiple_of(d));
        let sieve: Vec<bool> = (0..20_000).map(|n| n >= 2 && !divides(n)).collect();
        for (n, &prime) in sieve.iter().enumerate() {
            assert_eq!(is_prime(n as u64), prime, "{n}");
        }
    }

    #[test]
    fn knows_large_primes_and_strong_pseudoprimes() {
        assert!(is_prime((1 << 61) - 1));
        assert!(is_prime(0x2000_0000_000b_0001));
        assert!(is_prime(18_446_744_073_709_551_557));
        // Strong pseudoprimes to the bases 2..=23 and to 2..=31.
        assert!(!is_prime(3_825_123_056_546_413_051));
        assert!(!is_prime(341_550_071_728_321));
        assert!(!is_prime(u64::MAX));
    }

    #[test]
    fn neighbours_are_congruent_and_nearest() {
        let step = 1 << 16;
        let up = next_prime(1 << 40, step).unwrap();
        let down = previous_prime(1 << 40, step).unwrap();
        assert!(up > 1 << 40 && down < 1 << 40);
        assert_eq!((up % step, down % step), (1, 1));
        let between = (down + 1..up).step_by(1).filter(|n| n % step == 1).any(is_prime);
        assert!(!between);
        assert_eq!(next_prime(up, step), Some(up));
        assert_eq!(previous_prime(17, 16), None);
        assert_eq!(next_prime(1 << 62, 16), None);
    }
}
