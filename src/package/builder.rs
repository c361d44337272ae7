//! A set of bindings that belong together, with their handlers.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::binding::{
    Binding, BindingError, BindingFn, BindingLimits, BindingPublisher, Call, DeclarationProblem, Handler,
    Handlers, MissingState, PackageBindings, States, type_schema, typed,
};
use crate::protocol::declaration::Declaration;
use crate::schema::SchemaSource;

/// What can be wrong with a package: every problem, not only the first.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct PackageError(pub Vec<DeclarationProblem>);

/// Bindings made in code.
///
/// ```
/// use scomp::binding::{BindingError, BindingLimits, Call};
/// use scomp::package::Package;
/// use scomp::server::Server;
///
/// async fn send((to, text): (String, String), _: Call) -> Result<usize, BindingError> {
///     if !to.contains('@') {
///         return Err(BindingError::new("no such address"));
///     }
///     Ok(text.len())
/// }
///
/// let limits = BindingLimits { timeout_ms: Some(5_000), ..BindingLimits::default() };
/// let mail = Package::new("mail").bind_with("mail.send", "Sends a mail.", ["external"], limits, send);
/// let server = Server::builder().package(mail).build()?;
/// assert!(server.catalog().contains("mail.send"));
/// # Ok::<(), scomp::server::StartError>(())
/// ```
#[derive(Clone, Default)]
pub struct Package {
    name: String,
    bindings: Vec<DraftBinding>,
    states: States,
    publisher: BindingPublisher,
}

/// A binding of a package that is not complete yet.
#[derive(Clone)]
enum DraftBinding {
    Ready(Binding),
    /// Its handler is made when all states are there.
    Function(DraftFunction),
}

#[derive(Clone)]
struct DraftFunction {
    declaration: Declaration,
    limits: BindingLimits,
    handler: fn(&States) -> Result<Arc<dyn Handler>, MissingState>,
}

impl DraftBinding {
    /// The binding with its handler, or its name and what is missing.
    fn finish(self, states: &States) -> Result<Binding, (String, MissingState)> {
        match self {
            Self::Ready(binding) => Ok(binding),
            Self::Function(DraftFunction { declaration, limits, handler }) => match handler(states) {
                Ok(handler) => Ok(Binding { declaration, limits, handler }),
                Err(missing) => Err((declaration.name, missing)),
            },
        }
    }
}

impl Package {
    /// An empty package.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a function as a binding; its schemas are those of its types.
    #[must_use]
    pub fn bind<I, O, F, Fut>(self, name: &str, description: &str, function: F) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema,
        F: Fn(I, Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, BindingError>> + Send + 'static,
    {
        self.bind_with(name, description, [], BindingLimits::default(), function)
    }

    /// Adds a function as a binding, with its effects and limits.
    #[must_use]
    pub fn bind_with<'a, I, O, F, Fut>(
        self,
        name: &str,
        description: &str,
        effects: impl IntoIterator<Item = &'a str>,
        limits: BindingLimits,
        function: F,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema,
        F: Fn(I, Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, BindingError>> + Send + 'static,
    {
        let declaration = Declaration {
            description: Some(description.to_owned()),
            input: Some(type_schema::of_input::<I>()),
            output: Some(type_schema::of_output::<O>()),
            effects: effects.into_iter().map(str::to_owned).collect(),
            ..Declaration::named(name)
        };
        self.with(declaration, limits, typed(function))
    }

    /// Adds a binding with a declaration made by hand.
    #[must_use]
    pub fn with(
        mut self,
        declaration: Declaration,
        limits: BindingLimits,
        handler: Arc<dyn Handler>,
    ) -> Self {
        self.bindings.push(DraftBinding::Ready(Binding { declaration, limits, handler }));
        self
    }

    /// Adds a function with [`#[scomp::binding]`](macro@crate::binding).
    #[must_use]
    pub fn add<F: BindingFn>(mut self) -> Self {
        let (declaration, limits) = (F::declaration(), F::limits());
        let draft = DraftFunction { declaration, limits, handler: F::handler };
        self.bindings.push(DraftBinding::Function(draft));
        self
    }

    /// Adds the [`State`](crate::binding::State) of that type for the binding functions of this package, before or
    /// after them.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.states.insert(state);
        self
    }

    /// The handle by which its bindings are changed while a server offers them.
    pub fn publisher(&self) -> BindingPublisher {
        self.publisher.clone()
    }

    /// Registers all bindings; the error lists every problem.
    pub fn register(self, handlers: &Arc<Handlers>) -> Result<(), PackageError> {
        let (mut bindings, mut problems) = (Vec::new(), Vec::new());
        for (at, draft) in self.bindings.into_iter().enumerate() {
            let path = format!("/bindings/{at}");
            match draft.finish(&self.states) {
                Ok(binding) => bindings.push((binding, path)),
                Err((name, missing)) => problems.push(DeclarationProblem {
                    origin: self.name.clone(),
                    path,
                    message: format!("{name}: {missing}"),
                }),
            }
        }
        let registration = handlers.add(PackageBindings {
            origin: self.name,
            source: SchemaSource::Operator,
            bindings,
            publisher: self.publisher,
        });
        problems.extend(registration.problems);
        if problems.is_empty() { Ok(()) } else { Err(PackageError(problems)) }
    }

    /// The bindings with their handlers; the error is the first problem.
    pub(super) fn into_bindings(self) -> Result<Vec<Binding>, String> {
        let finish = |draft: DraftBinding| {
            draft.finish(&self.states).map_err(|(name, missing)| format!("{name}: {missing}"))
        };
        self.bindings.into_iter().map(finish).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize, JsonSchema)]
    struct Query {
        id: String,
    }

    #[derive(Serialize, JsonSchema)]
    struct Order {
        total: f64,
        items: Vec<Item>,
    }

    #[derive(Serialize, JsonSchema)]
    struct Item {
        sku: String,
    }

    async fn get_order(query: Query, _: Call) -> Result<Option<Order>, BindingError> {
        let item = Item { sku: query.id };
        Ok(Some(Order { total: 1.0, items: vec![item] }))
    }

    #[test]
    fn schemas_of_types_are_complete() {
        let package = Package::new("orders").bind_with(
            "getOrder",
            "Fetch an order.",
            ["read"],
            BindingLimits::default(),
            get_order,
        );
        let handlers = Arc::new(Handlers::default());
        package.register(&handlers).unwrap();
        let handler = handlers.get("getOrder").unwrap();
        let declaration = &handler.entry.declaration;
        let input = declaration.input.as_ref().unwrap();
        assert_eq!(input["required"], json!(["id"]));
        assert_eq!(input.get("$schema"), None);
        let output = declaration.output.as_ref().unwrap();
        assert!(output["$defs"]["Order"]["properties"]["items"].is_object());
        assert!(output["$defs"]["Item"].is_object());
        assert_eq!(declaration.effects, ["read"]);
    }

    #[test]
    fn every_problem_of_a_package_is_reported() {
        let package =
            Package::new("p").bind("a", "", get_order).bind("a", "", get_order).bind("eval", "", get_order);
        let PackageError(problems) = package.register(&Arc::default()).unwrap_err();
        let places: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(places, ["/bindings/1/name", "/bindings/2/name"]);
    }
}
