//! Costs of jobs, before any key exists.

use sudare::{
    circuits::{
        Ops,
        ckks::{
            cost::{Evaluator, Work},
            sim,
        },
    },
    ckks::{Complex, Params, Scale},
    rlwe::{KeyRequest, Level},
};

use super::Result;

/// The server's work for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Levels from the table to the lowest result.
    pub depth: u32,
    /// Size of the encrypted table in memory, in bytes.
    pub input_bytes: u64,
    /// Size of the result in memory, in bytes.
    pub output_bytes: u64,
    /// The work of the computation, with the keys of the job.
    pub work: Work,
}

impl Cost {
    /// Predicts the cost of `run` on inputs of these numbers of ciphertexts, slots, levels and
    /// scales.
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

/// Number of ciphertexts, their number of slots, level and scale.
pub type Inputs = (usize, usize, Level, Scale);

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
    use super::*;
    use crate::TablePlan;
    use crate::stats::{
        Circuit, GroupJob, GroupPlan, HistogramJob, HistogramPlan, Job, StatsError, StatsPlan,
        TableStatistics,
    };
    use sudare::ckks::Spec;

    /// Facts that plans measure on one ciphertext of each kind hold for all, in one chunk and in
    /// several.
    #[test]
    fn shapes_match_the_results() {
        let check = |params: &Params, inputs: &[Inputs], shapes, run: &Simulated<'_>| {
            let e = sim::Evaluator::for_params(params);
            let results = run(&e, &zeros(&e, inputs.iter().copied()).unwrap()).unwrap();
            let found: Vec<_> = results.iter().map(|item| (item.level, item.scale)).collect();
            assert_eq!(found, shapes);
        };
        for (rows, features) in [(1, 1), (1_000, 9), (9_000, 2)] {
            let job = Job { rows, features };
            let params = StatsPlan::auto_params(&job).unwrap();
            let plan = StatsPlan::new(&job, &params).unwrap();
            let run: &Simulated<'_> = &|e, table| plan.run(e, table, |_| {});
            check(&params, &Circuit::inputs(&plan), plan.output_shapes(), run);

            let job = GroupJob { rows, features, groups: 3 };
            let plan = GroupPlan::new(&job, &GroupPlan::auto_params(&job).unwrap()).unwrap();
            let run: &Simulated<'_> = &|e, table| plan.run(e, table, |_| {});
            check(&params, &Circuit::inputs(&plan), plan.output_shapes(), run);

            let job = HistogramJob { rows, features, bins: 3 };
            let params = HistogramPlan::auto_params(&job).unwrap();
            let plan = HistogramPlan::new(&job, &params).unwrap();
            let run: &Simulated<'_> = &|e, table| plan.run(e, table, |_| {});
            check(&params, &Circuit::inputs(&plan), plan.output_shapes(), run);
        }
    }

    type Simulated<'a> =
        dyn Fn(&sim::Evaluator, &[sim::Ciphertext]) -> Result<Vec<sim::Ciphertext>> + 'a;

    /// Readers of a file plan the job that its label describes, so planning must be little work for
    /// any label.
    #[test]
    fn no_shape_takes_much_work_to_plan() {
        let small = |log_n| {
            let spec = Spec::uniform(log_n, 55.0, 30, 40.0, vec![55.0]);
            Params::new(Spec { insecure: true, ..spec }).unwrap()
        };
        let mut planned = 0;
        let mut refused = 0;
        let mut check = |found: Result<u64>| match found {
            Ok(operations) => {
                planned += 1;
                assert!(operations <= 1 << 20, "{operations}");
            }
            Err(StatsError::TooLarge { what, .. }) => {
                refused += 1;
                let limited = ["ciphertexts", "cells", "rows", "columns", "columns of this length"];
                assert!(limited.contains(&what), "{what}");
            }
            Err(StatsError::ParamsTooSmall { .. }) => {}
            Err(error) => panic!("{error}"),
        };
        for params in [4, 9, 13].map(small) {
            for (rows, features) in [
                (1 << 24, 4),
                (1 << 24, 1),
                (1 << 18, 256),
                (1, 256),
                (1, 1024),
                (1 << 16, 1024),
                (1 << 25, 1),
                (usize::MAX, 2),
            ] {
                let job = Job { rows, features };
                check(StatsPlan::new(&job, &params).map(|plan| plan.learnt.operations));
                for groups in [1, 1 << 10] {
                    let job = GroupJob { rows, features, groups };
                    check(GroupPlan::new(&job, &params).map(|plan| plan.learnt.operations));
                }
                let job = HistogramJob { rows, features, bins: 256 };
                check(HistogramPlan::new(&job, &params).map(|plan| plan.learnt.operations));
            }
        }
        assert!(planned > 10 && refused > 10, "{planned} {refused}");
    }

    /// Sizes are those of ciphertexts at their levels, and work grows with the table.
    #[test]
    fn costs_are_those_of_the_ciphertexts() {
        let job = |rows| Job { rows, features: 9 };
        let params = StatsPlan::auto_params(&job(20_000)).unwrap();
        let cost = |rows| StatsPlan::new(&job(rows), &params).unwrap().cost().unwrap();
        let one = cost(2_000);
        let several = cost(20_000);
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
