//! `scomp-serve check`: everything that a start checks, without serving: the settings, tokens, certificate, packages,
//! policies and service scripts. It prints the bindings and where each comes from, or all problems.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use scomp::catalog::Catalog;
use scomp::client::Client;
use scomp::config::{LoadedSettings, Overrides, Settings};
use scomp::package::loader::{self, Loaded, PackageInfo};
use scomp::protocol::methods::EvalParams;
use scomp::rpc::Kind;
use scomp::server::{Gate, Server, Tls, check_policies};

use super::args::CheckArgs;
use super::{Failure, bindings, output, print_warnings, serve};

/// Put before a script: it is compiled whole, and ends before its first statement.
const NOT_RUN: &str = "throw 'compiled';";

/// Prints the bindings, or the problems.
pub(super) async fn run(args: &CheckArgs) -> Result<(), Failure> {
    let loaded_settings = args.settings.load_all(Overrides::default());
    print_warnings(&loaded_settings.warnings);
    let settings = &loaded_settings.settings;
    let mut problems: Vec<String> = loaded_settings.problems.iter().map(ToString::to_string).collect();
    problems.extend(check_files(&loaded_settings));
    if let Err(failure) = serve::resolve(&settings.listen, !settings.demands_authentication()).await
        && !settings.stdio
        && loaded_settings.problems.is_empty()
    {
        problems.push(failure.to_string());
    }
    let loaded = bindings::load(settings).await;
    problems.extend(check_gate(settings, loaded.as_ref().ok()));
    if let Err(found) = &loaded {
        problems.extend(found.iter().map(ToString::to_string));
    }
    let services = settings.bindings.as_deref().map(loader::services_in).unwrap_or_default();
    problems.extend(check_services(&services).await?);
    match loaded {
        Ok(loaded) if problems.is_empty() => {
            output::print(&overview(&loaded.handlers.catalog(), &loaded.packages, &loaded.services))
        }
        _ => {
            eprintln!("{}\n{}", problems.join("\n"), pluralize(problems.len(), "problem"));
            Err(Failure::Reported)
        }
    }
}

/// The files that the settings name: the certificate and its key, and the audit log.
fn check_files(loaded: &LoadedSettings) -> Vec<String> {
    let settings = &loaded.settings;
    let mut problems = Vec::new();
    if let Some(Err(error)) = settings.tls.as_ref().map(Tls::load) {
        problems.push(format!("{}: tls: {error}", loaded.source("tls")));
    }
    if let Some(path) = &settings.audit.path
        && let Err(error) = check_appendable(path)
    {
        problems.push(format!("{}: audit.path: {}: {error}", loaded.source("audit.path"), path.display()));
    }
    problems
}

/// Whether a file can be appended to, or made; it is not made here.
fn check_appendable(path: &Path) -> Result<(), String> {
    if path.exists() {
        let opened = std::fs::OpenOptions::new().append(true).open(path);
        return opened.map(drop).map_err(|error| error.to_string());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() { Ok(()) } else { Err("its folder does not exist".to_owned()) }
}

/// The tokens, and the names in their policies and in those of packages.
fn check_gate(settings: &Settings, loaded: Option<&Loaded>) -> Vec<String> {
    let gate = match Gate::new(&settings.auth, settings.origins.clone(), &settings.quotas) {
        Ok(gate) => gate,
        // The quotas of the settings are checked with the settings.
        Err(error) => {
            let text = error.to_string();
            return text.lines().filter(|line| !line.starts_with("quotas.")).map(str::to_owned).collect();
        }
    };
    let Some(loaded) = loaded else { return Vec::new() };
    let unknown = check_policies(&gate, &loaded.policies, &loaded.handlers.catalog());
    let (errors, warnings): (Vec<_>, Vec<_>) = unknown.iter().partition(|unknown| unknown.is_error);
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    errors.iter().map(ToString::to_string).collect()
}

/// Compiles the service scripts without running them.
async fn check_services(services: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let mut problems = Vec::new();
    if services.is_empty() {
        return Ok(problems);
    }
    let failed = |error: &dyn std::fmt::Display| Failure::Run(format!("cannot compile services: {error}"));
    let server = Server::builder().shards(1).build().map_err(|error| failed(&error))?;
    let client =
        Client::builder().connect_transport(server.connect()).await.map_err(|error| failed(&error))?;
    for service in services {
        let code = match tokio::fs::read_to_string(service).await {
            Ok(code) => code,
            Err(error) => {
                problems.push(format!("{}: cannot be read: {error}", service.display()));
                continue;
            }
        };
        let name = Some(service.display().to_string());
        let params = EvalParams { code: format!("{NOT_RUN}{code}"), name, ..EvalParams::default() };
        if let Err(error) = client.eval_with(params).await
            && let Some(error) = error.rpc().filter(|error| error.is(Kind::SyntaxError))
        {
            let stack = error.data.as_ref().and_then(|data| data.get("stack")?.as_str()).unwrap_or_default();
            let place = stack.lines().next().unwrap_or_default().trim().trim_start_matches("at ");
            let place = if place.is_empty() { service.display().to_string() } else { place.to_owned() };
            problems.push(format!("{place}: {}", error.message));
        }
    }
    Ok(problems)
}

/// The packages with their files and bindings, then the services, then how many there are.
fn overview(catalog: &Catalog, packages: &[PackageInfo], services: &[PathBuf]) -> String {
    let mut text = String::new();
    for package in packages {
        let _ = writeln!(text, "{} ({})", package.name, package.origin.display());
        for name in &package.bindings {
            let _ = writeln!(text, "  {name} [{}]", effects(catalog, name));
        }
        for item in &package.unmapped {
            let _ = writeln!(text, "  not mapped: {}: {}", item.name, item.reason);
        }
        for item in &package.notes {
            let _ = writeln!(text, "  note: {}: {}", item.name, item.reason);
        }
    }
    for service in services {
        let _ = writeln!(text, "service {}", service.display());
    }
    let counts = [
        pluralize(packages.len(), "package"),
        pluralize(catalog.len(), "binding"),
        pluralize(services.len(), "service"),
    ];
    let _ = writeln!(text, "{}, no problems", counts.join(", "));
    text
}

fn effects(catalog: &Catalog, name: &str) -> String {
    let declared = catalog.get(name).map(|entry| entry.declaration.effects.join(", "));
    declared.filter(|effects| !effects.is_empty()).unwrap_or_else(|| "no effects declared".to_owned())
}

fn pluralize(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use scomp::binding::{BindingLimits, Handlers, handler};
    use scomp::package::{Package, UnmappedItem};
    use scomp::protocol::declaration::Declaration;

    #[test]
    fn bindings_are_listed_by_package_with_effects() {
        let nothing = || handler(|_input, _call| async { Ok(serde_json::Value::Null) });
        let mut get = Declaration::named("orders.get");
        get.effects = vec!["read".to_owned(), "external".to_owned()];
        let package = Package::new("orders").with(get, BindingLimits::default(), nothing()).with(
            Declaration::named("orders.ping"),
            BindingLimits::default(),
            nothing(),
        );
        let handlers = Arc::new(Handlers::default());
        package.register(&handlers).unwrap();
        let packages = [PackageInfo {
            name: "orders".to_owned(),
            description: None,
            origin: "b/orders/declaration.json".into(),
            bindings: vec!["orders.get".to_owned(), "orders.ping".to_owned()],
            unmapped: vec![UnmappedItem { name: "orders-old".to_owned(), reason: "listed twice".to_owned() }],
            notes: vec![UnmappedItem { name: "orders.get".to_owned(), reason: "was renamed".to_owned() }],
        }];
        assert_eq!(
            overview(&handlers.catalog(), &packages, &["b/services/tick.js".into()]),
            "orders (b/orders/declaration.json)\n  orders.get [read, external]\n  orders.ping [no effects declared]\n\
             \x20 not mapped: orders-old: listed twice\n\
             \x20 note: orders.get: was renamed\n\
             service b/services/tick.js\n1 package, 2 bindings, 1 service, no problems\n"
        );
    }
}
