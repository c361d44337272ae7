//! A value in its wire form, printed as JavaScript would: `Map(1) { 'a' => 12n }` and not its tags.
//!
//! Short groups stand on one line, longer ones one entry a line, as Node's `util.inspect` does it.

mod style;
mod tagged;

#[cfg(test)]
mod tests;

pub(super) use style::{Paint, Style};

use serde_json::{Map, Value};

use tagged::Tagged;

/// Widest group that stands on one line.
/// As Node: with the indentation of a few levels it still fits a terminal of 80 columns.
const LINE_WIDTH_MAX: usize = 72;

/// Entries of one group that are shown; the rest is counted.
/// As Node: a person reads no more, and a scroll of thousands hides the rest of the value.
const ENTRIES_SHOWN_MAX: usize = 100;

/// The value as JavaScript.
pub(super) fn inspect(value: &Value, style: Style) -> String {
    Printer { style }.value(value).text
}

/// Whether a value is `undefined`.
pub(super) fn is_undefined(value: &Value) -> bool {
    matches!(Tagged::of(value), Some(Tagged::Undefined))
}

/// A printed part. Colours have no width, so it is counted apart from the text.
struct Piece {
    text: String,
    width: usize,
}

impl Piece {
    fn is_one_line(&self) -> bool {
        !self.text.contains('\n')
    }

    fn before(mut self, rest: Piece) -> Piece {
        self.text.push_str(&rest.text);
        self.width += rest.width;
        self
    }
}

struct Printer {
    style: Style,
}

impl Printer {
    fn value(&self, value: &Value) -> Piece {
        if let Some(tagged) = Tagged::of(value) {
            return self.tagged(tagged);
        }
        match value {
            Value::Null => self.painted(Paint::Strong, "null"),
            Value::Bool(flag) => self.painted(Paint::Number, if *flag { "true" } else { "false" }),
            Value::Number(number) => self.painted(Paint::Number, &number_text(number)),
            Value::String(text) => self.painted(Paint::Text, &quoted(text)),
            Value::Array(items) => self.list("", ['[', ']'], items),
            Value::Object(fields) => self.object(fields),
        }
    }

    fn tagged(&self, tagged: Tagged<'_>) -> Piece {
        match tagged {
            Tagged::Undefined => self.painted(Paint::Faint, "undefined"),
            Tagged::BigInt(digits) => self.painted(Paint::Number, &format!("{digits}n")),
            Tagged::Date(text) => self.painted(Paint::Special, text),
            Tagged::Number(text) => self.painted(Paint::Number, text),
            Tagged::Function(name) => self.painted(Paint::Special, &function_text(name)),
            Tagged::Bytes(bytes) => {
                let items: Vec<Value> = bytes.iter().map(|byte| Value::from(*byte)).collect();
                self.list(&format!("Uint8Array({}) ", items.len()), ['[', ']'], &items)
            }
            Tagged::Set(items) => self.list(&format!("Set({}) ", items.len()), ['{', '}'], items),
            Tagged::Map(pairs) => {
                let entries = pairs.iter().map(|pair| self.map_entry(pair));
                self.group(&format!("Map({}) ", pairs.len()), ['{', '}'], pairs.len(), entries)
            }
            Tagged::Error(fields) => self.error(fields),
            Tagged::Escaped(fields) => self.object(fields),
        }
    }

    fn list(&self, prefix: &str, brackets: [char; 2], items: &[Value]) -> Piece {
        self.group(prefix, brackets, items.len(), items.iter().map(|item| self.value(item)))
    }

    fn object(&self, fields: &Map<String, Value>) -> Piece {
        let entries = fields.iter().map(|(key, value)| {
            let key = if is_identifier(key) { plain(key) } else { self.painted(Paint::Text, &quoted(key)) };
            key.before(plain(": ")).before(self.value(value))
        });
        self.group("", ['{', '}'], fields.len(), entries)
    }

    fn map_entry(&self, pair: &Value) -> Piece {
        match pair.as_array().map(Vec::as_slice) {
            Some([key, value]) => self.value(key).before(plain(" => ")).before(self.value(value)),
            _ => self.value(pair),
        }
    }

    fn error(&self, fields: &Map<String, Value>) -> Piece {
        let field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, message) = (field("name"), field("message"));
        let separator = if message.is_empty() { "" } else { ": " };
        let header = format!("{name}{separator}{message}");
        let stack = field("stack").trim_end();
        let shown = if stack.is_empty() { format!("[{header}]") } else { format!("{header}\n{stack}") };
        let error = plain(&shown);
        match fields.get("cause") {
            None => error,
            Some(cause) => {
                let entry = plain("[cause]: ").before(self.value(cause));
                error.before(plain(" ")).before(self.group("", ['{', '}'], 1, [entry].into_iter()))
            }
        }
    }

    /// Entries between brackets, on one line if they fit.
    fn group(
        &self,
        prefix: &str,
        [open, close]: [char; 2],
        count: usize,
        entries: impl Iterator<Item = Piece>,
    ) -> Piece {
        if count == 0 {
            return plain(&format!("{prefix}{open}{close}"));
        }
        let mut shown: Vec<Piece> = entries.take(ENTRIES_SHOWN_MAX).collect();
        if let Some(hidden) = count.checked_sub(ENTRIES_SHOWN_MAX).filter(|hidden| *hidden > 0) {
            shown.push(plain(&format!("... {hidden} more item{}", if hidden == 1 { "" } else { "s" })));
        }
        let separators = 2 * (shown.len() - 1);
        let width = prefix.len() + 4 + separators + shown.iter().map(|piece| piece.width).sum::<usize>();
        let is_short = width <= LINE_WIDTH_MAX && shown.iter().all(Piece::is_one_line);
        let texts: Vec<String> = shown.into_iter().map(|piece| piece.text).collect();
        let text = if is_short {
            format!("{prefix}{open} {} {close}", texts.join(", "))
        } else {
            let lines = texts.join(",\n").replace('\n', "\n  ");
            format!("{prefix}{open}\n  {lines}\n{close}")
        };
        Piece { text, width }
    }

    fn painted(&self, paint: Paint, text: &str) -> Piece {
        Piece { text: self.style.paint(paint, text), width: text.chars().count() }
    }
}

fn plain(text: &str) -> Piece {
    Piece { text: text.to_owned(), width: text.chars().count() }
}

/// JavaScript has one kind of number: `1.0` is `1`.
fn number_text(number: &serde_json::Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn function_text(name: Option<&str>) -> String {
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("[Function: {name}]"),
        None => "[Function (anonymous)]".to_owned(),
    }
}

fn is_identifier(key: &str) -> bool {
    let mut chars = key.chars();
    chars.next().is_some_and(|first| first.is_alphabetic() || first == '_' || first == '$')
        && chars.all(|char| char.is_alphanumeric() || char == '_' || char == '$')
}

/// In single quotes, or in others if that saves escapes; control characters never reach the terminal raw.
fn quoted(text: &str) -> String {
    let quote = ['\'', '"', '`'].into_iter().find(|quote| !text.contains(*quote)).unwrap_or('\'');
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for char in text.chars() {
        match char {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if char == quote => out.extend(['\\', char]),
            _ if char.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(char))),
            _ => out.push(char),
        }
    }
    out.push(quote);
    out
}
