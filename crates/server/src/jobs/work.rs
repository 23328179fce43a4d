//! What the process of a job does: the same as the command of its name.

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
    files::{self, Access, NewFile},
    job::Plan,
    label::Content,
    scoring::AnyModel,
    server::{Inputs, Session},
    training::{CheckpointFolder, TrainingServer, iterations_of},
};

/// Between two reports of progress, but for iterations.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);
/// Between two reports of the time of processors that was used.
const CPU_REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// How much jobs give way to others.
#[cfg(unix)]
const NICENESS: i32 = 10;
/// How long a folder of states may be in use by a process that is dying.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Memory of a process beside what is predicted, a quarter of which may come on top: what its program has
/// before the job begins.
const BASE_MEMORY: u64 = 256 << 20;
/// And for each thread.
const STACK: u64 = 8 << 20;
/// Exit status of a process that leaves its job.
const EXIT_LEFT: i32 = 3;
/// Most bytes of a task.
const MAX_TASK_BYTES: u64 = 1 << 20;

/// Does the task that standard input has on its first line, and says on standard output how far it
/// is and how it ended. The line `stop` ends it where it can be gone on from; the end of input
/// ends it at once, since nobody waits for it any more. Returns the exit status.
#[must_use]
pub fn work() -> u8 {
    // When memory is short, this process goes and not the server, and when processors are, it waits.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let task = match read_input() {
        Ok(Input::Task(task)) => task,
        Ok(Input::PlanTask(look)) => {
            limit(Some(look.memory), look.cpu_seconds);
            let mut out = io::stdout().lock();
            let said = writeln!(out, "{}", planning::answer(&look)).and_then(|()| out.flush());
            return u8::from(said.is_err());
        }
        Err(error) => return ended(Err(error)),
    };
    #[cfg(unix)]
    let _ = rustix::process::nice(NICENESS);
    limit(task.memory.map(room_for), task.most_cpu_seconds);
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let may_go_on = task.kind == Kind::Train;
    thread::spawn(move || listen(&told, may_go_on));
    thread::spawn(|| {
        loop {
            thread::sleep(CPU_REPORT_INTERVAL);
            report_cpu();
        }
    });
    ended(run(&task, &stop))
}

/// Memory that a job may have which is predicted to take so much: a wrong prediction costs the job and nothing
/// else.
fn room_for(predicted: u64) -> u64 {
    let beside = BASE_MEMORY.saturating_add(STACK.saturating_mul(par::threads() as u64));
    predicted.saturating_add(predicted / 4).saturating_add(beside)
}

/// Has the system refuse this process more bytes of memory and seconds of processors than these; and a copy of its
/// memory on the disk if it crashes. Files that are mapped do not count.
fn limit(memory: Option<u64>, cpu: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let memory = memory.map(|most| (Resource::Data, most, most));
        // The system says so before it kills.
        let others = [(Resource::Cpu, cpu, cpu.saturating_add(1)), (Resource::Core, 0, 0)];
        for (resource, current, maximum) in memory.into_iter().chain(others) {
            // Where a lower limit holds already, that stays.
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
    serde_json::from_str(&line)
        .map_err(|error| Error::Usage(format!("a task of a server is needed on input: {error}")))
}

/// Waits for what the server says. What cannot be gone on with is left at once.
fn listen(stop: &AtomicBool, may_go_on: bool) {
    for line in io::stdin().lines().map_while(io::Result::ok) {
        if line == STOP && !may_go_on {
            break;
        }
        stop.fetch_or(line == STOP, Ordering::Relaxed);
    }
    files::remove_unfinished(|| process::exit(EXIT_LEFT));
}

fn send(said: &Message) {
    let Ok(mut line) = serde_json::to_vec(said) else { return };
    line.push(b'\n');
    let mut out = io::stdout().lock();
    // Whoever does not listen any more has ended input, too.
    let _ = out.write_all(&line).and_then(|()| out.flush());
}

/// Says how much time of processors was used, where the system tells.
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
            let (kind, detail) = (error.kind(), error.to_string());
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
            "rows that were encrypted to be scored are needed, and a model".into(),
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
        return Err(Error::Usage("a table that was encrypted to train on is needed".into()));
    };
    let iterations = iterations_of(plan, task.iterations)?;
    wait_for(&task.states)?;
    let kept = CheckpointFolder { folder: task.states.clone(), resume: true, replace: true };
    let mut server = TrainingServer::open(session, Some(kept), task.history, |damaged| {
        tracing::warn!(damaged, "a state of a training is passed over");
    })?;
    let told = |done: u32| send(&Message::Progress(done.into(), iterations.into()));
    told(server.training().iteration);
    while server.training().iteration < iterations {
        if stop.load(Ordering::Relaxed) {
            return Ok(Message::Stopped);
        }
        server.step()?;
        told(server.training().iteration);
    }
    let (model, meta) = server.model()?;
    server.session().write_result(file, model, &meta, Content::Model)?;
    Ok(Message::Done)
}

/// Waits until no process has the states, since the one before may be dying still.
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

/// Reports of progress, of which not too many are sent.
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

    /// So many are done; from any thread, in any order.
    fn add(&self, done: usize) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, told) = &mut *last;
        *most = (*most).max(done as u64);
        if *most == self.total || told.elapsed() >= REPORT_INTERVAL {
            *told = Instant::now();
            send(&Message::Progress(*most, self.total));
        }
    }
}
