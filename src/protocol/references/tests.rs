//! Counts, bounds and ids of both tables, and a random history against a simple model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::protocol::fn_ref::FnRef;

#[test]
fn export_sent_again_keeps_its_id_until_released() {
    let mut exports = Exports::new(2);
    assert_eq!(exports.export("a", 1), Some(1));
    assert_eq!(exports.export("a", 2), Some(1));
    assert_eq!((exports.release(1, 1), exports.get(1)), (None, Some(&1)));
    assert_eq!((exports.release(1, 1), exports.get(1)), (Some(1), None));
    assert_eq!(exports.export("a", 3), Some(2), "an id is never reused");
}

#[test]
fn export_past_the_limit_is_refused() {
    let mut exports = Exports::new(2);
    assert_eq!(
        (exports.export("a", ()), exports.export("b", ()), exports.export("c", ())),
        (Some(1), Some(2), None)
    );
    assert_eq!(exports.export("a", ()), Some(1), "one that is held already has its room");
    exports.remove(2);
    assert_eq!((exports.export("c", ()), exports.len()), (Some(3), 2));
    assert_eq!(exports.add(()), None);
}

#[test]
fn export_release_of_too_much_or_the_unknown_is_harmless() {
    let mut exports = Exports::new(9);
    exports.export("a", 1);
    assert_eq!(exports.release(7, 1), None);
    assert_eq!(exports.release(1, 99), Some(1));
    assert_eq!(exports.release(1, 1), None);
}

#[test]
fn export_added_before_it_is_sent_cannot_be_released() {
    let mut exports: Exports<u8> = Exports::new(9);
    let id = exports.add(1).unwrap();
    assert_eq!((exports.get(id), exports.get_sent(id)), (Some(&1), None));
    assert_eq!(exports.release(id, 1), None);
    exports.count_sent(id);
    assert_eq!(exports.get_sent(id), Some(&1));
    assert_eq!(exports.release(id, 1), Some(1));
    exports.count_sent(id);
    assert!(exports.is_empty());
}

#[test]
fn export_drain_ends_all_and_goes_on_with_new_ids() {
    let mut exports = Exports::new(9);
    for name in ["b", "a"] {
        exports.export(name, name);
    }
    assert_eq!(exports.drain().collect::<Vec<_>>(), ["b", "a"]);
    exports.skip_ids_below(7);
    exports.skip_ids_below(2);
    assert_eq!((exports.export("a", "a"), exports.next_id()), (Some(7), 8));
}

#[test]
fn import_past_the_limit_is_refused() {
    let mut imports: Imports<String, u8> = Imports::new(1);
    *imports.receive("a".to_owned()).unwrap() = 7;
    assert!(imports.receive("b".to_owned()).is_none() && imports.get("b").is_none());
    assert_eq!(imports.receive("a".to_owned()).copied(), Some(7));
    assert_eq!((imports.remove("a"), imports.remove("a")), (Some(2), None));
    assert!(imports.receive("b".to_owned()).is_some());
    assert_eq!(imports.drain().collect::<Vec<_>>(), [("b".to_owned(), 1)]);
    assert!(imports.len() == 0);
}

#[test]
fn tables_read_back_as_they_were_stored() {
    let mut exports = Exports::new(3);
    exports.export(FnRef::Handler(1), "x".to_owned());
    exports.export(FnRef::Handler(1), "x".to_owned());
    exports.add("y".to_owned());
    let text = serde_json::to_string(&exports).unwrap();
    let mut read: Exports<String, FnRef> = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    assert_eq!(read.export(FnRef::Handler(1), String::new()), Some(1));
    assert_eq!((read.release(1, 2), read.next_id()), (None, 3));

    let mut imports: Imports<FnRef, u8> = Imports::new(3);
    imports.receive(FnRef::Client { connection: 1, id: "c1".to_owned() });
    let text = serde_json::to_string(&imports).unwrap();
    let mut read: Imports<FnRef, u8> = serde_json::from_str(&text).unwrap();
    assert_eq!(read.remove(&FnRef::Client { connection: 1, id: "c1".to_owned() }), Some(1));
}

proptest! {
    /// A receiver that counts what it gets agrees with the sender on what is held, whatever the history.
    #[test]
    fn sender_and_receiver_agree_on_what_is_held(steps in prop::collection::vec((0..3_u8, 0..6_u8, 1..4_u64), 0..60)) {
        let (mut exports, mut imports) = (Exports::new(4), Imports::<u64, u8>::new(4));
        let mut ids = BTreeMap::new();
        for (kind, function, count) in steps {
            let held = ids.get(&function).copied();
            match (kind, held) {
                (0 | 1, _) => {
                    if let Some(id) = exports.export(function, function) {
                        prop_assert!(held.is_none_or(|held| held == id));
                        prop_assert!(held.is_some() || ids.values().all(|known| *known < id));
                        prop_assert!(imports.receive(id).is_some());
                        ids.insert(function, id);
                    } else {
                        prop_assert!(held.is_none() && imports.len() == 4);
                    }
                }
                (_, Some(id)) => {
                    let received = imports.remove(&id).unwrap();
                    prop_assert_eq!(exports.release(id, received), Some(function));
                    prop_assert_eq!(exports.release(id, count), None);
                    ids.remove(&function);
                }
                (_, None) => {}
            }
            prop_assert_eq!(exports.len(), imports.len());
        }
    }
}
