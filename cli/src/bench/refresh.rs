//! Bootstrapping of exact ciphertexts: slots of integers, or all coefficients.

use super::{
    exact_bootstrapping::{Plan, Refresher, Way},
    line::Line as OfAll,
    options::Options,
    timing::{Time, summary},
};
use crate::{
    output::{self, Output, say},
    progress::{self, Progress},
};
use serde::Serialize;
use std::{sync::Arc, time::Instant};
use sudare::{
    exact::{Ciphertext, Decryptor, Encryptor, Evaluator, Params, PlainPoly},
    rlwe::{KeyGenerator, Level},
};
use sudare_arith::prng::{Seed, Stream};
use sudare_roles::{
    error::{Error, Result},
    os::{machine, memory},
    plan::security::least_security,
    text::size,
};

/// Memory of one refresh, in ciphertexts at the highest level. Full bootstrapping takes a ciphertext apart
/// into slices, and refreshes [`TOGETHER`] of them at a time.
const WORKING_CIPHERTEXTS: u64 = 64;
const TOGETHER: u64 = 4;

/// A row of a publication's table: one bootstrapping, on one core as it seems.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// Successive products that a fresh ciphertext allows.
    pub levels_before: u32,
    /// Successive products that a refreshed ciphertext allows.
    pub levels_left: u32,
    /// Time of one bootstrapping.
    pub seconds: f64,
    /// Time before the first bootstrapping.
    pub prepare_s: f64,
    /// Memory in use.
    pub memory_gb: f64,
    /// Bits of security as printed there, by an estimator of its time.
    pub security_bits: f64,
    /// The publication's table.
    pub table: &'static str,
}

/// One line: the whole, or a stage. Results are exact, so there is no precision.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    of_all: OfAll,
    plaintext_modulus: String,
    slots: usize,
    /// Numbers that a slot has.
    slot_degree: usize,
    ciphertexts: usize,
    /// Products one after the other, of a fresh ciphertext.
    levels_before: u32,
    levels_left: u32,
    /// Bits by which the error of a result may grow, the minimum of all runs.
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
    /// Security of the weakest key.
    security_bits: f64,
    /// `log2` of the modulus that is raised to, and of the largest key.
    log_q: f64,
    log_qp: f64,
    /// Published row for the set, for the whole only.
    published: Option<Published>,
}

/// Returns the name of the operation.
fn op(plan: &Plan) -> &'static str {
    match plan {
        Plan::Slim(_) => "bfv_bootstrap_slim",
        Plan::Full(_) => "bfv_bootstrap",
    }
}

pub(super) fn run(
    way: &Way,
    options: &Options,
    published: fn(&str) -> Option<Published>,
    output: Output,
) -> Result<()> {
    let case = Case::new(way, options)?;
    say(format_args!(
        "{}, {} slots, {} ciphertext(s): {} keys of {}, matrices of {}, about {} of memory in all",
        way.preset().name,
        case.slots(),
        options.ciphertexts(),
        case.plan.required_keys().count(),
        size::bytes(case.key_bytes),
        size::bytes(case.matrix_bytes),
        size::bytes(case.needed_bytes),
    ));
    let advice = "take fewer ciphertexts, a smaller set or a larger machine, or write --force to \
                  try nevertheless";
    match memory::check("keys, matrices and work", case.needed_bytes, advice) {
        Err(error) if options.force => say(format_args!("warning: {error}")),
        checked => checked?,
    }
    let mut lines = case.measure(&way.preset().name, options)?;
    if let Some(whole) = lines.first_mut() {
        whole.published = published(&way.preset().name);
    }
    if !output.json {
        return output.write_text(&text(&lines));
    }
    lines.iter().try_for_each(|line| output.write(line, |_| String::new()))
}

/// A set with its plan and its memory.
struct Case {
    params: Params,
    plan: Plan,
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
    fn new(way: &Way, options: &Options) -> Result<Self> {
        let params = Params::new(way.preset().spec.clone())?;
        let plan = way.plan(&params)?;
        let request = plan.required_keys();
        let rlwe = params.rlwe();
        let key_bytes =
            if options.small_keys { request.small_bytes(rlwe) } else { request.bytes(rlwe) }?;
        let matrix_bytes = plan.matrix_bytes(&params);
        let ciphertext = (16 * rlwe.limbs(plan.top()).q() as u64) << params.log_n();
        let together = match plan {
            Plan::Slim(_) => options.ciphertexts() as u64,
            // Ciphertexts are refreshed one after the other, so their number does not matter.
            Plan::Full(_) => TOGETHER,
        };
        let working = together.saturating_mul(WORKING_CIPHERTEXTS * ciphertext);
        let needed_bytes = key_bytes.saturating_add(matrix_bytes).saturating_add(working);
        Ok(Self { params, plan, key_bytes, matrix_bytes, needed_bytes })
    }

    fn slots(&self) -> usize {
        1 << self.plan.spec().log_slots
    }

    /// Draws random integers in slots, or random coefficients.
    fn plaintext(&self, stream: &mut Stream) -> Result<PlainPoly> {
        let spec = self.plan.spec();
        let log_n = self.params.log_n();
        let mut word = || u128::from(stream.next_u64());
        // 128 random bits, so that the reduction has hardly any bias.
        let mut residue = || spec.modulus.reduce(word() << 64 | word());
        match self.plan {
            Plan::Slim(_) => {
                let encoder = spec.encoder(log_n)?;
                let slot = |_| spec.modulus.centered(residue());
                Ok(encoder.encode(&(0..encoder.slots()).map(slot).collect::<Vec<_>>())?)
            }
            Plan::Full(_) => {
                let coeffs = (0..1 << log_n).map(|_| residue()).collect();
                Ok(PlainPoly::new(spec.modulus, coeffs)?)
            }
        }
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

    /// Measures the lines of the whole and of its stages, and checks every result.
    fn measure(&self, name: &str, options: &Options) -> Result<Vec<Line>> {
        let start = Instant::now();
        let parties = self.parties(options.small_keys)?;
        let keygen_s = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let refresher = {
            let _progress = Progress::new("Preparing matrices", 0);
            self.plan.prepare(&parties.evaluator)?
        };
        let prepare_s = start.elapsed().as_secs_f64();

        let mut whole = Vec::new();
        let mut budget = f64::INFINITY;
        let stages = self.plan.stages();
        let mut times = vec![Vec::new(); stages.len()];
        let progress = Progress::new("Bootstrapping", options.runs as usize + 1);
        // The first run is the warm-up.
        for run in 0..=options.runs {
            let (marks, left) = self.once(&parties, &refresher, run, options.ciphertexts())?;
            budget = budget.min(left);
            progress.set(run as usize + 1);
            if run > 0 {
                whole.push(marks.iter().sum());
                times.iter_mut().zip(marks).for_each(|(times, mark)| times.push(mark));
            }
        }
        drop(progress);

        let spec = self.plan.spec();
        let rlwe = self.params.rlwe();
        let slots = (options.ciphertexts() << spec.log_slots) as f64;
        let mut security = rlwe.key_security();
        security.extend(self.plan.required_keys().key_security(rlwe)?);
        let line = |op: &str, level: Level, time: Time| Line {
            of_all: OfAll {
                bytes: self.key_bytes,
                log_slots: Some(spec.log_slots),
                ..OfAll::new(op.into(), name, level, &time, options.runs)
            },
            plaintext_modulus: spec.modulus.to_string(),
            slots: self.slots(),
            slot_degree: self.plan.degree(),
            ciphertexts: options.ciphertexts(),
            levels_before: self.params.top().0,
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
            security_bits: least_security(&security),
            log_q: rlwe.log2_q(self.plan.top()),
            log_qp: security.iter().map(|key| key.log2_q).fold(0.0, f64::max),
            published: None,
        };
        let whole = line(op(&self.plan), self.plan.input_level(), summary(whole));
        let mut lines = vec![whole];
        let stages = stages.into_iter().zip(times);
        lines.extend(stages.map(|((_, name, level), times)| line(name, level, summary(times))));
        Ok(lines)
    }

    /// Runs once on random plaintexts. Returns the milliseconds of each stage, and the smallest budget.
    fn once(
        &self,
        parties: &Parties,
        refresher: &Refresher,
        run: u32,
        count: usize,
    ) -> Result<(Vec<f64>, f64)> {
        let t = self.plan.spec().modulus;
        let level = self.plan.input_level();
        // Plans expect this factor of their inputs.
        let factor = self.params.factor_at(level, t)?;
        let plaintext = |i: usize| {
            self.plaintext(&mut Stream::new(&parties.seed, &format!("run {run}"), i as u64))
        };
        let plaintexts: Vec<_> = (0..count).map(plaintext).collect::<Result<_>>()?;
        let encrypt = |plain: &PlainPoly| -> Result<Ciphertext> {
            Ok(parties.encryptor.encrypt_at(plain, level, factor)?)
        };
        let inputs: Vec<_> = plaintexts.iter().map(encrypt).collect::<Result<_>>()?;
        let stages = self.plan.stages();
        let mut times = vec![0.0; stages.len()];
        let mut last = Instant::now();
        let fresh = refresher.run(&parties.evaluator, &inputs, |stage| {
            let time = last.elapsed().as_secs_f64() * 1e3;
            let of_stage = stages.iter().zip(&mut times).filter(|((known, ..), _)| *known == stage);
            // Full bootstrapping comes back to a stage for each group of slices.
            of_stage.for_each(|(_, sum)| *sum += time);
            last = Instant::now();
        })?;
        let mut budget = f64::INFINITY;
        for (fresh, plain) in fresh.iter().zip(&plaintexts) {
            // Results are exact, so a single different coefficient is an error.
            if parties.decryptor.decrypt(fresh)? != *plain {
                return Err(Error::WrongResult(format!("{} of random integers", op(&self.plan))));
            }
            budget = budget.min(parties.decryptor.budget(fresh)?);
        }
        Ok((times, budget))
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
    let peak = whole.peak_rss_bytes.map(|peak| format!(", at most {} in use", size::bytes(peak)));
    format!(
        "{}, {} slots{} modulo {}, {} ciphertext(s), {} thread(s), {}, {} runs\n{}all slots exact; {} \
         levels left, a budget of {:.0} bits; fails with probability 2^{:.1}\n{:.1} bits of security; \
         keys {} in {:.1} s, matrices {} in {:.1} s{}\n",
        whole.of_all.params,
        whole.slots,
        match whole.slot_degree {
            1 => String::new(),
            degree => format!(" of degree {degree}"),
        },
        whole.plaintext_modulus,
        whole.ciphertexts,
        whole.of_all.threads,
        whole.of_all.isa,
        whole.of_all.runs,
        output::table(&["op", "level", "median ms", "min ms", "ms per slot"], &rows),
        whole.levels_left,
        whole.budget_bits,
        whole.log2_failure,
        whole.security_bits,
        size::bytes(whole.key_bytes),
        whole.keygen_s,
        size::bytes(whole.matrix_bytes),
        whole.prepare_s,
        peak.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare::{
        circuits::exact::bootstrap::{BootstrapPreset, BootstrapSpec, full::FullPreset},
        exact::{Modulus, Preset, Spec},
    };

    /// Makes 64 integers modulo 257 in a ring of this number of coefficients.
    fn toy(log_n: u32) -> (Preset, BootstrapSpec) {
        let modulus = Modulus::new(257, 1).unwrap();
        let spec = Spec::uniform(log_n, modulus, 54.0, 13, 52.0, vec![55.0; 3]);
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
        (preset, bootstrap)
    }

    fn slim() -> Way {
        let (preset, bootstrap) = toy(6);
        Way::Slim(BootstrapPreset { preset, bootstrap })
    }

    fn options() -> Options {
        Options {
            params: None,
            runs: 2,
            log_slots: None,
            ciphertexts: Some(2),
            small_keys: false,
            profile: false,
            force: false,
        }
    }

    fn check(way: &Way, stages: &[&str], degree: usize) {
        let options = options();
        let case = Case::new(way, &options).unwrap();
        let lines = case.measure("toy", &options).unwrap();
        let ops: Vec<&str> = lines.iter().map(|line| line.of_all.op.as_str()).collect();
        assert_eq!(ops, [&[op(&case.plan)][..], stages].concat());
        let sum: f64 = lines[1..].iter().map(|line| line.of_all.min_ms).sum();
        assert!(sum <= 1.01 * lines[0].of_all.median_ms);
        assert!(lines.iter().all(|line| line.of_all.min_ms > 0.0));
        assert_eq!((lines[0].slots, lines[0].levels_left), (64, case.plan.usable_levels()));
        assert_eq!((lines[0].slot_degree, lines[0].levels_before), (degree, 13));
        assert!(lines[0].budget_bits > 50.0);
        assert!(text(&lines).contains("digit_removal"));
    }

    #[test]
    fn whole_and_stages_have_lines_and_results_are_checked() {
        check(&slim(), &["slots_to_coeffs", "raise", "coeffs_to_slots", "digit_removal"], 1);
        let (preset, bootstrap) = toy(8);
        let full = Way::Full(FullPreset { preset, bootstrap });
        let stages = ["slots_to_coeffs", "raise", "slices", "coeffs_to_slots", "digit_removal"];
        check(&full, &stages, 4);

        // Digits of at most 1 are too few.
        let options = options();
        let (preset, bootstrap) = toy(6);
        let bootstrap = BootstrapSpec { bound: 1, ..bootstrap };
        let way = Way::Slim(BootstrapPreset { preset, bootstrap });
        let case = Case::new(&way, &options).unwrap();
        let wrong = (0..20).find_map(|_| case.measure("toy", &options).err()).unwrap();
        assert_eq!(wrong.exit_code(), 1);
    }
}
