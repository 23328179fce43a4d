//! What a network takes on encrypted samples, and what the owner does.

use serde::Serialize;
use sudare::{
    circuits::{
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
    model::Network,
    options::{Options, Packing},
    ranges::{Ranges, check_within},
    refresh::Refresh,
    setup::{Setup, planned},
    steps::{Design, Step},
};

/// How to compute a network on encrypted samples: made by owner and server alike from the network,
/// its ranges and what is planned for, with the smallest ring at 128 bits of security that does.
///
/// Affine layers that follow each other are one, and polynomials of degree 2 are squares. Features
/// that no weight touches are not encrypted. Networks of more levels than a ring has are bootstrapped,
/// see [`Plan::new`].
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
    polynomials: Vec<Option<Polynomial>>,
    ranges: Ranges,
    options: Options,
    params: Params,
    /// Features of a sample that are encrypted.
    used: Vec<usize>,
    features: usize,
    slots: usize,
    pub(super) steps: Vec<Step>,
    pub(super) refresh: Option<Refresh>,
    pub(super) input: (Level, Scale),
    keys: KeyRequest,
    error: f64,
}

/// What a plan says of itself, before a key is made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// `log2(N)`.
    pub log_n: u32,
    /// Bits of the largest modulus with special primes.
    pub log2_qp: f64,
    /// The level of encrypted samples.
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
    /// The parameter set that it bootstraps with, if it does.
    pub bootstrapping: Option<String>,
    /// Ciphertexts that one run bootstraps.
    pub bootstraps: usize,
    /// The time of one run on the machine of `docs/performance.md`, without the encoding of
    /// matrices, if the server uses one thread. An estimate.
    pub seconds: f64,
    /// The standard deviation of the error of a result by encryption, at the ends of all ranges.
    pub error: f64,
}

impl Plan {
    fn of(job: Job<'_>, setup: Setup, features: usize, used: Vec<usize>) -> Result<Self> {
        let design = Design { job: &job, setup: &setup };
        let (steps, keys) = design.steps()?;
        let error = design.predicted_error(&steps);
        let slots = job.slots(&setup.params);
        let Job { ranges, options, stages, polynomials } = job;
        let Setup { params, input, refresh, .. } = setup;
        let ranges = ranges.clone();
        Ok(Self {
            stages,
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

    /// Plans a network for inputs within these ranges: without bootstrapping if a ring has the levels
    /// at 128 bits of security, else with the set `n16-boot-real`, or `n16-boot-high` for more than
    /// 16 bits of precision; also where that takes less time than a larger ring.
    ///
    /// A sample that left the ranges inside the network would have a wrong result, and with bootstrapping
    /// spoil others of its run: encryption refuses it.
    ///
    /// # Errors
    /// [`NnError::Shape`] for ranges of another network, or a number of samples or bits that is not
    /// possible; [`NnError::Network`]; [`NnError::DeepActivation`]; [`NnError::TooDeep`] for layers
    /// too wide for the rings of these sets; [`NnError::Library`].
    pub fn new(network: &Network, ranges: &Ranges, options: Options) -> Result<Self> {
        let mut stages = stages(network)?;
        let used = keep_used(&mut stages);
        let plan = |job: Job<'_>, setup| Self::of(job, setup, network.inputs(), used.clone());
        planned(Job::new(stages, ranges, options)?, plan, Self::seconds)
    }

    /// Plans a network that bootstraps with this set where its levels run out, as few ciphertexts
    /// as can be: numbers before an activation, each as a part of its range.
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
        let used = keep_used(&mut stages);
        let job = Job::new(stages, ranges, options)?;
        let setup = Setup::bootstrapped(&job, set)?;
        Self::of(job, setup, network.inputs(), used)
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

    fn seconds(&self) -> Result<f64> {
        Ok(self.seconds_of(self.work()?.0))
    }

    fn seconds_of(&self, work: Work) -> f64 {
        work.seconds(&Rates::reference(self.params.log_n()))
    }

    /// What a run takes.
    ///
    /// # Errors
    /// [`NnError::Library`].
    pub fn explain(&self) -> Result<Explanation> {
        let rlwe = self.params.rlwe();
        let spec = self.params.spec();
        let half = rlwe.basis().packed_bytes(rlwe.limbs(self.input.0));
        let inputs = self.inputs();
        let (work, bootstraps) = self.work()?;
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
            bootstrapping: self.refresh.as_ref().map(|refresh| refresh.name.clone()),
            bootstraps,
            seconds: self.seconds_of(work),
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
        self.walked(0, sample)
    }

    /// Refuses samples that leave the ranges anywhere in the network, as encryption and simulation do:
    /// features, what activations are applied to, and results.
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`] for the first number outside its range.
    pub fn check(&self, samples: &[&[f64]]) -> Result<()> {
        let walked = |(number, sample): (usize, &&[f64])| self.walked(number, sample).map(drop);
        par::try_map(samples.iter().enumerate(), walked).map(drop)
    }

    /// The result of the sample with this number in the clear, if it stays in the ranges.
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

    /// Encrypts samples for one run: as many as [`Plan::samples_per_run`] at most. Under the secret
    /// key, for which a plan is made, or a public key, whose errors are larger by a factor of
    /// `sqrt(4 N / 3)`.
    ///
    /// # Errors
    /// [`NnError::Shape`]; [`NnError::OutOfRange`] as [`Plan::check`]; [`NnError::Library`] if the
    /// encryptor has other parameters.
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
            Ok(encrypt(&encoder.encode_real(&slots, level, scale)?)?)
        })
    }

    /// What the slots of each ciphertext are to hold.
    pub(super) fn messages(&self, samples: &[&[f64]]) -> Result<Vec<Vec<f64>>> {
        if !(1..=self.slots).contains(&samples.len()) {
            let (what, found) = ("samples of one run", samples.len());
            return Err(NnError::Shape { what, found, needed: format!("1 to {}", self.slots) });
        }
        self.check(samples)?;
        Ok(match self.options.packing {
            Packing::Features => {
                // Further slots repeat a sample: another one might leave the ranges.
                let last = samples.len() - 1;
                let slots = |&feature: &usize| {
                    (0..self.slots).map(|slot| samples[slot.min(last)][feature]).collect()
                };
                self.used.iter().map(slots).collect()
            }
            Packing::Sample => {
                let mut slots: Vec<f64> = self.used.iter().map(|&i| samples[0][i]).collect();
                slots.resize(self.slots_of_sample(), 0.0);
                vec![slots]
            }
        })
    }

    /// Slots of a sample that is in one ciphertext.
    pub(super) fn slots_of_sample(&self) -> usize {
        self.used.len().next_power_of_two()
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
