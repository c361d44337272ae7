//! Sealing: records are encrypted and bound to their session, place and build, so that no other record passes for one.
//!
//! AES-256-GCM, because images exist where every processor has instructions for it: a heap of 336 KB takes a tenth of a
//! millisecond. Its one rule is that a nonce is never used twice with a key. So each writer draws a salt of 128 random bits,
//! derives a key of its own from it (HKDF-SHA256), and counts: the nonce is the counter, which goes up with every record
//! that is sealed, whether or not it is ever stored. Nothing has to be remembered across restarts, and two processes, two
//! forks of a session or a retry after a full disk cannot meet.
//!
//! The header is the associated data: session, slot, base address, sequence, build and kind. A record that is moved to
//! another session, another place in the log or another build does not open.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf;

use super::ImageError;
use super::delta::PageRun;
use super::key::{Key, random_bytes, show_id};
use super::record::{HEADER_BYTES, Header, Identity, RecordKind, Snapshot, encode_body};

/// Length of the tag at the end of a record.
pub(crate) const TAG_BYTES: usize = 16;

/// Separates the keys of this format from any other use of the key file.
const KEY_PURPOSE: &[u8] = b"scomp image record 1";

/// Seals the records of one session, by one process.
pub(crate) struct Sealer {
    key: LessSafeKey,
    key_id: [u8; 8],
    salt: [u8; 16],
    counter: u64,
    identity: Identity,
}

impl Sealer {
    /// A writer with a salt of its own.
    pub(crate) fn new(key: &Key, identity: Identity) -> Result<Self, ImageError> {
        let salt = random_bytes()?;
        Ok(Self { key: derive(key, salt)?, key_id: key.id(), salt, counter: 0, identity })
    }

    /// Whose records these are.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A whole record with the given pages of the snapshot.
    pub(crate) fn seal(
        &mut self,
        kind: RecordKind,
        sequence: u64,
        snapshot: &Snapshot<'_>,
        runs: &[PageRun],
    ) -> Result<Vec<u8>, ImageError> {
        let mut record = vec![0; HEADER_BYTES];
        encode_body(snapshot, runs, &mut record)?;
        self.counter += 1;
        let header = Header {
            kind,
            identity: self.identity,
            sequence,
            key_id: self.key_id,
            salt: self.salt,
            counter: self.counter,
            sealed_bytes: (record.len() - HEADER_BYTES + TAG_BYTES) as u64,
        };
        let header = header.encode();
        let (start, body) = record.split_at_mut(HEADER_BYTES);
        start.copy_from_slice(&header);
        let tag = self.key.seal_in_place_separate_tag(nonce(self.counter), Aad::from(&header), body);
        record.extend_from_slice(tag.map_err(|_| ImageError::Unavailable("sealing failed"))?.as_ref());
        Ok(record)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sealer").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Opens records that any of its keys has sealed.
pub(crate) struct Opener<'a> {
    keys: &'a [Key],
    /// The key of the last record: a log has mostly one writer.
    latest: Option<([u8; 8], [u8; 16], LessSafeKey)>,
}

impl<'a> Opener<'a> {
    /// The current key first; older ones still open what they sealed.
    pub(crate) fn new(keys: &'a [Key]) -> Self {
        Self { keys, latest: None }
    }

    /// Decrypts the sealed part of a record in place and returns the body.
    pub(crate) fn open<'b>(
        &mut self,
        bytes: &[u8; HEADER_BYTES],
        header: &Header,
        sealed: &'b mut [u8],
    ) -> Result<&'b [u8], ImageError> {
        let key = self.key(header)?;
        let opened = key.open_in_place(nonce(header.counter), Aad::from(bytes), sealed);
        opened.map(|body| &*body).map_err(|_| ImageError::Forged("the seal does not fit"))
    }

    fn key(&mut self, header: &Header) -> Result<&LessSafeKey, ImageError> {
        let is_latest =
            self.latest.as_ref().is_some_and(|(id, salt, _)| (*id, *salt) == (header.key_id, header.salt));
        if !is_latest {
            self.latest = None;
            let master = self.keys.iter().find(|key| key.id() == header.key_id).ok_or_else(|| {
                let expected = self.keys.first().map_or_else(String::new, |key| show_id(key.id()));
                ImageError::ForeignKey { found: show_id(header.key_id), expected }
            })?;
            self.latest = Some((header.key_id, header.salt, derive(master, header.salt)?));
        }
        self.latest.as_ref().map(|(_, _, key)| key).ok_or(ImageError::Forged("no key"))
    }
}

fn derive(key: &Key, salt: [u8; 16]) -> Result<LessSafeKey, ImageError> {
    let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt).extract(key.secret());
    let derived = secret.expand(&[KEY_PURPOSE], &AES_256_GCM);
    let derived = derived.map_err(|_| ImageError::Unavailable("no key could be derived"))?;
    Ok(LessSafeKey::new(UnboundKey::from(derived)))
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}
