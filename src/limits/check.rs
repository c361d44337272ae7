//! Which values the limits may have. A server is not started with limits that would crash it, or with which it could serve
//! nothing.

use std::time::Duration;

use super::{Limits, SettingCheck, SettingsError};

/// Least memory of a session.
/// A fresh context takes 281 KB, one with all of the prelude loaded some 600 KB, and a script needs room as well. Below what a
/// context takes, QuickJS fails in the middle of making one.
pub const MEMORY_BYTES_MIN: usize = 1 << 20;

/// What a session may take past its limit until its script has ended. A script makes some ten thousand small blocks before
/// QuickJS polls.
pub(crate) const MEMORY_RESERVE_BYTES: usize = 64 << 20;

/// Most memory of a session: its heap lies in a window of 256 MiB, with the reserve and with what is lost between blocks.
pub const MEMORY_BYTES_MAX: usize = (240 << 20) - MEMORY_RESERVE_BYTES;

/// Least memory of all sessions: with less than a fresh context and a small script need, no session would be admitted.
pub const MEMORY_TOTAL_BYTES_MIN: usize = MEMORY_BYTES_MIN;

/// Least memory for what binding calls pass. An input of a few fields takes some hundred bytes; a value that a function
/// of the script returns to a handler is bounded by it as well.
pub const CALLS_BYTES_MIN: usize = 4 << 10;

/// Least stack of a script. The prelude's own functions need 32 KiB in the deepest case; less, and `console.log` fails.
pub const STACK_BYTES_MIN: usize = 64 << 10;

/// Most stack of a script: the wrapper of QuickJS takes more than 16 MiB as "no limit", and an endless recursion would
/// then run over the end of the coroutine's stack. It is also the stack of a shard's thread.
pub const STACK_BYTES_MAX: usize = 16 << 20;

/// Deepest nesting of a value that may be allowed. `serde_json` reads 128 levels, some of which are the message's own. Each
/// level takes up to 7 KB of the stack that native code has beside the script's, which is 1.5 MiB.
pub const VALUE_DEPTH_MAX: usize = 120;

/// Least length of a message: a handshake that resumes a session takes some 200 bytes.
pub const MESSAGE_BYTES_MIN: usize = 256;

/// Most bytes of a message, a result or a console. Such a text is in memory several times while it is converted, and
/// QuickJS has no longer strings.
pub const TEXT_BYTES_MAX: usize = 1 << 30;

/// Least size of a result: `{"$undefined":true}` must fit, which is the value of most statements.
pub const RESULT_BYTES_MIN: usize = 64;

/// Most calls that a client may have to answer, of each kind: both kinds share the table of a connection.
pub const CLIENT_CALLS_OPEN_MAX: usize = 8_192;

/// Longest time that a limit may allow: a year. A deadline further off is not one, and the clock cannot count to the end of
/// the largest numbers.
pub const DURATION_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1000;

/// [`DURATION_MS_MAX`] as a duration.
pub const DURATION_MAX: Duration = Duration::from_millis(DURATION_MS_MAX);

impl SettingCheck<'_> {
    fn duration(&mut self, name: &str, value: u64, min: u64) {
        self.range(name, value, min, DURATION_MS_MAX);
    }
}

impl Limits {
    /// Whether a server can be started with these limits; the error lists every limit that is out of range.
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut check = SettingCheck::new("limits");
        check.bytes("message_bytes_max", self.message_bytes_max, MESSAGE_BYTES_MIN, TEXT_BYTES_MAX);
        check.bytes("result_bytes_max", self.result_bytes_max, RESULT_BYTES_MIN, TEXT_BYTES_MAX);
        check.count("queued_evals_max", self.queued_evals_max, usize::MAX);
        check.bytes("console_bytes_max", self.console_bytes_max, 0, TEXT_BYTES_MAX);
        check.bytes("value_depth_max", self.value_depth_max, 1, VALUE_DEPTH_MAX);
        check.duration("cpu_ms_max", self.cpu_ms_max, 1);
        check.duration("wall_ms_max", self.wall_ms_max, 1);
        check.bytes("memory_bytes_max", self.memory_bytes_max, MEMORY_BYTES_MIN, MEMORY_BYTES_MAX);
        check.bytes("stack_bytes_max", self.stack_bytes_max, STACK_BYTES_MIN, STACK_BYTES_MAX);
        check.range("invoke_depth_max", u64::from(self.invoke_depth_max), 1, u64::MAX);
        check.count("requests_open_max", self.requests_open_max, usize::MAX);
        check.count("connection_bytes_max", self.connection_bytes_max, usize::MAX);
        check.bytes("calls_bytes_max", self.calls_bytes_max, CALLS_BYTES_MIN, usize::MAX);
        check.bytes(
            "memory_total_bytes_max",
            self.memory_total_bytes_max,
            MEMORY_TOTAL_BYTES_MIN,
            usize::MAX,
        );
        check.duration("background_cpu_ms_per_minute", self.background_cpu_ms_per_minute, 0);
        check.duration("binding_ms_max", self.binding_ms_max, 1);
        check.duration("client_call_ms_max", self.client_call_ms_max, 1);
        check.duration("approve_ms_max", self.approve_ms_max, 1);
        check.count("client_calls_open_max", self.client_calls_open_max, CLIENT_CALLS_OPEN_MAX);
        check.duration("client_grace_ms", self.client_grace_ms, 0);
        check.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: u64) -> Limits {
        let mut fields = serde_json::to_value(Limits::default()).unwrap();
        fields[name] = value.into();
        serde_json::from_value(fields).unwrap()
    }

    /// Name, least and most accepted value; `None` where any larger one is accepted.
    const RANGES: [(&str, u64, Option<u64>); 20] = [
        ("message_bytes_max", MESSAGE_BYTES_MIN as u64, Some(TEXT_BYTES_MAX as u64)),
        ("result_bytes_max", RESULT_BYTES_MIN as u64, Some(TEXT_BYTES_MAX as u64)),
        ("queued_evals_max", 1, None),
        ("console_bytes_max", 0, Some(TEXT_BYTES_MAX as u64)),
        ("value_depth_max", 1, Some(VALUE_DEPTH_MAX as u64)),
        ("cpu_ms_max", 1, Some(DURATION_MS_MAX)),
        ("wall_ms_max", 1, Some(DURATION_MS_MAX)),
        ("memory_bytes_max", MEMORY_BYTES_MIN as u64, Some(MEMORY_BYTES_MAX as u64)),
        ("stack_bytes_max", STACK_BYTES_MIN as u64, Some(STACK_BYTES_MAX as u64)),
        ("invoke_depth_max", 1, None),
        ("requests_open_max", 1, None),
        ("connection_bytes_max", 1, None),
        ("calls_bytes_max", CALLS_BYTES_MIN as u64, None),
        ("memory_total_bytes_max", MEMORY_TOTAL_BYTES_MIN as u64, None),
        ("background_cpu_ms_per_minute", 0, Some(DURATION_MS_MAX)),
        ("binding_ms_max", 1, Some(DURATION_MS_MAX)),
        ("client_call_ms_max", 1, Some(DURATION_MS_MAX)),
        ("approve_ms_max", 1, Some(DURATION_MS_MAX)),
        ("client_calls_open_max", 1, Some(CLIENT_CALLS_OPEN_MAX as u64)),
        ("client_grace_ms", 0, Some(DURATION_MS_MAX)),
    ];

    #[test]
    fn limits_at_the_ends_of_their_range_are_accepted() {
        Limits::default().check().unwrap();
        for (name, min, max) in RANGES {
            with(name, min).check().unwrap();
            with(name, max.unwrap_or(u64::from(u32::MAX))).check().unwrap();
        }
    }

    #[test]
    fn limits_out_of_range_are_refused_by_name() {
        for (name, min, max) in RANGES {
            let past = [min.checked_sub(1), max.map(|max| max + 1)];
            for value in past.into_iter().flatten() {
                let SettingsError(problems) = with(name, value).check().unwrap_err();
                assert_eq!(problems.len(), 1, "{problems:?}");
                assert_eq!(problems[0].key, format!("limits.{name}"));
                assert_eq!(problems[0].value, value.to_string());
            }
        }
    }

    #[test]
    fn every_wrong_limit_is_listed_with_what_was_expected() {
        let limits = Limits { memory_bytes_max: 64, stack_bytes_max: 18 << 20, ..Limits::default() };
        assert_eq!(
            limits.check().unwrap_err().to_string(),
            "limits.memory_bytes_max: expected 1048576 to 184549376, got 64\n\
             limits.stack_bytes_max: expected 65536 to 16777216, got 18874368"
        );
    }
}
