//! The list of tools, page by page, within limits.
//!
//! Pure. A list that is too long is cut, and the operator learns of it: the tools before the cut are as good as ever.

use serde_json::{Value, json};

/// Most tools of one server. A prompt or a person finds their way through a few hundred.
/// Past it: the rest is not mapped.
pub(super) const TOOLS_MAX: usize = 2_000;

/// Most pages of one list. Past it: the rest is not mapped.
pub(super) const PAGES_MAX: usize = 100;

/// Longest list as JSON, over all pages: four KiB for each tool. It is held for as long as the server is used.
/// Past it: the rest is not mapped.
pub(super) const LIST_BYTES_MAX: usize = 8 << 20;

/// What was listed so far.
#[derive(Debug, Default)]
pub(super) struct ToolList {
    pub(super) tools: Vec<Value>,
    /// Why the rest was left out.
    pub(super) cut: Option<String>,
    pages: usize,
    bytes: usize,
}

impl ToolList {
    /// Takes a page; returns the params of the request for the next one, if there is one to ask for.
    pub(super) fn add(&mut self, page: Value) -> Result<Option<Value>, String> {
        let Value::Object(mut page) = page else {
            return Err("tools/list: expected an object".to_owned());
        };
        let Some(Value::Array(listed)) = page.remove("tools") else {
            return Err("tools/list: expected a list of tools".to_owned());
        };
        self.pages += 1;
        for tool in listed {
            self.bytes += json_bytes(&tool);
            if self.tools.len() == TOOLS_MAX {
                self.cut =
                    Some(format!("the server lists more than {TOOLS_MAX} tools; the rest is left out"));
                return Ok(None);
            }
            if self.bytes > LIST_BYTES_MAX {
                self.cut = Some(format!(
                    "the list of tools is longer than {LIST_BYTES_MAX} bytes; the rest is left out"
                ));
                return Ok(None);
            }
            self.tools.push(tool);
        }
        match page.remove("nextCursor") {
            Some(Value::String(_)) if self.pages == PAGES_MAX => {
                self.cut = Some(format!("the list has more than {PAGES_MAX} pages; the rest is left out"));
                Ok(None)
            }
            Some(Value::String(cursor)) => Ok(Some(json!({"cursor": cursor}))),
            Some(_) | None => Ok(None),
        }
    }
}

/// The length of a value as JSON text.
fn json_bytes(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Neither the counter nor a tree of JSON fails.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(tools: usize, cursor: Option<&str>) -> Value {
        json!({"tools": vec![json!({"name": "x"}); tools], "nextCursor": cursor})
    }

    #[test]
    fn tools_past_the_limit_are_cut() {
        let mut list = ToolList::default();
        assert_eq!(list.add(page(TOOLS_MAX, Some("2"))), Ok(Some(json!({"cursor": "2"}))));
        assert_eq!((list.tools.len(), list.cut.clone()), (TOOLS_MAX, None));
        assert_eq!(list.add(page(1, Some("3"))), Ok(None));
        assert_eq!(list.tools.len(), TOOLS_MAX);
        assert!(list.cut.unwrap().contains("more than 2000 tools"));
    }

    #[test]
    fn pages_past_the_limit_are_not_asked_for() {
        let mut list = ToolList::default();
        for _ in 1..PAGES_MAX {
            assert!(list.add(page(1, Some("next"))).unwrap().is_some());
        }
        let mut last = ToolList { tools: list.tools.clone(), pages: list.pages, ..ToolList::default() };
        assert_eq!((last.add(page(1, None)), last.cut), (Ok(None), None));
        assert_eq!(list.add(page(1, Some("next"))), Ok(None));
        assert_eq!(list.tools.len(), PAGES_MAX);
        assert!(list.cut.unwrap().contains("more than 100 pages"));
    }

    #[test]
    fn list_past_its_bytes_is_cut() {
        let half = |extra: usize| json!({"tools": [{"d": "x".repeat(LIST_BYTES_MAX / 2 - 8 + extra)}]});
        let mut list = ToolList::default();
        list.add(half(0)).unwrap();
        list.add(half(0)).unwrap();
        assert_eq!((list.tools.len(), list.bytes, list.cut), (2, LIST_BYTES_MAX, None));
        let mut list = ToolList::default();
        list.add(half(0)).unwrap();
        list.add(half(1)).unwrap();
        assert_eq!(list.tools.len(), 1);
        assert!(list.cut.unwrap().contains("longer than 8388608 bytes"));
    }

    #[test]
    fn page_without_tools_is_refused() {
        assert_eq!(ToolList::default().add(json!(5)), Err("tools/list: expected an object".to_owned()));
        assert_eq!(
            ToolList::default().add(json!({})),
            Err("tools/list: expected a list of tools".to_owned())
        );
    }
}
