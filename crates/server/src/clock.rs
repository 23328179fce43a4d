//! Time of the system.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub type Seconds = i64;

/// Seconds per day.
pub const SECONDS_A_DAY: Seconds = 86_400;

/// Returns the current time, or 0 if the clock is before 1970.
#[must_use]
pub fn now() -> Seconds {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| Seconds::try_from(since.as_secs()).unwrap_or(Seconds::MAX))
}

/// The last second that an HTTP date can express: the end of the year 9999.
const MAX_HTTP_DATE: Seconds = 253_402_300_799;

/// Formats a time for HTTP, such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
#[must_use]
pub fn http_date(time: Seconds) -> String {
    // `fmt_http_date` panics outside these years.
    let since = time.clamp(0, MAX_HTTP_DATE).unsigned_abs();
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats the example of RFC 9110, the epoch, and dates around leap days.
    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(http_date(951_868_800), "Wed, 01 Mar 2000 00:00:00 GMT");
        assert_eq!(http_date(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
        assert_eq!(http_date(-1), http_date(0));
        assert_eq!(http_date(Seconds::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
