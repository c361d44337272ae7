//! Whether the tags of a value on the wire are well formed.
//!
//! A script never sees a malformed tag, because building the value fails. What goes to a handler, or from an executable
//! to a client, is not built here, so it is checked: `{"$date": "nope"}` is an error of its message with the path,
//! wherever it was going.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use crate::protocol::declaration::pointer_to;
use crate::protocol::methods::Payload;
use crate::protocol::plain::{FUNCTION_TAG, TAGS};
use crate::rpc::{ErrorObject, Kind};

/// Longest decimal text of a `$bigint`: parsing takes time with the square of it.
pub(crate) const BIGINT_CHARS_MAX: usize = 10_000;

/// The latest moment of a `Date`, in days before or after 1970.
const DAYS_MAX: i64 = 100_000_000;

/// A malformed tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagError {
    /// JSON Pointer into the value.
    pub(crate) path: String,
    /// What was expected.
    pub(crate) message: String,
}

impl TagError {
    fn new(message: impl Into<String>) -> Self {
        Self { path: String::new(), message: message.into() }
    }

    fn inside(mut self, segment: &str) -> Self {
        self.path.insert_str(0, &pointer_to(segment));
        self
    }

    /// The error for a value at `place` of a message, which is `/input` or empty.
    pub(crate) fn into_object(self, kind: Kind, place: &str) -> ErrorObject {
        let path = format!("{place}{}", self.path);
        ErrorObject::new(kind, format!("{path}: {}", self.message)).with("path", path)
    }
}

/// Finds the first malformed tag. The decoder of messages bounds the recursion.
pub(crate) fn check(value: &Value) -> Result<(), TagError> {
    match value {
        Value::Array(items) => check_all(items),
        Value::Object(fields) => check_object(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Refuses an `invoke` with a malformed tag; the path counts from the parameters.
pub(crate) fn check_payload(payload: &Payload) -> Result<(), ErrorObject> {
    match payload {
        Payload::Input(input) => {
            check(input).map_err(|error| error.into_object(Kind::InvalidParams, "/input"))
        }
        Payload::Args(arguments) => check_arguments(arguments),
    }
}

/// The same for the arguments of a function.
pub(crate) fn check_arguments(arguments: &[Value]) -> Result<(), ErrorObject> {
    check_all(arguments).map_err(|error| error.into_object(Kind::InvalidParams, "/args"))
}

/// Refuses the answer to an `invoke` with a malformed tag; the path counts from the value.
pub(crate) fn check_answer(value: Value) -> Result<Value, ErrorObject> {
    check(&value).map_err(|error| error.into_object(Kind::InvalidOutput, ""))?;
    Ok(value)
}

fn check_all(items: &[Value]) -> Result<(), TagError> {
    let mut numbered = items.iter().enumerate();
    numbered.try_for_each(|(index, item)| check(item).map_err(|error| error.inside(&index.to_string())))
}

fn check_fields(fields: &Map<String, Value>) -> Result<(), TagError> {
    fields.iter().try_for_each(|(key, field)| check(field).map_err(|error| error.inside(key)))
}

fn check_object(fields: &Map<String, Value>) -> Result<(), TagError> {
    if let Some(id) = fields.get(FUNCTION_TAG) {
        return check_function(id, fields.get("name"));
    }
    let mut entries = fields.iter();
    match (entries.next(), entries.next()) {
        (Some((tag, payload)), None) if TAGS.contains(&tag.as_str()) => {
            check_tag(tag, payload).map_err(|error| error.inside(tag))
        }
        _ => check_fields(fields),
    }
}

fn check_function(id: &Value, name: Option<&Value>) -> Result<(), TagError> {
    let expected = || TagError::new("expected a string");
    if !id.is_string() {
        return Err(expected().inside(FUNCTION_TAG));
    }
    if name.is_some_and(|name| !name.is_string()) {
        return Err(expected().inside("name"));
    }
    Ok(())
}

fn check_tag(tag: &str, payload: &Value) -> Result<(), TagError> {
    let expect = |holds: bool, expected: &str| {
        if holds { Ok(()) } else { Err(TagError::new(format!("expected {expected}"))) }
    };
    match (tag, payload) {
        ("$undefined", Value::Bool(true)) => Ok(()),
        ("$number", Value::String(text)) => {
            expect(special_number(text).is_some(), "NaN, Infinity, -Infinity or -0")
        }
        ("$bigint", Value::String(text)) => {
            expect(is_bigint(text), "a decimal integer of at most 10000 digits")
        }
        ("$date", Value::String(text)) => expect(is_date(text), "a date in ISO form"),
        ("$bytes", Value::String(text)) => expect(BASE64.decode(text).is_ok(), "base64"),
        ("$map", Value::Array(entries)) => check_entries(entries),
        ("$set", Value::Array(members)) => check_all(members),
        ("$error", Value::Object(parts)) => check_error(parts),
        ("$object", Value::Object(fields)) => check_fields(fields),
        _ => Err(TagError::new(format!("`{tag}` has a payload of the wrong type"))),
    }
}

fn check_entries(entries: &[Value]) -> Result<(), TagError> {
    for (index, entry) in entries.iter().enumerate() {
        let checked = match entry {
            Value::Array(pair) if pair.len() == 2 => check_all(pair),
            _ => Err(TagError::new("expected a pair of key and value")),
        };
        checked.map_err(|error| error.inside(&index.to_string()))?;
    }
    Ok(())
}

fn check_error(parts: &Map<String, Value>) -> Result<(), TagError> {
    for key in ["name", "message", "stack"] {
        if parts.get(key).is_some_and(|part| !part.is_string()) {
            return Err(TagError::new("expected a string").inside(key));
        }
    }
    parts.get("cause").map_or(Ok(()), |cause| check(cause).map_err(|error| error.inside("cause")))
}

/// The number that JSON has no form for.
pub(crate) fn special_number(text: &str) -> Option<f64> {
    Some(match text {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        "-0" => -0.0,
        _ => return None,
    })
}

/// Whether a text is a decimal integer of a length that is parsed.
pub(crate) fn is_bigint(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.len() <= BIGINT_CHARS_MAX && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is a date, or a date and time, in the form of ECMA-262 and within the range of a `Date`:
/// `2026-01-31`, `2026-01-31T12:00Z`, `2026-01-31T12:00:00.000+01:00`, `+012026-01-31T00:00:00.000Z`.
pub(crate) fn is_date(text: &str) -> bool {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    date_days(date).is_some_and(|days| days.abs() <= DAYS_MAX) && time.is_none_or(is_time)
}

/// Days from 1970 to a date, if there is such a date.
pub(super) fn date_days(date: &str) -> Option<i64> {
    let (sign, year, rest) = match date.as_bytes().first()? {
        b'+' => (1, date.get(1..7)?, date.get(7..)?),
        b'-' => (-1, date.get(1..7)?, date.get(7..)?),
        _ => (1, date.get(..4)?, date.get(4..)?),
    };
    if sign < 0 && year == "000000" {
        return None;
    }
    let (month, day) = rest.strip_prefix('-')?.split_once('-')?;
    let (year, month, day) = (sign * digits(year, year.len())?, digits(month, 2)?, digits(day, 2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // Counted from March on, so that a leap day is the last of its year.
    let (year_of_march, month_of_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days =
        year_of_march.div_euclid(4) - year_of_march.div_euclid(100) + year_of_march.div_euclid(400);
    let days = year_of_march * 365 + leap_days + (153 * month_of_march + 2) / 5 + day - 1 - 719_468;
    (1..=days_in_month).contains(&day).then_some(days)
}

fn is_time(time: &str) -> bool {
    let (clock, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, "Z"),
    };
    let (hms, fraction) = match clock.split_once('.') {
        Some((hms, fraction)) => (hms, Some(fraction)),
        None => (clock, None),
    };
    let parts: Option<Vec<i64>> = hms.split(':').map(|part| digits(part, 2)).collect();
    let is_clock = match parts.as_deref() {
        Some([hours, minutes]) => fraction.is_none() && is_of_day(*hours, *minutes, 0),
        Some([hours, minutes, seconds]) => is_of_day(*hours, *minutes, *seconds),
        _ => false,
    };
    let is_fraction = fraction
        .is_none_or(|text| (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()));
    is_clock && is_fraction && is_zone(zone)
}

fn is_of_day(hours: i64, minutes: i64, seconds: i64) -> bool {
    (hours < 24 && minutes < 60 && seconds < 60) || (hours, minutes, seconds) == (24, 0, 0)
}

fn is_zone(zone: &str) -> bool {
    let offset = zone.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':'));
    let is_offset = |(hours, minutes): (&str, &str)| {
        digits(hours, 2).is_some_and(|hours| hours < 24)
            && digits(minutes, 2).is_some_and(|minutes| minutes < 60)
    };
    zone == "Z" || offset.is_some_and(is_offset)
}

/// A number of exactly that many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn well_formed_tags_pass() {
        for value in [
            json!({"$undefined": true}),
            json!({"$number": "-0"}),
            json!({"$bigint": "-12"}),
            json!({"$date": "2026-01-01T00:00:00.000Z"}),
            json!({"$bytes": "AAE="}),
            json!({"$map": [[{"$date": "2026-01-01"}, {"$set": [1]}]]}),
            json!({"$error": {"name": "E", "message": "m", "cause": {"$bigint": "1"}}}),
            json!({"$object": {"$date": "nope"}}),
            json!({"$fn": "f1", "name": "tick"}),
            json!({"$date": "nope", "more": 1}),
        ] {
            assert_eq!(check(&json!({"deep": [value]})), Ok(()), "{value}");
        }
    }

    #[test]
    fn malformed_tags_are_found_at_any_depth() {
        for (tag, path) in [
            (json!({"$undefined": false}), "/$undefined"),
            (json!({"$number": "7"}), "/$number"),
            (json!({"$bigint": "0x1"}), "/$bigint"),
            (json!({"$date": "nope"}), "/$date"),
            (json!({"$date": 5}), "/$date"),
            (json!({"$bytes": "*"}), "/$bytes"),
            (json!({"$map": [[1]]}), "/$map/0"),
            (json!({"$map": [[1, {"$set": 5}]]}), "/$map/0/1/$set"),
            (json!({"$set": [0, {"$bigint": ""}]}), "/$set/1/$bigint"),
            (json!({"$error": {"name": 5}}), "/$error/name"),
            (json!({"$error": {"cause": {"$date": "x"}}}), "/$error/cause/$date"),
            (json!({"$object": {"a": {"$date": "x"}}}), "/$object/a/$date"),
            (json!({"$object": 5}), "/$object"),
            (json!({"$fn": 5}), "/$fn"),
            (json!({"$fn": "f1", "name": 5}), "/name"),
        ] {
            for (value, at) in [(tag.clone(), ""), (json!({"a/b": [0, tag]}), "/a~1b/1")] {
                assert_eq!(check(&value).unwrap_err().path, format!("{at}{path}"), "{value}");
            }
        }
        let error = check(&json!({"at": {"$date": "nope"}})).unwrap_err();
        let error = error.into_object(Kind::InvalidParams, "/input");
        assert_eq!(error.message, "/input/at/$date: expected a date in ISO form");
        assert_eq!(error.data.unwrap()["path"], "/input/at/$date");
    }

    #[test]
    fn bigint_is_limited_in_length() {
        assert!(is_bigint(&"9".repeat(BIGINT_CHARS_MAX)) && !is_bigint(&"9".repeat(BIGINT_CHARS_MAX + 1)));
        assert!(!is_bigint("") && !is_bigint("-") && !is_bigint("1.5") && !is_bigint("+1"));
    }

    #[test]
    fn dates_outside_the_calendar_are_refused() {
        for date in [
            "2026-01-31",
            "2024-02-29",
            "2000-02-29",
            "2026-01-31T12:00Z",
            "2026-01-31T12:00:00",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:00:00.1234+01:30",
            "+275760-09-13T00:00:00.000Z",
            "-271821-04-20T00:00:00.000Z",
            "0000-01-01T00:00Z",
        ] {
            assert!(is_date(date), "{date}");
        }
        for date in [
            "",
            "nope",
            "2026",
            "2026-1-1",
            "2026-13-01",
            "2026-02-29",
            "1900-02-29",
            "2026-01-00",
            "2026-01-31 12:00",
            "2026-01-31T",
            "2026-01-31T25:00Z",
            "2026-01-31T12Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00+1",
            "Jan 1 2026",
            "+275760-09-14",
            "-000000-01-01",
            "2026-01-31T12:00:00Zé",
            "２026-01-31",
            "T",
            "+12-01-01",
            "20é6-01-01",
        ] {
            assert!(!is_date(date), "{date}");
        }
    }
}
