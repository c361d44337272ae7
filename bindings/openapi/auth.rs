//! The credentials of a package, and how they are put on a request.
//!
//! They are added where a request to the configured server is built, and nowhere else. The client removes them when a
//! redirect leads to another origin.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::super::http::fetch::HEADERS_RESERVED;
use super::parameters::Location;
use super::styles::{self, encode};
use crate::package::Secrets;

/// `"auth"` of a configuration.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Auth {
    bearer: Option<String>,
    basic: Option<Basic>,
    #[serde(default)]
    api_key: ApiKeys,
}

#[derive(Deserialize)]
struct Basic {
    username: String,
    password: String,
}

/// One key, or several: some services want an application's and a user's.
#[derive(Deserialize)]
#[serde(untagged)]
enum ApiKeys {
    One(ApiKey),
    Several(Vec<ApiKey>),
}

impl Default for ApiKeys {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

#[derive(Deserialize)]
struct ApiKey {
    #[serde(rename = "in")]
    location: Location,
    name: String,
    value: String,
}

/// Credentials in the forms that a request has. They have no `Debug` form.
#[derive(Default)]
pub(super) struct Credentials {
    headers: HeaderMap,
    /// Pairs of the query, encoded.
    query: Vec<String>,
    /// Pairs of the `Cookie` header, encoded.
    cookies: Vec<String>,
    /// Where each stands: parameters of the document at these places are not the script's.
    places: Vec<(Location, String)>,
}

impl Credentials {
    /// Checks the configuration. What must not be shown is added to `secrets`.
    pub(super) fn new(auth: &Auth, secrets: &mut Secrets) -> Result<Self, String> {
        let mut credentials = Self::default();
        if let Some(token) = &auth.bearer {
            secrets.add("auth.bearer", token);
            credentials.add_header(&AUTHORIZATION, &format!("Bearer {token}"), "auth/bearer")?;
        }
        if let Some(Basic { username, password }) = &auth.basic {
            if auth.bearer.is_some() {
                return Err("auth: expected at most one of `bearer` and `basic`".to_owned());
            }
            let pair = BASE64.encode(format!("{username}:{password}"));
            secrets.add("auth.basic", password);
            secrets.add("auth.basic", &pair);
            credentials.add_header(&AUTHORIZATION, &format!("Basic {pair}"), "auth/basic")?;
        }
        let keys = match &auth.api_key {
            ApiKeys::One(key) => std::slice::from_ref(key),
            ApiKeys::Several(keys) => keys,
        };
        for key in keys {
            credentials.add_key(key, secrets)?;
        }
        Ok(credentials)
    }

    fn add_key(
        &mut self,
        ApiKey { location, name, value }: &ApiKey,
        secrets: &mut Secrets,
    ) -> Result<(), String> {
        let pair = || format!("{}={}", encode(name), encode(value));
        secrets.add("auth.apiKey", value);
        secrets.add("auth.apiKey", &encode(value));
        match location {
            Location::Header => {
                let header = HeaderName::from_bytes(name.as_bytes())
                    .ok()
                    .filter(|header| !HEADERS_RESERVED.contains(&header.as_str()))
                    .ok_or_else(|| format!("auth/apiKey: `{name}` is not a header that can be set"))?;
                self.add_header(&header, value, "auth/apiKey")?;
            }
            Location::Query => self.query.push(pair()),
            Location::Cookie => self.cookies.push(pair()),
            Location::Path => return Err("auth/apiKey/in: expected header, query or cookie".to_owned()),
        }
        self.places.push((*location, name.clone()));
        Ok(())
    }

    fn add_header(&mut self, name: &HeaderName, value: &str, place: &str) -> Result<(), String> {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("{place}: expected text without line breaks and control characters"))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(())
    }

    /// The headers that must not reach another origin.
    pub(super) fn header_names(&self) -> Vec<HeaderName> {
        self.headers.keys().cloned().collect()
    }

    /// Whether a parameter of the document is one of the credentials.
    pub(super) fn own(&self, location: Location, name: &str) -> bool {
        let is_same = |other: &str| match location {
            Location::Header => other.eq_ignore_ascii_case(name),
            Location::Query | Location::Cookie | Location::Path => other == name,
        };
        self.places.iter().any(|(place, other)| *place == location && is_same(other))
    }

    /// Adds the credentials to what a request consists of.
    pub(super) fn apply(&self, parts: &mut styles::RequestParts) {
        for (name, value) in &self.headers {
            parts.headers.insert(name.clone(), value.clone());
        }
        parts.query.extend(self.query.iter().cloned());
        parts.cookies.extend(self.cookies.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn credentials(auth: Value) -> Result<(Credentials, Secrets), String> {
        let mut secrets = Secrets::default();
        let auth = Auth::deserialize(auth).map_err(|error| error.to_string())?;
        Ok((Credentials::new(&auth, &mut secrets)?, secrets))
    }

    #[test]
    fn credentials_are_put_where_they_belong() {
        let (all, secrets) = credentials(json!({
            "basic": {"username": "ada", "password": "s3cret!"},
            "apiKey": [
                {"in": "header", "name": "X-Key", "value": "header-key"},
                {"in": "query", "name": "key", "value": "query&key"},
                {"in": "cookie", "name": "sid", "value": "cookie key"},
            ],
        }))
        .unwrap();
        let mut parts = styles::RequestParts::default();
        all.apply(&mut parts);
        assert_eq!(parts.headers["authorization"], "Basic YWRhOnMzY3JldCE=");
        assert_eq!(parts.headers["x-key"], "header-key");
        assert!(parts.headers.values().all(HeaderValue::is_sensitive));
        assert_eq!(
            (parts.query, parts.cookies),
            (vec!["key=query%26key".to_owned()], vec!["sid=cookie%20key".to_owned()])
        );
        let shown = secrets.redact("YWRhOnMzY3JldCE= s3cret! header-key query&key query%26key cookie%20key");
        assert_eq!(
            shown,
            "${auth.basic} ${auth.basic} ${auth.apiKey} ${auth.apiKey} ${auth.apiKey} ${auth.apiKey}"
        );
        assert!(all.own(Location::Header, "x-key") && all.own(Location::Query, "key"));
        assert!(!all.own(Location::Query, "Key") && !all.own(Location::Query, "X-Key"));
    }

    #[test]
    fn invalid_credentials_are_refused_without_their_value() {
        for auth in [
            json!({"bearer": "token1\n"}),
            json!({"bearer": "token1", "basic": {"username": "a", "password": "token1"}}),
            json!({"apiKey": {"in": "header", "name": "Host", "value": "token1"}}),
            json!({"apiKey": {"in": "path", "name": "a", "value": "token1"}}),
        ] {
            let error = credentials(auth.clone()).err().unwrap();
            assert!(!error.contains("token1"), "{auth}: {error}");
        }
    }
}
