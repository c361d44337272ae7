//! Contexts whose heap is copied away, unmapped and copied back: they go on as if nothing had happened.
#![allow(unsafe_code)]

mod kinds;
mod pointers;
mod stress;

use std::sync::Arc;

use crate::limits::Limits;
use crate::runtime::engine::Engine;
use crate::runtime::heap::Arena;
use crate::runtime::total::{MemoryTotal, Share};

fn share() -> Share {
    Share::replace(&MemoryTotal::new(usize::MAX))
}

fn engine() -> Engine {
    Engine::new(Arc::new(Limits::default()), share()).unwrap()
}

/// The context, after its heap was gone from memory.
fn restored(engine: Engine) -> Engine {
    let (data, pages) = (engine.data().unwrap(), engine.used().arena().copy_pages());
    let slot = Arc::clone(engine.used().arena().window().slot());
    drop(engine);
    // SAFETY: the pages are of this slot, and the context that was in it is gone; the data is of the same moment.
    unsafe {
        let arena = Arena::from_pages(slot, &pages).unwrap();
        Engine::from_restored(data, Arc::new(Limits::default()), share(), arena).unwrap()
    }
}

/// What a script returns, as text, after all jobs have run; or what it throws.
fn eval(engine: &Engine, code: &str) -> String {
    engine.enter(|ctx| {
        let value = ctx.eval::<rquickjs::Coerced<String>, _>(code);
        let text = match value {
            Ok(value) => value.0,
            Err(_) => format!("thrown: {:?}", ctx.catch()),
        };
        while ctx.execute_pending_job() {}
        text
    })
}

#[test]
fn image_is_rewound_to_any_number_of_times() {
    let first = engine();
    eval(&first, "var n = 0; var next = () => ++n;");
    let (data, pages) = (first.data().unwrap(), first.used().arena().copy_pages());
    let slot = Arc::clone(first.used().arena().window().slot());
    let mut current = first;
    for _ in 0..3 {
        assert_eq!(eval(&current, "next(); next()"), "2");
        drop(current);
        // SAFETY: as in `restored`.
        current = unsafe {
            let arena = Arena::from_pages(Arc::clone(&slot), &pages).unwrap();
            Engine::from_restored(data, Arc::new(Limits::default()), share(), arena).unwrap()
        };
    }
}

#[test]
fn restored_context_counts_its_memory_and_keeps_its_limit() {
    let total = MemoryTotal::new(usize::MAX);
    let limits = Arc::new(Limits { memory_bytes_max: 8 << 20, ..Limits::default() });
    let first = Engine::new(Arc::clone(&limits), Share::replace(&total)).unwrap();
    eval(&first, "var kept = new Uint8Array(4 << 20); 0");
    let bytes = first.memory_bytes();
    let (data, pages) = (first.data().unwrap(), first.used().arena().copy_pages());
    let slot = Arc::clone(first.used().arena().window().slot());
    drop(first);
    assert_eq!(total.drawn(), 0);
    // SAFETY: as in `restored`.
    let second = unsafe {
        let arena = Arena::from_pages(slot, &pages).unwrap();
        Engine::from_restored(data, limits, Share::replace(&total), arena).unwrap()
    };
    assert_eq!(second.memory_bytes(), bytes);
    assert!(total.drawn() as u64 >= bytes);
    assert!(eval(&second, "new Uint8Array(5 << 20); 0").starts_with("thrown"));
    assert_eq!(eval(&second, "kept = null; 0"), "0");
    assert_eq!(eval(&second, "new Uint8Array(5 << 20).length"), (5 << 20).to_string());
}

#[test]
fn root_is_held_across_a_restore() {
    let first = engine();
    let root = first.enter(|ctx| {
        let function: rquickjs::Function<'_> = ctx.eval("let n = 6; () => ++n").unwrap();
        first.guest.roots.hold(ctx, function).unwrap()
    });
    let second = restored(first);
    second.enter(|ctx| {
        let function: rquickjs::Function<'_> = second.guest.roots.get(ctx, root).unwrap();
        assert_eq!(function.call::<_, i32>(()).unwrap(), 7);
        second.guest.roots.release(root);
        assert!(second.guest.roots.get::<rquickjs::Function<'_>>(ctx, root).is_err());
    });
}
