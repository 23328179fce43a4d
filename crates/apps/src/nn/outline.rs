//! The outline of a network with encrypted weights, which the server knows.

use core::iter::{once, repeat_n};

use serde::{Deserialize, Serialize};

use super::{
    affine::{Affine, Function, Source, Stage, stages},
    error::{NnError, Result},
    job::Job,
    map::{Map, Rows},
    model::{Activation, MAX_FEATURES, MAX_LAYERS, Network},
    options::{Options, Packing},
    ranges::Ranges,
};

/// Maximum number of weights of a network, including the zeros that are encrypted.
const MAX_HIDDEN_WEIGHTS: u64 = 1 << 28;

/// The facts that a server knows about a network with encrypted weights: the number of outputs of
/// each layer, the earlier layers that it uses, its activation, and the bounds of its values.
///
/// Successive affine layers are one layer here, even past a residual block. A polynomial of degree
/// 2 is a square between two layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outline {
    /// Number of numbers of a sample.
    features: usize,
    layers: Vec<OutlineLayer>,
    ranges: Ranges,
    precision_bits: f64,
}

/// A layer of an [`Outline`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutlineLayer {
    /// The inputs of the layer, side by side: 0 is a sample, `k + 1` the result of layer `k`.
    /// `None` means exactly the result of the layer before, or the sample for the first layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sources: Option<Vec<usize>>,
    outputs: usize,
    /// The activation, `None` after the last layer.
    activation: Option<Activation>,
}

impl Outline {
    /// Returns the outline of a network, for inputs within these ranges. Bounds are rounded up to
    /// powers of two, so that they reveal less about samples and weights. `precision_bits` is
    /// `-log2` of the tolerable error by encryption of each activation, as a fraction of its range:
    /// 2 to 30.
    ///
    /// # Errors
    /// [`NnError::Shape`] for ranges of another network or an impossible number of bits;
    /// [`NnError::Network`].
    pub fn of(network: &Network, ranges: &Ranges, precision_bits: f64) -> Result<Self> {
        Self::with_ranges(network, ranges.rounded(), precision_bits)
    }

    /// Returns the outline of a network with these exact ranges.
    pub(super) fn with_ranges(
        network: &Network,
        ranges: Ranges,
        precision_bits: f64,
    ) -> Result<Self> {
        let layer = |(number, stage): (usize, &Stage)| OutlineLayer {
            sources: (!stage.follows(number))
                .then(|| stage.sources.iter().map(|source| source.value).collect()),
            outputs: stage.affine.outputs(),
            activation: stage.function.as_ref().map(|function| match function {
                Function::Square => Activation::Square,
                Function::Of(activation) => activation.clone(),
            }),
        };
        let stages = stages(network)?;
        let layers = stages.iter().enumerate().map(layer).collect();
        let ranges = ranges.with_fits(&stages);
        let features = network.inputs();
        let outline = Self { features, layers, ranges, precision_bits };
        outline.options().check()?;
        outline.ranges.check_stages(&outline.stages()?)?;
        Ok(outline)
    }

    /// Returns the number of numbers of a sample.
    pub(super) fn features(&self) -> usize {
        self.features
    }

    /// Returns the number of numbers of a result.
    pub(super) fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.outputs)
    }

    pub(super) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    pub(super) fn precision_bits(&self) -> f64 {
        self.precision_bits
    }

    /// Returns the job: one sample, by layers with unknown weights.
    pub(super) fn job(&self) -> Result<Job> {
        Job::new(self.stages()?, &self.ranges, self.options())
    }

    fn options(&self) -> Options {
        let precision_bits = self.precision_bits;
        Options { samples: 1, packing: Packing::Sample, precision_bits }
    }

    /// Returns the layers without weights. Every weight may be nonzero.
    fn stages(&self) -> Result<Vec<Stage>> {
        let count = self.layers.len();
        // If all layers are activations, there is one more stage than layers.
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
            let rows = |inputs| {
                let rows = repeat_n(Vec::new(), layer.outputs).collect();
                Map::Rows(Rows { inputs, rows })
            };
            let affine = Affine {
                maps: sources.iter().map(|source| rows(source.width)).collect(),
                bias: vec![0.0; layer.outputs],
                step: None,
            };
            Ok(Stage { sources, affine, function })
        };
        self.layers.iter().enumerate().zip(sources).map(stage).collect()
    }
}

impl OutlineLayer {
    /// Returns the inputs of the layer of this number.
    fn sources_at(&self, number: usize) -> Result<Vec<usize>> {
        let Some(sources) = &self.sources else { return Ok(vec![number]) };
        // One entry for each possible input, to detect repeated ones.
        let mut seen = vec![false; number + 1];
        let mut is_new = |&value: &usize| {
            seen.get_mut(value).is_some_and(|seen| !core::mem::replace(seen, true))
        };
        match !sources.is_empty() && sources.len() <= number + 1 && sources.iter().all(&mut is_new)
        {
            true => Ok(sources.clone()),
            false => Err(no_network(format!(
                "has a layer {number} whose inputs are not distinct values from 0 to {number}"
            ))),
        }
    }
}

/// Rejects more weights than the maximum, counting encrypted zeros. Every layer needs a matrix for
/// each of its sources. `widths` has the widths of values.
fn check_weights(widths: &[usize], sources: &[Vec<usize>]) -> Result<()> {
    let padded = |size: usize| size.next_power_of_two() as u64;
    let layer = |(number, sources): (usize, &Vec<usize>)| {
        let rows = padded(widths[number + 1]);
        sources.iter().map(move |&value| rows * padded(widths[value]).max(rows)).sum::<u64>()
    };
    // There are at most 2^16 matrices of 2^32 weights each, so the sum does not overflow.
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
