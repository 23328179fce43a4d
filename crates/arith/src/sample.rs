//! Samplers over a [`Stream`].
//!
//! Each sampler is a function of the word sequence alone. It consumes words in stream order, and
//! every word read belongs to a value returned or rejected. Drawing `a` and then `b` values is
//! therefore the same as drawing `a + b`, except for [`fixed_weight`], whose vector is one value.
//!
//! All except [`uniform`] take time independent of the drawn values and wipe their working memory.

mod gaussian;

pub use gaussian::{GAUSSIAN_BITS, GAUSSIAN_LOG2_DEVIATION, gaussian};

use core::iter::zip;

use zeroize::Zeroizing;

use crate::{Error, Isa, Result, kernel, prng::Stream};

/// Words drawn at a time: 4 KiB, a small part of the L1 cache. No result depends on it.
const BLOCK_WORDS: usize = 512;

/// Draws uniform residues modulo `q`, for public values.
///
/// Takes the low `ceil(log2 q)` bits of each word and rejects values of `q` and above, which is
/// exact. The time depends on the rejections, so never draw secrets with it.
///
/// # Panics
/// Unless `0 < q < 2^62`.
pub fn uniform(q: u64, stream: &mut Stream, out: &mut [u64]) {
    assert!(0 < q && q < 1 << 62, "modulus {q} is out of range: need 0 < q < 2^62");
    let mask = q.next_power_of_two() - 1;
    let mut rest = out;
    while !rest.is_empty() {
        // No more words than values are missing: surplus words would belong to no value.
        let len = rest.len().min(BLOCK_WORDS);
        let block = &mut rest[..len];
        stream.fill(block);
        let accepted = kernel::compact(q, mask, block, Isa::detect());
        rest = &mut rest[accepted..];
    }
}

/// Draws uniform values in `{-1, 0, 1}`, in constant time.
///
/// Each uses one word `w`: `floor(3w / 2^64) - 1`. Each probability is within `2^-64` of 1/3.
pub fn ternary(stream: &mut Stream, out: &mut [i8]) {
    map_words(stream, out, ternary_of);
}

fn ternary_of(word: u64) -> i8 {
    ((u128::from(word) * 3) >> 64) as i8 - 1
}

/// Variance of the values of [`cbd21`].
pub const CBD21_VARIANCE: f64 = 10.5;

/// Draws centred binomial values from 21 pairs of coins, in constant time: mean 0, variance 10.5,
/// standard deviation 3.24, `|x| <= 21`.
///
/// Each uses one word: the number of ones among its lowest 21 bits, minus the number among the
/// next 21.
pub fn cbd21(stream: &mut Stream, out: &mut [i8]) {
    map_words(stream, out, cbd21_of);
}

fn cbd21_of(word: u64) -> i8 {
    const COINS: u64 = (1 << 21) - 1;
    (word & COINS).count_ones() as i8 - (word >> 21 & COINS).count_ones() as i8
}

fn map_words(stream: &mut Stream, out: &mut [i8], value_of: impl Fn(u64) -> i8) {
    let mut words = Zeroizing::new([0; BLOCK_WORDS]);
    for values in out.chunks_mut(BLOCK_WORDS) {
        let words = &mut words[..values.len()];
        stream.fill(words);
        for (value, &word) in zip(values, &*words) {
            *value = value_of(word);
        }
    }
}

/// Draws a uniform vector over `{-1, 0, 1}` with exactly `weight` nonzero entries. The time does
/// not depend on their places or signs.
///
/// The length is a power of two. Each entry uses one word `w`: `w >> 3` is its sorting key, bit 2
/// its sign (1 for negative). Entries start nonzero in the first `weight` places and are sorted by
/// key with a bitonic network. Equal keys would favour some arrangements. If any two of the `n`
/// keys are equal, which has probability below `n^2 / 2^62` (`2^-30` at `n = 2^16`), all are
/// discarded and drawn again. The time reveals such a repetition but nothing about the returned
/// vector, whose distribution is exactly uniform.
///
/// # Errors
/// [`Error::WeightOutOfRange`] if the length is not a power of two or is below `weight`; `out` and
/// `stream` are then unchanged.
pub fn fixed_weight(stream: &mut Stream, weight: usize, out: &mut [i8]) -> Result<()> {
    fixed_weight_from(|words| stream.fill(words), weight, out)
}

fn fixed_weight_from(
    mut fill: impl FnMut(&mut [u64]),
    weight: usize,
    out: &mut [i8],
) -> Result<()> {
    let len = out.len();
    if !len.is_power_of_two() || weight > len {
        return Err(Error::WeightOutOfRange { weight, len });
    }
    // Layout of a word, from the top: a zero bit, 61 bits of key, the sign, and whether it is
    // nonzero.
    let mut words = Zeroizing::new(vec![0; len]);
    loop {
        fill(&mut words);
        for (i, word) in words.iter_mut().enumerate() {
            *word = (*word >> 1 & !1) | u64::from(i < weight);
        }
        bitonic_sort(&mut words);
        if !has_equal_neighbours(&words) {
            break;
        }
    }
    for (value, &word) in zip(out, words.iter()) {
        let nonzero = (word & 1) as i8;
        let sign = (word >> 1 & 1) as i8;
        *value = nonzero - 2 * (nonzero & sign);
    }
    Ok(())
}

/// Returns `true` if two adjacent keys, the bits from 2 upwards, are equal. Branch-free except for
/// the result.
fn has_equal_neighbours(words: &[u64]) -> bool {
    // Only zero wraps to a word with the top bit set: a comparison without a branch.
    let equal = |(a, b): (&u64, &u64)| ((a ^ b) >> 2).wrapping_sub(1) >> 63;
    zip(words, words.iter().skip(1)).map(equal).fold(0, |any, equal| any | equal) == 1
}

/// Sorts words below `2^63` in ascending order. The length is a power of two.
///
/// Batcher's bitonic network with every comparator ascending: two sorted runs are merged by
/// comparing them first against each other's mirror image, then at halving distances. The pairs
/// compared depend on the length alone.
fn bitonic_sort(words: &mut [u64]) {
    let mut run = 1;
    while run < words.len() {
        for pair in words.chunks_exact_mut(2 * run) {
            let (low, high) = pair.split_at_mut(run);
            zip(low, high.iter_mut().rev()).for_each(|(a, b)| compare_exchange(a, b));
        }
        let mut distance = run / 2;
        while distance > 0 {
            for block in words.chunks_exact_mut(2 * distance) {
                let (low, high) = block.split_at_mut(distance);
                zip(low, high).for_each(|(a, b)| compare_exchange(a, b));
            }
            distance /= 2;
        }
        run *= 2;
    }
}

/// Puts the smaller of two words below `2^63` in `a`. Branch-free: the sign of the difference,
/// which cannot overflow, is the mask of the exchange.
#[inline(always)]
fn compare_exchange(a: &mut u64, b: &mut u64) {
    let exchange = (b.wrapping_sub(*a).cast_signed() >> 63).cast_unsigned();
    let difference = (*a ^ *b) & exchange;
    *a ^= difference;
    *b ^= difference;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Seed;
    use proptest::prelude::*;

    pub(super) const DRAWS: usize = 1 << 20;

    pub(super) fn stream(label: &str) -> Stream {
        Stream::new(&Seed::from_bytes(core::array::from_fn(|i| i as u8)), label, 7)
    }

    fn draw(label: &str, sampler: fn(&mut Stream, &mut [i8])) -> Vec<i8> {
        let mut values = vec![0; DRAWS];
        sampler(&mut stream(label), &mut values);
        values
    }

    fn mean_and_variance(values: &[i8]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
        (mean, variance)
    }

    /// Counts the `values` in each of the cells `-reach ..= reach`.
    fn histogram(values: &[i8], reach: i8) -> Vec<u64> {
        let mut counts = vec![0; 2 * reach as usize + 1];
        for x in values {
            counts[(x + reach) as usize] += 1;
        }
        counts
    }

    /// Pearson's statistic, divided by the value it exceeds with probability `10^-6` under `law`
    /// (Wilson and Hilferty's approximation). A sample of that distribution has a result below 1.
    ///
    /// Neighbouring cells are pooled until each expects at least 10.
    pub(super) fn chi_square(counts: &[u64], law: &[f64]) -> f64 {
        assert_eq!(counts.len(), law.len());
        let draws = counts.iter().sum::<u64>() as f64;
        let mut pooled = vec![(0.0, 0.0)];
        for (&count, &probability) in zip(counts, law) {
            let last = pooled.last_mut().unwrap();
            *last = (last.0 + count as f64, last.1 + draws * probability);
            if last.1 >= 10.0 {
                pooled.push((0.0, 0.0));
            }
        }
        let rest = pooled.pop().unwrap();
        let last = pooled.last_mut().unwrap();
        *last = (last.0 + rest.0, last.1 + rest.1);

        let statistic: f64 = pooled.iter().map(|(seen, due)| (seen - due).powi(2) / due).sum();
        let freedom = (pooled.len() - 1) as f64;
        let spread = 2.0 / (9.0 * freedom);
        statistic / (freedom * (1.0 - spread + 4.753 * spread.sqrt()).powi(3))
    }

    fn chi_square_uniform(counts: &[u64]) -> f64 {
        chi_square(counts, &vec![1.0 / counts.len() as f64; counts.len()])
    }

    /// Distribution of the difference of two sums of `pairs` coins, on `-22 ..= 22`.
    fn centred_binomial(pairs: u64) -> Vec<f64> {
        let choose = |k: u64| (0..k).fold(1.0, |c, i| c * (2 * pairs - i) as f64 / (i + 1) as f64);
        (0..=44)
            .map(|i| (i + pairs).checked_sub(22).filter(|&k| k <= 2 * pairs))
            .map(|k| k.map_or(0.0, choose) * 0.25_f64.powi(pairs as i32))
            .collect()
    }

    pub(super) fn digest(bytes: impl IntoIterator<Item = u8>) -> String {
        blake3::hash(&bytes.into_iter().collect::<Vec<u8>>()).to_hex().to_string()
    }

    #[test]
    fn known_answers() {
        let mut values = vec![0; 4096];
        uniform((1 << 50) - 27, &mut stream("known answers"), &mut values);
        assert_eq!(
            digest(values.iter().flat_map(|x| x.to_le_bytes())),
            "c3196e6946fde07729fdeaaab54995139bd783a122682f4396d5503636987114"
        );
        uniform((1 << 50) + 5, &mut stream("known answers"), &mut values);
        assert_eq!(
            digest(values.iter().flat_map(|x| x.to_le_bytes())),
            "e364c0c3c228d741233f4a8d0441f5050d2438f4ff9fa11d547b8cf555cf460f"
        );

        let mut values = vec![0; 4096];
        ternary(&mut stream("known answers"), &mut values);
        assert_eq!(
            digest(values.iter().map(|x| x.cast_unsigned())),
            "0cb2f8279c3881b4a30e47d220ac44c51e581399729c06ab36f232291a0209a6"
        );
        cbd21(&mut stream("known answers"), &mut values);
        assert_eq!(
            digest(values.iter().map(|x| x.cast_unsigned())),
            "1e3c059ece2d11398685c64ef559f85e54dc94933fc42b2ac0bbdc2f5dae9553"
        );
        fixed_weight(&mut stream("known answers"), 192, &mut values).unwrap();
        assert_eq!(
            digest(values.iter().map(|x| x.cast_unsigned())),
            "370f8f6343251e838c88d4e6e5f4bace1e40158b507c3c935ce06e09f97e6500"
        );
    }

    #[test]
    fn centred_binomial_follows_its_law() {
        let values = draw("cbd21", cbd21);
        let (mean, variance) = mean_and_variance(&values);
        assert!(mean.abs() <= 0.02, "mean {mean}");
        assert!((variance / 10.5 - 1.0).abs() <= 0.005, "variance {variance}");
        assert!(values.iter().all(|x| x.abs() <= 21));

        assert!((centred_binomial(21).iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let counts = histogram(&values, 22);
        let fit = chi_square(&counts, &centred_binomial(21));
        assert!(fit < 1.0, "{fit}");
        for pairs in [20, 22] {
            let fit = chi_square(&counts, &centred_binomial(pairs));
            assert!(fit > 4.0, "{pairs} pairs cannot be told from 21: {fit}");
        }
    }

    #[test]
    fn centred_binomial_of_extreme_words() {
        let low = (1 << 21) - 1;
        assert_eq!(cbd21_of(low), 21);
        assert_eq!(cbd21_of(low << 21), -21);
        assert_eq!(cbd21_of(u64::MAX), 0);
        assert_eq!(cbd21_of(u64::MAX << 42), 0);
    }

    #[test]
    fn ternary_is_uniform() {
        let counts = histogram(&draw("ternary", ternary), 1);
        let fit = chi_square_uniform(&counts);
        assert!(fit < 1.0, "{counts:?}: {fit}");
        let tilted = chi_square(&counts, &[0.33, 0.34, 0.33]);
        assert!(tilted > 4.0, "a tilt of 1% cannot be seen: {tilted}");
    }

    #[test]
    fn ternary_of_boundary_words() {
        let third = u64::MAX / 3;
        assert_eq!([0, third].map(ternary_of), [-1; 2]);
        assert_eq!([third + 1, 2 * third].map(ternary_of), [0; 2]);
        assert_eq!([2 * third + 1, u64::MAX].map(ternary_of), [1; 2]);
    }

    #[test]
    fn neighbouring_values_are_uncorrelated() {
        for (label, sampler) in [("ternary", ternary as fn(&mut _, &mut _)), ("cbd21", cbd21)] {
            let values: Vec<i32> = draw(label, sampler).into_iter().map(i32::from).collect();
            let power: i32 = values.iter().map(|x| x * x).sum();
            for lag in (1..=64).chain([128, 256, 512, 1024]) {
                let product: i32 = zip(&values, &values[lag..]).map(|(x, y)| x * y).sum();
                let correlation = f64::from(product) / f64::from(power);
                assert!(correlation.abs() < 5.0 / (DRAWS as f64).sqrt(), "{label}, lag {lag}");
            }
        }
    }

    #[test]
    fn uniform_fills_all_bins() {
        const BINS: usize = 1 << 10;
        for q in [(1 << 50) - 27, (1 << 50) + 5, 3 << 59] {
            let mut values = vec![0; DRAWS];
            uniform(q, &mut stream("uniform"), &mut values);
            let mut top = [0; BINS];
            let mut bottom = [0; BINS];
            for x in values {
                assert!(x < q);
                top[(u128::from(x) * BINS as u128 / u128::from(q)) as usize] += 1;
                bottom[x as usize % BINS] += 1;
            }
            for (end, counts) in [("top", top), ("bottom", bottom)] {
                let fit = chi_square_uniform(&counts);
                assert!(fit < 1.0, "{end} bits modulo {q}: {fit}");
            }
        }
    }

    #[test]
    fn uniform_reaches_every_residue_of_small_moduli() {
        for q in [1, 2, 3, 4, 17, 64] {
            let mut counts = vec![0; q];
            let mut values = vec![0; 1 << 12];
            uniform(q as u64, &mut stream("small"), &mut values);
            values.iter().for_each(|&x| counts[x as usize] += 1);
            assert!(q == 1 || chi_square_uniform(&counts) < 1.0, "{counts:?}");
        }
    }

    proptest! {
        #[test]
        fn uniform_is_the_filtered_word_sequence(
            q in (0_u32..62, any::<u64>()).prop_map(|(bits, x)| 1 + (x & ((1 << bits) - 1))),
            sizes in prop::collection::vec(0_usize..1500, 1..5),
        ) {
            let q = q.min((1 << 62) - 1);
            let mut split = stream("filter");
            let mut words = stream("filter");
            for size in sizes {
                let mut values = vec![0; size];
                uniform(q, &mut split, &mut values);
                for x in values {
                    let expected = loop {
                        let word = words.next_u64() % q.next_power_of_two();
                        if word < q {
                            break word;
                        }
                    };
                    prop_assert_eq!(x, expected);
                }
            }
            prop_assert_eq!(split.next_u64(), words.next_u64(), "a word was read beyond the last");
        }

        #[test]
        fn samplers_take_one_word_per_value(first in 0_usize..1500, second in 0_usize..1500) {
            for (sampler, value_of) in
                [(ternary as fn(&mut _, &mut _), ternary_of as fn(u64) -> i8), (cbd21, cbd21_of)]
            {
                let mut split = stream("words");
                let mut words = stream("words");
                for size in [first, second] {
                    let mut values = vec![0; size];
                    sampler(&mut split, &mut values);
                    let expected: Vec<_> =
                        values.iter().map(|_| value_of(words.next_u64())).collect();
                    prop_assert_eq!(values, expected);
                }
            }
        }

        #[test]
        fn network_sorts(log_len in 0_u32..11, seed in any::<u64>()) {
            let seed = Seed::from_bytes([0; 32]).derive("network", seed);
            let mut words = vec![0; 1 << log_len];
            Stream::new(&seed, "", 0).fill(&mut words);
            words.iter_mut().for_each(|word| *word >>= 1);
            let mut expected = words.clone();
            expected.sort_unstable();
            bitonic_sort(&mut words);
            prop_assert_eq!(words, expected);
        }
    }

    #[test]
    #[should_panic(expected = "modulus 0 is out of range")]
    fn uniform_refuses_modulus_zero() {
        uniform(0, &mut stream(""), &mut []);
    }

    /// A network that sorts every sequence of zeros and ones sorts everything (Knuth, TAOCP 3,
    /// 5.3.4, theorem Z).
    #[test]
    fn network_sorts_all_zero_one_sequences() {
        for len in [1, 2, 4, 8, 16] {
            for pattern in 0..1_u64 << len {
                for unit in [1, (1 << 63) - 1] {
                    let mut words: Vec<u64> = (0..len).map(|i| (pattern >> i & 1) * unit).collect();
                    bitonic_sort(&mut words);
                    assert!(words.is_sorted());
                    let ones = words.iter().filter(|&&word| word == unit).count();
                    assert_eq!(ones, pattern.count_ones() as usize);
                }
            }
        }
    }

    #[test]
    fn fixed_weight_is_exact() {
        let mut stream = stream("exact");
        for log_len in [0, 1, 4, 10, 13] {
            let mut values = vec![7; 1 << log_len];
            for weight in [0, 1, values.len() / 3, values.len() - 1, values.len()] {
                fixed_weight(&mut stream, weight, &mut values).unwrap();
                assert_eq!(values.iter().filter(|x| x.abs() == 1).count(), weight);
                assert_eq!(values.iter().filter(|&&x| x == 0).count(), values.len() - weight);
            }
        }
    }

    #[test]
    fn fixed_weight_favours_no_vector() {
        const LEN: usize = 8;
        const WEIGHT: usize = 3;
        let mut counts = std::collections::BTreeMap::new();
        let mut stream = stream("vectors");
        for _ in 0..1 << 17 {
            let mut values = [0; LEN];
            fixed_weight(&mut stream, WEIGHT, &mut values).unwrap();
            *counts.entry(values).or_insert(0) += 1;
        }
        let counts: Vec<u64> = counts.into_values().collect();
        assert_eq!(counts.len(), 56 * 8, "C(8, 3) sets of positions, 2^3 signs");
        let fit = chi_square_uniform(&counts);
        assert!(fit < 1.0, "{fit}");
    }

    #[test]
    fn fixed_weight_favours_no_position_or_sign() {
        const LEN: usize = 1024;
        const WEIGHT: usize = 192;
        const VECTORS: usize = DRAWS / LEN;
        let mut stream = stream("positions");
        let mut positions = [0; LEN];
        let mut signs = [0; 2];
        for _ in 0..VECTORS {
            let mut values = [0; LEN];
            fixed_weight(&mut stream, WEIGHT, &mut values).unwrap();
            for (i, x) in values.into_iter().enumerate() {
                positions[i] += u64::from(x != 0);
                signs[usize::from(x < 0)] += u64::from(x != 0);
            }
        }
        // Drawing positions without replacement narrows the counts by 1 - WEIGHT / LEN.
        let fit = chi_square_uniform(&positions) / (1.0 - WEIGHT as f64 / LEN as f64);
        assert!(fit < 1.0, "{fit}");
        assert!(chi_square_uniform(&signs) < 1.0, "{signs:?}");
    }

    #[test]
    fn fixed_weight_draws_anew_on_equal_keys() {
        let mut draws = 0;
        let mut values = [0; 4];
        let source = |words: &mut [u64]| {
            draws += 1;
            // The low three bits are not part of the key.
            let low = [[0, 1, 2, 3], [0, 8, 16, 23], [32, 12, 0, 24]][draws - 1];
            words.copy_from_slice(&low);
        };
        fixed_weight_from(source, 2, &mut values).unwrap();
        assert_eq!(draws, 3);
        assert_eq!(values, [0, -1, 0, 1]);
    }

    #[test]
    fn fixed_weight_refuses_impossible_requests() {
        for (weight, len) in [(0, 0), (1, 3), (5, 4)] {
            let refused = fixed_weight(&mut stream("refused"), weight, &mut vec![0; len]);
            assert_eq!(refused, Err(Error::WeightOutOfRange { weight, len }));
        }
    }
}
