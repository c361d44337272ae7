//! Reading a log of records back into a heap.
//!
//! A log is a full image and the deltas after it, in order of their sequence. A process that is killed leaves at most
//! one record that is not whole, at the end: it is dropped, because nothing that depends on it has left the session.
//! Everything else that does not fit is an error, never a guess. Records are read one at a time, so a reader holds the
//! heap and one record, and a length that lies costs no memory before its bytes are there.

use std::io::Read;

use super::ImageError;
use super::record::{HEADER_BYTES, Header, Identity, RecordKind, decode_body};
use super::seal::Opener;

/// What a reader asks for before it trusts a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) identity: Identity,
    /// The newest sequence that is known to have been stored, if the store knows one. A log that ends before it was cut.
    /// A damaged record after it is what a power failure leaves, and is dropped like one that is not whole.
    pub(crate) acknowledged: Option<u64>,
}

/// Memory that a heap is read into.
pub(crate) trait HeapTarget {
    /// Makes the heap so long. What it has gained since it was last shorter is zero.
    fn resize(&mut self, bytes: usize) -> Result<&mut [u8], ImageError>;
}

impl HeapTarget for Vec<u8> {
    fn resize(&mut self, bytes: usize) -> Result<&mut [u8], ImageError> {
        Vec::resize(self, bytes, 0);
        Ok(self)
    }
}

/// What a log says beside the heap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) heap_bytes: usize,
    pub(crate) roots: Vec<u8>,
    pub(crate) state: Vec<u8>,
    /// Of the newest whole record.
    pub(crate) sequence: u64,
    /// Bytes of the records that were used.
    pub(crate) log_bytes: u64,
    /// Whether something at the end was dropped.
    pub(crate) is_torn: bool,
}

/// Reads a whole log. After an error the target holds nothing of use.
pub(crate) fn read_chain(
    source: &mut impl Read,
    opener: &mut Opener<'_>,
    expected: &Expected,
    target: &mut impl HeapTarget,
) -> Result<Restored, ImageError> {
    let mut chain = Chain { expected, newest: None };
    let mut record = Vec::new();
    let failure = loop {
        match chain.read_record(source, opener, target, &mut record) {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
    };
    chain.finish(failure)
}

struct Chain<'a> {
    expected: &'a Expected,
    newest: Option<Restored>,
}

impl Chain<'_> {
    /// Reads the next record; `false` at the end of the log.
    fn read_record(
        &mut self,
        source: &mut impl Read,
        opener: &mut Opener<'_>,
        target: &mut impl HeapTarget,
        sealed: &mut Vec<u8>,
    ) -> Result<bool, ImageError> {
        sealed.clear();
        read_up_to(source, HEADER_BYTES, sealed)?;
        let bytes: [u8; HEADER_BYTES] = match sealed.as_slice().try_into() {
            Ok(bytes) => bytes,
            Err(_) if sealed.is_empty() => return Ok(false),
            Err(_) => return Err(ImageError::Truncated("header")),
        };
        let header = Header::decode(&bytes)?;
        self.check_place(&header)?;
        sealed.clear();
        // Its limit was checked with the header, so it fits.
        let length = header.sealed_bytes as usize;
        read_up_to(source, length, sealed)?;
        if sealed.len() < length {
            return Err(ImageError::Truncated("body"));
        }
        let body = decode_body(opener.open(&bytes, &header, sealed)?)?;
        if header.kind == RecordKind::Full {
            target.resize(0)?;
        }
        body.apply(target.resize(body.heap_bytes)?);
        let before = self.newest.as_ref().map_or(0, |newest| newest.log_bytes);
        self.newest = Some(Restored {
            heap_bytes: body.heap_bytes,
            roots: body.roots.to_vec(),
            state: body.state.to_vec(),
            sequence: header.sequence,
            log_bytes: before + HEADER_BYTES as u64 + header.sealed_bytes,
            is_torn: false,
        });
        Ok(true)
    }

    fn check_place(&self, header: &Header) -> Result<(), ImageError> {
        let (found, expected) = (&header.identity, &self.expected.identity);
        if found.session != expected.session || (found.slot, found.base) != (expected.slot, expected.base) {
            return Err(ImageError::Forged("the record belongs to another session"));
        }
        if found.build != expected.build {
            return Err(ImageError::ForeignBuild);
        }
        match (&self.newest, header.kind) {
            (None, RecordKind::Full) => Ok(()),
            (None, RecordKind::Delta) => Err(ImageError::Forged("the log starts with a delta")),
            (Some(newest), RecordKind::Full | RecordKind::Delta) => {
                let is_next = newest.sequence.checked_add(1) == Some(header.sequence);
                if is_next { Ok(()) } else { Err(ImageError::Forged("records are not in order")) }
            }
        }
    }

    fn finish(self, failure: Option<ImageError>) -> Result<Restored, ImageError> {
        let Some(newest) = self.newest else {
            return Err(failure.unwrap_or(ImageError::Truncated("the log is empty")));
        };
        let is_complete = self.expected.acknowledged.is_none_or(|sequence| newest.sequence >= sequence);
        match failure {
            None if is_complete => Ok(newest),
            Some(ImageError::Truncated(_)) if is_complete => Ok(Restored { is_torn: true, ..newest }),
            Some(failure) if is_complete && self.expected.acknowledged.is_some() && is_damage(&failure) => {
                Ok(Restored { is_torn: true, ..newest })
            }
            None => Err(ImageError::Truncated("records that were stored are missing")),
            Some(failure) => Err(failure),
        }
    }
}

/// Whether it is what blocks look like that were allotted to the file and never written.
fn is_damage(failure: &ImageError) -> bool {
    match failure {
        ImageError::Forged(_)
        | ImageError::Version(_)
        | ImageError::Architecture(_)
        | ImageError::PageSize(_)
        | ImageError::TooLarge { .. } => true,
        ImageError::Truncated(_)
        | ImageError::ForeignBuild
        | ImageError::ForeignKey { .. }
        | ImageError::DiskFull { .. }
        | ImageError::Unavailable(_)
        | ImageError::KeyFile { .. }
        | ImageError::Io { .. } => false,
    }
}

/// Reads `length` bytes, or fewer at the end of the source.
fn read_up_to(source: &mut impl Read, length: usize, bytes: &mut Vec<u8>) -> Result<(), ImageError> {
    /// Taken before the first byte is there; more only as bytes come.
    const TRUSTED_BYTES_MAX: usize = 4 << 20;
    bytes.reserve(length.min(TRUSTED_BYTES_MAX));
    let read = source.by_ref().take(length as u64).read_to_end(bytes);
    read.map(drop).map_err(|source| ImageError::Io { what: "read image", source })
}

#[cfg(test)]
mod tests;
