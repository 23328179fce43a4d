//! Long work, during which Python continues.

use crate::error::{Error, Result};
use pyo3::prelude::*;
use std::{
    io::{self, Write},
    panic::{self, AssertUnwindSafe},
    process,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};
use sudare_arith::{par, stop::Stop};

/// Time between two checks for signals: short enough that Ctrl-C seems immediate.
const SLICE: Duration = Duration::from_millis(10);

/// The progress of work, and a stop for work that was abandoned.
#[derive(Default)]
pub struct Progress {
    state: Mutex<State>,
    /// Stops work whose caller has stopped waiting.
    abandoned: Stop,
}

/// The name of a step, its finished parts, and the number of parts.
#[derive(Default, Clone, Copy, PartialEq)]
struct State {
    what: &'static str,
    done: usize,
    total: usize,
}

impl Progress {
    /// Begins a step of `total` parts.
    pub fn start(&self, what: &'static str, total: usize) {
        self.set_state(State { what, done: 0, total });
    }

    /// Records the finished parts of the step. Unwinds if the caller has stopped waiting.
    pub fn set(&self, done: usize) {
        self.abandoned.check();
        self.set_state(State { done, ..self.state() });
    }

    /// Returns a writer to `out` that unwinds in the same way.
    pub fn watch<W: Write>(&self, out: W) -> Watched<'_, W> {
        Watched { out, abandoned: &self.abandoned }
    }

    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

/// A writer that unwinds once the work is abandoned.
pub struct Watched<'a, W> {
    out: W,
    abandoned: &'a Stop,
}

impl<W: Write> Write for Watched<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.abandoned.check();
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Runs `work` on a thread of its own, without the interpreter lock, while this thread looks for
/// signals and calls `callback(what, done, total)` as work proceeds.
///
/// An exception of a signal handler or the callback ends the wait at once. It ends work soon after: in
/// its next loop over threads, [`Progress::set`] or write to a watched writer.
///
/// # Errors
/// The errors of `work` and of Python meanwhile; [`Error::Bug`] if work panics.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    callback: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Progress) -> Result<T> + Send + 'static,
) -> Result<T> {
    let progress = Arc::new(Progress::default());
    // One place, so that the thread of the work ends without waiting for a reader.
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let shared = Arc::clone(&progress);
    let body = move || {
        // Only `Progress` is used after a panic, and its mutex tolerates one.
        let work = AssertUnwindSafe(|| on_own_threads(|| shared.abandoned.run(|| work(&shared))));
        // The receiver is gone if the wait ended with an exception.
        let _ = sender.send(panic::catch_unwind(work));
    };
    // Python delivers signals on its main thread only, so that thread must be free to look for
    // them.
    thread::Builder::new()
        .name("sudare".into())
        .spawn(body)
        .map_err(|_| Error::Bug("the system has no thread to give"))?;
    let mut reported = State::default();
    let mut report = |progress: &Progress| -> PyResult<()> {
        let state = progress.state();
        if let Some(callback) = callback.filter(|_| state != reported) {
            reported = state;
            callback.call1((state.what, state.done, state.total))?;
        }
        Ok(())
    };
    loop {
        let receiver = &mut receiver;
        // Other threads of Python run while this one waits.
        let outcome = py.detach(move || receiver.recv_timeout(SLICE));
        match outcome {
            Ok(Ok(result)) => {
                // The last state would otherwise be lost, and bars would stop short of their end.
                report(&progress)?;
                return result;
            }
            // Stopped work unwinds too, but its wait has already returned.
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Bug("native code stopped in the middle of its work"));
            }
            Err(RecvTimeoutError::Timeout) => {
                // Work ends later, at its next check. The caller need not wait for that.
                if let Err(error) = py.check_signals().and_then(|()| report(&progress)) {
                    progress.abandoned.stop();
                    return Err(error.into());
                }
            }
        }
    }
}

/// Runs `work` without the interpreter lock.
///
/// # Errors
/// The errors of `work`.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    py.detach(|| on_own_threads(work))
}

/// The process that loaded this module.
static HOME: OnceLock<u32> = OnceLock::new();

/// Remembers this process as the one whose threads work.
pub fn settle() {
    // Only the first import counts: a forked process inherits this value and differs from it.
    HOME.get_or_init(process::id);
}

/// Runs `work` on threads of this process. A fork, as by `multiprocessing`, lacks its parent's
/// threads, so work there makes its own.
fn on_own_threads<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    if HOME.get() == Some(&process::id()) {
        return work();
    }
    // The global pool of a forked process has no threads: work given to it would never end.
    let count = thread::available_parallelism().map_or(1, usize::from);
    par::with_threads(count, work).map_err(sudare::Error::from)?
}
