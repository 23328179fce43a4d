//! Running a target on altered inputs, with limits of time and memory.
//!
//! This drives targets without a look at what they cover, on any toolchain; `fuzz/` drives the same
//! functions with libFuzzer, which does look.

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

/// Counts the heap of whatever is linked with this.
#[global_allocator]
pub static HEAP: PeakAlloc = PeakAlloc;

/// A target takes no longer for an input.
pub const LONGEST: Duration = Duration::from_secs(1);

/// What became of one input.
#[derive(Debug)]
pub struct Run {
    /// How far it came, or why the target failed.
    pub reached: Result<Reached, String>,
    /// How long it took.
    pub time: Duration,
    /// Bytes of the prepared input.
    pub bytes: usize,
    /// Bytes of heap beside that.
    pub heap: usize,
}

impl Run {
    /// Runs a target on an input that is prepared first.
    #[must_use]
    pub fn of(target: &Target, input: &[u8]) -> Self {
        let file = (target.prepare)(input);
        HEAP.reset_peak_usage();
        let (before, start) = (HEAP.current_usage(), Instant::now());
        let reached = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&file)));
        let (mut time, heap) = (start.elapsed(), HEAP.peak_usage().saturating_sub(before));
        if time > LONGEST && reached.is_ok() {
            // Perhaps it waited for the processor.
            time = time.min(processor_time(|| (target.run)(&file)).unwrap_or(time));
        }
        Self { reached: reached.map_err(message), time, bytes: file.len(), heap }
    }

    /// What is wrong with it.
    #[must_use]
    pub fn fault(&self, target: &Target) -> Option<String> {
        let most = targets::heap_limit(self.bytes);
        match &self.reached {
            Err(message) => Some(format!("panic: {message}")),
            Ok(_) if self.time > LONGEST => Some(format!("took {:?}", self.time)),
            Ok(_) if target.harness == Harness::Parse && self.heap > most => {
                Some(format!("took {} bytes of heap for {} of input", self.heap, self.bytes))
            }
            Ok(_) => None,
        }
    }
}

/// Prepares an input and runs the target of this name on it: what a fuzzer calls.
///
/// # Panics
/// If there is no such target, or the run has a [fault](Run::fault).
pub fn check(name: &str, input: &[u8]) {
    let target = targets::target(name).unwrap();
    let fault = Run::of(target, input).fault(target);
    assert!(fault.is_none(), "{}", fault.unwrap_or_default());
}

/// How long all threads of this process have computed, where the system tells.
#[must_use]
pub fn processor_clock() -> Option<Duration> {
    // User and system time, in hundredths of a second, after the name of the program.
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}

/// How long something computes.
fn processor_time<T>(what: impl FnOnce() -> T) -> Option<Duration> {
    let before = processor_clock()?;
    let _done = what();
    processor_clock()?.checked_sub(before)
}

fn message(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").into()
}

/// What became of many inputs.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// Inputs.
    pub executions: u64,
    /// Inputs that got past every checksum and size.
    pub past_frame: u64,
    /// Inputs that were accepted.
    pub accepted: u64,
    /// The longest time.
    pub slowest: Duration,
    /// The most heap beyond twice the input.
    pub heap_beyond: usize,
    /// Faults with the inputs that show them, the first of each kind.
    pub faults: Vec<(String, Vec<u8>)>,
}

impl Tally {
    /// The part of inputs past every checksum and size.
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
        if let Some(fault) = run.fault(target)
            && self.faults.len() < 20
        {
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

/// The committed inputs of a target.
#[must_use]
pub fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(targets::corpus(target)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs a target on altered inputs of its corpus, from a seed, for so long or so often.
#[must_use]
pub fn run(target: &Target, seed: u64, longest: Duration, most: u64) -> Tally {
    let corpus = corpus(target);
    let (mut rng, mut tally, start) = (Rng::new(seed), Tally::default(), Instant::now());
    // What is made once does not count.
    corpus.iter().for_each(|input| drop(Run::of(target, input)));
    while tally.executions < most && start.elapsed() < longest {
        let mut input = corpus[rng.below(corpus.len())].clone();
        (target.mutate)(&mut input, &mut rng);
        tally.add(target, &input);
    }
    tally
}
