//! The handle by which a package changes its bindings while the server runs.
//!
//! A package gets it before it is open, so it may publish a set before its first one is registered. That set then takes
//! the place of the first one: it is the newer of the two.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::handlers::PackageId;
use super::{Binding, DeclarationProblem, Handlers};

/// Publishes changed bindings of one package. Cheap to clone; it does not keep the server alive.
///
/// ```
/// use scomp::package::Package;
/// use scomp::server::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tools = Package::new("tools").bind("hello", "Greets.", async |name: String, _| Ok(format!("hello {name}")));
/// let publisher = tools.publisher();
/// let server = Server::builder().package(tools).build()?;
/// assert!(server.catalog().contains("hello"));
/// // The package has no bindings from the next eval on.
/// publisher.replace(Vec::new()).await;
/// assert!(!server.catalog().contains("hello"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct BindingPublisher(Arc<Mutex<Target>>);

/// Where the bindings of a package go.
#[derive(Debug)]
enum Target {
    /// Nowhere yet: the package is still opening. The latest set is kept until it is registered.
    Opening(Option<Vec<Binding>>),
    /// To the handlers of a server.
    Registered(Weak<Handlers>, PackageId),
}

impl Default for BindingPublisher {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Target::Opening(None))))
    }
}

impl BindingPublisher {
    /// Puts a new set in the place of all bindings of the package, and returns what was refused of it; the rest applies.
    ///
    /// A binding whose name another package has, whose schema is invalid or whose name breaks the rules is refused and
    /// logged; if the package had a binding of that name, it is removed. Scripts see the change from their next eval on.
    /// Calls in flight finish. Schemas are compiled on a thread for blocking work, within a Tokio runtime.
    pub async fn replace(&self, bindings: Vec<Binding>) -> Vec<DeclarationProblem> {
        let publisher = self.clone();
        let replaced = tokio::task::spawn_blocking(move || publisher.replace_now(bindings)).await;
        // The task fails only if the runtime stops first, and the server with it.
        replaced.unwrap_or_default()
    }

    pub(super) fn replace_now(&self, bindings: Vec<Binding>) -> Vec<DeclarationProblem> {
        let mut target = self.0.lock();
        match &mut *target {
            Target::Opening(latest) => {
                *latest = Some(bindings);
                Vec::new()
            }
            Target::Registered(handlers, package) => match handlers.upgrade() {
                Some(handlers) => handlers.replace(*package, bindings),
                // The server is gone, and with it every session that could call them.
                None => Vec::new(),
            },
        }
    }

    /// Publishes to nothing from now on; returns the package that it published for.
    pub(super) fn detach(&self) -> Option<PackageId> {
        match std::mem::replace(&mut *self.0.lock(), Target::Opening(None)) {
            Target::Opening(_) => None,
            Target::Registered(_, package) => Some(package),
        }
    }

    /// Runs `register` while no set can be published, with the set that was published early. What it returns is where
    /// later sets go.
    pub(super) fn register<R>(
        &self,
        register: impl FnOnce(Option<Vec<Binding>>) -> (Weak<Handlers>, PackageId, R),
    ) -> R {
        let mut target = self.0.lock();
        let early = match &mut *target {
            Target::Opening(early) => early.take(),
            Target::Registered(..) => None,
        };
        let (handlers, package, result) = register(early);
        *target = Target::Registered(handlers, package);
        result
    }
}
