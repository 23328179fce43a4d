//! Runs the fuzz targets, and the promises of SECURITY.md.
#![expect(clippy::print_stdout, reason = "the output is a report")]

use std::{env, error::Error, fs, path::Path, process::ExitCode, time::Duration};
use sudare_trust::{
    campaign::{self, Tally},
    promises,
    targets::{self, TARGETS, Target},
};

const USAGE: &str = "\
seeds                   write the inputs that a corpus begins with
fuzz TARGET SECONDS     alter inputs of a target's corpus and run it on them; `all` for each target
promises [--full]       run the tests of the promises in SECURITY.md";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["seeds"] => seeds(),
        ["fuzz", name, seconds] => fuzz(name, Duration::from_secs(seconds.parse()?)),
        ["promises"] => promises::run(false),
        ["promises", "--full"] => promises::run(true),
        _ => Err(USAGE.into()),
    }
}

/// Writes missing seeds under their digests.
fn seeds() -> Result<ExitCode, Box<dyn Error>> {
    for target in TARGETS {
        for seed in (target.seeds)() {
            write(target, &seed)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(target: &Target, input: &[u8]) -> Result<(), Box<dyn Error>> {
    let folder = targets::corpus(target);
    fs::create_dir_all(&folder)?;
    let name = blake3::hash(input).to_hex();
    Ok(fs::write(folder.join(&name[..16]), input)?)
}

/// Reports the result of each target. Writes inputs with faults into `target/fuzz`.
fn fuzz(name: &str, longest: Duration) -> Result<ExitCode, Box<dyn Error>> {
    let chosen: Vec<&Target> =
        TARGETS.iter().filter(|target| [target.name, "all"].contains(&name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        return Err(
            format!("there is no target {name:?}: choose one of {}", names.join(", ")).into()
        );
    }
    let mut all = Vec::new();
    for target in chosen {
        let tally = campaign::run(target, now(), longest, u64::MAX);
        println!("{:22} {tally}", target.name);
        for (fault, input) in &tally.faults {
            let folder = Path::new("target/fuzz").join(target.name);
            fs::create_dir_all(&folder)?;
            let path = folder.join(&blake3::hash(input).to_hex()[..16]);
            fs::write(&path, input)?;
            println!("  {fault}: {}", path.display());
        }
        all.push(tally);
    }
    let faults = all.iter().map(|Tally { faults, .. }| faults.len()).sum::<usize>();
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns a different number each time.
fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}
