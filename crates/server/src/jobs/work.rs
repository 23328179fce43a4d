//! The process of a job, which does the same as the command of its name.

use crate::{
    job::{Kind, Message, STOP, Task},
    jobs::planning::{self, PlanTask},
};
use std::{
    fs,
    io::{self, BufRead, Write},
    path::Path,
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use sudare_arith::par;
use sudare_roles::{
    error::{Error, Result},
    format::label::Content,
    job::Plan,
    os::files::{self, Access, NewFile},
    server::{
        scoring::AnyModel,
        session::{Inputs, Session},
        training::{CheckpointFolder, TrainingServer, iterations_of},
    },
};

/// Interval between two progress reports, except for iterations.
// Followers see progress without delay, and the server handles few messages.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);
/// Interval between two reports of CPU time.
// A killed process loses at most this interval of its account.
const CPU_REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// Niceness of jobs.
// Requests to the server come first, also while all processors compute.
#[cfg(unix)]
const NICENESS: i32 = 10;
/// Maximum time for a dying process to release the directory of states.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Memory of the program before the job starts, in bytes. A process may use this, a quarter more than
/// predicted, and the stacks.
const BASE_MEMORY: u64 = 256 << 20;
/// Memory for the stack of each thread, in bytes.
const STACK: u64 = 8 << 20;
/// Exit status of a process that abandons its job.
const EXIT_LEFT: i32 = 3;
/// Maximum size of a task, in bytes.
const MAX_TASK_BYTES: u64 = 1 << 20;

/// Computes the task on the first line of standard input, and reports its progress and its outcome on
/// standard output. The line `stop` stops a job that can be resumed. The end of input stops any job at
/// once, since no server waits for it. Returns the exit status.
#[must_use]
pub fn work() -> u8 {
    // Under memory pressure the system kills this process and not the server.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let task = match read_input() {
        Ok(Input::Task(task)) => task,
        Ok(Input::PlanTask(task)) => {
            // Before a byte of a tenant's file is read.
            limit(Some(task.memory), task.cpu_seconds);
            let mut out = io::stdout().lock();
            let said = writeln!(out, "{}", planning::answer(&task)).and_then(|()| out.flush());
            return u8::from(said.is_err());
        }
        Err(error) => return ended(Err(error)),
    };
    #[cfg(unix)]
    let _ = rustix::process::nice(NICENESS);
    limit(task.memory.map(room_for), task.most_cpu_seconds);
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let may_go_on = task.kind == Kind::Train;
    thread::spawn(move || listen(&stopping, may_go_on));
    // The time of a process that is killed later must count, too.
    thread::spawn(|| {
        loop {
            thread::sleep(CPU_REPORT_INTERVAL);
            report_cpu();
        }
    });
    ended(run(&task, &stop))
}

/// Returns the memory limit for a predicted use: a wrong prediction costs the job and nothing else.
fn room_for(predicted: u64) -> u64 {
    let beside = BASE_MEMORY.saturating_add(STACK.saturating_mul(par::threads() as u64));
    predicted.saturating_add(predicted / 4).saturating_add(beside)
}

/// Limits the memory and the CPU seconds of this process, and disables core dumps. Mapped files do not
/// count.
fn limit(memory: Option<u64>, cpu: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let memory = memory.map(|most| (Resource::Data, most, most));
        // The soft limit sends a signal, one second before the hard limit kills.
        let others = [(Resource::Cpu, cpu, cpu.saturating_add(1)), (Resource::Core, 0, 0)];
        for (resource, current, maximum) in memory.into_iter().chain(others) {
            // A lower limit that is set already stays.
            let _ = setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) });
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (memory, cpu);
}

/// The first line that a process reads.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Input {
    Task(Task),
    PlanTask(PlanTask),
}

fn read_input() -> Result<Input> {
    let mut line = String::new();
    let mut input = io::Read::take(io::stdin().lock(), MAX_TASK_BYTES);
    input.read_line(&mut line).map_err(|e| Error::io("read", Path::new("standard input"), e))?;
    serde_json::from_str(&line).map_err(|error| {
        Error::Usage(format!("standard input has no valid task of a server: {error}"))
    })
}

/// Handles the lines from the server. A job that cannot be resumed exits at once.
fn listen(stop: &AtomicBool, may_go_on: bool) {
    for line in io::stdin().lines().map_while(io::Result::ok) {
        if line == STOP && !may_go_on {
            break;
        }
        stop.fetch_or(line == STOP, Ordering::Relaxed);
    }
    // `exit` runs no destructors, which would remove partial files.
    files::remove_unfinished(|| process::exit(EXIT_LEFT));
}

fn send(said: &Message) {
    let Ok(mut line) = serde_json::to_vec(said) else { return };
    line.push(b'\n');
    let mut out = io::stdout().lock();
    // If standard output is closed, input has ended too, and the process exits.
    let _ = out.write_all(&line).and_then(|()| out.flush());
}

/// Reports the CPU time used, where the system provides it.
fn report_cpu() {
    #[cfg(unix)]
    {
        use rustix::time::{ClockId, clock_gettime};
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let milliseconds =
            used.tv_sec.saturating_mul(1000).saturating_add(used.tv_nsec / 1_000_000);
        send(&Message::Cpu(u64::try_from(milliseconds).unwrap_or(0)));
    }
}

fn ended(outcome: Result<Message>) -> u8 {
    let (said, status) = match outcome {
        Ok(said) => (said, 0),
        Err(error) => {
            let kind = error.kind();
            let detail = error.to_string();
            (Message::Failed { kind, detail }, error.exit_code())
        }
    };
    report_cpu();
    send(&said);
    status
}

fn run(task: &Task, stop: &AtomicBool) -> Result<Message> {
    let file = NewFile::create(&task.output, Access::Shared, true)?;
    let session = Session::open(&Inputs {
        evaluation_key: task.keys.clone(),
        tables: task.tables.clone(),
        // Objects are never written to again, so their files can be mapped.
        map_keys: true,
        small_keys: false,
    })?;
    match task.kind {
        Kind::Train => return train(task, session, file, stop),
        Kind::Predict => predict(task, &session, file)?,
        Kind::Stats | Kind::Groups | Kind::Histogram => statistics(&session, file)?,
    }
    Ok(Message::Done)
}

fn statistics(session: &Session, file: NewFile) -> Result<()> {
    let reports = Reports::new(session.plan.outputs());
    let results = session.statistics(|done| reports.add(done))?;
    session.write_result(file, results, &session.meta_of_result(), Content::Statistics)?;
    Ok(())
}

fn predict(task: &Task, session: &Session, file: NewFile) -> Result<()> {
    let (Plan::Predict(plan), Some(model)) = (&session.plan, &task.model) else {
        return Err(Error::Usage(
            "a prediction needs rows that were encrypted for scoring, and a model".into(),
        ));
    };
    let model = AnyModel::read(model, session, plan)?;
    let reports = Reports::new(plan.groups());
    let scores = session.scores(plan, model.weights(), |done| reports.add(done))?;
    let (results, meta) = model.results(scores, session);
    session.write(file, &results, &meta, Content::Scores)?;
    Ok(())
}

fn train(task: &Task, session: Session, file: NewFile, stop: &AtomicBool) -> Result<Message> {
    let Plan::Train(plan) = &session.plan else {
        return Err(Error::Usage(
            "a training needs a table that was encrypted for training".into(),
        ));
    };
    let iterations = iterations_of(plan, task.iterations)?;
    wait_for(&task.states)?;
    let kept = CheckpointFolder { folder: task.states.clone(), resume: true, replace: true };
    let mut server = TrainingServer::open(session, Some(kept), task.history, |damaged| {
        tracing::warn!(damaged, "skipped a damaged state of a training");
    })?;
    let report = |done: u32| send(&Message::Progress(done.into(), iterations.into()));
    report(server.training().iteration);
    while server.training().iteration < iterations {
        if stop.load(Ordering::Relaxed) {
            return Ok(Message::Stopped);
        }
        server.step()?;
        report(server.training().iteration);
    }
    let (model, meta) = server.model()?;
    server.session().write_result(file, model, &meta, Content::Model)?;
    Ok(Message::Done)
}

/// Waits until no process holds the states, since the previous one may still be dying.
fn wait_for(states: &Path) -> Result<()> {
    files::make_folder(states)?;
    let begun = Instant::now();
    loop {
        match files::lock_folder(states) {
            Err(Error::InUse { .. }) if begun.elapsed() < EXIT_TIMEOUT => {
                thread::sleep(REPORT_INTERVAL);
            }
            found => return found.map(|_| ()),
        }
    }
}

/// Progress reports, limited in rate.
struct Reports {
    total: u64,
    last: Mutex<(u64, Instant)>,
}

impl Reports {
    fn new(total: usize) -> Self {
        let total = total as u64;
        send(&Message::Progress(0, total));
        Self { total, last: Mutex::new((0, Instant::now())) }
    }

    /// Reports that `done` steps are complete. Threads may call it in any order.
    fn add(&self, done: usize) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, sent) = &mut *last;
        *most = (*most).max(done as u64);
        // The last step is always reported.
        if *most == self.total || sent.elapsed() >= REPORT_INTERVAL {
            *sent = Instant::now();
            send(&Message::Progress(*most, self.total));
        }
    }
}
