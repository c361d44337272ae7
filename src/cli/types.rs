//! `scomp-serve types`: TypeScript declarations of all bindings, for a model or an editor.

use scomp::catalog::typescript;
use scomp::client::Client;
use scomp::config::Overrides;
use scomp::protocol::declaration::Declaration;

use super::args::{RemoteArgs, TypesArgs};
use super::connect::to_failure;
use super::{Failure, bindings, output};

/// Namespaces of the controls of a session, which scripts do not see.
const CONTROL_NAMESPACES: [&str; 2] = ["bindings", "session"];

/// Prints the declarations.
pub(super) async fn run(args: &TypesArgs) -> Result<(), Failure> {
    let mut declared = match &args.remote.url {
        Some(url) => remote(url, &args.remote).await?,
        None => local(args).await?,
    };
    if !args.only.is_empty() {
        declared.retain(|declaration| args.only.iter().any(|only| is_within(&declaration.name, only)));
        if declared.is_empty() {
            return Err(Failure::Run(format!("no bindings in {}", args.only.join(", "))));
        }
    }
    output::print(&typescript::declarations(&declared))
}

async fn local(args: &TypesArgs) -> Result<Vec<Declaration>, Failure> {
    let settings = args.settings.load(Overrides::default())?;
    let loaded = bindings::load(&settings)
        .await
        .map_err(|problems| Failure::Run(bindings::join_problems(&problems)))?;
    let catalog = loaded.handlers.catalog();
    Ok(catalog.iter().map(|entry| entry.declaration.clone()).collect())
}

/// What a server lists in its handshake.
async fn remote(url: &str, remote: &RemoteArgs) -> Result<Vec<Declaration>, Failure> {
    let mut builder = Client::builder();
    if let Some(token) = &remote.token {
        builder = builder.token(token.clone());
    }
    let client = builder.connect(url).await.map_err(|error| to_failure(&error))?;
    let listed: Result<Vec<Declaration>, _> = client.bindings().iter().map(Declaration::from_peer).collect();
    client.close().await;
    let listed = listed.map_err(|error| Failure::Run(format!("{url}: {error}")))?;
    let is_control = |name: &str| CONTROL_NAMESPACES.iter().any(|namespace| is_within(name, namespace));
    Ok(listed.into_iter().filter(|declaration| !is_control(&declaration.name)).collect())
}

/// Whether a name is that one, or continues it.
fn is_within(name: &str, namespace: &str) -> bool {
    name.strip_prefix(namespace).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_within_its_namespaces_alone() {
        for (name, namespace, expected) in
            [("kv.get", "kv", true), ("kv", "kv", true), ("kvs.get", "kv", false), ("a.kv.get", "kv", false)]
        {
            assert_eq!(is_within(name, namespace), expected, "{name} in {namespace}");
        }
    }
}
