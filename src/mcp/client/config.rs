//! What an operator says about an MCP server: how it is reached, which of its tools are offered, with which effects.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::package::Secrets;

/// The configuration of a package, from `"mcp"` in its declaration file. Its shape was checked against the schema there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    allow: Option<Vec<String>>,
    #[serde(default)]
    deny: Vec<String>,
    #[serde(default)]
    effects: BTreeMap<String, Vec<String>>,
    timeout_ms: Option<u64>,
    /// Names in `env` whose values are not secret.
    #[serde(default)]
    public: Vec<String>,
}

/// How a server is reached.
pub(super) enum Address {
    /// A process of ours, over its stdin and stdout.
    Process { program: String, arguments: Vec<String>, env: BTreeMap<String, String> },
    /// A server elsewhere, over Streamable HTTP.
    Http { url: url::Url, headers: BTreeMap<String, String> },
}

/// What is offered of the tools.
#[derive(Debug, Clone, Default)]
pub(super) struct ToolRules {
    /// Names that are offered; absent: all.
    pub(super) allow: Option<Vec<String>>,
    pub(super) deny: Vec<String>,
    /// The effects of tools that the operator knows better.
    pub(super) effects: BTreeMap<String, Vec<String>>,
    pub(super) timeout_ms: Option<u64>,
}

impl ToolRules {
    /// Whether the operator lets a tool through, by its name at the server.
    pub(super) fn admits(&self, tool: &str) -> bool {
        let is_listed = |names: &[String]| names.iter().any(|name| name == tool);
        self.allow.as_deref().is_none_or(is_listed) && !is_listed(&self.deny)
    }

    /// Names in the rules that no tool has: typing errors, or tools that are gone.
    pub(super) fn unknown_names<'a>(&'a self, tools: &[&str]) -> Vec<&'a str> {
        let named = self.allow.iter().flatten().chain(&self.deny).chain(self.effects.keys());
        let mut unknown: Vec<&str> = named.map(String::as_str).filter(|name| !tools.contains(name)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }
}

/// Reads a configuration. What must not be shown is added to `secrets`.
pub(super) fn read(config: &Value, secrets: &mut Secrets) -> Result<(Address, ToolRules), String> {
    let config = Config::deserialize(config).map_err(|error| secrets.redact(&error.to_string()))?;
    for (name, value) in config.env.iter().filter(|(name, _)| !config.public.contains(name)) {
        secrets.add(name, value);
    }
    for (name, value) in &config.headers {
        // A server that repeats the token leaves out the scheme before it.
        let token = value.split_once(' ').map_or(value.as_str(), |(_, token)| token);
        secrets.add(name, value);
        secrets.add(name, token);
    }
    let rules = ToolRules {
        allow: config.allow,
        deny: config.deny,
        effects: config.effects,
        timeout_ms: config.timeout_ms,
    };
    match (config.command.split_first(), config.url) {
        (Some((program, arguments)), None) => {
            if !config.headers.is_empty() {
                return Err("`headers` needs `url`".to_owned());
            }
            let address =
                Address::Process { program: program.clone(), arguments: arguments.to_vec(), env: config.env };
            Ok((address, rules))
        }
        (None, Some(url)) => {
            if !config.env.is_empty() {
                return Err("`env` needs `command`".to_owned());
            }
            let url = url::Url::parse(&url).map_err(|error| format!("url: {error}"))?;
            if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
                return Err("url: expected http://HOST/… or https://HOST/…".to_owned());
            }
            Ok((Address::Http { url, headers: config.headers }, rules))
        }
        (Some(_), Some(_)) | (None, None) => Err("expected exactly one of `command` and `url`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problem(config: Value) -> String {
        read(&config, &mut Secrets::default()).err().unwrap_or_default()
    }

    #[test]
    fn address_is_a_command_or_a_url() {
        assert_eq!(problem(json!({"command": ["x"], "env": {"A": "b"}})), "");
        assert_eq!(problem(json!({"url": "https://a.example/mcp", "headers": {"A": "b"}})), "");
        let both = "expected exactly one of `command` and `url`";
        assert_eq!(problem(json!({"command": ["x"], "url": "https://a.example/"})), both);
        assert_eq!(problem(json!({})), both);
        assert_eq!(problem(json!({"command": ["x"], "headers": {"A": "b"}})), "`headers` needs `url`");
        assert_eq!(problem(json!({"url": "ftp://a/"})), "url: expected http://HOST/… or https://HOST/…");
    }

    #[test]
    fn values_of_env_and_headers_are_secrets() {
        let mut secrets = Secrets::default();
        let config = json!({"url": "http://a/", "headers": {"Authorization": "Bearer s3cret-token"}});
        read(&config, &mut secrets).unwrap();
        assert_eq!(secrets.redact("Bearer s3cret-token, s3cret-token"), "${Authorization}, ${Authorization}");
    }

    #[test]
    fn public_values_of_env_are_shown() {
        let mut secrets = Secrets::default();
        let config =
            json!({"command": ["x"], "env": {"FILE": "/data/file", "KEY": "s3cret"}, "public": ["FILE"]});
        read(&config, &mut secrets).unwrap();
        assert_eq!(secrets.redact("/data/file s3cret"), "/data/file ${KEY}");
    }

    #[test]
    fn rules_admit_what_is_allowed_and_not_denied() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let rules =
            ToolRules { allow: Some(names(&["a", "b"])), deny: names(&["b", "z"]), ..ToolRules::default() };
        assert!(rules.admits("a") && !rules.admits("b") && !rules.admits("c"));
        assert!(ToolRules::default().admits("c"));
        assert_eq!(rules.unknown_names(&["a", "b", "c"]), ["z"]);
    }
}
