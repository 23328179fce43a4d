//! What a server knows of a network whose weights are encrypted.

use core::iter::{once, repeat_n};

use serde::{Deserialize, Serialize};

use super::{
    affine::{Affine, Function, Source, Stage, stages},
    error::{NnError, Result},
    job::Job,
    model::{Activation, MAX_FEATURES, MAX_LAYERS, Network},
    options::{Options, Packing},
    ranges::Ranges,
};

/// The most weights of a network, where zeros are encrypted, too.
const MAX_HIDDEN_WEIGHTS: u64 = 1 << 28;

/// All that a server knows of a network whose weights are encrypted: how many numbers layers give, which
/// earlier layers they take these from, what is applied to them, and how large they become.
///
/// Affine layers that follow each other are one layer here, also past a residual block, and a
/// polynomial of degree 2 is a square between two of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outline {
    /// Numbers of a sample.
    features: usize,
    layers: Vec<OutlineLayer>,
    ranges: Ranges,
    precision_bits: f64,
}

/// A layer of an [`Outline`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutlineLayer {
    /// What it takes side by side: 0 is a sample, `k + 1` what layer `k` gives. None if that is what the
    /// layer before it gives, or the sample for the first one, and no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sources: Option<Vec<usize>>,
    outputs: usize,
    /// None after the last layer.
    activation: Option<Activation>,
}

impl Outline {
    /// The outline of a network, for inputs within these ranges. Their bounds become powers of two, so that
    /// they tell less of samples and weights. `precision_bits` is `-log2` of the tolerable error of each
    /// activation by encryption, as a part of its range, 2 to 30.
    ///
    /// # Errors
    /// [`NnError::Shape`] for ranges of another network or a number of bits that is not possible;
    /// [`NnError::Network`].
    pub fn of(network: &Network, ranges: &Ranges, precision_bits: f64) -> Result<Self> {
        Self::with_ranges(network, ranges.rounded(), precision_bits)
    }

    /// The outline of a network with these ranges as they are.
    pub(super) fn with_ranges(
        network: &Network,
        ranges: Ranges,
        precision_bits: f64,
    ) -> Result<Self> {
        let layer = |(number, stage): (usize, &Stage)| OutlineLayer {
            sources: (!stage.follows(number))
                .then(|| stage.sources.iter().map(|source| source.value).collect()),
            outputs: stage.affine.rows.len(),
            activation: stage.function.as_ref().map(|function| match function {
                Function::Square => Activation::Square,
                Function::Of(activation) => activation.clone(),
            }),
        };
        let layers = stages(network)?.iter().enumerate().map(layer).collect();
        let features = network.inputs();
        let outline = Self { features, layers, ranges, precision_bits };
        outline.options().check()?;
        outline.ranges.check_stages(&outline.stages()?)?;
        Ok(outline)
    }

    /// Numbers of a sample.
    pub(super) fn features(&self) -> usize {
        self.features
    }

    /// Numbers of a result.
    pub(super) fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.outputs)
    }

    pub(super) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    pub(super) fn precision_bits(&self) -> f64 {
        self.precision_bits
    }

    /// What is planned for: one sample, by layers whose weights are not known.
    pub(super) fn job(&self) -> Result<Job<'_>> {
        Job::new(self.stages()?, &self.ranges, self.options())
    }

    fn options(&self) -> Options {
        let precision_bits = self.precision_bits;
        Options { samples: 1, packing: Packing::Sample, precision_bits }
    }

    /// Layers without weights, all of which could be.
    fn stages(&self) -> Result<Vec<Stage>> {
        let count = self.layers.len();
        if !(1..=MAX_LAYERS + 1).contains(&count) {
            let most = MAX_LAYERS + 1;
            return Err(no_network(format!("has {count} layers; 1 to {most} are possible")));
        }
        let outputs = self.layers.iter().map(|layer| layer.outputs);
        let widths: Vec<usize> = once(self.features).chain(outputs).collect();
        if let Some(size) = widths.iter().find(|size| !(1..=MAX_FEATURES).contains(*size)) {
            return Err(no_network(format!(
                "has a layer of {size} numbers; 1 to {MAX_FEATURES} are possible"
            )));
        }
        let sources = self.layers.iter().enumerate().map(|(k, layer)| layer.sources_at(k));
        let sources = sources.collect::<Result<Vec<_>>>()?;
        check_weights(&widths, &sources)?;
        let stage = |((number, layer), sources): ((usize, &OutlineLayer), Vec<usize>)| {
            let last = number + 1 == count;
            let function = match &layer.activation {
                Some(activation) if !last => {
                    activation.check().map_err(|problem| {
                        let name = "an activation";
                        NnError::Layer { layer: number, name, problem }
                    })?;
                    Some(Function::Of(activation.clone()))
                }
                None if last => None,
                _ => {
                    let problem = "has activations between layers, and none after the last";
                    return Err(no_network(problem.into()));
                }
            };
            let sources = sources.into_iter().map(|value| Source { value, width: widths[value] });
            let sources: Vec<Source> = sources.collect();
            let affine = Affine {
                inputs: sources.iter().map(|source| source.width).sum(),
                rows: repeat_n(Vec::new(), layer.outputs).collect(),
                bias: vec![0.0; layer.outputs],
                step: None,
            };
            Ok(Stage { sources, affine, function })
        };
        self.layers.iter().enumerate().zip(sources).map(stage).collect()
    }
}

impl OutlineLayer {
    /// What the layer of this number takes.
    fn sources_at(&self, number: usize) -> Result<Vec<usize>> {
        let Some(sources) = &self.sources else { return Ok(vec![number]) };
        // As many as there can be, before they are looked at.
        let mut seen = vec![false; number + 1];
        let mut is_new = |&value: &usize| {
            seen.get_mut(value).is_some_and(|seen| !core::mem::replace(seen, true))
        };
        match !sources.is_empty() && sources.len() <= number + 1 && sources.iter().all(&mut is_new)
        {
            true => Ok(sources.clone()),
            false => Err(no_network(format!(
                "has a layer {number} that takes other values than some of 0 to {number}, each once"
            ))),
        }
    }
}

/// Refuses more weights than are planned for, counted with the zeros that are encrypted, too: every layer takes a
/// matrix for each of its sources. `widths` are those of values.
fn check_weights(widths: &[usize], sources: &[Vec<usize>]) -> Result<()> {
    let padded = |size: usize| size.next_power_of_two() as u64;
    let layer = |(number, sources): (usize, &Vec<usize>)| {
        let rows = padded(widths[number + 1]);
        sources.iter().map(move |&value| rows * padded(widths[value]).max(rows)).sum::<u64>()
    };
    // At most 2^16 matrices of 2^32 weights each: the sum does not overflow.
    let weights: u64 = sources.iter().enumerate().map(layer).sum();
    match weights <= MAX_HIDDEN_WEIGHTS {
        true => Ok(()),
        false => Err(no_network(format!(
            "has {weights} weights to be encrypted, with zeros between them; {MAX_HIDDEN_WEIGHTS} are \
             possible"
        ))),
    }
}

fn no_network(problem: String) -> NnError {
    NnError::Network { problem }
}
