//! The URL that the paths of operations are appended to.

use serde_json::Value;
use url::Url;

use super::document::{Document, brief};
use super::operations::{Operation, read};

/// A URL without a trailing slash, query or fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base(Url);

impl Base {
    /// Reads the operator's word, or the first server of the document.
    pub(super) fn choose(configured: Option<&str>, document: &Document) -> Result<Self, String> {
        if let Some(url) = configured {
            let url = Url::parse(url).map_err(|error| format!("server: {error}"))?;
            return Self::new(url).map_err(|reason| format!("server: {reason}"));
        }
        let missing = || "`server` is missing, and the document has no server with a complete URL".to_owned();
        let stated = document.get("servers").and_then(|servers| servers.get(0)).ok_or_else(missing)?;
        let url = Url::parse(&template(stated)?).map_err(|_| missing())?;
        Self::new(url).map_err(|reason| format!("the server of the document: {reason}"))
    }

    fn new(url: Url) -> Result<Self, String> {
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err("expected http://HOST/… or https://HOST/…".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("expected a URL without a query and a fragment".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("expected a URL without a user; credentials belong into `auth`".to_owned());
        }
        Ok(Self(url))
    }

    /// `host:port`, as a list of allowed hosts has it. The port is stated, so another scheme of the host is not meant.
    pub(super) fn authority(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        format!("{host}:{}", self.0.port_or_known_default().unwrap_or(443))
    }

    /// The base of an operation: its own server or that of its path, if it is at the same origin.
    pub(super) fn of_operation(&self, operation: &Operation<'_>) -> Result<Self, String> {
        let stated =
            [operation.value, operation.item].into_iter().find_map(|owner| owner.get("servers")?.get(0));
        let Some(stated) = stated else { return Ok(self.clone()) };
        let text = template(stated)?;
        let mut origin = self.0.clone();
        origin.set_path("/");
        let url = origin.join(&text).map_err(|error| format!("servers: {error}"))?;
        if url.origin() != self.0.origin() {
            let server = brief(&text);
            return Err(format!("it has its own server `{server}`; declare another package for that one"));
        }
        Self::new(url).map_err(|reason| format!("servers: {reason}"))
    }

    /// The URL of a path with its query. It cannot leave the origin.
    pub(super) fn join(&self, path: &str, query: &[String]) -> Result<Url, String> {
        let mut text = self.0.as_str().trim_end_matches('/').to_owned();
        text.push_str(path);
        if !query.is_empty() {
            text.push(if path.contains('?') { '&' } else { '?' });
            text.push_str(&query.join("&"));
        }
        let url = Url::parse(&text).map_err(|error| error.to_string())?;
        if url.origin() != self.0.origin() {
            return Err("the URL leads to another origin".to_owned());
        }
        Ok(url)
    }
}

/// The URL of a server with the default values of its variables.
fn template(stated: &Value) -> Result<String, String> {
    let server: oas3::spec::Server = read(stated, &[]).map_err(|error| format!("servers: {error}"))?;
    let fill = |url: String, (name, variable): (&String, &oas3::spec::ServerVariable)| {
        url.replace(&format!("{{{name}}}"), &variable.default)
    };
    Ok(server.variables.iter().fold(server.url.clone(), fill))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chosen(configured: Option<&str>, servers: Value) -> Result<String, String> {
        let document = Document::parse(&json!({"openapi": "3.1.0", "servers": servers}).to_string()).unwrap();
        Base::choose(configured, &document).map(|base| base.0.to_string())
    }

    #[test]
    fn server_is_the_operators_or_the_first_of_the_document() {
        let stated = json!([{"url": "https://{name}.example/v{n}", "variables": {"name": {"default": "a"}, "n": {"default": "2"}}}]);
        assert_eq!(chosen(None, stated.clone()), Ok("https://a.example/v2".to_owned()));
        assert_eq!(chosen(Some("http://b.example/x/"), stated), Ok("http://b.example/x/".to_owned()));
        for (configured, servers) in [
            (None, json!([])),
            (None, json!([{"url": "/v1"}])),
            (None, json!([{"url": 5}])),
            (Some("ftp://a/"), json!([])),
            (Some("https://user:pw@a/"), json!([])),
            (Some("https://a/?x"), json!([])),
        ] {
            assert!(chosen(configured, servers.clone()).is_err(), "{configured:?} {servers}");
        }
    }

    #[test]
    fn path_is_appended_and_stays_at_the_origin() {
        let base = |url: &str| Base::new(Url::parse(url).unwrap()).unwrap();
        let join =
            |url: &str, path: &str| base(url).join(path, &["a=1".to_owned()]).map(|url| url.to_string());
        assert_eq!(join("https://a.example/v1/", "/pets"), Ok("https://a.example/v1/pets?a=1".to_owned()));
        assert_eq!(join("https://a.example", "/x?b=2"), Ok("https://a.example/x?b=2&a=1".to_owned()));
        assert_eq!(
            join("https://a.example", "//b.example/"),
            Ok("https://a.example//b.example/?a=1".to_owned())
        );
        assert!(join("https://a.example", "@b.example/").is_err());
        assert!(join("https://a.example", ".b.example/").is_err());
        assert_eq!(base("https://a.example/v1").authority(), "a.example:443");
        assert_eq!(base("http://[::1]:8080/").authority(), "[::1]:8080");
    }
}
