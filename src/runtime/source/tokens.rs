//! The pass over the tokens of a code that `nesting` is built on. It keeps, for each open bracket, the stack that
//! the statement or list item inside it may take so far, and stops at the first token that passes the bound.
//!
//! A chain of tokens is dropped only where the statement or item it belongs to has surely ended: at a semicolon, at
//! a comma, and at a word after a block or after a value on the line before. What may go on after those (`else`,
//! `while`, `in`, type arguments) keeps it.

mod fault;

use super::lexis::{Role, find, leading_word, line_end, number, reads_alike, regex, role, unusual_space};
use super::nesting::{
    BRACKET_STACK_BYTES, PARSE_STACK_BYTES_MAX, TOKEN_STACK_BYTES, mark_weight, word_weight,
};
use super::scan::{is_declaration, is_word};
pub(super) use fault::{BracketFault, bracket_fault};

/// Furthest look past a slash that may divide or start a regular expression.
/// Such a slash may come every few bytes, so without a bound the pass would be quadratic on one long line.
const SLASH_LOOKAHEAD_BYTES_MAX: usize = 256;

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Fine,
    /// A bracket or a literal has no end, or an end no start.
    Broken,
    /// A regular expression could not be distinguished from a division, or a comment from code.
    Unsure,
    /// The bound was passed at that offset.
    Deep(usize),
}

/// How the pass ended, and whether it met a word outside of all brackets that may declare something there.
pub(super) fn scan(bytes: &[u8]) -> (Outcome, bool) {
    let mut scanner = Scanner::new(bytes);
    scanner.run();
    (scanner.outcome, scanner.may_declare)
}

/// What the last token was, as far as the next one depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Something an operator may follow.
    Value,
    /// Something an operand must follow.
    Operator,
    Semicolon,
    /// `if (…)` and its like: a statement follows.
    ControlHead,
    /// A word before which `(` starts the head of a control statement.
    ControlWord,
    /// A block or an object: a statement or an operator may follow.
    Brace,
    /// A word or mark that may be an operator or a value.
    Either,
    /// `break` or `continue`: a label may follow, and then a statement.
    Jump,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Parenthesis,
    ControlParenthesis,
    Square,
    Brace,
    Template,
}

/// Stack taken at one level of brackets.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    /// By the levels around it.
    outer: usize,
    /// By the first item of a list: the statement around the list may have begun there.
    first_item: usize,
    /// By the tokens of the statement or list item so far.
    chain: usize,
    /// A `<` was seen: commas may be those of type arguments, which nest.
    angle: bool,
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    level: Level,
    /// With the offset just behind each.
    open: Vec<(Bracket, Level, usize)>,
    /// Brackets that were closed, if they are wanted: the offsets of both.
    pairs: Option<Vec<(usize, usize)>>,
    last: Last,
    line_break: bool,
    after_dot: bool,
    may_declare: bool,
    outcome: Outcome,
}

impl<'a> Scanner<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let at = if bytes.starts_with(b"#!") { line_end(bytes, 0) } else { 0 };
        Self {
            bytes,
            at,
            level: Level::default(),
            open: Vec::new(),
            pairs: None,
            last: Last::Semicolon,
            line_break: true,
            after_dot: false,
            may_declare: false,
            outcome: Outcome::Fine,
        }
    }

    fn run(&mut self) {
        while self.outcome == Outcome::Fine
            && let Some(byte) = self.peek(0)
        {
            self.token(byte);
        }
        if self.outcome == Outcome::Fine && !self.open.is_empty() {
            self.outcome = Outcome::Broken;
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn token(&mut self, byte: u8) {
        match byte {
            b'\n' | b'\r' => {
                self.line_break = true;
                self.at += 1;
            }
            _ if byte.is_ascii_whitespace() || byte == 0x0b => self.at += 1,
            b'/' if self.peek(1) == Some(b'/') => self.at = line_end(self.bytes, self.at),
            b'/' if self.peek(1) == Some(b'*') => self.block_comment(),
            b'/' => self.slash(),
            b'"' | b'\'' => self.string(byte),
            b'`' => {
                self.at += 1;
                self.count(Last::Value);
                self.template();
            }
            b'(' | b'[' | b'{' => self.open_bracket(byte),
            b')' | b']' | b'}' => self.close_bracket(byte),
            b'.' if self.peek(1).is_some_and(|next| next.is_ascii_digit()) => self.number(),
            _ if byte.is_ascii_digit() => self.number(),
            _ if is_word(byte) => self.word(),
            _ => self.punctuation(byte),
        }
    }

    /// Adds a token to the chain.
    fn count(&mut self, last: Last) {
        self.count_weight(last, TOKEN_STACK_BYTES);
    }

    fn count_weight(&mut self, last: Last, weight: usize) {
        if self.last == Last::Semicolon {
            self.new_statement();
        }
        self.level.chain += weight;
        self.last = last;
        self.line_break = false;
        self.after_dot = false;
        if self.level.outer + self.level.first_item + self.level.chain > PARSE_STACK_BYTES_MAX {
            self.outcome = Outcome::Deep(self.at);
        }
    }

    fn new_statement(&mut self) {
        self.level = Level { outer: self.level.outer, ..Level::default() };
    }

    fn block_comment(&mut self) {
        match find(self.rest(), b"*/") {
            Some(length) => {
                self.line_break |= self.rest().iter().take(length).any(|byte| *byte == b'\n');
                self.at += length + 2;
            }
            None => self.outcome = Outcome::Broken,
        }
    }

    fn string(&mut self, quote: u8) {
        self.count(Last::Value);
        self.at += 1;
        loop {
            match self.peek(0) {
                Some(b'\\') => self.at += if self.rest().starts_with(b"\\\r\n") { 3 } else { 2 },
                Some(byte) if byte == quote => break self.at += 1,
                Some(b'\n' | b'\r') | None => break self.outcome = Outcome::Broken,
                Some(_) => self.at += 1,
            }
        }
    }

    /// From inside a template to its end or to the next `${`.
    fn template(&mut self) {
        loop {
            match self.peek(0) {
                Some(b'\\') => self.at += 2,
                Some(b'`') => break self.at += 1,
                Some(b'$') if self.peek(1) == Some(b'{') => {
                    self.at += 2;
                    break self.descend(Bracket::Template);
                }
                Some(_) => self.at += 1,
                None => break self.outcome = Outcome::Broken,
            }
        }
    }

    fn open_bracket(&mut self, byte: u8) {
        let bracket = match byte {
            b'(' if self.last == Last::ControlWord => Bracket::ControlParenthesis,
            b'(' => Bracket::Parenthesis,
            b'[' => Bracket::Square,
            _ => Bracket::Brace,
        };
        self.count(Last::Operator);
        self.at += 1;
        self.descend(bracket);
    }

    fn descend(&mut self, bracket: Bracket) {
        self.open.push((bracket, self.level, self.at));
        let Level { outer, first_item, chain, .. } = self.level;
        self.level = Level { outer: outer + first_item + chain + BRACKET_STACK_BYTES, ..Level::default() };
        self.last = Last::Semicolon;
    }

    fn close_bracket(&mut self, byte: u8) {
        let Some((bracket, level, opened)) = self.open.pop() else {
            self.outcome = Outcome::Broken;
            return;
        };
        if let Some(pairs) = &mut self.pairs {
            pairs.push((opened.saturating_sub(1), self.at));
        }
        self.level = level;
        self.at += 1;
        self.line_break = false;
        self.after_dot = false;
        match (bracket, byte) {
            (Bracket::Template, b'}') => {
                self.last = Last::Value;
                self.template();
            }
            (Bracket::Parenthesis, b')') | (Bracket::Square, b']') => self.last = Last::Value,
            (Bracket::ControlParenthesis, b')') => self.last = Last::ControlHead,
            (Bracket::Brace, b'}') => self.last = Last::Brace,
            _ => self.outcome = Outcome::Broken,
        }
    }

    fn number(&mut self) {
        self.end_statement();
        self.count(Last::Value);
        self.at += number(self.rest());
    }

    /// A word cannot go on with what a value ended on the line before, nor with a block or an object.
    fn end_statement(&mut self) {
        if self.last == Last::Brace || (self.last == Last::Value && self.line_break) {
            self.new_statement();
        }
    }

    fn word(&mut self) {
        let word = leading_word(self.rest());
        if let Some((bytes, breaks_line)) = unusual_space(word) {
            self.line_break |= breaks_line;
            self.at += bytes;
            return;
        }
        self.may_declare |= self.open.is_empty() && is_declaration(word);
        let role = if self.after_dot { Role::Name } else { role(word) };
        match role {
            Role::Continues | Role::ContinuesControl | Role::ContinuesEither => {
                if self.last == Last::Semicolon {
                    self.last = Last::Operator;
                }
            }
            Role::Name | Role::Operator | Role::Control | Role::Either | Role::Jump => self.end_statement(),
        }
        let last = match role {
            Role::Either if self.last == Last::ControlWord => Last::ControlWord,
            Role::Name if self.last == Last::Jump => Last::Either,
            Role::Name => Last::Value,
            Role::Operator | Role::Continues => Last::Operator,
            Role::Control | Role::ContinuesControl => Last::ControlWord,
            Role::Either | Role::ContinuesEither => Last::Either,
            Role::Jump => Last::Jump,
        };
        self.count_weight(last, word_weight(word));
        self.at += word.len();
    }

    fn punctuation(&mut self, byte: u8) {
        let rest = self.rest();
        // Comments of old, which the rules of a web page would end at the line.
        if rest.starts_with(b"<!--") || (self.line_break && rest.starts_with(b"-->")) {
            self.outcome = Outcome::Unsure;
            return;
        }
        match byte {
            b';' => self.last = Last::Semicolon,
            b',' => self.comma(),
            b'+' | b'-' if rest.get(1) == Some(&byte) => {
                self.count(Last::Either);
                self.at += 1;
            }
            // A value may be followed by the mark that says it is not null.
            b'!' if self.last == Last::Value && !self.line_break => self.count(Last::Value),
            b'!' if matches!(self.last, Last::Brace | Last::Either) => self.count(Last::Either),
            b'=' if rest.get(1) == Some(&b'>') => {
                self.count_weight(Last::Operator, 2 * TOKEN_STACK_BYTES);
                self.at += 1;
            }
            b'>' => self.count(Last::Either),
            b'.' | b'#' => {
                self.count(Last::Operator);
                self.after_dot = true;
            }
            _ => {
                self.count_weight(Last::Operator, mark_weight(byte));
                self.level.angle |= byte == b'<';
            }
        }
        self.at += 1;
    }

    fn comma(&mut self) {
        self.count(Last::Operator);
        if !self.level.angle {
            if self.level.first_item == 0 {
                self.level.first_item = self.level.chain;
            }
            self.level.chain = 0;
        }
    }

    fn slash(&mut self) {
        match self.last {
            Last::Value if !self.line_break => self.division(),
            Last::Operator | Last::Semicolon | Last::ControlHead | Last::ControlWord => {
                match regex(self.rest()) {
                    Some(length) => {
                        self.count(Last::Value);
                        self.at += length;
                    }
                    None => self.outcome = Outcome::Broken,
                }
            }
            // After a type, a line break ends the statement; after a value it does not.
            Last::Value | Last::Brace | Last::Either | Last::Jump => {
                if !self.is_division_either_way() {
                    self.outcome = Outcome::Unsure;
                }
                self.division();
            }
        }
    }

    fn division(&mut self) {
        if self.outcome == Outcome::Fine {
            self.count(Last::Operator);
        }
        self.at += 1;
    }

    /// Whether what follows a slash leads to the same state, should it start a regular expression.
    fn is_division_either_way(&self) -> bool {
        let rest = self.rest();
        let ahead = rest.get(..SLASH_LOOKAHEAD_BYTES_MAX).unwrap_or(rest);
        let line = ahead.get(..line_end(ahead, 0)).unwrap_or_default();
        match regex(line).and_then(|length| line.get(1..length - 1)) {
            Some(body) => reads_alike(body),
            None => line.len() < SLASH_LOOKAHEAD_BYTES_MAX,
        }
    }
}
