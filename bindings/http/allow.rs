//! The hosts that requests may go to, and the addresses that these hosts may have.
//!
//! The list is checked against the URL. Addresses are checked when the connection resolves the
//! name, so that a name cannot point elsewhere after the check. A host listed by its exact name may
//! have a private address, because the operator chose it. A host that only matches a `*` may not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// The hosts that the configuration allows.
#[derive(Debug, Clone, Default)]
pub(in crate::bindings) struct AllowList(Arc<[Entry]>);

#[derive(Debug)]
struct Entry {
    name: NamePattern,
    port: PortPattern,
}

#[derive(Debug)]
enum NamePattern {
    Exactly(String),
    /// Matches subdomains. The text starts with the dot.
    Subdomains(String),
    Any,
}

#[derive(Debug)]
enum PortPattern {
    SchemeDefault,
    Exactly(u16),
    Any,
}

impl AllowList {
    /// Parses the entries of the configuration. The error names the invalid one.
    pub(in crate::bindings) fn parse(entries: &[String]) -> Result<Self, String> {
        let entries: Result<Vec<Entry>, String> = entries.iter().map(|entry| Entry::parse(entry)).collect();
        Ok(Self(entries?.into()))
    }

    /// Checks the scheme, host and port of a URL, and its address if the host is one.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("unsupported scheme `{}`; expected http or https", url.scheme()));
        }
        let host = host_name(url).ok_or("URL has no host")?;
        let is_listed = self.0.iter().any(|entry| entry.name.matches(&host) && entry.port.matches(url));
        if !is_listed {
            return Err(format!("`{}` is not among the allowed hosts", authority(url, &host)));
        }
        match url.host() {
            Some(Host::Ipv4(address)) => self.check_address(&host, address.into()),
            Some(Host::Ipv6(address)) => self.check_address(&host, address.into()),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }

    fn check_address(&self, host: &str, address: IpAddr) -> Result<(), String> {
        let is_listed_by_name = self.0.iter().any(|entry| entry.name.is_exactly(host));
        if is_listed_by_name || is_public(address) {
            return Ok(());
        }
        Err(format!("`{host}` is at {address}, which is not a public address"))
    }
}

impl Entry {
    fn parse(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "`{text}` is not a host; expected `example.com`, `*.example.com`, `*`, with `:port` or `:*`"
            )
        };
        // A port follows the last colon, unless that colon is inside the brackets of an IPv6
        // address.
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            Some(_) | None => (text, None),
        };
        let port = match port {
            None => PortPattern::SchemeDefault,
            Some("*") => PortPattern::Any,
            Some(port) => PortPattern::Exactly(port.parse().map_err(|_| invalid())?),
        };
        let normalize = |name: &str| Host::parse(name).map(|host| host.to_string()).map_err(|_| invalid());
        let name = match (name, name.strip_prefix("*.")) {
            ("*", _) => NamePattern::Any,
            (_, Some(domain)) => NamePattern::Subdomains(format!(".{}", normalize(domain)?)),
            (name, None) => NamePattern::Exactly(normalize(name)?),
        };
        Ok(Self { name, port })
    }
}

impl NamePattern {
    fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exactly(name) => name == host,
            Self::Subdomains(suffix) => host.ends_with(suffix.as_str()),
            Self::Any => true,
        }
    }

    fn is_exactly(&self, host: &str) -> bool {
        match self {
            Self::Exactly(name) => name == host,
            Self::Subdomains(_) | Self::Any => false,
        }
    }
}

impl PortPattern {
    fn matches(&self, url: &Url) -> bool {
        match self {
            // `Url` drops a port that is the default of its scheme.
            Self::SchemeDefault => url.port().is_none(),
            Self::Exactly(port) => url.port_or_known_default() == Some(*port),
            Self::Any => true,
        }
    }
}

/// The host without a final dot: `example.com.` and `example.com` are the same host.
fn host_name(url: &Url) -> Option<String> {
    url.host().map(|host| host.to_string().trim_end_matches('.').to_owned())
}

fn authority(url: &Url, host: &str) -> String {
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The resolver of the HTTP client. It fails if a name has an address that is not allowed.
pub(super) struct GuardedResolver(pub(super) AllowList);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.0.clone();
        Box::pin(async move {
            let host = name.as_str().trim_end_matches('.').to_owned();
            let addresses: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &addresses {
                allowed.check_address(&host, address.ip())?;
            }
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}

/// Whether an address is reachable on the public Internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        // This network, shared address space, protocol assignments, benchmarks, reserved.
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([p, q], [r, s]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(p, q, r, s))
    };
    match (a, b) {
        // Embedded IPv4 addresses: mapped or compatible, translated (64:ff9b::/96), 6to4
        // (2002::/16).
        (0, 0) if (c, d, e) == (0, 0, 0) => (f == 0xffff || f == 0) && embedded(g, h),
        (0x64, 0xff9b) => (c, d, e, f) == (0, 0, 0, 0) && embedded(g, h),
        (0x2002, _) => embedded(b, c),
        // Teredo and the documentation prefix.
        (0x2001, 0 | 0xdb8) => false,
        // All global unicast addresses are in 2000::/3.
        _ => a & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> AllowList {
        AllowList::parse(&entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn allows(entries: &[&str], url: &str) -> bool {
        list(entries).check(&Url::parse(url).unwrap()).is_ok()
    }

    #[test]
    fn url_is_matched_by_host_name_and_port() {
        for (entries, url, expected) in [
            (&["a.com"][..], "https://a.com/x", true),
            (&["a.com"], "http://A.com:80", true),
            (&["a.com"], "https://a.com.", true),
            (&["a.com"], "https://a.com:8443", false),
            (&["a.com"], "https://b.a.com", false),
            (&["a.com"], "https://a.com@evil.com", false),
            (&["a.com:8443"], "https://a.com:8443", true),
            (&["a.com:443"], "https://a.com", true),
            (&["a.com:*"], "http://a.com:1", true),
            (&["*.a.com"], "https://b.c.a.com", true),
            (&["*.a.com"], "https://a.com", false),
            (&["*.a.com"], "https://ba.com", false),
            (&["*"], "https://any.where", true),
            (&["*"], "ftp://any.where", false),
            (&[], "https://a.com", false),
        ] {
            assert_eq!(allows(entries, url), expected, "{entries:?} {url}");
        }
    }

    #[test]
    fn private_address_is_allowed_only_by_exact_entry() {
        for url in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://10.1.2.3/",
            "http://169.254.169.254/",
            "http://192.168.0.1/",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://[::1]/",
            "http://[::]/",
            "http://[fe80::1]/",
            "http://[fd00::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[64:ff9b::a00:1]/",
            "http://[2002:a00:1::]/",
        ] {
            assert!(!allows(&["*"], url), "{url}");
        }
        assert!(allows(&["*"], "http://8.8.8.8/") && allows(&["*"], "http://[2606:4700::1111]/"));
        assert!(allows(&["127.0.0.1"], "http://127.0.0.1/") && allows(&["[::1]:9"], "http://[::1]:9/"));
    }

    #[test]
    fn invalid_entry_is_rejected() {
        for entry in ["a b", "a.com:x", "https://a.com", "*."] {
            assert!(AllowList::parse(&[entry.to_owned()]).is_err(), "{entry}");
        }
    }
}
