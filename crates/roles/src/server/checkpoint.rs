//! Stores the states of a training in a directory. It keeps the last two, each whole, so one is
//! intact even if a crash interrupts the next write. On request it also keeps the weights after
//! every iteration.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::{
    error::{Error, Result},
    format::{
        label::{Content, Meta, Origin},
        opened::Opened,
    },
    os::files::{self, Access, NewFile},
    server::session::Session,
};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read, Seek},
    path::{Path, PathBuf},
};
use sudare::ckks::{Ciphertext, serial::Kind};
use sudare_apps::logreg::{TrainPlan, Training};

/// Number of states to keep.
// If the last state is damaged, the training resumes from the one before.
const KEPT: usize = 2;

/// Prefix of a state's file name, before the number of iterations done.
const PREFIX: &str = "iteration-";
const SUFFIX: &str = ".ct";

/// Prefix of the file name of the weights, before the number of iterations done.
const WEIGHTS_PREFIX: &str = "weights-";

/// The name of a file in a directory of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateFile {
    /// The weights after this number of iterations.
    Weights(u32),
    /// The state after this number of iterations.
    State(u32),
}

impl StateFile {
    /// Returns the name of the file in its directory.
    #[must_use]
    pub fn name(self) -> String {
        let (prefix, iterations) = match self {
            Self::Weights(iterations) => (WEIGHTS_PREFIX, iterations),
            Self::State(iterations) => (PREFIX, iterations),
        };
        // Six digits keep names of one length, so that directory listings show states in order.
        format!("{prefix}{iterations:06}{SUFFIX}")
    }

    /// Returns the file with this name, if the name is valid.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let iterations = |prefix| name.strip_prefix(prefix)?.strip_suffix(SUFFIX)?.parse().ok();
        let weights = iterations(WEIGHTS_PREFIX).map(Self::Weights);
        let found = weights.or_else(|| iterations(PREFIX).map(Self::State));
        // One spelling for each state: a server takes these names from workers.
        found.filter(|file| file.name() == name)
    }

    /// Lists the state files in a directory: the weights and then the states, each in order. The
    /// list is empty if the directory does not exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn all_in(folder: &Path) -> Result<Vec<Self>> {
        let mut files: Vec<_> = paths(folder)?.iter().filter_map(|path| Self::of(path)).collect();
        files.sort_unstable();
        Ok(files)
    }

    fn of(path: &Path) -> Option<Self> {
        Self::of_name(path.file_name()?.to_str()?)
    }
}

/// Lists the entries of a directory. The list is empty if the directory does not exist.
fn paths(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = |error| Error::io("read", folder, error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io)?,
    };
    entries.map(|entry| Ok(entry.map_err(io)?.path())).collect()
}

/// Keeps the state after `iterations` iterations and the one before it. Removes all other states,
/// such as leftovers of another training or of a killed run. Weights stay.
///
/// # Errors
/// [`Error::Io`].
pub fn remove_other_states(folder: &Path, iterations: u32) -> Result<()> {
    let all = StateFile::all_in(folder)?;
    let states: Vec<_> =
        all.into_iter().filter(|file| matches!(file, StateFile::State(_))).collect();
    let now = states.partition_point(|file| *file <= StateFile::State(iterations));
    let surplus = now.saturating_sub(KEPT);
    for (at, file) in states.iter().enumerate() {
        // Later states are leftovers of another run. The next resumption would take them for the
        // last state.
        if at < surplus || at >= now {
            files::remove(&folder.join(file.name()))?;
        }
    }
    for path in paths(folder)? {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let begun = [PREFIX, WEIGHTS_PREFIX].map(|prefix| format!(".{prefix}"));
        if begun.iter().any(|begun| name.starts_with(begun)) && name.ends_with(".part") {
            files::remove(&path)?;
        }
    }
    Ok(())
}

/// The states of a training, in a directory that this process has locked.
pub struct Checkpoints {
    folder: PathBuf,
    origin: Origin,
    /// Holds the lock until the process ends, even if it is killed.
    _lock: File,
}

impl Checkpoints {
    /// Opens a directory for the states of a training, and creates it if it does not exist. With
    /// `replace` the directory may already hold states, for a training that resumes or overwrites
    /// them.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process trains there; [`Error::Exists`]; [`Error::Io`].
    pub fn open(folder: &Path, origin: Origin, replace: bool) -> Result<Self> {
        files::make_folder(folder)?;
        // Before states are listed, because another process may be writing them.
        let lock = files::lock_folder(folder)?;
        let this = Self { folder: folder.into(), origin, _lock: lock };
        if let Some((_, path)) = this.states()?.pop()
            && !replace
        {
            return Err(Error::Exists { path });
        }
        Ok(this)
    }

    /// Returns the latest state, or the one before it if the latest is damaged. Returns `None` if
    /// there is no state. Reports damaged states to `notice` and keeps them. If no state is
    /// damaged, also removes the leftovers of a killed run: nothing may be written after the last
    /// state.
    ///
    /// # Errors
    /// [`Error::Usage`] for a state of another training; the error of the last state if all are
    /// damaged;
    /// [`Error::Io`].
    pub fn last<R: Read + Seek>(
        &self,
        plan: &TrainPlan,
        server: &Session<R>,
        mut notice: impl FnMut(&str),
    ) -> Result<Option<Training>> {
        let mut damaged = None;
        for (_, path) in self.states()?.into_iter().rev() {
            match self.read(&path, plan, server) {
                Ok(training) => {
                    // A damaged state stays on disk for its owner, so nothing is removed on the way
                    // past it.
                    if damaged.is_none() {
                        remove_other_states(&self.folder, training.iteration)?;
                    }
                    return Ok(Some(training));
                }
                // Only damage leads to the state before. Another origin or a failed disk is an
                // error.
                Err(error @ Error::File { .. }) => {
                    notice(&format!("{error}; trying the state before it"));
                    damaged = damaged.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        damaged.map_or(Ok(None), Err)
    }

    fn read<R: Read + Seek>(
        &self,
        path: &Path,
        plan: &TrainPlan,
        server: &Session<R>,
    ) -> Result<Training> {
        let (iterations, state) = self.items(path, Content::Checkpoint, server)?;
        Ok(plan.resume(iterations, state)?)
    }

    /// Returns the iterations and the ciphertexts of a file of this training.
    fn items<R: Read + Seek>(
        &self,
        path: &Path,
        content: Content,
        server: &Session<R>,
    ) -> Result<(u32, Vec<Ciphertext>)> {
        let file = Opened::open(path, Kind::Ciphertexts)?;
        let (_, meta) = file.meta(&[content])?;
        let differs = match &meta.origin {
            // Ciphertexts under other keys or of another table look like valid states.
            Some(origin) if origin.keys != self.origin.keys => "other evaluation keys",
            Some(origin) if origin.table != self.origin.table => "another encrypted table",
            // Versions may compute other bits, and a resumed training promises identical results.
            Some(origin) if origin.program != self.origin.program => "another version of sudare",
            Some(_) if meta.job == server.meta.job => "",
            _ => "another job",
        };
        if !differs.is_empty() {
            return Err(Error::Usage(format!(
                "{} belongs to a training with {differs}: use the original files, choose another \
                 directory, or start over without --resume (Python: without resume=True)",
                path.display()
            )));
        }
        Ok((meta.iterations, file.ciphertexts(&server.params, 0)?.content))
    }

    /// Returns the weights after each iteration up to the current one, as
    /// [`Checkpoints::write_weights`] stored them.
    ///
    /// # Errors
    /// [`Error::Usage`] if some are missing, damaged or of another training.
    pub fn weights<R: Read + Seek>(
        &self,
        plan: &TrainPlan,
        training: &Training,
        server: &Session<R>,
    ) -> Result<Vec<Ciphertext>> {
        let first = plan.job().spec.label_iterations();
        let models = plan.job().spec.models();
        let read = |iterations| {
            let path = self.path(StateFile::Weights(iterations));
            let refuse = |problem: String| {
                Error::Usage(format!(
                    "cannot read the weights after iteration {iterations}: {problem}; leave out \
                     --history, or train from the start without --resume"
                ))
            };
            let items = self.items(&path, Content::Weights, server);
            match items.map_err(|error| refuse(error.to_string()))? {
                // The name alone proves nothing: another run may have left a file under it.
                (found, items) if found == iterations && items.len() == models => Ok(items),
                _ => Err(refuse(format!("{} holds other weights", path.display()))),
            }
        };
        let all: Vec<_> = (first..=training.iteration).map(read).collect::<Result<_>>()?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Writes a state, then removes the oldest surplus states.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] with the system's message. Earlier states are unchanged.
    pub fn write<R: Read + Seek>(&self, training: &Training, server: &Session<R>) -> Result<()> {
        self.store(&training.state, Content::Checkpoint, training.iteration, server)?;
        // Only now: until the new state is durable, the earlier ones are the only copies.
        remove_other_states(&self.folder, training.iteration)
    }

    /// Writes the weights after an iteration, before the state that it leads to.
    ///
    /// # Errors
    /// The errors of [`Checkpoints::write`].
    pub fn write_weights<R: Read + Seek>(
        &self,
        weights: &[Ciphertext],
        iterations: u32,
        server: &Session<R>,
    ) -> Result<()> {
        self.store(weights, Content::Weights, iterations, server)
    }

    fn store<R: Read + Seek>(
        &self,
        items: &[Ciphertext],
        content: Content,
        iterations: u32,
        server: &Session<R>,
    ) -> Result<()> {
        let path = self.path(match content {
            Content::Weights => StateFile::Weights(iterations),
            _ => StateFile::State(iterations),
        });
        let origin = Some(self.origin.clone());
        let meta = Meta { iterations, origin, ..Meta::of(server.meta.job) };
        let write = || {
            // A training that resumes may write a state again, with the same bits.
            let file = NewFile::create(&path, Access::Shared, true)?;
            server.write(file, items, &meta, content)
        };
        write().map(|_| ()).map_err(|source| Error::Checkpoint {
            iterations,
            folder: self.folder.clone(),
            source: Box::new(source),
        })
    }

    fn path(&self, file: StateFile) -> PathBuf {
        self.folder.join(file.name())
    }

    /// Returns the states and the iterations in their names, in order.
    fn states(&self) -> Result<Vec<(u32, PathBuf)>> {
        let state = |file| match file {
            StateFile::State(iterations) => Some((iterations, self.path(file))),
            StateFile::Weights(_) => None,
        };
        Ok(StateFile::all_in(&self.folder)?.into_iter().filter_map(state).collect())
    }
}
