//! Code that is a list or an object written out, and nothing else: what a client sends that passes data to a
//! session. QuickJS compiles such a literal at many times the price of reading it as JSON, because at each bracket it
//! first looks ahead to its end for what may follow.

/// Shortest code that is looked at: below it there is little to win.
const DATA_BYTES_MIN: usize = 256;

/// The JSON that a code seems to consist of. If it is JSON, its value is that of the code; if not, it has to be run.
pub(crate) fn json_of(code: &str) -> Option<&str> {
    if code.len() < DATA_BYTES_MIN {
        return None;
    }
    let expression = trim(code.trim_end_matches(is_space_or_semicolon));
    let inside = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).map(trim);
    let json = inside.unwrap_or(expression);
    let is_data = match (json.as_bytes().first(), json.as_bytes().last()) {
        (Some(b'['), Some(b']')) => true,
        // A block is not JSON, and an object by itself is an object.
        (Some(b'{'), Some(b'}')) => true,
        _ => false,
    };
    (is_data && !may_set_prototype(json)).then_some(json)
}

/// In a literal this key sets the prototype, however it is spelled.
fn may_set_prototype(json: &str) -> bool {
    json.contains("__proto__") || json.contains("\\u")
}

/// White space in both languages.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

fn is_space_or_semicolon(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | ';')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(inner: &str) -> String {
        format!("[{inner}{}]", "1, ".repeat(DATA_BYTES_MIN))
    }

    #[test]
    fn lists_and_objects_in_parentheses_are_data() {
        let list = list("");
        assert_eq!(json_of(&list), Some(list.as_str()));
        assert_eq!(json_of(&format!("\n ( {list} ) ;\n")), Some(list.as_str()));
        let object = format!("{{\"a\": {list}}}");
        assert_eq!(json_of(&format!("({object})")), Some(object.as_str()));
        assert_eq!(json_of(&object), Some(object.as_str()));
    }

    #[test]
    fn other_expressions_are_code() {
        for code in [format!("{}.length", list("")), format!("f({})", list("")), "[1]".to_owned()] {
            assert_eq!(json_of(&code), None, "{code}");
        }
    }

    #[test]
    fn literal_with_a_prototype_is_left_to_the_engine() {
        assert_eq!(json_of(&list("{\"__proto__\": []}, ")), None);
        assert_eq!(json_of(&list("{\"\\u005f_proto__\": []}, ")), None);
    }
}
