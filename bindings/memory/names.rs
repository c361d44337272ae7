//! Names of spaces, scopes and sessions in the store. Text from clients is escaped before it
//! becomes part of a path.

use std::path::PathBuf;

/// Longest name of a space. Escaping triples it, and a file name is limited to 255 bytes.
pub(super) const SPACE_BYTES_MAX: usize = 80;

/// Longest escaped principal that becomes a folder name; a longer one is replaced by its hash.
const PRINCIPAL_BYTES_MAX: usize = 200;

/// Folder of the spaces of scripts, with a folder per principal.
const PRINCIPALS_FOLDER: &str = "principals";

/// Longest id of an entity, a session, a request or a watch: these are keys of indexes, not data.
pub(super) const ID_BYTES_MAX: usize = 2048;

/// The sessions that share a document: all of the space, those of a user, or one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Scope {
    Space,
    User,
    Session,
}

impl Scope {
    /// `None` as name means the space.
    pub(super) fn parse(name: Option<&str>) -> Option<Self> {
        match name {
            None | Some("space") => Some(Self::Space),
            Some("user") => Some(Self::User),
            Some("session") => Some(Self::Session),
            Some(_) => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::User => "user",
            Self::Session => "session",
        }
    }
}

/// A document as a session names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Entity {
    pub(super) id: String,
    pub(super) scope: Scope,
}

impl Entity {
    pub(super) fn new(id: impl Into<String>, scope: Scope) -> Self {
        Self { id: id.into(), scope }
    }
}

/// A document as the store names it: the same for all sessions that share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DocumentKey {
    pub(super) id: String,
    pub(super) scope_key: String,
}

/// The principal and id of a session, which determine the documents in its scopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionIdentity {
    pub(super) principal: Option<String>,
    pub(super) session_id: String,
}

impl SessionIdentity {
    /// The key under which the session's commits are stored. It contains the principal, so another
    /// principal cannot use the same one.
    pub(super) fn session_key(&self) -> String {
        match &self.principal {
            Some(principal) => session_scope_key(principal, &self.session_id),
            None => self.session_id.clone(),
        }
    }

    /// The document that an entity refers to; `None` if its scope requires a principal and the
    /// session has none.
    pub(super) fn document_key(&self, entity: &Entity) -> Option<DocumentKey> {
        let scope_key = match (entity.scope, &self.principal) {
            (Scope::Space, _) => "space".to_owned(),
            (Scope::User, Some(principal)) => format!("user:{}", encode_component(principal)),
            (Scope::Session, Some(principal)) => session_scope_key(principal, &self.session_id),
            (Scope::User | Scope::Session, None) => return None,
        };
        Some(DocumentKey { id: entity.id.clone(), scope_key })
    }
}

fn session_scope_key(principal: &str, session_id: &str) -> String {
    format!("session:{}:{}", encode_component(principal), encode_component(session_id))
}

/// Whether a client may use this name for a space.
pub(super) fn is_space_name(space: &str) -> bool {
    !space.is_empty()
        && space.len() <= SPACE_BYTES_MAX
        && !matches!(space, "." | "..")
        && !space.contains(['/', '\\', '\0'])
}

/// The internal name of a space of a principal's scripts. It contains a slash, which clients cannot
/// use.
pub(super) fn script_space(principal: &str, space: &str) -> String {
    let encoded = encode_component(principal);
    if encoded.len() <= PRINCIPAL_BYTES_MAX && is_folder_name(principal) {
        return format!("{encoded}/{space}");
    }
    // An escaped name never has `%` before a lower-case letter, so this cannot collide with one.
    let hash = ring::digest::digest(&ring::digest::SHA256, principal.as_bytes());
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("%sha256-{hash}/{space}")
}

/// Splits the name of a script space into the escaped principal and the name that scripts use;
/// `None` for other spaces.
pub(super) fn split_script_space(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

fn is_folder_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
}

/// Path of a space's file in the store, without extension; `None` if the name is invalid.
pub(super) fn file_stem(name: &str) -> Option<PathBuf> {
    match split_script_space(name) {
        Some((principal, space)) => (is_folder_name(principal) && is_space_name(space))
            .then(|| PathBuf::from(PRINCIPALS_FOLDER).join(principal).join(encode_component(space))),
        None => is_space_name(name).then(|| PathBuf::from(encode_component(name))),
    }
}

/// Equivalent of JavaScript's `encodeURIComponent`.
pub(super) fn encode_component(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => encoded.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' => encoded.push(char::from(byte)),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn space_file_has_the_escaped_name() {
        assert_eq!(file_stem("did:key:z6Mk"), Some("did%3Akey%3Az6Mk".into()));
        assert_eq!(file_stem("é ü"), Some("%C3%A9%20%C3%BC".into()));
        assert!(file_stem(&"a".repeat(SPACE_BYTES_MAX)).is_some());
        for invalid in ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", &"a".repeat(SPACE_BYTES_MAX + 1)] {
            assert!(!is_space_name(invalid), "{invalid}");
        }
        for invalid in ["", ".", "..", "../x", "/x", "a/..", "a/b/c", "a/", "a/.", "a\\b", "a\0b"] {
            assert_eq!(file_stem(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn script_space_file_is_in_the_folder_of_its_principal() {
        let file = |principal: &str| file_stem(&script_space(principal, "team")).unwrap();
        assert_eq!(file("ann"), PathBuf::from("principals/ann/team"));
        assert_eq!(file("../a/b"), PathBuf::from("principals/..%2Fa%2Fb/team"));
        assert!(file("..").to_string_lossy().starts_with("principals/%sha256-"));
        let longest = "a".repeat(PRINCIPAL_BYTES_MAX);
        assert_eq!(file(&longest), PathBuf::from("principals").join(&longest).join("team"));
        let (one, two) = (file(&"a".repeat(PRINCIPAL_BYTES_MAX + 1)), file(&"b".repeat(500)));
        assert_ne!(one, two);
        assert!(one.to_string_lossy().starts_with("principals/%sha256-"));
        assert_eq!(split_script_space(&script_space("ann", "team")), Some(("ann", "team")));
        assert_eq!(split_script_space("team"), None);
    }

    proptest! {
        #[test]
        fn path_of_any_name_stays_in_its_folder(space in "\\PC{0,90}") {
            for (name, folders) in [(space.clone(), if space.contains('/') { 2 } else { 0 }), (script_space(&space, "x"), 2)] {
                let Some(stem) = file_stem(&name) else { continue };
                let components: Vec<_> = stem.components().collect();
                prop_assert_eq!(components.len(), folders + 1);
                let is_plain = |part: &std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
                prop_assert!(components.iter().all(is_plain));
                prop_assert!(components.iter().all(|part| part.as_os_str().len() <= 240));
            }
        }
    }

    #[test]
    fn user_and_session_scopes_require_a_principal() {
        let entity = |scope| Entity::new("of:x", scope);
        let anonymous = SessionIdentity { principal: None, session_id: "s".to_owned() };
        assert_eq!(anonymous.document_key(&entity(Scope::User)), None);
        assert_eq!(anonymous.document_key(&entity(Scope::Space)).unwrap().scope_key, "space");
        assert_eq!(anonymous.session_key(), "s");
        let ada = SessionIdentity { principal: Some("did:key:a".to_owned()), session_id: "s:1".to_owned() };
        assert_eq!(ada.document_key(&entity(Scope::User)).unwrap().scope_key, "user:did%3Akey%3Aa");
        assert_eq!(
            ada.document_key(&entity(Scope::Session)).unwrap().scope_key,
            "session:did%3Akey%3Aa:s%3A1"
        );
        assert_eq!(ada.session_key(), "session:did%3Akey%3Aa:s%3A1");
    }
}
