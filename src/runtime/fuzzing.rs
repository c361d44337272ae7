//! Entry points for the fuzzers to private parts: the source transform and the value decoder.

use std::sync::Arc;

use serde_json::Value;

use super::engine::Engine;
use super::source::{self, Options, PreparedCode, SourceError};
use super::total::{MemoryTotal, Share};
use super::value::{Text, Tree};
use crate::limits::Limits;
use crate::session::{RefHolder, ValueSource};

/// The source transform: lines stay where they are, and what is refused is refused at a place in the code.
pub fn source(bytes: &[u8]) {
    let Ok(code) = std::str::from_utf8(bytes) else { return };
    let is_binding = |name: &str| name == "orders";
    for fresh in [false, true] {
        let options = Options { fresh, is_binding: &is_binding };
        check_prepared(code, source::prepare(code, &options).map(Some));
        check_prepared(code, source::rescue(code, &options));
    }
    source::declared_names(code);
}

fn lines(code: &str) -> u32 {
    u32::try_from(code.matches('\n').count() + 1).unwrap_or(u32::MAX)
}

fn check_prepared(code: &str, prepared: Result<Option<PreparedCode<'_>>, SourceError>) {
    match prepared {
        Ok(None) => {}
        Ok(Some(prepared)) => {
            // What wraps a fresh code ends in a line of its own: the code may end in a comment.
            let added = lines(&prepared.code).checked_sub(lines(code));
            assert!(added.is_some_and(|added| added <= 1), "{:?}", prepared.code);
            for (number, line) in (1_u32..).zip(prepared.code.split('\n')) {
                let end = u32::try_from(line.len()).unwrap_or(u32::MAX);
                let original = prepared.positions.original(number, end);
                let is_true = match original {
                    Some((line, column)) => line == number && (column > 0 || end == 0),
                    None => number > lines(code),
                };
                assert!(is_true, "{number}:{end} is {original:?}");
            }
        }
        Err(error) => assert!((1..=lines(code)).contains(&error.line) && error.column > 0, "{error:?}"),
    }
}

/// The value decoder: what it builds is written and then read again.
pub fn value(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    let share = Share::replace(&MemoryTotal::new(usize::MAX));
    let Ok(engine) = Engine::new(Arc::new(Limits::default()), share) else {
        return;
    };
    engine.enter(|ctx| {
        let Ok(built) = engine.guest.decode(ctx, &value, ValueSource::Client(0)) else { return };
        let Ok(written) = engine.guest.encode::<Tree>(ctx, &built, RefHolder::Client, &mut Vec::new()) else {
            return;
        };
        let text = engine.guest.encode::<Text>(ctx, &built, RefHolder::Client, &mut Vec::new());
        let text = text.map(|text| serde_json::from_str::<Value>(text.get()));
        assert!(matches!(&text, Ok(Ok(text)) if *text == written), "{written} was sent as {text:?}");
        let again = engine.guest.decode(ctx, &written, ValueSource::Client(0));
        assert!(again.is_ok(), "{value} was written as {written}: {:?}", again.err());
    });
}
