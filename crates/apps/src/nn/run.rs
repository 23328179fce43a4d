//! The server's side of a network.

use std::{
    borrow::Cow,
    collections::{BTreeMap, btree_map::Entry},
};

use sudare::{
    circuits::ckks::{
        ComplexOps,
        bootstrap::{BootstrapPlan, Bootstrapper},
        cost, sim,
    },
    ckks::{Complex, Params, Scale, planner::Errors},
    rlwe::Level,
};
use sudare_arith::{par, real};

use super::{
    affine::{Part, Stage},
    error::{NnError, Result, expect},
    layout::Layout,
    map::Map,
    options::Packing,
    plan::Plan,
    ranges::BEYOND,
    refresh::{Refresh, refreshed},
    steps::{After, Applied, Matrix, Step},
    uses::LastUses,
};
use crate::bootstrap::restore_headroom;

/// Fraction of nonzero weights from which on all sums are computed together.
const DENSE: f64 = 0.25;

/// The matrices of a plan, prepared for an evaluator. If slots hold samples or weights are
/// encrypted, these are only the matrices of bootstrapping, if any.
pub struct Prepared<E: ComplexOps> {
    matrices: Vec<E::Matrix>,
    bootstrapper: Option<Bootstrapper<E>>,
}

/// The result of a simulated run.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// The results of the samples, without errors of encryption.
    pub results: Vec<Vec<f64>>,
    /// Estimated standard deviation of the error that encryption would cause: the maximum over all
    /// results.
    pub error: f64,
    /// Bits left between the largest number met and the modulus that held it.
    pub headroom_bits: f64,
}

impl Plan {
    /// Encodes the matrices of the network for `ev`. Do this once for all runs.
    ///
    /// # Errors
    /// [`NnError::NotAsPlanned`] for an evaluator of other parameters; [`NnError::Library`].
    pub fn prepare<E: ComplexOps>(&self, ev: &E) -> Result<Prepared<E>> {
        check_evaluator(self.params(), ev)?;
        let prepared = Prepared::new(ev, self.refresh.as_ref())?;
        Ok(Prepared { matrices: self.prepare_matrices(ev)?, ..prepared })
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
    /// matrices prepared for another plan; [`NnError::Library`] for a missing key or ciphertexts of
    /// another one.
    pub fn run<E: ComplexOps>(
        &self,
        ev: &E,
        prepared: &Prepared<E>,
        inputs: &[E::Ct],
    ) -> Result<Vec<E::Ct>> {
        prepared.check(self.refresh.as_ref())?;
        self.run_with(ev, &prepared.matrices, inputs, |xs, most| prepared.refreshed(ev, xs, most))
    }

    /// Runs the plan. `refreshed` bootstraps numbers up to a magnitude.
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
        let stages = self.stages.iter().enumerate();
        let uses = stages.flat_map(|(k, stage)| stage.sources.iter().map(move |x| (k, x.value)));
        let last = LastUses::new(self.stages.len(), uses);
        let mut values = vec![inputs.to_vec()];
        let mut matrices = matrices.iter();
        for (k, (stage, step)) in self.stages.iter().zip(&self.steps).enumerate() {
            let xs = match step.matrices.is_empty() {
                true => step.affine(ev, stage, &values)?,
                false => {
                    let layout = &self.layouts[k + 1];
                    vec![step.product(ev, stage, layout, &mut matrices, &values)?]
                }
            };
            last.free(k, &mut values);
            values.push(step.after.run(ev, xs, &mut refreshed)?);
        }
        Ok(values.pop().unwrap_or_default())
    }

    /// Runs the plan on samples in the clear, at most the samples of one run, by the same steps as
    /// under encryption.
    ///
    /// # Errors
    /// The errors of [`Plan::encrypt`] and [`Plan::run`]; [`NnError::Library`] for values that
    /// encryption would reject.
    pub fn simulate(&self, samples: &[&[f64]]) -> Result<Simulation> {
        let costs = self.cost_evaluator();
        let (ev, (level, scale)) = (costs.slots(), self.input);
        let encrypt = |slots: Vec<f64>| -> Result<sim::Ciphertext> {
            let slots: Vec<_> = slots.into_iter().map(|x| Complex::new(x, 0.0)).collect();
            let x = ev.encrypt(&slots, level, scale)?;
            // Plans are made for encryption by the secret key.
            let noise_log2 = Errors::new(self.params().log_n()).secret_fresh - scale.log2();
            Ok(sim::Ciphertext { noise_log2, ..x })
        };
        let messages = self.messages(samples)?.into_iter();
        let inputs = messages.map(encrypt).collect::<Result<Vec<_>>>()?;
        let prepared = self.prepare(ev)?;
        let packing = self.options().packing;
        let outputs = self.run_with(ev, &prepared.matrices, &inputs, |xs, most| {
            prepared.simulated(ev, xs, most, packing)
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
    fn cost_evaluator(&self) -> cost::Evaluator {
        cost::Evaluator::new(self.params(), self.required_keys()).with_trusted_arguments()
    }

    /// Returns the work of a run, without the encoding of matrices, and the number of ciphertexts
    /// that it bootstraps.
    pub(super) fn work(&self) -> Result<(cost::Work, usize)> {
        let ev = self.cost_evaluator().with_counted_matrices();
        // With one feature in a ciphertext, the work does not depend on the number of slots.
        let slots = match self.options().packing {
            Packing::Features => 1,
            Packing::Sample => self.slots_of_sample(),
        };
        let inputs = vec![zero(&ev, self.input, slots)?; self.inputs()];
        let matrices = self.prepare_matrices(&ev)?;
        let mut counted = Counted::default();
        self.run_with(&ev, &matrices, &inputs, |xs, most| {
            counted.refreshed(&ev, (self.params(), self.refresh.as_ref()), xs, most)
        })?;
        Ok(counted.with(ev.work()))
    }
}

/// Returns zeros of this level and scale.
pub(super) fn zero(
    ev: &cost::Evaluator,
    (level, scale): (Level, Scale),
    slots: usize,
) -> Result<sim::Ciphertext> {
    Ok(ev.slots().encrypt(&vec![Complex::new(0.0, 0.0); slots], level, scale)?)
}

/// Counts bootstrapping instead of computing it.
#[derive(Default)]
pub(super) struct Counted {
    work: cost::Work,
    /// Number of ciphertexts.
    bootstraps: usize,
    /// Work by the number of ciphertexts bootstrapped together.
    together: BTreeMap<usize, cost::Work>,
}

impl Counted {
    /// Adds other work. Returns the total, and the number of bootstrapped ciphertexts.
    pub(super) fn with(mut self, other: cost::Work) -> (cost::Work, usize) {
        self.work += other;
        (self.work, self.bootstraps)
    }

    pub(super) fn refreshed(
        &mut self,
        ev: &cost::Evaluator,
        (params, refresh): (&Params, Option<&Refresh>),
        xs: &[sim::Ciphertext],
        most: Scale,
    ) -> Result<Vec<sim::Ciphertext>> {
        let Some(refresh) = refresh else { return Ok(xs.to_vec()) };
        // Each count of ciphertexts is measured once.
        self.work += match self.together.entry(xs.len()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(refresh.work(params, xs.len())?),
        };
        self.bootstraps += xs.len();
        let level = refresh.plan.output_level();
        let form = (level, params.scale_at(level) / most);
        xs.iter().map(|x| zero(ev, form, x.slots.len())).collect()
    }
}

impl<E: ComplexOps> Prepared<E> {
    /// Prepares bootstrapping without other matrices.
    pub(super) fn new(ev: &E, refresh: Option<&Refresh>) -> Result<Self> {
        let bootstrapper = refresh.map(|refresh| refresh.plan.prepare(ev)).transpose()?;
        Ok(Self { matrices: Vec::new(), bootstrapper })
    }

    /// Rejects matrices that were prepared for another bootstrapping than the plan's.
    pub(super) fn check(&self, refresh: Option<&Refresh>) -> Result<()> {
        let Some(refresh) = refresh else { return Ok(()) };
        let form = |plan: &BootstrapPlan| {
            let (slots, [from, to]) =
                (plan.spec().log_slots, [plan.input_level(), plan.output_level()].map(|l| l.0));
            format!("bootstrapping of 2^{slots} slots from level {from} to {to}")
        };
        let found = self.bootstrapper.as_ref().map(|bootstrapper| form(bootstrapper.plan()));
        let found = found.unwrap_or_else(|| "nothing to bootstrap with".into());
        let needed = form(&refresh.plan);
        match found == needed {
            true => Ok(()),
            false => Err(NnError::NotAsPlanned { what: "what was prepared", found, needed }),
        }
    }

    /// Bootstraps numbers of a magnitude of at most `most`.
    pub(super) fn refreshed(&self, ev: &E, xs: &[E::Ct], most: Scale) -> Result<Vec<E::Ct>> {
        let missing = || sudare::Error::Circuit("nothing to bootstrap with".into());
        refreshed(ev, self.bootstrapper.as_ref().ok_or_else(missing)?, xs, most)
    }
}

impl Prepared<sim::Evaluator> {
    /// Bootstraps as [`Prepared::refreshed`] does, in simulation, and rejects numbers that are too
    /// large.
    pub(super) fn simulated(
        &self,
        ev: &sim::Evaluator,
        xs: &[sim::Ciphertext],
        most: Scale,
        packing: Packing,
    ) -> Result<Vec<sim::Ciphertext>> {
        let limit = most.to_f64() * (1.0 + BEYOND);
        for (number, x) in xs.iter().enumerate() {
            let inside = |z: &Complex<f64>| (-limit..=limit).contains(&z.re);
            let Some(slot) = x.slots.iter().position(|z| !inside(z)) else { continue };
            let (index, sample) = match packing {
                Packing::Features => (number, slot),
                Packing::Sample => (slot, number),
            };
            let what = "pre-activation";
            let found = x.slots[slot].re;
            let least = -limit;
            let most = limit;
            return Err(NnError::OutOfRange { what, index, sample, found, least, most });
        }
        let mut fresh = self.refreshed(ev, xs, most)?;
        fresh.iter_mut().zip(xs).for_each(|(after, before)| restore_headroom(after, before));
        Ok(fresh)
    }
}

pub(super) fn check_evaluator<E: ComplexOps>(params: &Params, ev: &E) -> Result<()> {
    if ev.log_n() == params.log_n() && ev.chain() == params.chain() {
        return Ok(());
    }
    let ring = |log_n| format!("primes of its own, in the ring N = 2^{log_n}");
    let what = "the evaluator's parameters";
    let found = ring(ev.log_n());
    let needed = ring(params.log_n());
    Err(NnError::NotAsPlanned { what, found, needed })
}

impl Step {
    /// Applies the affine map to ciphertexts, one for each feature.
    fn affine<E: ComplexOps>(
        &self,
        ev: &E,
        stage: &Stage,
        values: &[Vec<E::Ct>],
    ) -> Result<Vec<E::Ct>> {
        let affine = &stage.affine;
        let entries: usize = affine.maps.iter().map(Map::entries).sum();
        let all: usize = affine.maps.iter().map(|map| map.outputs() * map.inputs()).sum();
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
        for (Part { source, map }, &scale) in stage.parts().zip(&self.weights) {
            let mut rows = vec![vec![0.0; map.inputs()]; map.outputs()];
            map.each(|output, input, weight| rows[output][input] += weight);
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
        par::try_map(0..stage.affine.outputs(), |output| {
            let mut terms = Vec::new();
            for (Part { source, map }, &scale) in stage.parts().zip(&self.weights) {
                let xs = &values[source.value];
                terms.extend(map.row(output).iter().map(|&(i, weight)| (&xs[i], weight, scale)));
            }
            // A row without weights still needs a ciphertext for its bias.
            if let (true, Some(source)) = (terms.is_empty(), stage.sources.first()) {
                terms.push((&values[source.value][0], 0.0, self.weights[0]));
            }
            Ok(ev.mul_const_sum(&terms)?)
        })
    }

    /// Applies the affine map to slots, by the next of these matrices.
    fn product<'a, E: ComplexOps>(
        &self,
        ev: &E,
        stage: &Stage,
        layout: &Layout,
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
        let bias = layout.spread(stage.affine.bias.iter().copied());
        let slots: Vec<_> = bias.into_iter().map(|bias| Complex::new(bias, 0.0)).collect();
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

impl After {
    /// Runs the stages. `refreshed` bootstraps numbers up to a magnitude.
    pub(super) fn run<E: ComplexOps>(
        &self,
        ev: &E,
        mut xs: Vec<E::Ct>,
        refreshed: &mut impl FnMut(&[E::Ct], Scale) -> Result<Vec<E::Ct>>,
    ) -> Result<Vec<E::Ct>> {
        if let Some(most) = self.refreshed {
            xs = refreshed(&xs, most)?;
        }
        match &self.applied {
            Some(applied) => applied.run(ev, &xs),
            None => Ok(xs),
        }
    }
}

impl Applied {
    fn run<E: ComplexOps>(&self, ev: &E, xs: &[E::Ct]) -> Result<Vec<E::Ct>> {
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
