//! What the server does.

use std::borrow::Cow;

use sudare::{
    circuits::{ComplexOps, bootstrap::Bootstrapper, cost, sim},
    ckks::{Complex, Params, Scale},
    rlwe::Level,
};
use sudare_arith::{par, real};

use super::{
    affine::Stage,
    draft::log2_fresh,
    error::{NnError, Result, expect},
    plan::{Packing, Plan},
    refresh::refreshed,
    steps::{Applied, Matrix, Step},
};
use crate::bootstrap::restore_headroom;

/// The part of weights that are not zero from which on all sums are computed together.
const DENSE: f64 = 0.25;

/// The matrices of a plan as an evaluator keeps them: none where samples are in slots, but those of
/// bootstrapping if there is any.
pub struct Prepared<E: ComplexOps> {
    matrices: Vec<E::Matrix>,
    bootstrapper: Option<Bootstrapper<E>>,
}

/// By how much of its range noise and rounding may take a number beyond.
const BEYOND: f64 = 1e-3;

/// What a simulated run gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// The results of the samples, without errors by encryption.
    pub results: Vec<Vec<f64>>,
    /// The standard deviation that errors by encryption would have, at most of any result. An
    /// estimate.
    pub error: f64,
    /// Bits left between the largest number met and the modulus that held it.
    pub headroom_bits: f64,
}

impl Plan {
    /// Encodes the matrices of the network where `ev` can reach them: once for all runs.
    ///
    /// # Errors
    /// [`NnError::NotAsPlanned`] for an evaluator of other parameters; [`NnError::Library`].
    pub fn prepare<E: ComplexOps>(&self, ev: &E) -> Result<Prepared<E>> {
        check_evaluator(self.params(), ev)?;
        let bootstrapper = self.refresh.as_ref().map(|refresh| refresh.plan.prepare(ev));
        Ok(Prepared {
            matrices: self.prepare_matrices(ev)?,
            bootstrapper: bootstrapper.transpose()?,
        })
    }

    fn prepare_matrices<E: ComplexOps>(&self, ev: &E) -> Result<Vec<E::Matrix>> {
        let matrices = self.steps.iter().flat_map(|step| &step.matrices);
        let matrices = matrices.map(|matrix| ev.prepare(&matrix.plan));
        Ok(matrices.collect::<sudare::Result<_>>()?)
    }

    /// Computes the network on the samples of one run, on any evaluator with the plan's chain.
    ///
    /// # Errors
    /// [`NnError::Shape`] for another number of ciphertexts; [`NnError::NotAsPlanned`] for
    /// ciphertexts of another level, scale or number of slots, an evaluator of other parameters, or
    /// what was prepared for another plan; [`NnError::Library`] for a missing key or ciphertexts of
    /// another one.
    pub fn run<E: ComplexOps>(
        &self,
        ev: &E,
        prepared: &Prepared<E>,
        inputs: &[E::Ct],
    ) -> Result<Vec<E::Ct>> {
        self.run_with(ev, &prepared.matrices, inputs, |xs, most| prepared.refreshed(ev, xs, most))
    }

    /// As [`Plan::run`], with a way to bootstrap numbers up to a magnitude.
    fn run_with<E: ComplexOps>(
        &self,
        ev: &E,
        matrices: &[E::Matrix],
        inputs: &[E::Ct],
        mut refreshed: impl FnMut(&[E::Ct], Scale) -> Result<Vec<E::Ct>>,
    ) -> Result<Vec<E::Ct>> {
        check_evaluator(self.params(), ev)?;
        expect("ciphertexts of samples", inputs.len(), self.inputs())?;
        let needed = self.steps.iter().map(|step| step.matrices.len()).sum();
        expect("prepared matrices", matrices.len(), needed)?;
        for input in inputs {
            check_form(ev, "an encrypted sample", input, self.input)?;
        }
        let mut values = vec![inputs.to_vec()];
        let mut matrices = matrices.iter();
        for (k, (stage, step)) in self.stages.iter().zip(&self.steps).enumerate() {
            let mut xs = match step.matrices.is_empty() {
                true => step.affine(ev, stage, &values)?,
                false => vec![step.product(ev, stage, &mut matrices, &values)?],
            };
            // What no further stage takes.
            let later = || self.stages[k + 1..].iter().flat_map(|stage| &stage.sources);
            for (value, xs) in values.iter_mut().enumerate() {
                if !later().any(|source| source.value == value) {
                    xs.clear();
                }
            }
            if let Some(most) = step.refreshed {
                xs = refreshed(&xs, most)?;
            }
            if let Some(applied) = &step.applied {
                xs = applied.run(ev, &xs)?;
            }
            values.push(xs);
        }
        Ok(values.pop().unwrap_or_default())
    }

    /// Runs the plan on samples in the clear, as many as of one run at most, through the same steps
    /// as encrypted ones.
    ///
    /// # Errors
    /// As [`Plan::encrypt`] and [`Plan::run`]; [`NnError::Library`] for what encryption would refuse.
    pub fn simulate(&self, samples: &[&[f64]]) -> Result<Simulation> {
        let costs = self.cost_evaluator();
        let (ev, (level, scale)) = (costs.slots(), self.input);
        let encrypt = |slots: Vec<f64>| -> Result<sim::Ciphertext> {
            let slots: Vec<_> = slots.into_iter().map(|x| Complex::new(x, 0.0)).collect();
            let x = ev.encrypt(&slots, level, scale)?;
            let noise_log2 = log2_fresh(self.params().log_n()) - scale.log2();
            Ok(sim::Ciphertext { noise_log2, ..x })
        };
        let messages = self.messages(samples)?.into_iter();
        let inputs = messages.map(encrypt).collect::<Result<Vec<_>>>()?;
        let prepared = self.prepare(ev)?;
        let outputs = self.run_with(ev, &prepared.matrices, &inputs, |xs, most| {
            self.check_slots(xs, most.to_f64() * (1.0 + BEYOND))?;
            let mut fresh = prepared.refreshed(ev, xs, most)?;
            let pairs = fresh.iter_mut().zip(xs);
            pairs.for_each(|(after, before)| restore_headroom(after, before));
            Ok(fresh)
        })?;
        let values = |x: &sim::Ciphertext| ev.decrypt(x).iter().map(|slot| slot.re).collect();
        let slots: Vec<Vec<f64>> = outputs.iter().map(values).collect();
        let worst = |f: fn(&sim::Ciphertext) -> f64| outputs.iter().map(f);
        Ok(Simulation {
            results: self.read(&slots, samples.len())?,
            error: real::exp2(worst(|x| x.noise_log2).fold(f64::NEG_INFINITY, f64::max)),
            headroom_bits: worst(|x| x.headroom_bits).fold(f64::INFINITY, f64::min),
        })
    }
}

impl Plan {
    /// Refuses numbers that are too large to be bootstrapped.
    fn check_slots(&self, xs: &[sim::Ciphertext], most: f64) -> Result<()> {
        for (number, x) in xs.iter().enumerate() {
            let inside = |z: &Complex<f64>| (-most..=most).contains(&z.re);
            let Some(slot) = x.slots.iter().position(|z| !inside(z)) else { continue };
            let (index, sample) = match self.options().packing {
                Packing::Features => (number, slot),
                Packing::Sample => (slot, number),
            };
            let (what, found) = ("pre-activation", x.slots[slot].re);
            return Err(NnError::OutOfRange { what, index, sample, found, least: -most, most });
        }
        Ok(())
    }

    /// What counts the work of this plan.
    fn cost_evaluator(&self) -> cost::Evaluator {
        cost::Evaluator::new(self.params(), self.required_keys())
    }

    /// What a run computes, without the encoding of matrices, and how many ciphertexts it
    /// bootstraps.
    pub(super) fn work(&self) -> Result<(cost::Work, usize)> {
        let ev = self.cost_evaluator();
        let zeros = |count: usize, (level, scale): (Level, Scale), slots: usize| {
            let zero = ev.slots().encrypt(&vec![Complex::new(0.0, 0.0); slots], level, scale)?;
            Ok::<_, NnError>(vec![zero; count])
        };
        // With a feature in a ciphertext the work does not depend on the number of slots.
        let slots = match self.options().packing {
            Packing::Features => 1,
            Packing::Sample => self.slots_of_sample(),
        };
        let inputs = zeros(self.inputs(), self.input, slots)?;
        let matrices = self.prepare_matrices(&ev)?;
        let (mut work, mut bootstraps) = (cost::Work::default(), 0);
        self.run_with(&ev, &matrices, &inputs, |xs, most| {
            let Some(refresh) = &self.refresh else { return Ok(xs.to_vec()) };
            work += refresh.work(self.params(), xs.len())?;
            bootstraps += xs.len();
            let level = refresh.plan.output_level();
            let form = (level, self.params().scale_at(level) / most);
            zeros(xs.len(), form, xs.first().map_or(1, |x| x.slots.len()))
        })?;
        work += ev.work();
        Ok((work, bootstraps))
    }
}

impl<E: ComplexOps> Prepared<E> {
    /// Bootstraps numbers of at most `most` in magnitude.
    fn refreshed(&self, ev: &E, xs: &[E::Ct], most: Scale) -> Result<Vec<E::Ct>> {
        let missing = || NnError::NotAsPlanned {
            what: "what was prepared",
            found: "nothing to bootstrap with".into(),
            needed: "that of the plan".into(),
        };
        refreshed(ev, self.bootstrapper.as_ref().ok_or_else(missing)?, xs, most)
    }
}

pub(super) fn check_evaluator<E: ComplexOps>(params: &Params, ev: &E) -> Result<()> {
    if ev.log_n() == params.log_n() && ev.chain() == params.chain() {
        return Ok(());
    }
    let ring = |log_n| format!("primes of its own, in the ring N = 2^{log_n}");
    let what = "the evaluator's parameters";
    let (found, needed) = (ring(ev.log_n()), ring(params.log_n()));
    Err(NnError::NotAsPlanned { what, found, needed })
}

impl Step {
    /// The affine map of ciphertexts, one for each feature.
    fn affine<E: ComplexOps>(
        &self,
        ev: &E,
        stage: &Stage,
        values: &[Vec<E::Ct>],
    ) -> Result<Vec<E::Ct>> {
        let affine = &stage.affine;
        let entries: usize = affine.rows.iter().map(Vec::len).sum();
        let all = affine.rows.len() * affine.inputs;
        let sums = match entries as f64 >= DENSE * all as f64 {
            true => self.dense(ev, stage, values)?,
            false => self.sparse(ev, stage, values)?,
        };
        par::try_map(sums.into_iter().zip(&affine.bias), |(sum, &bias)| {
            let mut sum = ev.add_const(&sum, Complex::new(bias, 0.0))?;
            if self.rescales {
                ev.rescale_assign(&mut sum)?;
            }
            Ok(sum)
        })
    }

    fn dense<E: ComplexOps>(
        &self,
        ev: &E,
        stage: &Stage,
        values: &[Vec<E::Ct>],
    ) -> Result<Vec<E::Ct>> {
        let mut sums: Vec<E::Ct> = Vec::new();
        for ((source, span), &scale) in stage.spans().zip(&self.weights) {
            let dense = |row: &Vec<(usize, f64)>| {
                let mut weights = vec![0.0; span.len()];
                let row = row.iter().filter(|(i, _)| span.contains(i));
                row.for_each(|&(i, weight)| weights[i - span.start] = weight);
                weights
            };
            let rows: Vec<Vec<f64>> = stage.affine.rows.iter().map(dense).collect();
            let lowered = par::try_map(&values[source.value], |x| {
                let mut x = Cow::Borrowed(x);
                if ev.level(&x) > self.level {
                    ev.drop_to(x.to_mut(), self.level)?;
                }
                Ok::<_, NnError>(x)
            })?;
            let xs: Vec<&E::Ct> = lowered.iter().map(|x| &**x).collect();
            let parts = ev.mul_const_sums(&xs, &rows, scale)?;
            sums = match sums.is_empty() {
                true => parts,
                false => par::try_map(sums.iter().zip(&parts), |(sum, part)| ev.add(sum, part))?,
            };
        }
        Ok(sums)
    }

    fn sparse<E: ComplexOps>(
        &self,
        ev: &E,
        stage: &Stage,
        values: &[Vec<E::Ct>],
    ) -> Result<Vec<E::Ct>> {
        let xs = stage.gather(values);
        let scales = stage.sources.iter().zip(&self.weights);
        let scales: Vec<Scale> =
            scales.flat_map(|(source, &scale)| core::iter::repeat_n(scale, source.width)).collect();
        par::try_map(stage.affine.rows.iter(), |row| {
            let terms: Vec<_> = match &row[..] {
                [] => vec![(xs[0], 0.0, scales[0])],
                _ => row.iter().map(|&(i, weight)| (xs[i], weight, scales[i])).collect(),
            };
            Ok(ev.mul_const_sum(&terms)?)
        })
    }

    /// The affine map of slots, by the next of these matrices.
    fn product<'a, E: ComplexOps>(
        &self,
        ev: &E,
        stage: &Stage,
        prepared: &mut impl Iterator<Item = &'a E::Matrix>,
        values: &[Vec<E::Ct>],
    ) -> Result<E::Ct>
    where
        E::Matrix: 'a,
    {
        let missing = || sudare::Error::Circuit("a layer of no matrix".into());
        let mut sum: Option<E::Ct> = None;
        for (matrix, source) in self.matrices.iter().zip(&stage.sources) {
            let x = values[source.value].first().zip(prepared.next());
            let (x, prepared) = x.ok_or_else(missing)?;
            let part = matrix.run(ev, prepared, x)?;
            sum = Some(match sum {
                None => part,
                Some(sum) => ev.add(&sum, &part)?,
            });
        }
        let sum = sum.ok_or_else(missing)?;
        let mut slots: Vec<_> =
            stage.affine.bias.iter().map(|&bias| Complex::new(bias, 0.0)).collect();
        slots.resize(1 << ev.log_slots(&sum), Complex::new(0.0, 0.0));
        Ok(ev.add_plain(&sum, &slots)?)
    }
}

impl Matrix {
    fn run<E: ComplexOps>(&self, ev: &E, prepared: &E::Matrix, x: &E::Ct) -> Result<E::Ct> {
        let [columns, rows] = self.log_slots;
        let parts = self.plan.run(ev, prepared, &ev.with_log_slots(x, columns)?)?;
        Ok(ev.with_log_slots(&self.sum.run(ev, &parts)?, rows)?)
    }
}

impl Applied {
    pub(super) fn run<E: ComplexOps>(&self, ev: &E, xs: &[E::Ct]) -> Result<Vec<E::Ct>> {
        let pairs = || xs.iter().map(|x| (x, x)).collect::<Vec<_>>();
        Ok(match self {
            Self::Square { rescales: true } => ev.mul_rescale_many(&pairs())?,
            Self::Square { rescales: false } => ev.mul_many(&pairs())?,
            Self::Polynomial(plan) => plan.run_many(ev, xs)?,
        })
    }
}

pub(super) fn check_form<E: ComplexOps>(
    ev: &E,
    what: &'static str,
    x: &E::Ct,
    (level, scale): (Level, Scale),
) -> Result<()> {
    if ev.level(x) == level && ev.scale(x).matches(scale) {
        return Ok(());
    }
    let form = |level: Level, scale: Scale| format!("level {level}, scale 2^{:.2}", scale.log2());
    let found = form(ev.level(x), ev.scale(x));
    let needed = form(level, scale);
    Err(NnError::NotAsPlanned { what, found, needed })
}
