//! Whether a piece of code is complete, or goes on in the next line.
//!
//! It looks at brackets, strings, templates, comments and regular expressions only: code that is wrong counts as
//! complete, so that the server reports what is wrong with it.

use std::iter::Peekable;
use std::str::Chars;

/// Words after which a `/` begins a regular expression, although a word came before it.
const WORDS_BEFORE_AN_OPERAND: [&str; 14] = [
    "await",
    "case",
    "delete",
    "do",
    "else",
    "in",
    "instanceof",
    "new",
    "of",
    "return",
    "throw",
    "typeof",
    "void",
    "yield",
];

/// Whether nothing is left open.
pub(super) fn is_complete(code: &str) -> bool {
    Scanner { chars: code.chars().peekable(), open: Vec::new(), after_operand: false }.scan()
}

#[derive(PartialEq, Eq)]
enum Open {
    Bracket,
    Template,
}

/// How a part of the code ended.
#[derive(PartialEq, Eq)]
enum Ending {
    Closed,
    /// The code ended first.
    Open,
}

struct Scanner<'a> {
    chars: Peekable<Chars<'a>>,
    open: Vec<Open>,
    /// Whether a `/` would divide.
    after_operand: bool,
}

impl Scanner<'_> {
    fn scan(mut self) -> bool {
        loop {
            if self.open.last() == Some(&Open::Template) {
                if self.template() == Ending::Open {
                    return false;
                }
                continue;
            }
            let Some(char) = self.chars.next() else {
                return self.open.is_empty();
            };
            match char {
                '(' | '[' | '{' => self.enter(Open::Bracket),
                '`' => self.enter(Open::Template),
                ')' | ']' | '}' => {
                    if self.open.pop().is_none() {
                        return true;
                    }
                    self.after_operand = char != '}';
                }
                '\'' | '"' => {
                    if self.string(char) == Ending::Open {
                        return false;
                    }
                }
                '/' => {
                    if self.slash() == Ending::Open {
                        return false;
                    }
                }
                _ => self.other(char),
            }
        }
    }

    fn enter(&mut self, open: Open) {
        self.open.push(open);
        self.after_operand = false;
    }

    /// The text of a template up to its end, or to a `${`.
    fn template(&mut self) -> Ending {
        while let Some(char) = self.chars.next() {
            match char {
                '\\' => drop(self.chars.next()),
                '`' => {
                    self.open.pop();
                    self.after_operand = true;
                    return Ending::Closed;
                }
                '$' if self.chars.next_if_eq(&'{').is_some() => {
                    self.enter(Open::Bracket);
                    return Ending::Closed;
                }
                _ => {}
            }
        }
        Ending::Open
    }

    /// A string goes on in the next line only after a backslash; otherwise the line ends in a syntax error, which the server reports.
    fn string(&mut self, quote: char) -> Ending {
        self.after_operand = true;
        while let Some(char) = self.chars.next() {
            match char {
                '\\' if self
                    .chars
                    .next()
                    .is_none_or(|escaped| escaped == '\n' && self.chars.peek().is_none()) =>
                {
                    return Ending::Open;
                }
                '\n' => return Ending::Closed,
                _ if char == quote => return Ending::Closed,
                _ => {}
            }
        }
        Ending::Closed
    }

    fn slash(&mut self) -> Ending {
        if self.chars.next_if_eq(&'/').is_some() {
            while self.chars.next_if(|char| *char != '\n').is_some() {}
        } else if self.chars.next_if_eq(&'*').is_some() {
            return self.block_comment();
        } else if self.after_operand {
            self.after_operand = false;
        } else {
            self.regular_expression();
        }
        Ending::Closed
    }

    fn block_comment(&mut self) -> Ending {
        let mut last = ' ';
        for char in self.chars.by_ref() {
            if last == '*' && char == '/' {
                return Ending::Closed;
            }
            last = char;
        }
        Ending::Open
    }

    /// Skips to its end, which is that of the line at the latest.
    fn regular_expression(&mut self) {
        let mut in_class = false;
        self.after_operand = true;
        while let Some(char) = self.chars.next_if(|char| *char != '\n') {
            match char {
                '\\' => drop(self.chars.next_if(|char| *char != '\n')),
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => return,
                _ => {}
            }
        }
    }

    fn other(&mut self, char: char) {
        let is_word = |char: &char| char.is_alphanumeric() || matches!(char, '_' | '$');
        if is_word(&char) {
            let mut word = String::from(char);
            while let Some(more) = self.chars.next_if(is_word) {
                word.push(more);
            }
            self.after_operand = !WORDS_BEFORE_AN_OPERAND.contains(&word.as_str());
        } else if !char.is_whitespace() {
            self.after_operand = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_complete;

    #[test]
    fn open_constructs_are_incomplete() {
        for code in [
            "function f() {",
            "[1,",
            "f(",
            "`a",
            "`a ${b",
            "`a ${`b",
            "`a ${ {} }",
            "/* a",
            "'a \\",
            "'a \\\n",
            "if (x) { // }",
            "return /[/]}/.test(x) ? {",
        ] {
            assert!(!is_complete(code), "{code}");
        }
    }

    #[test]
    fn closed_or_invalid_code_is_complete() {
        for code in [
            "",
            "1 + 1",
            "function f() {\n}",
            "`a ${`b ${c}`} d`",
            "'('",
            "\"it's (\"",
            "// {",
            "/* { */ 1",
            "/[(]/.test('(')",
            "x = a / b; y = (c) / d",
            "return /\\(/",
            "'open string {",
            ")",
            "a }",
            "'a \\\n b'",
        ] {
            assert!(is_complete(code), "{code}");
        }
    }
}
