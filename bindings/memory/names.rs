//! How spaces, scopes and sessions are named in the store. Nothing that a peer writes becomes a path.

/// Longest name of a space. Escaped it is three times as long, and a file name ends at 255 bytes.
pub(super) const SPACE_BYTES_MAX: usize = 80;

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

/// The name of a space's file without its extension; `None` if the space can have none.
pub(super) fn file_stem(space: &str) -> Option<String> {
    let is_allowed = !space.is_empty()
        && space.len() <= SPACE_BYTES_MAX
        && !matches!(space, "." | "..")
        && !space.contains(['/', '\\', '\0']);
    is_allowed.then(|| encode_component(space))
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
        assert_eq!(file_stem("did:key:z6Mk").as_deref(), Some("did%3Akey%3Az6Mk"));
        assert_eq!(file_stem("é ü").as_deref(), Some("%C3%A9%20%C3%BC"));
        assert_eq!(file_stem(&"a".repeat(SPACE_BYTES_MAX)).map(|stem| stem.len()), Some(SPACE_BYTES_MAX));
        for refused in ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", &"a".repeat(SPACE_BYTES_MAX + 1)] {
            assert_eq!(file_stem(refused), None, "{refused}");
        }
    }

    proptest! {
        #[test]
        fn no_name_leads_out_of_its_folder(space in "\\PC{0,90}") {
            if let Some(stem) = file_stem(&space) {
                let path = std::path::Path::new("store").join(format!("{stem}.sqlite"));
                prop_assert_eq!(path.components().count(), 2);
                prop_assert!(path.starts_with("store"));
                prop_assert!(stem.len() <= 240);
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
