//! What an operator says about a document: where the server is, how it is authenticated to, what is offered.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::http::fetch::FetchLimits;
use super::auth::Auth;
use super::operations::Operation;

/// The configuration of a package, from `"openapi"` in its declaration file. Its shape was checked against the schema there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Config {
    pub(super) document: String,
    pub(super) server: Option<String>,
    #[serde(default)]
    pub(super) auth: Auth,
    include: Option<Vec<String>>,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default)]
    effects: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    response: ResponseForm,
    outputs: Option<bool>,
    #[serde(default)]
    pub(super) redirect_hosts: Vec<String>,
    #[serde(flatten)]
    pub(super) limits: FetchLimits,
}

/// What a call returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ResponseForm {
    #[default]
    Body,
    /// `{status, headers, body}`.
    Full,
}

/// What is offered of the operations, and how.
#[derive(Debug, Clone, Default)]
pub(super) struct OperationRules {
    /// What is offered; absent: all.
    pub(super) include: Option<Vec<String>>,
    pub(super) exclude: Vec<String>,
    /// The effects of operations that the operator knows better.
    pub(super) effects: BTreeMap<String, Vec<String>>,
    pub(super) response: ResponseForm,
    /// Whether responses have no schema.
    pub(super) is_output_free: bool,
}

impl Config {
    /// Reads a configuration.
    pub(super) fn read(config: &Value) -> Result<Self, String> {
        Self::deserialize(config).map_err(|error| error.to_string())
    }

    pub(super) fn rules(&self) -> OperationRules {
        OperationRules {
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            effects: self.effects.clone(),
            response: self.response,
            is_output_free: self.outputs == Some(false),
        }
    }
}

impl OperationRules {
    /// Whether the operator lets an operation through.
    pub(super) fn admits(&self, operation: &Operation<'_>) -> bool {
        let is_listed = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, operation));
        self.include.as_deref().is_none_or(is_listed) && !is_listed(&self.exclude)
    }

    /// The operator's word on the effects of an operation. An exact name counts more than a pattern.
    pub(super) fn effects_of(&self, operation: &Operation<'_>) -> Option<&Vec<String>> {
        let exact = operation.id.and_then(|id| self.effects.get(id));
        let exact = exact.or_else(|| self.effects.get(&operation.place()));
        exact.or_else(|| {
            self.effects.iter().find(|(pattern, _)| matches(pattern, operation)).map(|(_, effects)| effects)
        })
    }

    /// Entries of the lists that fit no operation: typing errors, or operations that are gone.
    pub(super) fn unused<'a>(&'a self, operations: &[Operation<'_>]) -> Vec<&'a str> {
        let named = self.include.iter().flatten().chain(&self.exclude).chain(self.effects.keys());
        let is_unused = |pattern: &&str| !operations.iter().any(|operation| matches(pattern, operation));
        let mut unused: Vec<&str> = named.map(String::as_str).filter(is_unused).collect();
        unused.sort_unstable();
        unused.dedup();
        unused
    }
}

/// Whether an entry of a list means an operation: by its id, its method and path, or a tag.
fn matches(pattern: &str, operation: &Operation<'_>) -> bool {
    if let Some(tag) = pattern.strip_prefix("tag:") {
        return operation.tags.iter().any(|name| fits(tag, name));
    }
    operation.id.is_some_and(|id| fits(pattern, id)) || fits(pattern, &operation.place())
}

/// Whether a text fits a pattern in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("getPet", "getPet", true),
            ("getPet", "getPets", false),
            ("get*", "getPets", true),
            ("*Pet", "getPet", true),
            ("GET /pets/*", "GET /pets/{id}/toys", true),
            ("GET /pets/*/toys", "GET /pets/{id}/toys", true),
            ("GET /pets/*/toys", "GET /pets/toys", false),
            ("*a*b*", "xxaxxbxx", true),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
