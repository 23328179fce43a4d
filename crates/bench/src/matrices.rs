//! Matrices to apply to the slots.

use std::f64::consts::TAU;
use sudare::{
    circuits::{
        Ops,
        ckks::{
            LinearPlan, LinearTransform,
            dft::{self, BitReversed},
        },
    },
    ckks::{self, Ciphertext, Complex, EncodedMatrix, Evaluator, Params, Preset},
    rlwe::{KeyRequest, Level},
};
use sudare_arith::prng::Seed;
use sudare_cli::bench::{
    scheme::{Measured, Session, Task},
    values::uniform,
};
use sudare_roles::error::{Error, Result};

/// Diagonals of the matrix of `linear_transform`.
const DIAGONALS: usize = 32;

/// Matrices to apply to the slots in turn, one level each.
pub(super) struct Matrices {
    op: &'static str,
    plans: Vec<LinearPlan>,
    log_slots: u32,
    /// The product of all matrices, in the clear.
    clear: Clear,
}

enum Clear {
    Product(LinearTransform),
    Dft,
}

impl Matrices {
    /// Returns one matrix of 32 adjacent diagonals with random entries, on all slots.
    pub(super) fn random(params: &Params, level: Level) -> Result<Self> {
        let log_slots = params.log_n() - 1;
        let slots = params.max_slots();
        let seed = Seed::random().map_err(sudare::Error::from)?;
        let diagonal = |k: usize| (k, uniform(&seed, &format!("diagonal {k}"), slots));
        // Squares of entries have a mean of 2/3, so this keeps results at the size of the inputs.
        let size = Complex { re: (1.5 / DIAGONALS as f64).sqrt(), im: 0.0 };
        let diagonals = (0..DIAGONALS.min(slots)).map(diagonal).collect();
        let matrix = LinearTransform::new(log_slots, diagonals)?.scaled(size);
        let plans = planned(core::slice::from_ref(&matrix), params, level)?;
        Ok(Self { op: "linear_transform", plans, log_slots, clear: Clear::Product(matrix) })
    }

    /// Returns the factors of the discrete Fourier transform of `2^log_slots` slots, over the
    /// square root of their number so that values keep their size.
    pub(super) fn dft(params: &Params, level: Level, log_slots: u32, radix: Radix) -> Result<Self> {
        let layers = radix.layers(log_slots);
        let factors = dft::forward(log_slots, &layers, BitReversed::Output)?;
        let halved = |(factor, &layers): (LinearTransform, &u32)| {
            // Each layer of butterflies doubles the mean square of the values.
            factor.scaled(Complex { re: (-0.5 * f64::from(layers)).exp2(), im: 0.0 })
        };
        let factors: Vec<_> = factors.into_iter().zip(&layers).map(halved).collect();
        let plans = planned(&factors, params, level)?;
        Ok(Self { op: "dft", plans, log_slots, clear: Clear::Dft })
    }

    fn keys(&self) -> KeyRequest {
        let mut request = KeyRequest::new();
        for plan in &self.plans {
            request |= plan.required_keys();
        }
        request
    }

    /// Applies the matrices to `x` in the clear.
    fn apply(&self, x: &[Complex<f64>]) -> Vec<Complex<f64>> {
        match &self.clear {
            Clear::Product(matrix) => matrix.apply(x),
            Clear::Dft => {
                let z = fourier(x);
                let size = 1.0 / (x.len() as f64).sqrt();
                // The factors leave their results in bit-reversed order.
                let place = |i| z[dft::bit_reversed(self.log_slots, i)];
                let sized = |z: Complex<f64>| Complex { re: size * z.re, im: size * z.im };
                (0..x.len()).map(|i| sized(place(i))).collect()
            }
        }
    }

    fn prepare(&self, evaluator: &Evaluator) -> Result<Vec<EncodedMatrix>> {
        Ok(self.plans.iter().map(|plan| evaluator.prepare(plan)).collect::<sudare::Result<_>>()?)
    }

    fn run(
        &self,
        evaluator: &Evaluator,
        prepared: &[EncodedMatrix],
        a: &Ciphertext,
    ) -> Result<Ciphertext> {
        let steps = self.plans.iter().zip(prepared);
        Ok(steps
            .into_iter()
            .try_fold(a.clone(), |a, (plan, matrix)| plan.run(evaluator, matrix, &a))?)
    }
}

impl Task for Matrices {
    fn name(&self) -> String {
        self.op.into()
    }

    fn required_keys(&self, _params: &Params, _level: Level) -> Result<KeyRequest> {
        Ok(self.keys())
    }

    fn measure(&self, session: &Session, runs: u32) -> Result<Measured> {
        let slots = &session.x[..1 << self.log_slots];
        let evaluator = &session.parties.evaluator;
        let a = session.encrypted(slots)?;
        let prepared = self.prepare(evaluator)?;
        let run = || self.run(evaluator, &prepared, &a);
        // Matrices are encoded before, as a server would for many ciphertexts.
        let found = session.ciphertext(runs, &self.apply(slots), run)?;
        let bytes = self.keys().bytes(session.params.rlwe())?;
        Ok(Measured { bytes, log_slots: Some(self.log_slots), ..found })
    }
}

/// Plans matrices from `level` on, at the default scale of each level.
///
/// # Errors
/// [`sudare::Error::LevelExhausted`] if there are more matrices than levels.
fn planned(matrices: &[LinearTransform], params: &Params, level: Level) -> Result<Vec<LinearPlan>> {
    let needed = matrices.len() as u32;
    if needed > level.0 {
        return Err(sudare::Error::LevelExhausted { op: "transform", needed, level }.into());
    }
    let levels = (1..=level.0).rev().map(Level);
    let plans = matrices.iter().zip(levels).map(|(matrix, level)| {
        let from = params.scale_at(level);
        let below = Level(level.0 - 1);
        matrix.plan(params.log_n(), params.chain(), level, from, params.scale_at(below))
    });
    Ok(plans.collect::<sudare::Result<_>>()?)
}

/// Returns `sum_k x_k exp(2 pi i jk / n)` for every `j`. `n` is a power of two.
fn fourier(x: &[Complex<f64>]) -> Vec<Complex<f64>> {
    if x.len() < 2 {
        return x.to_vec();
    }
    let half = |odd: usize| fourier(&x.iter().copied().skip(odd).step_by(2).collect::<Vec<_>>());
    let even = half(0);
    let odd = half(1);
    let turned = odd.iter().enumerate().map(|(j, &z)| {
        let (im, re) = (TAU * j as f64 / x.len() as f64).sin_cos();
        Complex { re, im } * z
    });
    let turned: Vec<_> = turned.collect();
    let sums = even.iter().zip(&turned).map(|(&a, &b)| a + b);
    let differences = even.iter().zip(&turned).map(|(&a, &b)| a - b);
    sums.chain(differences).collect()
}

/// Number of values that one factor of a transform combines: a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Radix {
    layers: u32,
}

impl Default for Radix {
    fn default() -> Self {
        Self { layers: 2 }
    }
}

impl core::str::FromStr for Radix {
    type Err = &'static str;

    fn from_str(text: &str) -> core::result::Result<Self, Self::Err> {
        let radix = text.parse::<u32>().ok().filter(|radix| radix.is_power_of_two());
        match radix.map(u32::trailing_zeros) {
            Some(layers @ 1..=10) => Ok(Self { layers }),
            _ => Err("a power of two from 2 to 1024 is needed"),
        }
    }
}

impl Radix {
    /// Returns the layers of each factor. The last factor has the remaining layers.
    pub(super) fn layers(self, log_slots: u32) -> Vec<u32> {
        let steps = (0..log_slots).step_by(self.layers as usize);
        steps.map(|done| self.layers.min(log_slots - done)).collect()
    }
}

/// Returns the smallest leveled set with this number of levels and slots.
///
/// # Errors
/// [`Error::Usage`] if no set has them.
pub(super) fn smallest(levels: usize, log_slots: u32) -> Result<Preset> {
    for name in ["n13", "n14", "n15", "n16"] {
        let preset = ckks::preset(name)?;
        // Half of the coefficients are slots, and the lowest level has primes, too.
        if preset.spec.log_n > log_slots && preset.spec.q_bits.len() > levels {
            return Ok(preset);
        }
    }
    Err(Error::Usage(format!(
        "no leveled set has {levels} levels and 2^{log_slots} slots: take fewer slots or a larger \
         radix, or name a set with --params"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_in_the_clear_is_the_sum() {
        let seed = Seed::from_bytes([3; 32]);
        let x = uniform(&seed, "x", 16);
        for (j, found) in fourier(&x).iter().enumerate() {
            let term = |(k, &x): (usize, &Complex<f64>)| {
                let (im, re) = (TAU * (j * k) as f64 / 16.0).sin_cos();
                x * Complex { re, im }
            };
            let zero = Complex { re: 0.0, im: 0.0 };
            let sum = x.iter().enumerate().map(term).fold(zero, |sum, term| sum + term);
            assert!((found.re - sum.re).hypot(found.im - sum.im) < 1e-13);
        }
    }

    #[test]
    fn a_radix_splits_the_layers() {
        let layers = |radix: &str, log_slots| radix.parse::<Radix>().unwrap().layers(log_slots);
        assert_eq!(layers("4", 13), [2, 2, 2, 2, 2, 2, 1]);
        assert_eq!(layers("2", 3), [1, 1, 1]);
        assert_eq!(layers("32", 15), [5, 5, 5]);
        for bad in ["3", "1", "0", "2048", "x"] {
            assert!(bad.parse::<Radix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_smallest_set_fits() {
        assert_eq!(smallest(7, 13).unwrap().name, "n14");
        assert_eq!(smallest(7, 14).unwrap().name, "n15");
        assert_eq!(smallest(3, 5).unwrap().name, "n13");
        assert_eq!(smallest(34, 5).unwrap_err().exit_code(), 2);
    }
}
