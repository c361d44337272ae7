//! Shared by tests: a temporary folder, and JWTs.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::Value;

/// A new temporary folder, removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("a2a-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed does not affect other tests.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Signs a JWT with HS256.
pub(crate) fn sign_jwt(secret: &str, header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes())))
}
