//! Points in time as they stand in frames: milliseconds since 1970, or a date of ISO 8601.
//!
//! Peers of both habits exist. What the gateway sends is always milliseconds.

use serde_json::Value;

/// The latest time that is taken: the end of the year 9999, as far as ISO 8601 writes without agreement.
const TIME_MS_MAX: u64 = 253_402_300_799_999;

/// The time that a value means; `None` if it means none.
pub(crate) fn milliseconds(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            let time = number.as_f64().filter(|time| (0.0..=TIME_MS_MAX as f64).contains(time))?;
            number.as_u64().or(Some(time as u64))
        }
        Value::String(text) => of_iso(text),
        _ => None,
    }
}

/// `2026-03-31T12:00:00Z`, with fractions of a second and with another offset if need be; a bare date is its midnight.
fn of_iso(text: &str) -> Option<u64> {
    let (date, clock) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00:00Z"));
    let mut parts = date.splitn(3, '-');
    let (year, month, day) =
        (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_of_month(year, month) {
        return None;
    }
    let (clock, offset_minutes) = split_offset(clock)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| digits(second, 2))?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds =
        ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute - offset_minutes) * 60 + second;
    u64::try_from(seconds * 1000 + thousandths(fraction)?).ok().filter(|time| *time <= TIME_MS_MAX)
}

/// The clock and how many minutes it is ahead of UTC.
fn split_offset(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let at = clock.rfind(['+', '-'])?;
    let (clock, offset) = clock.split_at_checked(at)?;
    let (sign, offset) = offset.split_at_checked(1)?;
    let (hours, minutes) = offset.split_once(':')?;
    let minutes = digits(hours, 2)? * 60 + digits(minutes, 2)?;
    Some((clock, if sign == "-" { -minutes } else { minutes }))
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn thousandths(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<3}").get(..3)?.parse().ok()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leap_days_before = |year: i64| (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400;
    let years = (year - 1970) * 365 + leap_days_before(year) - leap_days_before(1970);
    years + (1..month).map(|month| days_of_month(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_habits_mean_the_same_moment() {
        let same = [
            json!(1_711_843_200_000_u64),
            json!(1_711_843_200_000.0),
            json!("2024-03-31T00:00:00Z"),
            json!("2024-03-31T00:00:00.000Z"),
            json!("2024-03-31T02:00:00+02:00"),
            json!("2024-03-30T19:30:00.0-04:30"),
            json!("2024-03-31"),
        ];
        for value in same {
            assert_eq!(milliseconds(&value), Some(1_711_843_200_000), "{value}");
        }
        assert_eq!(milliseconds(&json!("2000-02-29T12:00:00.25Z")), Some(951_825_600_250));
    }

    #[test]
    fn what_is_no_time_is_none() {
        let wrong = [
            json!("yesterday"),
            json!(""),
            json!("2024-02-30"),
            json!("2023-02-29"),
            json!("2024-13-01"),
            json!("2024-03-31T25:00:00Z"),
            json!("2024-03-31T00:00:00"),
            json!("2024-03-31T00:00:00.Z"),
            json!("1969-12-31T00:00:00Z"),
            json!(-1),
            json!(1e300),
            json!(true),
            json!(null),
        ];
        for value in wrong {
            assert_eq!(milliseconds(&value), None, "{value}");
        }
    }

    #[test]
    fn the_last_moment_is_taken_and_the_next_is_not() {
        assert_eq!(milliseconds(&json!(TIME_MS_MAX)), Some(TIME_MS_MAX));
        assert_eq!(milliseconds(&json!("9999-12-31T23:59:59.999Z")), Some(TIME_MS_MAX));
        assert_eq!(milliseconds(&json!(TIME_MS_MAX + 1)), None);
    }
}
