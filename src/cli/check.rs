//! `scomp-serve check`: the bindings of a folder, where each comes from, and what is wrong.

use std::fmt::Write as _;
use std::path::PathBuf;

use scomp::catalog::Catalog;
use scomp::config::Overrides;
use scomp::package::loader::PackageInfo;
use scomp::server::{Gate, check_policies};

use super::args::CheckArgs;
use super::{Failure, bindings, output};

/// Prints the bindings, or the problems.
pub(super) async fn run(args: &CheckArgs) -> Result<(), Failure> {
    let settings = args.settings.load(Overrides::default())?;
    if settings.bindings.is_none() && settings.mcp_files.is_empty() {
        return Err(Failure::Usage("check: --bindings DIR or --mcp FILE is needed".to_owned()));
    }
    // Problems of tokens and of packages are reported together.
    let gate = Gate::new(&settings.auth, settings.origins.clone(), &settings.quotas);
    let mut problems: Vec<String> = gate.as_ref().err().map(ToString::to_string).into_iter().collect();
    let loaded = bindings::load(&settings).await;
    match (&gate, &loaded) {
        (Ok(gate), Ok(loaded)) => {
            let unknown = check_policies(gate, &loaded.policies, &loaded.handlers.catalog());
            let (errors, warnings): (Vec<_>, Vec<_>) = unknown.iter().partition(|unknown| unknown.is_error);
            warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            problems.extend(errors.iter().map(ToString::to_string));
        }
        (_, Err(found)) => problems.extend(found.iter().map(ToString::to_string)),
        (Err(_), Ok(_)) => {}
    }
    match loaded {
        Ok(loaded) if problems.is_empty() => {
            output::print(&overview(&loaded.handlers.catalog(), &loaded.packages, &loaded.services))
        }
        _ => {
            let lines: Vec<&str> = problems.iter().flat_map(|problem| problem.lines()).collect();
            eprintln!("{}\n{}", lines.join("\n"), pluralize(lines.len(), "problem"));
            Err(Failure::Reported)
        }
    }
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
