//! Stopping work from another thread.
//!
//! Loops over threads ([`par`](crate::par)) check before each part whether their work was stopped,
//! and then unwind.

use core::{
    cell::Cell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};
use std::{
    panic,
    sync::{Mutex, PoisonError},
};

/// Work that another thread can stop.
#[derive(Debug)]
pub struct Stop(Work);

/// Identifies a piece of work; 0 cannot be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work(u64);

/// Payload of the unwinding.
struct Stopped;

/// The most recently started work.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Work that was stopped and has not ended yet.
static ENDING: Mutex<Vec<Work>> = Mutex::new(Vec::new());

/// Number of entries of `ENDING`: lets a check without stopped work avoid the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The work of this thread.
    static WORK: Cell<Work> = const { Cell::new(Work(0)) };
}

/// Changes the list of stopped work by `f`.
fn change(f: impl FnOnce(&mut Vec<Work>)) {
    let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    f(&mut ending);
    // Relaxed: a thread that still reads the old count stops one check later.
    COUNT.store(ending.len(), Relaxed);
}

impl Default for Stop {
    fn default() -> Self {
        Self(Work(LAST.fetch_add(1, Relaxed) + 1))
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        // An entry of this work was counted by its own `stop`, which returned before this drop.
        if COUNT.load(Relaxed) > 0 {
            change(|ending| ending.retain(|&work| work != self.0));
        }
    }
}

impl Stop {
    /// Runs `f` as this work. It unwinds soon after [`Stop::stop`], without a message. The caller
    /// that stops it must catch this.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        self.0.run(f)
    }

    /// Stops the work on all its threads. Each ends at the next part of a loop over threads or at
    /// [`Stop::check`].
    pub fn stop(&self) {
        change(|ending| {
            if !ending.contains(&self.0) {
                ending.push(self.0);
            }
        });
    }

    /// Unwinds if the work was stopped.
    pub fn check(&self) {
        self.0.check();
    }
}

impl Work {
    /// The work of this thread.
    pub(crate) fn current() -> Self {
        WORK.get()
    }

    /// Runs a part of the work.
    pub(crate) fn run<T>(self, f: impl FnOnce() -> T) -> T {
        /// Restores the thread's previous work.
        struct Before(Work);
        impl Drop for Before {
            fn drop(&mut self) {
                WORK.set(self.0);
            }
        }
        self.check();
        // Restores also while unwinding, because threads of the pool go on to other work.
        let _before = Before(WORK.replace(self));
        f()
    }

    /// Unwinds if the work was stopped.
    pub(crate) fn check(self) {
        // Usually no work is being stopped, and this load is the whole cost of a check.
        if COUNT.load(Relaxed) == 0 || self == Self(0) {
            return;
        }
        let ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner).contains(&self);
        if ending {
            // Unlike `panic!`, this runs no panic hook and prints no message.
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

    /// Returns `true` if `f` is ended by a stop from another thread after it began.
    fn is_stopped(f: impl FnOnce(&AtomicBool) + Send) -> bool {
        let stop = Stop::default();
        let begun = AtomicBool::new(false);
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

    /// A part of a loop that takes some time.
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
            // Nested parts of a loop end as well.
            assert!(stopped(|begun| {
                par::join(|| (), || par::for_each(0..LONG, |_| part(begun)));
            }));
        }
    }

    #[test]
    fn other_work_goes_on() {
        let first = Stop::default();
        let second = Stop::default();
        first.stop();
        first.stop();
        let sum = || par::map(0..100u64, |x| x).iter().sum::<u64>();
        assert_eq!((second.run(sum), sum()), (4950, 4950));
        let run = |stop: &Stop| panic::catch_unwind(AssertUnwindSafe(|| stop.run(sum))).is_err();
        assert!(run(&first) && !run(&second));
        // Within other work, the inner work counts, and afterwards the outer again.
        assert!(second.run(|| run(&first)));
        assert_eq!(Work::current(), Work(0));
        let id = first.0;
        drop(first);
        assert!(!ENDING.lock().unwrap().contains(&id));
    }
}
