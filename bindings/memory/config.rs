//! The settings of the package, and the values derived from them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::access::{Access, EVERYONE};
use super::auth::Identity;
use super::endpoint::AuthPolicy;
use super::names::is_space_name;
use super::space_table::StoreSettings;
use super::store::Durability;

/// Length of a generated secret, from which the identities of principals are derived.
const SECRET_BYTES: usize = 32;

/// Folder of the files in the store. Its name identifies the layout to other programs.
const LAYOUT_FOLDER: &str = "engine-v3";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Config {
    pub(super) store: Option<PathBuf>,
    #[serde(default)]
    pub(super) durability: DurabilityName,
    #[serde(default)]
    pub(super) authentication: Authentication,
    pub(super) audience: Option<String>,
    pub(super) modern_cell_rep: Option<bool>,
    #[serde(default)]
    pub(super) gate: GateName,
    #[serde(default)]
    pub(super) access: HashMap<String, AccessLists>,
    pub(super) listen: Option<String>,
    #[serde(default = "default_true")]
    pub(super) blobs: bool,
    pub(super) secret: Option<String>,
    #[serde(default)]
    pub(super) peers: BTreeMap<String, PeerConfig>,
}

fn default_true() -> bool {
    true
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DurabilityName {
    #[default]
    Full,
    Normal,
}

/// What `session.open` needs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Authentication {
    /// A signature.
    #[default]
    Signed,
    /// A signature over a challenge of the server.
    Strict,
    /// Nothing: every connection is trusted.
    Trusted,
}

/// What a connection needs before its first message.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum GateName {
    /// A token of the server, if it has tokens.
    #[default]
    Server,
    /// Nothing, as each `session.open` is signed.
    Signature,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessLists {
    read: Option<Vec<String>>,
    write: Option<Vec<String>>,
}

impl AccessLists {
    /// Replaces the names of principals by their identities.
    fn resolve(&self, space: &str, secret: &[u8]) -> Result<Access, String> {
        if self.read.is_none() && self.write.is_none() {
            return Err(format!("access.{space}: expected a list `read`, `write`, or both"));
        }
        let identity = |name: &String| match name.as_str() {
            "" => Err(format!("access.{space}: expected a DID, the name of a principal, or `{EVERYONE}`")),
            EVERYONE => Ok(name.clone()),
            did if did.starts_with("did:") => Ok(name.clone()),
            principal => {
                let identity =
                    Identity::for_principal(secret, principal).ok_or("secret: cannot derive a key")?;
                Ok(identity.did().to_owned())
            }
        };
        let resolve = |list: &Option<Vec<String>>| {
            list.as_ref().map(|list| list.iter().map(identity).collect::<Result<HashSet<_>, _>>()).transpose()
        };
        Ok(Access { read: resolve(&self.read)?, write: resolve(&self.write)? })
    }
}

/// A server that scripts address by its name in the settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PeerConfig {
    pub(super) url: String,
    pub(super) token: Option<String>,
    #[serde(default)]
    pub(super) dialect: PeerDialect,
    pub(super) protocol: Option<String>,
    pub(super) flags: Option<BTreeMap<String, bool>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PeerDialect {
    #[default]
    Fvj1,
    Plain,
}

impl Config {
    pub(super) fn parse(config: &Value) -> Result<Self, String> {
        let config = Self::deserialize(config).map_err(|error| error.to_string())?;
        if config.gate == GateName::Signature && config.authentication == Authentication::Trusted {
            return Err("gate: `signature` cannot be combined with authentication `trusted`, which would accept every \
                        connection unchecked; expected gate `server` or authentication `signed`"
                .to_owned());
        }
        Ok(config)
    }

    /// Logs a warning for each setting that accepts connections without a check.
    pub(super) fn warn_about_open_access(&self) {
        if self.gate == GateName::Signature {
            tracing::warn!(
                "memory: gate is `signature`: any key can create spaces without a token of the server"
            );
        }
        if self.authentication == Authentication::Trusted {
            tracing::warn!("memory: authentication is `trusted`: every connection can use all spaces");
        }
    }

    pub(super) fn shared_spaces(&self) -> SharedSpaces {
        SharedSpaces(self.access.keys().cloned().collect())
    }

    pub(super) fn store_settings(&self, folder: &Path, secret: &[u8]) -> Result<StoreSettings, String> {
        let durability = match self.durability {
            DurabilityName::Full => Durability::Full,
            DurabilityName::Normal => Durability::Normal,
        };
        let access = self.access.iter().map(|(space, lists)| {
            if !is_space_name(space) {
                return Err(format!("access: invalid space name {space:?}"));
            }
            Ok((space.clone(), lists.resolve(space, secret)?))
        });
        Ok(StoreSettings {
            folder: self.store.as_ref().map(|store| folder.join(store).join(LAYOUT_FOLDER)),
            durability,
            access: access.collect::<Result<_, String>>()?,
        })
    }

    pub(super) fn auth_policy(&self, secret: &[u8]) -> Result<AuthPolicy, String> {
        let server = Identity::for_principal(secret, "").ok_or("secret: cannot derive a key")?;
        Ok(AuthPolicy {
            is_trusted: self.authentication == Authentication::Trusted,
            is_strict: self.authentication == Authentication::Strict,
            audience: self.audience.clone().unwrap_or_else(|| server.did().to_owned()),
            modern_cells: self.modern_cell_rep,
        })
    }

    /// The secret from which identities are derived: configured, stored beside the spaces, or
    /// generated at each start.
    pub(super) fn secret(&self, folder: &Path) -> Result<Vec<u8>, String> {
        match (&self.secret, &self.store) {
            (Some(secret), _) => Ok(secret.as_bytes().to_vec()),
            (None, Some(store)) => load_or_create_secret(&folder.join(store)),
            (None, None) => generate_secret(),
        }
    }
}

/// The spaces listed in `access`, which the scripts of all principals share.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedSpaces(HashSet<String>);

impl SharedSpaces {
    pub(super) fn contains(&self, space: &str) -> bool {
        self.0.contains(space) || self.0.contains(EVERYONE)
    }
}

fn generate_secret() -> Result<Vec<u8>, String> {
    let mut secret = vec![0; SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(|error| error.to_string())?;
    Ok(secret)
}

fn load_or_create_secret(store: &Path) -> Result<Vec<u8>, String> {
    let file = store.join("identity.key");
    let describe_io_error = |error: std::io::Error| format!("{}: {error}", file.display());
    match std::fs::read(&file) {
        Ok(secret) if secret.len() == SECRET_BYTES => Ok(secret),
        Ok(_) => Err(format!("{}: expected {SECRET_BYTES} bytes", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir_all(store).map_err(describe_io_error)?;
            let secret = generate_secret()?;
            create_private_file(&file)
                .and_then(|mut file| file.write_all(&secret))
                .map_err(describe_io_error)?;
            Ok(secret)
        }
        Err(error) => Err(describe_io_error(error)),
    }
}

/// Creates a file that only this user can read.
fn create_private_file(file: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)
}
