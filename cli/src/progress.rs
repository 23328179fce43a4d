//! Progress of a long step: a bar on a terminal, an occasional line elsewhere.

use crate::output::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{self, IsTerminal},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use sudare::rlwe::{EvaluationKeys, KeyGenerator, KeyRequest, SecretKey};

/// Steps shorter than this print no line.
// Lines about short steps would fill a log without information.
const QUIET: Duration = Duration::from_secs(2);
/// Time between two lines of one step.
const BETWEEN: Duration = Duration::from_secs(10);

/// The progress of one step; gone from the terminal when dropped.
pub struct Progress {
    what: String,
    total: u64,
    bar: Option<ProgressBar>,
    next_line: Mutex<Instant>,
}

/// Returns the instant after this time.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now)
}

impl Progress {
    /// Begins a step with `total` parts; 0 if the number is not known.
    pub fn new(what: impl Into<String>, total: usize) -> Self {
        let what = what.into();
        let total = total as u64;
        // A log would keep each frame of a bar, so other outputs get lines.
        let bar = io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target((total > 0).then_some(total), target);
            let template = if total > 0 {
                "{msg} {bar:30} {pos}/{len} {elapsed} (left {eta})"
            } else {
                "{spinner} {msg} {elapsed}"
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_message(what.clone());
            // Parts can take minutes: without ticks the elapsed time would stand still.
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { what, total, bar, next_line: Mutex::new(after(QUIET)) }
    }

    /// Records that `done` parts are complete, from any thread and in any order.
    pub fn set(&self, done: usize) {
        match &self.bar {
            // Threads report in any order, and a bar must not go backwards.
            Some(bar) => bar.set_position(bar.position().max(done as u64)),
            None => self.line(done, ""),
        }
    }

    /// Records the complete parts and shows details of the last one: a row above the bar, or the
    /// rest of the line.
    pub fn set_with(&self, done: usize, details: &str) {
        match &self.bar {
            Some(bar) => {
                bar.println(format!("{:>9} of {}{details}", done, self.total));
                bar.set_position(done as u64);
            }
            None => self.line(done, details),
        }
    }

    fn line(&self, done: usize, details: &str) {
        let mut next_line = self.next_line.lock().unwrap_or_else(PoisonError::into_inner);
        // No line for the last part: the result follows at once.
        if Instant::now() >= *next_line && (done as u64) < self.total {
            say(format_args!("{}: {done} of {}{details}", self.what, self.total));
            *next_line = after(BETWEEN);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Makes evaluation keys under a bar with the text `what`.
///
/// # Errors
/// Same as [`KeyGenerator::evaluation_keys`].
pub fn evaluation_keys(
    what: &str,
    generator: &mut KeyGenerator,
    secret: &SecretKey,
    request: &KeyRequest,
) -> sudare::Result<EvaluationKeys> {
    let progress = Progress::new(what, request.count());
    generator.evaluation_keys_with(secret, request, |made| progress.set(made))
}
