//! A Markdown fence around the code of an eval, as models write it.

/// What a fence may name as the language of its code.
const LANGUAGES: [&str; 9] = ["", "js", "javascript", "ts", "typescript", "jsx", "tsx", "mjs", "node"];

/// The code inside of a fence around all of it, at the same lines and columns; the fence itself becomes blanks.
pub(super) fn without_fence(code: String) -> String {
    if !code.trim_start().starts_with("```") {
        return code;
    }
    strip_fence(&code).unwrap_or(code)
}

fn strip_fence(code: &str) -> Option<String> {
    let start = code.find("```")?;
    let first_end = start + code.get(start..)?.find('\n')?;
    let language = code.get(start + 3..first_end)?.trim().to_ascii_lowercase();
    let last_start = code.trim_end().rfind('\n').map(|at| at + 1).filter(|at| *at > first_end)?;
    let is_fence = code.get(last_start..)?.trim() == "```" && LANGUAGES.contains(&language.as_str());
    let inner = code.get(first_end..last_start)?;
    // A second fence means that there is text between two codes.
    let has_another = inner.lines().any(|line| line.trim_start().starts_with("```"));
    (is_fence && !has_another).then(|| {
        let blank =
            |text: &str| text.chars().map(|char| if char == '\n' { '\n' } else { ' ' }).collect::<String>();
        let (head, tail) =
            (code.get(..first_end).unwrap_or_default(), code.get(last_start..).unwrap_or_default());
        format!("{}{inner}{}", blank(head), blank(tail))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(code: &str) -> String {
        without_fence(code.to_owned())
    }

    #[test]
    fn fence_around_all_of_a_code_becomes_blanks() {
        assert_eq!(stripped("```js\n1 + 1\n```"), "     \n1 + 1\n   ");
        assert_eq!(stripped("\n  ```TypeScript\r\nlet a: number\n```\n").trim(), "let a: number");
    }

    #[test]
    fn fence_with_text_beside_it_stays() {
        for code in
            ["```python\nx\n```", "```js\n1\n```\ntext", "```js\n1\n```\n```js\n2\n```", "``` ```", "1"]
        {
            assert_eq!(stripped(code), code);
        }
    }
}
