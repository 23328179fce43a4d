//! Training in the clear by the program that trains under encryption.

use crate::logreg::{
    plan::TrainPlan,
    prepare::Prepared,
    train::{
        Training,
        gradient::{Gradient, Point},
    },
};
use crate::{Result, TablePlan};
use std::collections::{BTreeMap, btree_map::Entry};
use sudare::{
    circuits::ckks::{
        ComplexOps,
        cost::{self, Work},
        sim,
    },
    ckks::Complex,
};

/// The result of a simulated training.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The weights of each model, as from [`TrainPlan::decode`], without errors of encryption.
    pub weights: Vec<Vec<f64>>,
    /// `log2` of the standard deviation of the error that encryption would cause in a slot of the
    /// model, without errors of bootstrapping.
    pub noise_log2: f64,
}

impl TrainPlan {
    /// Trains on a table in the clear, in the same steps as the server. It uses the polynomial
    /// sigmoid and bootstrapping, and rejects tables that could not be trained on under encryption.
    /// `progress` is called with the number of finished iterations.
    ///
    /// # Errors
    /// The errors of [`TrainPlan::check`] and [`Trainer::step`](super::Trainer::step).
    pub fn simulate(&self, rows: &Prepared<'_>, progress: impl Fn(u32)) -> Result<Simulated> {
        self.check(rows)?;
        let e = self.simulator();
        let mut packed = self
            .pack(rows)
            .map(|(slots, level, scale)| {
                let slots: Vec<_> = slots.iter().map(|&re| Complex { re, im: 0.0 }).collect();
                Ok(e.encrypt(&slots, level, scale)?)
            })
            .collect::<Result<Vec<_>>>()?;
        let sums = packed.split_off(self.row_ciphertexts());
        let batch = |iteration| Ok(packed[self.batch(iteration)].to_vec());
        let training = self.train(&e, sums, batch, progress)?;
        let models = self.model(&training)?;
        let real = |model| e.decrypt(model).iter().map(|z| z.re).collect::<Vec<f64>>();
        let weights = models.iter().map(|model| self.decode(&real(model))).collect();
        let noise = models.iter().map(|model| model.noise_log2);
        Ok(Simulated { weights, noise_log2: noise.fold(f64::NEG_INFINITY, f64::max) })
    }

    /// Returns the server's work in the whole training. For its time see [`Work::seconds`].
    ///
    /// # Errors
    /// The errors of [`Trainer::step`](super::Trainer::step).
    pub fn work(&self) -> Result<Work> {
        let e = cost::Evaluator::new(&self.params, self.required_keys());
        // Only bootstrapping depends on the number of slots.
        let slots = self.refresh.as_ref().map_or(1, |_| self.layout.period());
        let zeros =
            |level, scale| e.slots().encrypt(&vec![Complex::default(); slots], level, scale);
        let labels = self.label_batches() * self.job.spec.models();
        let mut sums = vec![zeros(self.label_level, self.scales.labels)?; labels];
        if self.penalised() {
            sums.push(zeros(self.level, self.scales.penalty)?);
        }
        let trainer = self.trainer(&e, sums)?;
        let before = e.work();
        let mut training = trainer.start()?;
        let mut work = e.work() - before;
        let mut of_gradients = BTreeMap::new();
        while training.iteration < self.job.spec.iterations {
            let before = e.work();
            trainer.refresh(&mut training)?;
            work += e.work() - before;

            let point = trainer.point(&training);
            let round = self.round(training.iteration)?;
            let (level, scale) = self.input(self.batches.of(training.iteration));
            let row = zeros(level, scale)?;
            let of_gradient = match of_gradients.entry((round.level, level)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(place) => *place.insert(self.gradient_work(&e, &point, &row)?),
            };
            work += of_gradient;
            // The sums of all rows have this level and scale.
            let sums = self.sums_at(&e, &point, &vec![row.clone(); self.layout.group()])?;
            let iteration = point.iteration;
            let gradient = Gradient { iteration, shares: vec![self.batch(iteration)], sums };

            let before = e.work();
            trainer.update(gradient, &mut training)?;
            work += e.work() - before;
        }
        Ok(work)
    }

    /// Returns the work of a gradient over a batch, which is the same at all points of a level.
    /// Groups whose products are summed together all need the same work. Therefore only one and two
    /// of them are computed, each with the remaining groups.
    fn gradient_work(
        &self,
        e: &cost::Evaluator,
        point: &Point<sim::Ciphertext>,
        row: &sim::Ciphertext,
    ) -> Result<Work> {
        let count = self.layout.ciphertexts();
        let unit = self.layout.summed_ciphertexts();
        let units = count / unit;
        let rest = count % unit;
        let of = |units: usize| -> Result<Work> {
            let before = e.work();
            self.sums_at(e, point, &vec![row.clone(); units * unit + rest])?;
            Ok(e.work() - before)
        };
        let mut work = of(units.min(1))?;
        if units > 1 {
            let each = of(2)? - work;
            (1..units).for_each(|_| work += each);
        }
        Ok(work)
    }

    /// Returns the sum of a gradient over rows at a point, for each model.
    fn sums_at<E: ComplexOps>(
        &self,
        e: &E,
        point: &Point<E::Ct>,
        rows: &[E::Ct],
    ) -> Result<Vec<E::Ct>> {
        let round = self.round(point.iteration)?;
        let of_models = point.v.iter().map(|v| self.slope_sums(e, round, rows, v));
        Ok(of_models.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Runs the whole training, on the batch of each iteration.
    fn train<E: ComplexOps>(
        &self,
        e: &E,
        sums: Vec<E::Ct>,
        batch: impl Fn(u32) -> Result<Vec<E::Ct>>,
        progress: impl Fn(u32),
    ) -> Result<Training<E::Ct>> {
        let trainer = self.trainer(e, sums)?;
        let mut training = trainer.start()?;
        progress(training.iteration);
        while training.iteration < self.job.spec.iterations {
            trainer.step(&batch(training.iteration)?, &mut training)?;
            progress(training.iteration);
        }
        Ok(training)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error,
        logreg::{
            Job, LearningRate, Preparation, SigmoidApprox, SigmoidDegree, TrainSpec, reference,
        },
    };
    use sudare::circuits::ckks::cost::Rates;
    use sudare_arith::prng::Seed;
    use sudare_table::Table;

    fn planned(table: &Table, spec: TrainSpec) -> TrainPlan {
        let job = Job { rows: table.rows(), features: table.features(), spec };
        TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap()
    }

    /// With one batch, with several, and with bootstrapping.
    #[test]
    fn simulated_weights_are_those_of_the_reference() {
        let table = Table::bundled("lbw").unwrap();
        let published =
            |iterations, batch| TrainSpec { iterations, batch, ..TrainSpec::published() };
        let standardized =
            TrainSpec { preparation: Preparation::Standardize, ..TrainSpec::default() };
        for (spec, tolerance) in [
            (TrainSpec::default(), 1e-9),
            (standardized, 1e-9),
            (TrainSpec { iterations: 20, ..TrainSpec::default() }, 1e-3),
            (published(5, None), 1e-9),
            (published(6, Some(64)), 1e-9),
            (published(40, None), 1e-3),
        ] {
            let plan = planned(&table, spec);
            assert_eq!(
                plan.bootstraps_within(spec.iterations) > 0,
                spec.iterations >= 20,
                "{spec:?}"
            );
            let told = core::cell::Cell::new(0);
            let rows = plan.prepare(&table, None).unwrap();
            let found = plan.simulate(&rows, |done| told.set(done)).unwrap();
            assert_eq!(told.get(), spec.iterations);
            let expected = reference::train(&rows, &spec).unwrap();
            for (a, b) in found.weights.concat().iter().zip(&expected.concat()) {
                assert!((a - b).abs() < tolerance, "{spec:?}: {a} and {b}");
            }
            assert!(found.noise_log2 < plan.largest_error().log2(), "{}", found.noise_log2);
            assert!(found.noise_log2 < plan.noise_log2() + 5.0, "{}", found.noise_log2);
        }
    }

    /// An iteration more is work more, and batches are less than the whole table.
    #[test]
    fn work_grows_with_iterations_and_rows() {
        let table = Table::bundled("uis").unwrap();
        let seconds = |iterations, batch| {
            let spec = TrainSpec { iterations, batch, ..TrainSpec::published() };
            let work = planned(&table, spec).work().unwrap();
            work.seconds(&Rates::reference(14))
        };
        let [few, more, batches] = [seconds(3, None), seconds(5, None), seconds(5, Some(100))];
        assert!(0.0 < few && few < more && batches <= more, "{few} {more} {batches}");
    }

    /// Compares with the work of all groups, computed one by one. The batches have one sum of
    /// groups, several, and several with a rest. Further cases are pieces, a tail of the sigmoid,
    /// several classes, and bootstrapping.
    #[test]
    fn work_is_that_of_all_groups() {
        let spec = |iterations, batch| TrainSpec { iterations, batch, ..TrainSpec::published() };
        let septic = SigmoidApprox { degree: SigmoidDegree::Seven, ..SigmoidApprox::published() };
        for (rows, features, spec) in [
            (189, 9, spec(4, None)),
            (189, 9, TrainSpec { classes: 3, ..TrainSpec::default() }),
            (20_000, 9, spec(4, None)),
            (20_000, 9, TrainSpec { sigmoid: septic, ..spec(4, None) }),
            (9_000, 200, TrainSpec { workers: Some(4), ..spec(3, Some(3_000)) }),
            (4_000, 9, spec(16, None)),
        ] {
            let job = Job { rows, features, spec };
            let plan = TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap();
            assert_eq!(plan.bootstraps_within(spec.iterations) > 0, spec.iterations == 16);
            let e = cost::Evaluator::new(&plan.params, plan.required_keys());
            let encrypted = |level, scale| {
                let zero = e.slots().encrypt(&[Complex::default()], level, scale).unwrap();
                e.with_log_slots(&zero, plan.layout.period().ilog2()).unwrap()
            };
            let labels = encrypted(plan.label_level, plan.scales.labels);
            let mut sums = vec![labels; plan.label_batches() * spec.models()];
            if plan.penalised() {
                sums.push(encrypted(plan.level, plan.scales.penalty));
            }
            let batch = |iteration| {
                let (level, scale) = plan.input(plan.batches.of(iteration));
                Ok(vec![encrypted(level, scale); plan.layout.ciphertexts()])
            };
            plan.train(&e, sums, batch, |_| ()).unwrap();
            assert_eq!(plan.work().unwrap(), e.work(), "{job:?}");
        }
    }

    /// Tables are rejected even if there is room for them in the clear.
    #[test]
    fn simulation_refuses_as_encryption_does() {
        let table = Table::bundled("lbw").unwrap();
        let learning_rate = LearningRate::Constant(15.0);
        let spec = TrainSpec { learning_rate, iterations: 8, ..TrainSpec::published() };
        let plan = planned(&table, spec);
        let rows = plan.prepare(&table, None).unwrap();
        assert!(matches!(plan.simulate(&rows, |_| ()), Err(Error::WeightsTooLarge { .. })));
        let other = Table::bundled("uis").unwrap();
        assert!(matches!(plan.prepare(&other, None), Err(Error::TableShape { .. })));
    }

    #[test]
    fn weights_that_no_bound_is_for_are_not_released() {
        let plan = planned(&Table::bundled("lbw").unwrap(), TrainSpec::published());
        let seed = Seed::from_bytes([0; 32]);
        let unchecked = plan.share(&[0.5, 0.5], 4, false, &seed).unwrap_err();
        assert!(matches!(unchecked, Error::RangeUnchecked { .. }), "{unchecked}");
        let refusal = |w: f64| plan.share(&[0.5, w], 4, true, &seed).unwrap_err();
        for w in [1.1 * plan.largest_weight, -1e9, f64::INFINITY] {
            assert!(matches!(refusal(w), Error::WeightsTooLarge { .. }), "{w}");
        }
        // This plan has no precision for noise.
        for w in [0.9 * plan.largest_weight, f64::NAN] {
            assert!(matches!(refusal(w), Error::Library(_)), "{w}");
        }
    }

    #[test]
    fn weights_of_unchecked_rows_are_released_only_on_a_promise() {
        let spec = TrainSpec { shared_bits: Some(4), tables: 2, ..TrainSpec::default() };
        let job = Job { rows: 64, features: 7, spec: TrainSpec { iterations: 3, ..spec } };
        let plan = TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap();
        let share = |assume| plan.share(&[0.5, 0.25], 4, assume, &Seed::from_bytes([0; 32]));
        let range = job.spec.sigmoid.range;
        let weight = plan.largest_weight;
        let refused = Error::RangeUnchecked { range, weight };
        assert_eq!(share(false).unwrap_err(), refused);
        assert_eq!(share(true).unwrap().len(), 2);
    }
}
