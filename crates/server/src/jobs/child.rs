//! Processes of jobs, as the server sees them.

use crate::job::{Message, STOP, Task};
use std::{
    convert::Infallible,
    ffi::OsString,
    future::pending,
    io::{self, Write},
    path::PathBuf,
    pin::pin,
    process::{self, ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::watch,
    time::sleep,
};

/// Maximum bytes of a process's standard error that are kept.
// Bounds memory and log line of a process that prints without end.
const MAX_STDERR_BYTES: u64 = 8 << 10;

/// The program that computes jobs: it calls [`work`](crate::work).
#[derive(Debug, Clone)]
pub struct Program {
    /// Path of the program.
    pub file: PathBuf,
    /// Arguments that make the program compute a job.
    pub args: Vec<OsString>,
}

/// Start of the message on standard error when the system refuses memory.
// Rust's handler of failed allocations prints this before it aborts.
const NO_MEMORY: &str = "memory allocation of ";

/// Signal to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Compute the result.
    Go,
    /// Store the progress and stop, within this time.
    Stop(Duration),
    /// End now.
    Kill,
}

impl Signal {
    /// Tells the process to stop within `grace`, unless it has another signal.
    pub fn stop(sender: &watch::Sender<Self>, grace: Duration) {
        sender.send_if_modified(|signal| {
            let goes = *signal == Self::Go;
            if goes {
                *signal = Self::Stop(grace);
            }
            goes
        });
    }
}

/// Outcome of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The result is written.
    Done,
    /// The job failed.
    Failed { kind: String, detail: String },
    /// The process ended because of a signal.
    Signalled,
    /// The process died by itself. The text is its standard error.
    Died(String),
}

/// Runs a process until it ends. Calls `on_message` for each message about progress and CPU time.
pub async fn run<F: Future<Output = ()>>(
    program: &Program,
    task: &Task,
    signal: watch::Receiver<Signal>,
    on_message: impl Fn(Message) -> F,
) -> io::Result<Ended> {
    let mut child = start(program)?;
    let mut input = child.stdin.take().ok_or_else(unpiped)?;
    let output = child.stdout.take().ok_or_else(unpiped)?;
    let errors = child.stderr.take().ok_or_else(unpiped)?;
    // Read meanwhile, because a full pipe would stop the process.
    let errors = tokio::spawn(async move {
        let mut text = Vec::new();
        let _ = errors.take(MAX_STDERR_BYTES).read_to_end(&mut text).await;
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut line = serde_json::to_vec(task)?;
    line.push(b'\n');
    // If the write fails, the process has died, and its output says why.
    let _ = input.write_all(&line).await;

    let mut lines = BufReader::new(output).lines();
    let mut last = None;
    let wanted = signal.clone();
    {
        let mut obeying = pin!(obey(&mut child, &mut input, signal));
        loop {
            tokio::select! {
                line = lines.next_line() => match line {
                    Ok(Some(line)) => match serde_json::from_str(&line) {
                        // The callback may take a while. Signals are handled meanwhile.
                        Ok(message @ (Message::Progress(..) | Message::Cpu(_))) => tokio::select! {
                            () = on_message(message) => {}
                            never = &mut obeying => match never {},
                        },
                        Ok(message) => last = Some(message),
                        // Libraries may print, too. Without a last message the process counts as
                        // dead.
                        Err(_) => {}
                    },
                    _ => break,
                },
                never = &mut obeying => match never {},
            }
        }
    }
    let status = child.wait().await?;
    Ok(match last {
        // A process may still fail after it has reported its result.
        Some(Message::Done) if status.success() => Ended::Done,
        Some(Message::Failed { kind, detail }) => Ended::Failed { kind, detail },
        Some(Message::Stopped) => Ended::Signalled,
        // A killed process says nothing, and this is no death by itself.
        _ if *wanted.borrow() != Signal::Go => Ended::Signalled,
        _ => {
            let errors = errors.await.unwrap_or_default();
            if errors.contains(NO_MEMORY) {
                // A second attempt would fail in the same way.
                let detail = "the job used far more memory than predicted";
                return Ok(Ended::Failed { kind: "Memory".into(), detail: detail.into() });
            }
            if is_out_of_time(status) {
                let detail = "the job used far more CPU time than predicted";
                return Ok(Ended::Failed { kind: "CpuSeconds".into(), detail: detail.into() });
            }
            Ended::Died(format!("{status}: {}", errors.trim()))
        }
    })
}

/// Environment variables of a job's process. The process reads files of tenants, so it has no other
/// variables: they hold database passwords, keys of stores and headers for collectors.
const KEPT_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "RAYON_NUM_THREADS",
    "RUST_BACKTRACE",
    "SUDARE_ISA",
    // Python may run the program.
    "SUDARE_PYTHON",
    "PYTHONHOME",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    // Windows starts no process without these.
    "SYSTEMROOT",
    "TEMP",
    "TMP",
];

/// Prepares the program, without the secrets of this process.
fn command(program: &Program) -> process::Command {
    let mut command = process::Command::new(&program.file);
    command.args(&program.args).env_clear().envs(
        KEPT_VARIABLES.iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value))),
    );
    // The terminal's signals are for the server, which then signals its processes.
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        command.process_group(0);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(program: &Program) -> io::Result<Child> {
    // No process of a job outlives the task that watches it.
    Command::from(command(program)).kill_on_drop(true).spawn()
}

/// Outcome of a process that prints one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The line.
    Message(String),
    /// The system refused memory.
    OutOfMemory,
    /// The process used up its CPU time.
    OutOfTime,
    /// The process died for another reason.
    Died(String),
}

/// Starts a process, sends it a line, and waits for its end.
///
/// # Errors
/// Errors of the system.
pub fn ask(program: &Program, line: &[u8]) -> io::Result<Outcome> {
    let mut child = command(program).spawn()?;
    let mut input = child.stdin.take().ok_or_else(unpiped)?;
    // If the write fails, the process has died, and its output says why.
    let _ = input.write_all(line).and_then(|()| input.write_all(b"\n"));
    drop(input);
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    Ok(match output.status {
        status if status.success() => {
            Outcome::Message(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        _ if errors.contains(NO_MEMORY) => Outcome::OutOfMemory,
        status if is_out_of_time(status) => Outcome::OutOfTime,
        status => Outcome::Died(format!("{status}: {}", errors.trim())),
    })
}

/// Returns whether the system ended a process that had used up its CPU time.
fn is_out_of_time(status: ExitStatus) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        status.signal() == Some(rustix::process::Signal::XCPU.as_raw())
    }
    #[cfg(not(unix))]
    {
        let _ = status;
        false
    }
}

fn unpiped() -> io::Error {
    io::Error::other("the process of a job has no pipes")
}

/// Waits for signals and passes them to the process.
async fn obey(
    child: &mut Child,
    input: &mut ChildStdin,
    mut signal: watch::Receiver<Signal>,
) -> Infallible {
    loop {
        let wanted = *signal.borrow_and_update();
        match wanted {
            Signal::Go => {}
            Signal::Kill => {
                let _ = child.start_kill();
            }
            Signal::Stop(patience) => {
                let _ = input.write_all(format!("{STOP}\n").as_bytes()).await;
                let killed = async {
                    if signal.wait_for(|signal| *signal == Signal::Kill).await.is_err() {
                        pending().await
                    }
                };
                tokio::select! {
                    () = sleep(patience) => {}
                    () = killed => {}
                }
                let _ = child.start_kill();
            }
        }
        // No further signal can come, and the process goes on.
        if signal.changed().await.is_err() {
            return pending().await;
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Kind;
    use std::{sync::Mutex, time::Instant};

    fn task() -> Task {
        Task {
            kind: Kind::Stats,
            keys: "keys".into(),
            tables: vec!["table".into()],
            model: None,
            iterations: None,
            history: false,
            memory: None,
            most_cpu_seconds: 1,
            states: "states".into(),
            output: "result".into(),
        }
    }

    /// A process has the variables that it needs and no others. Cargo sets some for tests.
    #[tokio::test]
    async fn processes_have_few_variables() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let script = "[ -z \"$CARGO_MANIFEST_DIR\" ] && [ -n \"$PATH\" ] && echo '\"done\"'";
        assert_eq!(run_script(script, &[]).await.0, Ended::Done);
    }

    /// Runs a shell script as a job. Sends one of `signals` with each step, and returns the outcome and the
    /// steps.
    async fn run_script(script: &str, signals: &[Signal]) -> (Ended, Vec<(u64, u64)>) {
        let args = vec!["-c".into(), format!("read task\n{script}").into()];
        let program = Program { file: "/bin/sh".into(), args };
        let (sender, receiver) = watch::channel(Signal::Go);
        let steps = Mutex::new(Vec::new());
        let on_message = |message| {
            let mut steps = steps.lock().unwrap();
            if let Message::Progress(done, total) = message {
                sender.send_replace(signals[steps.len()]);
                steps.push((done, total));
            }
            std::future::ready(())
        };
        let ended = run(&program, &task(), receiver, on_message).await.unwrap();
        drop(sender);
        (ended, steps.into_inner().unwrap())
    }

    const PROGRESS: &str = r#"echo '{"progress":[1,2]}'"#;

    #[tokio::test]
    async fn processes_end_in_every_way() {
        let (ended, steps) =
            run_script(&format!("{PROGRESS}\necho '\"done\"'"), &[Signal::Go]).await;
        assert_eq!((ended, steps), (Ended::Done, vec![(1, 2)]));
        let failed = r#"echo '{"failed":{"kind":"Memory","detail":"why"}}'; exit 2"#;
        let (ended, _) = run_script(failed, &[Signal::Go]).await;
        assert_eq!(ended, Ended::Failed { kind: "Memory".into(), detail: "why".into() });
        // A process that reports success and then fails has failed.
        for script in ["kill -9 $$", "echo '\"done\"'; exit 1", "echo nonsense; exit 0"] {
            let (ended, _) = run_script(script, &[Signal::Go]).await;
            assert!(matches!(ended, Ended::Died(_)), "{script}");
        }
        let (ended, _) = run_script("echo broken >&2; exit 1", &[Signal::Go]).await;
        assert!(matches!(&ended, Ended::Died(how) if how.contains("broken")), "{ended:?}");
        let refused = "echo 'memory allocation of 7 bytes failed' >&2; kill -ABRT $$";
        let (ended, _) = run_script(refused, &[Signal::Go]).await;
        assert!(matches!(&ended, Ended::Failed { kind, .. } if kind == "Memory"), "{ended:?}");
        let (ended, _) = run_script("ulimit -S -t 1; while :; do :; done", &[Signal::Go]).await;
        assert!(matches!(&ended, Ended::Failed { kind, .. } if kind == "CpuSeconds"), "{ended:?}");
    }

    #[tokio::test]
    async fn processes_obey() {
        let begun = Instant::now();
        let (ended, _) = run_script(&format!("{PROGRESS}\nexec sleep 60"), &[Signal::Kill]).await;
        assert_eq!(ended, Ended::Signalled);
        let stop = Signal::Stop(Duration::from_secs(60));
        let script = format!("{PROGRESS}\nread told; [ $told = stop ] && echo '\"stopped\"'");
        assert_eq!(run_script(&script, &[stop]).await.0, Ended::Signalled);
        // A process that ignores the signal has the grace period, but no longer than until a kill.
        let short = Signal::Stop(Duration::from_millis(50));
        let (ended, _) = run_script(&format!("{PROGRESS}\nexec sleep 60"), &[short]).await;
        assert_eq!(ended, Ended::Signalled);
        let script = format!("{PROGRESS}\nsleep 1\n{PROGRESS}\nexec sleep 60");
        assert_eq!(run_script(&script, &[stop, Signal::Kill]).await.0, Ended::Signalled);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
