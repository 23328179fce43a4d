use serde::{Deserialize, Serialize};
use sudare::circuits::ckks::Polynomial;
use sudare_arith::par;

use super::{
    affine::{Function, Stage, stages, walk},
    error::{NnError, Result, expect},
    model::{Activation, Network},
};

/// Fraction of its range by which noise and rounding may move a number beyond the range.
pub(super) const BEYOND: f64 = 1e-3;
/// The largest magnitude of a range, 2^100.
const LARGEST: f64 = (1u128 << 100) as f64;

/// Bounds of the numbers of a network, for which a plan has room.
///
/// They are calibrated with a network and representative samples ([`Ranges::calibrate`]). Outside
/// the ranges, approximated activations are far off and results overflow. Samples are therefore
/// checked before encryption ([`Plan::check`](super::Plan::check)). To check samples without a
/// plan, use [`Ranges::check`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranges {
    /// The smallest and the largest value of a feature of a sample.
    pub input: [f64; 2],
    /// Largest magnitude of the input of each activation. Polynomials of degree 2 are squares
    /// here, after a change of origin.
    pub activations: Vec<f64>,
    /// The largest magnitude of a result.
    pub output: f64,
}

impl Ranges {
    /// Returns the ranges of these samples. All ranges except the input's are widened by the factor
    /// `margin`, at least 1. A margin of 1.25 suits a few thousand samples of test data. A server
    /// sees the ranges, so each bound is rounded outward to a power of two, which reveals only the
    /// magnitude of samples.
    ///
    /// # Errors
    /// [`NnError::Shape`] without samples, or for one of another length; [`NnError::OutOfRange`]
    /// for a margin, or a number anywhere in the network that is not finite; the errors of the
    /// network.
    pub fn calibrate<'a>(
        network: &Network,
        samples: impl IntoIterator<Item = &'a [f64]>,
        margin: f64,
    ) -> Result<Self> {
        check_margin(margin)?;
        let stages = stages(network)?;
        let samples: Vec<&[f64]> = samples.into_iter().collect();
        let Largest { input, sizes } = largest(&stages, &samples)?;
        // A number that is zero for all samples may be nonzero for another sample.
        let widened = |most: &f64| (margin * most).max(1e-6);
        let mut activations: Vec<f64> = sizes.iter().map(widened).collect();
        let output = activations.pop().unwrap_or(0.0);
        let ranges = Self { input, activations, output }.rounded().with_fits(&stages);
        // Polynomials are far off outside the range that they were fitted to. The check finds the
        // sample.
        if sizes.iter().enumerate().any(|(number, &most)| most > ranges.of_stage(number)) {
            ranges.check(network, samples)?;
        }
        Ok(ranges)
    }

    /// Returns these ranges, with the ranges of fitted activations where those are smaller.
    pub(super) fn with_fits(mut self, stages: &[Stage]) -> Self {
        for (most, stage) in self.activations.iter_mut().zip(stages) {
            if let Some(Function::Of(Activation::Fitted { range, .. })) = &stage.function {
                *most = most.min(*range);
            }
        }
        self
    }

    /// Returns ranges that contain these ranges and have powers of two as bounds.
    pub(super) fn rounded(&self) -> Self {
        let [least, most] = self.input;
        let least = if least > 0.0 { power_below(least) } else { -power_above(-least) };
        let most = if most < 0.0 { -power_below(-most) } else { power_above(most) };
        Self {
            input: [least, most],
            activations: self.activations.iter().map(|&size| power_above(size)).collect(),
            output: power_above(self.output),
        }
    }

    /// Checks that samples stay inside the ranges, throughout the network.
    ///
    /// # Errors
    /// [`NnError::OutOfRange`] for the first number outside; [`NnError::Shape`] for a sample or
    /// ranges of another network.
    pub fn check<'a>(
        &self,
        network: &Network,
        samples: impl IntoIterator<Item = &'a [f64]>,
    ) -> Result<()> {
        let stages = stages(network)?;
        self.check_stages(&stages)?;
        let ranges = self.clone().with_fits(&stages);
        for (sample, x) in samples.into_iter().enumerate() {
            ranges.check_input(sample, x)?;
            walk(&stages, x, |i, y| {
                ranges.check_stage(i, sample, y)?;
                stages[i].apply_function(y);
                Ok(())
            })?;
        }
        Ok(())
    }

    pub(super) fn check_stages(&self, stages: &[Stage]) -> Result<()> {
        expect("ranges of activations", self.activations.len(), stages.len() - 1)?;
        let sizes = self.activations.iter().chain([&self.output]);
        let positive = sizes.clone().all(|size| (1e-9..=LARGEST).contains(size));
        let ordered = self.input[0] <= self.input[1];
        let finite = self.input.iter().all(|x| x.abs() <= LARGEST);
        match positive && ordered && finite {
            true => Ok(()),
            false => Err(NnError::Network {
                problem: format!(
                    "has impossible ranges: {self:?}; calibrate it, or pass sizes from 1e-9 to \
                     {LARGEST:e}"
                ),
            }),
        }
    }

    /// Returns the largest magnitude of the values of a stage's affine map.
    pub(super) fn of_stage(&self, number: usize) -> f64 {
        self.activations.get(number).copied().unwrap_or(self.output)
    }

    /// Returns the polynomial of each stage's function on its range. Stages without a function, and
    /// squares, have none.
    pub(super) fn polynomials(&self, stages: &[Stage]) -> sudare::Result<Vec<Option<Polynomial>>> {
        let fitted = |(k, stage): (usize, &Stage)| match &stage.function {
            Some(function) => function.polynomial(self.of_stage(k)),
            None => Ok(None),
        };
        stages.iter().enumerate().map(fitted).collect()
    }

    /// Rejects values of a stage's affine map that leave the stage's range.
    pub(super) fn check_stage(&self, number: usize, sample: usize, numbers: &[f64]) -> Result<()> {
        let what = if number == self.activations.len() { "result" } else { "pre-activation" };
        let limit = self.of_stage(number) * (1.0 + BEYOND);
        check_within(what, sample, numbers, [-limit, limit])
    }

    pub(super) fn check_input(&self, sample: usize, x: &[f64]) -> Result<()> {
        check_within("feature", sample, x, self.input)
    }

    /// Returns the largest magnitude of a feature.
    pub(super) fn largest_input(&self) -> f64 {
        self.input[0].abs().max(self.input[1].abs())
    }
}

pub(super) fn check_margin(margin: f64) -> Result<()> {
    if (1.0..=1e6).contains(&margin) {
        return Ok(());
    }
    let what = "the margin, number";
    Err(NnError::OutOfRange { what, index: 0, sample: 0, found: margin, least: 1.0, most: 1e6 })
}

/// The largest numbers of samples in a network.
pub(super) struct Largest {
    /// The smallest and the largest feature.
    input: [f64; 2],
    /// The largest magnitude of the values of the map of each stage.
    pub(super) sizes: Vec<f64>,
}

/// Finds the largest numbers of samples in the stages of a network, with exact functions.
///
/// # Errors
/// [`NnError::Shape`] without samples, or for one of another length; [`NnError::OutOfRange`] for a
/// number that is not finite.
pub(super) fn largest(stages: &[Stage], samples: &[&[f64]]) -> Result<Largest> {
    let each = par::try_map(samples.iter().enumerate(), |(sample, x)| -> Result<_> {
        check_within("feature", sample, x, [-f64::MAX, f64::MAX])?;
        let mut sizes = vec![0.0f64; stages.len()];
        walk(stages, x, |i, y| {
            check_within("pre-activation", sample, y, [-f64::MAX, f64::MAX])?;
            sizes[i] = y.iter().fold(0.0, |most, y| most.max(y.abs()));
            stages[i].apply_function(y);
            Ok(())
        })?;
        let input = x.iter().fold(NOTHING, |[least, most], &x| [least.min(x), most.max(x)]);
        Ok(Largest { input, sizes })
    })?;
    let none = Largest { input: NOTHING, sizes: vec![0.0; stages.len()] };
    let all = each.into_iter().fold(none, |mut all, one| {
        all.input = [all.input[0].min(one.input[0]), all.input[1].max(one.input[1])];
        all.sizes.iter_mut().zip(&one.sizes).for_each(|(all, one)| *all = all.max(*one));
        all
    });
    // Without samples the interval is still reversed.
    if all.input[0] > all.input[1] {
        let needed = "1 or more".into();
        return Err(NnError::Shape { what: "samples to calibrate with", found: 0, needed });
    }
    Ok(all)
}

/// The interval of no numbers.
const NOTHING: [f64; 2] = [f64::INFINITY, f64::NEG_INFINITY];

/// Returns the smallest power of two that is not below a nonnegative number.
fn power_above(x: f64) -> f64 {
    let below = power_below(x);
    // The power below a subnormal number is 0.
    if below == x { x } else { (2.0 * below).max(f64::MIN_POSITIVE) }
}

/// Returns the largest power of two that is not above a nonnegative number, or 0 for numbers below
/// full precision.
fn power_below(x: f64) -> f64 {
    // Without the bits of the mantissa, a number is a power of two.
    let exponent = !((1u64 << (f64::MANTISSA_DIGITS - 1)) - 1);
    f64::from_bits(x.to_bits() & exponent)
}

/// Rejects numbers outside a range, and NaN.
pub(super) fn check_within(
    what: &'static str,
    sample: usize,
    numbers: &[f64],
    [least, most]: [f64; 2],
) -> Result<()> {
    // A range contains no NaN.
    match numbers.iter().position(|x| !(least..=most).contains(x)) {
        None => Ok(()),
        Some(index) => {
            let found = numbers[index];
            Err(NnError::OutOfRange { what, index, sample, found, least, most })
        }
    }
}
