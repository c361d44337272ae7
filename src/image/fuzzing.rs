//! Entry point for the fuzzers: image logs and bodies of records.

use super::chain::{Expected, read_chain};
use super::delta::{changed_runs, nonzero_runs};
use super::key::Key;
use super::record::{Identity, RecordKind, Snapshot, decode_body};
use super::seal::{Opener, Sealer};
use super::{HEAP_BYTES_MAX, PAGE_BYTES};

const IDENTITY: Identity = Identity { build: [1; 32], session: [2; 16], slot: 3, base: 0x1000_0000 };

/// Pages of the heap whose history the bytes are.
const PAGES: usize = 4;

/// Longest history: a record has pages to seal.
const HISTORY_BYTES_MAX: usize = 16;

/// Logs: no bytes are a log without its key, a body never writes outside of its heap, and of a log in which one bit was
/// changed no record from there on is used.
pub fn image(bytes: &[u8]) {
    let keys = [Key::new([7; 32])];
    let forged = read(&keys, bytes);
    assert!(forged.is_err(), "a log without a key");
    if let Ok(body) = decode_body(bytes) {
        assert!(body.heap_bytes <= HEAP_BYTES_MAX && body.heap_bytes.is_multiple_of(PAGE_BYTES));
        body.apply(&mut vec![0; body.heap_bytes]);
    }
    let [low, high, history @ ..] = bytes else { return };
    let history = &history[..history.len().min(HISTORY_BYTES_MAX)];
    let (records, heap) = records(&keys[0], history);
    let mut log = records.concat();
    assert!(read(&keys, &log).is_ok_and(|(sequence, read)| sequence == records.len() as u64 && read == heap));
    let bit = usize::from(u16::from_le_bytes([*low, *high])) % (log.len() * 8);
    log[bit / 8] ^= 1 << (bit % 8);
    let whole = records.iter().scan(0, |end, record| {
        *end += record.len();
        Some(*end)
    });
    let whole = whole.filter(|end| *end <= bit / 8).count() as u64;
    if let Ok((sequence, _)) = read(&keys, &log) {
        assert_eq!(sequence, whole, "a changed record was used");
    }
}

/// The sequence of the newest record, and the heap.
fn read(keys: &[Key], mut log: &[u8]) -> Result<(u64, Vec<u8>), &'static str> {
    let expected = Expected { identity: IDENTITY, acknowledged: None };
    let mut heap = Vec::new();
    let restored = read_chain(&mut log, &mut Opener::new(keys), &expected, &mut heap);
    restored.map(|restored| (restored.sequence, heap)).map_err(|error| error.kind())
}

/// A record for each byte, which names a page and what is written there; and the heap at the end.
fn records(key: &Key, history: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut heap = vec![0; PAGES * PAGE_BYTES];
    let Ok(mut sealer) = Sealer::new(key, IDENTITY) else { return (Vec::new(), heap) };
    let full = Snapshot { heap: &heap, roots: b"", state: b"" };
    let mut records: Vec<_> =
        sealer.seal(RecordKind::Full, 1, &full, &nonzero_runs(&heap)).into_iter().collect();
    for (sequence, byte) in (2..).zip(history) {
        let last = heap.clone();
        heap[usize::from(*byte) % PAGES * PAGE_BYTES] = byte / PAGES as u8;
        let snapshot = Snapshot { heap: &heap, roots: b"", state: &[*byte] };
        records.extend(sealer.seal(RecordKind::Delta, sequence, &snapshot, &changed_runs(&last, &heap)));
    }
    (records, heap)
}
