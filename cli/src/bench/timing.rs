//! Times of repeated work.

use std::time::{Duration, Instant};
use sudare_roles::error::Result;

/// Minimum duration of a run: shorter ones would measure the clock.
const RUN: Duration = Duration::from_millis(2);

/// Times of one operation.
pub struct Time {
    /// The median, in milliseconds.
    pub median_ms: f64,
    /// The shortest, in milliseconds.
    pub min_ms: f64,
}

/// Times `work`, and returns the result of the last run.
///
/// # Errors
/// Errors of `work`.
pub fn time<T>(runs: u32, mut work: impl FnMut() -> Result<T>) -> Result<(Time, T)> {
    let start = Instant::now();
    let mut last = work()?;
    // The first run is the warm-up. It also decides how often a short operation repeats in a run.
    let once = start.elapsed().max(Duration::from_nanos(1));
    // Bounded, because a coarse clock may show hardly any time for the first run.
    let repeats = RUN.as_nanos().div_ceil(once.as_nanos()).clamp(1, 100_000) as u32;
    let mut times = Vec::new();
    for _ in 0..runs {
        let start = Instant::now();
        for _ in 0..repeats {
            last = work()?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e3 / f64::from(repeats));
    }
    Ok((summary(times), last))
}

/// Summarises the milliseconds of one run or more.
#[must_use]
pub fn summary(mut times: Vec<f64>) -> Time {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    let even = times.len().is_multiple_of(2);
    let median_ms = if even { (times[middle - 1] + times[middle]) / 2.0 } else { times[middle] };
    Time { median_ms, min_ms: times[0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_work_is_repeated_and_the_warm_up_is_not_timed() {
        let mut calls = 0;
        let (time, last) = time(4, || {
            calls += 1;
            if calls == 1 {
                std::thread::sleep(RUN);
            }
            Ok(calls)
        })
        .unwrap();
        assert_eq!((calls, last), (5, 5));
        assert!(time.min_ms <= time.median_ms && time.median_ms < 1.0);
    }
}
