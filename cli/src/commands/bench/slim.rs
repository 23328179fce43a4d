//! Bootstrapping of slots of integers.

use super::{
    line::Line as OfAll,
    timing::{Time, summary},
};
use crate::{
    output::{self, Output, say},
    progress::{self, Progress},
};
use serde::Serialize;
use std::{sync::Arc, time::Instant};
use sudare::{
    circuits::exact::bootstrap::{BootstrapPlan, BootstrapPreset, Bootstrapper, Stage},
    exact::{Ciphertext, Decryptor, Encryptor, Evaluator, IntegerEncoder, Params},
    rlwe::{KeyGenerator, Level},
};
use sudare_apps::exact::matrix_bytes;
use sudare_arith::prng::{Seed, Stream};
use sudare_roles::{
    error::{Error, Result},
    machine, memory,
};

pub(super) const OP: &str = "bfv_bootstrap_slim";

/// Ciphertexts at the highest level that one being refreshed takes the memory of.
const WORKING_CIPHERTEXTS: u64 = 64;

const STAGES: [Stage; 4] =
    [Stage::SlotsToCoeffs, Stage::Raise, Stage::CoeffsToSlots, Stage::DigitRemoval];

pub(super) struct Options {
    /// Ciphertexts that are refreshed together.
    pub ciphertexts: usize,
    pub runs: u32,
    pub small_keys: bool,
    /// Go on where memory seems too small.
    pub force: bool,
}

/// One line: the whole, or a stage. Results are exact, so there is no precision.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    of_all: OfAll,
    plaintext_modulus: String,
    slots: usize,
    ciphertexts: usize,
    levels_left: u32,
    /// By how much the error of a result may grow, the least of all runs.
    budget_bits: f64,
    /// `log2` of the probability that a bootstrapping fails.
    log2_failure: f64,
    /// The median.
    seconds: f64,
    /// Time per ciphertext and slot.
    amortised_ms: f64,
    key_bytes: u64,
    matrix_bytes: u64,
    keygen_s: f64,
    prepare_s: f64,
    peak_rss_bytes: Option<u64>,
}

pub(super) fn run(set: &BootstrapPreset, options: &Options, output: Output) -> Result<()> {
    let case = Case::new(set, options)?;
    say(format_args!(
        "{}, {} slots, {} ciphertext(s): {} keys of {}, matrices of {}, about {} of memory in all",
        set.preset.name,
        case.encoder.slots(),
        options.ciphertexts,
        case.plan.required_keys().count(),
        machine::bytes(case.key_bytes),
        machine::bytes(case.matrix_bytes),
        machine::bytes(case.needed_bytes),
    ));
    let advice = "take fewer ciphertexts, a smaller set or a larger machine, or write --force to \
                  try nevertheless";
    match memory::check("keys, matrices and work", case.needed_bytes, advice) {
        Err(error) if options.force => say(format_args!("warning: {error}")),
        checked => checked?,
    }
    let lines = case.measure(&set.preset.name, options)?;
    if !output.json {
        return output.write_text(&text(&lines));
    }
    lines.iter().try_for_each(|line| output.write(line, |_| String::new()))
}

/// A set with its plan, and what it takes.
struct Case {
    params: Params,
    plan: BootstrapPlan,
    encoder: IntegerEncoder,
    key_bytes: u64,
    matrix_bytes: u64,
    needed_bytes: u64,
}

/// Owner and server in one process, under fresh keys.
struct Parties {
    encryptor: Encryptor,
    evaluator: Evaluator,
    decryptor: Decryptor,
    seed: Seed,
}

impl Case {
    fn new(set: &BootstrapPreset, options: &Options) -> Result<Self> {
        let params = Params::new(set.preset.spec.clone())?;
        let plan = set.plan(&params, Params::factor_at)?;
        let spec = plan.spec();
        let encoder = spec.encoder(params.log_n())?;
        let (request, rlwe) = (plan.required_keys(), params.rlwe());
        let key_bytes =
            if options.small_keys { request.small_bytes(rlwe) } else { request.bytes(rlwe) }?;
        let matrix_bytes = matrix_bytes(&params, &plan);
        let ciphertext = (16 * rlwe.limbs(plan.top()).q() as u64) << params.log_n();
        let working = (options.ciphertexts as u64).saturating_mul(WORKING_CIPHERTEXTS * ciphertext);
        let needed_bytes = key_bytes.saturating_add(matrix_bytes).saturating_add(working);
        Ok(Self { params, plan, encoder, key_bytes, matrix_bytes, needed_bytes })
    }

    fn parties(&self, small_keys: bool) -> Result<Parties> {
        let mut generator = KeyGenerator::new(self.params.rlwe())?.small_keys(small_keys);
        let secret = generator.secret_key()?;
        let public = Arc::new(generator.public_key(&secret)?);
        let request = self.plan.required_keys();
        let keys = progress::evaluation_keys("Making keys", &mut generator, &secret, request)?;
        Ok(Parties {
            encryptor: Encryptor::new(&self.params, public)?,
            evaluator: Evaluator::new(&self.params, Arc::new(keys))?,
            decryptor: Decryptor::new(&self.params, Arc::new(secret))?,
            seed: Seed::random().map_err(sudare::Error::from)?,
        })
    }

    /// The line of the whole and of its stages, every result checked.
    fn measure(&self, name: &str, options: &Options) -> Result<Vec<Line>> {
        let start = Instant::now();
        let parties = self.parties(options.small_keys)?;
        let (keygen_s, start) = (start.elapsed().as_secs_f64(), Instant::now());
        let bootstrapper = {
            let _progress = Progress::new("Preparing matrices", 0);
            self.plan.prepare(&parties.evaluator)?
        };
        let prepare_s = start.elapsed().as_secs_f64();

        let (mut whole, mut budget) = (Vec::new(), f64::INFINITY);
        let mut times = STAGES.map(|_| Vec::new());
        let progress = Progress::new("Bootstrapping", options.runs as usize + 1);
        // The first run is the warm-up.
        for run in 0..=options.runs {
            let (marks, left) = self.once(&parties, &bootstrapper, run, options.ciphertexts)?;
            budget = budget.min(left);
            progress.set(run as usize + 1);
            if run > 0 {
                whole.push(marks.iter().sum());
                times.iter_mut().zip(marks).for_each(|(times, mark)| times.push(mark));
            }
        }
        drop(progress);

        let spec = self.plan.spec();
        let slots = (options.ciphertexts << spec.log_slots) as f64;
        let line = |op: &str, level: Level, time: Time| Line {
            of_all: OfAll {
                bytes: self.key_bytes,
                log_slots: Some(spec.log_slots),
                ..OfAll::new(op.into(), name, level, &time, options.runs)
            },
            plaintext_modulus: spec.modulus.to_string(),
            slots: self.encoder.slots(),
            ciphertexts: options.ciphertexts,
            levels_left: self.plan.usable_levels(),
            budget_bits: budget,
            log2_failure: self.plan.log2_failure(),
            seconds: time.median_ms / 1e3,
            amortised_ms: time.median_ms / slots,
            key_bytes: self.key_bytes,
            matrix_bytes: self.matrix_bytes,
            keygen_s,
            prepare_s,
            peak_rss_bytes: machine::peak_rss_bytes(),
        };
        let mut lines = vec![line(OP, self.plan.input_level(), summary(whole))];
        let stages = STAGES.into_iter().zip(times);
        lines.extend(stages.map(|(stage, times)| {
            let (name, level) = self.stage(stage);
            line(name, level, summary(times))
        }));
        Ok(lines)
    }

    /// The name of a stage, and the level of its operands.
    fn stage(&self, stage: Stage) -> (&'static str, Level) {
        let top = self.plan.top();
        let last = self.plan.matrices().last();
        match stage {
            Stage::SlotsToCoeffs => ("slots_to_coeffs", self.plan.input_level()),
            Stage::Raise => ("raise", Level(0)),
            Stage::CoeffsToSlots => ("coeffs_to_slots", Level(top.0.saturating_sub(1))),
            Stage::DigitRemoval => {
                ("digit_removal", last.map_or(top, |matrix| matrix.output_level()))
            }
        }
    }

    /// One run on random slots: the milliseconds of each stage, and the least budget of results.
    fn once(
        &self,
        parties: &Parties,
        bootstrapper: &Bootstrapper<Evaluator>,
        run: u32,
        count: usize,
    ) -> Result<(Vec<f64>, f64)> {
        let (t, level) = (self.encoder.modulus(), self.plan.input_level());
        let factor = self.params.factor_at(level, t)?;
        let slots: Vec<Vec<i128>> = (0..count)
            .map(|i| {
                let mut stream = Stream::new(&parties.seed, &format!("run {run}"), i as u64);
                let mut word = || u128::from(stream.next_u64());
                let slot = |_| t.centered(t.reduce(word() << 64 | word()));
                (0..self.encoder.slots()).map(slot).collect()
            })
            .collect();
        let encrypt = |slots: &Vec<i128>| -> Result<Ciphertext> {
            let plain = self.encoder.encode(slots)?;
            Ok(parties.encryptor.encrypt_at(&plain, level, factor)?)
        };
        let inputs: Vec<_> = slots.iter().map(encrypt).collect::<Result<_>>()?;
        let (mut marks, mut last) = (Vec::new(), Instant::now());
        let fresh = bootstrapper.run_with(&parties.evaluator, &inputs, |_| {
            marks.push(last.elapsed().as_secs_f64() * 1e3);
            last = Instant::now();
        })?;
        let mut budget = f64::INFINITY;
        for (fresh, slots) in fresh.iter().zip(&slots) {
            let found = self.encoder.decode(&parties.decryptor.decrypt(fresh)?)?;
            if found != *slots {
                return Err(Error::WrongResult(format!("{OP} of random integers")));
            }
            budget = budget.min(parties.decryptor.budget(fresh)?);
        }
        Ok((marks, budget))
    }
}

fn text(lines: &[Line]) -> String {
    let Some(whole) = lines.first() else { return String::new() };
    let row = |line: &Line| {
        vec![
            line.of_all.op.clone(),
            line.of_all.level.to_string(),
            format!("{:.1}", line.of_all.median_ms),
            format!("{:.1}", line.of_all.min_ms),
            format!("{:.5}", line.amortised_ms),
        ]
    };
    let rows: Vec<_> = lines.iter().map(row).collect();
    let peak =
        whole.peak_rss_bytes.map(|peak| format!(", at most {} in use", machine::bytes(peak)));
    format!(
        "{}, {} slots modulo {}, {} ciphertext(s), {} thread(s), {}, {} runs\n{}all slots exact; {} \
         levels left, a budget of {:.0} bits; fails with probability 2^{:.1}\nkeys {} in {:.1} s, \
         matrices {} in {:.1} s{}\n",
        whole.of_all.params,
        whole.slots,
        whole.plaintext_modulus,
        whole.ciphertexts,
        whole.of_all.threads,
        whole.of_all.isa,
        whole.of_all.runs,
        output::table(&["op", "level", "median ms", "min ms", "ms per slot"], &rows),
        whole.levels_left,
        whole.budget_bits,
        whole.log2_failure,
        machine::bytes(whole.key_bytes),
        whole.keygen_s,
        machine::bytes(whole.matrix_bytes),
        whole.prepare_s,
        peak.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare::{
        circuits::exact::bootstrap::BootstrapSpec,
        exact::{Modulus, Preset, Spec},
    };

    /// 64 integers modulo 257 in a ring of 64 coefficients.
    fn toy() -> BootstrapPreset {
        let modulus = Modulus::new(257, 1).unwrap();
        let spec = Spec::uniform(6, modulus, 52.0, 13, 50.0, vec![55.0; 3]);
        let preset = Preset {
            name: "toy".into(),
            summary: String::new(),
            spec: Spec { insecure: true, ..spec },
        };
        let bootstrap = BootstrapSpec {
            modulus,
            log_slots: 6,
            ephemeral_weight: 6,
            bound: 3,
            slots_to_coeffs: vec![2, 3],
            coeffs_to_slots: vec![3, 2],
        };
        BootstrapPreset { preset, bootstrap }
    }

    #[test]
    fn whole_and_stages_have_lines_and_results_are_checked() {
        let options = Options { ciphertexts: 2, runs: 2, small_keys: false, force: false };
        let case = Case::new(&toy(), &options).unwrap();
        let lines = case.measure("toy", &options).unwrap();
        let ops: Vec<&str> = lines.iter().map(|line| line.of_all.op.as_str()).collect();
        let stages = ["slots_to_coeffs", "raise", "coeffs_to_slots", "digit_removal"];
        assert_eq!(ops, [&[OP][..], &stages].concat());
        let sum: f64 = lines[1..].iter().map(|line| line.of_all.min_ms).sum();
        assert!(sum <= 1.01 * lines[0].of_all.median_ms);
        assert_eq!((lines[0].slots, lines[0].levels_left), (64, case.plan.usable_levels()));
        assert!(lines[0].budget_bits > 50.0);
        assert!(text(&lines).contains("digit_removal"));

        // Digits of at most 1 are too few.
        let spec = BootstrapSpec { bound: 1, ..toy().bootstrap };
        let case = Case::new(&BootstrapPreset { bootstrap: spec, ..toy() }, &options).unwrap();
        let wrong = (0..20).find_map(|_| case.measure("toy", &options).err()).unwrap();
        assert_eq!(wrong.exit_code(), 1);
    }
}
