//! Training in the clear by the program that trains under encryption.

use super::{TrainPlan, Training};
use crate::{Result, table::Table};
use sudare::{
    circuits::{
        Ops,
        cost::{self, Work},
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
    /// `progress` is told the iterations done.
    ///
    /// # Errors
    /// As [`TrainPlan::encryptions`] and [`Trainer::step`](super::Trainer::step).
    pub fn simulate(&self, table: &Table, progress: impl Fn(u32)) -> Result<Simulated> {
        let e = self.simulator();
        let (level, scale) = self.input();
        let packed: Vec<Vec<f64>> = self.packed(self.checked_rows(table)?).collect();
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
        let zeros = vec![Complex::default(); self.layout.period()];
        let zeros = e.slots().encrypt(&zeros, level, scale)?;
        let batch = vec![zeros; self.layout.ciphertexts()];
        self.train(&e, |_| Ok(batch.clone()), |_| ())?;
        Ok(e.work())
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
        logreg::{Job, LearningRate, TrainSpec, reference},
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
            let found = plan.simulate(&table, |done| told.set(done)).unwrap();
            assert_eq!(told.get(), iterations);
            let expected = reference::train(&z, &spec).unwrap();
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

    /// Also when there is room for them in the clear.
    #[test]
    fn what_encryption_refuses_is_refused() {
        let table = Table::bundled("lbw").unwrap();
        let spec =
            TrainSpec { learning_rate: LearningRate::Constant(15.0), ..TrainSpec::default() };
        let plan = planned(&table, TrainSpec { iterations: 8, ..spec });
        assert!(matches!(plan.simulate(&table, |_| ()), Err(Error::WeightsTooLarge { .. })));
        let other = Table::bundled("uis").unwrap();
        assert!(matches!(plan.simulate(&other, |_| ()), Err(Error::TableShape { .. })));
    }
}
