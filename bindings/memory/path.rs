//! Paths in a document: lists of keys and indexes, and their form as JSON Pointers in patches.

use super::codec::DOCUMENT_DEPTH_MAX;

/// Keys and indexes from the root of a document.
pub(super) type Path = Vec<String>;

/// Parses a JSON Pointer; `None` if it is invalid or longer than any document is deep.
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

pub(super) fn to_pointer(path: &[String]) -> String {
    path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Whether one path is a prefix of the other.
pub(super) fn paths_overlap(left: &[String], right: &[String]) -> bool {
    left.starts_with(right) || right.starts_with(left)
}

/// Parses a step as an index of a list: digits without leading zeros.
pub(super) fn parse_index(step: &str) -> Option<usize> {
    let is_index = step == "0" || (!step.starts_with('0') && step.bytes().all(|byte| byte.is_ascii_digit()));
    if is_index && !step.is_empty() { step.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pointer_round_trips(path in prop::collection::vec("[a-z~/0]{0,4}", 0..6)) {
            prop_assert_eq!(from_pointer(&to_pointer(&path)), Some(path));
        }
    }

    #[test]
    fn pointer_without_leading_slash_is_rejected() {
        assert_eq!(from_pointer("value"), None);
        assert_eq!(from_pointer(""), Some(vec![]));
        assert_eq!(from_pointer("/"), Some(vec![String::new()]));
    }

    #[test]
    fn pointer_past_the_document_depth_is_rejected() {
        assert!(from_pointer(&"/a".repeat(DOCUMENT_DEPTH_MAX)).is_some());
        assert!(from_pointer(&"/a".repeat(DOCUMENT_DEPTH_MAX + 1)).is_none());
    }

    #[test]
    fn index_with_another_spelling_is_rejected() {
        assert_eq!(
            ["0", "10", "01", "-", "", "1a", "+1"].map(parse_index),
            [Some(0), Some(10), None, None, None, None, None]
        );
    }

    #[test]
    fn paths_overlap_compares_whole_steps() {
        let path = |pointer: &str| from_pointer(pointer).unwrap();
        assert!(paths_overlap(&path("/value/a"), &path("/value")));
        assert!(paths_overlap(&path("/value"), &path("/value/a")));
        assert!(!paths_overlap(&path("/value/a"), &path("/value/aa")));
    }
}
