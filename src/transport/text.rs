//! The text of a frame, in whatever buffer it arrived.
//!
//! A WebSocket hands out a view into its read buffer, a line is a string of its own. Turning one into the other would
//! copy or validate every message again, so the owner is kept and read as `&str`.

use std::fmt;
use std::ops::Deref;

use tokio_tungstenite::tungstenite::Utf8Bytes;

/// The text of one frame.
#[derive(Clone)]
pub struct Text(Owner);

#[derive(Clone)]
enum Owner {
    String(String),
    Socket(Utf8Bytes),
}

impl Text {
    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Owner::String(text) => text,
            Owner::Socket(text) => text.as_str(),
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Owner::String(text))
    }
}

impl From<Utf8Bytes> for Text {
    fn from(text: Utf8Bytes) -> Self {
        Self(Owner::Socket(text))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}
