//! How many special primes a chain has room for, and how large they are.

/// Above the product of a digit's primes: keeps what key switching adds below rounding errors.
const MARGIN_BITS: f64 = 4.0;

/// Special primes up to this size have the fastest kernels.
const PRIME_BITS: f64 = 50.0;

/// Primes are not exactly as large as asked for.
pub(super) const SLACK_BITS: f64 = 0.5;

/// Transforms of a key switch: raising each digit, and dividing two polynomials by the special
/// primes.
fn transforms(primes: usize, digits: usize) -> usize {
    primes * (digits + 2)
}

/// Sizes of special primes for the fastest key switching at the top level of a chain, if the
/// modulus with them can stay below `2^limit`.
pub(crate) fn special_primes(q_bits: &[f64], limit: f64) -> Option<Vec<f64>> {
    let log2_q: f64 = q_bits.iter().sum();
    // Digits of a chain that no ring has room for are as many again to look through.
    if log2_q > limit {
        return None;
    }
    (1..=q_bits.len())
        .map(|alpha| {
            let digits = q_bits.chunks(alpha).map(|digit| digit.iter().sum::<f64>());
            (alpha, digits.fold(0.0, f64::max) + MARGIN_BITS)
        })
        .filter(|(_, log2_p)| log2_q + log2_p + SLACK_BITS <= limit)
        .map(|(alpha, log2_p)| {
            let count = (log2_p / PRIME_BITS).ceil();
            let cost = transforms(q_bits.len() + count as usize, q_bits.len().div_ceil(alpha));
            (cost, vec![log2_p / count; count as usize])
        })
        .min_by_key(|&(cost, _)| cost)
        .map(|(_, p_bits)| p_bits)
}

/// Sizes of special primes beside `p_bits` for keys of a level with these primes: as many as make
/// one digit of them, or as its modulus has room for.
pub(super) fn further_special_primes(q_bits: &[f64], p_bits: &[f64], limit: f64) -> Vec<f64> {
    let (log2_q, log2_p) = (q_bits.iter().sum::<f64>(), p_bits.iter().sum::<f64>());
    let wanted = ((log2_q + MARGIN_BITS - log2_p) / PRIME_BITS).ceil();
    let room = ((limit - SLACK_BITS - log2_q - log2_p) / PRIME_BITS).floor();
    vec![PRIME_BITS; wanted.min(room).max(0.0) as usize]
}

/// Transforms of a key switch at a level with these primes, with as many special primes as make
/// it cheapest: the first `least`, or more where the modulus has room for them.
pub(super) fn switch_cost(q_bits: &[f64], p_bits: &[f64], least: usize, limit: f64) -> f64 {
    let log2_q: f64 = q_bits.iter().sum();
    let cost = |count: usize| {
        let log2_p: f64 = p_bits[..count].iter().sum();
        // As many primes from the bottom in each digit as have a product of at most that of the
        // special ones.
        let (mut digits, mut digit) = (1, 0.0);
        for bits in q_bits {
            digit += bits;
            if digit > log2_p {
                (digits, digit) = (digits + 1, *bits);
            }
        }
        let secure = count <= least || log2_q + log2_p + SLACK_BITS <= limit;
        secure.then(|| transforms(q_bits.len() + count, digits))
    };
    (least..=p_bits.len()).filter_map(cost).min().unwrap_or(usize::MAX) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At once, although digits of every number of primes would take hours to go through.
    #[test]
    fn chains_that_no_ring_has_room_for_have_none() {
        assert_eq!(special_primes(&vec![40.0; 1 << 20], 3500.0), None);
        assert_eq!(special_primes(&[40.0; 3], 160.0), None);
        assert!(special_primes(&[40.0; 3], 170.0).is_some());
    }
}
