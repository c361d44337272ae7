//! Moments in time: a `Date` in a script.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use super::super::tags::{date_days, is_date};
use super::{read_tag, tag_schema, write_tag};

const TAG: &str = "$date";

/// The latest moment of a `Date`, and with a minus the earliest.
const UNIX_MS_MAX: i64 = 8_640_000_000_000_000;

const DAY_MS: i64 = 86_400_000;

/// A moment, to the millisecond, which a script has as a `Date`.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
///
/// use scomp::values::Date;
///
/// let date: Date = "2026-01-31T12:00:00.250Z".parse()?;
/// assert_eq!(serde_json::to_string(&date)?, r#"{"$date":"2026-01-31T12:00:00.250Z"}"#);
/// assert_eq!(Date::try_from(UNIX_EPOCH + Duration::from_millis(5))?.to_string(), "1970-01-01T00:00:00.005Z");
/// assert!(Date::now() > date);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    unix_ms: i64,
}

/// A text that is not a date, or a moment that a `Date` cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a date in ISO form, at most 100,000,000 days from 1970")]
pub struct DateError;

impl Date {
    /// The moment that many milliseconds after the start of 1970 (UTC), or before it. `None` beyond the range of a
    /// `Date`, which is 100,000,000 days.
    pub fn from_unix_ms(unix_ms: i64) -> Option<Self> {
        (-UNIX_MS_MAX..=UNIX_MS_MAX).contains(&unix_ms).then_some(Self { unix_ms })
    }

    /// Now, by the clock of the system.
    pub fn now() -> Self {
        Self::try_from(SystemTime::now()).unwrap_or(Self { unix_ms: UNIX_MS_MAX })
    }

    /// Milliseconds since the start of 1970 (UTC).
    pub fn unix_ms(self) -> i64 {
        self.unix_ms
    }
}

impl TryFrom<SystemTime> for Date {
    type Error = DateError;

    /// What is less than a millisecond is cut off.
    fn try_from(time: SystemTime) -> Result<Self, DateError> {
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).map_err(|_| DateError);
        let unix_ms = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => ms(after)?,
            Err(before) => -ms(before.duration())?,
        };
        Self::from_unix_ms(unix_ms).ok_or(DateError)
    }
}

impl From<Date> for SystemTime {
    fn from(date: Date) -> Self {
        let distance = Duration::from_millis(date.unix_ms.unsigned_abs());
        if date.unix_ms < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }
}

impl FromStr for Date {
    type Err = DateError;

    /// Reads the forms of ECMA-262. A text without a time zone is UTC.
    fn from_str(text: &str) -> Result<Self, DateError> {
        let (date, time) = text.split_once('T').unwrap_or((text, "00:00Z"));
        let time_ms = is_date(text).then(|| time_ms(time)).flatten().ok_or(DateError)?;
        let days = date_days(date).ok_or(DateError)?;
        Self::from_unix_ms(days * DAY_MS + time_ms).ok_or(DateError)
    }
}

/// Milliseconds from the start of the day in UTC to a time that was checked.
fn time_ms(time: &str) -> Option<i64> {
    let at = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let units = [3_600_000, 60_000, 1_000];
    let parts = clock.split(':').zip(units).map(|(part, unit)| Some(part.parse::<i64>().ok()? * unit));
    let fraction: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let offset_ms = match zone.split_once(':') {
        Some((hours, minutes)) => {
            let sign = if hours.starts_with('-') { -1 } else { 1 };
            let hours = hours.get(1..)?.parse::<i64>().ok()?;
            sign * (hours * 60 + minutes.parse::<i64>().ok()?) * 60_000
        }
        None => 0,
    };
    Some(parts.sum::<Option<i64>>()? + fraction - offset_ms)
}

impl fmt::Display for Date {
    /// The form of `Date.prototype.toISOString`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.unix_ms.div_euclid(DAY_MS));
        let ms = self.unix_ms.rem_euclid(DAY_MS);
        match year {
            0..=9999 => write!(f, "{year:04}")?,
            _ => write!(f, "{year:+07}")?,
        }
        let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(f, "-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", ms % 1000)
    }
}

/// Year, month and day of a day counted from 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that a leap day is the last of its year; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_of_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_of_march + 2) / 5 + 1;
    let month = if month_of_march < 10 { month_of_march + 3 } else { month_of_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_tag(serializer, TAG, self)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_tag(deserializer, TAG)?.parse().map_err(|error| D::Error::custom(format_args!("{TAG}: {error}")))
    }
}

impl JsonSchema for Date {
    fn schema_name() -> Cow<'static, str> {
        "Date".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        tag_schema(TAG, json!({"type": "string"}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unix_ms(text: &str) -> Option<i64> {
        text.parse().ok().map(Date::unix_ms)
    }

    #[test]
    fn date_is_read_in_every_form() {
        assert_eq!(unix_ms("1970-01-02"), Some(DAY_MS));
        assert_eq!(unix_ms("1970-01-01T00:01Z"), Some(60_000));
        assert_eq!(unix_ms("1970-01-01T00:01:01"), Some(61_000));
        assert_eq!(unix_ms("1970-01-01T00:00:00.1234Z"), Some(123));
        assert_eq!(unix_ms("1970-01-01T01:30:00.5+01:30"), Some(500));
        assert_eq!(unix_ms("1970-01-01T00:00-00:01"), Some(60_000));
        assert_eq!(unix_ms("1970-01-01T24:00:00Z"), Some(DAY_MS));
        assert_eq!(unix_ms("2000-02-29"), Some(951_782_400_000));
        for text in ["", "nope", "1970", "1970-02-30", "1970-01-01T25:00Z", "+275760-09-13T00:00:00.001Z"] {
            assert_eq!(unix_ms(text), None, "{text}");
        }
    }

    #[test]
    fn date_at_the_end_of_its_range_is_exact() {
        for (unix_ms, text) in
            [(UNIX_MS_MAX, "+275760-09-13T00:00:00.000Z"), (-UNIX_MS_MAX, "-271821-04-20T00:00:00.000Z")]
        {
            assert_eq!(Date::from_unix_ms(unix_ms).unwrap().to_string(), text);
            assert_eq!(Date::from_unix_ms(unix_ms + unix_ms.signum()), None);
        }
    }

    proptest! {
        #[test]
        fn date_survives_text_and_system_time(unix_ms in -UNIX_MS_MAX..=UNIX_MS_MAX) {
            let date = Date::from_unix_ms(unix_ms).unwrap();
            prop_assert_eq!(date.to_string().parse::<Date>(), Ok(date));
            prop_assert!(is_date(&date.to_string()));
            prop_assert_eq!(Date::try_from(SystemTime::from(date)), Ok(date));
        }
    }
}
