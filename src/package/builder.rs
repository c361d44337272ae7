//! A set of bindings that belong together, with their handlers.

use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::binding::{
    Binding, BindingError, BindingLimits, BindingPublisher, Call, DeclarationProblem, Handler, Handlers,
    PackageBindings, typed,
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
    bindings: Vec<Binding>,
    publisher: BindingPublisher,
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
            input: Some(schema_of::<I>(settings().for_deserialize())),
            output: Some(schema_of::<O>(settings().for_serialize())),
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
        self.bindings.push(Binding { declaration, limits, handler });
        self
    }

    /// The handle by which its bindings are changed while a server offers them.
    pub fn publisher(&self) -> BindingPublisher {
        self.publisher.clone()
    }

    /// Registers all bindings; the error lists every problem.
    pub fn register(self, handlers: &Arc<Handlers>) -> Result<(), PackageError> {
        let place = |(at, binding)| (binding, format!("/bindings/{at}"));
        let registration = handlers.add(PackageBindings {
            origin: self.name,
            source: SchemaSource::Operator,
            bindings: self.bindings.into_iter().enumerate().map(place).collect(),
            publisher: self.publisher,
        });
        match registration.problems.is_empty() {
            true => Ok(()),
            false => Err(PackageError(registration.problems)),
        }
    }
}

/// Every schema here is Draft 2020-12, so none has to name its draft.
fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None)
}

/// The schema of a type; what it refers to is in its own `$defs`.
fn schema_of<T: JsonSchema>(settings: SchemaSettings) -> Value {
    settings.into_generator().into_root_schema_for::<T>().to_value()
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
