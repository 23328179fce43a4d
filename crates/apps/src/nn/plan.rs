//! Levels, scales and keys of a network, and what the owner does by them.

use serde::{Deserialize, Serialize};
use sudare::{
    circuits::{LinearPlan, LinearTransform, PolynomialPlan, Trace, TracePlan},
    ckks::{
        Ciphertext, Complex, Decryptor, Encoder, Params, Plaintext, Scale, SymmetricEncryptor,
        serial,
    },
    rlwe::{EncryptionKey, Encryptor, KeyRequest, Level, Seeded},
};
use sudare_arith::{par, real};

use super::{
    affine::{Affine, Function, Stage, stages},
    draft::{self, draft, log2_fresh, log2_rounding},
    error::{NnError, Result, expect},
    model::Network,
    ranges::{Ranges, check_within},
};

/// The most samples of a plan.
const MAX_SAMPLES: usize = 1 << 16;
/// Bits of precision that can be asked for.
pub(super) const PRECISION_BITS: core::ops::RangeInclusive<f64> = 2.0..=30.0;
/// So many samples take less time one by one.
const FEW_SAMPLES: usize = 2;

/// What slots hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// A ciphertext holds one feature of many samples. Layers are sums of ciphertexts times numbers,
    /// without rotations: time and bytes are the same for one sample and for as many as there are
    /// slots.
    Features,
    /// A ciphertext holds one sample. Layers are products of matrices with slots by diagonals.
    Sample,
}

/// What to plan for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Samples that are encrypted together, 1 to 2^16; they may take several runs.
    pub samples: usize,
    /// What slots hold.
    pub packing: Packing,
    /// `-log2` of the tolerable error of each activation by encryption, as a part of its range, 2
    /// to 30. To classify takes few bits.
    pub precision_bits: f64,
}

impl Options {
    /// The packing of least time for so many samples, at eight bits.
    #[must_use]
    pub fn for_samples(samples: usize) -> Self {
        let few = samples <= FEW_SAMPLES;
        let packing = if few { Packing::Sample } else { Packing::Features };
        Self { samples, packing, precision_bits: 8.0 }
    }
}

/// How to compute a network on encrypted samples: made by owner and server alike from the network,
/// its ranges and what is planned for, with the smallest ring at 128 bits of security that does.
///
/// Affine layers that follow each other are one, and polynomials of degree 2 are squares. Features
/// that no weight touches are not encrypted.
///
/// [`Packing::Features`] with squares alone has the shortest modulus: integers as weights are
/// products without a rescaling, each square is divided by a prime as large as its excess only, and
/// samples are encrypted under the secret key. Exact integers of BGV would need a plaintext modulus
/// for the largest result, which doubles in length with every square: for two squares and weights of
/// five bits over 90 bits, more than the whole modulus here, which forgets the lowest bits instead.
/// Slots stay real: the square of a complex number is not that of its parts, and a conjugation that
/// separates them costs more than the half of the first layer that it would save.
///
/// [`Packing::Sample`] multiplies with matrices by diagonals as long as a row, of which there are as
/// many as the matrix has rows; sums over the rest of the slots follow (Juvekar, Vaikuntanathan,
/// Chandrakasan, "GAZELLE" ([2018/073](https://eprint.iacr.org/2018/073)), section 4). Deviation:
/// numbers of rows are padded to powers of two, and diagonals are summed by baby and giant steps.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) stages: Vec<Stage>,
    ranges: Ranges,
    options: Options,
    params: Params,
    /// Features of a sample that are encrypted.
    used: Vec<usize>,
    features: usize,
    slots: usize,
    pub(super) steps: Vec<Step>,
    pub(super) input: (Level, Scale),
    keys: KeyRequest,
    error: f64,
}

/// A stage with levels and scales.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Of weights, where ciphertexts are multiplied by numbers.
    pub(super) weights: Scale,
    /// Whether such products are rescaled.
    pub(super) rescales: bool,
    /// Where slots are multiplied by a matrix.
    pub(super) matrix: Option<Matrix>,
    pub(super) applied: Option<Applied>,
}

/// A product with slots.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    pub(super) plan: LinearPlan,
    /// Over slots that hold parts of the same row.
    pub(super) sum: TracePlan,
    /// `log2` of columns, and of rows.
    pub(super) log_slots: [u32; 2],
}

#[derive(Debug, Clone)]
pub(super) enum Applied {
    Square { rescales: bool },
    Polynomial(Box<PolynomialPlan>),
}

/// What a plan says of itself, before a key is made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// `log2(N)`.
    pub log_n: u32,
    /// Bits of the modulus with special primes.
    pub log2_qp: f64,
    /// Levels that are used.
    pub levels: u32,
    /// Samples of one run.
    pub samples: usize,
    /// Ciphertexts that are sent for one run.
    pub inputs: usize,
    /// Bytes of these in a file; half by [`Plan::encrypt_seeded`].
    pub input_bytes: u64,
    /// Ciphertexts of the result of one run.
    pub outputs: usize,
    /// Evaluation keys.
    pub keys: usize,
    /// Bytes of these in a file.
    pub key_bytes: u64,
    /// The standard deviation of the error of a result by encryption, at the ends of all ranges.
    pub error: f64,
}

impl Plan {
    /// Plans a network for inputs within these ranges.
    ///
    /// # Errors
    /// [`NnError::Shape`] for ranges of another network, or a number of samples or bits that is not
    /// possible; [`NnError::Network`]; [`NnError::TooDeep`]; [`NnError::Library`].
    pub fn new(network: &Network, ranges: &Ranges, options: Options) -> Result<Self> {
        let mut stages = stages(network)?;
        ranges.check_stages(&stages)?;
        let count = |what, found, needed: String| Err(NnError::Shape { what, found, needed });
        if !(1..=MAX_SAMPLES).contains(&options.samples) {
            return count("samples", options.samples, format!("1 to {MAX_SAMPLES}"));
        }
        if !PRECISION_BITS.contains(&options.precision_bits) {
            let needed = "2 to 30".into();
            return count("bits of precision", options.precision_bits as usize, needed);
        }
        let used = keep_used(&mut stages);
        let widest = stages.iter().map(|s| s.affine.inputs.max(s.affine.rows.len())).max();
        let log2_slots = match options.packing {
            Packing::Features => 0,
            Packing::Sample => widest.unwrap_or(1).next_power_of_two().ilog2(),
        };
        let draft = draft(&stages, ranges, options.packing, options.precision_bits, log2_slots)?;
        let params = Params::new(draft.spec.clone())?;
        let top = params.top();
        let mut plan = Self {
            features: network.inputs(),
            slots: params.max_slots().min(options.samples.next_power_of_two()),
            input: (top, draft.input.unwrap_or_else(|| params.scale_at(top))),
            steps: Vec::new(),
            keys: KeyRequest::new(),
            error: f64::INFINITY,
            ranges: ranges.clone(),
            stages,
            options,
            used,
            params,
        };
        if options.packing == Packing::Sample {
            plan.slots = 1;
        }
        plan.lay_out(&draft)?;
        plan.error = plan.predicted_error();
        Ok(plan)
    }

    /// Fixes levels and scales of all stages.
    fn lay_out(&mut self, draft: &draft::Draft) -> Result<()> {
        let (mut level, mut scale) = self.input;
        let mut period = 1;
        for k in 0..self.stages.len() {
            let affine = &self.stages[k].affine;
            let (chain, params) = (self.params.chain(), &self.params);
            let even = draft.weights.is_empty();
            let mut matrix = None;
            let weights;
            match (even, self.options.packing) {
                (false, _) => {
                    weights = draft.weights[k];
                    scale = scale * weights;
                }
                (true, packing) => {
                    let below = below(level)?;
                    let out = params.scale_at(below);
                    weights = out * chain.divisor(level) / scale;
                    if packing == Packing::Sample {
                        let planned = Matrix::new(affine, period, params, (level, scale, out))?;
                        self.keys |= planned.plan.required_keys().clone();
                        self.keys |= planned.sum.required_keys(below);
                        period = 1 << planned.log_slots[1];
                        matrix = Some(planned);
                    }
                    (level, scale) = (below, out);
                }
            }
            let range = self.ranges.activations.get(k).copied().unwrap_or(self.ranges.output);
            let applied = match &self.stages[k].function {
                None => None,
                Some(function) => {
                    let form = (level, scale);
                    let (applied, form) =
                        Applied::new(function, range, params, form, &mut self.keys)?;
                    (level, scale) = form;
                    Some(applied)
                }
            };
            self.steps.push(Step { weights, rescales: even, matrix, applied });
        }
        Ok(())
    }

    /// The standard deviation of the error of a result, with all numbers at the ends of their
    /// ranges.
    fn predicted_error(&self) -> f64 {
        let log_n = self.params.log_n();
        let rounding = |scale: Scale| real::exp2(log2_rounding(log_n) - scale.log2());
        let chain = self.params.chain();
        let (mut level, mut scale) = self.input;
        let mut error = real::exp2(log2_fresh(log_n) - scale.log2());
        let mut largest = self.ranges.largest_input();
        for (k, (stage, step)) in self.stages.iter().zip(&self.steps).enumerate() {
            let range = self.ranges.activations.get(k).copied().unwrap_or(self.ranges.output);
            let exact = stage.affine.step.is_some() && step.matrix.is_none() && !step.rescales;
            let weight = match &step.matrix {
                // Each coefficient of a diagonal is rounded.
                Some(matrix) => {
                    real::exp2(0.5 * f64::from(log_n)) / matrix.plan.weight_scale().to_f64()
                }
                None => 1.0 / step.weights.to_f64(),
            };
            let weight = if exact { 0.0 } else { weight * largest };
            let widest = stage.affine.widest() as f64;
            error = real::hypot(stage.affine.norm() * error, weight * (widest / 12.0).sqrt());
            scale = scale * step.matrix.as_ref().map_or(step.weights, |m| m.plan.weight_scale());
            if step.rescales {
                scale = scale / chain.divisor(level);
                level = Level(level.0.saturating_sub(1));
                error = real::hypot(error, rounding(scale));
            }
            if let Some(matrix) = &step.matrix {
                let parts = f64::from(1u32 << (matrix.log_slots[0] - matrix.log_slots[1]));
                error *= parts.sqrt();
            }
            match (&step.applied, &stage.function) {
                (Some(Applied::Square { rescales }), _) => {
                    (error, largest, scale) = (2.0 * range * error, range * range, scale * scale);
                    if *rescales {
                        scale = scale / chain.divisor(level);
                        level = Level(level.0.saturating_sub(1));
                        error = real::hypot(error, rounding(scale));
                    }
                }
                (Some(Applied::Polynomial(plan)), Some(function)) => {
                    (level, scale) = (plan.output_level(), plan.output_scale());
                    let (slope, most) = steepest(function, range);
                    // Its own roundings are some times that of the result.
                    error = real::hypot(slope * error, 4.0 * most.max(1.0) * rounding(scale));
                    largest = most;
                }
                _ => {}
            }
        }
        error
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The ranges planned for.
    #[must_use]
    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// What was planned for.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// Keys that the server needs.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.keys
    }

    /// The most samples of one run.
    #[must_use]
    pub fn samples_per_run(&self) -> usize {
        self.slots
    }

    /// Ciphertexts of the samples of one run.
    #[must_use]
    pub fn inputs(&self) -> usize {
        match self.options.packing {
            Packing::Features => self.used.len(),
            Packing::Sample => 1,
        }
    }

    /// Ciphertexts of the results of one run.
    #[must_use]
    pub fn outputs(&self) -> usize {
        match self.options.packing {
            Packing::Features => self.results(),
            Packing::Sample => 1,
        }
    }

    /// Numbers of a result.
    fn results(&self) -> usize {
        self.stages.last().map_or(0, |stage| stage.affine.rows.len())
    }

    /// Level and scale of encrypted samples.
    #[must_use]
    pub fn input_form(&self) -> (Level, Scale) {
        self.input
    }

    /// What a run takes.
    ///
    /// # Errors
    /// [`NnError::Library`].
    pub fn explain(&self) -> Result<Explanation> {
        let rlwe = self.params.rlwe();
        let spec = self.params.spec();
        let bytes = spec.q_bits.iter().flatten().map(|bits| (bits / 8.0).ceil() as u64);
        let inputs = self.inputs();
        Ok(Explanation {
            log_n: spec.log_n,
            log2_qp: rlwe.log2_q(self.params.top()) + spec.p_bits.iter().sum::<f64>(),
            levels: self.params.top().0,
            samples: self.slots,
            inputs,
            input_bytes: inputs as u64 * 2 * (bytes.sum::<u64>() << spec.log_n),
            outputs: self.outputs(),
            keys: self.keys.count(),
            key_bytes: serial::evaluation_keys_bytes(
                &self.params,
                &self.keys,
                &serial::Label::default(),
            )?,
            error: self.error,
        })
    }

    /// The standard deviation of the error of a result by encryption, if all numbers are at the ends
    /// of their ranges; less where they are not.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.error
    }

    /// The result for a sample in the clear, with the polynomials that encrypted samples go
    /// through.
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`]; [`NnError::Library`].
    pub fn clear(&self, sample: &[f64]) -> Result<Vec<f64>> {
        self.check_sample(0, sample)?;
        let mut x: Vec<f64> = self.used.iter().map(|&i| sample[i]).collect();
        for (k, stage) in self.stages.iter().enumerate() {
            x = stage.affine.apply(&x);
            let Some(function) = &stage.function else { continue };
            let polynomial = function.polynomial(self.ranges.activations[k])?;
            for x in &mut x {
                *x = polynomial.as_ref().map_or_else(|| function.value(*x), |p| p.evaluate(*x));
            }
        }
        Ok(x)
    }

    /// Encrypts samples for one run: as many as [`Plan::samples_per_run`] at most. Under the secret
    /// key, for which a plan is made, or a public key, whose errors are larger by a factor of
    /// `sqrt(4 N / 3)`.
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`] for a feature outside its range;
    /// [`NnError::Library`] if the encryptor has other parameters.
    pub fn encrypt<K: EncryptionKey + Send + Sync>(
        &self,
        encryptor: &Encryptor<Params, K>,
        samples: &[&[f64]],
    ) -> Result<Vec<Ciphertext>> {
        self.encrypted(samples, |slots| encryptor.encrypt(slots))
    }

    /// As [`Plan::encrypt`], for files of half the bytes.
    ///
    /// # Errors
    /// As [`Plan::encrypt`].
    pub fn encrypt_seeded(
        &self,
        encryptor: &SymmetricEncryptor,
        samples: &[&[f64]],
    ) -> Result<Vec<Seeded<Ciphertext>>> {
        self.encrypted(samples, |slots| encryptor.encrypt_seeded(slots))
    }

    fn encrypted<C: Send>(
        &self,
        samples: &[&[f64]],
        encrypt: impl Fn(&Plaintext) -> sudare::Result<C> + Sync,
    ) -> Result<Vec<C>> {
        let encoder = Encoder::new(&self.params);
        let (level, scale) = self.input;
        par::try_map(self.messages(samples)?, |slots| {
            Ok(encrypt(&encoder.encode_real(&slots, level, scale)?)?)
        })
    }

    /// What the slots of each ciphertext are to hold.
    pub(super) fn messages(&self, samples: &[&[f64]]) -> Result<Vec<Vec<f64>>> {
        if !(1..=self.slots).contains(&samples.len()) {
            let (what, found) = ("samples of one run", samples.len());
            return Err(NnError::Shape { what, found, needed: format!("1 to {}", self.slots) });
        }
        for (i, sample) in samples.iter().enumerate() {
            self.check_sample(i, sample)?;
        }
        Ok(match self.options.packing {
            Packing::Features => {
                let slots = |&feature: &usize| {
                    let mut slots: Vec<f64> = samples.iter().map(|x| x[feature]).collect();
                    slots.resize(self.slots, 0.0);
                    slots
                };
                self.used.iter().map(slots).collect()
            }
            Packing::Sample => {
                let mut slots: Vec<f64> = self.used.iter().map(|&i| samples[0][i]).collect();
                let columns = self.steps.first().and_then(|step| step.matrix.as_ref());
                slots.resize(1 << columns.map_or(0, |matrix| matrix.log_slots[0]), 0.0);
                vec![slots]
            }
        })
    }

    fn check_sample(&self, number: usize, sample: &[f64]) -> Result<()> {
        expect("features of a sample", sample.len(), self.features)?;
        self.ranges.check_input(number, sample)
    }

    /// The results of so many samples, from what [`Plan::run`] gave for them.
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`] for a result outside its range, which a sample
    /// has made that is not like those of the calibration: others of the run hold;
    /// [`NnError::Library`].
    pub fn decrypt(
        &self,
        decryptor: &Decryptor,
        results: &[Ciphertext],
        samples: usize,
    ) -> Result<Vec<Vec<f64>>> {
        let encoder = Encoder::new(&self.params);
        let slots = par::try_map(results.iter(), |result| {
            encoder.decode_real(&decryptor.decrypt(result)?)
        })?;
        self.read(&slots, samples)
    }

    /// The results in slots.
    pub(super) fn read(&self, slots: &[Vec<f64>], samples: usize) -> Result<Vec<Vec<f64>>> {
        expect("ciphertexts of a result", slots.len(), self.outputs())?;
        let results = self.results();
        let needed = match self.options.packing {
            Packing::Features => samples,
            Packing::Sample => results,
        };
        let fewest = slots.iter().map(Vec::len).min().unwrap_or(0);
        if !(1..=self.slots).contains(&samples) || fewest < needed {
            let (what, needed) = ("samples of one run", format!("1 to {}", self.slots));
            return Err(NnError::Shape { what, found: samples, needed });
        }
        let most = self.ranges.output + 8.0 * self.error;
        let result = |sample: usize| {
            let result: Vec<f64> = match self.options.packing {
                Packing::Features => slots.iter().map(|slots| slots[sample]).collect(),
                Packing::Sample => slots[0][..results].to_vec(),
            };
            check_within("result", sample, &result, [-most, most])?;
            Ok(result)
        };
        (0..samples).map(result).collect()
    }
}

impl Matrix {
    /// For slots that repeat after `period`, at this level and scale to the one below.
    fn new(
        affine: &Affine,
        period: usize,
        params: &Params,
        (level, scale, out): (Level, Scale, Scale),
    ) -> Result<Self> {
        let rows = affine.rows.len().next_power_of_two();
        let columns = affine.inputs.next_power_of_two().max(rows).max(period);
        let mut dense = vec![0.0; rows * columns];
        for (i, row) in affine.rows.iter().enumerate() {
            for &(j, weight) in row {
                dense[i * columns + j] = weight;
            }
        }
        let diagonal = |k: usize| -> Vec<Complex<f64>> {
            let entry = |i: usize| dense[(i % rows) * columns + (i + k) % columns];
            (0..columns).map(|i| Complex::new(entry(i), 0.0)).collect()
        };
        let zero = |diagonal: &[Complex<f64>]| diagonal.iter().all(|entry| entry.re == 0.0);
        let diagonals = (0..rows).map(|k| (k, diagonal(k)));
        let diagonals = diagonals.filter(|(_, diagonal)| !zero(diagonal)).collect();
        let log_slots = [columns, rows].map(usize::ilog2);
        let transform = LinearTransform::new(log_slots[0], diagonals)?;
        let plan = transform.plan(params.log_n(), params.chain(), level, scale, out)?;
        let sum = Trace::inner_sum(params.log_n(), rows, columns / rows)?.doubling();
        Ok(Self { plan, sum, log_slots })
    }
}

impl Applied {
    /// For numbers within `range` of this level and scale, with the form of the result. Adds the keys
    /// that it takes.
    pub(super) fn new(
        function: &Function,
        range: f64,
        params: &Params,
        (mut level, mut scale): (Level, Scale),
        keys: &mut KeyRequest,
    ) -> Result<(Self, (Level, Scale))> {
        let chain = params.chain();
        let Some(polynomial) = function.polynomial(range)? else {
            *keys |= KeyRequest::new().relinearize(level);
            let rescales = level > Level(0);
            scale = scale * scale;
            if rescales {
                scale = scale / chain.divisor(level);
                level = below(level)?;
            }
            return Ok((Self::Square { rescales }, (level, scale)));
        };
        let plan = polynomial.plan_to(chain, level, scale, |level| Ok(params.scale_at(level)))?;
        *keys |= plan.required_keys().clone();
        let form = (plan.output_level(), plan.output_scale());
        Ok((Self::Polynomial(Box::new(plan)), form))
    }
}

/// One level down.
pub(super) fn below(level: Level) -> Result<Level> {
    let needed = sudare::Error::LevelExhausted { op: "a layer", needed: 1, level };
    level.0.checked_sub(1).map(Level).ok_or(NnError::Library(needed))
}

/// Drops the features that no weight of the first stage touches, and names those that are left.
fn keep_used(stages: &mut [Stage]) -> Vec<usize> {
    let Some(Stage { affine, .. }) = stages.first_mut() else { return Vec::new() };
    let mut places = vec![None; affine.inputs];
    for &(i, _) in affine.rows.iter().flatten() {
        places[i] = Some(0);
    }
    let used: Vec<usize> = (0..affine.inputs).filter(|&i| places[i].is_some()).collect();
    for (place, &i) in used.iter().enumerate() {
        places[i] = Some(place);
    }
    for (i, _) in affine.rows.iter_mut().flatten() {
        *i = places[*i].unwrap_or(0);
    }
    affine.inputs = used.len();
    used
}

/// The largest slope and magnitude of a function on `[-r, r]`, by samples.
fn steepest(function: &Function, r: f64) -> (f64, f64) {
    const SAMPLES: usize = 512;
    let at = |i: usize| function.value(r * (2.0 * i as f64 / SAMPLES as f64 - 1.0));
    let width = 2.0 * r / SAMPLES as f64;
    (0..SAMPLES).map(|i| (at(i), at(i + 1))).fold((0.0, 0.0), |(slope, most), (a, b)| {
        (f64::max(slope, (b - a).abs() / width), f64::max(most, a.abs().max(b.abs())))
    })
}
