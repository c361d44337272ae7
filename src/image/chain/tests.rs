//! Logs are read back as they were written, or refused: cut at every byte, changed at any byte, moved and reordered.

use proptest::prelude::*;

use super::super::delta::{changed_runs, nonzero_runs};
use super::super::key::Key;
use super::super::record::Snapshot;
use super::super::seal::Sealer;
use super::super::testing::heap;
use super::*;

const IDENTITY: Identity = Identity { build: [1; 32], session: [2; 16], slot: 3, base: 0x1000_0000 };

fn key() -> Key {
    Key::new([7; 32])
}

fn expect(acknowledged: Option<u64>) -> Expected {
    Expected { identity: IDENTITY, acknowledged }
}

/// The records of a session that had these heaps, one after the other.
fn records(sealer: &mut Sealer, heaps: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut last: Option<&[u8]> = None;
    let mut records = Vec::new();
    for (sequence, heap) in (1..).zip(heaps) {
        let (kind, runs) = match last {
            None => (RecordKind::Full, nonzero_runs(heap)),
            Some(last) => (RecordKind::Delta, changed_runs(last, heap)),
        };
        let state = [sequence as u8; 5];
        let snapshot = Snapshot { heap, roots: b"roots", state: &state };
        records.push(sealer.seal(kind, sequence, &snapshot, &runs).unwrap());
        last = Some(heap);
    }
    records
}

fn sealed(heaps: &[Vec<u8>]) -> Vec<Vec<u8>> {
    records(&mut Sealer::new(&key(), IDENTITY).unwrap(), heaps)
}

fn read(log: &[u8], expected: &Expected) -> Result<(Vec<u8>, Restored), ImageError> {
    let (keys, mut heap) = ([key()], Vec::new());
    read_chain(&mut &*log, &mut Opener::new(&keys), expected, &mut heap).map(|restored| (heap, restored))
}

fn refusal(log: &[u8], expected: &Expected) -> &'static str {
    read(log, expected).unwrap_err().kind()
}

fn three() -> [Vec<u8>; 3] {
    [heap(&[1, 2]), heap(&[1, 3, 4]), heap(&[5])]
}

#[test]
fn log_cut_at_any_byte_gives_its_newest_whole_record() {
    let heaps = three();
    let records = sealed(&heaps);
    let log = records.concat();
    let ends: Vec<usize> = records
        .iter()
        .scan(0, |end, record| {
            *end += record.len();
            Some(*end)
        })
        .collect();
    for cut in 0..=log.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count();
        match read(&log[..cut], &expect(None)) {
            Ok((heap, restored)) => {
                assert!(heap == heaps[whole - 1], "cut at {cut}");
                assert_eq!(restored.sequence, whole as u64);
                assert_eq!(restored.is_torn, !ends.contains(&cut), "cut at {cut}");
            }
            Err(error) => assert_eq!((whole, error.kind()), (0, "ImageTruncated"), "cut at {cut}"),
        }
    }
}

#[test]
fn cut_of_acknowledged_records_is_refused() {
    let records = sealed(&three());
    let two = records[..2].concat();
    assert!(read(&two, &expect(Some(2))).is_ok());
    assert_eq!(refusal(&two, &expect(Some(3))), "ImageTruncated");
    assert_eq!(refusal(&records.concat()[..two.len() + 9], &expect(Some(3))), "ImageTruncated");
}

#[test]
fn damage_after_the_acknowledged_records_is_dropped() {
    let records = sealed(&three());
    let good = records[..2].concat();
    let zeros = [good.clone(), vec![0; 4096]].concat();
    assert_eq!(read(&zeros, &expect(Some(2))).unwrap().1.sequence, 2);
    assert_eq!(refusal(&zeros, &expect(None)), "ImageForged");
    let mut flipped = records.concat();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(read(&flipped, &expect(Some(2))).unwrap().1.is_torn);
    assert_eq!(refusal(&flipped, &expect(Some(3))), "ImageForged");
    assert_eq!(refusal(&flipped, &expect(None)), "ImageForged");
}

#[test]
fn records_out_of_order_are_refused() {
    let records = sealed(&[heap(&[1]), heap(&[2]), heap(&[3]), heap(&[4])]);
    let log = |order: &[usize]| order.iter().flat_map(|at| records[*at].clone()).collect::<Vec<u8>>();
    assert!(read(&log(&[0, 1, 2, 3]), &expect(None)).is_ok());
    for order in [&[0, 2, 3][..], &[0, 1, 1], &[0, 2, 1], &[1, 2], &[0, 0], &[0, 1, 3]] {
        assert_eq!(refusal(&log(order), &expect(None)), "ImageForged", "{order:?}");
    }
}

#[test]
fn full_image_in_the_middle_starts_anew() {
    let mut sealer = Sealer::new(&key(), IDENTITY).unwrap();
    let mut log = records(&mut sealer, &[heap(&[1, 2, 3])]).concat();
    let second = heap(&[0, 0, 0, 4]);
    let snapshot = Snapshot { heap: &second, roots: b"", state: b"" };
    log.extend(sealer.seal(RecordKind::Full, 2, &snapshot, &nonzero_runs(&second)).unwrap());
    assert!(read(&log, &expect(None)).unwrap().0 == second);
}

#[test]
fn record_of_another_session_or_place_is_refused() {
    let log = sealed(&three()).concat();
    for identity in [
        Identity { session: [9; 16], ..IDENTITY },
        Identity { slot: 4, ..IDENTITY },
        Identity { base: 0x2000_0000, ..IDENTITY },
    ] {
        assert_eq!(refusal(&log, &Expected { identity, acknowledged: None }), "ImageForged");
        // Neither does a header that was changed to fit: it is part of what was sealed.
        let mut moved = log.clone();
        moved[48..64].copy_from_slice(&identity.session);
        moved[64..72].copy_from_slice(&identity.slot.to_le_bytes());
        moved[72..80].copy_from_slice(&identity.base.to_le_bytes());
        assert_eq!(refusal(&moved, &Expected { identity, acknowledged: None }), "ImageForged");
    }
}

#[test]
fn image_of_another_build_is_refused_as_such() {
    let log = sealed(&three()).concat();
    let identity = Identity { build: [8; 32], ..IDENTITY };
    let expected = Expected { identity, acknowledged: None };
    let error = read(&log, &expected).unwrap_err();
    assert_eq!((error.kind(), error.lost_reason()), ("ImageForeign", Some("engine")));
    let mut renamed = log;
    renamed[16..48].copy_from_slice(&identity.build);
    assert_eq!(refusal(&renamed, &expected), "ImageForged");
}

#[test]
fn older_key_still_opens_and_a_foreign_one_does_not() {
    let log = sealed(&three()).concat();
    let read_with = |keys: &[Key]| {
        read_chain(&mut &*log, &mut Opener::new(keys), &expect(None), &mut Vec::new())
            .map_err(|error| error.kind())
            .map(|restored| restored.sequence)
    };
    assert_eq!(read_with(&[Key::new([8; 32]), key()]), Ok(3));
    assert_eq!(read_with(&[Key::new([8; 32])]), Err("ImageKey"));
    assert_eq!(read_with(&[]), Err("ImageKey"));
}

#[test]
fn records_of_two_writers_form_one_log() {
    let heaps = [heap(&[1]), heap(&[2])];
    let mut log = sealed(&heaps[..1]).concat();
    log.extend(&sealed(&heaps)[1]);
    assert!(read(&log, &expect(None)).unwrap().0 == heaps[1]);
}

#[test]
fn equal_records_are_sealed_differently() {
    let mut sealer = Sealer::new(&key(), IDENTITY).unwrap();
    let [first, again] = [(); 2].map(|()| records(&mut sealer, &[heap(&[1])]).remove(0));
    let other = sealed(&[heap(&[1])]).remove(0);
    assert_ne!(first[HEADER_BYTES..], again[HEADER_BYTES..]);
    assert_ne!(first[HEADER_BYTES..], other[HEADER_BYTES..]);
}

fn histories() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(0u8..4, 0..12), 1..10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_reads_back(history in histories()) {
        let heaps: Vec<Vec<u8>> = history.iter().map(|pages| heap(pages)).collect();
        let (read, restored) = read(&sealed(&heaps).concat(), &expect(Some(heaps.len() as u64))).unwrap();
        prop_assert!(&read == heaps.last().unwrap());
        prop_assert_eq!(restored.state, vec![heaps.len() as u8; 5]);
        prop_assert_eq!(restored.roots, b"roots");
        prop_assert_eq!(restored.heap_bytes, read.len());
    }

    #[test]
    fn flipped_bit_is_refused(at: prop::sample::Index, bit in 0u8..8) {
        let mut log = sealed(&three()).concat();
        let at = at.index(log.len());
        log[at] ^= 1 << bit;
        match read(&log, &expect(None)) {
            // A length that became longer looks like a record that is not whole: the ones before it stand.
            Ok((_, restored)) => prop_assert!(restored.is_torn && restored.sequence < 3),
            Err(error) => prop_assert_ne!(error.kind(), "ImageIo"),
        }
        prop_assert!(read(&log, &expect(Some(3))).is_err());
    }
}
