use crate::output::{self, Output};
use serde::Serialize;
use sudare_arith::{Isa, Modulus, par, previous_prime};
use sudare_roles::{error::Result, os::machine, text::size};

/// Show the features of the processor, the kernels in use, memory and versions
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: sudare doctor --json")]
pub struct Args {}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    rustc: Option<&'static str>,
    os: &'static str,
    arch: &'static str,
    isa: &'static str,
    best_isa: &'static str,
    kernels: Vec<Kernel>,
    cores: usize,
    threads: usize,
    memory_bytes: Option<u64>,
    machine_memory_bytes: Option<u64>,
    huge_pages: Option<String>,
}

/// The kernels for a size of primes.
#[derive(Serialize)]
struct Kernel {
    prime_bits: u32,
    kernel: &'static str,
}

/// Sizes at which another kernel may begin, and sizes of usual scales.
pub const PRIME_BITS: [u32; 7] = [30, 45, 48, 49, 50, 55, 61];

pub fn run(_: &Args, output: Output) -> Result<()> {
    let kernels = PRIME_BITS
        .into_iter()
        .filter_map(|prime_bits| {
            // Any prime of the size will do. This step suits rings up to 2^16.
            let prime = previous_prime(1 << prime_bits, 1 << 17)?;
            Some(Kernel { prime_bits, kernel: Modulus::new(prime).ok()?.kernel_name() })
        })
        .collect();
    // Differs from the one in use if the environment selects another.
    let best = Isa::ALL.into_iter().rev().find(|isa| isa.is_available());
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        rustc: option_env!("SUDARE_RUSTC"),
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        isa: Isa::detect().name(),
        best_isa: best.unwrap_or(Isa::Scalar).name(),
        kernels,
        cores: machine::cores(),
        threads: par::threads(),
        memory_bytes: machine::memory_bytes(),
        machine_memory_bytes: machine::installed_bytes(),
        huge_pages: machine::huge_pages(),
    };
    output.write(&report, text)
}

fn text(report: &Report) -> String {
    let unknown = || "unknown".to_owned();
    let kernels: Vec<String> =
        report.kernels.iter().map(|k| format!("{} bits: {}", k.prime_bits, k.kernel)).collect();
    output::fields(&[
        ("version", format!("{} ({} {})", report.version, report.os, report.arch)),
        ("compiler", report.rustc.map_or_else(unknown, str::to_owned)),
        ("instruction set", format!("{} (best here: {})", report.isa, report.best_isa)),
        ("kernels", kernels.join(", ")),
        ("processors", report.cores.to_string()),
        ("threads", report.threads.to_string()),
        ("memory", report.memory_bytes.map_or_else(unknown, |bytes| memory(bytes, report))),
        ("huge pages", report.huge_pages.clone().unwrap_or_else(unknown)),
    ])
}

/// Describes the memory of this process, and its limit if it has one.
fn memory(bytes: u64, report: &Report) -> String {
    match report.machine_memory_bytes {
        Some(all) if all > bytes => format!(
            "{} (limit of a control group; the machine has {})",
            size::bytes(bytes),
            size::bytes(all)
        ),
        _ => size::bytes(bytes),
    }
}
