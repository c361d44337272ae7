//! Functions with Rust types: those of a script or a client that a handler calls, and those of a handler that they call.
//!
//! A value on the wire has only the id of a function, and what the id means depends on the call. So a function is read
//! and written inside a [`FunctionScope`] of the call, which the thread holds while serde works on the value.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::call::HostFunctions;
use super::{BindingError, Call, FunctionRef, Handler, handler};
use crate::protocol::fn_ref::FnRef;
use crate::protocol::fn_values;
use crate::rpc::Kind;

/// A function with the types of its arguments and of its result.
///
/// As an argument of a handler, or anywhere inside one, it is a function of the script or the client: [`Self::call`]
/// calls it, and it is released when the last clone is dropped. [`Self::new`] makes one of a closure, to be
/// returned or passed on. `Args` is a tuple of up to four types.
///
/// ```
/// use scomp::binding::{BindingError, Function};
/// use scomp::package::Package;
/// use scomp::testing::TestServer;
///
/// /// Calls `visit` with each number up to `count`, and adds what it returns.
/// #[scomp::binding]
/// async fn sum_over(count: u32, visit: Function<(u32,), f64>) -> Result<f64, BindingError> {
///     let mut sum = 0.0;
///     for number in 1..=count {
///         sum += visit.call((number,)).await?;
///     }
///     Ok(sum)
/// }
///
/// /// Returns a function that multiplies by `factor`.
/// #[scomp::binding]
/// async fn multiplier(factor: f64) -> Function<(f64,), f64> {
///     Function::new("multiply", move |(number,): (f64,)| async move { Ok(number * factor) })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start(Package::new("sums").add::<sum_over>().add::<multiplier>()).await?;
/// assert_eq!(server.eval("await sumOver({ count: 3, visit: n => n * n })").await?, 14.0);
/// assert_eq!(server.eval("const double = await multiplier({ factor: 2 }); await double(21)").await?, 42.0);
/// # Ok(()) }
/// ```
pub struct Function<Args, Ret> {
    origin: Origin,
    types: PhantomData<fn(Args) -> Ret>,
}

#[derive(Clone)]
enum Origin {
    /// Of the script or the client.
    Received { function: FunctionRef, depth: u32, host_functions: HostFunctions },
    /// Of a handler.
    Own { name: String, handler: Arc<dyn Handler> },
}

impl<Args, Ret> Function<Args, Ret> {
    /// A function that a script or a client can call once it is part of an output or of an argument. Arguments that the
    /// caller leaves out are `null`.
    pub fn new<F, Fut>(name: impl Into<String>, function: F) -> Self
    where
        Args: Arguments + DeserializeOwned + Send + 'static,
        Ret: Serialize,
        F: Fn(Args) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Ret, BindingError>> + Send + 'static,
    {
        let function = Arc::new(function);
        let handler = handler(move |arguments, call: Call| {
            let function = Arc::clone(&function);
            async move {
                let writer = Writer::of(&call);
                let arguments = read(Args::fit(arguments), &call)?;
                writer.write(&function(arguments).await?)
            }
        });
        Self { origin: Origin::Own { name: name.into(), handler }, types: PhantomData }
    }

    /// Whether it can no longer be called, because its session has ended.
    pub fn is_gone(&self) -> bool {
        match &self.origin {
            Origin::Received { function, .. } => function.is_gone(),
            Origin::Own { .. } => false,
        }
    }

    /// Calls a function of the script or the client. One that was made with [`Self::new`] cannot be called from here.
    pub async fn call(&self, arguments: Args) -> Result<Ret, BindingError>
    where
        Args: Arguments,
        Ret: DeserializeOwned,
    {
        let Origin::Received { function, depth, host_functions } = &self.origin else {
            return Err(BindingError::new("a function of the handler itself cannot be called here"));
        };
        let scope = FunctionScope::for_writing(host_functions.clone());
        let arguments =
            scope.enter(|| arguments.to_values()).map_err(|error| invalid(Kind::InvalidInput, &error))?;
        let result = function.call(arguments, *depth).await?;
        // A function without a `return` has no value, which is `null` for a type of this language.
        let result = if result == json!({"$undefined": true}) { Value::Null } else { result };
        serde_json::from_value(result).map_err(|error| invalid(Kind::InvalidOutput, &error))
    }
}

fn invalid(kind: Kind, error: &serde_json::Error) -> BindingError {
    BindingError::of_kind(kind, error.to_string())
}

impl<Args, Ret> Clone for Function<Args, Ret> {
    fn clone(&self) -> Self {
        Self { origin: self.origin.clone(), types: PhantomData }
    }
}

impl<Args, Ret> fmt::Debug for Function<Args, Ret> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Received { function, .. } => f.debug_tuple("Function").field(function.id()).finish(),
            Origin::Own { name, .. } => f.debug_tuple("Function").field(name).finish(),
        }
    }
}

impl<'de, Args, Ret> Deserialize<'de> for Function<Args, Ret> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let id = fn_values::id_of(&value).ok_or_else(|| D::Error::custom("expected a function"))?;
        let id = FnRef::parse_or_unknown(id);
        let origin = FunctionScope::with_current(|scope| scope?.received(&id));
        let origin = origin.ok_or_else(|| D::Error::custom("expected a function of this call"))?;
        Ok(Self { origin, types: PhantomData })
    }
}

impl<Args, Ret> Serialize for Function<Args, Ret> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = match &self.origin {
            Origin::Received { function, .. } => json!({"$fn": function.id().to_string()}),
            Origin::Own { name, handler } => {
                let export = |scope: &FunctionScope| scope.host_functions.export(name, Arc::clone(handler));
                FunctionScope::with_current(|scope| scope.map(export))
                    .ok_or_else(|| S::Error::custom("a function can be written only inside a call"))?
            }
        };
        value.serialize(serializer)
    }
}

thread_local! {
    static CURRENT: RefCell<Option<FunctionScope>> = const { RefCell::new(None) };
}

/// What the functions in a value of a call are.
struct FunctionScope {
    functions: Vec<FunctionRef>,
    depth: u32,
    host_functions: HostFunctions,
}

impl FunctionScope {
    /// For a value that is made here, so that no function in it comes from elsewhere.
    fn for_writing(host_functions: HostFunctions) -> Self {
        Self { functions: Vec::new(), depth: 0, host_functions }
    }

    /// Runs `work`, which does not wait, inside the scope. The scope before it, if any, is back afterwards.
    fn enter<T>(self, work: impl FnOnce() -> T) -> T {
        struct Restore(Option<FunctionScope>);
        impl Drop for Restore {
            fn drop(&mut self) {
                // The scope that ends is dropped after the borrow: what it holds may end functions.
                let ended = CURRENT.with(|current| current.replace(self.0.take()));
                drop(ended);
            }
        }
        let _restore = Restore(CURRENT.with(|current| current.replace(Some(self))));
        work()
    }

    fn with_current<T>(look: impl FnOnce(Option<&Self>) -> T) -> T {
        CURRENT.with(|current| look(current.borrow().as_ref()))
    }

    fn received(&self, id: &FnRef) -> Option<Origin> {
        let function = self.functions.iter().find(|function| function.id() == id)?.clone();
        Some(Origin::Received { function, depth: self.depth, host_functions: self.host_functions.clone() })
    }
}

/// Reads the input of a call, with the functions in it.
pub(super) fn read<I: DeserializeOwned>(input: Value, call: &Call) -> Result<I, BindingError> {
    let parse = || serde_json::from_value(input);
    let read = if call.functions.is_empty() {
        parse()
    } else {
        let (functions, host_functions) = (call.functions.clone(), call.host_functions.clone());
        FunctionScope { functions, depth: call.depth, host_functions }.enter(parse)
    };
    read.map_err(|error| invalid(Kind::InvalidInput, &error))
}

/// Writes the output of a call, with the functions in it.
pub struct Writer(HostFunctions);

impl Writer {
    /// For the output of this call.
    pub fn of(call: &Call) -> Self {
        Self(call.host_functions.clone())
    }

    /// Writes the output.
    pub fn write<O: Serialize>(self, output: &O) -> Result<Value, BindingError> {
        let written = FunctionScope::for_writing(self.0).enter(|| serde_json::to_value(output));
        written.map_err(|error| invalid(Kind::InvalidOutput, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_outside_of_a_call_is_refused() {
        let read = serde_json::from_value::<Function<(), ()>>(json!({"$fn": "f1"}));
        assert_eq!(read.unwrap_err().to_string(), "expected a function of this call");
        let read = serde_json::from_value::<Function<(), ()>>(json!({}));
        assert_eq!(read.unwrap_err().to_string(), "expected a function");
        let own: Function<(), ()> = Function::new("f", |()| async { Ok(()) });
        assert!(serde_json::to_value(&own).is_err());
    }

    #[tokio::test]
    async fn own_function_is_exported_and_not_called_here() {
        let own: Function<(), ()> = Function::new("f", |()| async { Ok(()) });
        let host_functions = HostFunctions::default();
        let scope = FunctionScope::for_writing(host_functions.clone());
        let written = scope.enter(|| serde_json::to_value(&own)).unwrap();
        assert_eq!(written, json!({"$fn": "h1", "name": "f"}));
        assert!(host_functions.get(1).is_some());
        assert!(own.call(()).await.is_err());
        assert!(FunctionScope::with_current(|scope| scope.is_none()));
    }
}
