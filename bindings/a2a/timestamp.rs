//! Timestamps in frames: milliseconds since 1970, or ISO 8601 dates.
//!
//! Peers send both. The gateway sends milliseconds.

use serde_json::Value;

/// The latest valid time: the end of the year 9999, the last that ISO 8601 writes with four digits.
const TIME_MS_MAX: u64 = 253_402_300_799_999;

/// Parses a timestamp into milliseconds since 1970.
pub(crate) fn parse_ms(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => {
            let time = number.as_f64().filter(|time| (0.0..=TIME_MS_MAX as f64).contains(time))?;
            number.as_u64().or(Some(time as u64))
        }
        Value::String(text) => parse_iso(text),
        _ => None,
    }
}

/// Parses `2026-03-31T12:00:00Z`, with optional fractions of a second and any offset. A date alone
/// is its midnight in UTC.
fn parse_iso(text: &str) -> Option<u64> {
    let (date, clock) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00:00Z"));
    let mut parts = date.splitn(3, '-');
    let (year, month, day) =
        (parse_digits(parts.next()?, 4)?, parse_digits(parts.next()?, 2)?, parse_digits(parts.next()?, 2)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_of_month(year, month) {
        return None;
    }
    let (clock, offset_minutes) = split_offset(clock)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (parse_digits(parts.next()?, 2)?, parse_digits(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| parse_digits(second, 2))?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds =
        ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute - offset_minutes) * 60 + second;
    u64::try_from(seconds * 1000 + parse_milliseconds(fraction)?).ok().filter(|time| *time <= TIME_MS_MAX)
}

/// Returns the clock time, and its offset from UTC in minutes.
fn split_offset(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let at = clock.rfind(['+', '-'])?;
    let (clock, offset) = clock.split_at_checked(at)?;
    let (sign, offset) = offset.split_at_checked(1)?;
    let (hours, minutes) = offset.split_once(':')?;
    let minutes = parse_digits(hours, 2)? * 60 + parse_digits(minutes, 2)?;
    Some((clock, if sign == "-" { -minutes } else { minutes }))
}

fn parse_digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn parse_milliseconds(fraction: &str) -> Option<i64> {
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
    fn numbers_and_iso_dates_parse_to_the_same_time() {
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
            assert_eq!(parse_ms(&value), Some(1_711_843_200_000), "{value}");
        }
        assert_eq!(parse_ms(&json!("2000-02-29T12:00:00.25Z")), Some(951_825_600_250));
    }

    #[test]
    fn invalid_timestamps_are_none() {
        let invalid = [
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
        for value in invalid {
            assert_eq!(parse_ms(&value), None, "{value}");
        }
    }

    #[test]
    fn time_past_the_limit_is_none() {
        assert_eq!(parse_ms(&json!(TIME_MS_MAX)), Some(TIME_MS_MAX));
        assert_eq!(parse_ms(&json!("9999-12-31T23:59:59.999Z")), Some(TIME_MS_MAX));
        assert_eq!(parse_ms(&json!(TIME_MS_MAX + 1)), None);
    }
}
