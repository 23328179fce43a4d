//! The audit log: security events as lines of JSON, chained by digests.
//!
//! Each line ends with the BLAKE3 digest of everything before it in the line, and contains the digest of
//! the previous line. So you cannot alter, omit or insert a line without altering all later ones. Lines are
//! numbered, and a file is named by the number of its first line.
//!
//! A line is made in the transaction of its event ([`Records`](crate::storage::records::Records)), and
//! appended to the files right after. If a killed process left part of a line, the rest is cut off and
//! written again.

use crate::{accounts::token::Owner, clock::Seconds, private::make_private, storage::store::sync};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};
use sudare_roles::{
    error::{Error, Result},
    os::files::{Access, NewFile},
};

/// Maximum size of a file, after which a new one starts.
// Operators archive and check whole files.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Maximum size of a line. A job names 64 tables at most.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// The digest before the first line.
const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Prefix and suffix of file names, around the number of the first line.
const NAME: (&str, &str) = ("audit-", ".jsonl");

/// An event of the audit log. Digests name the objects.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event<'a> {
    /// The server started.
    ServerStarted { program: &'a str, server_key: &'a str },
    /// A token was made.
    TokenAdded {
        #[serde(flatten)]
        owner: &'a Owner,
        token: &'a str,
        expires: Option<Seconds>,
    },
    /// A token was revoked.
    TokenRevoked {
        #[serde(flatten)]
        owner: &'a Owner,
        token: &'a str,
    },
    /// Requests without a valid token were rejected.
    AuthenticationRefused { times: u64 },
    /// A secret key was sent and rejected.
    SecretKeyRefused { tenant: &'a str },
    /// An upload is complete.
    UploadCompleted { tenant: &'a str, collection: &'a str, object: &'a str, bytes: u64 },
    /// Keys, a table, a model or a result was removed.
    ObjectDeleted { tenant: &'a str, collection: &'a str, object: &'a str },
    /// A job was submitted.
    JobSubmitted {
        tenant: &'a str,
        job: &'a str,
        kind: &'a str,
        keys: &'a str,
        tables: &'a [String],
        model: Option<&'a str>,
    },
    /// A process started on a job, of a worker if one has claimed it.
    JobStarted {
        tenant: &'a str,
        job: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        worker: Option<&'a str>,
    },
    /// A worker did not renew its lease, and the job waits for others.
    LeaseExpired { tenant: &'a str, job: &'a str, worker: &'a str },
    /// A job is done, failed or was cancelled.
    JobEnded {
        tenant: &'a str,
        job: &'a str,
        state: &'a str,
        result: Option<&'a str>,
        problem: Option<&'a str>,
    },
    /// A result was downloaded.
    ResultFetched { tenant: &'a str, result: &'a str, times: u64 },
}

/// A line, with its number.
pub type Line = (u64, String);

/// The members that all lines have.
#[derive(Serialize)]
struct Written<'a> {
    number: u64,
    time: Seconds,
    previous: &'a str,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

/// The members that are read from a line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Link {
    number: u64,
    previous: String,
    digest: String,
}

/// The text before and after the digest in a line.
const DIGEST: (&str, &str) = (",\"digest\":\"", "\"}");

/// Makes the line that follows `last`, or the first line.
///
/// # Errors
/// [`Error::Bug`] for a broken `last`.
pub fn next_line(last: Option<&str>, time: Seconds, event: &Event<'_>) -> Result<Line> {
    let last = last.map(link).transpose().map_err(|problem| {
        Error::Bug(format!("the last line of the audit log in the records is invalid: {problem}"))
    })?;
    let number = last.as_ref().map_or(1, |last| last.number.saturating_add(1));
    let previous = last.as_ref().map_or(NONE, |last| &last.digest);
    let line = serde_json::to_string(&Written { number, time, previous, event });
    let mut line = line.map_err(|error| Error::Bug(error.to_string()))?;
    // Drops the closing brace. So the digest is the last member, and covers all before it.
    line.pop();
    let digest = blake3::hash(line.as_bytes());
    Ok((number, format!("{line}{}{digest}{}", DIGEST.0, DIGEST.1)))
}

/// Verifies the digest of a line, and returns its number and digests.
fn link(line: &str) -> core::result::Result<Link, String> {
    let content = line.strip_suffix(DIGEST.1);
    let parts = content.and_then(|content| content.rsplit_once(DIGEST.0));
    let (content, digest) = parts.ok_or("it does not end with a digest")?;
    if blake3::hash(content.as_bytes()).to_hex().as_str() != digest {
        return Err("its digest does not match its content".into());
    }
    serde_json::from_str(line).map_err(|error| format!("it is not valid JSON of a log: {error}"))
}

/// The files of a log.
pub struct Log {
    folder: PathBuf,
    max_file_bytes: u64,
}

/// Result of checking an intact log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Number of files.
    pub files: usize,
    /// Number of the first line. Earlier lines may be elsewhere.
    pub first: u64,
    /// Number of the last line, or 0 for an empty log.
    pub last: u64,
    /// Number and digest of the last line, to note elsewhere.
    pub head: String,
    /// Lines that only the records have. The server appends them when it starts.
    pub pending: u64,
}

impl Log {
    /// Returns the log of the server in a directory.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self::at(root.join("audit"))
    }

    /// Returns the log with its files in `folder`.
    #[must_use]
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, max_file_bytes: MAX_FILE_BYTES }
    }

    fn io(&self, action: &'static str) -> impl Fn(io::Error) -> Error {
        let folder = self.folder.clone();
        move |error| Error::io(action, &folder, error)
    }

    fn file(&self, first: u64) -> PathBuf {
        self.folder.join(format!("{}{first:016}{}", NAME.0, NAME.1))
    }

    /// Lists the numbers of the first lines of all files, in order.
    fn files(&self) -> Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(self.io("read"))?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let name = entry.map_err(self.io("read"))?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(NAME.0));
            let digits = digits.and_then(|rest| rest.strip_suffix(NAME.1));
            files.extend(digits.and_then(|digits| digits.parse::<u64>().ok()));
        }
        files.sort_unstable();
        Ok(files)
    }

    /// Waits for the lock to append, which other processes use too.
    fn lock(&self) -> Result<File> {
        let path = self.folder.join("lock");
        // Commands such as `sudare serve token` add lines while the server runs.
        let lock = OpenOptions::new().create(true).append(true).open(path);
        let lock = lock.map_err(self.io("lock"))?;
        lock.lock().map_err(self.io("lock"))?;
        Ok(lock)
    }

    /// Opens a file to append to, and returns its size.
    fn open(&self, first: u64) -> Result<(File, u64)> {
        let file = OpenOptions::new().create(true).append(true).open(self.file(first));
        let file = file.map_err(self.io("append to"))?;
        let bytes = file.metadata().map_err(self.io("append to"))?.len();
        // The name of a new file must be durable before its lines count.
        if bytes == 0 {
            sync(&self.folder).map_err(self.io("append to"))?;
        }
        Ok((file, bytes))
    }

    /// Appends the lines that the files lack, syncs them to the disk, and returns the number of the last
    /// line. Calls `lines` with the number to start from, while no other process appends.
    ///
    /// # Errors
    /// [`Error::Parse`] if the lines do not follow the end of the files; [`Error::Io`]; errors of `lines`.
    pub fn append(&self, lines: impl FnOnce(u64) -> Result<Vec<Line>>) -> Result<u64> {
        make_private(&self.folder)?;
        let _lock = self.lock()?;
        let file = self.files()?.last().copied();
        let ends = file.map(|file| self.repair(file)).transpose()?;
        let (lines, begins, last) = match (file, ends) {
            (Some(file), Some((last, line))) => {
                let lines = lines(last)?;
                // `lines` repeat the last line of the file, so that the two can be compared.
                self.expect_to_follow(file, last, line.as_deref(), &lines)?;
                (lines, file, last)
            }
            _ => {
                let lines = lines(0)?;
                let first = lines.first().map_or(1, |(first, _)| *first);
                (lines, first, first.saturating_sub(1))
            }
        };
        let Some((newest, _)) = lines.last() else { return Ok(last) };
        let (mut file, mut bytes) = self.open(begins)?;
        for (number, line) in lines.iter().filter(|(number, _)| *number > last) {
            // The full file is durable first: no later file may have lines that an earlier one
            // lost.
            if bytes >= self.max_file_bytes {
                file.sync_data().map_err(self.io("append to"))?;
                (file, bytes) = self.open(*number)?;
            }
            let line = format!("{line}\n");
            file.write_all(line.as_bytes()).map_err(self.io("append to"))?;
            bytes = bytes.saturating_add(line.len() as u64);
        }
        file.sync_data().map_err(self.io("append to"))?;
        Ok(*newest)
    }

    /// Cuts off the incomplete line at the end of a file. Returns the number and the text of the last line,
    /// or the number before the first line of an empty file.
    fn repair(&self, first: u64) -> Result<(u64, Option<String>)> {
        let path = self.file(first);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let mut file = file.map_err(self.io("append to"))?;
        let bytes = file.metadata().map_err(self.io("append to"))?.len();
        // Room for the last whole line, and for part of another.
        let from = bytes.saturating_sub(2 * MAX_LINE_BYTES);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(from)).map_err(self.io("read"))?;
        file.read_to_end(&mut tail).map_err(self.io("read"))?;
        let end = tail.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if end < tail.len() {
            tracing::warn!(bytes = tail.len() - end, "cut off an incomplete line");
            file.set_len(from + end as u64).map_err(self.io("append to"))?;
            file.sync_data().map_err(self.io("append to"))?;
        }
        let Some((_, tail)) = tail.get(..end).and_then(<[u8]>::split_last) else {
            return Ok((first.saturating_sub(1), None));
        };
        let line = tail.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = core::str::from_utf8(line);
        let line = line.map_err(|_| unfit(&path, "its last line is not valid UTF-8"))?;
        let last = link(line)
            .map_err(|problem| unfit(&path, &format!("its last line is invalid: {problem}")))?;
        Ok((last.number, Some(line.into())))
    }

    /// Checks that `lines`, the lines in the records from `last` on, continue a file that ends with line
    /// `last`.
    fn expect_to_follow(
        &self,
        file: u64,
        last: u64,
        line: Option<&str>,
        lines: &[Line],
    ) -> Result<()> {
        let path = self.file(file);
        match (line, lines.first()) {
            (Some(line), Some((first, known))) if *first == last && known != line => {
                Err(unfit(&path, "its last line differs from the records"))
            }
            (Some(_), None) => {
                Err(unfit(&path, &format!("it has {last} lines, and the records have fewer")))
            }
            (_, Some((first, _))) if *first > last.saturating_add(1) => {
                Err(unfit(&path, &format!("lines after {last} are missing")))
            }
            _ => Ok(()),
        }
    }

    /// Copies the lines up to number `last` to another log, which has no files yet.
    ///
    /// # Errors
    /// [`Error::Parse`] for a broken line; [`Error::Io`].
    pub fn copy(&self, to: &Self, last: u64) -> Result<()> {
        make_private(&to.folder)?;
        for first in self.files()?.into_iter().filter(|first| *first <= last) {
            let path = self.file(first);
            let lines = File::open(&path).map_err(self.io("read"))?;
            let mut lines = BufReader::new(lines);
            let mut file = NewFile::create(&to.file(first), Access::Owner, false)?;
            let mut line = String::new();
            loop {
                line.clear();
                lines.read_line(&mut line).map_err(self.io("read"))?;
                // A running server may be writing the last line.
                let Some(text) = line.strip_suffix('\n') else { break };
                let number = link(text).map_err(|problem| unfit(&path, &problem))?.number;
                if number > last {
                    break;
                }
                file.write_all(line.as_bytes()).map_err(to.io("write"))?;
            }
            file.finish()?;
        }
        Ok(())
    }

    /// Checks that every line is intact and follows the previous one. `lines` are the last lines in the
    /// records, if available. `noted` are numbers and digests that were noted elsewhere.
    ///
    /// # Errors
    /// [`Error::Parse`], which names the first line that is broken; [`Error::Io`].
    pub fn check(&self, lines: &[Line], noted: &[(u64, String)]) -> Result<Checked> {
        let mut known: HashMap<u64, String> = noted.iter().cloned().collect();
        for (number, line) in lines {
            let link = link(line).map_err(|problem| {
                broken(&self.folder, format!("line {number} in the records: {problem}"))
            })?;
            known.insert(*number, link.digest);
        }
        let (files, bytes) = self.extent()?;
        let mut chain = Chain { known, first: 0, last: 0, digest: NONE.into() };
        let mut unfinished = Vec::new();
        for (at, &first) in files.iter().enumerate() {
            let is_last = at + 1 == files.len();
            let most = if is_last { bytes } else { u64::MAX };
            unfinished = chain.follow(&self.file(first), first, most)?;
            if !unfinished.is_empty() && !is_last {
                return Err(broken(
                    &self.file(first),
                    format!("line {} has no end", chain.last + 1),
                ));
            }
        }
        let next = lines.iter().find(|(number, _)| *number == chain.last + 1);
        if !unfinished.is_empty()
            && !next.is_some_and(|(_, line)| line.as_bytes().starts_with(&unfinished))
        {
            return Err(broken(&self.folder, format!("line {} has no end", chain.last + 1)));
        }
        let newest = lines.last().map_or(0, |(number, _)| *number);
        if newest > chain.last && next.is_none() {
            let problem =
                format!("it ends with line {}, and the records have {newest}", chain.last);
            return Err(broken(&self.folder, problem));
        }
        for (number, _) in noted {
            if *number < chain.first || *number > chain.last {
                let problem = format!(
                    "line {number} was noted, and the log has lines {} to {}",
                    chain.first, chain.last
                );
                return Err(broken(&self.folder, problem));
            }
        }
        Ok(Checked {
            files: files.len(),
            first: chain.first,
            last: chain.last,
            head: format!("{}:{}", chain.last, chain.digest),
            pending: newest.saturating_sub(chain.last),
        })
    }

    /// Lists all files, with the size of the last one while no process appends.
    fn extent(&self) -> Result<(Vec<u64>, u64)> {
        // A copy of a log may be read-only.
        let _lock = self.lock().ok();
        let files = self.files()?;
        let bytes = files.last().map(|&first| fs::metadata(self.file(first)));
        let bytes = bytes.transpose().map_err(self.io("read"))?.map_or(0, |found| found.len());
        Ok((files, bytes))
    }
}

/// The chain of lines up to a point.
struct Chain {
    /// Known digests of lines, by number.
    known: HashMap<u64, String>,
    /// Number of the first line.
    first: u64,
    /// Number of the last line.
    last: u64,
    /// Digest of the last line.
    digest: String,
}

impl Chain {
    /// Follows the lines in the first `most` bytes of a file, which starts with line `first`. Returns the
    /// incomplete line at the end.
    fn follow(&mut self, path: &Path, first: u64, most: u64) -> Result<Vec<u8>> {
        let io = |error| Error::io("read", path, error);
        let file = File::open(path).map_err(io)?;
        let mut reader = BufReader::new(file.take(most));
        if self.last == 0 {
            (self.first, self.last) = (first, first.saturating_sub(1));
        }
        let mut line = Vec::new();
        let mut at_line = 0_u64;
        loop {
            line.clear();
            // A file without line ends must not fill the memory.
            let mut limited = reader.by_ref().take(MAX_LINE_BYTES);
            limited.read_until(b'\n', &mut line).map_err(io)?;
            at_line += 1;
            let whole = match line.strip_suffix(b"\n") {
                Some(whole) => whole,
                None if (line.len() as u64) < MAX_LINE_BYTES => return Ok(line),
                None => return Err(broken(path, format!("line {at_line} has no end"))),
            };
            let followed = self.step(whole, (at_line == 1).then_some(first));
            followed.map_err(|problem| broken(path, format!("line {at_line}: {problem}")))?;
        }
    }

    fn step(&mut self, line: &[u8], first: Option<u64>) -> core::result::Result<(), String> {
        let line = core::str::from_utf8(line).map_err(|_| "it is not valid UTF-8")?;
        let link = link(line)?;
        let expected = self.last.saturating_add(1);
        if link.number != expected || first.is_some_and(|first| first != expected) {
            return Err(format!("its number is {}, not the expected {expected}", link.number));
        }
        // The line before the very first file may be elsewhere.
        let begins = link.number == self.first && self.first > 1;
        if link.previous != self.digest && !begins {
            return Err("it does not follow the line before it".into());
        }
        if self.known.get(&link.number).is_some_and(|known| *known != link.digest) {
            return Err("its digest differs from the noted one".into());
        }
        (self.last, self.digest) = (link.number, link.digest);
        Ok(())
    }
}

/// Describes a file that does not match the records.
fn unfit(path: &Path, problem: &str) -> Error {
    let advice =
        "move the directory of the log away to examine it, and the server starts a new one";
    broken(path, format!("{problem}; {advice}"))
}

fn broken(path: &Path, problem: String) -> Error {
    Error::Parse { path: path.into(), what: "unbroken audit log", problem }
}

/// Events that may come by the thousand. The first is recorded at once, later ones are counted until the
/// next sweep.
#[derive(Default)]
pub struct Repeats(Mutex<HashMap<Repeated, u64>>);

/// An event that may repeat.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Repeated {
    /// See [`Event::AuthenticationRefused`].
    Refused,
    /// See [`Event::ResultFetched`].
    Fetched { tenant: String, result: String },
}

impl Repeated {
    /// Makes the event for a number of repetitions.
    #[must_use]
    pub fn event(&self, times: u64) -> Event<'_> {
        match self {
            Self::Refused => Event::AuthenticationRefused { times },
            Self::Fetched { tenant, result } => Event::ResultFetched { tenant, result, times },
        }
    }
}

impl Repeats {
    /// Returns whether this is the first one since the last sweep. Counts later ones.
    pub fn is_first(&self, what: &Repeated) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(what) {
            Some(times) => {
                *times = times.saturating_add(1);
                false
            }
            None => all.insert(what.clone(), 0).is_none(),
        }
    }

    /// Forgets an event that could not be recorded, so that the next one is the first.
    pub fn forget(&self, what: &Repeated) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(what);
    }

    /// Takes the counts since the last sweep.
    pub fn sweep(&self) -> Vec<(Repeated, u64)> {
        let all = core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        // The first of each kind was recorded at once.
        all.into_iter().filter(|(_, times)| *times > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: u64) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let owner = Owner::Tenant("clinic".into());
        for number in 0..count {
            let tenant = "clinic";
            let job = &format!("{number:016x}")[..];
            let event = match number % 3 {
                0 => Event::JobStarted { tenant, job, worker: Some("w") },
                1 => Event::AuthenticationRefused { times: number },
                _ => Event::TokenAdded { owner: &owner, token: job, expires: None },
            };
            let last = lines.last().map(|(_, line)| &line[..]);
            lines.push(next_line(last, 1_700_000_000, &event).unwrap());
        }
        lines
    }

    /// Makes a log with files of a few lines each.
    fn log(folder: &Path) -> Log {
        Log { folder: folder.join("audit"), max_file_bytes: 1000 }
    }

    fn append(log: &Log, lines: &[Line]) -> Result<u64> {
        log.append(|from| Ok(lines.iter().filter(|(number, _)| *number >= from).cloned().collect()))
    }

    fn bytes(log: &Log) -> Vec<(PathBuf, Vec<u8>)> {
        let files = log.files().unwrap().into_iter().map(|first| log.file(first));
        files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// Follows the chain as a third party would: by JSON and digests alone.
    fn follow(text: &str) -> u64 {
        let mut previous = "0".repeat(64);
        let mut count = 0;
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            count += 1;
            assert_eq!((&value["number"], &value["previous"]), (&count.into(), &previous.into()));
            let content = &line[..line.len() - 77];
            previous = value["digest"].as_str().unwrap().to_owned();
            assert_eq!(blake3::hash(content.as_bytes()).to_string(), previous);
        }
        count
    }

    #[test]
    fn lines_are_appended_once_over_all_files() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        let lines = lines(40);
        for end in [1, 1, 2, 9, 9, 30, 40] {
            append(&log, &lines[..end]).unwrap();
            let found = log.check(&lines[..end], &[]).unwrap();
            assert_eq!((found.first, found.last), (1, end as u64));
        }
        let files = bytes(&log);
        assert!(files.len() >= 5 && files.iter().all(|(_, text)| text.len() < 1500));
        let all: Vec<u8> = files.into_iter().flat_map(|(_, text)| text).collect();
        assert_eq!(follow(core::str::from_utf8(&all).unwrap()), 40);
        // The oldest files may be moved elsewhere. Both parts are logs.
        let first = log.files().unwrap()[0];
        let elsewhere = Log::at(folder.path().join("old"));
        fs::create_dir(&elsewhere.folder).unwrap();
        fs::rename(log.file(first), elsewhere.file(first)).unwrap();
        let old = elsewhere.check(&[], &[]).unwrap();
        let rest = log.check(&lines, &[]).unwrap();
        assert_eq!((old.first, old.last + 1, rest.last), (1, rest.first, 40));
        // A noted head is found again. Another one is not.
        let (number, digest) = rest.head.split_once(':').unwrap();
        let noted = |number: u64, digest: &str| log.check(&[], &[(number, digest.into())]).is_ok();
        assert_eq!(number, "40");
        assert!(noted(40, digest));
        assert!(!noted(39, digest) && !noted(41, digest) && !noted(1, &lines[0].1));
    }

    /// Detects a flipped bit in any byte, a missing or additional byte, and a missing or repeated line.
    #[test]
    fn no_byte_of_a_log_can_be_changed() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        let lines = lines(11);
        append(&log, &lines).unwrap();
        let head = log.check(&lines, &[]).unwrap().head;
        let noted = [(11, head.strip_prefix("11:").unwrap().to_owned())];
        let files = bytes(&log);
        assert_eq!(files.len(), 3);
        for (path, text) in &files {
            let name = path.file_name().unwrap().to_str().unwrap();
            let refused = |altered: &[u8], at: usize| {
                fs::write(path, altered).unwrap();
                let text = log.check(&[], &noted).unwrap_err().to_string();
                assert!(text.contains(name) || text.contains("line"), "byte {at}: {text}");
            };
            for at in 0..text.len() {
                let mut altered = text.clone();
                altered[at] ^= 1 << (at % 8);
                refused(&altered, at);
                refused(&[&text[..at], &text[at + 1..]].concat(), at);
                refused(&[&text[..at], b"0", &text[at..]].concat(), at);
            }
            let rows: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
            for at in 0..rows.len() {
                refused(&[&rows[..at], &rows[at + 1..]].concat().concat(), at);
                refused(&[&rows[..=at], &rows[at..]].concat().concat(), at);
            }
            fs::write(path, text).unwrap();
        }
        // A line with a valid digest of its own does not match the line that follows.
        let event = Event::AuthenticationRefused { times: 7 };
        let (_, forged) = next_line(Some(&lines[0].1), 1_700_000_000, &event).unwrap();
        let text = String::from_utf8(files[0].1.clone()).unwrap();
        fs::write(&files[0].0, text.replace(&lines[1].1, &forged)).unwrap();
        let refused = log.check(&[], &[]).unwrap_err().to_string();
        assert!(refused.contains("line 3: it does not follow the line before it"), "{refused}");
        fs::write(&files[0].0, text).unwrap();
        // The error names the first broken line, by its file and its place there.
        let (path, text) = &files[1];
        let end = text.iter().position(|&byte| byte == b'\n').unwrap();
        let mut altered = text.clone();
        altered[end + 30] ^= 1;
        fs::write(path, altered).unwrap();
        let text = log.check(&lines, &[]).unwrap_err().to_string();
        assert!(text.contains("line 2: its digest does not match"), "{text}");
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        // A log that is cut at a line end is a shorter log, unless the later lines are known.
        fs::write(path, &files[1].1).unwrap();
        fs::remove_file(&files[2].0).unwrap();
        let head = log.check(&[], &[]).unwrap();
        let pending = log.check(&lines, &[]).unwrap().pending;
        assert_eq!(pending, 11 - head.last);
        assert!(pending > 1 && log.check(&lines[head.last as usize + 1..], &[]).is_err());
        assert!(log.check(&[], &noted).is_err());
    }

    /// Restores the same log, wherever a killed process stopped.
    #[test]
    fn torn_lines_are_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        let lines = lines(11);
        append(&log, &lines).unwrap();
        let whole = bytes(&log);
        let (path, text) = &whole[2];
        let before = log.files().unwrap()[2];
        for at in 0..text.len() {
            fs::write(path, &text[..at]).unwrap();
            let found = log.check(&lines, &[]).unwrap();
            let done = text[..at].iter().filter(|&&byte| byte == b'\n').count() as u64;
            assert_eq!(found.last, before - 1 + done, "byte {at}");
            append(&log, &lines[before as usize - 2..]).unwrap();
            assert_eq!(bytes(&log), whole, "byte {at}");
        }
        // A partial line that the records lack is an error.
        fs::write(path, [&text[..], b"{\"number\":12"].concat()).unwrap();
        assert!(log.check(&lines, &[]).is_err());
    }

    /// Appends nothing to files that do not match the records.
    #[test]
    fn logs_of_other_records_are_left_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path());
        let lines = lines(12);
        append(&log, &lines[..6]).unwrap();
        let whole = bytes(&log);
        let refused = |lines: &[Line], why: &str| {
            let text = append(&log, lines).unwrap_err().to_string();
            assert!(text.contains(why), "{text}");
            assert_eq!(bytes(&log), whole);
        };
        refused(&lines[..4], "it has 6 lines, and the records have fewer");
        refused(&lines[8..], "lines after 6 are missing");
        let mut others = lines.clone();
        others[5].1 = others[5].1.replace("clinic", "clinik");
        refused(&others, "differs from the records");
        let (path, text) = whole.last().unwrap();
        let mut altered = text.clone();
        altered[text.len() - 100] ^= 1;
        fs::write(path, &altered).unwrap();
        assert!(
            append(&log, &lines).unwrap_err().to_string().contains("its digest does not match")
        );
    }

    #[test]
    fn floods_are_added_up() {
        let repeats = Repeats::default();
        let fetched = Repeated::Fetched { tenant: "a".into(), result: "r".into() };
        for _ in 0..2 {
            assert!(repeats.is_first(&Repeated::Refused) && repeats.is_first(&fetched));
            assert!((0..1000).all(|_| !repeats.is_first(&Repeated::Refused)));
            assert_eq!(repeats.sweep(), [(Repeated::Refused, 1000)]);
            assert!(repeats.sweep().is_empty());
        }
    }
}
