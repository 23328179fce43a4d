//! Claims of jobs: the holder, the fence, and the end of the lease.

use super::{
    Records,
    audit::note,
    database::{Row, values},
    jobs::{Job, job},
};
use crate::{clock::Seconds, storage::audit::Event};
use sudare_roles::error::Result;

/// The claimant of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimant<'a> {
    /// A process of a server.
    Server {
        /// Name of the server.
        name: &'a str,
        /// End of the lease unless it is renewed, if other servers may take the job then.
        until: Option<Seconds>,
    },
    /// A worker.
    #[cfg(feature = "cluster")]
    Worker {
        /// Name of the worker.
        name: &'a str,
        /// End of the lease unless it is renewed.
        until: Seconds,
    },
}

impl Records {
    /// Claims a waiting job under a new fence. Among concurrent attempts one succeeds, and the others
    /// return nothing.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn claim(&self, id: &str, by: Claimant<'_>, now: Seconds) -> Result<Option<Job>> {
        let (worker, server, until) = match by {
            Claimant::Server { name, until } => (None, Some(name), until),
            #[cfg(feature = "cluster")]
            Claimant::Worker { name, until } => (Some(name), None, Some(until)),
        };
        let sql = "UPDATE jobs SET seq = seq + 1, state = 'running', started = ?2, worker = ?3, \
                   server = ?4, lease_until = ?5, lease_cpu_ms = 0, fence = fence + 1 \
                   WHERE id = ?1 AND state = 'queued' RETURNING *";
        self.write(|db| {
            let claimed = db.find(sql, &values![id, now, worker, server, until], job)?;
            if let Some(Job { tenant, id, .. }) = &claimed {
                note(db, &Event::JobStarted { tenant, job: id, worker })?;
            }
            Ok(claimed)
        })
    }

    /// Counts the jobs under leases of workers.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn leases(&self) -> Result<u64> {
        let sql = "SELECT count(*) FROM jobs WHERE state = 'running' AND worker IS NOT NULL";
        self.read(|db| db.value(sql, &[]))
    }

    /// Assigns uploads, and running jobs of no worker, to a server: the ones without a server, or all if
    /// the server is `alone`.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn take_over(&self, server: &str, alone: bool) -> Result<()> {
        let of_jobs = "UPDATE jobs SET server = ?1 WHERE worker IS NULL AND state = 'running' \
                       AND (server IS NULL OR CAST(?2 AS BIGINT) = 1)";
        let of_uploads = "UPDATE uploads SET server = ?1 \
                          WHERE server IS NULL OR CAST(?2 AS BIGINT) = 1";
        self.write(|db| {
            db.execute(of_jobs, &values![server, alone])?;
            db.execute(of_uploads, &values![server, alone]).map(|_| ())
        })
    }

    /// Lists the jobs in processes of a server, with their fences.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn held_by(&self, server: &str) -> Result<Vec<(String, u64)>> {
        let sql = "SELECT id, fence FROM jobs WHERE server = ?1 AND state = 'running'";
        let read = |row: &Row| Ok((row.get("id")?, row.get("fence")?));
        self.read(|db| db.all(sql, &values![server], read))
    }

    /// Renews the leases of jobs in processes of servers, given with their fences.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn renew_own(&self, jobs: &[(String, u64)], until: Seconds) -> Result<()> {
        let sql = "UPDATE jobs SET lease_until = ?3 WHERE id = ?1 AND fence = ?2 \
                   AND state = 'running' AND worker IS NULL";
        self.write(|db| {
            jobs.iter()
                .try_for_each(|(id, fence)| db.execute(sql, &values![id, fence, until]).map(|_| ()))
        })
    }

    /// Queues the jobs again whose leases ended before `now`, and returns them.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn expire_leases(&self, now: Seconds) -> Result<Vec<Job>> {
        // NULL, for a job without a lease, is never below a time.
        let is_due = "state = 'running' AND lease_until < ?1";
        let due = format!("SELECT EXISTS (SELECT 1 FROM jobs WHERE {is_due})");
        // A check each second must not take the lock of writers.
        if !self.read(|db| db.value::<bool>(&due, &values![now]))? {
            return Ok(Vec::new());
        }
        let sql =
            format!("UPDATE jobs SET seq = seq + 1, state = 'queued' WHERE {is_due} RETURNING *");
        self.write(|db| {
            let expired = db.all(&sql, &values![now], job)?;
            for Job { tenant, id, worker, server, .. } in &expired {
                let worker = worker.as_deref().or(server.as_deref()).unwrap_or_default();
                note(db, &Event::LeaseExpired { tenant, job: id, worker })?;
            }
            Ok(expired)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::records::testing::{new_job, places, queue};

    /// A server holds a job while it renews the lease, and then loses it.
    #[test]
    fn servers_hold_what_they_renew() {
        for place in places() {
            let records = place.open();
            ["1", "2"].iter().for_each(|id| queue(&records, &new_job(id, "clinic")));
            let claim = |id: &str, name, until| {
                let by = Claimant::Server { name, until };
                records.claim(id, by, 0).unwrap().map(|job| job.fence)
            };
            assert_eq!(claim("1", "one", Some(10)), Some(1));
            assert_eq!(claim("2", "two", Some(10)), Some(1));
            assert_eq!(records.held_by("one").unwrap(), [("1".into(), 1)]);
            records.renew_own(&[("1".into(), 1), ("2".into(), 7)], 20).unwrap();
            let expired: Vec<_> = records.expire_leases(15).unwrap();
            assert_eq!(expired.iter().map(|job| &job.id[..]).collect::<Vec<_>>(), ["2"]);
            assert_eq!(expired[0].server.as_deref(), Some("two"));
            assert!(records.held_by("two").unwrap().is_empty());
            assert_eq!(claim("2", "one", None), Some(2));
            // A job without a lease stays until its server ends.
            assert!(records.expire_leases(16).unwrap().is_empty());
            let names: Vec<_> = records.jobs_named(&["2".into(), "3".into()]).unwrap();
            assert_eq!(names.len(), 1);
            // A server that uses the records alone takes over from a server of another name.
            records.take_over("three", false).unwrap();
            assert!(records.held_by("three").unwrap().is_empty());
            records.take_over("three", true).unwrap();
            assert_eq!(records.held_by("three").unwrap().len(), 2);
        }
    }
}
