//! Code that is not JavaScript: Python, text with a Markdown fence in it, quotes of a word processor.

/// What the code is: the offset that shows it, and what to say.
pub(super) fn recognise(code: &str) -> Option<(usize, String)> {
    fence(code).or_else(|| python(code)).or_else(|| quotes(code))
}

/// A fence that could not be stripped, because there is text beside it or a second one.
fn fence(code: &str) -> Option<(usize, String)> {
    let (offset, line) = lines(code).find(|(_, line)| line.trim_start().starts_with("```"))?;
    // In a template, the marks are part of a text.
    let before = code.get(..offset)?;
    let is_text = before.bytes().filter(|byte| *byte == b'`').count() % 2 == 1;
    let word = line.trim().trim_start_matches('`').trim();
    let is_fence = word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_fence && !is_text).then(|| {
        (offset, "this is a Markdown fence: send only the code, without the text around it".to_owned())
    })
}

fn python(code: &str) -> Option<(usize, String)> {
    let (offset, _) = lines(code).find(|(_, line)| is_python(line))?;
    Some((offset, "this is Python: the session runs JavaScript and TypeScript".to_owned()))
}

/// Whether a line is Python and cannot be JavaScript.
fn is_python(line: &str) -> bool {
    let line = line.split(" #").next().unwrap_or(line).trim();
    let words: Vec<&str> = line.split_whitespace().collect();
    let ends_in_colon = line.ends_with(':') && !line.contains('?');
    match words.as_slice() {
        ["def", ..] | ["async", "def", ..] => line.contains('(') && line.contains(':'),
        ["elif" | "except" | "with" | "while" | "if", ..] if ends_in_colon => true,
        ["for", _, "in", ..] | ["for", _, _, "in", ..] if ends_in_colon => !line.contains("for ("),
        ["class", ..] if ends_in_colon => true,
        ["else:" | "try:" | "finally:"] => true,
        ["except:"] => true,
        ["from", module, "import", ..] => !module.starts_with(['\'', '"']),
        ["import", module] => is_name(module),
        ["import", module, "as", name] => is_name(module) && is_name(name),
        _ => false,
    }
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}

/// Typographic quotes, where the code has no straight ones around them.
fn quotes(code: &str) -> Option<(usize, String)> {
    let is_quote = |char: char| matches!(char, '“' | '”' | '„' | '‘' | '’' | '‚' | '«' | '»');
    let (mut quoted_by, mut is_escaped) = (None, false);
    for (offset, char) in code.char_indices() {
        match quoted_by {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if char == '\\' => is_escaped = true,
            Some(quote) if char == quote || (char == '\n' && quote != '`') => quoted_by = None,
            Some(_) => {}
            None if matches!(char, '"' | '\'' | '`') => quoted_by = Some(char),
            None if is_quote(char) && !is_in_comment(code, offset) => {
                let straight = if matches!(char, '‘' | '’' | '‚') { '\'' } else { '"' };
                return Some((
                    offset,
                    format!("`{char}` is a typographic quote: write `{straight}` instead"),
                ));
            }
            None => {}
        }
    }
    None
}

fn is_in_comment(code: &str, offset: usize) -> bool {
    let before = code.get(..offset).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.contains("//") || before.rfind("/*") > before.rfind("*/")
}

/// The lines with their offsets.
fn lines(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.split_inclusive('\n').scan(0, |offset, line| {
        let start = *offset;
        *offset += line.len();
        Some((start, line))
    })
}
