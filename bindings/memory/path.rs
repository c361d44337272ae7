//! Places in a document: lists of steps, and the JSON Pointers that patches write them as.

use super::codec::DOCUMENT_DEPTH_MAX;

/// The steps from a document's root.
pub(super) type Path = Vec<String>;

/// The steps of a JSON Pointer; `None` if it is none, or leads deeper than any document.
pub(super) fn from_pointer(pointer: &str) -> Option<Path> {
    if pointer.is_empty() {
        return Some(Path::new());
    }
    let steps = pointer.strip_prefix('/')?;
    if steps.split('/').count() > DOCUMENT_DEPTH_MAX {
        return None;
    }
    Some(steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

/// The JSON Pointer of a place.
pub(super) fn to_pointer(path: &[String]) -> String {
    path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Whether one of the two leads to or through the other.
pub(super) fn overlap(left: &[String], right: &[String]) -> bool {
    left.starts_with(right) || right.starts_with(left)
}

/// The index that a step means in a list: digits without leading zeros.
pub(super) fn index_of(step: &str) -> Option<usize> {
    let is_index = step == "0" || (!step.starts_with('0') && step.bytes().all(|byte| byte.is_ascii_digit()));
    if is_index && !step.is_empty() { step.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_pointer_leads_where_it_was_made_from(path in prop::collection::vec("[a-z~/0]{0,4}", 0..6)) {
            prop_assert_eq!(from_pointer(&to_pointer(&path)), Some(path));
        }
    }

    #[test]
    fn a_pointer_starts_with_a_slash_or_is_empty() {
        assert_eq!(from_pointer("value"), None);
        assert_eq!(from_pointer(""), Some(vec![]));
        assert_eq!(from_pointer("/"), Some(vec![String::new()]));
    }

    #[test]
    fn a_pointer_goes_as_deep_as_a_document_and_no_deeper() {
        assert!(from_pointer(&"/a".repeat(DOCUMENT_DEPTH_MAX)).is_some());
        assert!(from_pointer(&"/a".repeat(DOCUMENT_DEPTH_MAX + 1)).is_none());
    }

    #[test]
    fn an_index_has_one_spelling() {
        assert_eq!(
            ["0", "10", "01", "-", "", "1a", "+1"].map(index_of),
            [Some(0), Some(10), None, None, None, None, None]
        );
    }

    #[test]
    fn paths_overlap_by_whole_steps() {
        let path = |pointer: &str| from_pointer(pointer).unwrap();
        assert!(overlap(&path("/value/a"), &path("/value")));
        assert!(overlap(&path("/value"), &path("/value/a")));
        assert!(!overlap(&path("/value/a"), &path("/value/aa")));
    }
}
