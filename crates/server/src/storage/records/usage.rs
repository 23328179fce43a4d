//! CPU time of tenants' jobs.

use super::{
    CpuLimits, Records,
    database::{Database, Row, values},
    objects::{bytes_of, objects_of},
};
use crate::clock::{SECONDS_A_DAY, Seconds};
use std::io;
use sudare_roles::error::Result;

/// The limit that a job would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuPeriod {
    /// The limit of a day alone. Tomorrow there is room.
    Day,
    /// The limit in total.
    Total,
}

/// Usage of a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Name of the tenant.
    pub tenant: String,
    /// Bytes of objects, uploads under way, and results of jobs under way.
    pub bytes: u64,
    /// Number of objects and uploads under way.
    pub objects: u64,
    /// Jobs under way.
    pub jobs: u64,
    /// CPU seconds since midnight UTC.
    pub cpu_seconds_today: f64,
    /// CPU seconds in total.
    pub cpu_seconds: f64,
}

/// Days since 1970.
fn day(now: Seconds) -> i64 {
    now.div_euclid(SECONDS_A_DAY)
}

/// Returns the CPU seconds of a tenant's jobs, since midnight and in total.
fn cpu_seconds(db: &dyn Database, tenant: &str, now: Seconds) -> io::Result<[f64; 2]> {
    let sum = "SELECT CAST(coalesce(sum(cpu_ms), 0) AS BIGINT) FROM usage WHERE tenant = ?1";
    let today = db.value::<u64>(&format!("{sum} AND day = ?2"), &values![tenant, day(now)])?;
    let all = db.value::<u64>(sum, &values![tenant])?;
    Ok([today, all].map(|milliseconds| milliseconds as f64 / 1e3))
}

/// Counts the jobs of a tenant that wait or run.
pub(super) fn under_way(db: &dyn Database, tenant: &str) -> io::Result<u64> {
    let sql = "SELECT count(*) FROM jobs WHERE tenant = ?1 AND state IN ('queued', 'running')";
    db.value(sql, &values![tenant])
}

fn usage(db: &dyn Database, tenant: String, now: Seconds) -> io::Result<Usage> {
    let bytes = bytes_of(db, &tenant)?;
    let objects = objects_of(db, &tenant)?;
    let jobs = under_way(db, &tenant)?;
    let [cpu_seconds_today, cpu_seconds] = cpu_seconds(db, &tenant, now)?;
    Ok(Usage { tenant, bytes, objects, jobs, cpu_seconds_today, cpu_seconds })
}

/// Returns the limit that a job with `more` CPU seconds would exceed. A job under way counts with its
/// prediction, except for the completed part of its steps.
pub(super) fn exceeded(
    db: &dyn Database,
    tenant: &str,
    more: f64,
    limits: &CpuLimits,
    now: Seconds,
) -> io::Result<Option<CpuPeriod>> {
    if *limits == CpuLimits::default() {
        return Ok(None);
    }
    let [today, all] = cpu_seconds(db, tenant, now)?;
    // The CPU time of completed steps is in the usage already.
    let sql = "SELECT coalesce(sum(cpu_seconds * \
               CASE WHEN total > done THEN (total - done) * 1.0 / total \
               WHEN total > 0 THEN 0.0 ELSE 1.0 END), 0.0) FROM jobs \
               WHERE tenant = ?1 AND state IN ('queued', 'running')";
    let to_come: f64 = db.value(sql, &values![tenant])?;
    let exceeds =
        |used: f64, most: Option<f64>| most.is_some_and(|most| used + to_come + more > most);
    // The total first, since waiting for tomorrow would not help.
    Ok(if exceeds(all, limits.total_seconds) {
        Some(CpuPeriod::Total)
    } else {
        exceeds(today, limits.daily_seconds).then_some(CpuPeriod::Day)
    })
}

/// Adds CPU milliseconds to the usage of a tenant.
pub(super) fn add_cpu(
    db: &dyn Database,
    tenant: &str,
    now: Seconds,
    milliseconds: u64,
) -> io::Result<()> {
    let sql = "INSERT INTO usage (tenant, day, cpu_ms) VALUES (?1, ?2, ?3) \
               ON CONFLICT (tenant, day) DO UPDATE SET cpu_ms = usage.cpu_ms + excluded.cpu_ms";
    db.execute(sql, &values![tenant, day(now), milliseconds]).map(|_| ())
}

impl Records {
    /// Counts the jobs of a tenant that wait or run.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn under_way(&self, tenant: &str) -> Result<u64> {
        self.read(|db| under_way(db, tenant))
    }

    /// Adds CPU milliseconds to the usage of a tenant.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn use_cpu(&self, tenant: &str, now: Seconds, milliseconds: u64) -> Result<()> {
        self.write(|db| add_cpu(db, tenant, now, milliseconds))
    }

    /// Returns the usage of a tenant.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn usage(&self, tenant: &str, now: Seconds) -> Result<Usage> {
        self.read(|db| usage(db, tenant.to_owned(), now))
    }

    /// Returns the usage of all tenants.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn usage_of_all(&self, now: Seconds) -> Result<Vec<Usage>> {
        let sql = "SELECT tenant FROM usage UNION SELECT tenant FROM objects \
                   UNION SELECT tenant FROM jobs UNION SELECT tenant FROM uploads ORDER BY tenant";
        self.read(|db| {
            let tenants = db.all(sql, &[], Row::first)?;
            tenants.into_iter().map(|tenant| usage(db, tenant, now)).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::records::{
        Change, NewJob,
        testing::{new_job, places, queue},
    };

    /// Limits count used and predicted time, and a new day starts from zero.
    #[test]
    fn processors_are_counted_by_day_and_tenant() {
        for place in places() {
            let records = place.open();
            let noon = 20_000 * SECONDS_A_DAY + 43_200;
            for milliseconds in [1500, 500] {
                records.use_cpu("a", noon, milliseconds).unwrap();
            }
            records.use_cpu("a", noon - SECONDS_A_DAY, 3000).unwrap();
            records.use_cpu("b", noon, 100).unwrap();
            let found = records.usage("a", noon).unwrap();
            assert_eq!((found.cpu_seconds_today, found.cpu_seconds), (2.0, 5.0));
            let tomorrow = records.usage_of_all(noon + 43_200).unwrap();
            let today: Vec<f64> = tomorrow.iter().map(|found| found.cpu_seconds_today).collect();
            assert_eq!((tomorrow.len(), today), (2, vec![0.0, 0.0]));
            assert_eq!(records.usage("c", noon).unwrap().cpu_seconds, 0.0);

            let exceeded = |more, daily_seconds, total_seconds, now| {
                let limits = CpuLimits { daily_seconds, total_seconds };
                records.write(|db| exceeded(db, "a", more, &limits, now)).unwrap()
            };
            assert_eq!(exceeded(1e9, None, None, noon), None);
            assert_eq!(exceeded(1.0, Some(3.0), None, noon), None);
            assert_eq!(exceeded(1.1, Some(3.0), None, noon), Some(CpuPeriod::Day));
            assert_eq!(exceeded(3.0, Some(3.0), None, noon + 43_200), None);
            assert_eq!(exceeded(1.0, None, Some(6.0), noon), None);
            assert_eq!(exceeded(1.1, None, Some(6.0), noon + 43_200), Some(CpuPeriod::Total));
            assert_eq!(exceeded(1.1, Some(2.0), Some(6.0), noon), Some(CpuPeriod::Total));

            // A job under way counts with its remaining steps.
            queue(&records, &NewJob { cpu_seconds: 4.0, ..new_job("3", "a") });
            for (done, total, fits) in [(0, 0, 1.0), (0, 4, 1.0), (1, 4, 2.0), (4, 4, 5.0)] {
                records.change("3", None, &Change::Progress(done, total)).unwrap();
                assert_eq!(exceeded(fits, Some(7.0), None, noon), None, "{done} of {total}");
                let period = Some(CpuPeriod::Day);
                assert_eq!(
                    exceeded(fits + 0.1, Some(7.0), None, noon),
                    period,
                    "{done} of {total}"
                );
            }
        }
    }
}
