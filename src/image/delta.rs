//! What changed between a heap and its last image, in runs of pages.
//!
//! Comparing every page costs 13 us for a fresh session and needs no help from the kernel; tracking of written pages
//! makes each eval slower by more than that. Past its end an image counts as zero, and so does a page that an image
//! leaves out: freed pages of a heap read as zero, and there is no reason to store them.

use super::PAGE_BYTES;

/// Neighbouring pages, counted from the start of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRun {
    pub(crate) first: u32,
    pub(crate) pages: u32,
}

impl PageRun {
    /// The bytes of the run within the heap.
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        let start = self.first as usize * PAGE_BYTES;
        start..start + self.pages as usize * PAGE_BYTES
    }
}

/// The pages of `heap` that differ from `last`. Both are whole pages.
pub(crate) fn changed_runs(last: &[u8], heap: &[u8]) -> Vec<PageRun> {
    assert!(
        last.len().is_multiple_of(PAGE_BYTES) && heap.len().is_multiple_of(PAGE_BYTES),
        "not whole pages"
    );
    let common = last.len().min(heap.len());
    let mut runs = Vec::new();
    for (number, (old, new)) in pages(&last[..common]).zip(pages(&heap[..common])).enumerate() {
        if old != new {
            push(&mut runs, number);
        }
    }
    for (number, page) in pages(&heap[common..]).enumerate() {
        if !is_zero(page) {
            push(&mut runs, common / PAGE_BYTES + number);
        }
    }
    runs
}

/// The pages of `heap` that are not zero.
pub(crate) fn nonzero_runs(heap: &[u8]) -> Vec<PageRun> {
    changed_runs(&[], heap)
}

/// Bytes of the pages of all runs.
pub(crate) fn bytes_in(runs: &[PageRun]) -> usize {
    runs.iter().map(|run| run.pages as usize * PAGE_BYTES).sum()
}

fn pages(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks_exact(PAGE_BYTES)
}

/// A page that is in use nearly always shows it in its first bytes, so this rarely reads all of it.
fn is_zero(page: &[u8]) -> bool {
    const ZERO: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
    page == ZERO
}

/// `page` is a number below 2^16: a heap has at most `HEAP_BYTES_MAX` bytes.
fn push(runs: &mut Vec<PageRun>, page: usize) {
    let page = u32::try_from(page).unwrap_or(u32::MAX);
    match runs.last_mut() {
        Some(run) if run.first + run.pages == page => run.pages += 1,
        _ => runs.push(PageRun { first: page, pages: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap(pages: &[u8]) -> Vec<u8> {
        pages.iter().flat_map(|byte| vec![*byte; PAGE_BYTES]).collect()
    }

    fn run(first: u32, pages: u32) -> PageRun {
        PageRun { first, pages }
    }

    #[test]
    fn neighbours_are_one_run() {
        assert_eq!(changed_runs(&heap(&[1, 1, 1, 1]), &heap(&[1, 2, 3, 1])), [run(1, 2)]);
        assert_eq!(changed_runs(&heap(&[1, 1, 1]), &heap(&[2, 1, 2])), [run(0, 1), run(2, 1)]);
    }

    #[test]
    fn last_byte_of_a_page_counts() {
        let last = heap(&[7, 7]);
        let mut changed = last.clone();
        *changed.last_mut().unwrap() = 8;
        assert_eq!(changed_runs(&last, &changed), [run(1, 1)]);
        assert_eq!(changed_runs(&last, &last), []);
    }

    #[test]
    fn pages_past_the_last_image_count_unless_zero() {
        assert_eq!(changed_runs(&heap(&[1]), &heap(&[1, 0, 2])), [run(2, 1)]);
        assert_eq!(changed_runs(&heap(&[1, 2]), &heap(&[1])), []);
        assert_eq!(nonzero_runs(&heap(&[0, 1, 0, 0, 1, 1])), [run(1, 1), run(4, 2)]);
    }
}
