//! Backups of a server's directory: a consistent copy, also while the server runs, and its restoration.
//!
//! A backup is a directory with the records, the files of the objects in them, the states of trainings that
//! have not ended, and the audit log up to the last line in the records. Unfinished uploads are left out,
//! because clients repeat them.

use super::{
    audit::Log,
    records::{copy_records, read_copy},
    store::{self, JOBS, OBJECTS, RECORDS, Store},
};
use crate::{
    clock::{Seconds, now},
    private::make_private,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};
use sudare_roles::{
    error::{Error, Result},
    os::files::{self, Access, NewFile},
    server::checkpoint::StateFile,
};

/// File of a [`Backup`], written last: a directory without it is no complete backup.
const CONTENTS: &str = "backup.json";
/// Maximum size of that file.
const MAX_CONTENTS_BYTES: u64 = 4096;
/// Maximum copies of the records. A running server may delete objects before they are copied, and a later
/// copy of the records does not have them.
const ATTEMPTS: usize = 5;
/// Bytes that are copied at a time.
const COPIED_AT_ONCE: usize = 1 << 20;

/// Contents of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Version of the program that made the backup.
    pub program: String,
    /// Time of the backup.
    pub created: Seconds,
    /// Number of objects.
    pub objects: u64,
    /// Size of the objects, in bytes.
    pub bytes: u64,
    /// Number of trainings that go on from a state in the backup. Earlier versions copied none.
    #[serde(default)]
    pub trainings: u64,
    /// Number of the last line of the audit log.
    pub audit_line: u64,
    /// The backup has the key that signs receipts.
    pub has_key: bool,
    /// A store of objects, which is not part of the backup, has the objects.
    pub is_without_objects: bool,
}

/// Copies the records, objects, states of trainings, audit log, name and key of the server in `root` to a new directory. The
/// server may run. `without_objects` leaves out objects that are in a store.
///
/// # Errors
/// [`Error::Usage`] for a directory without records, a target that is not empty, and objects without
/// files; [`Error::Io`]; [`Error::Parse`] for a broken audit log.
pub fn back_up(root: &Path, target: &Path, without_objects: bool) -> Result<Backup> {
    let records = root.join(RECORDS);
    if !records.is_file() {
        return Err(Error::Usage(format!(
            "{} has no records of a server: pass the directory of `sudare serve` with --folder",
            root.display()
        )));
    }
    let target = Target::new(target)?;
    let snapshot = target.folder.join(RECORDS);
    let mut copied = HashSet::new();
    let mut bytes = 0_u64;
    let mut attempt = 0;
    let known = loop {
        attempt += 1;
        copy_records(&records, &snapshot)?;
        let known = read_copy(&snapshot)?;
        let objects = if without_objects { &[] } else { &known.objects[..] };
        let mut missing = None;
        for named in objects {
            if copied.contains(named) {
                continue;
            }
            match copy_object(root, &target.folder, named)? {
                Some(size) => {
                    copied.insert(named.clone());
                    bytes = bytes.saturating_add(size);
                }
                None => missing = Some(object(root, named)),
            }
        }
        match missing {
            None => break known,
            Some(path) if attempt == ATTEMPTS => {
                return Err(Error::Usage(format!(
                    "{} is missing, but is in the records: if the server has a store of objects (--objects), \
                     pass --without-objects, and back up the store by its own means",
                    path.display()
                )));
            }
            Some(_) => {}
        }
    };
    // Deleted since they were copied.
    let kept: HashSet<_> = known.objects.into_iter().collect();
    for named in copied.difference(&kept) {
        let path = object(&target.folder, named);
        bytes = bytes.saturating_sub(path.metadata().map_or(0, |found| found.len()));
        files::remove(&path)?;
    }
    // After the records, so that no state is earlier than the progress of its job. States of servers that
    // share a store of objects are there, too.
    let unfinished = if without_objects { &[] } else { &known.unfinished[..] };
    let trainings = copy_states(root, &target.folder, unfinished)?;
    // After the records, whose last line is the last one here.
    Log::of(root).copy(&Log::of(&target.folder), known.audit_line)?;
    let has_key = copy_small(root, &target.folder)?;
    let backup = Backup {
        program: env!("CARGO_PKG_VERSION").into(),
        created: now(),
        objects: copied.intersection(&kept).count() as u64,
        bytes,
        trainings,
        audit_line: known.audit_line,
        has_key,
        is_without_objects: without_objects,
    };
    let text = serde_json::to_vec(&backup).map_err(|error| Error::Bug(error.to_string()))?;
    copy(&mut &text[..], &target.folder.join(CONTENTS))?;
    target.finish();
    Ok(backup)
}

/// Makes the directory of a server from a backup. Compares every object with its digest.
///
/// # Errors
/// [`Error::Usage`] for a directory that is not empty, and for an incomplete backup; [`Error::OtherFile`]
/// for an altered object; [`Error::Io`].
pub fn restore(backup: &Path, root: &Path) -> Result<Backup> {
    let file = backup.join(CONTENTS);
    let text = fs::metadata(&file).map(|_| files::read_text(&file, MAX_CONTENTS_BYTES));
    let contents =
        text.ok().transpose()?.and_then(|text| serde_json::from_str::<Backup>(&text).ok());
    let contents = contents.ok_or_else(|| {
        Error::Usage(format!(
            "{} is no complete backup: pass a directory that `sudare serve backup` made",
            backup.display()
        ))
    })?;
    let target = Target::new(root)?;
    // No server can start here before all is in place.
    let _lock = files::lock_folder(&target.folder)?;
    let known = read_copy(&backup.join(RECORDS))?;
    let objects = if contents.is_without_objects { &[] } else { &known.objects[..] };
    for named in objects {
        if copy_object(backup, &target.folder, named)?.is_none() {
            return Err(Error::Usage(format!(
                "{} is missing: the backup is damaged, so restore an earlier one",
                object(backup, named).display()
            )));
        }
    }
    copy_states(backup, &target.folder, &known.unfinished)?;
    Log::of(backup).copy(&Log::of(&target.folder), known.audit_line)?;
    copy_small(backup, &target.folder)?;
    let records = backup.join(RECORDS);
    let mut file = File::open(&records).map_err(|error| Error::io("read", &records, error))?;
    copy(&mut file, &target.folder.join(RECORDS))?;
    target.finish();
    Ok(contents)
}

/// A new directory, whose contents are removed unless they are complete.
struct Target {
    folder: PathBuf,
    is_complete: bool,
}

impl Target {
    /// Creates a directory. Accepts an existing one only if it is empty, as a mount may be.
    fn new(folder: &Path) -> Result<Self> {
        if folder.exists() && !store::entries(folder)?.is_empty() {
            return Err(Error::Usage(format!(
                "{} is not empty: pass a new directory, so that nothing is replaced",
                folder.display()
            )));
        }
        make_private(folder)?;
        Ok(Self { folder: folder.into(), is_complete: false })
    }

    fn finish(mut self) {
        self.is_complete = true;
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_complete {
            for (_, path) in store::entries(&self.folder).unwrap_or_default() {
                // What cannot be removed makes the directory unfit for another attempt, which says so.
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
        }
    }
}

fn object(root: &Path, (tenant, digest): &(String, String)) -> PathBuf {
    root.join(OBJECTS).join(tenant).join(digest)
}

/// Copies an object, and returns its size; `None` if it has no file.
fn copy_object(from: &Path, to: &Path, named: &(String, String)) -> Result<Option<u64>> {
    let path = object(from, named);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", &path, error)),
    };
    let target = object(to, named);
    // Each by itself: only the last directory of a path is made private.
    make_private(&to.join(OBJECTS))?;
    make_private(target.parent().unwrap_or(to))?;
    let (bytes, found) = copy(&mut file, &target)?;
    if found != named.1 {
        files::remove(&target)?;
        return Err(Error::OtherFile { path, found, expected: named.1.clone() });
    }
    Ok(Some(bytes))
}

/// Copies the states of trainings, and returns the number of trainings that have one.
fn copy_states(from: &Path, to: &Path, jobs: &[String]) -> Result<u64> {
    let mut trainings = 0_u64;
    for id in jobs {
        let states = Store::states_in(&from.join(JOBS).join(id));
        let target = Store::states_in(&to.join(JOBS).join(id));
        let mut has_state = false;
        // A training that runs replaces its states. The list may be old by the time of the copy.
        for _ in 0..ATTEMPTS {
            let found = StateFile::all_in(&states)?;
            let is_state = |file: &StateFile| matches!(file, StateFile::State(_));
            for file in found.iter().copied().filter(is_state) {
                has_state |= copy_state(&states, &target, file)?;
            }
            if has_state || !found.iter().any(is_state) {
                break;
            }
        }
        if !has_state {
            continue;
        }
        // Weights are kept, and written before the state that they lead to, so now they are all here.
        for file in StateFile::all_in(&states)? {
            if matches!(file, StateFile::Weights(_)) {
                copy_state(&states, &target, file)?;
            }
        }
        trainings = trainings.saturating_add(1);
    }
    Ok(trainings)
}

/// Copies a state of a training. Returns false if it has been replaced.
fn copy_state(from: &Path, to: &Path, state: StateFile) -> Result<bool> {
    let path = from.join(state.name());
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io("read", &path, error)),
    };
    // The directories of the jobs, of the job and of its states, each by itself.
    let folders: Vec<&Path> = to.ancestors().take(3).collect();
    for folder in folders.into_iter().rev() {
        make_private(folder)?;
    }
    let target = to.join(state.name());
    if !target.exists() {
        copy(&mut file, &target)?;
    }
    Ok(true)
}

/// Copies the name of a server and its key. Returns true if it has the key in its directory.
fn copy_small(from: &Path, to: &Path) -> Result<bool> {
    let mut has_key = false;
    for name in [store::NAME, store::KEY] {
        let path = from.join(name);
        match File::open(&path) {
            Ok(mut file) => {
                copy(&mut file, &to.join(name))?;
                has_key |= name == store::KEY;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("read", &path, error)),
        }
    }
    Ok(has_key)
}

/// Writes a new file for its owner alone, durably. Returns its size and digest.
fn copy(from: &mut impl Read, to: &Path) -> Result<(u64, String)> {
    let io = |error| Error::io("write", to, error);
    let mut file = NewFile::create(to, Access::Owner, false)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; COPIED_AT_ONCE];
    let mut bytes = 0_u64;
    loop {
        let count = from.read(&mut buffer).map_err(io)?;
        let part = buffer.get(..count).unwrap_or_default();
        if part.is_empty() {
            break;
        }
        hasher.update(part);
        file.write_all(part).map_err(io)?;
        bytes = bytes.saturating_add(count as u64);
    }
    file.finish()?;
    Ok((bytes, hasher.finalize().to_string()))
}
