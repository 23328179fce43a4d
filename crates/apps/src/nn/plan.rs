//! Plan of a network on encrypted samples, and the owner's side of it.

use std::sync::Arc;

use serde::Serialize;
use sudare::{
    circuits::ckks::{
        Polynomial,
        bootstrap::BootstrapPreset,
        cost::{Rates, Work},
    },
    ckks::{Ciphertext, Decryptor, Encoder, Params, Plaintext, Scale, SymmetricEncryptor, serial},
    rlwe::{EncryptionKey, Encryptor, KeyRequest, Level, Seeded},
};
use sudare_arith::par;

use super::{
    affine::{Stage, keep_used, stages, walk},
    error::{NnError, Result, expect},
    job::Job,
    layout::Layout,
    model::Network,
    options::{Options, Packing},
    ranges::{Ranges, check_within},
    refresh::Refresh,
    setup::{Setup, planned},
    steps::{Design, Step},
};

/// Plan to compute a network on encrypted samples. Owner and server make the same plan from the
/// network, its ranges and the options. It uses the smallest possible ring at 128 bits of security.
///
/// Successive affine layers are merged, and polynomials of degree 2 become squares. Features that
/// no weight touches are not encrypted. Networks that need more levels than a ring has are
/// bootstrapped, see [`Plan::new`].
///
/// [`Packing::Features`] with squares alone has the shortest modulus. Products with integer weights
/// are not rescaled, each square is divided by a prime that covers only its excess, and samples are
/// encrypted under the secret key. Exact integers of BGV would need a plaintext modulus for the
/// largest result, whose length doubles with every square. For two squares and weights of five bits
/// that is over 90 bits, more than the whole modulus here, which drops the lowest bits instead.
/// Slots stay real, because the square of a complex number mixes its parts. Separating the parts by
/// a conjugation would cost more than the half of the first layer that it would save.
///
/// [`Packing::Sample`] multiplies by matrices with diagonals as long as a row. Their number is the
/// number of rows of a dense matrix, or of distances between the inputs and outputs of kernels.
/// Sums over the other slots follow (Juvekar, Vaikuntanathan, Chandrakasan, "GAZELLE"
/// ([2018/073](https://eprint.iacr.org/2018/073)), section 4). Deviation: numbers of rows are padded
/// to powers of two, and diagonals are summed by baby and giant steps. Images keep their places
/// through strides, and channels fill the gaps (Lee et al.,
/// [2021/1688](https://eprint.iacr.org/2021/1688), section 4).
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) stages: Arc<Vec<Stage>>,
    /// The places of values in slots, if a ciphertext holds a sample.
    pub(super) layouts: Vec<Layout>,
    polynomials: Vec<Option<Polynomial>>,
    ranges: Ranges,
    options: Options,
    params: Params,
    /// The features of a sample that are encrypted.
    used: Vec<usize>,
    features: usize,
    slots: usize,
    pub(super) steps: Vec<Step>,
    pub(super) refresh: Option<Refresh>,
    pub(super) input: (Level, Scale),
    keys: KeyRequest,
    error: f64,
}

/// Sizes and cost of a plan, before a key exists.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// `log2(N)`.
    pub log_n: u32,
    /// Bits of the largest modulus with special primes.
    pub log2_qp: f64,
    /// The level of encrypted samples.
    pub levels: u32,
    /// Number of samples of one run.
    pub samples: usize,
    /// Number of ciphertexts that are sent for one run.
    pub inputs: usize,
    /// Size of these ciphertexts in a file, in bytes. Half of it with [`Plan::encrypt_seeded`].
    pub input_bytes: u64,
    /// Number of ciphertexts of the result of one run.
    pub outputs: usize,
    /// Number of evaluation keys.
    pub keys: usize,
    /// Size of the keys in a file, in bytes.
    pub key_bytes: u64,
    /// Number of encoded diagonals of the matrices of layers.
    pub diagonals: usize,
    /// Memory of the encoded matrices of layers and of bootstrapping on the server, in bytes.
    pub matrix_bytes: u64,
    /// Memory of keys and encoded matrices on the server, in bytes.
    pub memory_bytes: u64,
    /// The parameter set of bootstrapping, if any.
    pub bootstrapping: Option<String>,
    /// Number of ciphertexts that one run bootstraps.
    pub bootstraps: usize,
    /// Estimated seconds of one run with one thread on the machine of `docs/performance.md`,
    /// without the encoding of matrices.
    pub seconds: f64,
    /// Standard deviation of the error by encryption of a result, at the ends of all ranges.
    pub error: f64,
}

impl Plan {
    fn of(job: Job, setup: Setup, features: usize, used: Vec<usize>) -> Result<Self> {
        let design = Design { job: &job, setup: &setup };
        let (steps, keys) = design.steps()?;
        let error = design.predicted_error(&steps);
        let slots = job.slots(&setup.params);
        let Job { ranges, options, stages, layouts, polynomials } = job;
        let Setup { params, input, refresh, .. } = setup;
        Ok(Self {
            stages,
            layouts,
            polynomials,
            ranges,
            options,
            params,
            used,
            features,
            slots,
            steps,
            refresh,
            input,
            keys,
            error,
        })
    }

    /// Plans a network for inputs within these ranges, at 128 bits of security.
    ///
    /// A ring with enough levels needs no bootstrapping. If no ring has enough, or if bootstrapping
    /// in a smaller ring is faster, the plan uses the fastest of the sets `n15-boot-net`,
    /// `n16-boot-real` and `n16-boot-high` that has three bits more than the precision.
    ///
    /// A sample that left the ranges inside the network would have a wrong result. With
    /// bootstrapping it would also spoil other samples of its run. Encryption therefore rejects
    /// such samples.
    ///
    /// # Errors
    /// [`NnError::Shape`] for ranges of another network, or an impossible number of samples or
    /// bits; [`NnError::Network`]; [`NnError::DeepActivation`]; [`NnError::TooDeep`] for layers too
    /// wide for the rings of these sets; [`NnError::Library`].
    pub fn new(network: &Network, ranges: &Ranges, options: Options) -> Result<Self> {
        let mut stages = stages(network)?;
        let used = keep_used(&mut stages, options.packing == Packing::Sample)?;
        let plan = |job: Job, setup| Self::of(job, setup, network.inputs(), used.clone());
        planned(Job::new(stages, ranges, options)?, plan, Self::seconds)
    }

    /// Plans a network that bootstraps with `set` where its levels run out, with the fewest
    /// bootstrapped ciphertexts. It bootstraps the inputs of activations, each as a fraction of its
    /// range.
    ///
    /// # Errors
    /// The errors of [`Plan::new`]; [`NnError::Library`] also for layers too wide for the set's
    /// ring.
    pub fn with_bootstrapping(
        network: &Network,
        ranges: &Ranges,
        options: Options,
        set: &BootstrapPreset,
    ) -> Result<Self> {
        let mut stages = stages(network)?;
        let used = keep_used(&mut stages, options.packing == Packing::Sample)?;
        let job = Job::new(stages, ranges, options)?;
        let setup = Setup::bootstrapped(&job, set)?;
        Self::of(job, setup, network.inputs(), used)
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Returns the ranges planned for.
    #[must_use]
    pub fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// Returns the options of the plan.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// Returns the keys that the server needs.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.keys
    }

    /// Returns the maximum number of samples of one run.
    #[must_use]
    pub fn samples_per_run(&self) -> usize {
        self.slots
    }

    /// Returns the number of ciphertexts of the samples of one run.
    #[must_use]
    pub fn inputs(&self) -> usize {
        match self.options.packing {
            Packing::Features => self.used.len(),
            Packing::Sample => 1,
        }
    }

    /// Returns the number of ciphertexts of the results of one run.
    #[must_use]
    pub fn outputs(&self) -> usize {
        match self.options.packing {
            Packing::Features => self.results(),
            Packing::Sample => 1,
        }
    }

    /// Returns the number of numbers of a result.
    fn results(&self) -> usize {
        self.stages.last().map_or(0, |stage| stage.affine.outputs())
    }

    /// Returns the level and the scale of encrypted samples.
    #[must_use]
    pub fn input_form(&self) -> (Level, Scale) {
        self.input
    }

    fn seconds(&self) -> Result<f64> {
        Ok(self.seconds_of(self.work()?.0))
    }

    fn seconds_of(&self, work: Work) -> f64 {
        work.seconds(&Rates::reference(self.params.log_n()))
    }

    /// Returns the sizes and the cost of a run.
    ///
    /// # Errors
    /// [`NnError::Library`].
    pub fn explain(&self) -> Result<Explanation> {
        let rlwe = self.params.rlwe();
        let spec = self.params.spec();
        let half = rlwe.basis().packed_bytes(rlwe.limbs(self.input.0));
        let inputs = self.inputs();
        let (work, bootstraps) = self.work()?;
        let matrices = || self.steps.iter().flat_map(|step| &step.matrices);
        let layers: u64 = matrices().map(|matrix| matrix.plan.bytes(rlwe, &self.keys)).sum();
        let refresh = self.refresh.as_ref();
        let matrix_bytes =
            layers + refresh.map_or(0, |refresh| refresh.plan.matrix_bytes(&self.params));
        Ok(Explanation {
            log_n: spec.log_n,
            log2_qp: rlwe.log2_q(self.params.upper_top()) + spec.p_bits.iter().sum::<f64>(),
            levels: self.input.0.0,
            samples: self.slots,
            inputs,
            input_bytes: inputs as u64 * 2 * half,
            outputs: self.outputs(),
            keys: self.keys.count(),
            key_bytes: serial::evaluation_keys_bytes(
                &self.params,
                &self.keys,
                &serial::Label::default(),
            )?,
            diagonals: matrices().map(|matrix| matrix.plan.weights()).sum(),
            matrix_bytes,
            memory_bytes: matrix_bytes + self.keys.bytes(rlwe)?,
            bootstrapping: refresh.map(|refresh| refresh.name.clone()),
            bootstraps,
            seconds: self.seconds_of(work),
            error: self.error,
        })
    }

    /// Returns the standard deviation of the error by encryption of a result, if all numbers are at
    /// the ends of their ranges. Elsewhere it is smaller.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.error
    }

    /// Evaluates a sample in the clear, with the polynomials that are applied to encrypted samples.
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`]; [`NnError::Library`].
    pub fn clear(&self, sample: &[f64]) -> Result<Vec<f64>> {
        self.walked(0, sample)
    }

    /// Rejects samples that leave the ranges anywhere in the network: in features, inputs of
    /// activations, or results. Encryption and simulation check the same.
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`] for the first number outside its range.
    pub fn check(&self, samples: &[&[f64]]) -> Result<()> {
        let walked = |(number, sample): (usize, &&[f64])| self.walked(number, sample).map(drop);
        par::try_map(samples.iter().enumerate(), walked).map(drop)
    }

    /// Evaluates the sample with this number in the clear, and checks that it stays in the ranges.
    fn walked(&self, number: usize, sample: &[f64]) -> Result<Vec<f64>> {
        expect("features of a sample", sample.len(), self.features)?;
        self.ranges.check_input(number, sample)?;
        let used: Vec<f64> = self.used.iter().map(|&i| sample[i]).collect();
        walk(&self.stages, &used, |k, y| {
            self.ranges.check_stage(k, number, y)?;
            match &self.polynomials[k] {
                Some(polynomial) => y.iter_mut().for_each(|y| *y = polynomial.evaluate(*y)),
                None => self.stages[k].apply_function(y),
            }
            Ok(())
        })
    }

    /// Encrypts samples for one run, at most [`Plan::samples_per_run`]. Plans are made for
    /// encryption by the secret key. With a public key, errors are larger by a factor of
    /// `sqrt(4 N / 3)`.
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`] as from [`Plan::check`]; [`NnError::Library`] if
    /// the encryptor has other parameters.
    pub fn encrypt<K: EncryptionKey + Send + Sync>(
        &self,
        encryptor: &Encryptor<Params, K>,
        samples: &[&[f64]],
    ) -> Result<Vec<Ciphertext>> {
        self.encrypted(samples, |slots| encryptor.encrypt(slots))
    }

    /// Encrypts samples as [`Plan::encrypt`] does, for files of half the bytes.
    ///
    /// # Errors
    /// The errors of [`Plan::encrypt`].
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
            Ok(encrypt(&encoder.encode_real_at(&slots, level, scale)?)?)
        })
    }

    /// Returns the slots of each ciphertext.
    pub(super) fn messages(&self, samples: &[&[f64]]) -> Result<Vec<Vec<f64>>> {
        if !(1..=self.slots).contains(&samples.len()) {
            let what = "samples of one run";
            let found = samples.len();
            return Err(NnError::Shape { what, found, needed: format!("1 to {}", self.slots) });
        }
        self.check(samples)?;
        Ok(match self.options.packing {
            Packing::Features => {
                // The remaining slots repeat a sample, because other values might leave the ranges.
                let last = samples.len() - 1;
                let slots = |&feature: &usize| {
                    (0..self.slots).map(|slot| samples[slot.min(last)][feature]).collect()
                };
                self.used.iter().map(slots).collect()
            }
            Packing::Sample => {
                let features = self.used.iter().map(|&i| samples[0][i]);
                self.layouts.iter().take(1).map(|layout| layout.spread(features.clone())).collect()
            }
        })
    }

    /// Returns the slots of a sample that is in one ciphertext.
    pub(super) fn slots_of_sample(&self) -> usize {
        self.layouts.first().map_or(1, Layout::slots)
    }

    /// Decrypts the results of `samples` samples from [`Plan::run`].
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`] for a result outside its range: its sample
    /// differs from the samples of the calibration, and other results of the run are valid;
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

    /// Reads the results from slots.
    pub(super) fn read(&self, slots: &[Vec<f64>], samples: usize) -> Result<Vec<Vec<f64>>> {
        expect("ciphertexts of a result", slots.len(), self.outputs())?;
        let results = self.results();
        let layout = self.layouts.last();
        let needed = layout.map_or(samples, Layout::slots);
        let fewest = slots.iter().map(Vec::len).min().unwrap_or(0);
        if !(1..=self.slots).contains(&samples) || fewest < needed {
            let what = "samples of one run";
            let needed = format!("1 to {}", self.slots);
            return Err(NnError::Shape { what, found: samples, needed });
        }
        // In addition to the range, eight standard deviations of the error are tolerated. Of a deep
        // network the error is a bound far above the range, because slopes multiply.
        let most = self.ranges.output + (8.0 * self.error).min(self.ranges.output);
        let result = |sample: usize| {
            let result: Vec<f64> = match layout {
                None => slots.iter().map(|slots| slots[sample]).collect(),
                Some(layout) => (0..results).map(|i| slots[0][layout.slot(i)]).collect(),
            };
            check_within("result", sample, &result, [-most, most])?;
            Ok(result)
        };
        (0..samples).map(result).collect()
    }
}
