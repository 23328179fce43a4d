//! Planning: a process that builds parameters and plans jobs for the server.
//!
//! Files of strangers determine how large parameters and plans are. In a process of its own, planning costs
//! no more than the system permits. The server survives it, and all memory is free at its end.

use crate::{
    jobs::child::{self, Outcome, Program},
    problem::{Answer, Problem, internal},
    storage::{inspect, records::Collection},
};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};
use sudare::ckks::serial::Kind;
use sudare_arith::par;
use sudare_roles::{
    error::{Error, Result as RolesResult},
    format::opened::Opened,
    job::Plan,
    server::{session::Matched, training::iterations_of},
};

/// Memory besides tables, in bytes: for the program, and for the steps of a plan.
const BASE_MEMORY: u64 = 512 << 20;
/// Maximum CPU time, in seconds.
// A plan takes a few seconds. This stops headers that are made to take longer.
const MAX_CPU_SECONDS: u64 = 60;

/// A question about files of a tenant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Question {
    /// Asks whether a file fits its parameters and has a plan. At least its header must be here.
    Header { path: PathBuf, bytes: u64, collection: Collection },
    /// Asks for the resources that a job needs.
    Price {
        keys: PathBuf,
        tables: Vec<PathBuf>,
        iterations: Option<u32>,
        history: bool,
        threads: usize,
    },
}

/// A question for a process, with the limits of the process. It is one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlanTask {
    pub question: Question,
    /// Memory, in bytes.
    pub memory: u64,
    /// CPU time, in seconds.
    pub cpu_seconds: u64,
}

/// Predicted resources of a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Priced {
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub memory_bytes: u64,
    pub result_bytes: u64,
}

/// An answer. It is one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Found {
    Good,
    Priced(Priced),
    Refused { status: u16, kind: String, detail: String },
}

/// Asks a process, which may use the memory of the tables and of the program.
fn ask(program: &Program, question: Question, table_bytes: u64) -> Answer<Found> {
    let memory = table_bytes.saturating_add(BASE_MEMORY);
    let task = PlanTask { question, memory, cpu_seconds: MAX_CPU_SECONDS };
    let line = serde_json::to_vec(&task).map_err(internal)?;
    let too_much = |what: &str| {
        let detail = format!("planning this needs {what} than the server allows");
        Problem::unusable("Memory", detail)
    };
    let answered = child::ask(program, &line);
    let text = match answered.map_err(|error| Error::io("start", &program.file, error))? {
        Outcome::Message(text) => text,
        // 422: the file is at fault, and another attempt would end in the same way.
        Outcome::OutOfMemory => return Err(too_much("more memory")),
        Outcome::OutOfTime => return Err(too_much("longer")),
        // 500, so that the upload is kept: a death says nothing about the file.
        Outcome::Died(how) => return Err(internal(format!("planning ended: {how}")).into()),
    };
    match serde_json::from_str(&text).map_err(internal)? {
        Found::Refused { status, kind, detail } => {
            let status = StatusCode::from_u16(status).map_err(internal)?;
            Err(Problem::new(status, &kind, detail))
        }
        found => Ok(found),
    }
}

/// Checks that a file fits its parameters and has a plan.
///
/// # Errors
/// A [`Problem`].
pub fn plan(
    program: &Program,
    path: &Path,
    bytes: u64,
    collection: Collection,
    table_bytes: u64,
) -> Answer<()> {
    let question = Question::Header { path: path.into(), bytes, collection };
    ask(program, question, table_bytes).map(|_| ())
}

/// Checks that the files of a job belong together, and predicts its resources.
///
/// # Errors
/// A [`Problem`].
pub fn price(program: &Program, question: Question, table_bytes: u64) -> Answer<Priced> {
    match ask(program, question, table_bytes)? {
        Found::Priced(priced) => Ok(priced),
        found => Err(internal(format!("the answer to a price is {found:?}")).into()),
    }
}

/// Answers a question in this process. Returns the line to print.
pub fn answer(task: &PlanTask) -> String {
    // One thread, so that planning leaves the processors to others.
    let found = par::with_threads(1, || find(&task.question));
    let found = found.unwrap_or_else(|error| Err(internal(error).into()));
    let found = found.unwrap_or_else(|Problem { status, kind, detail, .. }| Found::Refused {
        status: status.as_u16(),
        kind,
        detail,
    });
    serde_json::to_string(&found).unwrap_or_default()
}

fn find(question: &Question) -> Answer<Found> {
    match question {
        Question::Header { path, bytes, collection } => {
            let file = File::open(path).map_err(|error| Error::io("read", path, error))?;
            inspect::plan(&file, *bytes, *collection)?;
            Ok(Found::Good)
        }
        Question::Price { keys, tables, iterations, history, threads } => {
            Ok(Found::Priced(priced(keys, tables, *iterations, *history, *threads)?))
        }
    }
}

fn priced(
    keys: &Path,
    tables: &[PathBuf],
    iterations: Option<u32>,
    history: bool,
    threads: usize,
) -> RolesResult<Priced> {
    let keys = Opened::open(keys, Kind::EvaluationKeys)?;
    let params = keys.params()?;
    let tables = tables.iter().map(|path| Opened::open(path, Kind::Ciphertexts));
    let info = keys.info();
    let tables = tables.collect::<RolesResult<_>>()?;
    let matched = Matched::new(tables, &params, &info.label, info.key_id)?;
    // Prices are for all iterations of the keys. The request may ask for fewer.
    let (iterations, share) = match &matched.plan {
        Plan::Train(plan) => {
            let iterations = iterations_of(plan, iterations)?;
            (iterations, f64::from(iterations) / f64::from(plan.job().spec.iterations))
        }
        _ => (0, 1.0),
    };
    let price = matched.plan.price(threads)?;
    let result_bytes = matched.plan.result_bytes(&params, (iterations, history), matched.meta.note);
    Ok(Priced {
        seconds: share * price.seconds(threads),
        // One thread waits for no other, so its time is CPU time.
        cpu_seconds: share * price.seconds(1),
        memory_bytes: price.memory_bytes,
        result_bytes,
    })
}

/// A cache of the newest answers, by digests of the questions.
pub struct Known<T> {
    most: usize,
    state: Mutex<Newest<T>>,
}

/// Answers, and the order in which they came.
struct Newest<T> {
    all: HashMap<[u8; 32], T>,
    order: VecDeque<[u8; 32]>,
}

impl<T: Copy> Known<T> {
    /// Makes a cache of at most `most` answers.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let newest = Newest { all: HashMap::new(), order: VecDeque::new() };
        Self { most, state: Mutex::new(newest) }
    }

    /// Returns the cached answer.
    #[must_use]
    pub fn get(&self, of: &[u8; 32]) -> Option<T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).all.get(of).copied()
    }

    /// Stores an answer.
    pub fn insert(&self, of: [u8; 32], found: T) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Newest { all, order } = &mut *state;
        // A repeated answer keeps its place, so that each digest is in the order once.
        if all.insert(of, found).is_none() {
            order.push_back(of);
        }
        while order.len() > self.most
            && let Some(oldest) = order.pop_front()
        {
            all.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_known() {
        let known = Known::new(2);
        for number in [1_u8, 2, 1, 3] {
            known.insert([number; 32], number);
        }
        assert_eq!([1, 2, 3].map(|number| known.get(&[number; 32])), [None, Some(2), Some(3)]);
    }

    /// The server has an answer for anything that the process says or does.
    #[cfg(unix)]
    #[test]
    fn processes_that_fail_are_answers() {
        let asked = |script: &str| {
            let args = vec!["-c".into(), format!("read task\n{script}").into()];
            let program = Program { file: "/bin/sh".into(), args };
            plan(&program, Path::new("file"), 7, Collection::Keys, 1)
                .map_err(|problem| (problem.status.as_u16(), problem.kind))
        };
        assert_eq!(asked("echo '\"Good\"'"), Ok(()));
        let refused = r#"echo '{"Refused":{"status":422,"kind":"Usage","detail":"x"}}'"#;
        assert_eq!(asked(refused), Err((422, "Usage".into())));
        let aborted = "echo 'memory allocation of 5 bytes failed' >&2; kill -ABRT $$";
        assert_eq!(asked(aborted), Err((422, "Memory".into())));
        assert_eq!(asked("kill -XCPU $$"), Err((422, "Memory".into())));
        for strange in ["exit 0", "echo x", "kill -KILL $$", "exit 3"] {
            assert_eq!(asked(strange), Err((500, "Bug".into())), "{strange}");
        }
    }
}
