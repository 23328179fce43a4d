//! States of a training, in a folder: the last two, each whole, so that one is there whatever
//! happens while the next is written.

use crate::{
    artefacts::{self, Content, Meta, Opened, Origin},
    commands::server::{self, Session},
    error::{Error, Result},
    files::{self, Access, NewFile},
    output::say,
};
use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};
use sudare::ckks::serial::Kind;
use sudare_apps::logreg::{TrainPlan, Training};

/// States that are kept.
const KEPT: usize = 2;

/// A state is named `iteration-` and how many are done.
const PREFIX: &str = "iteration-";
const SUFFIX: &str = ".ct";

/// The states of a training in a folder that is this process's own.
pub struct Checkpoints {
    folder: PathBuf,
    origin: Origin,
    /// Locked until the process ends, however it does.
    _lock: File,
}

impl Checkpoints {
    /// Opens a folder for a training, making it if it does not exist. One that is not to be
    /// resumed does not take the place of another unless forced.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process trains there; [`Error::Exists`]; [`Error::Io`].
    pub fn open(folder: &Path, files: &server::Files, resume: bool) -> Result<Self> {
        files::make_folder(folder)?;
        let path = folder.join("lock");
        let io = |error| Error::io("lock", &path, error);
        let lock = OpenOptions::new().create(true).append(true).open(&path).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse { folder: folder.into() }),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        let origin = Origin {
            program: env!("CARGO_PKG_VERSION").into(),
            keys: artefacts::digest(&files.evaluation_key)?,
            table: artefacts::digest(&files.input)?,
        };
        let this = Self { folder: folder.into(), origin, _lock: lock };
        if let Some((_, path)) = this.states()?.pop()
            && !resume
            && !files.force
        {
            return Err(Error::Exists { path });
        }
        Ok(this)
    }

    /// The state after the most iterations, or, if that is damaged, the one before; none if there
    /// is none at all.
    ///
    /// # Errors
    /// [`Error::Usage`] for a state of another training; that of the last state if all are damaged.
    pub fn last(&self, plan: &TrainPlan, server: &Session) -> Result<Option<Training>> {
        let mut damaged = None;
        for (_, path) in self.states()?.into_iter().rev() {
            match self.read(&path, plan, server) {
                Ok(training) => return Ok(Some(training)),
                Err(error @ Error::File { .. }) => {
                    say(format_args!("{error}: looking for the state before"));
                    damaged = damaged.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = damaged {
            return Err(error);
        }
        say(format_args!("{} has no state: training from the start", self.folder.display()));
        Ok(None)
    }

    fn read(&self, path: &Path, plan: &TrainPlan, server: &Session) -> Result<Training> {
        let file = Opened::open(path, Kind::Ciphertexts)?;
        let (_, meta) = file.meta(&[Content::Checkpoint])?;
        let differs = match &meta.origin {
            Some(origin) if origin.keys != self.origin.keys => "other evaluation keys",
            Some(origin) if origin.table != self.origin.table => "another encrypted table",
            Some(origin) if origin.program != self.origin.program => "another version of sudare",
            Some(_) if meta.job == server.meta.job => "",
            _ => "another job",
        };
        if !differs.is_empty() {
            return Err(Error::Usage(format!(
                "{} belongs to a training with {differs}: use what it began with, name another \
                 folder, or leave --resume out",
                path.display()
            )));
        }
        let state = file.ciphertexts(&server.params, 0)?.content;
        Ok(plan.resume(meta.iterations, state)?)
    }

    /// Writes a state, and then removes those that are too many.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] with what the system said, and earlier states as they were.
    pub fn write(&self, training: &Training, server: &Session) -> Result<()> {
        let name = format!("{PREFIX}{:06}{SUFFIX}", training.iteration);
        let path = self.folder.join(name);
        let meta = Meta {
            iterations: training.iteration,
            origin: Some(self.origin.clone()),
            ..Meta::of(server.meta.job)
        };
        let write = || {
            let file = NewFile::create(&path, Access::Shared, true)?;
            server.write(file, &training.state, &meta, Content::Checkpoint)
        };
        write().map_err(|source| Error::Checkpoint {
            iterations: training.iteration,
            folder: self.folder.clone(),
            source: Box::new(source),
        })?;
        self.remove_others(training.iteration)
    }

    /// Keeps this state and the one before; what another training or a run that was killed left
    /// goes.
    fn remove_others(&self, iterations: u32) -> Result<()> {
        let remove =
            |path: &Path| fs::remove_file(path).map_err(|error| Error::io("remove", path, error));
        let states = self.states()?;
        let now = states.partition_point(|(found, _)| *found <= iterations);
        let surplus = now.saturating_sub(KEPT);
        for (_, path) in states[..surplus].iter().chain(&states[now..]) {
            remove(path)?;
        }
        for path in self.paths()? {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if name.starts_with(&format!(".{PREFIX}")) && name.ends_with(".part") {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// The states by the iterations in their names, in order.
    fn states(&self) -> Result<Vec<(u32, PathBuf)>> {
        let iterations = |path: &Path| {
            let name = path.file_name()?.to_str()?;
            name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok()
        };
        let paths = self.paths()?.into_iter();
        let mut states: Vec<(u32, PathBuf)> =
            paths.filter_map(|path| Some((iterations(&path)?, path))).collect();
        states.sort_unstable();
        Ok(states)
    }

    fn paths(&self) -> Result<Vec<PathBuf>> {
        let io = |error| Error::io("read", &self.folder, error);
        let entries = fs::read_dir(&self.folder).map_err(io)?;
        entries.map(|entry| Ok(entry.map_err(io)?.path())).collect()
    }
}
