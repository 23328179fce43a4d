//! Training in the clear by the program that trains under encryption.

use super::{Gradient, Point, TrainPlan, Training, train::Stage};
use crate::{Result, table::Table};
use std::collections::{BTreeMap, btree_map::Entry};
use sudare::{
    circuits::{
        Ops,
        cost::{self, Work},
        sim,
    },
    ckks::Complex,
};

/// What training under encryption would give.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The weights, as [`TrainPlan::decode`] gives them, without errors of encryption.
    pub weights: Vec<f64>,
    /// `log2` of the standard deviation of the error that encryption would cause in a slot of
    /// the model, without what bootstrapping adds.
    pub noise_log2: f64,
}

impl TrainPlan {
    /// Trains on a table in the clear, step for step as the server trains: with its polynomial
    /// sigmoid and its bootstrapping, and refusing what could not be trained under encryption.
    /// `given` are class weights as for [`TrainPlan::pack`]. `progress` is told the iterations done.
    ///
    /// # Errors
    /// As [`TrainPlan::encryptions`] and [`Trainer::step`](super::Trainer::step).
    pub fn simulate(
        &self,
        table: &Table,
        given: Option<[f64; 2]>,
        progress: impl Fn(u32),
    ) -> Result<Simulated> {
        let e = self.simulator();
        let (level, scale) = self.input();
        let packed: Vec<Vec<f64>> = self.packed(self.checked_rows(table, given)?).collect();
        let encrypt = |slots: &Vec<f64>| {
            let slots: Vec<_> = slots.iter().map(|&re| Complex { re, im: 0.0 }).collect();
            Ok(e.encrypt(&slots, level, scale)?)
        };
        let batch = |iteration| packed[self.batch(iteration)].iter().map(encrypt).collect();
        let training = self.train(&e, batch, progress)?;
        let model = self.model(&training)?;
        let slots: Vec<f64> = e.decrypt(&model).iter().map(|z| z.re).collect();
        Ok(Simulated { weights: self.decode(&slots), noise_log2: model.noise_log2 })
    }

    /// What a server does in the whole training: [`Work::seconds`] is the time that it takes.
    ///
    /// # Errors
    /// Those of [`Trainer::step`](super::Trainer::step).
    pub fn work(&self) -> Result<Work> {
        let e = cost::Evaluator::new(&self.params, self.required_keys());
        let (level, scale) = self.input();
        // Only bootstrapping depends on the number of slots.
        let slots = self.refresh.as_ref().map_or(1, |_| self.layout.period());
        let row = e.slots().encrypt(&vec![Complex::default(); slots], level, scale)?;
        let (trainer, mut training) = (self.trainer(&e)?, Training::new());
        let (mut work, mut of_gradients) = (Work::default(), BTreeMap::new());
        while training.iteration < self.job.spec.iterations {
            let before = e.work();
            trainer.refresh(&mut training)?;
            work += e.work() - before;

            let point = training.point();
            let level = point.v.as_ref().map(|v| e.level(v));
            let of_gradient = match of_gradients.entry(level) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(place) => *place.insert(self.gradient_work(&e, &point, &row)?),
            };
            work += of_gradient;
            // Any rows have sums of that level and scale.
            let sums = self.sums(&e, &point, &vec![row.clone(); self.layout.pieces])?;
            let iteration = point.iteration;
            let gradient = Gradient { iteration, shares: vec![self.batch(iteration)], sums };

            let before = e.work();
            trainer.update(gradient, &mut training)?;
            work += e.work() - before;
        }
        Ok(work)
    }

    /// The work that a gradient over a batch is: the same at all points of a level. Groups whose
    /// products are summed together are all the same work, so one and two of them are computed,
    /// each with the groups that are left over.
    fn gradient_work(
        &self,
        e: &cost::Evaluator,
        point: &Point<sim::Ciphertext>,
        row: &sim::Ciphertext,
    ) -> Result<Work> {
        let (count, unit) = (self.layout.ciphertexts(), self.layout.summed_ciphertexts());
        let (units, rest) = (count / unit, count % unit);
        let of = |units: usize| -> Result<Work> {
            let before = e.work();
            self.sums(e, point, &vec![row.clone(); units * unit + rest])?;
            Ok(e.work() - before)
        };
        let mut work = of(units.min(1))?;
        if units > 1 {
            let each = of(2)? - work;
            (1..units).for_each(|_| work += each);
        }
        Ok(work)
    }

    /// What a gradient at a point sums over rows.
    fn sums<E: Ops>(&self, e: &E, point: &Point<E::Ct>, rows: &[E::Ct]) -> Result<Vec<E::Ct>> {
        match (self.stage(point.iteration)?, &point.v) {
            (Stage::Round(round), Some(v)) => self.slope_sums(e, round, rows, v),
            _ => self.row_sums(e, rows),
        }
    }

    /// The whole training, on the batch of each iteration.
    fn train<E: Ops>(
        &self,
        e: &E,
        batch: impl Fn(u32) -> Result<Vec<E::Ct>>,
        progress: impl Fn(u32),
    ) -> Result<Training<E::Ct>> {
        let trainer = self.trainer(e)?;
        let mut training = trainer.start(&batch(0)?)?;
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
        logreg::{Job, LearningRate, SigmoidApprox, SigmoidDegree, TrainSpec, reference},
        table::Scaling,
    };
    use sudare::circuits::cost::Rates;

    fn planned(table: &Table, spec: TrainSpec) -> TrainPlan {
        let job = Job { rows: table.rows(), features: table.features(), spec };
        TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap()
    }

    /// With one batch, with several, and with bootstrapping.
    #[test]
    fn simulated_weights_are_those_of_the_reference() {
        let table = Table::bundled("lbw").unwrap();
        let z = Scaling::max_abs(&table).signed_rows(&table).unwrap();
        for (iterations, batch, tolerance) in
            [(5, None, 1e-9), (6, Some(64), 1e-9), (40, None, 1e-3)]
        {
            let spec = TrainSpec { iterations, batch, ..TrainSpec::default() };
            let plan = planned(&table, spec);
            assert_eq!(plan.bootstraps(iterations) > 0, iterations == 40);
            let told = core::cell::Cell::new(0);
            let found = plan.simulate(&table, None, |done| told.set(done)).unwrap();
            assert_eq!(told.get(), iterations);
            let expected = reference::train(&z, &spec, None).unwrap();
            for (a, b) in found.weights.iter().zip(&expected) {
                assert!((a - b).abs() < tolerance, "{iterations}: {a} and {b}");
            }
            assert!(found.noise_log2 < plan.largest_error().log2(), "{}", found.noise_log2);
        }
    }

    /// An iteration more is work more, and batches are less than the whole table.
    #[test]
    fn work_grows_with_iterations_and_rows() {
        let table = Table::bundled("uis").unwrap();
        let seconds = |iterations, batch| {
            let spec = TrainSpec { iterations, batch, ..TrainSpec::default() };
            let work = planned(&table, spec).work().unwrap();
            work.seconds(&Rates::reference(14))
        };
        let [few, more, batches] = [seconds(3, None), seconds(5, None), seconds(5, Some(100))];
        assert!(0.0 < few && few < more && batches <= more, "{few} {more} {batches}");
    }

    /// Those of all groups, computed one by one: with batches of one sum of groups, of several, and
    /// of some and a part; in pieces, with a tail of the sigmoid and with bootstrapping.
    #[test]
    fn work_is_that_of_all_groups() {
        let spec = |iterations, batch| TrainSpec { iterations, batch, ..TrainSpec::default() };
        let septic = SigmoidApprox { degree: SigmoidDegree::Seven, ..SigmoidApprox::default() };
        for (rows, features, spec) in [
            (189, 9, spec(4, None)),
            (20_000, 9, spec(4, None)),
            (20_000, 9, TrainSpec { sigmoid: septic, ..spec(4, None) }),
            (9_000, 200, TrainSpec { workers: Some(4), ..spec(3, Some(3_000)) }),
            (4_000, 9, spec(16, None)),
        ] {
            let job = Job { rows, features, spec };
            let plan = TrainPlan::new(&job, &TrainPlan::auto_params(&job).unwrap()).unwrap();
            assert_eq!(plan.bootstraps(spec.iterations) > 0, spec.iterations == 16);
            let e = cost::Evaluator::new(&plan.params, plan.required_keys());
            let (level, scale) = plan.input();
            let row = e.slots().encrypt(&[Complex::default()], level, scale).unwrap();
            let row = e.with_log_slots(&row, plan.layout.period().ilog2()).unwrap();
            let batch = vec![row; plan.layout.ciphertexts()];
            plan.train(&e, |_| Ok(batch.clone()), |_| ()).unwrap();
            assert_eq!(plan.work().unwrap(), e.work(), "{job:?}");
        }
    }

    /// Also when there is room for them in the clear.
    #[test]
    fn what_encryption_refuses_is_refused() {
        let table = Table::bundled("lbw").unwrap();
        let spec =
            TrainSpec { learning_rate: LearningRate::Constant(15.0), ..TrainSpec::default() };
        let plan = planned(&table, TrainSpec { iterations: 8, ..spec });
        assert!(matches!(plan.simulate(&table, None, |_| ()), Err(Error::WeightsTooLarge { .. })));
        let other = Table::bundled("uis").unwrap();
        assert!(matches!(plan.simulate(&other, None, |_| ()), Err(Error::TableShape { .. })));
    }
}
