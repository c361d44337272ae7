//! The vectors, each against the profile that it names.

use std::collections::HashMap;

use serde_json::Value;

use crate::interop;
use crate::support::{Folder, Running};
use crate::vector_player::play;

/// A server per profile, each with its own state folder.
struct Profiles(HashMap<String, (Folder, Running)>);

impl Profiles {
    async fn host(&mut self, profile: &str) -> String {
        if !self.0.contains_key(profile) {
            let folder = Folder::copy_of(&interop().join(profile));
            let server = Running::folder(folder.path()).await;
            self.0.insert(profile.to_owned(), (folder, server));
        }
        let url = &self.0[profile].1.url;
        url.trim_start_matches("ws://").trim_end_matches('/').to_owned()
    }
}

/// `SCOMP_ONLY=word` selects the vectors with that word in their name.
#[tokio::test]
async fn every_vector_matches() {
    let text = std::fs::read_to_string(interop().join("vectors.json")).unwrap();
    let wanted = std::env::var("SCOMP_ONLY").unwrap_or_default();
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut profiles = Profiles(HashMap::new());
    let mut failures = Vec::new();
    for vector in &vectors {
        let name = vector["name"].as_str().unwrap();
        if name.contains(&wanted) {
            let host = profiles.host(vector["server"].as_str().unwrap_or("default")).await;
            if let Err(error) = play(vector, &host).await {
                failures.push(format!("{name}: {error}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
