//! What is taken down for the audit log, in the transaction of what it tells of.

use super::{Open, Records};
use crate::{
    audit::{self, Event, Line},
    clock::now,
};
use rusqlite::{Connection, OptionalExtension, Row};
use std::path::Path;
use sudare_roles::error::Result;

/// Lines that are in the files are forgotten when there are about so many.
const KEPT: u64 = 256;

fn line(row: &Row<'_>) -> rusqlite::Result<Line> {
    Ok((row.get("number")?, row.get("line")?))
}

/// Takes down an event.
pub fn note(db: &Connection, event: &Event<'_>) -> rusqlite::Result<()> {
    let sql = "SELECT line FROM audit ORDER BY number DESC LIMIT 1";
    let last: Option<String> = db.query_row(sql, (), |row| row.get(0)).optional()?;
    let failed = |error: sudare_roles::error::Error| {
        rusqlite::Error::ToSqlConversionFailure(error.to_string().into())
    };
    let line = audit::next_line(last.as_deref(), now(), event).map_err(failed)?;
    db.execute("INSERT INTO audit (number, line) VALUES (?1, ?2)", line).map(|_| ())
}

fn lines(db: &Connection, from: u64) -> rusqlite::Result<Vec<Line>> {
    let sql = "SELECT number, line FROM audit WHERE number >= ?1 ORDER BY number";
    db.prepare_cached(sql)?.query_map((from,), line)?.collect()
}

/// The last lines in the records of a server, also while it runs, without touching its log.
///
/// # Errors
/// [`Error::Io`](sudare_roles::error::Error::Io).
pub fn last_lines(path: &Path) -> Result<Vec<Line>> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let read = Connection::open_with_flags(path, flags).and_then(|db| lines(&db, 0));
    read.map_err(|error| super::failed(path, &error))
}

impl Records {
    /// Takes down an event by itself; it is on the disk then.
    ///
    /// # Errors
    /// As all of [`Records`].
    pub fn note(&self, event: &Event<'_>) -> Result<()> {
        self.write(|db| note(db, event))
    }

    /// Brings the files of the log to where the records are.
    ///
    /// # Errors
    /// [`Error::Parse`](sudare_roles::error::Error::Parse) for files that do not go with the records;
    /// as all.
    pub fn settle_log(&self) -> Result<()> {
        self.bring_forward(&mut self.lock())
    }

    /// As [`Records::settle_log`]; nothing is done if there are no new lines.
    pub(super) fn bring_forward(&self, open: &mut Open) -> Result<()> {
        let failed = |error| super::failed(&self.path, &error);
        let newest = "SELECT ifnull(max(number), 0) FROM audit";
        let newest: u64 =
            open.connection.query_row(newest, (), |row| row.get(0)).map_err(failed)?;
        if newest == open.in_log {
            return Ok(());
        }
        let new = || lines(&open.connection, open.in_log).map_err(failed);
        let last = self.log.append(new)?;
        if last / KEPT != open.in_log / KEPT {
            // The last is kept, and the one before, after which the last is written if it is torn.
            let sql = "DELETE FROM audit WHERE number + 1 < ?1";
            open.connection.execute(sql, (last,)).map_err(failed)?;
        }
        open.in_log = last;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::Log,
        token::{Owner, Token},
    };
    use std::fs;

    fn check(folder: &Path) -> crate::audit::Checked {
        let lines = last_lines(&folder.join("records")).unwrap();
        Log::of(folder).check(&lines, &[]).unwrap()
    }

    /// Lines of several processes follow each other, none is lost, and the records keep few.
    #[test]
    fn what_is_taken_down_is_in_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let (first, second) = (Records::open(&path).unwrap(), Records::open(&path).unwrap());
        let token = Token::random().unwrap();
        let tenant = Owner::Tenant("a".into());
        first.add_token(&token.kept(tenant.clone(), 1, None)).unwrap();
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
        let found = check(folder.path());
        assert_eq!((found.last, found.pending), (302, 0));
        let file = folder.path().join("audit/audit-0000000000000001.jsonl");
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
        assert!(last_lines(&path).unwrap().len() <= KEPT as usize);

        // Killed in the middle of a line, it goes on.
        drop((first, second));
        fs::write(&file, &text[..text.len() - 100]).unwrap();
        assert_eq!((check(folder.path()).last, check(folder.path()).pending), (301, 1));
        drop(Records::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        // A log that is another one is not gone on with.
        fs::write(&file, text.replace("token-revoked", "token-removed")).unwrap();
        let refused = Records::open(&path).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("move the folder"), "{refused}");
    }
}
