//! Reads server-sent events from chunks of bytes.
//!
//! Lines end with LF, CR or CRLF, and a chunk may end anywhere, even inside a character. So lines
//! are split as bytes, and only complete lines are decoded.

/// Longest event. Models send a few hundred bytes at a time, but a tool call in a single event may
/// be long.
pub(crate) const EVENT_BYTES_MAX: usize = 1 << 20;

/// The name is empty if the event has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) name: String,
    pub(crate) data: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("event exceeds {EVENT_BYTES_MAX} bytes")]
pub(crate) struct EventTooLong;

/// The state of reading one stream.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    line: Vec<u8>,
    /// The last byte was a CR. An LF after it belongs to the same line end.
    after_cr: bool,
    name: String,
    data: Option<String>,
}

impl SseReader {
    /// Takes the next bytes, and returns the events that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, EventTooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let ends_crlf = std::mem::replace(&mut self.after_cr, byte == b'\r') && byte == b'\n';
            match byte {
                b'\n' if ends_crlf => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ => {
                    self.line.push(byte);
                    if self.line.len() + self.data.as_ref().map_or(0, String::len) > EVENT_BYTES_MAX {
                        return Err(EventTooLong);
                    }
                }
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return self.data.take().map(|data| SseEvent { name, data });
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments, ids and retry times are not needed.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<SseEvent> {
        SseReader::default().feed(text.as_bytes()).unwrap()
    }

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn lines_may_end_with_lf_cr_or_crlf() {
        for end in ["\n", "\r", "\r\n"] {
            let text = format!("event: a{end}data: 1{end}{end}data: 2{end}{end}");
            assert_eq!(read(&text), [event("a", "1"), event("", "2")], "{end:?}");
        }
    }

    #[test]
    fn data_lines_are_joined_without_their_first_space() {
        assert_eq!(read("data:1\ndata:  2\ndata\n\n"), [event("", "1\n 2\n")]);
    }

    #[test]
    fn unknown_fields_and_events_without_data_are_skipped() {
        assert_eq!(read(": hi\nid: 4\nretry: 3\n\nevent: a\n\ndata: 1\n\n"), [event("", "1")]);
    }

    #[test]
    fn unfinished_event_is_not_returned() {
        assert_eq!(read("data: 1\n"), []);
    }

    #[test]
    fn event_past_the_length_limit_is_an_error() {
        let fits = format!("data: {}\n\n", "x".repeat(EVENT_BYTES_MAX - 6));
        assert_eq!(read(&fits).len(), 1);
        let too_long = format!("data: {}", "x".repeat(EVENT_BYTES_MAX - 5));
        assert_eq!(SseReader::default().feed(too_long.as_bytes()), Err(EventTooLong));
        let lines = "data: 0123456789\n".repeat(EVENT_BYTES_MAX / 10);
        assert_eq!(SseReader::default().feed(lines.as_bytes()), Err(EventTooLong));
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_events(
            text in "(data: |event: |\n|\r|\r\n|é|🦞|[a-c: ]){0,40}", cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let bytes = text.as_bytes();
            let whole = SseReader::default().feed(bytes).unwrap();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let (mut reader, mut events, mut from) = (SseReader::default(), Vec::new(), 0);
            for cut in cuts {
                events.extend(reader.feed(&bytes[from..cut]).unwrap());
                from = cut;
            }
            prop_assert_eq!(events, whole);
        }
    }
}
