//! What the fuzzers run: one function a target, each over any bytes at all.
//!
//! A target states laws beyond "it does not crash", as assertions. The functions are compiled for `cargo test` too,
//! which runs them over the kept corpus, so a target that no longer holds is seen before a night of fuzzing.

use serde_json::Value;

use crate::protocol::declaration::Declaration;
use crate::protocol::peer::{Effect, Peer};
use crate::rpc::{self, Message};
use crate::schema::{CheckError, Schema, SchemaBudget, SchemaSource};

pub use crate::image::fuzzing::image;
pub use crate::runtime::fuzzing::{source, value};

/// The message codec: whatever is refused is refused with a message that the codec itself can read.
pub fn message(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let refused = match rpc::decode(text) {
        Err(refusal) => Some(rpc::encode_failure(refusal.id.as_ref(), &refusal.error)),
        Ok(Message::Request { id, .. }) => Some(rpc::encode_success(&id, &Value::Null)),
        Ok(Message::Notification { .. } | Message::Response { .. } | Message::ErrorWithoutId(_)) => None,
    };
    if let Some(answer) = refused {
        let read = rpc::decode(&answer);
        assert!(
            matches!(read, Ok(Message::Response { .. } | Message::ErrorWithoutId(_))),
            "{answer} => {read:?}"
        );
    }
    let effect = Peer::new(1).on_text(text);
    assert!(!matches!(effect, Some(Effect::Command(_))), "before the handshake: {effect:?}");
}

/// Declarations: what was accepted is accepted again as it is written, and its schemas judge any value.
pub fn declaration(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    let Ok(declaration) = Declaration::from_peer(&value) else { return };
    let again = Declaration::from_peer(&serde_json::json!(declaration));
    assert_eq!(again.as_ref(), Ok(&declaration));
    let budget = SchemaBudget::new(16 << 20);
    for schema in [&declaration.input, &declaration.output].into_iter().flatten() {
        for source in [SchemaSource::Operator, SchemaSource::Client(&budget)] {
            let Ok(schema) = Schema::compile(schema, source) else { continue };
            for instance in [&Value::Null, &value] {
                if let Err(CheckError::Invalid(failures)) = schema.check(instance) {
                    assert!(!failures.is_empty(), "refused without a reason");
                }
            }
        }
    }
    assert_eq!(budget.used(), 0, "a charge was not given back");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    type Target = (&'static str, fn(&[u8]));

    const TARGETS: [Target; 5] = [
        ("message", message),
        ("declaration", declaration),
        ("source", source),
        ("value", value),
        ("image", image),
    ];

    #[test]
    fn every_target_holds_on_its_corpus() {
        for (name, run) in TARGETS {
            let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
            let seeds: Vec<_> =
                std::fs::read_dir(&corpus).unwrap().map(|seed| seed.unwrap().path()).collect();
            assert!(!seeds.is_empty(), "{name} has no corpus");
            for seed in seeds {
                let bytes = std::fs::read(&seed).unwrap();
                run(&bytes);
                // What is cut short is the commonest damage.
                (0..bytes.len().min(64)).for_each(|end| run(&bytes[..end]));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_target_holds_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "\\PC{0,64}") {
            for (_, run) in TARGETS {
                run(&bytes);
                run(text.as_bytes());
            }
        }
    }
}
