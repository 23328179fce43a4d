//! Rates: the requests per second of each tenant, and the requests that it has open.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Seconds of requests that a tenant may make at once.
const BURST_SECONDS: f64 = 5.0;
/// Seconds of audited acts that a tenant may make at once.
const ACT_BURST_SECONDS: f64 = 3600.0;

/// Token buckets, one for each tenant, which refill with time.
pub struct Rates {
    per_second: f64,
    capacity: f64,
    // It only grows, but by names with a valid token, which the operator made.
    buckets: Mutex<HashMap<String, Bucket>>,
}

struct Bucket {
    requests: f64,
    at: Instant,
}

impl Rates {
    /// Allows each tenant `per_second` requests per second.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        Self::with(per_second.into(), BURST_SECONDS)
    }

    /// Allows each tenant `per_hour` audited acts per hour, which may come at once.
    #[must_use]
    pub fn per_hour(per_hour: u32) -> Self {
        Self::with(f64::from(per_hour) / 3600.0, ACT_BURST_SECONDS)
    }

    fn with(per_second: f64, at_once: f64) -> Self {
        Self { per_second, capacity: per_second * at_once, buckets: Mutex::default() }
    }

    /// Counts a request of a tenant.
    ///
    /// # Errors
    /// The time until the next request, if the tenant has no request left.
    pub fn take(&self, tenant: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.capacity;
        let full = || Bucket { requests: most, at: now };
        let bucket = buckets.entry(tenant.into()).or_insert_with(full);
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.requests = most.min(bucket.requests + passed * self.per_second);
        // Another thread may come with an earlier time. Going back would refill the same seconds
        // twice.
        bucket.at = bucket.at.max(now);
        if bucket.requests < 1.0 {
            let wait = (1.0 - bucket.requests) / self.per_second;
            return Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX));
        }
        bucket.requests -= 1.0;
        Ok(())
    }
}

/// Open requests of each tenant and worker, until the last byte of each response.
pub struct OpenRequests {
    max: u32,
    open: Mutex<HashMap<String, u32>>,
}

/// A request that counts as open until it is dropped.
pub struct OpenRequest {
    of: Arc<OpenRequests>,
    name: String,
}

impl OpenRequests {
    /// Allows each tenant or worker `max` open requests.
    #[must_use]
    pub fn new(max: u32) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default() })
    }

    /// Counts an open request. Returns `None` if there are too many.
    #[must_use]
    pub fn open(self: &Arc<Self>, name: &str) -> Option<OpenRequest> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(name.into()).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(OpenRequest { of: Arc::clone(self), name: name.into() })
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut open = self.of.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_until_they_are_dropped() {
        let all = OpenRequests::new(2);
        let first = [(); 2].map(|()| all.open("a").unwrap());
        assert!(all.open("a").is_none() && all.open("b").is_some());
        drop(first);
        assert!(all.open("a").is_some() && all.open.lock().unwrap().is_empty());
    }

    /// Allows the acts of an hour at once, and refills one by one.
    #[test]
    fn acts_come_back_over_an_hour() {
        let acts = Rates::per_hour(60);
        let start = Instant::now();
        assert!((0..60).all(|_| acts.take("a", start).is_ok()));
        assert_eq!(acts.take("a", start), Err(Duration::from_secs(60)));
        assert!(acts.take("a", start + Duration::from_secs(61)).is_ok());
        assert!(acts.take("b", start).is_ok());
    }

    /// Keeps the limits of tenants apart, and refills with time.
    #[test]
    fn tenants_have_their_own_requests() {
        let rates = Rates::new(2);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs_f64(seconds);
        assert!((0..10).all(|_| rates.take("a", at(0.0)).is_ok()));
        assert_eq!(rates.take("a", at(0.0)), Err(Duration::from_millis(500)));
        assert_eq!(rates.take("a", at(0.25)), Err(Duration::from_millis(250)));
        assert!(rates.take("b", at(0.25)).is_ok());
        assert!(rates.take("a", at(0.5)).is_ok() && rates.take("a", at(0.5)).is_err());
        // A bucket has a maximum, and a clock that stands still takes nothing away.
        assert!((0..10).all(|_| rates.take("a", at(1e6)).is_ok()));
        assert!(rates.take("a", at(1e6)).is_err() && rates.take("a", at(0.0)).is_err());
    }
}
