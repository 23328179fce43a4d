//! Dates and points in time of ISO 8601 as days since 1970-01-01, and their parts.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use serde::{Deserialize, Serialize};

const SECONDS_A_DAY: f64 = 86_400.0;

/// A part of a date or a point in time, in UTC.
// Notes store the number of the variant, so only append variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatePart {
    /// Days since 1970-01-01, with their fraction.
    Days,
    /// The year.
    Year,
    /// The month, from 1 to 12.
    Month,
    /// The day of the month, from 1 to 31.
    Day,
    /// The day of the week, from 0 for Monday to 6 for Sunday, as in pandas.
    Weekday,
    /// The hour of the day, from 0 to 23.
    Hour,
}

impl DatePart {
    /// All parts.
    pub const ALL: [Self; 6] =
        [Self::Days, Self::Year, Self::Month, Self::Day, Self::Weekday, Self::Hour];

    /// Returns the name of the part.
    pub fn name(self) -> &'static str {
        match self {
            Self::Days => "days",
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
            Self::Weekday => "weekday",
            Self::Hour => "hour",
        }
    }

    /// Returns the part of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// Returns the name of the column of this part of a column of dates.
    pub(super) fn column_of(self, column: &str) -> String {
        format!("{column} {}", self.name())
    }

    /// Returns the part of a point in time, from its days since 1970-01-01. It is NaN for NaN, and
    /// for a point outside the years that [`days`] reads.
    pub(super) fn of(self, days: f64) -> f64 {
        let whole = days.floor();
        let date = || calendar(whole as i32).filter(|_| whole.abs() < 4e6);
        let of_date = |part: fn(&Date) -> i32| date().map_or(f64::NAN, |date| part(&date).into());
        match self {
            _ if days.is_nan() => f64::NAN,
            Self::Days => days,
            Self::Year => of_date(|date| date.year),
            Self::Month => of_date(|date| date.month),
            Self::Day => of_date(|date| date.day),
            // 1970-01-01 was a Thursday.
            Self::Weekday => (whole + 3.0).rem_euclid(7.0),
            Self::Hour => {
                // Days are rounded to less than a microsecond, which may end an hour early.
                let seconds = ((days - whole) * SECONDS_A_DAY * 1e3).round() / 1e3;
                (seconds / 3600.0).floor().min(23.0)
            }
        }
    }
}

/// A day of the Gregorian calendar.
struct Date {
    year: i32,
    month: i32,
    day: i32,
}

/// Returns the days since 1970-01-01 of a date such as `2024-01-31`, or of a point in time such as
/// `2024-01-31T08:30`, `2024-01-31 08:30:15.25` or `2024-01-31T08:30:00+02:00`. A time without an
/// offset counts as UTC. Returns `None` for any other text.
pub fn days(text: &str) -> Option<f64> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    if parts.next().is_some() || !(1..=12).contains(&month) {
        return None;
    }
    if !(1..=length_of_month(year, month)).contains(&day) {
        return None;
    }
    let whole = f64::from(day_number(year, month, day));
    // Summed as seconds first, so that each point in time is rounded once.
    match time {
        None => Some(whole),
        Some(time) => Some((whole * SECONDS_A_DAY + seconds(time)?) / SECONDS_A_DAY),
    }
}

/// Parses exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<i32> {
    let all = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| all)
}

/// Returns the seconds since midnight in UTC of `HH:MM`, with seconds, their fraction and an offset
/// where they are given.
fn seconds(time: &str) -> Option<f64> {
    let (clock, offset) = match (time.strip_suffix('Z'), time.rfind(['+', '-'])) {
        (Some(clock), _) => (clock, 0.0),
        (None, Some(at)) => {
            let (clock, offset) = time.split_at_checked(at)?;
            (clock, offset_seconds(offset)?)
        }
        (None, None) => (time, 0.0),
    };
    let mut parts = clock.splitn(3, ':');
    let hours = digits(parts.next()?, 2).filter(|&hours| hours < 24)?;
    let minutes = digits(parts.next()?, 2).filter(|&minutes| minutes < 60)?;
    let seconds = match parts.next() {
        None => 0.0,
        Some(text) => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
            let is_fraction = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
            digits(whole, 2).filter(|&whole| whole < 60 && is_fraction)?;
            text.parse().ok()?
        }
    };
    Some(f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0 + seconds - offset)
}

/// Returns the seconds of an offset such as `+02:00`, `+0200` or `+02`.
fn offset_seconds(text: &str) -> Option<f64> {
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let text = text.get(1..)?;
    let (hours, minutes) = match text.len() {
        2 => (text, "00"),
        4 => text.split_at_checked(2)?,
        _ => text.split_once(':')?,
    };
    let hours = digits(hours, 2).filter(|&hours| hours < 24)?;
    let minutes = digits(minutes, 2).filter(|&minutes| minutes < 60)?;
    Some(sign * (f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0))
}

fn length_of_month(year: i32, month: i32) -> i32 {
    let is_leap =
        year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 to a day of the Gregorian calendar with a year of four digits.
#[expect(clippy::arithmetic_side_effects, reason = "years have four digits, so nothing overflows")]
fn day_number(year: i32, month: i32, day: i32) -> i32 {
    // The year starts in March, so that the leap day is its last one.
    let year = if month > 2 { year } else { year - 1 };
    let months = (month + 9).rem_euclid(12);
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // (153 m + 2) / 5 is the number of days of the first m months from March on.
    let of_year = (153 * months + 2).div_euclid(5) + day - 1;
    // 719468 days lie between 0000-03-01 and 1970-01-01.
    365 * year + leap_days + of_year - 719_468
}

/// Returns the day with this number of days since 1970-01-01, or `None` unless its year has four
/// digits.
fn calendar(days: i32) -> Option<Date> {
    // Found by the inverse function: the year is off by at most one.
    let longest = if days < 0 { 365 } else { 366 };
    let estimate = 1970_i32.saturating_add(days.div_euclid(longest).max(-1970));
    let starts_by = |year: &i32| day_number(*year, 1, 1) <= days;
    let year = (estimate.clamp(0, 9999)..=9999).take_while(starts_by).last()?;
    let month = (1..=12).take_while(|&month| day_number(year, month, 1) <= days).last()?;
    let day = days.checked_sub(day_number(year, month, 1))?.checked_add(1)?;
    (day <= length_of_month(year, month)).then_some(Date { year, month, day })
}

/// Returns the date of a number of days since 1970-01-01, or `None` unless its year has four digits.
#[cfg(feature = "parquet")]
pub fn date(days: i32) -> Option<String> {
    calendar(days).map(|Date { year, month, day }| format!("{year:04}-{month:02}-{day:02}"))
}

/// Returns the point in time of a number of seconds since 1970-01-01, to microseconds, or `None`
/// unless its year has four digits.
#[cfg(feature = "parquet")]
pub fn point_in_time(seconds: f64) -> Option<String> {
    let day = (seconds / SECONDS_A_DAY).floor();
    let micros = ((seconds - day * SECONDS_A_DAY) * 1e6).round().min(SECONDS_A_DAY * 1e6 - 1.0);
    let date = date(day as i32).filter(|_| day.abs() < 4e6)?;
    let micros = micros as u64;
    let whole = micros.div_euclid(1_000_000);
    let minutes = whole.div_euclid(60);
    Some(format!(
        "{date}T{:02}:{:02}:{:02}.{:06}",
        minutes.div_euclid(60),
        minutes.rem_euclid(60),
        whole.rem_euclid(60),
        micros.rem_euclid(1_000_000)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Days as Python's `datetime` counts them.
    #[test]
    fn dates_are_days() {
        for (text, number) in [
            ("1970-01-01", 0.0),
            ("1969-12-31", -1.0),
            ("2000-02-29", 11_016.0),
            ("2024-01-31", 19_753.0),
            ("0001-01-01", -719_162.0),
            ("9999-12-31", 2_932_896.0),
            ("1970-01-02T12:00", 1.5),
            ("1970-01-02 06:00:00", 1.25),
            ("1970-01-02T06:00:00.000Z", 1.25),
            ("1970-01-02T00:00:00+06:00", 0.75),
            ("1970-01-01T18:00:00-0600", 1.0),
            ("1970-01-01T00:00:43.2+00", 0.0005),
        ] {
            assert_eq!(days(text), Some(number), "{text}");
        }
        for text in [
            "",
            "2024",
            "2024-1-31",
            "2024-13-01",
            "2023-02-29",
            "1900-02-29",
            "2024-00-10",
            "2024-01-00",
            "20240131",
            "31.01.2024",
            "2024-01-31T",
            "2024-01-31T8:30",
            "2024-01-31T24:00",
            "2024-01-31T08:60",
            "2024-01-31T08:30:61",
            "2024-01-31T08:30:",
            "2024-01-31T08:30:00.",
            "2024-01-31T08:30+2",
            "2024-01-31T08:30+é",
            "2024-01-31-01",
            "+024-01-31",
            "2024-01-31T08:30:00.1e1",
        ] {
            assert_eq!(days(text), None, "{text}");
        }
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn days_are_dates() {
        for number in (-719_528..2_932_897).step_by(31) {
            assert_eq!(days(&date(number).unwrap()), Some(f64::from(number)));
        }
        for number in [i32::MIN, -719_529, 2_932_897, i32::MAX] {
            assert_eq!(date(number), None, "{number}");
        }
        assert_eq!(point_in_time(86_400.25).as_deref(), Some("1970-01-02T00:00:00.250000"));
        assert_eq!(point_in_time(-1.0).as_deref(), Some("1969-12-31T23:59:59.000000"));
        assert_eq!((point_in_time(1e300), point_in_time(f64::NAN)), (None, None));
    }
}
