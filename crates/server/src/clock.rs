//! The time of the system.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub type Seconds = i64;

/// Seconds of a day.
pub const SECONDS_A_DAY: Seconds = 86_400;

/// Now; 0 if the clock stands before 1970.
#[must_use]
pub fn now() -> Seconds {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| Seconds::try_from(since.as_secs()).unwrap_or(Seconds::MAX))
}

/// The time as HTTP writes it, such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
#[must_use]
pub fn http_date(time: Seconds) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let time = time.max(0);
    let (days, second) = (time / SECONDS_A_DAY, time % SECONDS_A_DAY);
    let (year, day_of_year, months) = year_of(days);
    let mut day = day_of_year;
    let mut month = 0;
    while let Some(&length) = months.get(month)
        && day >= length
    {
        day -= length;
        month += 1;
    }
    let weekday = DAYS.get((days % 7) as usize).unwrap_or(&"");
    let month = MONTHS.get(month).unwrap_or(&"");
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{weekday}, {:02} {month} {year} {hour:02}:{minute:02}:{:02} GMT", day + 1, second % 60)
}

/// The year of a day since 1970, which day of it that is, and the lengths of its months.
fn year_of(mut days: i64) -> (i64, i64, [i64; 12]) {
    let mut year = 1970;
    loop {
        let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let length = 365 + i64::from(leap);
        if days < length {
            let february = 28 + i64::from(leap);
            return (year, days, [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]);
        }
        days -= length;
        year += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9110, the epoch, and both sides of leap days.
    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(http_date(951_868_800), "Wed, 01 Mar 2000 00:00:00 GMT");
        assert_eq!(http_date(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
    }
}
