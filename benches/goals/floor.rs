//! The floors inside JavaScript: what QuickJS itself needs, through the same Rust library that the server uses.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Instant;

use anyhow::{Result, ensure};
use rquickjs::{Context, Ctx, Function, Promise, Runtime};

use crate::client::ONE_PLUS_ONE;
use crate::scripts::Script;
use crate::stats::{Samples, nanoseconds};

/// Evals that make one sample: one alone would be lost in the cost of the clock.
const EVALS_PER_SAMPLE: usize = 200;

/// Evals of `1+1`, and nothing else.
pub(crate) fn plain_evals(count: usize, samples: &mut Samples) -> Result<()> {
    in_batches(count, samples, |ctx| Ok(ctx.eval(ONE_PLUS_ONE)?))
}

/// Evals of `1+1` on one context after the other, as sessions that take turns: what one left in the caches the next drives
/// out.
pub(crate) fn evals_in_turns(contexts: usize, count: usize, samples: &mut Samples) -> Result<()> {
    let contexts =
        (0..contexts).map(|_| Context::full(&Runtime::new()?)).collect::<rquickjs::Result<Vec<_>>>()?;
    for _ in 0..count.div_ceil(contexts.len()) {
        let start = Instant::now();
        for context in &contexts {
            ensure!(context.with(|ctx| ctx.eval::<i32, _>(ONE_PLUS_ONE))? == 2, "1+1 is not 2");
        }
        samples.add(nanoseconds(start.elapsed()) / contexts.len() as f64);
    }
    Ok(())
}

/// Evals of `1+1` with top-level `await`: a promise, and the jobs that settle it.
pub(crate) fn awaiting_evals(count: usize, samples: &mut Samples) -> Result<()> {
    in_batches(count, samples, |ctx| {
        let settled: rquickjs::Object = ctx.eval_promise(ONE_PLUS_ONE)?.finish()?;
        Ok(settled.get("value")?)
    })
}

fn in_batches(
    count: usize,
    samples: &mut Samples,
    eval: impl for<'js> Fn(&Ctx<'js>) -> Result<i32>,
) -> Result<()> {
    let context = Context::full(&Runtime::new()?)?;
    context.with(|ctx| {
        for _ in 0..count.div_ceil(EVALS_PER_SAMPLE) {
            let start = Instant::now();
            for _ in 0..EVALS_PER_SAMPLE {
                ensure!(eval(&ctx)? == 2, "1+1 is not 2");
            }
            samples.add(nanoseconds(start.elapsed()) / EVALS_PER_SAMPLE as f64);
        }
        Ok(())
    })
}

/// Evals of a script by the engine alone, with a `lookup` that is a plain function.
pub(crate) fn script_evals(script: Script, count: usize, samples: &mut Samples) -> Result<()> {
    let context = Context::full(&Runtime::new()?)?;
    context.with(|ctx| {
        ctx.globals().set("lookup", Function::new(ctx.clone(), lookup)?)?;
        samples.start_round();
        for _ in 0..count {
            let start = Instant::now();
            let given: rquickjs::Value<'_> = ctx.eval(script.code)?;
            if let Some(promise) = given.as_promise() {
                promise.finish::<rquickjs::Value<'_>>()?;
            }
            samples.add(nanoseconds(start.elapsed()));
        }
        Ok(())
    })
}

fn lookup(ctx: Ctx<'_>, n: i32) -> rquickjs::Result<rquickjs::Object<'_>> {
    let order = rquickjs::Object::new(ctx)?;
    order.set("id", n)?;
    order.set("total", n * 2)?;
    Ok(order)
}

type Work = Pin<Box<dyn Future<Output = i32>>>;

/// Calls that wait to be worked on, each with what resolves its promise.
type Calls<'js> = RefCell<VecDeque<(Work, Function<'js>)>>;

/// Calls of an async Rust function whose result is ready, each awaited by the script before the next.
///
/// The library's own async functions come with a feature that the server does not use, and switching it on here would
/// build the measured server with it too. So this does what they do: a boxed future and a promise for each call, the
/// future polled when the script has nothing left to do, the promise resolved with its output.
pub(crate) fn async_calls(script: &str, count: usize, expected: i64, samples: &mut Samples) -> Result<()> {
    let context = Context::full(&Runtime::new()?)?;
    context.with(|ctx| {
        let calls = Rc::new(Calls::default());
        ctx.globals().set("ready", ready_function(&ctx, Rc::clone(&calls))?)?;
        let start = Instant::now();
        let promise: Promise<'_> = ctx.eval(script)?;
        pump(&ctx, &calls)?;
        samples.add(nanoseconds(start.elapsed()) / count as f64);
        let sum: i64 = promise.finish()?;
        ensure!(sum == expected, "{sum} instead of {expected}");
        Ok(())
    })
}

fn ready_function<'js>(ctx: &Ctx<'js>, calls: Rc<Calls<'js>>) -> rquickjs::Result<Function<'js>> {
    Function::new(ctx.clone(), move |ctx: Ctx<'js>, n: i32| -> rquickjs::Result<Promise<'js>> {
        let (promise, resolve, _reject) = Promise::new(&ctx)?;
        calls.borrow_mut().push_back((Box::pin(async move { n }), resolve));
        Ok(promise)
    })
}

/// Runs jobs and settles calls until there is neither.
fn pump<'js>(ctx: &Ctx<'js>, calls: &Calls<'js>) -> Result<()> {
    let mut task = TaskContext::from_waker(Waker::noop());
    loop {
        while ctx.execute_pending_job() {}
        let Some((mut work, resolve)) = calls.borrow_mut().pop_front() else { return Ok(()) };
        if let Poll::Ready(output) = work.as_mut().poll(&mut task) {
            resolve.call::<_, ()>((output,))?;
        }
    }
}
