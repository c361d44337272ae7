//! The header of a record: 128 bytes at fixed places.

use super::super::error::check_size;
use super::super::{ImageError, PAGE_BYTES};
use super::{Identity, RecordKind, SEALED_BYTES_MAX};

/// Length of a header.
pub(crate) const HEADER_BYTES: usize = 128;

/// The first bytes of every record.
const MAGIC: [u8; 8] = *b"scompimg";

/// Raised with every change of the format; other versions are refused.
const VERSION: u16 = 1;

/// The architecture of this program. Heaps of others are refused by it.
const ARCHITECTURE: u8 = if cfg!(target_arch = "x86_64") {
    1
} else if cfg!(target_arch = "aarch64") {
    2
} else {
    0
};

/// What is known of a record without its key. Nothing of it may be trusted before the body was opened with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: RecordKind,
    pub(crate) identity: Identity,
    /// One more than that of the record before.
    pub(crate) sequence: u64,
    pub(crate) key_id: [u8; 8],
    /// Chosen at random by each writer: it has a key of its own.
    pub(crate) salt: [u8; 16],
    /// Counts what the writer has sealed; never used twice with one salt.
    pub(crate) counter: u64,
    pub(crate) sealed_bytes: u64,
}

impl Header {
    /// The bytes at the start of the record.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let kind = match self.kind {
            RecordKind::Full => 1,
            RecordKind::Delta => 2,
        };
        let fields: [&[u8]; 14] = [
            &MAGIC,
            &VERSION.to_le_bytes(),
            &[kind],
            &[ARCHITECTURE],
            &(PAGE_BYTES as u32).to_le_bytes(),
            &self.identity.build,
            &self.identity.session,
            &self.identity.slot.to_le_bytes(),
            &self.identity.base.to_le_bytes(),
            &self.sequence.to_le_bytes(),
            &self.key_id,
            &self.salt,
            &self.counter.to_le_bytes(),
            &self.sealed_bytes.to_le_bytes(),
        ];
        let mut bytes = [0; HEADER_BYTES];
        let mut at = 0;
        for field in fields {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        }
        assert_eq!(at, HEADER_BYTES, "the fields fill the header");
        bytes
    }

    /// Reads a header of this version, architecture and page size.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, ImageError> {
        let mut fields = Fields { bytes, at: 0 };
        if fields.take() != MAGIC {
            return Err(ImageError::Forged("no record starts here"));
        }
        match u16::from_le_bytes(fields.take()) {
            VERSION => {}
            version => return Err(ImageError::Version(version)),
        }
        let [kind, architecture] = fields.take();
        if architecture != ARCHITECTURE {
            return Err(ImageError::Architecture(architecture));
        }
        let page_bytes = u32::from_le_bytes(fields.take());
        if page_bytes as usize != PAGE_BYTES {
            return Err(ImageError::PageSize(page_bytes));
        }
        let kind = match kind {
            1 => RecordKind::Full,
            2 => RecordKind::Delta,
            _ => return Err(ImageError::Forged("unknown kind of record")),
        };
        let header = Self {
            kind,
            identity: Identity {
                build: fields.take(),
                session: fields.take(),
                slot: u64::from_le_bytes(fields.take()),
                base: u64::from_le_bytes(fields.take()),
            },
            sequence: u64::from_le_bytes(fields.take()),
            key_id: fields.take(),
            salt: fields.take(),
            counter: u64::from_le_bytes(fields.take()),
            sealed_bytes: u64::from_le_bytes(fields.take()),
        };
        check_size("image record", header.sealed_bytes, SEALED_BYTES_MAX as u64)?;
        Ok(header)
    }
}

/// Fixed-size fields one after the other.
struct Fields<'a> {
    bytes: &'a [u8; HEADER_BYTES],
    at: usize,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(sealed_bytes: u64) -> Header {
        Header {
            kind: RecordKind::Delta,
            identity: Identity { build: [1; 32], session: [2; 16], slot: 3, base: 0x7000_0000 },
            sequence: 9,
            key_id: [4; 8],
            salt: [5; 16],
            counter: 6,
            sealed_bytes,
        }
    }

    fn refusal(at: usize, byte: u8) -> &'static str {
        let mut bytes = header(100).encode();
        bytes[at] = byte;
        Header::decode(&bytes).unwrap_err().kind()
    }

    #[test]
    fn header_reads_back() {
        assert_eq!(Header::decode(&header(100).encode()).unwrap(), header(100));
    }

    #[test]
    fn each_reason_to_refuse_has_its_kind() {
        assert_eq!(refusal(0, b'x'), "ImageForged");
        assert_eq!(refusal(8, 2), "ImageVersion");
        assert_eq!(refusal(10, 9), "ImageForged");
        assert_eq!(refusal(11, 77), "ImageArchitecture");
        assert_eq!(refusal(13, 0x40), "ImagePageSize");
    }

    #[test]
    fn longest_record_is_the_limit() {
        let max = SEALED_BYTES_MAX as u64;
        assert!(Header::decode(&header(max).encode()).is_ok());
        assert_eq!(Header::decode(&header(max + 1).encode()).unwrap_err().kind(), "ImageTooLarge");
    }
}
