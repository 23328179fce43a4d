//! Runs targets on altered inputs, within limits of time and memory.
//!
//! This driver does not measure coverage and works on any toolchain. `fuzz/` drives the same
//! functions with libFuzzer, which does.

use crate::{
    mutate::Rng,
    targets::{self, Harness, Reached, Target},
};
use core::fmt;
use peak_alloc::PeakAlloc;
use std::{
    any::Any,
    fs,
    panic::{self, AssertUnwindSafe},
    time::{Duration, Instant},
};

/// Counts the heap of every program that links this crate.
#[global_allocator]
pub static HEAP: PeakAlloc = PeakAlloc;

/// Maximum time of a target for one input.
pub const LONGEST: Duration = Duration::from_secs(1);

/// The outcome of one input.
#[derive(Debug)]
pub struct Run {
    /// The stage that the input reached, or the failure of the target.
    pub reached: Result<Reached, String>,
    /// Run time of the target.
    pub time: Duration,
    /// Size of the prepared input in bytes.
    pub bytes: usize,
    /// Heap besides the input, in bytes.
    pub heap: usize,
}

impl Run {
    /// Prepares an input and runs a target on it.
    #[must_use]
    pub fn of(target: &Target, input: &[u8]) -> Self {
        let file = (target.prepare)(input);
        // Preparing the input is the work of the test, and does not count.
        HEAP.reset_peak_usage();
        let before = HEAP.current_usage();
        let start = Instant::now();
        let reached = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&file)));
        let mut time = start.elapsed();
        let heap = HEAP.peak_usage().saturating_sub(before);
        if time > LONGEST && reached.is_ok() {
            // The first run may have waited for the processor.
            time = time.min(processor_time(|| (target.run)(&file)).unwrap_or(time));
        }
        Self { reached: reached.map_err(message), time, bytes: file.len(), heap }
    }

    /// Returns a description of the fault, if there is one.
    #[must_use]
    pub fn fault(&self, target: &Target) -> Option<String> {
        let most = targets::heap_limit(self.bytes);
        match &self.reached {
            Err(message) => Some(format!("panic: {message}")),
            Ok(_) if self.time > LONGEST => Some(format!("took {:?}", self.time)),
            // Other targets also compute with keys and tables, whose size does not follow from the
            // input.
            Ok(_) if target.harness == Harness::Parse && self.heap > most => {
                Some(format!("took {} bytes of heap for {} of input", self.heap, self.bytes))
            }
            Ok(_) => None,
        }
    }
}

/// Prepares an input and runs the named target on it. Fuzzers call this.
///
/// # Panics
/// If there is no such target, or the run has a [fault](Run::fault).
pub fn check(name: &str, input: &[u8]) {
    let target = targets::target(name).unwrap();
    let fault = Run::of(target, input).fault(target);
    assert!(fault.is_none(), "{}", fault.unwrap_or_default());
}

/// Returns the processor time of all threads of this process, where the system reports it.
#[must_use]
pub fn processor_clock() -> Option<Duration> {
    // User and system time, in hundredths of a second, after the name of the program.
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // From the last parenthesis on, because the name may contain spaces and parentheses.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}

/// Returns the processor time of `what`.
fn processor_time<T>(what: impl FnOnce() -> T) -> Option<Duration> {
    let before = processor_clock()?;
    let _done = what();
    processor_clock()?.checked_sub(before)
}

fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").into()
}

/// The outcomes of many inputs.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// Number of inputs.
    pub executions: u64,
    /// Number of inputs that passed every checksum and size.
    pub past_frame: u64,
    /// Number of accepted inputs.
    pub accepted: u64,
    /// Maximum time of an input.
    pub slowest: Duration,
    /// Maximum heap beyond twice the size of the input.
    pub heap_beyond: usize,
    /// The first fault of each kind, with its input.
    pub faults: Vec<(String, Vec<u8>)>,
}

impl Tally {
    /// Returns the fraction of inputs that passed every checksum and size.
    #[must_use]
    pub fn share_past_frame(&self) -> f64 {
        self.past_frame as f64 / self.executions.max(1) as f64
    }

    fn add(&mut self, target: &Target, input: &[u8]) {
        let run = Run::of(target, input);
        self.executions += 1;
        self.past_frame += u64::from(run.reached != Ok(Reached::Frame));
        self.accepted += u64::from(run.reached == Ok(Reached::Accepted));
        self.slowest = self.slowest.max(run.time);
        self.heap_beyond = self.heap_beyond.max(run.heap.saturating_sub(2 * run.bytes));
        // Bounded, because a broken target may fail on every input.
        if let Some(fault) = run.fault(target)
            && self.faults.len() < 20
        {
            // Messages of one fault differ in their numbers, which come later.
            let kind = |text: &str| text.chars().take(24).collect::<String>();
            if self.faults.iter().all(|(known, _)| kind(known) != kind(&fault)) {
                self.faults.push((fault, input.to_vec()));
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} executions, {:.0} % past checksums, {:.0} % accepted, slowest {:.0} ms, at most \
             {} KiB of heap beyond twice the input, {} kinds of faults",
            self.executions,
            100.0 * self.share_past_frame(),
            100.0 * self.accepted as f64 / self.executions.max(1) as f64,
            self.slowest.as_secs_f64() * 1e3,
            self.heap_beyond >> 10,
            self.faults.len()
        )
    }
}

/// Reads the committed inputs of a target.
#[must_use]
pub fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(targets::corpus(target)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    // Directories list files in any order, and a seed must repeat its run.
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs a target on altered inputs of its corpus, derived from a seed, for `longest` or `most`
/// times.
#[must_use]
pub fn run(target: &Target, seed: u64, longest: Duration, most: u64) -> Tally {
    let corpus = corpus(target);
    let mut rng = Rng::new(seed);
    let mut tally = Tally::default();
    let start = Instant::now();
    // Warm up, so that one-time initialization does not count.
    corpus.iter().for_each(|input| drop(Run::of(target, input)));
    while tally.executions < most && start.elapsed() < longest {
        let mut input = corpus[rng.below(corpus.len())].clone();
        (target.mutate)(&mut input, &mut rng);
        tally.add(target, &input);
    }
    tally
}
