//! Networks whose weights are encrypted for the server, as samples are.

use serde::{Deserialize, Serialize};
use sudare::{
    circuits::{ComplexOps, Trace, TracePlan, sim},
    ckks::{
        Ciphertext, Complex, Decryptor, Encoder, Params, Plaintext, ProductSum, Scale,
        SymmetricEncryptor, serial,
    },
    rlwe::{KeyRequest, Level, Seeded},
};
use sudare_arith::{par, real};

use super::{
    affine::{Affine, Function, Source, Stage, polynomials, stages},
    draft::draft,
    error::{NnError, Result, expect},
    model::{Activation, MAX_FEATURES, MAX_LAYERS, Network},
    plan::{PRECISION_BITS, Packing},
    ranges::{Ranges, check_within},
    run::check_form,
    steps::{Applied, below},
};

/// Ciphertexts that are encrypted, or read, before the next ones are looked at.
const CHUNK: usize = 16;

/// All that a server knows of a network whose weights are encrypted: how many numbers layers take
/// and give, what is applied to these, and how large they become.
///
/// Affine layers that follow each other are one layer here, and a polynomial of degree 2 is a square
/// between two of them.
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
    outputs: usize,
    /// None after the last layer.
    activation: Option<Activation>,
}

impl Outline {
    /// The outline of a network, for inputs within these ranges. `precision_bits` is `-log2` of the
    /// tolerable error of each activation by encryption, as a part of its range, 2 to 30.
    ///
    /// # Errors
    /// [`NnError::Shape`] for ranges of another network or a number of bits that is not possible;
    /// [`NnError::Network`], also for one with residual blocks.
    pub fn of(network: &Network, ranges: &Ranges, precision_bits: f64) -> Result<Self> {
        let layer = |stage: &Stage| OutlineLayer {
            outputs: stage.affine.rows.len(),
            activation: stage.function.as_ref().map(|function| match function {
                Function::Square => Activation::Square,
                Function::Of(activation) => activation.clone(),
            }),
        };
        let stages = stages(network)?;
        if !stages.iter().enumerate().all(|(k, stage)| stage.follows(k)) {
            let problem = "has residual blocks, which take weights in the clear: give a plan of \
                           its own to the layers before and after them";
            return Err(NnError::Network { problem: problem.into() });
        }
        let layers = stages.iter().map(layer).collect();
        let features = network.inputs();
        let outline = Self { features, layers, ranges: ranges.clone(), precision_bits };
        outline.stages()?;
        Ok(outline)
    }

    /// Layers without weights, all of which could be.
    fn stages(&self) -> Result<Vec<Stage>> {
        let network = |problem: String| NnError::Network { problem };
        let count = self.layers.len();
        if !(1..=MAX_LAYERS + 1).contains(&count) {
            return Err(network(format!(
                "has {count} layers; 1 to {} are possible",
                MAX_LAYERS + 1
            )));
        }
        if !PRECISION_BITS.contains(&self.precision_bits) {
            let (what, found) = ("bits of precision", self.precision_bits as usize);
            return Err(NnError::Shape { what, found, needed: "2 to 30".into() });
        }
        let sizes = || self.layers.iter().map(|layer| layer.outputs);
        let inputs = core::iter::once(self.features).chain(sizes());
        if let Some(size) = inputs.clone().find(|size| !(1..=MAX_FEATURES).contains(size)) {
            let problem =
                format!("has a layer of {size} numbers; 1 to {MAX_FEATURES} are possible");
            return Err(network(problem));
        }
        let stage = |(number, (layer, inputs)): (usize, (&OutlineLayer, usize))| {
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
                    return Err(network(problem.into()));
                }
            };
            let rows = vec![Vec::new(); layer.outputs];
            let affine = Affine { inputs, rows, bias: vec![0.0; layer.outputs], step: None };
            let sources = vec![Source { value: number, width: inputs }];
            Ok(Stage { sources, affine, function })
        };
        let stages = self.layers.iter().zip(inputs).enumerate().map(stage);
        let stages = stages.collect::<Result<Vec<_>>>()?;
        self.ranges.check_stages(&stages)?;
        Ok(stages)
    }
}

/// How a network with encrypted weights is computed, one sample after the other: owner and server
/// make the same plan of its [`Outline`].
///
/// Samples, weights and results are encrypted under one key, that of their owner. The server learns
/// the outline and nothing else.
///
/// A sample is in one ciphertext, weights are one for each diagonal of a matrix, as many as it has
/// rows, rounded up to a power of two. Products of diagonals with the rotated sample are relinearised
/// in sums, by baby and giant steps: the owner rotates diagonals of a giant step before they are
/// encrypted (Halevi, Shoup, "Bootstrapping for HElib" ([2014/873](https://eprint.iacr.org/2014/873)),
/// section 4.3, of plain matrices). Sums over parts of rows follow, as in
/// [`Packing::Sample`](super::Packing::Sample).
#[derive(Debug, Clone)]
pub struct HiddenPlan {
    outline: Outline,
    params: Params,
    input: (Level, Scale),
    layers: Vec<HiddenLayer>,
    keys: KeyRequest,
}

/// What a plan with encrypted weights says of itself, before a key is made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HiddenExplanation {
    /// `log2(N)`.
    pub log_n: u32,
    /// Bits of the modulus with special primes.
    pub log2_qp: f64,
    /// The level of encrypted samples.
    pub levels: u32,
    /// Ciphertexts of the weights.
    pub weights: usize,
    /// Bytes of these in a file, each with a seed in place of a half.
    pub weight_bytes: u64,
    /// Bytes of an encrypted sample in a file.
    pub input_bytes: u64,
    /// Evaluation keys.
    pub keys: usize,
    /// Bytes of these in a file.
    pub key_bytes: u64,
}

/// A layer with levels and scales.
#[derive(Debug, Clone)]
struct HiddenLayer {
    /// `log2` of columns, and of rows.
    log_slots: [u32; 2],
    /// Diagonals of a giant step.
    babies: usize,
    /// Level and scale of weights, and of the bias: the result's.
    weights: (Level, Scale),
    bias: (Level, Scale),
    /// Over slots that hold parts of the same row.
    sum: TracePlan,
    applied: Option<Applied>,
}

impl HiddenPlan {
    /// Plans a network with the smallest ring at 128 bits of security that does.
    ///
    /// # Errors
    /// [`NnError::Network`], [`NnError::Layer`] and [`NnError::Shape`] for an outline of no network;
    /// [`NnError::TooDeep`]; [`NnError::Library`].
    pub fn new(outline: &Outline) -> Result<Self> {
        let stages = outline.stages()?;
        let widest = stages.iter().map(|s| s.affine.inputs.max(s.affine.rows.len())).max();
        let log2_slots = widest.unwrap_or(1).next_power_of_two().ilog2();
        let (ranges, bits) = (&outline.ranges, outline.precision_bits);
        let polynomials = polynomials(&stages, ranges)?;
        let draft = draft((&stages, &polynomials), ranges, Packing::Sample, bits, log2_slots)?;
        let params = Params::new(draft.spec)?;
        let (mut level, mut scale) = (params.top(), params.scale_at(params.top()));
        let (log_n, chain, input) = (params.log_n(), params.chain(), (level, scale));
        let (mut layers, mut keys, mut period) = (Vec::new(), KeyRequest::new(), 1);
        for (stage, polynomial) in stages.iter().zip(&polynomials) {
            let rows = stage.affine.rows.len().next_power_of_two();
            let columns = stage.affine.inputs.next_power_of_two().max(rows).max(period);
            let babies = 1 << rows.ilog2().div_ceil(2);
            let below = below(level)?;
            let out = params.scale_at(below);
            let sum = Trace::inner_sum(log_n, rows, columns / rows)?.doubling();
            let turns = |count: usize, step: usize| (1..count).map(move |i| (i * step) as i64);
            keys |= KeyRequest::new().relinearize(level).rotations(log_n, turns(babies, 1), level);
            keys |= KeyRequest::new().rotations(log_n, turns(rows / babies, babies), below);
            keys |= sum.required_keys(below);
            let weights = (level, out * chain.divisor(level) / scale);
            (level, scale, period) = (below, out, rows);
            let applied = match &stage.function {
                None => None,
                Some(_) => {
                    let (polynomial, form) = (polynomial.as_ref(), (level, scale));
                    let (applied, form) = Applied::new(polynomial, &params, form, &mut keys)?;
                    (level, scale) = form;
                    Some(applied)
                }
            };
            let log_slots = [columns, rows].map(usize::ilog2);
            layers.push(HiddenLayer {
                log_slots,
                babies,
                weights,
                bias: (below, out),
                sum,
                applied,
            });
        }
        Ok(Self { outline: outline.clone(), params, input, layers, keys })
    }

    /// What is planned.
    #[must_use]
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Keys that the server needs.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.keys
    }

    /// What weights and a run take.
    ///
    /// # Errors
    /// [`NnError::Library`].
    pub fn explain(&self) -> Result<HiddenExplanation> {
        let (params, label) = (&self.params, serial::Label::default());
        let half = |level: Level| {
            let rlwe = params.rlwe();
            rlwe.basis().packed_bytes(rlwe.limbs(level))
        };
        Ok(HiddenExplanation {
            log_n: params.log_n(),
            log2_qp: params.rlwe().log2_qp(params.top()),
            levels: self.input.0.0,
            weights: self.weights(),
            weight_bytes: self.weight_forms().map(|(level, ..)| half(level)).sum(),
            input_bytes: 2 * half(self.input.0),
            keys: self.keys.count(),
            key_bytes: serial::evaluation_keys_bytes(params, &self.keys, &label)?,
        })
    }

    /// Ciphertexts of the weights.
    #[must_use]
    pub fn weights(&self) -> usize {
        self.layers.iter().map(HiddenLayer::parts).sum()
    }

    /// Level, scale and `log2` of the slots of each of them.
    pub fn weight_forms(&self) -> impl Iterator<Item = (Level, Scale, u32)> {
        self.layers.iter().flat_map(|layer| {
            let [columns, rows] = layer.log_slots;
            let (level, scale) = layer.weights;
            let diagonal = core::iter::repeat_n((level, scale, columns), layer.parts() - 1);
            diagonal.chain([(layer.bias.0, layer.bias.1, rows)])
        })
    }

    /// Encrypts the weights of the network, ciphertext after ciphertext, [`HiddenPlan::weights`] of
    /// them.
    ///
    /// # Errors
    /// [`NnError::Network`] for a network of another outline; [`NnError::Library`] if the encryptor
    /// has other parameters; those of `write`.
    pub fn encrypt_weights(
        &self,
        encryptor: &SymmetricEncryptor,
        network: &Network,
        mut write: impl FnMut(usize, Seeded<Ciphertext>) -> Result<()>,
    ) -> Result<()> {
        self.each_weight(network, |first, chunk| {
            let encrypted = par::try_map(chunk, |weights| {
                Ok::<_, NnError>(encryptor.encrypt_seeded(&self.encode(weights)?)?)
            })?;
            encrypted.into_iter().enumerate().try_for_each(|(i, part)| write(first + i, part))
        })
    }

    fn encode(
        &self,
        (slots, (level, scale)): (Vec<f64>, (Level, Scale)),
    ) -> sudare::Result<Plaintext> {
        Encoder::new(&self.params).encode_real(&slots, level, scale)
    }

    /// Calls `each` with the number of the first of some ciphertexts, and what they are to hold.
    fn each_weight(
        &self,
        network: &Network,
        mut each: impl FnMut(usize, Vec<(Vec<f64>, (Level, Scale))>) -> Result<()>,
    ) -> Result<()> {
        let (ranges, bits) = (&self.outline.ranges, self.outline.precision_bits);
        if Outline::of(network, ranges, bits)? != self.outline {
            return Err(NnError::Network { problem: "is not the one that was planned for".into() });
        }
        let mut first = 0;
        for (stage, layer) in stages(network)?.iter().zip(&self.layers) {
            let dense = layer.dense(&stage.affine);
            for start in (0..layer.parts()).step_by(CHUNK) {
                let parts = start..layer.parts().min(start + CHUNK);
                let slots = |part: usize| match part + 1 == layer.parts() {
                    true => (layer.padded(&stage.affine.bias), layer.bias),
                    false => (layer.diagonal(&dense, part), layer.weights),
                };
                each(first + start, parts.map(slots).collect())?;
            }
            first += layer.parts();
        }
        Ok(())
    }

    /// Encrypts a sample.
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`] for a feature outside its range;
    /// [`NnError::Library`] if the encryptor has other parameters.
    pub fn encrypt(
        &self,
        encryptor: &SymmetricEncryptor,
        sample: &[f64],
    ) -> Result<Seeded<Ciphertext>> {
        Ok(encryptor.encrypt_seeded(&self.encode((self.message(sample)?, self.input))?)?)
    }

    fn message(&self, sample: &[f64]) -> Result<Vec<f64>> {
        expect("features of a sample", sample.len(), self.outline.features)?;
        self.outline.ranges.check_input(0, sample)?;
        let mut slots = sample.to_vec();
        slots.resize(1 << self.layers.first().map_or(0, |layer| layer.log_slots[0]), 0.0);
        Ok(slots)
    }

    /// Computes the network on an encrypted sample, on any evaluator with the plan's chain. `read`
    /// gives the ciphertext of weights with a number, of which few are held at a time.
    ///
    /// # Errors
    /// [`NnError::NotAsPlanned`] for ciphertexts of another level, scale or number of slots, or an
    /// evaluator of other parameters; [`NnError::Library`] for a missing key or ciphertexts of
    /// another one; those of `read`.
    pub fn run<E: ComplexOps>(
        &self,
        ev: &E,
        mut read: impl FnMut(usize) -> Result<E::Ct>,
        sample: &E::Ct,
    ) -> Result<E::Ct> {
        super::run::check_evaluator(&self.params, ev)?;
        check_form(ev, "an encrypted sample", sample, self.input)?;
        let (mut x, mut first) = (sample.clone(), 0);
        for layer in &self.layers {
            x = layer.run(ev, &mut |part| read(first + part), &x)?;
            if let Some(applied) = &layer.applied {
                x = applied.run(ev, core::slice::from_ref(&x))?.remove(0);
            }
            first += layer.parts();
        }
        Ok(x)
    }

    /// The result of a sample, from what [`HiddenPlan::run`] gave for it.
    ///
    /// # Errors
    /// [`NnError::OutOfRange`] for a result outside its range, which a sample has made that is not
    /// like those of the calibration; [`NnError::Library`].
    pub fn decrypt(&self, decryptor: &Decryptor, result: &Ciphertext) -> Result<Vec<f64>> {
        let slots = Encoder::new(&self.params).decode_real(&decryptor.decrypt(result)?)?;
        self.read(slots)
    }

    fn read(&self, mut slots: Vec<f64>) -> Result<Vec<f64>> {
        let outputs = self.outline.layers.last().map_or(0, |layer| layer.outputs);
        if slots.len() < outputs {
            let (what, needed) = ("slots of a result", format!("{outputs} or more"));
            return Err(NnError::Shape { what, found: slots.len(), needed });
        }
        slots.truncate(outputs);
        // Beside errors of encryption, eight times as large as planned.
        let most =
            self.outline.ranges.output * (1.0 + real::exp2(3.0 - self.outline.precision_bits));
        check_within("result", 0, &slots, [-most, most])?;
        Ok(slots)
    }

    /// Runs the plan on a network and a sample in the clear, through the same steps as encrypted
    /// ones: the result without errors by encryption.
    ///
    /// # Errors
    /// As [`HiddenPlan::encrypt_weights`], [`HiddenPlan::encrypt`] and [`HiddenPlan::run`].
    pub fn simulate(&self, network: &Network, sample: &[f64]) -> Result<Vec<f64>> {
        let ev = sim::Evaluator::for_params(&self.params);
        let encrypt = |slots: &[f64], (level, scale): (Level, Scale)| {
            let slots: Vec<_> = slots.iter().map(|&x| Complex::new(x, 0.0)).collect();
            ev.encrypt(&slots, level, scale)
        };
        let mut weights = Vec::new();
        self.each_weight(network, |_, chunk| {
            for (slots, form) in chunk {
                weights.push(encrypt(&slots, form)?);
            }
            Ok(())
        })?;
        let x = encrypt(&self.message(sample)?, self.input)?;
        let result = self.run(&ev, |part| Ok(weights[part].clone()), &x)?;
        self.read(ev.decrypt(&result).iter().map(|slot| slot.re).collect())
    }
}

impl HiddenLayer {
    /// Ciphertexts: diagonals, and the bias.
    fn parts(&self) -> usize {
        (1 << self.log_slots[1]) + 1
    }

    /// The weights row after row, with zeros for rows and columns that there are not.
    fn dense(&self, affine: &Affine) -> Vec<f64> {
        let [columns, rows] = self.log_slots.map(|log| 1usize << log);
        let mut dense = vec![0.0; rows * columns];
        for (row, weights) in dense.chunks_exact_mut(columns).zip(&affine.rows) {
            for &(column, weight) in weights {
                row[column] = weight;
            }
        }
        dense
    }

    fn padded(&self, bias: &[f64]) -> Vec<f64> {
        let mut slots = bias.to_vec();
        slots.resize(1 << self.log_slots[1], 0.0);
        slots
    }

    /// Diagonal `k`, whose entry `i` meets number `i + k` of the sample, rotated back by its giant
    /// step.
    fn diagonal(&self, dense: &[f64], k: usize) -> Vec<f64> {
        let [columns, rows] = self.log_slots.map(|log| 1usize << log);
        let giant = k - k % self.babies;
        let entry = |slot: usize| {
            let i = slot + columns - giant;
            dense[i % rows * columns + (i + k) % columns]
        };
        (0..columns).map(entry).collect()
    }

    fn run<E: ComplexOps>(
        &self,
        ev: &E,
        read: &mut dyn FnMut(usize) -> Result<E::Ct>,
        x: &E::Ct,
    ) -> Result<E::Ct> {
        let [columns, rows] = self.log_slots;
        let x = ev.with_log_slots(x, columns)?;
        let turned = par::try_map(0..self.babies, |turn| match turn {
            0 => Ok(x.clone()),
            _ => ev.rotate(&x, turn as i64),
        })?;
        let mut sum: Option<E::Ct> = None;
        for giant in (0..1 << rows).step_by(self.babies) {
            let weights = (giant..giant + self.babies).map(|part| {
                let weights = read(part)?;
                check_weights(ev, &weights, self.weights, columns)?;
                Ok(weights)
            });
            let weights = weights.collect::<Result<Vec<_>>>()?;
            let products = turned.iter().zip(&weights).collect();
            let product = ev.mul_sum_rescale(&ProductSum { products, addend: None })?;
            let product = match giant {
                0 => product,
                _ => ev.rotate(&product, giant as i64)?,
            };
            sum = Some(match sum {
                None => product,
                Some(sum) => ev.add(&sum, &product)?,
            });
        }
        let missing = || sudare::Error::Circuit("a layer of no rows".into());
        let sum = ev.with_scale(&sum.ok_or_else(missing)?, self.bias.1)?;
        let sum = ev.with_log_slots(&self.sum.run(ev, &sum)?, rows)?;
        let bias = read(1 << rows)?;
        check_weights(ev, &bias, self.bias, rows)?;
        Ok(ev.add(&sum, &bias)?)
    }
}

fn check_weights<E: ComplexOps>(
    ev: &E,
    weights: &E::Ct,
    form: (Level, Scale),
    log_slots: u32,
) -> Result<()> {
    check_form(ev, "a ciphertext of weights", weights, form)?;
    expect("slots of encrypted weights", 1 << ev.log_slots(weights), 1 << log_slots)
}
