//! How many requests each tenant may make.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Of how many seconds a tenant may make the requests at once.
const AT_ONCE: f64 = 5.0;

/// A bucket of requests for each tenant, which fills with time.
pub struct Rates {
    a_second: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
}

struct Bucket {
    requests: f64,
    at: Instant,
}

impl Rates {
    /// So many requests a second for each tenant.
    #[must_use]
    pub fn new(a_second: u32) -> Self {
        Self { a_second: a_second.into(), buckets: Mutex::default() }
    }

    /// Takes a request of a tenant.
    ///
    /// # Errors
    /// How long to wait for the next one, if there is none now.
    pub fn take(&self, tenant: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.a_second * AT_ONCE;
        let full = || Bucket { requests: most, at: now };
        let bucket = buckets.entry(tenant.into()).or_insert_with(full);
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.requests = most.min(bucket.requests + passed * self.a_second);
        bucket.at = bucket.at.max(now);
        if bucket.requests < 1.0 {
            let wait = (1.0 - bucket.requests) / self.a_second;
            return Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX));
        }
        bucket.requests -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit is reached by one tenant alone, and what was used comes back with time.
    #[test]
    fn tenants_have_their_own_requests() {
        let (rates, start) = (Rates::new(2), Instant::now());
        let at = |seconds| start + Duration::from_secs_f64(seconds);
        assert!((0..10).all(|_| rates.take("a", at(0.0)).is_ok()));
        assert_eq!(rates.take("a", at(0.0)), Err(Duration::from_millis(500)));
        assert_eq!(rates.take("a", at(0.25)), Err(Duration::from_millis(250)));
        assert!(rates.take("b", at(0.25)).is_ok());
        assert!(rates.take("a", at(0.5)).is_ok() && rates.take("a", at(0.5)).is_err());
        // Not more than the bucket holds, and never fewer when the clock stands still.
        assert!((0..10).all(|_| rates.take("a", at(1e6)).is_ok()));
        assert!(rates.take("a", at(1e6)).is_err() && rates.take("a", at(0.0)).is_err());
    }
}
