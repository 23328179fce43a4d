use serde::{Deserialize, Serialize};
use sudare::circuits::Polynomial;

use super::{
    affine::{Stage, stages, walk},
    error::{NnError, Result, expect},
    model::Network,
};

/// By how much of its range noise and rounding may take a number beyond.
pub(super) const BEYOND: f64 = 1e-3;
/// The largest magnitude of a range, 2^100.
const LARGEST: f64 = (1u128 << 100) as f64;

/// How large the numbers of a network become: what a plan makes room for.
///
/// From a network and samples like those to be expected ([`Ranges::calibrate`]). Beyond them
/// approximated activations are far off and results overflow, so samples are checked against them
/// before they are encrypted ([`Plan::check`](super::Plan::check)), and can be without a plan
/// ([`Ranges::check`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranges {
    /// The least and the most of a feature of a sample.
    pub input: [f64; 2],
    /// For each activation the largest magnitude of what it is applied to. Polynomials of degree 2
    /// are squares here, after the change of origin that makes them so.
    pub activations: Vec<f64>,
    /// The largest magnitude of a result.
    pub output: f64,
}

impl Ranges {
    /// The ranges that these samples take. All but the input's are widened by the factor `margin`, at
    /// least 1: 1.25 suits some thousand samples of test data. A server sees ranges, so that each bound
    /// is the next power of two outwards, which tells of samples only how large they are.
    ///
    /// # Errors
    /// [`NnError::Shape`] without samples, or for one of another length; [`NnError::OutOfRange`]
    /// for a margin, or a number anywhere in the network, that is none; those of the network.
    pub fn calibrate<'a>(
        network: &Network,
        samples: impl IntoIterator<Item = &'a [f64]>,
        margin: f64,
    ) -> Result<Self> {
        if !(1.0..=1e6).contains(&margin) {
            let (what, index, sample, found) = ("the margin, number", 0, 0, margin);
            return Err(NnError::OutOfRange { what, index, sample, found, least: 1.0, most: 1e6 });
        }
        let stages = stages(network)?;
        let mut input = [f64::INFINITY, f64::NEG_INFINITY];
        let mut largest = vec![0.0f64; stages.len()];
        for (sample, x) in samples.into_iter().enumerate() {
            check_within("feature", sample, x, [-f64::MAX, f64::MAX])?;
            input = x.iter().fold(input, |[least, most], &x| [least.min(x), most.max(x)]);
            walk(&stages, x, |i, y| {
                check_within("pre-activation", sample, y, [-f64::MAX, f64::MAX])?;
                largest[i] = y.iter().fold(largest[i], |most, y| most.max(y.abs()));
                stages[i].apply_function(y);
                Ok(())
            })?;
        }
        if input[0] > input[1] {
            let needed = "1 or more".into();
            return Err(NnError::Shape { what: "samples to calibrate with", found: 0, needed });
        }
        // A number that is zero for all of them may be somewhat else for another one.
        let widened = |most: &f64| (margin * most).max(1e-6);
        let mut activations: Vec<f64> = largest.iter().map(widened).collect();
        let output = activations.pop().unwrap_or(0.0);
        Ok(Self { input, activations, output }.rounded())
    }

    /// Ranges that hold these, whose bounds are powers of two.
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

    /// Whether samples stay inside, throughout the network.
    ///
    /// # Errors
    /// [`NnError::OutOfRange`] for the first number that does not; [`NnError::Shape`] for a sample
    /// or ranges of another network.
    pub fn check<'a>(
        &self,
        network: &Network,
        samples: impl IntoIterator<Item = &'a [f64]>,
    ) -> Result<()> {
        let stages = stages(network)?;
        self.check_stages(&stages)?;
        for (sample, x) in samples.into_iter().enumerate() {
            self.check_input(sample, x)?;
            walk(&stages, x, |i, y| {
                self.check_stage(i, sample, y)?;
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
                    "has ranges that are not possible: {self:?}; calibrate it, or give sizes from 1e-9 \
                     to {LARGEST:e}"
                ),
            }),
        }
    }

    /// The largest magnitude of what the affine map of a stage gives.
    pub(super) fn of_stage(&self, number: usize) -> f64 {
        self.activations.get(number).copied().unwrap_or(self.output)
    }

    /// The polynomial of each stage's function on its range. Stages without a function, and squares,
    /// have none.
    pub(super) fn polynomials(&self, stages: &[Stage]) -> sudare::Result<Vec<Option<Polynomial>>> {
        let fitted = |(k, stage): (usize, &Stage)| match &stage.function {
            Some(function) => function.polynomial(self.of_stage(k)),
            None => Ok(None),
        };
        stages.iter().enumerate().map(fitted).collect()
    }

    /// Refuses what the affine map of a stage gives of a sample, if it leaves its range.
    pub(super) fn check_stage(&self, number: usize, sample: usize, numbers: &[f64]) -> Result<()> {
        let what = if number == self.activations.len() { "result" } else { "pre-activation" };
        let limit = self.of_stage(number) * (1.0 + BEYOND);
        check_within(what, sample, numbers, [-limit, limit])
    }

    pub(super) fn check_input(&self, sample: usize, x: &[f64]) -> Result<()> {
        check_within("feature", sample, x, self.input)
    }

    /// The largest magnitude of a feature.
    pub(super) fn largest_input(&self) -> f64 {
        self.input[0].abs().max(self.input[1].abs())
    }
}

/// The least power of two that is not below a number from 0 on.
fn power_above(x: f64) -> f64 {
    let below = power_below(x);
    if below == x { x } else { (2.0 * below).max(f64::MIN_POSITIVE) }
}

/// The largest power of two that is not above a number from 0 on; 0 for smaller ones than all with full
/// precision.
fn power_below(x: f64) -> f64 {
    let exponent = !((1u64 << (f64::MANTISSA_DIGITS - 1)) - 1);
    f64::from_bits(x.to_bits() & exponent)
}

/// Refuses numbers outside a range; NaN is outside of all.
pub(super) fn check_within(
    what: &'static str,
    sample: usize,
    numbers: &[f64],
    [least, most]: [f64; 2],
) -> Result<()> {
    match numbers.iter().position(|x| !(least..=most).contains(x)) {
        None => Ok(()),
        Some(index) => {
            let found = numbers[index];
            Err(NnError::OutOfRange { what, index, sample, found, least, most })
        }
    }
}
