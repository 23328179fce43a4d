//! Ending work from another thread.
//!
//! Loops over threads ([`par`](crate::par)) look before each part whether the work that they belong
//! to is to end, and then unwind.

use core::{
    cell::Cell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};
use std::{
    panic,
    sync::{Mutex, PoisonError},
};

/// Work that can be told to end.
#[derive(Debug)]
pub struct Stop(Work);

/// Tells work from other work; 0 is what nobody can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work(u64);

/// What unwinding carries.
struct Stopped;

/// The work that began last.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Work that is to end and has not.
static ENDING: Mutex<Vec<Work>> = Mutex::new(Vec::new());

/// How many that are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What this thread works on.
    static WORK: Cell<Work> = const { Cell::new(Work(0)) };
}

/// Work that is to end, to be changed by `f`.
fn change(f: impl FnOnce(&mut Vec<Work>)) {
    let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    f(&mut ending);
    COUNT.store(ending.len(), Relaxed);
}

impl Default for Stop {
    fn default() -> Self {
        Self(Work(LAST.fetch_add(1, Relaxed) + 1))
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        if COUNT.load(Relaxed) > 0 {
            change(|ending| ending.retain(|&work| work != self.0));
        }
    }
}

impl Stop {
    /// Runs `f` as this work. It unwinds soon after [`Stop::stop`], without a message, which is for
    /// whoever stops it to catch.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        self.0.run(f)
    }

    /// Ends the work, on all its threads: each at the next part of a loop over threads, or at
    /// [`Stop::check`].
    pub fn stop(&self) {
        change(|ending| {
            if !ending.contains(&self.0) {
                ending.push(self.0);
            }
        });
    }

    /// Unwinds if the work is to end.
    pub fn check(&self) {
        self.0.check();
    }
}

impl Work {
    /// What this thread works on.
    pub(crate) fn current() -> Self {
        WORK.get()
    }

    /// Runs a part of it.
    pub(crate) fn run<T>(self, f: impl FnOnce() -> T) -> T {
        /// What the thread works on afterwards.
        struct Before(Work);
        impl Drop for Before {
            fn drop(&mut self) {
                WORK.set(self.0);
            }
        }
        self.check();
        let _before = Before(WORK.replace(self));
        f()
    }

    /// Unwinds if it is to end.
    pub(crate) fn check(self) {
        if COUNT.load(Relaxed) == 0 || self == Self(0) {
            return;
        }
        let ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner).contains(&self);
        if ending {
            panic::resume_unwind(Box::new(Stopped));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::par;
    use core::sync::atomic::AtomicBool;
    use std::{panic::AssertUnwindSafe, thread, time::Duration};

    /// Whether `f` ends by being stopped, from another thread and after it began.
    fn is_stopped(f: impl FnOnce(&AtomicBool) + Send) -> bool {
        let (stop, begun) = (Stop::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let work = scope.spawn(|| {
                let run = AssertUnwindSafe(|| stop.run(|| f(&begun)));
                panic::catch_unwind(run).is_err_and(|thrown| thrown.is::<Stopped>())
            });
            while !begun.load(Relaxed) {
                thread::yield_now();
            }
            stop.stop();
            work.join().unwrap()
        })
    }

    /// A part of a loop that takes a while.
    fn part(begun: &AtomicBool) {
        begun.store(true, Relaxed);
        thread::sleep(Duration::from_millis(1));
    }

    #[test]
    fn loops_end_on_any_number_of_threads() {
        const LONG: usize = 1 << 12;
        for n in [1, 2, 3] {
            let stopped =
                |f: fn(&AtomicBool)| is_stopped(|begun| par::with_threads(n, || f(begun)).unwrap());
            assert!(stopped(|begun| par::for_each(0..LONG, |_| part(begun))), "{n}");
            assert!(stopped(|begun| drop(par::map(0..LONG, |_| part(begun)))), "{n}");
            assert!(stopped(|begun| par::for_limbs(0..LONG, |_, _| part(begun))), "{n}");
            assert!(stopped(|begun| {
                let mut words = vec![0; 4 * LONG];
                par::for_tiles(&mut words, LONG, 4, |_, _| part(begun));
            }));
            // What is within the parts of a loop ends as well.
            assert!(stopped(|begun| {
                par::join(|| (), || par::for_each(0..LONG, |_| part(begun)));
            }));
        }
    }

    #[test]
    fn other_work_goes_on() {
        let (first, second) = (Stop::default(), Stop::default());
        first.stop();
        first.stop();
        let sum = || par::map(0..100u64, |x| x).iter().sum::<u64>();
        assert_eq!((second.run(sum), sum()), (4950, 4950));
        let run = |stop: &Stop| panic::catch_unwind(AssertUnwindSafe(|| stop.run(sum))).is_err();
        assert!(run(&first) && !run(&second));
        // Within other work it is the inner that counts, and then the outer again.
        assert!(second.run(|| run(&first)));
        assert_eq!(Work::current(), Work(0));
        let id = first.0;
        drop(first);
        assert!(!ENDING.lock().unwrap().contains(&id));
    }
}
