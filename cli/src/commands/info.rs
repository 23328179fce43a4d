use super::params::secret_name;
use crate::{
    artefacts::{Meta, Opened},
    error::Result,
    files::Access,
    output::{self, Output},
};
use serde::Serialize;
use std::path::PathBuf;
use sudare::rlwe;

/// Explain a file of keys or ciphertexts; no secret is needed
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudare info evaluation.key")]
pub struct Args {
    /// The file
    file: PathBuf,
}

#[derive(Serialize)]
struct Report {
    kind: &'static str,
    content: String,
    format_version: u32,
    params: String,
    params_id: String,
    key_id: String,
    bytes: u64,
    count: u64,
    log_n: u32,
    log_qp: f64,
    levels: usize,
    log2_scale: f64,
    secret: String,
    security_bits: f64,
    insecure: bool,
    job: Option<String>,
    iterations: Option<u32>,
}

pub fn run(args: &Args, output: Output) -> Result<()> {
    // Unbuffered, as secret keys are read.
    let file = Opened::any(&args.file, Access::Owner)?;
    let info = file.info();
    let spec = &info.spec;
    let log_qp = spec.q_bits.iter().flatten().chain(&spec.p_bits).sum();
    let meta = Meta::read(&info.label).map(|(_, meta)| meta);
    let report = Report {
        kind: info.kind.name(),
        content: info.label.content.clone(),
        format_version: info.format_version,
        params: info.label.name.clone(),
        params_id: info.params_id.to_string(),
        key_id: info.key_id.to_string(),
        bytes: info.bytes,
        count: info.count,
        log_n: spec.log_n,
        log_qp,
        levels: spec.q_bits.len().saturating_sub(1),
        log2_scale: spec.log2_scale,
        secret: secret_name(spec.secret),
        security_bits: rlwe::security_bits(spec.log_n, spec.secret, log_qp),
        insecure: spec.insecure,
        job: meta.as_ref().map(|meta| meta.job.to_string()),
        iterations: meta.map(|meta| meta.iterations).filter(|&done| done > 0),
    };
    output.write(&report, text)
}

fn text(report: &Report) -> String {
    let mark = if report.insecure { "; for reproduction only" } else { "" };
    let mut rows = vec![
        ("kind", format!("{}, format version {}", report.kind, report.format_version)),
        ("content", format!("{} ({})", report.content.escape_debug(), report.count)),
        ("size", output::bytes(report.bytes)),
        (
            "parameters",
            format!(
                "{} ({}): N = 2^{}, log2 QP {:.1}, {} levels at 2^{:.1}",
                report.params.escape_debug(),
                report.params_id,
                report.log_n,
                report.log_qp,
                report.levels,
                report.log2_scale
            ),
        ),
        ("security", format!("{:.1} bits, {} secret{mark}", report.security_bits, report.secret)),
        ("key", report.key_id.clone()),
    ];
    if let Some(job) = &report.job {
        rows.push(("job", job.clone()));
    }
    if let Some(iterations) = report.iterations {
        rows.push(("iterations", iterations.to_string()));
    }
    output::fields(&rows)
}
