//! Audit events, which are recorded in the transaction of the change.

use super::{
    DatabaseAddress, Open, Records,
    database::{Database, Row, values},
    sqlite::Sqlite,
};
use crate::{
    clock::now,
    storage::audit::{self, Event, Line},
};
use std::{io, path::Path};
use sudare_roles::error::Result;

/// Number of lines in the files after which the records drop them. Shared records keep all lines, since
/// each server copies them to its own files.
const KEPT_LINES: u64 = 256;
/// Lines that are read at a time.
const READ_AT_ONCE: u32 = 1024;

fn line(row: &Row) -> io::Result<Line> {
    Ok((row.get("number")?, row.get("line")?))
}

/// Records an event.
pub fn note(db: &dyn Database, event: &Event<'_>) -> io::Result<()> {
    let sql = "SELECT line FROM audit ORDER BY number DESC LIMIT 1";
    // Writers come one after the other, so no other line gets this number.
    let last: Option<String> = db.find(sql, &[], Row::first)?;
    let line = audit::next_line(last.as_deref(), now(), event);
    let (number, line) = line.map_err(|error| io::Error::other(error.to_string()))?;
    let sql = "INSERT INTO audit (number, line) VALUES (?1, ?2)";
    db.execute(sql, &values![number, line]).map(|_| ())
}

fn lines(db: &dyn Database, from: u64) -> io::Result<Vec<Line>> {
    let sql = "SELECT number, line FROM audit WHERE number >= ?1 ORDER BY number LIMIT ?2";
    db.all(sql, &values![from, READ_AT_ONCE], line)
}

/// Reads the last lines in the records of a server, even while it runs, without touching its log.
///
/// # Errors
/// [`Error::Io`](sudare_roles::error::Error::Io); as [`Records::of`].
pub fn last_lines(path: &Path, database: Option<&DatabaseAddress>) -> Result<Vec<Line>> {
    let sql = "SELECT number, line FROM audit ORDER BY number DESC LIMIT ?1";
    let read = |db: &dyn Database| db.all(sql, &values![READ_AT_ONCE], line);
    let mut lines = match database {
        Some(database) => super::connect(database)?.read(read),
        None => Sqlite::open_to_read(path).and_then(|file| file.read(read)),
    }
    .map_err(|error| super::failed(path, error))?;
    lines.reverse();
    Ok(lines)
}

impl Records {
    /// Records an event in a transaction of its own. The event is on the disk on return.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn note(&self, event: &Event<'_>) -> Result<()> {
        self.write(|db| note(db, event))
    }

    /// Appends missing lines to the files of the log.
    ///
    /// # Errors
    /// [`Error::Parse`](sudare_roles::error::Error::Parse) for files that do not match the records;
    /// [`Error::Io`](sudare_roles::error::Error::Io).
    pub fn sync_log(&self) -> Result<()> {
        self.append_to_log(&mut self.lock())
    }

    /// Appends missing lines, as [`Records::sync_log`], if there are any.
    pub(super) fn append_to_log(&self, open: &mut Open) -> Result<()> {
        let failed = |error| super::failed(&self.place, error);
        let newest = "SELECT coalesce(max(number), 0) FROM audit";
        let newest: u64 = open.engine.read(|db| db.value(newest, &[])).map_err(failed)?;
        while open.in_log < newest {
            let before = open.in_log;
            let engine = &mut open.engine;
            let last = self.log.append(|from| engine.read(|db| lines(db, from)).map_err(failed))?;
            // Not with each line, because deleting is a transaction of its own.
            if last / KEPT_LINES != before / KEPT_LINES && !self.are_shared {
                // The last two lines stay: if the last one is torn in the file, the one before shows where
                // to write it again.
                let sql = "DELETE FROM audit WHERE number + 1 < ?1";
                let forget = |db: &dyn Database| db.execute(sql, &values![last]);
                open.engine.write(forget).map_err(failed)?;
            }
            open.in_log = last;
            // Nothing was appended, and trying again would not end.
            if last == before {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        accounts::token::{Owner, Token},
        storage::{
            audit::Log,
            records::testing::{Place, places},
            store::RECORDS,
        },
    };
    use std::fs;

    fn lines_of(place: &Place) -> Vec<Line> {
        last_lines(&place.folder().join(RECORDS), place.database()).unwrap()
    }

    fn check(place: &Place) -> crate::storage::audit::Checked {
        Log::of(place.folder()).check(&lines_of(place), &[]).unwrap()
    }

    /// Lines of several processes follow each other, none is lost, and the records keep few.
    #[test]
    fn recorded_lines_are_in_the_files() {
        for place in places() {
            let folder = place.folder();
            let first = place.open();
            let second = place.open();
            let token = Token::random().unwrap();
            let tenant = Owner::Tenant("a".into());
            first.add_token(&token.record(tenant.clone(), 1, None)).unwrap();
            std::thread::scope(|scope| {
                for (records, start) in [(&first, 0), (&second, 150)] {
                    scope.spawn(move || {
                        for times in start..start + 150 {
                            records.note(&Event::AuthenticationRefused { times }).unwrap();
                        }
                    });
                }
            });
            assert_eq!(second.revoke(&tenant, None).unwrap(), 1);
            let found = check(&place);
            assert_eq!((found.last, found.pending), (302, 0));
            let file = folder.join("audit/audit-0000000000000001.jsonl");
            let text = fs::read_to_string(&file).unwrap();
            let events: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(
                (&events[0]["event"], &events[301]["event"]),
                (&"token-added".into(), &"token-revoked".into())
            );
            assert_eq!(events[0]["token"], token.id());
            let times = events.iter().filter_map(|event| event["times"].as_u64());
            let mut times: Vec<u64> = times.collect();
            times.sort_unstable();
            assert!(times.into_iter().eq(0..300));
            assert!(!text.contains(&token.text()[23..]));
            let most = if place.database().is_some() { 302 } else { KEPT_LINES as usize };
            assert!(lines_of(&place).len() <= most);

            // A process that was killed in the middle of a line continues the log.
            drop((first, second));
            fs::write(&file, &text[..text.len() - 100]).unwrap();
            assert_eq!((check(&place).last, check(&place).pending), (301, 1));
            drop(place.open());
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            // A log that does not match is not continued.
            fs::write(&file, text.replace("token-revoked", "token-removed")).unwrap();
            let refused = place.try_open().map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains("move the directory"), "{refused}");
        }
    }

    /// Each server has the whole log in its own files, including lines from the time when it was away.
    #[cfg(feature = "cluster")]
    #[test]
    fn each_server_has_the_whole_log() {
        for place in places().iter().filter(|place| place.database().is_some()) {
            let note = |records: &Records, from| {
                for times in from..from + 800 {
                    records.note(&Event::AuthenticationRefused { times }).unwrap();
                }
            };
            let first = place.open();
            note(&first, 0);
            let other = place.beside();
            let second = other.open();
            let text = |place: &Place| {
                fs::read_to_string(place.folder().join("audit/audit-0000000000000001.jsonl"))
                    .unwrap()
            };
            assert_eq!(text(place), text(&other));
            drop(second);
            note(&first, 800);
            assert_ne!(text(place), text(&other));
            let second = other.open();
            assert_eq!(text(place), text(&other));
            second.note(&Event::AuthenticationRefused { times: 7 }).unwrap();
            first.sync_log().unwrap();
            assert_eq!(text(place), text(&other));
            assert_eq!(check(&other).last, 1601);
        }
    }
}
