//! `ready(n)`: a binding that answers immediately, checked by schemas both ways, for benchmarks of such a call.

use scomp::binding::{BindingLimits, Call, typed};
use scomp::package::Package;
use scomp::protocol::declaration::Declaration;
use serde_json::json;

/// The package with this binding alone.
pub(crate) fn package() -> Package {
    let integer = json!({"type": "integer"});
    let declaration = Declaration {
        name: "ready".to_owned(),
        description: Some("Returns its input.".to_owned()),
        input: Some(integer.clone()),
        output: Some(integer),
        effects: Vec::new(),
        hints: None,
    };
    let handler = typed(|n: i64, _call: Call| async move { Ok(n) });
    Package::new("bench").with(declaration, BindingLimits::default(), handler)
}
