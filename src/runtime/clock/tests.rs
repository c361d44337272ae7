//! What scripts see of the clock: the same for the same seed, and nothing of the age of their context.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::super::engine::Engine;
use super::super::guest::SharedSession;
use super::super::total::{MemoryTotal, Share};
use super::*;
use crate::limits::Limits;
use crate::session::{Session, SessionState};

/// Draws from every source of random numbers there is.
const DRAWS: &str = "JSON.stringify([
    Math.random(), crypto.randomUUID(), Array.from(crypto.getRandomValues(new Uint8Array(9))), Math.random()])";

/// A context that no session has taken yet, like those of the pool.
fn context() -> Engine {
    Engine::new(Arc::new(Limits::default()), Share::replace(&MemoryTotal::new(usize::MAX))).unwrap()
}

/// A session of that clock takes the context.
fn attach(engine: &Engine, clock: Clock) -> Rc<SharedSession> {
    let limits = &engine.guest.limits;
    let state = SessionState::new(String::new(), String::new(), Arc::default(), limits, Time::default());
    let machine = RefCell::new(Session::new(state, Arc::clone(limits)));
    let session = Rc::new(SharedSession { machine, clock, port: None });
    engine.attach(&session);
    session
}

fn session(clock: Clock) -> Engine {
    let engine = context();
    attach(&engine, clock);
    engine
}

fn eval<V: for<'js> rquickjs::FromJs<'js>>(engine: &Engine, code: &str) -> V {
    engine.enter(|ctx| ctx.eval(code).unwrap())
}

fn draws(clock: Clock) -> String {
    eval(&session(clock), DRAWS)
}

#[test]
fn seeded_clock_draws_the_same_bytes_again() {
    let draw = |clock: Clock| {
        let mut bytes = [0; 20];
        assert!(clock.fill_random(&mut bytes));
        bytes
    };
    assert_eq!(draw(Clock::seeded(7)), draw(Clock::seeded(7)));
    assert_ne!(draw(Clock::seeded(7)), draw(Clock::seeded(8)));
    assert_ne!(draw(Clock::start()), [0; 20]);
}

#[test]
fn sessions_of_one_seed_draw_the_same() {
    assert_eq!(draws(Clock::seeded(7)), draws(Clock::seeded(7)));
}

#[test]
fn sessions_of_two_seeds_draw_differently() {
    let draws =
        |seed| -> Vec<serde_json::Value> { serde_json::from_str(&draws(Clock::seeded(seed))).unwrap() };
    for (one, other) in draws(7).into_iter().zip(draws(8)) {
        assert_ne!(one, other);
    }
}

#[test]
fn real_sessions_draw_differently() {
    let draws = || -> Vec<serde_json::Value> { serde_json::from_str(&draws(Clock::start())).unwrap() };
    for (one, other) in draws().into_iter().zip(draws()) {
        assert_ne!(one, other);
    }
}

#[test]
fn performance_starts_with_the_session() {
    // QuickJS has a `performance` of its own, which would count from here.
    let engine = context();
    let session = attach(&engine, Clock::seeded(7));
    assert_eq!(eval::<f64>(&engine, "performance.now()"), 0.0);
    session.clock.advance(Duration::from_millis(1500));
    assert_eq!(eval::<f64>(&engine, "performance.now()"), 1500.0);
    assert_eq!(
        eval::<String>(&engine, "new Date(performance.timeOrigin).toJSON()"),
        "2001-01-01T00:00:00.000Z"
    );
}

#[test]
fn random_numbers_are_spread_over_their_interval() {
    let code = "{
        let sum = 0, min = 1, max = 0, odd = 0;
        for (let i = 0; i < 1000; i++) {
            const n = Math.random();
            sum += n; min = Math.min(min, n); max = Math.max(max, n); odd += n * 2 ** 53 % 2;
        }
        JSON.stringify([min >= 0 && min < 0.01, max < 1 && max > 0.99, Math.round(sum / 100), Math.round(odd / 100)])
    }";
    assert_eq!(eval::<String>(&session(Clock::seeded(7)), code), "[true,true,5,5]");
}

#[test]
fn forgotten_random_words_are_drawn_anew() {
    let draw = |engine: &Engine| eval::<f64>(engine, "Math.random()");
    let (kept, copied) = (session(Clock::seeded(7)), session(Clock::seeded(7)));
    assert_eq!(draw(&kept), draw(&copied));
    copied.enter(|ctx| copied.kit(ctx, "forgetRandomWords").unwrap().call::<_, ()>(()).unwrap());
    assert_ne!(draw(&kept), draw(&copied));
}

#[test]
fn random_looks_like_the_built_in() {
    let code = "{
        const of = Object.getOwnPropertyDescriptor(Math, 'random');
        const isConstructor = (() => { try { new Math.random(); return true } catch { return false } })();
        JSON.stringify([of.writable, of.enumerable, of.configurable, Math.random.name, Math.random.length,
            'prototype' in Math.random, isConstructor, /\\[native code\\]/.test(Math.random),
            Object.getOwnPropertyNames(Math.random).join()])
    }";
    let expected = r#"[true,false,true,"random",0,false,false,true,"length,name"]"#;
    assert_eq!(eval::<String>(&session(Clock::seeded(7)), code), expected);
}

#[test]
fn random_withstands_damaged_built_ins() {
    let code = "
        globalThis.Uint32Array = globalThis.Uint8Array = null;
        const prototype = Object.getPrototypeOf(Int8Array.prototype);
        for (const key of Reflect.ownKeys(prototype)) delete prototype[key];
        Object.defineProperty(Object.prototype, '255', { get() { throw 1 } });
        Math.random()";
    let intact = eval::<f64>(&session(Clock::seeded(7)), "Math.random()");
    assert_eq!(eval::<f64>(&session(Clock::seeded(7)), code), intact);
}
