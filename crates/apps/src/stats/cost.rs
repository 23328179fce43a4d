//! What jobs take, before any key exists.

use sudare::{
    circuits::{
        Ops,
        cost::{Evaluator, Work},
        sim,
    },
    ckks::{Complex, Params, Scale},
    rlwe::{KeyRequest, Level},
};

use super::Result;

/// What the server does for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Levels from the table to the lowest result.
    pub depth: u32,
    /// Bytes in memory of the encrypted table.
    pub input_bytes: u64,
    /// Bytes in memory of the result.
    pub output_bytes: u64,
    /// What it computes, with the keys of the job.
    pub work: Work,
}

impl Cost {
    /// Of `run` on so many ciphertexts each of a number of slots, at a level and a scale.
    pub(super) fn of(
        params: &Params,
        keys: &KeyRequest,
        inputs: impl IntoIterator<Item = Inputs>,
        run: impl FnOnce(&Evaluator, &[sim::Ciphertext]) -> Result<Vec<sim::Ciphertext>>,
    ) -> Result<Self> {
        let e = Evaluator::new(params, keys);
        let table = zeros(e.slots(), inputs)?;
        let result = run(&e, &table)?;
        let bytes = |items: &[sim::Ciphertext]| {
            let rows = |item| 2 * params.rlwe().limbs(e.level(item)).q() as u64;
            items.iter().map(|item| 8 * (rows(item) << params.log_n())).sum()
        };
        let highest = table.iter().map(|item| e.level(item)).max().unwrap_or(Level(0));
        let lowest = result.iter().map(|item| e.level(item)).min().unwrap_or(highest);
        Ok(Self {
            depth: highest.0.saturating_sub(lowest.0),
            input_bytes: bytes(&table),
            output_bytes: bytes(&result),
            work: e.work(),
        })
    }
}

/// Level and scale of each ciphertext that `run` makes of the same.
pub(super) fn shapes(
    params: &Params,
    inputs: impl IntoIterator<Item = Inputs>,
    run: impl FnOnce(&sim::Evaluator, &[sim::Ciphertext]) -> Result<Vec<sim::Ciphertext>>,
) -> Result<Vec<(Level, Scale)>> {
    let e = sim::Evaluator::new(params.log_n(), params.chain().clone());
    let result = run(&e, &zeros(&e, inputs)?)?;
    Ok(result.iter().map(|item| (item.level, item.scale)).collect())
}

/// So many ciphertexts of a number of slots, at a level and a scale.
pub(super) type Inputs = (usize, usize, Level, Scale);

fn zeros(
    e: &sim::Evaluator,
    inputs: impl IntoIterator<Item = Inputs>,
) -> Result<Vec<sim::Ciphertext>> {
    let mut table = Vec::new();
    for (count, slots, level, scale) in inputs {
        let x = e.encrypt(&vec![Complex::default(); slots], level, scale)?;
        table.resize(table.len() + count, x);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use crate::stats::{GroupJob, GroupPlan, HistogramJob, HistogramPlan, Job, StatsPlan};

    /// Sizes are those of ciphertexts at their levels, and work grows with the table.
    #[test]
    fn costs_are_those_of_the_ciphertexts() {
        let job = |rows| Job { rows, features: 9 };
        let params = StatsPlan::auto_params(&job(20_000)).unwrap();
        let cost = |rows| StatsPlan::new(&job(rows), &params).unwrap().cost().unwrap();
        let (one, several) = (cost(2_000), cost(20_000));
        assert_eq!((one.depth, several.depth), (2, 2));
        let bytes = |level| 16 * (params.rlwe().limbs(level).q() << params.log_n()) as u64;
        let plan = StatsPlan::new(&job(20_000), &params).unwrap();
        assert_eq!(several.input_bytes, plan.ciphertexts() as u64 * bytes(plan.level()));
        assert_eq!(several.output_bytes, plan.outputs() as u64 * bytes(sudare::rlwe::Level(0)));
        assert!(several.work.products() > 2 * one.work.products());

        let job = GroupJob { rows: 100, features: 2, groups: 3 };
        let plan = GroupPlan::new(&job, &GroupPlan::auto_params(&job).unwrap()).unwrap();
        assert_eq!(plan.cost().unwrap().depth, 2);
        let job = HistogramJob { rows: 100, features: 2, bins: 4 };
        let plan = HistogramPlan::new(&job, &HistogramPlan::auto_params(&job).unwrap()).unwrap();
        assert_eq!(plan.cost().unwrap().depth, plan.level().0);
    }
}
