//! Which web pages and which names of this machine are served.
//!
//! A browser connects to any address a page names and says in `Origin` whose page it is; a page can also make its own
//! name point at us, which shows in `Host` alone. Programs send no `Origin` and are not asked for one.
//!
//! A request can name several hosts: in repeated `Host` headers, and in a URI in absolute form. All of them count, so that
//! a proxy in front that looks at another one than this server cannot be used to get past the check.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};

use super::super::settings::OriginSettings;

/// Whether the page behind a request may connect.
pub(super) fn is_allowed(settings: &OriginSettings, uri: &Uri, headers: &HeaderMap) -> bool {
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
    is_listed || is_same_origin(origin, uri, headers)
}

fn is_same_origin(origin: &str, uri: &Uri, headers: &HeaderMap) -> bool {
    let default_port = match origin.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => 443,
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => 80,
        Some(_) | None => return false,
    };
    let page = origin.split_once("://").map(|(_, authority)| name_and_port(authority, default_port));
    let Some(page) = page.flatten() else {
        return false;
    };
    every_host(uri, headers, |host| name_and_port(host, default_port).as_ref() == Some(&page))
}

/// Whether a request names this machine by a name that no page can take over.
pub(super) fn is_loopback_host(uri: &Uri, headers: &HeaderMap) -> bool {
    every_host(uri, headers, |host| {
        let Some((name, _)) = name_and_port(host, 0) else {
            return false;
        };
        let address = name.trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    })
}

/// Whether a request names a host, and `accepts` holds for each that it names.
fn every_host(uri: &Uri, headers: &HeaderMap, accepts: impl Fn(&str) -> bool) -> bool {
    let in_uri = uri.authority().map(|authority| Ok(authority.as_str()));
    let mut hosts = headers.get_all(HOST).into_iter().map(|host| host.to_str()).chain(in_uri).peekable();
    hosts.peek().is_some() && hosts.all(|host| host.is_ok_and(&accepts))
}

/// `name[:port]` in lower case; `default_port` if it names no port.
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
    fn program_without_origin_passes() {
        assert!(is_allowed(&listed(&[]), &Uri::default(), &headers("example:7400", None)));
    }

    #[test]
    fn only_a_page_of_the_same_origin_passes() {
        let none = listed(&[]);
        assert!(is_allowed(
            &none,
            &Uri::default(),
            &headers("Box.local:7400", Some("http://box.local:7400"))
        ));
        assert!(is_allowed(&none, &Uri::default(), &headers("app.example", Some("https://app.example"))));
        assert!(is_allowed(&none, &Uri::default(), &headers("app.example:443", Some("https://app.example"))));
        assert!(is_allowed(&none, &Uri::default(), &headers("[::1]:7400", Some("http://[::1]:7400"))));
        assert!(!is_allowed(
            &none,
            &Uri::default(),
            &headers("box.local:7400", Some("http://box.local:8000"))
        ));
        assert!(!is_allowed(&none, &Uri::default(), &headers("box.local", Some("https://evil.example"))));
        assert!(!is_allowed(&none, &Uri::default(), &headers("null", Some("null"))));
    }

    #[test]
    fn listed_origins_pass_only_if_equal() {
        let settings = listed(&["https://app.example"]);
        assert!(is_allowed(&settings, &Uri::default(), &headers("s", Some("https://app.example"))));
        for foreign in ["https://app.example.evil", "http://app.example", "https://app.example:8443"] {
            assert!(!is_allowed(&settings, &Uri::default(), &headers("s", Some(foreign))), "{foreign}");
        }
        assert!(is_allowed(&listed(&["*"]), &Uri::default(), &headers("s", Some("https://any.example"))));
    }

    #[test]
    fn only_names_of_this_machine_count_as_loopback() {
        for host in ["localhost", "LOCALHOST:7400", "127.0.0.1:7400", "127.9.9.9", "[::1]:7400"] {
            assert!(is_loopback_host(&Uri::default(), &headers(host, None)), "{host}");
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
            assert!(!is_loopback_host(&Uri::default(), &headers(host, None)), "{host}");
        }
        assert!(!is_loopback_host(&Uri::default(), &HeaderMap::new()));
    }

    #[test]
    fn every_host_that_a_request_names_counts() {
        let mut twice = headers("localhost", Some("http://localhost"));
        assert!(
            is_loopback_host(&Uri::default(), &twice) && is_allowed(&listed(&[]), &Uri::default(), &twice)
        );
        twice.append(HOST, HeaderValue::from_static("evil.example"));
        assert!(!is_loopback_host(&Uri::default(), &twice));
        assert!(!is_allowed(&listed(&[]), &Uri::default(), &twice));
        let local = headers("localhost", None);
        for (uri, is_local) in [
            ("http://localhost:7400/", true),
            ("http://[::1]/", true),
            ("http://evil.example/", false),
            ("http://localhost@evil.example/", false),
            ("http://evil.example@localhost/", false),
        ] {
            assert_eq!(is_loopback_host(&uri.parse().unwrap(), &local), is_local, "{uri}");
        }
        let mut unreadable = headers("localhost", None);
        unreadable.append(HOST, HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(!is_loopback_host(&Uri::default(), &unreadable));
    }
}
