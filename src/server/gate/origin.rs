//! Which web pages and which names of this machine are served.
//!
//! A browser connects to any address a page names and says in `Origin` whose page it is; a page can also make its own
//! name point at us, which shows in `Host` alone. Programs send no `Origin` and are not asked for one.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

use super::super::settings::OriginSettings;

/// Whether the page behind a request may connect.
pub(super) fn is_allowed(settings: &OriginSettings, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        return true;
    };
    let Ok(origin) = origin.to_str() else {
        return false;
    };
    let is_listed = settings
        .allow
        .iter()
        .any(|allowed| allowed == "*" || allowed.trim_end_matches('/').eq_ignore_ascii_case(origin));
    is_listed || is_same_origin(origin, headers)
}

fn is_same_origin(origin: &str, headers: &HeaderMap) -> bool {
    let Some(host) = host_of(headers) else {
        return false;
    };
    let default_port = match origin.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => 443,
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => 80,
        Some(_) | None => return false,
    };
    let page = origin.split_once("://").map(|(_, authority)| name_and_port(authority, default_port));
    page.flatten().is_some_and(|page| Some(page) == name_and_port(host, default_port))
}

/// Whether a request names this machine by a name that no page can take over.
pub(super) fn is_loopback_host(headers: &HeaderMap) -> bool {
    let Some((name, _)) = host_of(headers).and_then(|host| name_and_port(host, 0)) else {
        return false;
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn host_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(HOST)?.to_str().ok()
}

/// `name[:port]` in lower case, with the port that is meant when there is none.
fn name_and_port(authority: &str, default_port: u16) -> Option<(String, u16)> {
    let has_port =
        authority.rfind(':').filter(|colon| authority.rfind(']').is_none_or(|bracket| bracket < *colon));
    let (name, port) = match has_port {
        Some(colon) => (authority.get(..colon)?, authority.get(colon + 1..)?.parse().ok()?),
        None => (authority, default_port),
    };
    Some((name.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        headers
    }

    fn listed(allow: &[&str]) -> OriginSettings {
        OriginSettings { allow: allow.iter().map(|origin| (*origin).to_owned()).collect() }
    }

    #[test]
    fn a_program_without_origin_passes() {
        assert!(is_allowed(&listed(&[]), &headers("example:7400", None)));
    }

    #[test]
    fn a_page_of_this_server_passes_and_its_neighbour_on_another_port_does_not() {
        let none = listed(&[]);
        assert!(is_allowed(&none, &headers("Box.local:7400", Some("http://box.local:7400"))));
        assert!(is_allowed(&none, &headers("app.example", Some("https://app.example"))));
        assert!(is_allowed(&none, &headers("app.example:443", Some("https://app.example"))));
        assert!(is_allowed(&none, &headers("[::1]:7400", Some("http://[::1]:7400"))));
        assert!(!is_allowed(&none, &headers("box.local:7400", Some("http://box.local:8000"))));
        assert!(!is_allowed(&none, &headers("box.local", Some("https://evil.example"))));
        assert!(!is_allowed(&none, &headers("null", Some("null"))));
    }

    #[test]
    fn listed_origins_pass_whole_and_exact() {
        let settings = listed(&["https://app.example"]);
        assert!(is_allowed(&settings, &headers("s", Some("https://app.example"))));
        for foreign in ["https://app.example.evil", "http://app.example", "https://app.example:8443"] {
            assert!(!is_allowed(&settings, &headers("s", Some(foreign))), "{foreign}");
        }
        assert!(is_allowed(&listed(&["*"]), &headers("s", Some("https://any.example"))));
    }

    #[test]
    fn only_names_of_this_machine_count_as_loopback() {
        for host in ["localhost", "LOCALHOST:7400", "127.0.0.1:7400", "127.9.9.9", "[::1]:7400"] {
            assert!(is_loopback_host(&headers(host, None)), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:7400",
            "10.0.0.1",
            "0.0.0.0",
            "[::]",
            "",
        ] {
            assert!(!is_loopback_host(&headers(host, None)), "{host}");
        }
        assert!(!is_loopback_host(&HeaderMap::new()));
    }
}
