//! What is refused or warned about beyond the types: values with which nothing could be served, and settings that
//! contradict each other.

use tracing_subscriber::EnvFilter;

use super::{LoadedSettings, Settings};
use crate::limits::{DURATION_MS_MAX, SettingCheck, SettingsError};
use crate::server::shards;

/// Adds to a load what is wrong with its values.
pub(super) fn check(loaded: &mut LoadedSettings) {
    for SettingsError(problems) in out_of_range(&loaded.settings) {
        for problem in problems {
            let message = format!("expected {}, got {}", problem.expected, problem.value);
            loaded.problem(problem.key, message);
        }
    }
    for (key, message) in wrong_texts(&loaded.settings) {
        loaded.problem(key, message);
    }
    for (key, message) in contradictions(&loaded.settings) {
        loaded.warning(key, message);
    }
}

fn out_of_range(settings: &Settings) -> impl Iterator<Item = SettingsError> + use<> {
    let mut own = SettingCheck::new("");
    own.range("drain_ms", settings.drain_ms, 0, DURATION_MS_MAX);
    let checks = [
        shards::check_count(settings.shards),
        own.finish(),
        settings.limits.check(),
        settings.sessions.check(),
        settings.server.check(),
        settings.audit.check(),
        settings.state.check(),
        settings.workers.check(),
        settings.quotas.check("quotas"),
        #[cfg(feature = "mcp")]
        settings.mcp.check(),
    ];
    checks.into_iter().filter_map(Result::err)
}

/// Texts that mean nothing: addresses, levels, origins.
fn wrong_texts(settings: &Settings) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    if let Some(reason) = address_problem(&settings.listen) {
        let message =
            format!("{reason}; expected HOST:PORT, such as 127.0.0.1:7400, got {:?}", settings.listen);
        wrong.push(("listen".to_owned(), message));
    }
    if let Err(error) = EnvFilter::try_new(&settings.log.level) {
        let level = &settings.log.level;
        let message = format!(
            "expected a level such as info, or directives such as info,scomp=debug, got {level:?}: {error}"
        );
        wrong.push(("log.level".to_owned(), message));
    }
    for (at, origin) in settings.origins.allow.iter().enumerate() {
        if let Some(reason) = origin_problem(origin) {
            let message =
                format!("{reason}; expected \"*\" or an origin such as https://app.example, got {origin:?}");
            wrong.push((format!("origins.allow[{at}]"), message));
        }
    }
    wrong
}

fn address_problem(address: &str) -> Option<&'static str> {
    match address.rsplit_once(':') {
        None => Some("the port is missing"),
        Some(("", _)) => Some("the host is missing"),
        Some((host, _)) if host.contains(':') && !host.starts_with('[') => {
            Some("an IPv6 address stands in brackets, as in [::1]:7400")
        }
        Some((_, port)) => port.parse::<u16>().is_err().then_some("the port is not a number up to 65535"),
    }
}

/// Why a browser would never send this as `Origin`.
fn origin_problem(origin: &str) -> Option<&'static str> {
    if origin == "*" {
        return None;
    }
    let Some((scheme, rest)) = origin.split_once("://") else {
        return Some("it has no scheme");
    };
    let host = rest.trim_end_matches('/');
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
        return Some("its scheme is not one");
    }
    if host.is_empty() {
        return Some("it has no host");
    }
    if host.contains('*') {
        return Some("a part of a name cannot be a wildcard");
    }
    host.contains(['/', '?', '#', '@', ' ']).then_some("it has more than scheme, host and port")
}

/// Settings of which one makes the other pointless.
fn contradictions(settings: &Settings) -> Vec<(&'static str, String)> {
    let limits = &settings.limits;
    let mut found = Vec::new();
    let mut exceeds = |key, value: u64, other: &str, most: u64| {
        if value > most {
            found.push((key, format!("{value} has no effect: {other} ends it at {most}")));
        }
    };
    exceeds("limits.cpu_ms_max", limits.cpu_ms_max, "limits.wall_ms_max", limits.wall_ms_max);
    let total = limits.memory_total_bytes_max as u64;
    exceeds(
        "limits.memory_bytes_max",
        limits.memory_bytes_max as u64,
        "limits.memory_total_bytes_max",
        total,
    );
    let message = limits.message_bytes_max as u64;
    exceeds("limits.result_bytes_max", limits.result_bytes_max as u64, "limits.message_bytes_max", message);
    let sessions = settings.sessions.sessions_max as u64;
    exceeds(
        "sessions.detached_max",
        settings.sessions.detached_max as u64,
        "sessions.sessions_max",
        sessions,
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_scheme_host_and_port() {
        for origin in [
            "*",
            "https://app.example",
            "http://[::1]:8080",
            "https://app.example/",
            "chrome-extension://abc",
        ] {
            assert_eq!(origin_problem(origin), None, "{origin}");
        }
        for origin in ["", "app.example", "https://", "://x", "https://*.example", "https://a/b", "ht tp://a"]
        {
            assert!(origin_problem(origin).is_some(), "{origin}");
        }
    }

    #[test]
    fn address_is_host_and_port() {
        for address in ["127.0.0.1:0", "[::]:7400", "localhost:65535"] {
            assert_eq!(address_problem(address), None, "{address}");
        }
        for address in ["7400", "localhost", "127.0.0.1:", ":7400", "::1:7400", "a:65536", "a:http"] {
            assert!(address_problem(address).is_some(), "{address}");
        }
    }

    #[test]
    fn defaults_contradict_nothing() {
        assert_eq!(contradictions(&Settings::default()), []);
        assert_eq!(wrong_texts(&Settings::default()), []);
    }
}
