//! Where requests may go: the hosts that are listed, and which addresses they may have.
//!
//! The list is held against the URL, the addresses against what the name resolves to at the moment of connecting, so
//! that a name cannot point somewhere else after it was checked. A host that is written out may be private: whoever
//! wrote it meant it. One that only matches a `*` may not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// The allowed hosts.
#[derive(Debug, Clone, Default)]
pub(super) struct AllowList(Arc<[Entry]>);

#[derive(Debug)]
struct Entry {
    name: NamePattern,
    port: PortPattern,
}

#[derive(Debug)]
enum NamePattern {
    Exactly(String),
    /// Begins with the dot.
    Under(String),
    Any,
}

#[derive(Debug)]
enum PortPattern {
    OfScheme,
    Exactly(u16),
    Any,
}

impl AllowList {
    /// Reads the entries of the configuration, or says which one is none.
    pub(super) fn read(entries: &[String]) -> Result<Self, String> {
        let read: Result<Vec<Entry>, String> = entries.iter().map(|entry| Entry::read(entry)).collect();
        Ok(Self(read?.into()))
    }

    /// Whether a request may go there, as far as the URL says.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{}` is neither http nor https", url.scheme()));
        }
        let host = host_name(url).ok_or("the URL has no host")?;
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

    /// Whether a host may have this address.
    fn check_address(&self, host: &str, address: IpAddr) -> Result<(), String> {
        let is_written_out = self.0.iter().any(|entry| entry.name.is_exactly(host));
        if is_written_out || is_public(address) {
            return Ok(());
        }
        Err(format!("`{host}` is at {address}, which is not a public address"))
    }
}

impl Entry {
    fn read(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "`{text}` is not a host; expected `example.com`, `*.example.com`, `*`, with `:port` or `:*`"
            )
        };
        // The colons of an IPv6 address stand in brackets.
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            Some(_) | None => (text, None),
        };
        let port = match port {
            None => PortPattern::OfScheme,
            Some("*") => PortPattern::Any,
            Some(port) => PortPattern::Exactly(port.parse().map_err(|_| bad())?),
        };
        let normal = |name: &str| Host::parse(name).map(|host| host.to_string()).map_err(|_| bad());
        let name = match (name, name.strip_prefix("*.")) {
            ("*", _) => NamePattern::Any,
            (_, Some(domain)) => NamePattern::Under(format!(".{}", normal(domain)?)),
            (name, None) => NamePattern::Exactly(normal(name)?),
        };
        Ok(Self { name, port })
    }
}

impl NamePattern {
    fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exactly(name) => name == host,
            Self::Under(suffix) => host.ends_with(suffix.as_str()),
            Self::Any => true,
        }
    }

    fn is_exactly(&self, host: &str) -> bool {
        match self {
            Self::Exactly(name) => name == host,
            Self::Under(_) | Self::Any => false,
        }
    }
}

impl PortPattern {
    fn matches(&self, url: &Url) -> bool {
        match self {
            // A URL keeps a port only if it is not the scheme's own.
            Self::OfScheme => url.port().is_none(),
            Self::Exactly(port) => url.port_or_known_default() == Some(*port),
            Self::Any => true,
        }
    }
}

/// The host without a final dot, which is another way to write the same one.
fn host_name(url: &Url) -> Option<String> {
    url.host().map(|host| host.to_string().trim_end_matches('.').to_owned())
}

fn authority(url: &Url, host: &str) -> String {
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Resolves names for the connections, and leaves out what may not be reached.
pub(super) struct GuardedResolver(pub(super) AllowList);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.0.clone();
        Box::pin(async move {
            let host = name.as_str().trim_end_matches('.').to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                allowed.check_address(&host, address.ip())?;
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// Whether an address is one of the open Internet.
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
        // IPv4 in other clothes: mapped or compatible, translated (64:ff9b::/96), 6to4 (2002::/16).
        (0, 0) if (c, d, e) == (0, 0, 0) => (f == 0xffff || f == 0) && embedded(g, h),
        (0x64, 0xff9b) => (c, d, e, f) == (0, 0, 0, 0) && embedded(g, h),
        (0x2002, _) => embedded(b, c),
        // Teredo and the documentation prefix.
        (0x2001, 0 | 0xdb8) => false,
        // Everything that is given out as global unicast lies in 2000::/3.
        _ => a & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> AllowList {
        AllowList::read(&entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn allows(entries: &[&str], url: &str) -> bool {
        list(entries).check(&Url::parse(url).unwrap()).is_ok()
    }

    #[test]
    fn hosts_match_by_name_and_port() {
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
    fn literal_addresses_that_are_not_public_must_be_written_out() {
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
    fn what_is_no_host_is_refused_at_start() {
        for entry in ["a b", "a.com:x", "https://a.com", "*."] {
            assert!(AllowList::read(&[entry.to_owned()]).is_err(), "{entry}");
        }
    }
}
