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
    /// Of `run` on so many ciphertexts each at a level and a scale.
    pub(super) fn of(
        params: &Params,
        keys: &KeyRequest,
        inputs: impl IntoIterator<Item = (usize, Level, Scale)>,
        run: impl FnOnce(&Evaluator, &[sim::Ciphertext]) -> Result<Vec<sim::Ciphertext>>,
    ) -> Result<Self> {
        let e = Evaluator::new(params, keys);
        let mut table = Vec::new();
        for (count, level, scale) in inputs {
            // What is done depends on no value, and on no slot.
            let x = e.slots().encrypt(&[Complex::default()], level, scale)?;
            table.resize(table.len() + count, x);
        }
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
