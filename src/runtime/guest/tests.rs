//! What a context keeps for the functions that crossed, and that it goes when they do.

use std::sync::Arc;

use rquickjs::Value as JsValue;
use serde_json::json;

use super::super::engine::Engine;
use super::super::total::{MemoryTotal, Share};
use super::{ChargedTo, RefHolder, ValueSource};
use crate::binding::{BindingLimits, Registry, handler};
use crate::limits::Limits;
use crate::protocol::declaration::Declaration;
use crate::rpc::Kind;
use crate::schema::SchemaBudget;

fn engine(limits: Limits, registry: Registry) -> Engine {
    let share = Share::replace(&MemoryTotal::new(usize::MAX));
    Engine::new(Arc::new(limits), Arc::new(registry), share).unwrap()
}

/// A binding `watch` that says what the function in its input takes.
fn watching() -> Registry {
    let input = json!({"properties": {"on": {"x-fn": {"input": {"type": "number"}}}}});
    let declaration = Declaration { input: Some(input), ..Declaration::named("watch") };
    let answer = handler(|_, _| async { Ok(json!(null)) });
    let mut registry = Registry::default();
    registry.add(declaration, &BindingLimits::default(), answer, "tests", "").unwrap();
    registry
}

#[test]
fn export_schemas_end_with_their_function() {
    let engine = engine(Limits::default(), watching());
    let guest = &engine.guest;
    let schemas = Arc::clone(&guest.registry.at(0).unwrap().function_params[0].schemas);
    let unused = Arc::strong_count(&schemas);
    guest.owner.set(ChargedTo::Eval(1));
    engine.enter(|ctx| {
        engine.set_bindings(ctx, ["watch"].into_iter()).unwrap();
        ctx.eval::<JsValue<'_>, _>("watch({on: x => x}); watch({on: x => x})").unwrap();
        assert_eq!(Arc::strong_count(&schemas), unused + 2);
        for id in [1, 2] {
            assert!(guest.functions.borrow_mut().release(RefHolder::Handler, id, 1).is_some());
        }
        assert_eq!(Arc::strong_count(&schemas), unused);
    });
}

#[test]
fn import_schemas_of_a_refused_function_are_dropped() {
    let engine = engine(Limits { references_max: 1, ..Limits::default() }, Registry::default());
    let (guest, budget) = (&engine.guest, SchemaBudget::new(1 << 20));
    guest.schema_budget.replace(budget.clone());
    engine.enter(|ctx| {
        let typed = |id: &str| json!({"$fn": id, "input": {"type": "number"}});
        let kept = guest.decode(ctx, &typed("c1"), ValueSource::Client).unwrap();
        let used = budget.used();
        assert!(used > 0);
        let refused = guest.decode(ctx, &typed("c2"), ValueSource::Client).unwrap_err();
        assert_eq!((refused.kind, budget.used()), (Some(Kind::TooManyRefs), used));
        drop(kept);
    });
}
