//! Which pages of a file are free: an allocator of extents, without the file.
//!
//! The smallest free extent that is long enough is taken, the lowest of its kind; neighbours that are freed become
//! one. An image is one extent, because a map of it should be one map. The file grows in steps and never shrinks; its
//! free pages are holes. There are at most as many free extents as images, and one more.

use std::collections::{BTreeMap, BTreeSet};

/// Pages that the file grows by at a time: 4 MiB, so that a new session rarely has to wait for it.
pub(crate) const GROW_PAGES: u64 = 1024;

/// Neighbouring pages of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) pages: u64,
}

impl Extent {
    fn end(self) -> u64 {
        self.first + self.pages
    }
}

/// No extent of the asked length is left below the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The free pages of a file.
#[derive(Debug)]
pub(crate) struct Extents {
    /// First page of each free extent, and its pages.
    free: BTreeMap<u64, u64>,
    /// The same by length.
    by_length: BTreeSet<(u64, u64)>,
    free_pages: u64,
    /// Length of the file.
    end: u64,
    end_max: u64,
}

impl Extents {
    /// An empty file that may have so many pages.
    pub(crate) fn new(pages_max: u64) -> Self {
        Self { free: BTreeMap::new(), by_length: BTreeSet::new(), free_pages: 0, end: 0, end_max: pages_max }
    }

    /// Pages that the file must have by now.
    pub(crate) fn file_pages(&self) -> u64 {
        self.end
    }

    /// Pages in use.
    pub(crate) fn used_pages(&self) -> u64 {
        self.end - self.free_pages
    }

    /// An extent of exactly so many pages.
    pub(crate) fn allocate(&mut self, pages: u64) -> Result<Extent, Full> {
        if pages == 0 {
            return Ok(Extent { first: 0, pages: 0 });
        }
        if let Some((_, first)) = self.by_length.range((pages, 0)..).next().copied() {
            return Ok(self.take(first, pages));
        }
        self.grow(pages)?;
        let first = self.last_free().map_or(self.end, |extent| extent.first);
        Ok(self.take(first, pages))
    }

    /// Makes an extent longer where the pages behind it are free.
    pub(crate) fn extend(&mut self, extent: Extent, pages: u64) -> Option<Extent> {
        let more = pages.checked_sub(extent.pages)?;
        if more == 0 {
            return Some(extent);
        }
        let is_free = self.free.get(&extent.end()).is_some_and(|free| *free >= more);
        if extent.pages == 0 || !is_free {
            return None;
        }
        self.take(extent.end(), more);
        Some(Extent { first: extent.first, pages })
    }

    /// Gives an extent back.
    pub(crate) fn release(&mut self, extent: Extent) {
        if extent.pages == 0 {
            return;
        }
        assert!(extent.end() <= self.end, "an extent outside of the file");
        let mut joined = extent;
        if let Some((first, pages)) = self.free.range(..extent.end()).next_back().map(|(at, len)| (*at, *len))
        {
            assert!(first + pages <= extent.first, "an extent is released twice");
            if first + pages == extent.first {
                self.remove(first, pages);
                joined = Extent { first, pages: pages + joined.pages };
            }
        }
        if let Some(pages) = self.free.get(&extent.end()).copied() {
            self.remove(extent.end(), pages);
            joined.pages += pages;
        }
        self.insert(joined);
    }

    /// Adds pages at the end, enough for an extent of so many.
    fn grow(&mut self, pages: u64) -> Result<(), Full> {
        let at_end = self.last_free().map_or(0, |extent| extent.pages);
        let missing = pages.saturating_sub(at_end);
        let room = self.end_max - self.end;
        if missing > room {
            return Err(Full);
        }
        let added = Extent { first: self.end, pages: missing.next_multiple_of(GROW_PAGES).min(room) };
        self.end = added.end();
        self.release(added);
        Ok(())
    }

    /// The free extent at the end of the file.
    fn last_free(&self) -> Option<Extent> {
        let (first, pages) = self.free.last_key_value()?;
        let extent = Extent { first: *first, pages: *pages };
        (extent.end() == self.end).then_some(extent)
    }

    /// Takes pages from the start of a free extent.
    fn take(&mut self, first: u64, pages: u64) -> Extent {
        let found = self.free.get(&first).copied().unwrap_or(0);
        assert!(found >= pages, "taken from what is not free");
        self.remove(first, found);
        if found > pages {
            self.insert(Extent { first: first + pages, pages: found - pages });
        }
        Extent { first, pages }
    }

    fn insert(&mut self, extent: Extent) {
        self.free.insert(extent.first, extent.pages);
        self.by_length.insert((extent.pages, extent.first));
        self.free_pages += extent.pages;
    }

    fn remove(&mut self, first: u64, pages: u64) {
        self.free.remove(&first);
        self.by_length.remove(&(pages, first));
        self.free_pages -= pages;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn freed_neighbours_become_one() {
        let mut extents = Extents::new(30);
        let [a, b, c] = [10, 10, 10].map(|pages| extents.allocate(pages).unwrap());
        extents.release(a);
        extents.release(c);
        assert_eq!(extents.allocate(11), Err(Full));
        extents.release(b);
        assert_eq!(extents.allocate(30), Ok(Extent { first: 0, pages: 30 }));
    }

    #[test]
    fn smallest_fit_is_taken() {
        let mut extents = Extents::new(100);
        let [large, _, small, _] = [40, 1, 10, 1].map(|pages| extents.allocate(pages).unwrap());
        extents.release(large);
        extents.release(small);
        assert_eq!(extents.allocate(8).unwrap().first, small.first);
        assert_eq!(extents.allocate(11).unwrap().first, large.first);
    }

    #[test]
    fn limit_is_exact() {
        let mut extents = Extents::new(GROW_PAGES + 5);
        let first = extents.allocate(GROW_PAGES).unwrap();
        assert_eq!(extents.allocate(6), Err(Full));
        let second = extents.allocate(5).unwrap();
        assert_eq!(extents.used_pages(), GROW_PAGES + 5);
        assert_eq!(extents.allocate(1), Err(Full));
        extents.release(first);
        extents.release(second);
        assert_eq!((extents.used_pages(), extents.file_pages()), (0, GROW_PAGES + 5));
    }

    #[test]
    fn extent_grows_only_into_free_pages() {
        let mut extents = Extents::new(100);
        let a = extents.allocate(10).unwrap();
        let b = extents.allocate(10).unwrap();
        assert_eq!(extents.extend(a, 11), None);
        extents.release(b);
        let a = extents.extend(a, 15).unwrap();
        assert_eq!((a, extents.used_pages()), (Extent { first: 0, pages: 15 }, 15));
        assert_eq!(extents.extend(a, 15), Some(a));
        assert_eq!(extents.extend(a, 101), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a map of single pages: extents never overlap, and nothing is refused that a free run could hold.
        #[test]
        fn extents_agree_with_a_map_of_pages(
            steps in prop::collection::vec((0u8..4, 1u64..60, any::<prop::sample::Index>()), 1..200),
        ) {
            const PAGES_MAX: u64 = 600;
            let mut extents = Extents::new(PAGES_MAX);
            let mut used = vec![false; PAGES_MAX as usize];
            let mut live: Vec<Extent> = Vec::new();
            for (step, pages, index) in steps {
                match step {
                    0 | 1 => {
                        let longest = used.split(|used| *used).map(<[bool]>::len).max().unwrap_or(0);
                        match extents.allocate(pages) {
                            Ok(extent) => {
                                for page in extent.first..extent.end() {
                                    prop_assert!(!std::mem::replace(&mut used[page as usize], true));
                                }
                                live.push(extent);
                            }
                            Err(Full) => prop_assert!((longest as u64) < pages),
                        }
                    }
                    2 if !live.is_empty() => {
                        let extent = live.swap_remove(index.index(live.len()));
                        used[extent.first as usize..extent.end() as usize].fill(false);
                        extents.release(extent);
                    }
                    3 if !live.is_empty() => {
                        let at = index.index(live.len());
                        let before = live[at];
                        if let Some(longer) = extents.extend(before, before.pages + pages) {
                            for page in before.end()..longer.end() {
                                prop_assert!(!std::mem::replace(&mut used[page as usize], true));
                            }
                            live[at] = longer;
                        }
                    }
                    _ => {}
                }
                let count = used.iter().filter(|used| **used).count() as u64;
                prop_assert_eq!(extents.used_pages(), count);
                prop_assert!(extents.file_pages() <= PAGES_MAX);
                prop_assert!(extents.free.len() <= live.len() + 1);
            }
        }
    }
}
