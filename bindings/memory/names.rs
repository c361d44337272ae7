//! How spaces, scopes and sessions are named in the store. Nothing that a peer writes becomes a path.

use std::path::PathBuf;

/// Longest name of a space. Escaped it is three times as long, and a file name ends at 255 bytes.
pub(super) const SPACE_BYTES_MAX: usize = 80;

/// Longest principal whose name is the name of a folder; of a longer one it is a hash.
const PRINCIPAL_BYTES_MAX: usize = 200;

/// Where the spaces of scripts are, by principal.
const PRINCIPALS_FOLDER: &str = "principals";

/// Longest identifier of an entity, a session or a watch: a key in an index, not data.
pub(super) const ID_BYTES_MAX: usize = 2048;

/// Who shares a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Scope {
    Space,
    User,
    Session,
}

impl Scope {
    /// By its name; left out, a document is the space's.
    pub(super) fn named(name: Option<&str>) -> Option<Self> {
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

/// A document, as a session names it.
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

/// A document, as the store names it: the same for every session that shares it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) id: String,
    pub(super) scope_key: String,
}

/// Whose session it is; decides what its scopes mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) principal: Option<String>,
    pub(super) session_id: String,
}

impl Owner {
    /// What the session's own commits are remembered by; with a principal it cannot be guessed by another one.
    pub(super) fn session_key(&self) -> String {
        match &self.principal {
            Some(principal) => session_scope_key(principal, &self.session_id),
            None => self.session_id.clone(),
        }
    }

    /// Which document is meant; `None` if that depends on a principal and there is none.
    pub(super) fn key(&self, entity: &Entity) -> Option<Key> {
        let scope_key = match (entity.scope, &self.principal) {
            (Scope::Space, _) => "space".to_owned(),
            (Scope::User, Some(principal)) => format!("user:{}", encode_component(principal)),
            (Scope::Session, Some(principal)) => session_scope_key(principal, &self.session_id),
            (Scope::User | Scope::Session, None) => return None,
        };
        Some(Key { id: entity.id.clone(), scope_key })
    }
}

fn session_scope_key(principal: &str, session_id: &str) -> String {
    format!("session:{}:{}", encode_component(principal), encode_component(session_id))
}

/// Whether a client may call a space that.
pub(super) fn is_space_name(space: &str) -> bool {
    !space.is_empty()
        && space.len() <= SPACE_BYTES_MAX
        && !matches!(space, "." | "..")
        && !space.contains(['/', '\\', '\0'])
}

/// What the space of a principal's scripts is called inside: no client can say a name with a slash.
pub(super) fn script_space(principal: &str, space: &str) -> String {
    let encoded = encode_component(principal);
    if encoded.len() <= PRINCIPAL_BYTES_MAX && is_folder_name(principal) {
        return format!("{encoded}/{space}");
    }
    // No escaped name has `%` before a lower-case letter.
    let hash = ring::digest::digest(&ring::digest::SHA256, principal.as_bytes());
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("%sha256-{hash}/{space}")
}

/// The principal, escaped, and the name by which its scripts know the space; `None` for any other space.
pub(super) fn split_script_space(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

fn is_folder_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
}

/// Where the file of a space stands in the store, without its extension; `None` if the space can have none.
pub(super) fn file_stem(name: &str) -> Option<PathBuf> {
    match split_script_space(name) {
        Some((principal, space)) => (is_folder_name(principal) && is_space_name(space))
            .then(|| PathBuf::from(PRINCIPALS_FOLDER).join(principal).join(encode_component(space))),
        None => is_space_name(name).then(|| PathBuf::from(encode_component(name))),
    }
}

/// As `encodeURIComponent` does it.
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
    fn a_space_is_a_file_of_its_escaped_name() {
        assert_eq!(file_stem("did:key:z6Mk"), Some("did%3Akey%3Az6Mk".into()));
        assert_eq!(file_stem("é ü"), Some("%C3%A9%20%C3%BC".into()));
        assert!(file_stem(&"a".repeat(SPACE_BYTES_MAX)).is_some());
        for refused in ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", &"a".repeat(SPACE_BYTES_MAX + 1)] {
            assert!(!is_space_name(refused), "{refused}");
        }
        for refused in ["", ".", "..", "../x", "/x", "a/..", "a/b/c", "a/", "a/.", "a\\b", "a\0b"] {
            assert_eq!(file_stem(refused), None, "{refused}");
        }
    }

    #[test]
    fn script_space_is_a_file_in_the_folder_of_its_principal() {
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
        fn no_name_leads_out_of_its_folder(space in "\\PC{0,90}") {
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
    fn documents_of_a_user_or_a_session_need_a_principal() {
        let entity = |scope| Entity::new("of:x", scope);
        let nobody = Owner { principal: None, session_id: "s".to_owned() };
        assert_eq!(nobody.key(&entity(Scope::User)), None);
        assert_eq!(nobody.key(&entity(Scope::Space)).unwrap().scope_key, "space");
        assert_eq!(nobody.session_key(), "s");
        let ada = Owner { principal: Some("did:key:a".to_owned()), session_id: "s:1".to_owned() };
        assert_eq!(ada.key(&entity(Scope::User)).unwrap().scope_key, "user:did%3Akey%3Aa");
        assert_eq!(ada.key(&entity(Scope::Session)).unwrap().scope_key, "session:did%3Akey%3Aa:s%3A1");
        assert_eq!(ada.session_key(), "session:did%3Akey%3Aa:s%3A1");
    }
}
