use crate::{Error, Result};
use sudare_arith::{
    prng::{Seed, Stream},
    sample,
};

/// Noise reaches so many standard deviations, with a probability of `2^-50` beyond.
const NOISE_REACH: f64 = 8.0;

/// Makes decrypted values fit to be seen by others than the owner of the key.
///
/// A decrypted value is the result plus an error that depends on the secret key, and who can
/// tell the error from the result learns about the key (Li and Micciancio, ePrint 2020/1533).
/// Gaussian noise far above the error hides it: with a standard deviation of
/// `sqrt(12 r) 2^(s/2)` times the error's Euclidean norm over all values of a release, `r`
/// releases under one key leave an attacker an advantage of `s` bits of statistical security
/// (Li, Micciancio, Schultz and Sorrell, ePrint 2022/816; the same constant as OpenFHE's
/// `NOISE_FLOODING_DECRYPT`). The values are then rounded, so that no digit is shown that the
/// noise has made meaningless.
///
/// The bound of the error is the caller's promise. It must hold for the circuit, whatever the
/// inputs, and be known before the result is: an error that was measured, or estimated from
/// the decrypted values, must not be used.
///
/// ```
/// # fn main() -> sudare::Result<()> {
/// use sudare::ckks::Release;
///
/// // Two values whose errors are below 2^-45, shown to 12 bits after the point.
/// let shown = Release::default().values(&[0.731_058, -2.25], (-45f64).exp2(), 12)?;
/// assert!((shown[0] - 0.731_058).abs() < (-12f64).exp2());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Release {
    /// Bits of statistical security, 30 to 128.
    pub statistical_bits: u32,
    /// Results that are shown under one key in all its life, at least 1.
    pub releases: u64,
}

impl Default for Release {
    /// 40 bits for 1024 releases, which cost 26.8 bits of precision and half the `log2` of the
    /// number of values.
    fn default() -> Self {
        Self { statistical_bits: 40, releases: 1024 }
    }
}

impl Release {
    /// Most bits after the binary point that are looked for: `f64` has not the digits for the noise
    /// of more.
    pub const MOST_BITS: u32 = 30;

    /// Standard deviation of the noise for `count` values with errors of at most `error` each,
    /// in absolute value.
    #[must_use]
    pub fn deviation(&self, count: usize, error: f64) -> f64 {
        let norm = (count as f64).sqrt() * error;
        (12.0 * self.releases as f64).sqrt()
            * (f64::from(self.statistical_bits) / 2.0).exp2()
            * norm
    }

    /// The largest error that each of `count` values may have to be shown with `bits` bits
    /// after the binary point.
    #[must_use]
    pub fn largest_error(&self, count: usize, bits: u32) -> f64 {
        (-f64::from(bits) - 1.0).exp2() / (NOISE_REACH * self.deviation(count, 1.0))
    }

    /// The most bits after the binary point, at most [`Release::MOST_BITS`], with which `count` values
    /// with errors of at most `error` each can be shown; none if not even one.
    #[must_use]
    pub fn most_bits(&self, count: usize, error: f64) -> Option<u32> {
        (1..=Self::MOST_BITS).rev().find(|&bits| error <= self.largest_error(count, bits))
    }

    /// `values` with fresh noise, rounded to multiples of `2^-bits`: within `2^-bits` of what
    /// they were but for a probability of `2^-50` each. `error` bounds the error of each in
    /// absolute value.
    ///
    /// # Errors
    /// [`Error::TooLittlePrecision`] if the noise would reach the last bit;
    /// [`Error::NotFinite`]; [`Error::InvalidSpec`] for security or a number of releases out
    /// of range; [`Error::Arith`] if the system gives no randomness.
    pub fn values(&self, values: &[f64], error: f64, bits: u32) -> Result<Vec<f64>> {
        self.values_with(values, error, bits, &Seed::random()?)
    }

    fn values_with(&self, values: &[f64], error: f64, bits: u32, seed: &Seed) -> Result<Vec<f64>> {
        let out_of_range =
            |field, problem: &str| Error::InvalidSpec { field, problem: problem.into() };
        if !(30..=128).contains(&self.statistical_bits) {
            return Err(out_of_range("statistical_bits", "take 30 to 128 bits"));
        }
        if self.releases == 0 {
            return Err(out_of_range("releases", "there is at least one"));
        }
        let needed = self.largest_error(values.len(), bits);
        // Also if the bound is not a number.
        if !(0.0 < error && error <= needed) {
            return Err(Error::TooLittlePrecision { bits, found: error, needed });
        }
        if let Some((index, value)) = values.iter().enumerate().find(|(_, x)| !x.is_finite()) {
            return Err(Error::NotFinite { index, value: value.to_string() });
        }
        let mut noise = vec![0.0; values.len()];
        let mut stream = Stream::new(seed, "release", 0);
        sample::gaussian(&mut stream, self.deviation(values.len(), error), &mut noise);
        let unit = (-f64::from(bits)).exp2();
        let round = |(value, noise): (&f64, f64)| ((value + noise) / unit).round() * unit;
        Ok(values.iter().zip(noise).map(round).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_hiding_are_those_of_the_literature() {
        // Bits lost for statistical security of 30, 40, 64 and 128 bits, and 1, 2^10 and 2^20
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
        // Four values have twice the norm of one.
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
            let shown = release.values(&values, error, bits).unwrap();
            let unit = (-f64::from(bits)).exp2();
            for (found, value) in shown.iter().zip(&values) {
                assert!((found - value).abs() <= unit, "{bits}: {found} for {value}");
                assert_eq!((found / unit).fract(), 0.0);
            }
            assert_eq!(
                release.values(&values, 2.0 * error, bits).unwrap_err(),
                Error::TooLittlePrecision { bits, found: 2.0 * error, needed: error }
            );
        }
    }

    /// Values on the edge between two multiples are rounded either way by the noise alone, and
    /// one error more or less does not show.
    #[test]
    fn noise_hides_an_error_and_no_more() {
        let release = Release { statistical_bits: 30, releases: 1 };
        let (count, bits) = (1 << 16, 10);
        let unit = (-10f64).exp2();
        let error = release.largest_error(count, bits);
        let deviation = release.deviation(count, error);
        let above = |shift: f64| {
            let seed = Seed::from_bytes([7; 32]);
            let values = vec![0.5 * unit + shift; count];
            let shown = release.values_with(&values, error, bits, &seed).unwrap();
            shown.iter().filter(|&&x| x > 0.0).count() as f64 / count as f64
        };
        // Five deviations of a fair coin; the share below 1 deviation of a normal law.
        let tolerance = 2.5 / (count as f64).sqrt();
        assert!((above(0.0) - 0.5).abs() < tolerance);
        assert!((above(error) - 0.5).abs() < tolerance);
        assert!((above(deviation) - 0.8413).abs() < tolerance);
    }

    #[test]
    fn bad_input() {
        let release = Release::default();
        for error in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = release.values(&[1.0], error, 10).unwrap_err();
            assert!(matches!(refused, Error::TooLittlePrecision { .. }), "{refused}");
        }
        let refused = release.values(&[1.0, f64::NAN], 1e-30, 10).unwrap_err();
        assert_eq!(refused, Error::NotFinite { index: 1, value: "NaN".into() });
        for wrong in
            [Release { statistical_bits: 20, ..release }, Release { releases: 0, ..release }]
        {
            assert!(matches!(wrong.values(&[1.0], 1e-30, 4), Err(Error::InvalidSpec { .. })));
        }
    }
}
