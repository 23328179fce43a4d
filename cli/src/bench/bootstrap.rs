//! Bootstrapping of CKKS, and its stages.

use super::{
    line::Line,
    options::{Numbers, Options, check_log_slots},
    parties::Parties,
    rates,
    timing::{Time, summary},
};
use crate::{
    output::{self, Output, say},
    progress::Progress,
};
use serde::Serialize;
use std::time::Instant;
use sudare::{
    circuits::ckks::{
        bootstrap::{BootstrapPlan, BootstrapPreset, Bootstrapper, Order, Stage, Values},
        cost::{Rates, Work},
    },
    ckks::{Ciphertext, Complex, Evaluator, Params},
    rlwe::Level,
};
use sudare_roles::{
    error::{Error, Result},
    os::{machine, memory},
    text::size,
};

/// A row of a publication's table: one bootstrapping.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// `log2` of the number of slots.
    pub log_slots: u32,
    /// `log2` of the size of slots that the precision is for.
    pub integer_bits: u32,
    /// `-log2` of the error: the bits after the binary point of a slot.
    pub precision_bits: f64,
    /// Levels left afterwards.
    pub levels_left: u32,
    /// Time of one bootstrapping.
    pub seconds: f64,
    /// Threads, or cores where the publication names those.
    pub threads: u32,
    /// The publication's table.
    pub table: &'static str,
}

/// Bits that the worst slot may be below the mean that the set states. The command refuses results below.
const WORST_BITS: f64 = 6.0;
/// Largest relative error of a prediction that the text does not mark.
const TOLERANCE: f64 = 0.25;
/// Memory of one refresh, in ciphertexts at the highest level: both parts, powers and digits. Measurements
/// showed 58.
const WORKING_CIPHERTEXTS: u64 = 64;

/// One line: the whole, or a stage.
#[derive(Serialize)]
struct Bootstrapped {
    #[serde(flatten)]
    line: Line,
    /// Precision of the worst slot of all runs.
    worst_precision_bits: Option<f64>,
    ciphertexts: usize,
    levels_left: u32,
    /// `log2` of the size of slots.
    integer_bits: u32,
    /// The median.
    seconds: f64,
    /// Time per ciphertext and slot.
    amortised_ms: f64,
    /// Published row of the same, for the whole only.
    published: Option<Published>,
    key_bytes: u64,
    matrix_bytes: u64,
    keygen_s: f64,
    prepare_s: f64,
    peak_rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Profile>,
}

/// Work of a stage, and its predicted time.
#[derive(Clone, Copy, Serialize)]
struct Profile {
    #[serde(flatten)]
    work: Work,
    predicted_ms: f64,
    /// Predicted over measured time.
    predicted_ratio: f64,
    /// Rates of this machine, for the whole only.
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<Rates>,
}

impl Profile {
    fn new(work: Work, rates: Rates, measured_ms: f64) -> Self {
        let predicted_ms = 1e3 * work.seconds(&rates);
        Self { work, predicted_ms, predicted_ratio: predicted_ms / measured_ms, rates: None }
    }

    /// Decides whether the prediction is off by more than [`TOLERANCE`].
    fn is_off(&self) -> bool {
        let ratio = self.predicted_ratio;
        !(1.0 - TOLERANCE..=1.0 + TOLERANCE).contains(&ratio)
    }
}

/// Bootstrapping of one number of slots, planned.
struct Case {
    params: Params,
    plan: BootstrapPlan,
    key_bytes: u64,
    matrix_bytes: u64,
    needed_bytes: u64,
    published: Option<Published>,
}

/// Measures each number of slots in `options`, or all slots. Inputs have the size that `published`
/// knows for them, or 1.
pub(super) fn run(
    set: &BootstrapPreset,
    options: &Options,
    published: fn(&str, u32) -> Option<Published>,
    output: Output,
) -> Result<()> {
    let all = vec![set.bootstrap.log_slots];
    let log_slots = options.log_slots.as_ref().map_or(all, |Numbers(chosen)| chosen.clone());
    let ciphertexts = options.ciphertexts();
    let mut cases = Vec::new();
    for log_slots in log_slots {
        let published = published(&set.preset.name, log_slots);
        let case = Case::new(set, log_slots, published, options)?;
        say(format_args!(
            "{}, 2^{log_slots} slots, {} ciphertext(s): {} keys of {}, matrices of {}, about {} of \
             memory in all",
            set.preset.name,
            ciphertexts,
            case.plan.required_keys().count(),
            size::bytes(case.key_bytes),
            size::bytes(case.matrix_bytes),
            size::bytes(case.needed_bytes),
        ));
        cases.push(case);
    }
    for case in &cases {
        let advice = "take fewer ciphertexts, a smaller set or a larger machine, or write --force \
                      to try nevertheless";
        // All cases are checked before the first one runs, so that a list does not fail in its middle.
        let checked = memory::check("keys, matrices and work", case.needed_bytes, advice);
        match checked {
            Err(error) if options.force => say(format_args!("warning: {error}")),
            checked => checked?,
        }
    }
    for case in cases {
        let lines = case.measure(set, options)?;
        if output.json {
            for line in &lines {
                output.write(line, |_| String::new())?;
            }
        } else {
            output.write_text(&text(&lines))?;
        }
    }
    Ok(())
}

impl Case {
    fn new(
        set: &BootstrapPreset,
        log_slots: u32,
        published: Option<Published>,
        options: &Options,
    ) -> Result<Self> {
        // Each case has parameters of its own, and with them memory that goes when it ends.
        let params = Params::new(set.preset.spec.clone())?;
        check_log_slots(&set.preset.name, params.log_n(), log_slots)?;
        let plan = set.plan(&params, log_slots)?;
        let request = plan.required_keys();
        let rlwe = params.rlwe();
        let key_bytes =
            if options.small_keys { request.small_bytes(rlwe) } else { request.bytes(rlwe) }?;
        let matrix_bytes = plan.matrix_bytes(&params);
        let working = (options.ciphertexts() as u64)
            .saturating_mul(WORKING_CIPHERTEXTS * ciphertext_bytes(&params, plan.top()));
        let rates = if options.profile { rates::WORKING_BYTES } else { 0 };
        let needed_bytes =
            // Sums saturate: a number of ciphertexts from the command line may be huge, and is
            // refused then.
            [matrix_bytes, working, rates].into_iter().fold(key_bytes, u64::saturating_add);
        Ok(Self { params, plan, key_bytes, matrix_bytes, needed_bytes, published })
    }

    /// Returns `log2` of the size of slots, which a publication may set.
    fn integer_bits(&self) -> u32 {
        self.published.map_or(0, |row| row.integer_bits)
    }

    /// Measures the lines of the whole and of its stages, and checks every result.
    fn measure(self, set: &BootstrapPreset, options: &Options) -> Result<Vec<Bootstrapped>> {
        let ciphertexts = options.ciphertexts();
        let request = self.plan.required_keys();
        let (keygen_s, parties) =
            timed(|| Parties::with_small_keys(&self.params, request, options.small_keys))?;
        let (prepare_s, bootstrapper) = timed(|| {
            let _progress = Progress::new("Preparing matrices", 0);
            Ok(self.plan.prepare(&parties.evaluator)?)
        })?;

        let stages = stages(self.plan.spec().order);
        // Just before the runs that they are compared with, because machines have phases.
        let rates = options.profile.then(|| rates::measure(self.params.rlwe().basis()));
        let mut whole = Vec::new();
        let mut times = vec![Vec::new(); stages.len()];
        let mut errors = Errors::default();
        {
            let progress =
                Progress::new("Bootstrapping", (options.runs as usize + 1) * stages.len());
            // The first run is the warm-up.
            for run in 0..=options.runs {
                let inputs = self.inputs(&parties, run, ciphertexts)?;
                let done = run as usize * stages.len();
                let marks = self.once(&parties, &bootstrapper, &inputs, &mut errors, |stage| {
                    progress.set(done + stage);
                })?;
                // After each run, so that a wrong result does not cost the remaining runs.
                check(set, &self.plan, &errors)?;
                // The warm-up fills caches and pools. Its result is checked, too, but its time does
                // not count.
                if run > 0 {
                    whole.push(marks.iter().sum());
                    for (times, mark) in times.iter_mut().zip(marks) {
                        times.push(mark);
                    }
                }
            }
        }

        let slots = (ciphertexts << self.plan.spec().log_slots) as f64;
        let line =
            |op: &str, level: Level, time: Time, bytes, bits: Option<[f64; 2]>| Bootstrapped {
                worst_precision_bits: bits.map(|[_, worst]| worst),
                ciphertexts,
                levels_left: self.plan.usable_levels(),
                integer_bits: self.integer_bits(),
                seconds: time.median_ms / 1e3,
                amortised_ms: time.median_ms / slots,
                published: self.published.filter(|_| op == "bootstrap"),
                key_bytes: self.key_bytes,
                matrix_bytes: self.matrix_bytes,
                keygen_s,
                prepare_s,
                peak_rss_bytes: machine::peak_rss_bytes(),
                profile: None,
                line: Line {
                    precision_bits: bits.map(|[mean, _]| mean),
                    bytes,
                    log_slots: Some(self.plan.spec().log_slots),
                    ..Line::new(op.into(), &set.preset.name, level, &time, options.runs)
                },
            };
        let bits = Some([errors.mean_bits(), errors.worst_bits()]);
        let input = self.plan.input_level();
        let mut lines = vec![line("bootstrap", input, summary(whole), self.key_bytes, bits)];
        for (stage, times) in stages.into_iter().zip(times) {
            let level = self.level(stage);
            let bytes = ciphertexts as u64 * ciphertext_bytes(&self.params, level);
            lines.push(line(name(stage), level, summary(times), bytes, None));
        }
        if let Some(rates) = rates {
            self.profile(&mut lines, ciphertexts, rates)?;
        }
        Ok(lines)
    }

    /// Adds the predicted work and time to the lines of the whole and its stages. With a refinement, stages
    /// cover only the first round, as they are measured.
    fn profile(&self, lines: &mut [Bootstrapped], ciphertexts: usize, rates: Rates) -> Result<()> {
        let stages: Vec<Work> =
            self.plan.work(&self.params, ciphertexts)?.into_iter().map(|(_, work)| work).collect();
        let mut whole = Work::default();
        stages.iter().for_each(|&work| whole += work);
        for (line, work) in lines.iter_mut().zip(core::iter::once(whole).chain(stages)) {
            line.profile = Some(Profile::new(work, rates, line.line.median_ms));
        }
        if let Some(profile) = lines.first_mut().and_then(|line| line.profile.as_mut()) {
            profile.rates = Some(rates);
        }
        Ok(())
    }

    /// Runs once and adds the errors to `errors`. Returns the milliseconds of each stage.
    fn once(
        &self,
        parties: &Parties,
        bootstrapper: &Bootstrapper<Evaluator>,
        inputs: &[Ciphertext],
        errors: &mut Errors,
        progress: impl Fn(usize),
    ) -> Result<Vec<f64>> {
        // Compared with decrypted inputs, so the error of the encryption itself does not count.
        let expected: Vec<_> =
            inputs.iter().map(|input| self.opened(parties, input)).collect::<Result<_>>()?;
        let mut marks = Vec::new();
        let mut last = Instant::now();
        let refreshed = bootstrapper.run_with(&parties.evaluator, inputs, |_| {
            marks.push(last.elapsed().as_secs_f64() * 1e3);
            last = Instant::now();
            progress(marks.len());
        })?;
        for (refreshed, expected) in refreshed.iter().zip(&expected) {
            errors.add(&self.opened(parties, refreshed)?, expected);
        }
        Ok(marks)
    }

    /// Encrypts fresh random slots.
    fn inputs(&self, parties: &Parties, run: u32, count: usize) -> Result<Vec<Ciphertext>> {
        let spec = self.plan.spec();
        // Published precisions hold for slots of a published size, so reproductions need that size.
        let size = f64::from(self.integer_bits()).exp2();
        let encrypted = |i| {
            let mut slots =
                parties.uniform(&format!("run {run}, ciphertext {i}"), 1 << spec.log_slots);
            for slot in &mut slots {
                let im = if spec.values == Values::Real { 0.0 } else { slot.im };
                *slot = Complex { re: slot.re * size, im: im * size };
            }
            parties.encrypt(&slots, self.plan.input_level(), self.plan.input_scale())
        };
        (0..count).map(encrypted).collect()
    }

    /// Decrypts the slots of a ciphertext, as far as bootstrapping keeps them.
    fn opened(&self, parties: &Parties, a: &Ciphertext) -> Result<Vec<Complex<f64>>> {
        let mut slots = parties.open(a)?;
        if self.plan.spec().values == Values::Real {
            slots.iter_mut().for_each(|slot| slot.im = 0.0);
        }
        Ok(slots)
    }

    /// Returns the level of the operands of a stage.
    fn level(&self, stage: Stage) -> Level {
        let spec = self.plan.spec();
        match (stage, spec.order) {
            (Stage::SlotsToCoeffs, Order::SlotsToCoeffsFirst) => self.plan.input_level(),
            (Stage::SlotsToCoeffs, Order::CoeffsToSlotsFirst) => {
                self.plan.eval_mod().output_level()
            }
            (Stage::ModRaise, _) => Level(0),
            (Stage::CoeffsToSlots, _) => self.plan.top(),
            (Stage::EvalMod, _) => Level(self.plan.top().0 - spec.coeffs_to_slots.len() as u32),
        }
    }
}

fn stages(order: Order) -> [Stage; 4] {
    use Stage::{CoeffsToSlots, EvalMod, ModRaise, SlotsToCoeffs};
    match order {
        Order::SlotsToCoeffsFirst => [SlotsToCoeffs, ModRaise, CoeffsToSlots, EvalMod],
        Order::CoeffsToSlotsFirst => [ModRaise, CoeffsToSlots, EvalMod, SlotsToCoeffs],
    }
}

fn name(stage: Stage) -> &'static str {
    match stage {
        Stage::SlotsToCoeffs => "slots_to_coeffs",
        Stage::ModRaise => "mod_raise",
        Stage::CoeffsToSlots => "coeffs_to_slots",
        Stage::EvalMod => "eval_mod",
    }
}

fn ciphertext_bytes(params: &Params, level: Level) -> u64 {
    16 * ((params.rlwe().limbs(level).q() as u64) << params.log_n())
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let start = Instant::now();
    let done = work()?;
    Ok((start.elapsed().as_secs_f64(), done))
}

/// Rejects a wrong result, whatever its speed.
fn check(set: &BootstrapPreset, plan: &BootstrapPlan, errors: &Errors) -> Result<()> {
    let worst = errors.worst_bits();
    let needed = set.precision_bits - WORST_BITS;
    if worst >= needed {
        return Ok(());
    }
    Err(Error::WrongResult(format!(
        "bootstrapping of 2^{} slots with {} has {worst:.1} bits of precision in the worst slot, \
         {needed:.1} are expected",
        plan.spec().log_slots,
        set.preset.name
    )))
}

/// Distances of results from the values they should have.
#[derive(Default)]
struct Errors {
    sum: f64,
    worst: f64,
    count: usize,
}

impl Errors {
    fn add(&mut self, found: &[Complex<f64>], expected: &[Complex<f64>]) {
        // `zip` would compare the common part only and call a short result right.
        if found.len() != expected.len() {
            self.worst = f64::NAN;
        }
        for (x, y) in found.iter().zip(expected) {
            let error = (x.re - y.re).hypot(x.im - y.im);
            self.sum += error;
            // A NaN is the worst error.
            if error > self.worst || error.is_nan() {
                self.worst = error;
            }
        }
        self.count += found.len();
    }

    /// Returns `-log2` of the mean.
    fn mean_bits(&self) -> f64 {
        -(self.sum / self.count as f64).log2()
    }

    fn worst_bits(&self) -> f64 {
        -self.worst.log2()
    }
}

fn text(lines: &[Bootstrapped]) -> String {
    let Some(whole) = lines.first() else { return String::new() };
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|stage| {
            vec![
                stage.line.op.clone(),
                stage.line.level.to_string(),
                format!("{:.1}", stage.line.median_ms),
                format!("{:.1}", stage.line.min_ms),
                format!("{:.5}", stage.amortised_ms),
            ]
        })
        .collect();
    let bits = |bits: Option<f64>| bits.map_or_else(|| "?".into(), |bits| format!("{bits:.1}"));
    let peak = whole.peak_rss_bytes.map(|peak| format!(", at most {} in use", size::bytes(peak)));
    let printed = whole.published.map(|row| {
        format!(
            "{}: {} bits of precision; {} levels left; {:.1} s, {} thread(s)\n",
            row.table, row.precision_bits, row.levels_left, row.seconds, row.threads
        )
    });
    format!(
        "{}, 2^{} slots, {} ciphertext(s), {} thread(s), {}, {} runs\n{}{} bits of precision, {} \
         in the worst slot; {} levels left\n{}keys {} in {:.1} s, matrices {} in {:.1} s{}\n{}",
        whole.line.params,
        whole.line.log_slots.unwrap_or_default(),
        whole.ciphertexts,
        whole.line.threads,
        whole.line.isa,
        whole.line.runs,
        output::table(&["op", "level", "median ms", "min ms", "ms per slot"], &rows),
        bits(whole.line.precision_bits),
        bits(whole.worst_precision_bits),
        whole.levels_left,
        printed.unwrap_or_default(),
        size::bytes(whole.key_bytes),
        whole.keygen_s,
        size::bytes(whole.matrix_bytes),
        whole.prepare_s,
        peak.unwrap_or_default(),
        profile_text(lines)
    )
}

/// Shows the counted work and the predicted times, if the user wants them.
fn profile_text(lines: &[Bootstrapped]) -> String {
    let whole = lines.first().and_then(|line| line.profile);
    let Some(rates) = whole.and_then(|profile| profile.rates) else { return String::new() };
    let row = |stage: &Bootstrapped| {
        let Profile { work, predicted_ms, predicted_ratio, .. } = stage.profile?;
        let note = if stage.profile?.is_off() { "more than 25 % off" } else { "" };
        Some(vec![
            stage.line.op.clone(),
            work.transforms().to_string(),
            format!("{:.0}", work.streamed_products as f64 / 1e6),
            format!("{:.0}", work.cached_products as f64 / 1e6),
            size::bytes(work.key_bytes),
            size::bytes(work.matrix_bytes),
            format!("{predicted_ms:.1}"),
            format!("{:.1}", stage.line.median_ms),
            format!("{predicted_ratio:.2}"),
            note.into(),
        ])
    };
    let titles = [
        "op",
        "transforms",
        "1e6 products from memory",
        "in cache",
        "keys read",
        "matrices read",
        "predicted ms",
        "measured ms",
        "ratio",
        "",
    ];
    format!(
        "{}one at a time: {:.0} us a transform up to 50 bits{}, {:.2} ns a product from memory and \
         {:.2} in cache, {:.2} ns a residue permuted, {:.1} GB/s of rows\n",
        output::table(&titles, &lines.iter().filter_map(row).collect::<Vec<_>>()),
        rates.narrow_transform_ns / 1e3,
        match rates.wide_transform_ns {
            // Rate 0 means that the set has no prime of that size.
            0.0 => String::new(),
            ns => format!(", {:.0} above", ns / 1e3),
        },
        rates.streamed_product_ns,
        rates.cached_product_ns,
        rates.permuted_ns,
        1.0 / rates.row_byte_ns
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sudare::circuits::ckks::bootstrap;

    #[test]
    fn errors_have_a_mean_and_a_worst() {
        let slots = |parts: &[f64]| -> Vec<Complex<f64>> {
            parts.iter().map(|&re| Complex { re, im: 0.0 }).collect()
        };
        let mut errors = Errors::default();
        errors.add(&slots(&[1.0, 1.125]), &slots(&[1.0, 1.0]));
        errors.add(&slots(&[1.125, 0.75]), &slots(&[1.0, 1.0]));
        assert_eq!((errors.mean_bits(), errors.worst_bits()), (3.0, 2.0));
        let set = bootstrap::preset("n16-boot").unwrap();
        let params = Params::new(set.preset.spec.clone()).unwrap();
        let plan = set.plan(&params, 5).unwrap();
        let tiny = |error| Errors { sum: error, worst: error, count: 1 };
        assert!(check(&set, &plan, &tiny((-20f64).exp2())).is_ok());
        for wrong in [0.1, f64::NAN] {
            assert_eq!(check(&set, &plan, &tiny(wrong)).unwrap_err().exit_code(), 1);
        }
        errors.add(&slots(&[1.0]), &slots(&[]));
        assert!(check(&set, &plan, &errors).is_err());
    }
}
