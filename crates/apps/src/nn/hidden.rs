//! Networks whose weights are encrypted for the server, like the samples.

use core::iter::repeat_n;

use serde::Serialize;
use sudare::{
    circuits::{
        Trace, TracePlan,
        ckks::{
            ComplexOps,
            bootstrap::BootstrapPreset,
            cost::{self, Rates, Work},
        },
    },
    ckks::{
        Ciphertext, Complex, Decryptor, Encoder, Params, Plaintext, ProductSum, Scale,
        SymmetricEncryptor, serial,
    },
    rlwe::{KeyRequest, Level, Seeded},
};
use sudare_arith::{par, real};

use super::{
    affine::{Source, stages, walk},
    error::{NnError, Result, expect},
    job::Job,
    map::Map,
    model::Network,
    options::Packing,
    outline::Outline,
    ranges::check_within,
    refresh::Refresh,
    run::{Counted, Prepared, check_evaluator, check_form, zero},
    setup::{Setup, planned},
    steps::{After, Design, Value},
    uses::LastUses,
};

/// Number of ciphertexts that are encrypted or read together. It limits the memory in use.
const CHUNK: usize = 16;

/// Plan to compute a network with encrypted weights, one sample at a time. Owner and server make
/// the same plan from its [`Outline`].
///
/// Samples, weights and results are encrypted under one key, which belongs to their owner. The
/// server learns the outline and nothing else.
///
/// A sample is in one ciphertext. The weights of a matrix are one ciphertext for each diagonal. The
/// number of diagonals is the number of rows, rounded up to a power of two. Products of diagonals
/// with the rotated sample share relinearisations, by baby and giant steps. The owner rotates the
/// diagonals of a giant step before encryption (Halevi, Shoup, "Bootstrapping for HElib"
/// ([2014/873](https://eprint.iacr.org/2014/873)), section 4.3, for plain matrices). Sums over
/// parts of rows follow, as in [`Packing::Sample`](super::Packing::Sample).
///
/// A sum of several values, for example at the end of a residual block, needs a matrix for each
/// value. The server does not learn which values are added unchanged. Successive blocks without an
/// activation between them need a matrix for each block before.
#[derive(Debug, Clone)]
pub struct HiddenPlan {
    outline: Outline,
    params: Params,
    input: (Level, Scale),
    layers: Vec<HiddenLayer>,
    refresh: Option<Refresh>,
    keys: KeyRequest,
}

/// Sizes and cost of a plan with encrypted weights, before a key exists.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HiddenExplanation {
    /// `log2(N)`.
    pub log_n: u32,
    /// Bits of the largest modulus with special primes.
    pub log2_qp: f64,
    /// The level of encrypted samples.
    pub levels: u32,
    /// Ciphertexts of the weights.
    pub weights: usize,
    /// Size of the weights in a file, in bytes. A seed replaces half of each ciphertext.
    pub weight_bytes: u64,
    /// Size of an encrypted sample in a file, in bytes.
    pub input_bytes: u64,
    /// Number of evaluation keys.
    pub keys: usize,
    /// Size of the keys in a file, in bytes.
    pub key_bytes: u64,
    /// The parameter set of bootstrapping, if any.
    pub bootstrapping: Option<String>,
    /// Number of ciphertexts that a run bootstraps.
    pub bootstraps: usize,
    /// Estimated seconds of a run with one thread on the machine of `docs/performance.md`, without
    /// reading the weights.
    pub seconds: f64,
}

/// A layer with levels and scales.
#[derive(Debug, Clone)]
struct HiddenLayer {
    /// Level of the weights, and of the values that they multiply.
    level: Level,
    /// One matrix for each input value of the layer, all with the same number of rows.
    matrices: Vec<HiddenMatrix>,
    /// Level and scale of the bias, which match the sum of all products.
    bias: (Level, Scale),
    after: After,
}

/// A product of encrypted diagonals with slots.
#[derive(Debug, Clone)]
struct HiddenMatrix {
    /// Index of the value that the matrix multiplies. The sample is 0.
    source: usize,
    /// `log2` of the numbers of columns and of rows.
    log_slots: [u32; 2],
    /// Number of diagonals of a giant step.
    babies: usize,
    /// Scale of the weights.
    scale: Scale,
    /// Sum over slots that hold parts of the same row.
    sum: TracePlan,
}

impl HiddenPlan {
    /// Plans a network at 128 bits of security. If a ring has enough levels there is no
    /// bootstrapping. Otherwise the plan uses a bootstrapping set. Ring and set are chosen as in
    /// [`Plan::new`](super::Plan::new).
    ///
    /// # Errors
    /// [`NnError::Network`], [`NnError::Layer`] and [`NnError::Shape`] for an outline that no
    /// network has; [`NnError::DeepActivation`]; [`NnError::TooDeep`]; [`NnError::Library`].
    pub fn new(outline: &Outline) -> Result<Self> {
        let seconds = |plan: &Self| Ok(plan.seconds_of(plan.work()?.0));
        planned(outline.job()?, |job, setup| Self::of(&job, setup, outline), seconds)
    }

    /// Plans a network that bootstraps with `set` where its levels run out.
    ///
    /// # Errors
    /// The errors of [`HiddenPlan::new`]; [`NnError::Library`] also for layers too wide for the
    /// set's ring.
    pub fn with_bootstrapping(outline: &Outline, set: &BootstrapPreset) -> Result<Self> {
        let job = outline.job()?;
        let setup = Setup::bootstrapped(&job, set)?;
        Self::of(&job, setup, outline)
    }

    fn of(job: &Job, setup: Setup, outline: &Outline) -> Result<Self> {
        let design = Design { job, setup: &setup };
        let (level, scale) = setup.input;
        let mut values = vec![Value { level, scale }];
        let mut layers = Vec::new();
        let mut keys = KeyRequest::new();
        for (number, stage) in job.stages.iter().enumerate() {
            let (level, sources) = design.taken(number, &values);
            let (below, out) = design.below(number, level)?;
            let rows = stage.affine.outputs().next_power_of_two();
            let matrix = |(source, value): (&Source, &Value)| {
                HiddenMatrix::new(rows, *source, *value, &setup.params, (level, out))
            };
            let matrices = stage.sources.iter().zip(&sources).map(matrix);
            let matrices = matrices.collect::<Result<Vec<_>>>()?;
            for matrix in &matrices {
                keys |= matrix.required_keys(setup.params.log_n(), level, below);
            }
            let mapped = Value { level: below, scale: out };
            let (after, value) = design.after(number, mapped, &mut keys)?;
            layers.push(HiddenLayer { level, matrices, bias: (below, out), after });
            values.push(value);
        }
        let keys = setup.all_keys(keys);
        let Setup { params, input, refresh, .. } = setup;
        Ok(Self { outline: outline.clone(), params, input, layers, refresh, keys })
    }

    /// Returns the outline of the network.
    #[must_use]
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Returns the keys that the server needs.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.keys
    }

    /// Returns the sizes and the cost of the plan.
    ///
    /// # Errors
    /// [`NnError::Library`].
    pub fn explain(&self) -> Result<HiddenExplanation> {
        let params = &self.params;
        let label = serial::Label::default();
        let rlwe = params.rlwe();
        let half = |level: Level| rlwe.basis().packed_bytes(rlwe.limbs(level));
        let (work, bootstraps) = self.work()?;
        Ok(HiddenExplanation {
            log_n: params.log_n(),
            log2_qp: rlwe.log2_qp(params.upper_top()),
            levels: self.input.0.0,
            weights: self.weights(),
            weight_bytes: self.weight_forms().map(|(level, ..)| half(level)).sum(),
            input_bytes: 2 * half(self.input.0),
            keys: self.keys.count(),
            key_bytes: serial::evaluation_keys_bytes(params, &self.keys, &label)?,
            bootstrapping: self.refresh.as_ref().map(|refresh| refresh.name.clone()),
            bootstraps,
            seconds: self.seconds_of(work),
        })
    }

    fn seconds_of(&self, work: Work) -> f64 {
        work.seconds(&Rates::reference(self.params.log_n()))
    }

    /// Returns the number of ciphertexts of the weights.
    #[must_use]
    pub fn weights(&self) -> usize {
        self.layers.iter().map(HiddenLayer::parts).sum()
    }

    /// Returns the level, the scale and `log2` of the slots of each ciphertext of the weights.
    pub fn weight_forms(&self) -> impl Iterator<Item = (Level, Scale, u32)> {
        self.layers.iter().flat_map(|layer| {
            let diagonals = layer.matrices.iter().flat_map(|matrix| {
                let form = (layer.level, matrix.scale, matrix.log_slots[0]);
                repeat_n(form, matrix.diagonals())
            });
            let (level, scale) = layer.bias;
            diagonals.chain([(level, scale, layer.log2_rows())])
        })
    }

    /// Encrypts the weights of the network, and passes the [`HiddenPlan::weights`] ciphertexts to
    /// `write` one after the other.
    ///
    /// # Errors
    /// [`NnError::Network`] for a network of another outline; [`NnError::Library`] if the encryptor
    /// has other parameters; the errors of `write`.
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
        Encoder::new(&self.params).encode_real_at(&slots, level, scale)
    }

    /// Calls `each` with chunks of plaintexts, and the number of the first ciphertext of each
    /// chunk.
    fn each_weight(
        &self,
        network: &Network,
        mut each: impl FnMut(usize, Vec<(Vec<f64>, (Level, Scale))>) -> Result<()>,
    ) -> Result<()> {
        self.check_network(network)?;
        let mut first = 0;
        for (stage, layer) in stages(network)?.iter().zip(&self.layers) {
            for (matrix, map) in layer.matrices.iter().zip(&stage.affine.maps) {
                let dense = matrix.dense(map);
                for start in (0..matrix.diagonals()).step_by(CHUNK) {
                    let numbers = start..matrix.diagonals().min(start + CHUNK);
                    let form = (layer.level, matrix.scale);
                    let diagonals = numbers.map(|k| (matrix.diagonal(&dense, k), form));
                    each(first + start, diagonals.collect())?;
                }
                first += matrix.diagonals();
            }
            let mut bias = stage.affine.bias.clone();
            bias.resize(1 << layer.log2_rows(), 0.0);
            each(first, vec![(bias, layer.bias)])?;
            first += 1;
        }
        Ok(())
    }

    fn check_network(&self, network: &Network) -> Result<()> {
        let ranges = self.outline.ranges().clone();
        let bits = self.outline.precision_bits();
        match Outline::with_ranges(network, ranges, bits)? == self.outline {
            true => Ok(()),
            false => Err(NnError::Network {
                problem: "differs from the planned one: pass the network of the plan".into(),
            }),
        }
    }

    /// Rejects samples that leave the ranges anywhere in the network: in features, inputs of
    /// activations, or results. Simulation checks the same. [`HiddenPlan::encrypt`] does not know
    /// the weights, so it checks features only.
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`] for the first number outside its range;
    /// [`NnError::Network`] for a network of another outline.
    pub fn check(&self, network: &Network, samples: &[&[f64]]) -> Result<()> {
        self.check_network(network)?;
        let ranges = self.outline.ranges();
        let stages = stages(network)?;
        let polynomials = ranges.polynomials(&stages)?;
        let walked = |(number, sample): (usize, &&[f64])| -> Result<()> {
            expect("features of a sample", sample.len(), self.outline.features())?;
            ranges.check_input(number, sample)?;
            walk(&stages, sample, |k, y| {
                ranges.check_stage(k, number, y)?;
                match &polynomials[k] {
                    Some(polynomial) => y.iter_mut().for_each(|y| *y = polynomial.evaluate(*y)),
                    None => stages[k].apply_function(y),
                }
                Ok(())
            })
            .map(drop)
        };
        par::try_map(samples.iter().enumerate(), walked).map(drop)
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
        expect("features of a sample", sample.len(), self.outline.features())?;
        self.outline.ranges().check_input(0, sample)?;
        let mut slots = sample.to_vec();
        slots.resize(slots_of_sample(&self.outline), 0.0);
        Ok(slots)
    }

    /// Prepares bootstrapping for `ev`, if the network needs it. Do this once for all runs.
    ///
    /// # Errors
    /// [`NnError::NotAsPlanned`] for an evaluator of other parameters; [`NnError::Library`].
    pub fn prepare<E: ComplexOps>(&self, ev: &E) -> Result<Prepared<E>> {
        check_evaluator(&self.params, ev)?;
        Prepared::new(ev, self.refresh.as_ref())
    }

    /// Computes the network on an encrypted sample, on any evaluator with the plan's chain. `read`
    /// returns a ciphertext of the weights by its number. Only a few are in memory at a time.
    ///
    /// # Errors
    /// [`NnError::NotAsPlanned`] for ciphertexts of another level, scale or number of slots, an
    /// evaluator of other parameters, or matrices prepared for another plan; [`NnError::Library`]
    /// for a missing key or ciphertexts of another one; the errors of `read`.
    pub fn run<E: ComplexOps>(
        &self,
        ev: &E,
        prepared: &Prepared<E>,
        read: impl FnMut(usize) -> Result<E::Ct>,
        sample: &E::Ct,
    ) -> Result<E::Ct> {
        prepared.check(self.refresh.as_ref())?;
        self.run_with(ev, read, sample, |xs, most| prepared.refreshed(ev, xs, most))
    }

    /// Runs the plan. `refreshed` bootstraps numbers up to a magnitude.
    fn run_with<E: ComplexOps>(
        &self,
        ev: &E,
        mut read: impl FnMut(usize) -> Result<E::Ct>,
        sample: &E::Ct,
        mut refreshed: impl FnMut(&[E::Ct], Scale) -> Result<Vec<E::Ct>>,
    ) -> Result<E::Ct> {
        check_evaluator(&self.params, ev)?;
        check_form(ev, "an encrypted sample", sample, self.input)?;
        let slots = slots_of_sample(&self.outline);
        expect("slots of an encrypted sample", 1 << ev.log_slots(sample), slots)?;
        let layers = self.layers.iter().enumerate();
        let uses = layers.flat_map(|(k, layer)| layer.matrices.iter().map(move |x| (k, x.source)));
        let last = LastUses::new(self.layers.len(), uses);
        let mut values = vec![vec![sample.clone()]];
        let mut first = 0;
        for (number, layer) in self.layers.iter().enumerate() {
            let x = layer.run(ev, &mut |part| read(first + part), &values)?;
            // Before the next value is made, to keep few in memory.
            last.free(number, &mut values);
            values.push(layer.after.run(ev, vec![x], &mut refreshed)?);
            first += layer.parts();
        }
        values.pop().and_then(|mut xs| xs.pop()).ok_or_else(|| missing("a network of no layers"))
    }

    /// Returns the work of a run, and the number of ciphertexts that it bootstraps.
    fn work(&self) -> Result<(Work, usize)> {
        let ev = cost::Evaluator::new(&self.params, &self.keys).with_trusted_arguments();
        let sample = zero(&ev, self.input, slots_of_sample(&self.outline))?;
        let forms: Vec<_> = self.weight_forms().collect();
        let read = |part: usize| {
            let (level, scale, log_slots) = forms[part];
            zero(&ev, (level, scale), 1 << log_slots)
        };
        let mut counted = Counted::default();
        self.run_with(&ev, read, &sample, |xs, most| {
            counted.refreshed(&ev, (&self.params, self.refresh.as_ref()), xs, most)
        })?;
        Ok(counted.with(ev.work()))
    }

    /// Decrypts the result of a sample from [`HiddenPlan::run`].
    ///
    /// # Errors
    /// [`NnError::OutOfRange`] for a result outside its range: its sample differs from the samples
    /// of the calibration; [`NnError::Library`].
    pub fn decrypt(&self, decryptor: &Decryptor, result: &Ciphertext) -> Result<Vec<f64>> {
        let slots = Encoder::new(&self.params).decode_real(&decryptor.decrypt(result)?)?;
        self.read(slots)
    }

    fn read(&self, mut slots: Vec<f64>) -> Result<Vec<f64>> {
        let outputs = self.outline.outputs();
        if slots.len() < outputs {
            let what = "slots of a result";
            let needed = format!("{outputs} or more");
            return Err(NnError::Shape { what, found: slots.len(), needed });
        }
        slots.truncate(outputs);
        // In addition to the range, eight times the planned error of encryption is tolerated.
        let beyond = real::exp2(3.0 - self.outline.precision_bits());
        let most = self.outline.ranges().output * (1.0 + beyond);
        check_within("result", 0, &slots, [-most, most])?;
        Ok(slots)
    }

    /// Runs the plan on a network and a sample in the clear, by the same steps as under encryption.
    /// The result has no errors of encryption.
    ///
    /// # Errors
    /// The errors of [`HiddenPlan::encrypt_weights`], [`HiddenPlan::check`] and
    /// [`HiddenPlan::run`].
    pub fn simulate(&self, network: &Network, sample: &[f64]) -> Result<Vec<f64>> {
        self.check(network, &[sample])?;
        let costs = cost::Evaluator::new(&self.params, &self.keys).with_trusted_arguments();
        let ev = costs.slots();
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
        let prepared = self.prepare(ev)?;
        let read = |part: usize| Ok(weights[part].clone());
        let result = self
            .run_with(ev, read, &x, |xs, most| prepared.simulated(ev, xs, most, Packing::Sample))?;
        self.read(ev.decrypt(&result).iter().map(|slot| slot.re).collect())
    }
}

/// Returns the slots of a sample.
fn slots_of_sample(outline: &Outline) -> usize {
    outline.features().next_power_of_two()
}

fn missing(what: &str) -> NnError {
    NnError::Library(sudare::Error::Circuit(what.into()))
}

impl HiddenLayer {
    /// Returns the number of ciphertexts: diagonals, and the bias.
    fn parts(&self) -> usize {
        self.matrices.iter().map(HiddenMatrix::diagonals).sum::<usize>() + 1
    }

    fn log2_rows(&self) -> u32 {
        self.matrices.first().map_or(0, |matrix| matrix.log_slots[1])
    }

    /// Returns the sum of all products and the bias.
    fn run<E: ComplexOps>(
        &self,
        ev: &E,
        read: &mut dyn FnMut(usize) -> Result<E::Ct>,
        values: &[Vec<E::Ct>],
    ) -> Result<E::Ct> {
        let mut first = 0;
        let mut sum: Option<E::Ct> = None;
        for matrix in &self.matrices {
            let mut read = |part: usize| {
                let weights = read(first + part)?;
                let form = (self.level, matrix.scale);
                check_weights(ev, &weights, form, matrix.log_slots[0])?;
                Ok(weights)
            };
            let mut x = values[matrix.source].first().ok_or_else(|| missing("no value"))?.clone();
            ev.drop_to(&mut x, self.level)?;
            let product = matrix.run(ev, &mut read, &x, self.bias.1)?;
            sum = Some(match sum {
                None => product,
                Some(sum) => ev.add(&sum, &product)?,
            });
            first += matrix.diagonals();
        }
        let bias = read(first)?;
        check_weights(ev, &bias, self.bias, self.log2_rows())?;
        Ok(ev.add(&sum.ok_or_else(|| missing("a layer of no matrix"))?, &bias)?)
    }
}

impl HiddenMatrix {
    /// Plans a matrix of this number of rows for a value, from a level to a scale one level below.
    fn new(
        rows: usize,
        source: Source,
        value: Value,
        params: &Params,
        (level, out): (Level, Scale),
    ) -> Result<Self> {
        let columns = source.width.next_power_of_two().max(rows);
        Ok(Self {
            source: source.value,
            log_slots: [columns, rows].map(usize::ilog2),
            // Baby and giant steps in about equal numbers take the fewest rotations.
            babies: 1 << rows.ilog2().div_ceil(2),
            scale: out * params.chain().divisor(level) / value.scale,
            sum: Trace::inner_sum(params.log_n(), rows, columns / rows)?.doubling(),
        })
    }

    /// Returns the number of diagonals, which equals the number of rows.
    fn diagonals(&self) -> usize {
        1 << self.log_slots[1]
    }

    fn required_keys(&self, log_n: u32, level: Level, below: Level) -> KeyRequest {
        let turns = |count: usize, step: usize| (1..count).map(move |i| (i * step) as i64);
        let (babies, giants) = (self.babies, self.diagonals() / self.babies);
        let mut keys = KeyRequest::new().relinearize(level);
        keys |= KeyRequest::new().rotations(log_n, turns(babies, 1), level);
        keys |= KeyRequest::new().rotations(log_n, turns(giants, babies), below);
        keys |= self.sum.required_keys(below);
        keys
    }

    /// Returns the weights row by row, with zeros in the padding.
    fn dense(&self, map: &Map) -> Vec<f64> {
        let [columns, rows] = self.log_slots.map(|log| 1usize << log);
        let mut dense = vec![0.0; rows * columns];
        map.each(|row, column, weight| dense[row * columns + column] += weight);
        dense
    }

    /// Returns diagonal `k`, rotated back by its giant step. Its entry `i` multiplies number
    /// `i + k` of the sample.
    fn diagonal(&self, dense: &[f64], k: usize) -> Vec<f64> {
        let [columns, rows] = self.log_slots.map(|log| 1usize << log);
        let giant = k - k % self.babies;
        let entry = |slot: usize| {
            let i = slot + columns - giant;
            dense[i % rows * columns + (i + k) % columns]
        };
        (0..columns).map(entry).collect()
    }

    /// Returns the product with `x`, which has this scale.
    fn run<E: ComplexOps>(
        &self,
        ev: &E,
        read: &mut dyn FnMut(usize) -> Result<E::Ct>,
        x: &E::Ct,
        scale: Scale,
    ) -> Result<E::Ct> {
        let [columns, rows] = self.log_slots;
        let x = ev.with_log_slots(x, columns)?;
        let turned = par::try_map(0..self.babies, |turn| match turn {
            0 => Ok(x.clone()),
            _ => ev.rotate(&x, turn as i64),
        })?;
        let mut sum: Option<E::Ct> = None;
        for giant in (0..self.diagonals()).step_by(self.babies) {
            let weights =
                (giant..giant + self.babies).map(&mut *read).collect::<Result<Vec<_>>>()?;
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
        let sum = ev.with_scale(&sum.ok_or_else(|| missing("a layer of no rows"))?, scale)?;
        Ok(ev.with_log_slots(&self.sum.run(ev, &sum)?, rows)?)
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
