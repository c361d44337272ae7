//! Messages on the socket between the server and a worker: four bytes of length, then JSON.
//!
//! JSON, because the values in the messages are: they are written and read once, without a form in between.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What a message has beside the text of a client, a value or a console line.
pub(crate) const ENVELOPE_BYTES_MAX: usize = 1 << 20;

/// Longest message of the server: what a length can say. The server is trusted, its messages have limits of their own.
pub(crate) const SERVER_FRAME_BYTES_MAX: usize = u32::MAX as usize;

/// A length and the message follow each other.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Appends a message.
pub(crate) fn write_frame(buffer: &mut Vec<u8>, message: &impl Serialize) -> io::Result<()> {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; LENGTH_BYTES]);
    let length = serde_json::to_writer(&mut *buffer, message).map_err(io::Error::from).and_then(|()| {
        let bytes = buffer.len() - start - LENGTH_BYTES;
        u32::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))
    });
    match length {
        Ok(length) => {
            buffer[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
            Ok(())
        }
        Err(error) => {
            buffer.truncate(start);
            Err(error)
        }
    }
}

/// Reads messages of at most `bytes_max`.
pub(crate) struct FrameReader<R> {
    reader: R,
    bytes_max: usize,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads from there.
    pub(crate) fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader, bytes_max, buffer: Vec::new() }
    }

    /// The next message; `None` at the end. Memory is taken as the bytes arrive, not as the length announces them.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut length = [0; LENGTH_BYTES];
        match self.reader.read_exact(&mut length).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = u32::from_le_bytes(length);
        if usize::try_from(length).map_or(true, |length| length > self.bytes_max) {
            return Err(invalid(format!("a message of {length} bytes, expected at most {}", self.bytes_max)));
        }
        self.buffer.clear();
        // A long message is rare: its room is not kept.
        self.buffer.shrink_to(ENVELOPE_BYTES_MAX);
        let read = (&mut self.reader).take(length.into()).read_to_end(&mut self.buffer).await?;
        if u32::try_from(read).map_or(true, |read| read < length) {
            return Ok(None);
        }
        serde_json::from_slice(&self.buffer).map(Some).map_err(|error| invalid(error.to_string()))
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8], bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        FrameReader::new(bytes, bytes_max).next().await
    }

    #[tokio::test]
    async fn frames_follow_each_other() {
        let mut buffer = Vec::new();
        write_frame(&mut buffer, &vec![1, 2]).unwrap();
        write_frame(&mut buffer, &vec![3]).unwrap();
        let mut reader = FrameReader::new(&buffer[..], 16);
        assert_eq!(reader.next::<Vec<u8>>().await.unwrap(), Some(vec![1, 2]));
        assert_eq!(reader.next::<Vec<u8>>().await.unwrap(), Some(vec![3]));
        assert_eq!(reader.next::<Vec<u8>>().await.unwrap(), None);
    }

    #[tokio::test]
    async fn frame_at_the_limit_is_read_and_one_past_refused() {
        let mut buffer = Vec::new();
        write_frame(&mut buffer, &vec![1, 2]).unwrap();
        assert_eq!(read(&buffer, 5).await.unwrap(), Some(vec![1, 2]));
        let error = read(&buffer, 4).await.unwrap_err();
        assert_eq!(error.to_string(), "a message of 5 bytes, expected at most 4");
    }

    #[tokio::test]
    async fn cut_frame_is_the_end() {
        let mut buffer = Vec::new();
        write_frame(&mut buffer, &vec![1, 2]).unwrap();
        for length in 0..buffer.len() {
            assert_eq!(read(&buffer[..length], 5).await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn garbage_is_an_error() {
        assert!(read(&[2, 0, 0, 0, b'[', b'x'], 5).await.is_err());
    }
}
