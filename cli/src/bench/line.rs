//! Lines of results.

use super::timing::Time;
use crate::output;
use serde::Serialize;
use sudare::rlwe::Level;
use sudare_arith::{Isa, par};
use sudare_roles::text::size;

/// One benchmark line.
#[derive(Serialize)]
pub struct Line {
    /// Name of the operation.
    pub op: String,
    /// Name of the parameter set.
    pub params: String,
    /// Level of the operands.
    pub level: u32,
    /// Threads in use.
    pub threads: usize,
    /// Instruction set of the kernels.
    pub isa: &'static str,
    /// Median time of one operation.
    pub median_ms: f64,
    /// Shortest time of one operation.
    pub min_ms: f64,
    /// Timed runs.
    pub runs: u32,
    /// `-log2` of the largest error of a slot; nothing for exact operations.
    pub precision_bits: Option<f64>,
    /// Bytes of the key that the operation reads, else of the object that it makes.
    pub bytes: u64,
    /// `log2` of the number of slots, where not all are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_slots: Option<u32>,
}

impl Line {
    /// Describes an operation on the threads and kernels in use, whose result is exact.
    #[must_use]
    pub fn new(op: String, params: &str, level: Level, time: &Time, runs: u32) -> Self {
        Self {
            op,
            params: params.to_owned(),
            level: level.0,
            threads: par::threads(),
            isa: Isa::detect().name(),
            median_ms: time.median_ms,
            min_ms: time.min_ms,
            runs,
            precision_bits: None,
            bytes: 0,
            log_slots: None,
        }
    }
}

/// Shows lines of one level as a table.
#[must_use]
pub fn text(lines: &[Line]) -> String {
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                line.op.clone(),
                format!("{:.4}", line.median_ms),
                format!("{:.4}", line.min_ms),
                line.precision_bits.map_or_else(|| "exact".into(), |bits| format!("{bits:.1}")),
                size::bytes(line.bytes),
            ]
        })
        .collect();
    let head = lines.first().map_or_else(String::new, |line| {
        format!(
            "{}, level {}, {} thread(s), {}, {} runs\n",
            line.params, line.level, line.threads, line.isa, line.runs
        )
    });
    head + &output::table(&["op", "median ms", "min ms", "precision bits", "touches"], &rows)
}
