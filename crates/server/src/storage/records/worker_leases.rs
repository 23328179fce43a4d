//! Leases of workers on jobs.

use super::{
    Records,
    database::{Database, Row, values},
    jobs::{Job, STEP_FORWARD, by_id, job},
    usage::add_cpu,
};
use crate::{clock::Seconds, cluster::lease::Report};
use std::io;
use sudare_roles::error::Result;

/// Maximum CPU milliseconds of a claim. The server ignores larger reports of a worker.
// A compromised worker must not overflow the sum of a tenant.
const MAX_CPU_MILLISECONDS: u64 = 1 << 40;

/// Prolongs the lease with this fence. Returns whether it exists.
fn prolong(db: &dyn Database, id: &str, fence: u64, until: Seconds) -> io::Result<bool> {
    // Never earlier: requests under one lease may overtake each other.
    let sql = "UPDATE jobs \
               SET lease_until = CASE WHEN lease_until > ?3 THEN lease_until ELSE ?3 END \
               WHERE id = ?1 AND fence = ?2 AND state = 'running' AND worker IS NOT NULL";
    Ok(db.execute(sql, &values![id, fence, until])? == 1)
}

impl Records {
    /// Finds the job under a worker's lease with this fence.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn leased_job(&self, id: &str, fence: u64) -> Result<Option<Job>> {
        let sql = "SELECT * FROM jobs \
                   WHERE id = ?1 AND fence = ?2 AND state = 'running' AND worker IS NOT NULL";
        self.read(|db| db.find(sql, &values![id, fence], job))
    }

    /// Renews a lease with the worker's report. Returns the job, or nothing if the lease has ended.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn renew(
        &self,
        id: &str,
        fence: u64,
        until: Seconds,
        report: &Report,
        now: Seconds,
    ) -> Result<Option<Job>> {
        let cpu = report.cpu_milliseconds.min(MAX_CPU_MILLISECONDS);
        let sql = format!(
            // A renewal without progress is no change for followers.
            "UPDATE jobs SET seq = seq + 1, {STEP_FORWARD} \
             WHERE id = ?1 AND fence = ?2 AND (done <> ?3 OR total <> ?4)"
        );
        self.write(|db| {
            if !prolong(db, id, fence, until)? {
                return Ok(None);
            }
            db.execute(&sql, &values![id, fence, report.done, report.total])?;
            // A report repeats the time of earlier ones, which is counted once.
            let of_lease = "SELECT tenant, lease_cpu_ms FROM jobs WHERE id = ?1";
            let read = |row: &Row| Ok((row.get::<String>("tenant")?, row.get("lease_cpu_ms")?));
            if let Some((tenant, counted)) = db.find(of_lease, &values![id], read)?
                && cpu > counted
            {
                add_cpu(db, &tenant, now, cpu - counted)?;
                let sql = "UPDATE jobs SET lease_cpu_ms = ?2 WHERE id = ?1";
                db.execute(sql, &values![id, cpu])?;
            }
            by_id(db, id)
        })
    }

    /// Runs `act` under a lease, and prolongs the lease, so that no other worker claims the job meanwhile. Does
    /// nothing if the lease has ended. `act` must not use the records.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails; errors of `act`.
    pub fn under_lease<T>(
        &self,
        id: &str,
        fence: u64,
        until: Seconds,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        self.write_once(|db| Ok(prolong(db, id, fence, until)?.then(act)))?.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        job::Kind,
        storage::records::{
            Change, Claimant, Collection, Object, State,
            testing::{new_job, places, queue},
        },
    };
    use sudare_roles::error::Error;

    const TENANT: &str = "clinic";
    const WORKERS: [&str; 2] = ["north", "south"];

    fn add(records: &Records, id: &str) {
        let mut new = new_job(id, TENANT);
        new.request.kind = Kind::Train;
        queue(records, &new);
    }

    fn result() -> Object {
        let tenant = TENANT.to_owned();
        let digest = "d".to_owned();
        let collection = Collection::Results;
        let about = serde_json::Value::Null;
        Object { tenant, digest, collection, bytes: 1, created: 0, about }
    }

    /// A model of leases without a database.
    #[derive(Debug, Clone, PartialEq)]
    struct Model {
        state: State,
        fence: u64,
        worker: Option<&'static str>,
        until: Seconds,
        done: u64,
        cpu: u64,
    }

    impl Model {
        const NEW: Self =
            Self { state: State::Queued, fence: 0, worker: None, until: 0, done: 0, cpu: 0 };

        fn has_lease(&self, fence: u64) -> bool {
            self.state == State::Running && self.fence == fence && self.worker.is_some()
        }

        fn claim(&mut self, worker: Option<&'static str>, until: Seconds) -> bool {
            let free = self.state == State::Queued;
            if free {
                let fence = self.fence + 1;
                *self = Self { state: State::Running, fence, worker, until, cpu: 0, ..*self };
            }
            free
        }

        fn change(&mut self, fence: Option<u64>, to: State) -> bool {
            let goes = match fence {
                Some(fence) => self.state == State::Running && self.fence == fence,
                None => !self.state.is_final(),
            };
            if goes {
                self.state = to;
            }
            goes
        }
    }

    /// A deterministic generator of numbers below `end`.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % end
        }
    }

    /// Makes one step of a random walk on the records and the model, and compares the results.
    fn step(
        records: &Records,
        id: &str,
        model: &mut Model,
        random: &mut Random,
        now: Seconds,
    ) -> u64 {
        let fence = model.fence.saturating_sub(random.below(4).saturating_sub(1));
        let until = now + random.below(6) as Seconds;
        match random.below(9) {
            0 | 1 => {
                let name = WORKERS[random.below(2) as usize];
                let by = Claimant::Worker { name, until };
                let claimed = records.claim(id, by, now).unwrap();
                assert_eq!(claimed.is_some(), model.claim(Some(name), until));
            }
            2 => {
                let claimed =
                    records.claim(id, Claimant::Server { name: "one", until: None }, now).unwrap();
                assert_eq!(claimed.is_some(), model.claim(None, Seconds::MAX));
            }
            3 | 4 => {
                let done = random.below(20);
                let cpu_milliseconds = random.below(1000);
                let report = Report { done, total: 20, cpu_milliseconds };
                let renewed = records.renew(id, fence, until, &report, now).unwrap();
                assert_eq!(renewed.is_some(), model.has_lease(fence));
                if renewed.is_some() {
                    let more = cpu_milliseconds.saturating_sub(model.cpu);
                    let until = model.until.max(until);
                    let cpu = model.cpu + more;
                    *model = Model { until, done, cpu, ..*model };
                    return more;
                }
            }
            5 => {
                let mut acted = false;
                let done = records.under_lease(id, fence, until, || {
                    acted = true;
                    Ok(7)
                });
                let held = model.has_lease(fence);
                assert_eq!((done.unwrap(), acted), (held.then_some(7), held));
                if held {
                    model.until = model.until.max(until);
                }
            }
            6 => {
                let (change, to) = match random.below(8) {
                    0 => {
                        let result = result();
                        let adopt = || Ok(());
                        let finished = records.finish(id, fence, &result, "r", 0, adopt);
                        let done = finished.unwrap().unwrap();
                        assert_eq!(done.is_some(), model.change(Some(fence), State::Done));
                        model.done = done.map_or(model.done, |job| job.total);
                        return 0;
                    }
                    1 => (Change::Failed("Usage".into(), "why".into()), State::Failed),
                    2 => (Change::Died, State::Queued),
                    _ => (Change::Requeued, State::Queued),
                };
                let changed = records.change(id, Some(fence), &change).unwrap().is_some();
                assert_eq!(changed, model.change(Some(fence), to));
            }
            7 if random.below(20) == 0 => {
                let cancelled = records.change(id, None, &Change::Cancelled).unwrap();
                assert_eq!(cancelled.is_some(), model.change(None, State::Cancelled));
            }
            _ => {
                let held = records.leased_job(id, fence).unwrap();
                assert_eq!(held.is_some(), model.has_lease(fence));
            }
        }
        0
    }

    /// Claims, renewals, ends and lost leases in any order change the records as they change a model.
    #[test]
    fn leases_do_what_their_model_does() {
        for place in places() {
            let records = place.open();
            let mut random = Random(1);
            let mut now = 1_000_000;
            let mut cpu = 0;
            let mut jobs: Vec<(String, Model)> = Vec::new();
            let mut claims = 0;
            for round in 0..1200 {
                while jobs.iter().filter(|(_, model)| !model.state.is_final()).count() < 3 {
                    let id = format!("{:016x}", jobs.len());
                    add(&records, &id);
                    jobs.push((id, Model::NEW));
                }
                now += random.below(2) as Seconds;
                let live: Vec<usize> =
                    (0..jobs.len()).filter(|&at| !jobs[at].1.state.is_final()).collect();
                // Sometimes choose a job that has ended.
                let at = match random.below(10) {
                    0 => random.below(jobs.len() as u64) as usize,
                    _ => live[random.below(live.len() as u64) as usize],
                };
                let (id, model) = &mut jobs[at];
                let before = model.fence;
                cpu += step(&records, id, model, &mut random, now);
                claims += model.fence - before;
                let found = records.job(TENANT, id).unwrap().unwrap();
                let worker = found.worker.as_deref();
                assert_eq!(
                    (found.state, found.fence, worker, found.done),
                    (model.state, model.fence, model.worker, model.done),
                    "{round}"
                );
                if random.below(4) == 0 {
                    let mut due: Vec<&mut (String, Model)> = jobs
                        .iter_mut()
                        .filter(|(_, model)| model.has_lease(model.fence) && model.until < now)
                        .collect();
                    let mut expired: Vec<String> =
                        records.expire_leases(now).unwrap().into_iter().map(|job| job.id).collect();
                    expired.sort();
                    assert_eq!(expired, due.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>());
                    due.iter_mut().for_each(|(_, model)| model.state = State::Queued);
                }
                let leases = jobs.iter().filter(|(_, model)| model.has_lease(model.fence)).count();
                assert_eq!(records.leases().unwrap(), leases as u64);
            }
            assert!(claims > 100 && jobs.len() > 10, "{claims} claims of {} jobs", jobs.len());
            assert_eq!(records.usage(TENANT, now).unwrap().cpu_seconds, cpu as f64 / 1e3);
        }
    }

    /// Each job has one holder when several processes claim the same jobs.
    #[test]
    fn a_job_is_claimed_once() {
        for place in places() {
            let records = place.open();
            let ids: Vec<String> = (0..20).map(|at| format!("{at:016x}")).collect();
            ids.iter().for_each(|id| add(&records, id));
            let claim_all = |name| {
                let records = place.open();
                let by = Claimant::Worker { name, until: 100 };
                let claimed = |id: &&String| records.claim(id, by, 0).unwrap().is_some();
                ids.iter().filter(claimed).count()
            };
            let counts = std::thread::scope(|scope| {
                WORKERS
                    .map(|name| scope.spawn(move || claim_all(name)))
                    .map(|one| one.join().unwrap())
            });
            assert_eq!(counts.iter().sum::<usize>(), ids.len());
            assert_eq!(records.leases().unwrap(), ids.len() as u64);
            // An error under a lease leaves the lease unchanged, and is returned.
            let failed =
                records.under_lease(&ids[0], 1, 200, || Err::<(), _>(Error::Bug("x".into())));
            assert!(matches!(failed, Err(Error::Bug(_))));
            assert_eq!(records.expire_leases(150).unwrap().len(), ids.len() - 1);
        }
    }
}
