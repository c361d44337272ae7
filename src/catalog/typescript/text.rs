//! Pieces of TypeScript text: comments, names, literals, indentation.

use serde_json::Value;

use crate::protocol::names;

/// Deepest constant that is spelled out.
const LITERAL_DEPTH_MAX: usize = 8;

/// A doc comment with its line end, or nothing for an empty text. The text cannot end the comment.
pub(super) fn doc_comment(text: &str) -> String {
    let safe = text.replace("*/", "*\\/");
    let lines: Vec<&str> = safe.split(['\n', '\r', '\u{2028}', '\u{2029}']).map(str::trim_end).collect();
    let lines: Vec<&str> =
        match (lines.iter().position(|l| !l.is_empty()), lines.iter().rposition(|l| !l.is_empty())) {
            (Some(first), Some(last)) => lines.get(first..=last).unwrap_or_default().to_vec(),
            _ => return String::new(),
        };
    if let [only] = lines.as_slice() {
        return format!("/** {} */\n", only.trim_start());
    }
    let body: Vec<String> = lines.iter().map(|line| format!(" * {line}").trim_end().to_owned()).collect();
    format!("/**\n{}\n */\n", body.join("\n"))
}

/// Two spaces before every line that has something on it.
pub(super) fn indented(text: &str) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| if line.is_empty() { String::new() } else { format!("  {line}") })
        .collect();
    lines.join("\n")
}

/// Turns `memory.transact-all` into `MemoryTransactAll`; a `T` is put before what cannot begin a name.
pub(super) fn pascal_case(text: &str) -> String {
    let mut name = String::new();
    let mut begins_word = true;
    for letter in text.chars() {
        if !letter.is_ascii_alphanumeric() {
            begins_word = true;
            continue;
        }
        name.push(if begins_word { letter.to_ascii_uppercase() } else { letter });
        begins_word = false;
    }
    if name.starts_with(|first: char| first.is_ascii_alphabetic()) { name } else { format!("T{name}") }
}

/// A property's name, quoted unless it is an identifier.
pub(super) fn property_name(name: &str) -> String {
    if names::is_identifier(name) { name.to_owned() } else { string_literal(name) }
}

/// A constant as a literal type.
pub(super) fn literal(value: &Value) -> String {
    literal_within(value, LITERAL_DEPTH_MAX)
}

fn literal_within(value: &Value, levels_left: usize) -> String {
    let Some(levels_left) = levels_left.checked_sub(1) else {
        return "unknown".to_owned();
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => string_literal(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| literal_within(item, levels_left)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) if members.is_empty() => "Record<string, never>".to_owned(),
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(name, member)| {
                    format!("{}: {}", property_name(name), literal_within(member, levels_left))
                })
                .collect();
            format!("{{ {} }}", members.join("; "))
        }
    }
}

/// JSON's escapes are TypeScript's; the two line separators that JSON leaves bare are escaped for old readers.
fn string_literal(text: &str) -> String {
    Value::from(text).to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comment_cannot_be_ended_from_inside() {
        assert_eq!(doc_comment("a */ b"), "/** a *\\/ b */\n");
        assert_eq!(doc_comment("\n a\r\n\n b \n"), "/**\n *  a\n *\n *\n *  b\n */\n");
        assert_eq!(doc_comment(" \n "), "");
    }

    #[test]
    fn any_text_becomes_a_valid_name() {
        assert_eq!(pascal_case("memory.transact-all"), "MemoryTransactAll");
        assert_eq!(pascal_case("2fa"), "T2fa");
        assert_eq!(pascal_case("ü"), "T");
        assert_eq!(property_name("a"), "a");
        assert_eq!(property_name("a-\"b\"\n"), "\"a-\\\"b\\\"\\n\"");
    }

    #[test]
    fn constants_are_spelled_out_down_to_a_depth() {
        assert_eq!(
            literal(&json!({"a": [1, null, "x\u{2028}"], "b": {}})),
            r#"{ a: [1, null, "x\u2028"]; b: Record<string, never> }"#
        );
        let deep = (0..LITERAL_DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(literal(&deep), "[[[[[[[[unknown]]]]]]]]");
    }
}
