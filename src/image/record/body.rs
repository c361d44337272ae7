//! The body of a record: sizes, the run table, root values, the session's state, and pages.
//!
//! A body is decoded only after its seal was checked. It is checked all the same, length by length: a writer with a
//! bug must not become a reader with wild writes.

use super::super::delta::{PageRun, bytes_in};
use super::super::error::check_size;
use super::super::{HEAP_BYTES_MAX, ImageError, PAGE_BYTES, ROOTS_BYTES_MAX, STATE_BYTES_MAX};

/// Four sizes: heap, roots, state, runs.
const SIZES_BYTES: usize = 20;

/// First page and number of pages.
const RUN_BYTES: usize = 8;

/// A session at an empty stack, as it goes into a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot<'a> {
    /// The used pages of the address window.
    pub(crate) heap: &'a [u8],
    /// Root values and other facts that the engine's side needs to go on. Opaque here.
    pub(crate) roots: &'a [u8],
    /// The serialised state of the session beside its heap.
    pub(crate) state: &'a [u8],
}

impl Snapshot<'_> {
    fn check(&self) -> Result<(), ImageError> {
        check_size("heap", self.heap.len() as u64, HEAP_BYTES_MAX as u64)?;
        check_size("root values", self.roots.len() as u64, ROOTS_BYTES_MAX as u64)?;
        check_size("session state", self.state.len() as u64, STATE_BYTES_MAX as u64)?;
        assert!(self.heap.len().is_multiple_of(PAGE_BYTES), "a heap is whole pages");
        Ok(())
    }
}

/// A body that was decoded in place.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    /// Length of the heap after this record.
    pub(crate) heap_bytes: usize,
    pub(crate) roots: &'a [u8],
    pub(crate) state: &'a [u8],
    runs: &'a [u8],
    pages: &'a [u8],
}

impl Body<'_> {
    /// Copies the pages to their places in `heap`, which has `heap_bytes` bytes.
    pub(crate) fn apply(&self, heap: &mut [u8]) {
        let mut rest = self.pages;
        for run in runs_of(self.runs) {
            let range = run.range();
            let (pages, after) = rest.split_at(range.len());
            heap[range].copy_from_slice(pages);
            rest = after;
        }
    }
}

/// Appends a body with the given pages of the snapshot.
pub(crate) fn encode_body(
    snapshot: &Snapshot<'_>,
    runs: &[PageRun],
    record: &mut Vec<u8>,
) -> Result<(), ImageError> {
    snapshot.check()?;
    let beside = SIZES_BYTES + runs.len() * RUN_BYTES + snapshot.roots.len() + snapshot.state.len();
    record.reserve(beside + bytes_in(runs));
    record.extend_from_slice(&(snapshot.heap.len() as u64).to_le_bytes());
    for length in [snapshot.roots.len(), snapshot.state.len(), runs.len()] {
        // Each was checked against a limit far below.
        record.extend_from_slice(&(length as u32).to_le_bytes());
    }
    for run in runs {
        record.extend_from_slice(&run.first.to_le_bytes());
        record.extend_from_slice(&run.pages.to_le_bytes());
    }
    record.extend_from_slice(snapshot.roots);
    record.extend_from_slice(snapshot.state);
    for run in runs {
        record.extend_from_slice(&snapshot.heap[run.range()]);
    }
    Ok(())
}

/// Reads a body whose seal was checked.
pub(crate) fn decode_body(bytes: &[u8]) -> Result<Body<'_>, ImageError> {
    let mut rest = bytes;
    let heap_bytes = u64::from_le_bytes(take_array(&mut rest)?);
    let mut length = || take_array(&mut rest).map(|bytes| u32::from_le_bytes(bytes) as usize);
    let (roots_bytes, state_bytes, run_count) = (length()?, length()?, length()?);
    check_size("heap", heap_bytes, HEAP_BYTES_MAX as u64)?;
    check_size("root values", roots_bytes as u64, ROOTS_BYTES_MAX as u64)?;
    check_size("session state", state_bytes as u64, STATE_BYTES_MAX as u64)?;
    check_size("run table", run_count as u64, (HEAP_BYTES_MAX / PAGE_BYTES) as u64)?;
    let heap_bytes = heap_bytes as usize;
    if !heap_bytes.is_multiple_of(PAGE_BYTES) {
        return Err(ImageError::Forged("the heap is not whole pages"));
    }
    let runs = take(&mut rest, run_count * RUN_BYTES)?;
    check_runs(runs, heap_bytes, rest.len(), roots_bytes + state_bytes)?;
    let roots = take(&mut rest, roots_bytes)?;
    let state = take(&mut rest, state_bytes)?;
    Ok(Body { heap_bytes, roots, state, runs, pages: rest })
}

/// Runs are in order, apart, inside the heap, and as long as the pages that follow.
fn check_runs(runs: &[u8], heap_bytes: usize, bytes_left: usize, beside: usize) -> Result<(), ImageError> {
    let heap_pages = (heap_bytes / PAGE_BYTES) as u64;
    let (mut end, mut pages) = (0, 0);
    for run in runs_of(runs) {
        let first = u64::from(run.first);
        if run.pages == 0 || first < end {
            return Err(ImageError::Forged("page runs are not in order"));
        }
        end = first + u64::from(run.pages);
        pages += u64::from(run.pages);
        if end > heap_pages {
            return Err(ImageError::Forged("a page run is outside of the heap"));
        }
    }
    if pages * PAGE_BYTES as u64 + beside as u64 != bytes_left as u64 {
        return Err(ImageError::Forged("page runs and pages differ in length"));
    }
    Ok(())
}

fn runs_of(table: &[u8]) -> impl Iterator<Item = PageRun> {
    let (runs, _) = table.as_chunks::<RUN_BYTES>();
    runs.iter().map(|[a, b, c, d, e, f, g, h]| PageRun {
        first: u32::from_le_bytes([*a, *b, *c, *d]),
        pages: u32::from_le_bytes([*e, *f, *g, *h]),
    })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], ImageError> {
    let (taken, after) =
        rest.split_at_checked(length).ok_or(ImageError::Forged("the record is shorter than it says"))?;
    *rest = after;
    Ok(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], ImageError> {
    let (taken, after) =
        rest.split_first_chunk().ok_or(ImageError::Forged("the record is shorter than it says"))?;
    *rest = after;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::delta::nonzero_runs;
    use super::*;

    fn encoded(heap: &[u8], roots: &[u8], state: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_body(&Snapshot { heap, roots, state }, &nonzero_runs(heap), &mut bytes).unwrap();
        bytes
    }

    fn page(byte: u8) -> Vec<u8> {
        vec![byte; PAGE_BYTES]
    }

    #[test]
    fn body_reads_back() {
        let heap = [page(0), page(3), page(0), page(4), page(0)].concat();
        let bytes = encoded(&heap, b"roots", b"state");
        assert!(bytes.len() < 3 * PAGE_BYTES, "pages of zeros are left out");
        let body = decode_body(&bytes).unwrap();
        assert_eq!((body.heap_bytes, body.roots, body.state), (heap.len(), &b"roots"[..], &b"state"[..]));
        let mut read = vec![0; heap.len()];
        body.apply(&mut read);
        assert!(read == heap);
    }

    #[test]
    fn sizes_past_their_limit_are_refused() {
        let refused = |roots: usize, state: usize| {
            let (roots, state) = (vec![0; roots], vec![0; state]);
            encode_body(&Snapshot { heap: &[], roots: &roots, state: &state }, &[], &mut Vec::new())
                .map_err(|error| error.kind())
        };
        assert_eq!(refused(ROOTS_BYTES_MAX, STATE_BYTES_MAX), Ok(()));
        assert_eq!(refused(ROOTS_BYTES_MAX + 1, 0), Err("ImageTooLarge"));
        assert_eq!(refused(0, STATE_BYTES_MAX + 1), Err("ImageTooLarge"));
    }

    #[test]
    fn heap_past_the_limit_is_refused() {
        let mut bytes = encoded(&[], b"", b"");
        bytes[..8].copy_from_slice(&(HEAP_BYTES_MAX as u64).to_le_bytes());
        assert!(decode_body(&bytes).is_ok());
        bytes[..8].copy_from_slice(&((HEAP_BYTES_MAX + PAGE_BYTES) as u64).to_le_bytes());
        assert_eq!(decode_body(&bytes).unwrap_err().kind(), "ImageTooLarge");
    }

    #[test]
    fn run_outside_of_the_heap_is_refused() {
        let mut bytes = encoded(&page(1), b"", b"");
        bytes[SIZES_BYTES] = 1;
        assert_eq!(decode_body(&bytes).unwrap_err().kind(), "ImageForged");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn changed_bytes_never_write_outside(at in 0usize..80, byte: u8, cut in 0usize..64) {
            let heap = [page(1), page(0), page(2)].concat();
            let mut bytes = encoded(&heap, b"roots", b"state");
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut);
            if let Ok(body) = decode_body(&bytes) {
                body.apply(&mut vec![0; body.heap_bytes]);
            }
        }
    }
}
