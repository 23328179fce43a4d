//! Runs the binary and reads what it says.
#![allow(dead_code, reason = "each test file uses a part")]

#[cfg(unix)]
pub mod computed;
#[cfg(target_os = "linux")]
pub mod proxy;
mod run;
#[cfg(unix)]
pub mod server;

pub use run::{BENCH_FIELDS, Run, assert_fields};

use serde_json::Value;
use std::{ffi::OsStr, path::Path, process::Command, sync::OnceLock};
use sudare_apps::logreg::{Prepared, TrainSpec, Transform, reference};
use sudare_table::Table;
use tempfile::TempDir;

/// Bundled tables.
pub const LBW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/table/data/lbw.csv");
pub const UIS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/table/data/uis.csv");

/// The weights that training in the clear gives, as a model's file has them, after each iteration.
pub fn reference(
    table: &Table,
    spec: &TrainSpec,
    class_weights: Option<&[f64]>,
) -> Vec<Vec<Vec<f64>>> {
    let rows = Prepared::new(table, spec, table.rows(), class_weights).unwrap();
    let shown = Transform::spreading(table);
    let under = |weights: &Vec<f64>| rows.transform().weights_under(weights, &shown).unwrap();
    let history = reference::history(&rows, spec).unwrap();
    history.iter().map(|models| models.iter().map(under).collect()).collect()
}

/// The scores of a table's rows by weights as a model's file has them.
pub fn scores(table: &Table, weights: &[f64]) -> Vec<f64> {
    let rows = Transform::spreading(table).rows(table.values());
    let products = rows.chunks_exact(weights.len());
    products.map(|x| x.iter().zip(weights).map(|(x, w)| x * w).sum()).collect()
}

/// Numbers of a list in JSON.
pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// Runs `sudare` in `folder`.
pub fn sudare_in(folder: &Path, args: &[impl AsRef<OsStr>]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sudare"));
    Run::of(command.current_dir(folder).args(args))
}

/// Runs `sudare` with a line of arguments that hold no blanks.
pub fn sudare(line: &str) -> Run {
    sudare_at(Path::new("."), line)
}

/// Same as [`sudare`], in `folder`.
pub fn sudare_at(folder: &Path, line: &str) -> Run {
    sudare_in(folder, &line.split_whitespace().collect::<Vec<_>>())
}

/// A folder of keys and a table for statistics, which tests only read.
pub fn statistics() -> &'static Path {
    static ORIGIN: OnceLock<TempDir> = OnceLock::new();
    let folder = ORIGIN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        sudare_at(at, "keygen --params auto --for stats:189x9 --out keys").ok();
        let line = format!("encrypt --public keys/public.key --data {LBW} --target y -o t.ct");
        sudare_at(at, &line).ok();
        folder
    });
    folder.path()
}

/// The command for the statistics of that table, without the result.
pub const STATS: &str = "stats --evaluation-key keys/evaluation.key -i t.ct";

/// Runs a shell script in `folder`, with the command as `$0`. Files may have `blocks` blocks of 512 bytes, so
/// that writes fail in the middle, as on a full disk.
pub fn with_file_limit(folder: &Path, blocks: u64, script: &str) -> Run {
    // Otherwise the signal would end the process.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; {script}");
    let args = ["-c", &script, env!("CARGO_BIN_EXE_sudare")];
    Run::of(Command::new("sh").current_dir(folder).args(args))
}

/// Names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A command as process 1 of a PID namespace, as in a container, which dies with it; none where the
/// system does not permit that.
#[cfg(unix)]
pub fn as_process_1() -> Option<Command> {
    let unshare = |program: &OsStr| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).arg(program);
        command
    };
    let permitted = unshare("true".as_ref()).output().is_ok_and(|output| output.status.success());
    permitted.then(|| unshare(env!("CARGO_BIN_EXE_sudare").as_ref()))
}

/// A file of one section whose header was changed, with the checksums that it takes.
pub fn resealed(file: &[u8]) -> Vec<u8> {
    const HASH_BYTES: usize = 32;
    let encoded = u64::from_le_bytes(file[48..56].try_into().unwrap()) as usize;
    let header = (64 + encoded + HASH_BYTES).next_multiple_of(64);
    let mut file = file.to_vec();
    let sum = blake3::hash(&file[..header - HASH_BYTES]);
    file[header - HASH_BYTES..header].copy_from_slice(sum.as_bytes());
    let last = file.len() - HASH_BYTES;
    let number = 1_u64.to_le_bytes();
    let sum = blake3::hash(&[sum.as_bytes(), &number[..], &file[header..last]].concat());
    file[last..].copy_from_slice(sum.as_bytes());
    file
}
