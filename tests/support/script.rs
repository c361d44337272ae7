//! A transcript, line by line.
//!
//! ```text
//! # prose                       #! limits {…}      the server's limits, `#! sessions {…}` likewise
//! #! live                       every connection shakes hands by itself, with `#! params {…}` if given
//! == name                       opens a connection, or goes on with it; the first is there from the start
//! ==[offer] name                the same, offering subprotocols; `<= name` expects the one agreed on, `<= -` none
//! >> text                       sent as it is                      >b text   sent as a binary frame
//! << json                       expected (see `pattern`)           <<= text  expected letter for letter
//! <! 1003                       the server closes with that code   <. nothing comes for a moment
//! >! close                      we close; `>! drop` ends the connection without a word
//! js> code                      an eval with the next id from 1001 on; lines with `|` go on with the code
//! js< json                      the value of the oldest eval not answered yet, other members allowed
//! js! json                      its error, other members of the error and of its data allowed
//! ```

/// What one line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Setting(String),
    Connection { name: String, offer: Option<String> },
    Agreed(Option<String>),
    Send(String),
    SendBinary(String),
    Expect(String),
    ExpectExactly(String),
    ExpectClose(u16),
    ExpectNothing,
    Close,
    Drop,
    Eval(String),
    Value(String),
    Failure(String),
}

/// The steps with their line numbers.
pub fn parse(text: &str) -> Result<Vec<(usize, Step)>, String> {
    let mut steps: Vec<(usize, Step)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let (Some(more), Some((_, Step::Eval(code)))) = (line.strip_prefix('|'), steps.last_mut()) {
            code.push('\n');
            code.push_str(more);
            continue;
        }
        if let Some(step) = parse_line(line).map_err(|message| format!("{number}: {message}"))? {
            steps.push((number, step));
        }
    }
    Ok(steps)
}

fn parse_line(line: &str) -> Result<Option<Step>, String> {
    if line.trim().is_empty() || (line.starts_with('#') && !line.starts_with("#!")) {
        return Ok(None);
    }
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.to_owned();
    Ok(Some(match word {
        "#!" => Step::Setting(rest),
        "==" => Step::Connection { name: rest, offer: None },
        "<=" => Step::Agreed((rest != "-").then_some(rest)),
        ">>" => Step::Send(rest),
        ">b" => Step::SendBinary(rest),
        "<<" => Step::Expect(rest),
        "<<=" => Step::ExpectExactly(rest),
        "<!" => Step::ExpectClose(rest.parse().map_err(|_| "expected a close code".to_owned())?),
        "<." => Step::ExpectNothing,
        ">!" if rest == "close" => Step::Close,
        ">!" if rest == "drop" => Step::Drop,
        "js>" => Step::Eval(rest),
        "js<" => Step::Value(rest),
        "js!" => Step::Failure(rest),
        _ => match word.strip_prefix("==[").and_then(|word| word.strip_suffix(']')) {
            Some(offer) => Step::Connection { name: rest, offer: Some(offer.to_owned()) },
            None => return Err(format!("what is `{word}`?")),
        },
    }))
}
