//! What a context keeps for the functions that crossed, and that it goes when they do.

use std::sync::Arc;

use rquickjs::Value as JsValue;
use serde_json::json;

use super::super::engine::Engine;
use super::super::total::{MemoryTotal, Share};
use crate::catalog::{Catalog, CatalogBuilder, CompiledSchemas};
use crate::limits::Limits;
use crate::protocol::declaration::Declaration;
use crate::rpc::Kind;
use crate::schema::{SchemaBudget, SchemaSource};
use crate::session::{ChargedTo, RefHolder, ValueSource};

fn engine(limits: Limits) -> Engine {
    let share = Share::replace(&MemoryTotal::new(usize::MAX));
    Engine::new(Arc::new(limits), share).unwrap()
}

/// A binding `watch` that declares what the function in its input takes.
fn watching() -> Catalog {
    let input = json!({"properties": {"on": {"x-fn": {"input": {"type": "number"}}}}});
    let declaration = Declaration { input: Some(input), ..Declaration::named("watch") };
    let schemas = CompiledSchemas::compile(&declaration, SchemaSource::Operator).unwrap();
    let mut builder = CatalogBuilder::default();
    builder.push(schemas.into_entry(declaration, None));
    builder.build()
}

#[test]
fn export_schemas_end_with_their_function() {
    let engine = engine(Limits::default());
    let guest = &engine.guest;
    let catalog = Arc::new(watching());
    let schemas = Arc::clone(&catalog.at(0).unwrap().params[0].schemas);
    let unused = Arc::strong_count(&schemas);
    {
        let state = &mut guest.machine_mut().state;
        (state.catalog, state.in_turn) = (catalog, Some(ChargedTo::Eval(1)));
    }
    engine.enter(|ctx| {
        engine.set_bindings(ctx, ["watch"].into_iter()).unwrap();
        ctx.eval::<JsValue<'_>, _>("watch({on: x => x}); watch({on: x => x})").unwrap();
        assert_eq!(Arc::strong_count(&schemas), unused + 2);
        for number in [1, 2] {
            let state = &mut guest.machine_mut().state;
            assert!(state.references.release(RefHolder::Handler, number, 1).is_some());
        }
        assert_eq!(Arc::strong_count(&schemas), unused);
    });
}

#[test]
fn import_schemas_of_a_refused_function_are_dropped() {
    let engine = engine(Limits { references_max: 1, ..Limits::default() });
    let (guest, budget) = (&engine.guest, SchemaBudget::new(1 << 20));
    guest.schema_budget.replace(budget.clone());
    engine.enter(|ctx| {
        let typed = |id: &str| json!({"$fn": id, "input": {"type": "number"}});
        let kept = guest.decode(ctx, &typed("c1"), ValueSource::Client(0)).unwrap();
        let used = budget.used();
        assert!(used > 0);
        let refused = guest.decode(ctx, &typed("c2"), ValueSource::Client(0)).unwrap_err();
        assert_eq!((refused.kind, budget.used()), (Some(Kind::TooManyRefs), used));
        drop(kept);
    });
}
