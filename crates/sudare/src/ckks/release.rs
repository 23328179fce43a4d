use crate::{Error, Result};
use sudare_arith::{
    prng::{Seed, Stream},
    real, sample,
};
use zeroize::Zeroizing;

/// Standard deviations of noise on either side of the last digit shown. The noise exceeds them with
/// probability `2^-49`.
const NOISE_REACH: f64 = 8.0;

/// Bits of the noise below the last digit shown. The standard deviation of the noise is `2^-4` of
/// that digit.
const GRID_BITS: u32 = sample::GAUSSIAN_LOG2_DEVIATION + 4;

/// `log2` of the maximum number of values that all releases of a key may show. The distance of the
/// noise from its distribution is stated for this number.
const LOG2_MOST_VALUES: u32 = 40;

/// Makes decrypted values safe to show to anyone but the owner of the key.
///
/// A decrypted value is the result plus an error that depends on the secret key. An observer who
/// can separate the error from the result learns about the key (Li and Micciancio, ePrint
/// 2020/1533). Gaussian noise far above the error hides it. Let its standard deviation be at least
/// `sqrt(12 r) 2^(s/2)` times the error's Euclidean norm over all values of a release. Then `r`
/// releases under one key have `s` bits of statistical security (Li, Micciancio, Schultz and
/// Sorrell, ePrint 2022/816; the same constant as OpenFHE's `NOISE_FLOODING_DECRYPT`). The values
/// are then rounded to hide the digits that the noise made meaningless.
///
/// The noise has the maximum size for the requested digits: its standard deviation is a sixteenth
/// of the last digit. It is drawn and added as integers in units of `2^-67` of that digit, in
/// constant time. The distribution of the integers is within `2^-75` of the ideal one over all
/// releases of a key.
///
/// The caller guarantees the bound of the error. It must hold for the circuit with any inputs, and
/// must be known before the result. Do not use an error that was measured or estimated from the
/// decrypted values.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use sudare::ckks::Release;
/// use sudare_arith::prng::Seed;
///
/// // Two values whose errors are below 2^-45, shown to 12 bits after the point.
/// let noise = Seed::random()?;
/// let shown = Release::default().values(&[0.731_058, -2.25], (-45f64).exp2(), 12, &noise)?;
/// assert!((shown[0] - 0.731_058).abs() < (-12f64).exp2());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Release {
    /// Bits of statistical security, 30 to [`Release::MAX_STATISTICAL_BITS`].
    pub statistical_bits: u32,
    /// Number of results shown under one key in its lifetime, at least 1. The product with the
    /// values per result must not exceed `2^40`.
    pub releases: u64,
}

impl Default for Release {
    /// 40 bits for 1024 releases, which cost 26.8 bits of precision plus half the `log2` of the
    /// number of values.
    fn default() -> Self {
        Self { statistical_bits: 40, releases: 1024 }
    }
}

impl Release {
    /// Maximum bits after the binary point: `f64` lacks the digits for the noise of more.
    pub const MAX_BITS: u32 = 30;

    /// Maximum bits of statistical security, eleven fewer than the noise's distance from its ideal
    /// distribution allows.
    pub const MAX_STATISTICAL_BITS: u32 = 64;

    /// Returns the minimum standard deviation of noise that hides errors of at most `error` each,
    /// in absolute value, of `count` values.
    #[must_use]
    pub fn deviation(&self, count: usize, error: f64) -> f64 {
        // Every platform rounds this power and this root alike.
        // Callers need not have passed `check`: without the bound a huge number would turn
        // negative.
        let hidden = real::powi(2.0, self.statistical_bits.min(1000).cast_signed());
        (12.0 * self.releases as f64 * hidden).sqrt() * (count as f64).sqrt() * error
    }

    /// Returns the largest error that each of `count` values may have if it is shown with `bits`
    /// bits after the binary point.
    #[must_use]
    pub fn largest_error(&self, count: usize, bits: u32) -> f64 {
        unit(bits) / (2.0 * NOISE_REACH * self.deviation(count, 1.0))
    }

    /// Returns the maximum number of bits after the binary point, up to [`Release::MAX_BITS`], for
    /// `count` values with errors of at most `error` each. Returns `None` if not even one bit can
    /// be shown.
    #[must_use]
    pub fn most_bits(&self, count: usize, error: f64) -> Option<u32> {
        (1..=Self::MAX_BITS).rev().find(|&bits| error <= self.largest_error(count, bits))
    }

    /// Adds the noise of a seed to `values` and rounds them to multiples of `2^-bits`. Each changes
    /// by at most `2^-bits` except with probability `2^-49`. `error` bounds the error of each in
    /// absolute value.
    ///
    /// Use one seed per release: never show different values with the noise of the same seed.
    /// [`Decryptor::release_seed`](super::Decryptor::release_seed) derives one for each.
    ///
    /// # Errors
    /// [`Error::TooLittlePrecision`] if the noise would reach the last bit; [`Error::NotFinite`];
    /// [`Error::ValueTooLarge`] for values too large for their last bit in `f64`;
    /// [`Error::InvalidSpec`] for security, releases or bits out of range.
    pub fn values(&self, values: &[f64], error: f64, bits: u32, noise: &Seed) -> Result<Vec<f64>> {
        self.check(values.len(), bits)?;
        let needed = self.largest_error(values.len(), bits);
        // The test also rejects NaN.
        if !(0.0 < error && error <= needed) {
            return Err(Error::TooLittlePrecision { bits, found: error, needed });
        }
        let fixed = values.iter().enumerate().map(|(index, &value)| fixed(index, value, bits));
        // Exact values and the noise would each reveal the error, so both are wiped.
        let mut fixed = Zeroizing::new(fixed.collect::<Result<Vec<i128>>>()?);
        let mut noise = Stream::new(noise, "release", 0);
        let mut of_values = Zeroizing::new(vec![0; values.len()]);
        sample::gaussian(&mut noise, &mut of_values);
        fixed.iter_mut().zip(of_values.iter()).for_each(|(value, noise)| *value += noise);
        // The shift alone would round down.
        let half = 1 << (GRID_BITS - 1);
        Ok(fixed.iter().map(|x| ((x + half) >> GRID_BITS) as i64 as f64 * unit(bits)).collect())
    }

    fn check(&self, count: usize, bits: u32) -> Result<()> {
        let out_of_range = |field, problem: String| Err(Error::InvalidSpec { field, problem });
        let most = Self::MAX_STATISTICAL_BITS;
        if !(30..=most).contains(&self.statistical_bits) {
            return out_of_range("statistical_bits", format!("take 30 to {most} bits"));
        }
        let values = u128::from(self.releases) * count as u128;
        if self.releases == 0 || values > 1 << LOG2_MOST_VALUES {
            let problem = format!(
                "there is at least one, and all releases of a key show at most \
                 2^{LOG2_MOST_VALUES} values"
            );
            return out_of_range("releases", problem);
        }
        if bits > Self::MAX_BITS {
            return out_of_range("bits", format!("show at most {}", Self::MAX_BITS));
        }
        Ok(())
    }
}

/// Value of the last of `bits` bits after the point.
fn unit(bits: u32) -> f64 {
    real::powi(2.0, -bits.cast_signed())
}

/// Converts a value to units of `2^-67` of its last bit, with an error below one unit, without
/// branches on a value in range.
fn fixed(index: usize, value: f64, bits: u32) -> Result<i128> {
    /// Bits of one part of the digits after the point.
    // Two parts have all digits of the grid and one bit more.
    const PART_BITS: u32 = 34;
    if !value.is_finite() {
        return Err(Error::NotFinite { index, value: value.to_string() });
    }
    // Exact, because the unit is a power of two.
    let scaled = value / unit(bits);
    let available_bits = f64::from(f64::MANTISSA_DIGITS);
    if scaled.abs() >= real::powi(2.0, f64::MANTISSA_DIGITS.cast_signed()) {
        return Err(Error::ValueTooLarge {
            index,
            needed_bits: real::log2(scaled.abs()),
            available_bits,
        });
    }
    // Each part fits a word, and the remainder is exact.
    let mut rest = scaled;
    let [whole, upper, lower] = core::array::from_fn(|_| {
        let part = rest as i64;
        rest = (rest - part as f64) * (1u64 << PART_BITS) as f64;
        i128::from(part)
    });
    let after = (upper << PART_BITS) + lower;
    Ok((whole << GRID_BITS) + (after >> (2 * PART_BITS - GRID_BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(n: u8) -> Seed {
        Seed::from_bytes([n; 32])
    }

    #[test]
    fn costs_of_hiding_agree_with_the_literature() {
        // Bits lost for statistical security of 30, 40, 64 and 128 bits, and for 1, 2^10 and 2^20
        // releases: log2(sqrt(12 r) 2^(s/2)).
        let lost = |statistical_bits, releases| {
            Release { statistical_bits, releases }.deviation(1, 1.0).log2()
        };
        for (bits, expected) in [
            (30, [16.8, 21.8, 26.8]),
            (40, [21.8, 26.8, 31.8]),
            (64, [33.8, 38.8, 43.8]),
            (128, [65.8, 70.8, 75.8]),
        ] {
            for (log2_releases, expected) in [0, 10, 20].into_iter().zip(expected) {
                assert!((lost(bits, 1 << log2_releases) - expected).abs() < 0.05);
            }
        }
        // Four values have twice the norm of one value.
        let release = Release::default();
        assert_eq!(release.deviation(4, 1.0), 2.0 * release.deviation(1, 1.0));
    }

    #[test]
    fn values_are_right_to_their_last_bit() {
        let values: Vec<f64> = (0..1000).map(|i| (f64::from(i) - 500.0) / 7.0).collect();
        let release = Release::default();
        assert_eq!(release.most_bits(1, f64::NAN), None);
        for bits in [4, 10, 16] {
            let error = release.largest_error(values.len(), bits);
            assert_eq!(release.most_bits(values.len(), error), Some(bits));
            assert_eq!(release.most_bits(values.len(), 1.01 * error), Some(bits - 1));
            let shown = release.values(&values, error, bits, &seed(1)).unwrap();
            let unit = (-f64::from(bits)).exp2();
            for (found, value) in shown.iter().zip(&values) {
                assert!((found - value).abs() <= unit, "{bits}: {found} for {value}");
                assert_eq!((found / unit).fract(), 0.0);
            }
            assert_eq!(
                release.values(&values, 2.0 * error, bits, &seed(1)).unwrap_err(),
                Error::TooLittlePrecision { bits, found: 2.0 * error, needed: error }
            );
        }
    }

    /// The noise alone decides how values on the edge between two multiples are rounded. One error
    /// more or less does not show.
    #[test]
    fn noise_hides_an_error_and_no_more() {
        let release = Release { statistical_bits: 30, releases: 1 };
        let count = 1 << 16;
        let bits = 10;
        let unit = (-10f64).exp2();
        let error = release.largest_error(count, bits);
        let deviation = release.deviation(count, error);
        let above = |shift: f64| {
            let values = vec![0.5 * unit + shift; count];
            let shown = release.values(&values, error, bits, &seed(7)).unwrap();
            shown.iter().filter(|&&x| x > 0.0).count() as f64 / count as f64
        };
        // Five deviations of a fair coin, and the share of a normal distribution below 1 deviation.
        let tolerance = 2.5 / (count as f64).sqrt();
        assert!((above(0.0) - 0.5).abs() < tolerance);
        assert!((above(error) - 0.5).abs() < tolerance);
        assert!((above(deviation) - 0.8413).abs() < tolerance);
    }

    #[test]
    fn values_are_exact_to_the_grid() {
        let grid = 2f64.powi(GRID_BITS.cast_signed());
        for value in [0.0, 1.0, -1.0, 0.731_058, -2.25, 1e-30, -3e-9, 131_071.999_999_9, -1e12] {
            let found = fixed(0, value, 10).unwrap();
            // Exact products of a mantissa and a power of two.
            let scaled = value * 1024.0;
            let whole = (scaled.trunc() as i128) << GRID_BITS;
            let rest = (scaled.fract() * grid) as i128;
            assert!((found - whole - rest).abs() <= 1, "{value}: {found}");
        }
    }

    #[test]
    fn one_seed_gives_one_result() {
        let release = Release::default();
        let error = release.largest_error(100, 10);
        let values = vec![1.0 / 2048.0; 100];
        let shown = |n| release.values(&values, error, 10, &seed(n)).unwrap();
        assert_eq!(shown(1), shown(1));
        assert_ne!(shown(1), shown(2));
        // A result that is released again, also by a later version, must get the same noise.
        let unit = (-10f64).exp2();
        let steps: Vec<f64> = shown(1).iter().take(12).map(|x| x / unit).collect();
        assert_eq!(steps, [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn bad_input() {
        let release = Release::default();
        let refused = |release: Release, values: &[f64], error, bits| {
            release.values(values, error, bits, &seed(1)).unwrap_err()
        };
        for error in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = refused(release, &[1.0], error, 10);
            assert!(matches!(refused, Error::TooLittlePrecision { .. }), "{refused}");
        }
        let found = refused(release, &[1.0, f64::NAN], 1e-30, 10);
        assert_eq!(found, Error::NotFinite { index: 1, value: "NaN".into() });
        let found = refused(release, &[1.0, -2f64.powi(43)], 1e-30, 10);
        assert!(matches!(found, Error::ValueTooLarge { index: 1, .. }), "{found}");
        assert!(release.values(&[1.0, 0.9 * 2f64.powi(43)], 1e-30, 10, &seed(1)).is_ok());
        let few = 20;
        let many = Release::MAX_STATISTICAL_BITS + 1;
        for wrong in [
            Release { statistical_bits: few, ..release },
            Release { statistical_bits: many, ..release },
            Release { releases: 0, ..release },
            Release { releases: (1 << 40) + 1, ..release },
        ] {
            let found = refused(wrong, &[1.0], 1e-30, 4);
            assert!(matches!(found, Error::InvalidSpec { .. }), "{found}");
        }
        let found = refused(release, &[1.0], 1e-30, Release::MAX_BITS + 1);
        assert!(matches!(found, Error::InvalidSpec { field: "bits", .. }), "{found}");
        let half = Release { releases: 1 << 39, ..release };
        let found = refused(half, &[1.0; 3], 1e-30, 4);
        assert!(matches!(found, Error::InvalidSpec { field: "releases", .. }), "{found}");
        // The maximum allowed.
        let most = Release { statistical_bits: Release::MAX_STATISTICAL_BITS, releases: 1 << 39 };
        assert!(most.values(&[1.0; 2], 1e-30, Release::MAX_BITS, &seed(1)).is_ok());
    }
}
