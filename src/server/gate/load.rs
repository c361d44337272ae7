//! How a gate is made from settings, a token file and the environment.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest::SHA256_OUTPUT_LEN;
use schemars::JsonSchema;
use serde::Deserialize;

use super::super::settings::{AuthSettings, OriginSettings, TokenSettings};
use super::{Gate, KnownToken, LOCAL_PRINCIPAL, sha256};
use crate::binding::{Policy, PolicyNames, Principal, Roles, UnknownName};
use crate::quota::Quotas;
use crate::settings_file::{self, Problem, Source};

/// The only token of a simple set-up, in plain text.
const TOKEN_VARIABLE: &str = "SCOMP_TOKEN";

/// The path of the token file.
const FILE_VARIABLE: &str = "SCOMP_TOKENS_FILE";

/// Why the tokens cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are named as in the message")]
pub enum GateError {
    /// The token file or entries of tokens are wrong; each line says where and how.
    #[error("{}", .0.join("\n"))]
    Entries(Vec<String>),
    /// The token file is empty, which would admit every client.
    #[error("{}: the token file has no tokens; add a [[tokens]], or remove auth.file", path.display())]
    NoTokens { path: PathBuf },
    /// The environment variable has an empty token.
    #[error("{TOKEN_VARIABLE} is empty: set it to a token, or unset it")]
    EmptyToken,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    /// The tokens.
    #[serde(default)]
    tokens: Vec<TokenSettings>,
}

impl AuthSettings {
    /// Adds the environment's `SCOMP_TOKEN`, of the principal `default` in every role, and `SCOMP_TOKENS_FILE`.
    pub fn with_environment(mut self, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, GateError> {
        if let Some(token) = lookup(TOKEN_VARIABLE) {
            if token.trim().is_empty() {
                return Err(GateError::EmptyToken);
            }
            // Set by the person who starts the server, and meant for a server with one token: without the roles
            // it could not be operated. A token with fewer roles belongs in the table.
            let (roles, place) = (Roles::all(), TOKEN_VARIABLE.to_owned());
            self.tokens.push(TokenSettings { roles, place, ..TokenSettings::of_token("default", &token) });
        }
        if let Some(file) = lookup(FILE_VARIABLE) {
            self.file = Some(file.into());
        }
        Ok(self)
    }
}

impl TokenSettings {
    /// The entry for a token in plain text, which is hashed here and not kept.
    pub fn of_token(principal: impl Into<String>, token: &str) -> Self {
        let hash = sha256(token.trim().as_bytes());
        Self {
            principal: principal.into(),
            place: String::new(),
            sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            policy: Policy::default(),
            roles: Roles::default(),
            quotas: None,
        }
    }
}

impl Gate {
    /// The gate of these settings; a principal without quotas of its own gets `quotas`.
    pub fn new(auth: &AuthSettings, origins: OriginSettings, quotas: &Quotas) -> Result<Self, GateError> {
        let mut gate = Self::without_tokens(origins, quotas.clone());
        let mut entries = auth.tokens.clone();
        if let Some(path) = &auth.file {
            entries.extend(read_file(path)?);
            if entries.is_empty() {
                return Err(GateError::NoTokens { path: path.clone() });
            }
        }
        check_entries(&mut entries, quotas)?;
        let mut accounts = HashMap::new();
        for entry in entries {
            let Some(hash) = read_hash(&entry.sha256) else { continue };
            let quotas = entry.quotas.unwrap_or_else(|| quotas.clone());
            let mut principal = Principal::new(entry.principal, entry.policy, quotas).with_roles(entry.roles);
            // A second token, say while one is replaced, does not double what its principal may use.
            let account =
                accounts.entry(principal.name.clone()).or_insert_with(|| Arc::clone(&principal.account));
            principal.account = Arc::clone(account);
            gate.tokens.push(KnownToken { hash, principal: Arc::new(principal), place: entry.place });
        }
        Ok(gate)
    }

    /// The names in the policies of tokens that mean nothing on a server with these bindings.
    pub(crate) fn check_policies(&self, names: &PolicyNames<'_>) -> Vec<UnknownName> {
        let check =
            |token: &KnownToken| names.check(&format!("{}.policy.", token.place), &token.principal.policy);
        self.tokens.iter().flat_map(check).collect()
    }
}

/// Fails with everything that is wrong with the entries, and names the place of those that have none.
fn check_entries(entries: &mut [TokenSettings], quotas: &Quotas) -> Result<(), GateError> {
    let quota_problems =
        |quotas: &Quotas, table: &str| quotas.check(table).err().map(|error| error.to_string());
    let mut problems: Vec<String> = quota_problems(quotas, "quotas").into_iter().collect();
    let empty_hash = sha256(b"");
    let mut known: HashMap<[u8; SHA256_OUTPUT_LEN], (String, String)> = HashMap::new();
    for (at, entry) in entries.iter_mut().enumerate() {
        if entry.place.is_empty() {
            entry.place = format!("auth.tokens[{at}]");
        }
        let (place, principal) = (&entry.place, &entry.principal);
        if let Some(quotas) = &entry.quotas {
            problems.extend(quota_problems(quotas, &format!("{place}.quotas")));
        }
        // Such a name cannot be distinguished from another in the audit log and in the console.
        let is_unreadable = principal.trim().is_empty() || principal.chars().any(char::is_control);
        if is_unreadable || principal == LOCAL_PRINCIPAL {
            // The sessions of the server's own scripts are those of that principal.
            problems.push(format!("{place}: {principal:?} cannot be the principal of a token"));
        }
        let Some(hash) = read_hash(&entry.sha256) else {
            problems
                .push(format!("{place}: the token of {principal:?}: sha256 has to be 64 hexadecimal digits"));
            continue;
        };
        if hash == empty_hash {
            // As a shell script hashes a variable that is not set.
            problems.push(format!("{place}: the token of {principal:?}: sha256 is that of an empty token"));
        }
        // Also for one principal: roles and policy of the two entries would be a matter of their order.
        match known.entry(hash) {
            Entry::Vacant(free) => drop(free.insert((place.clone(), principal.clone()))),
            Entry::Occupied(taken) => {
                let (first, owner) = taken.get();
                problems.push(format!(
                    "{place}: {principal:?} has the same token as {owner:?} at {first}; a token stands for one principal \
                     and has one entry"
                ));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(GateError::Entries(problems)) }
}

/// The tokens of a file, each with its line, or everything that is wrong with it.
fn read_file(path: &Path) -> Result<Vec<TokenSettings>, GateError> {
    let fields = settings_file::fields_of::<TokenFile>();
    let mut read = settings_file::read_file(path, &fields);
    let place = |line| Source::File { file: path.to_owned(), line };
    let line_of = |key: &str| read.lines.get(key.rsplit_once('.').map_or(key, |(table, _)| table)).copied();
    for (key, message) in settings_file::missing_keys(&read.table, &fields, "") {
        read.problems.push(Problem::new(place(line_of(&key)), key, message));
    }
    let wrong =
        |problems: Vec<Problem>| GateError::Entries(problems.iter().map(ToString::to_string).collect());
    if !read.problems.is_empty() {
        return Err(wrong(read.problems));
    }
    let mut file = TokenFile::deserialize(toml::Value::Table(read.table))
        .map_err(|error| wrong(vec![Problem::new(place(None), "", error.message())]))?;
    for (at, entry) in file.tokens.iter_mut().enumerate() {
        let key = format!("tokens[{at}]");
        entry.place = format!("{}: {key}", place(read.lines.get(&key).copied()));
    }
    Ok(file.tokens)
}

fn read_hash<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.trim();
    if digits.len() != 2 * N || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; N];
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(hash)
}
