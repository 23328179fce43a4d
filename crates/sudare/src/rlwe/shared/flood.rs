use crate::{Error, Result};
use sudare_arith::{
    prng::{Seed, Stream},
    real, sample,
};
use zeroize::Zeroizing;

/// Noise of one share of an opening: discrete Gaussian with a deviation of a power of two.
///
/// An observer who knows all other shares and pieces sees the error of the ciphertext plus this
/// noise. So the noise of one key holder hides the error alone, whatever the others do. Its size
/// follows from a bound of the error that holds for the circuit with any inputs, never from a
/// measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flood {
    log2_deviation: u32,
}

/// `log2` of the largest magnitude of noise, divided by the deviation. It is exceeded with a
/// probability of `2^-104`.
const REACH_BITS: f64 = 3.6;

impl Flood {
    /// Bits of statistical security over all openings.
    pub const STATISTICAL_BITS: u32 = 40;
    /// Number of openings under one key in its lifetime.
    pub const OPENINGS: u64 = 1024;
    /// Maximum `log2` of the deviation, the precision of the sampler.
    pub const MAX_LOG2_DEVIATION: u32 = sample::GAUSSIAN_LOG2_DEVIATION - 1;

    /// Returns the smallest noise that hides errors of a Euclidean norm of up to `2^log2_norm`:
    /// `sqrt(12 r) 2^(s/2)` times as large, for `r` openings and `s` bits (Li, Micciancio, Schultz
    /// and Sorrell, ePrint 2022/816).
    ///
    /// # Errors
    /// [`Error::NoErrorBound`] if there is no bound, or for an error too large to hide.
    pub fn hiding(log2_norm: f64) -> Result<Self> {
        // Errors are integers, so an error below one is zero.
        let log2_deviation = (Self::log2_factor() + log2_norm.max(0.0)).ceil();
        let most = f64::from(Self::MAX_LOG2_DEVIATION);
        if !log2_norm.is_nan() && log2_deviation <= most {
            return Ok(Self { log2_deviation: log2_deviation as u32 });
        }
        Err(Error::NoErrorBound { log2_norm, most: most - Self::log2_factor() })
    }

    /// `log2` of the deviation of noise, divided by the norm of the error that it hides.
    pub(crate) fn log2_factor() -> f64 {
        let openings = real::log2(12.0 * Self::OPENINGS as f64) / 2.0;
        openings + f64::from(Self::STATISTICAL_BITS) / 2.0
    }

    /// `log2` of the standard deviation of each coefficient.
    #[must_use]
    pub fn log2_deviation(self) -> u32 {
        self.log2_deviation
    }

    /// `log2` of the largest magnitude of a coefficient of the noise of `parties` shares together,
    /// except with a probability of `2^-104`.
    #[must_use]
    pub fn log2_reach(self, parties: usize) -> f64 {
        f64::from(self.log2_deviation) + REACH_BITS + real::log2(parties as f64) / 2.0
    }

    /// Draws noise.
    ///
    /// It is drawn with a deviation of `2^63`, divided and rounded. To add noise of the larger
    /// deviation to a multiple of the divisor and to round afterwards gives the same distribution,
    /// so rounding reveals nothing.
    pub(super) fn draw(self, seed: &Seed, count: usize) -> Zeroizing<Vec<i128>> {
        let mut noise = Zeroizing::new(vec![0; count]);
        sample::gaussian(&mut Stream::new(seed, "opening", 0), &mut noise);
        let shift = sample::GAUSSIAN_LOG2_DEVIATION - self.log2_deviation;
        let half = 1_i128 << (shift - 1);
        noise.iter_mut().for_each(|x| *x = (*x + half) >> shift);
        noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_power_of_two_is_chosen() {
        let at = |norm: f64| Flood::hiding(norm.log2()).unwrap().log2_deviation();
        let needed = (12.0f64 * 1024.0).sqrt() * 2f64.powi(20);
        for m in 28..=62 {
            let norm = 2f64.powi(m) / needed;
            assert_eq!(at(0.999 * norm), m.cast_unsigned());
            assert_eq!(Flood::hiding((1.001 * norm).log2()).is_ok(), m < 62);
        }
        assert_eq!(at(0.0), 27);
        for bad in [f64::NAN, f64::INFINITY, 40.0] {
            let refused = Flood::hiding(bad).unwrap_err();
            assert!(matches!(refused, Error::NoErrorBound { .. }), "{refused}");
        }
    }

    /// Deviation within one percent, and a chi-square of 64 equally likely cells.
    #[test]
    fn noise_is_normal() {
        for norm in [0.0, 10.5, 35.0] {
            let flood = Flood::hiding(norm).unwrap();
            let count = 1 << 16;
            let noise = flood.draw(&Seed::from_bytes([9; 32]), count);
            let deviation = 2f64.powi(flood.log2_deviation().cast_signed());
            let scaled: Vec<f64> = noise.iter().map(|&x| x as f64 / deviation).collect();
            let square = scaled.iter().map(|x| x * x).sum::<f64>() / count as f64;
            assert!((square.sqrt() - 1.0).abs() < 0.01, "{square}");
            let mean = scaled.iter().sum::<f64>() / count as f64;
            assert!(mean.abs() < 5.0 / (count as f64).sqrt(), "{mean}");
            let mut cells = [0_u32; 64];
            for x in scaled {
                cells[(normal(x) * 64.0).min(63.0) as usize] += 1;
            }
            let expected = count as f64 / 64.0;
            let square = |&n: &u32| (f64::from(n) - expected).powi(2) / expected;
            let chi: f64 = cells.iter().map(square).sum();
            // 63 degrees of freedom: the mean and five deviations on either side.
            assert!((20.0..63.0 + 5.0 * 126f64.sqrt()).contains(&chi), "{chi}");
        }
    }

    /// Distribution function of the normal distribution, by the series of its density.
    fn normal(x: f64) -> f64 {
        let term = |(sum, term): (f64, f64), k: u32| {
            let next = term * x * x / f64::from(2 * k + 1);
            (sum + next, next)
        };
        let (sum, _) = (1..200).fold((x, x), term);
        0.5 + (-x * x / 2.0).exp() / (2.0 * core::f64::consts::PI).sqrt() * sum
    }
}
