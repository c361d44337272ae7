//! Heap images as data: the pages of a session's heap with its state, as records that can be sealed, stored and read.
//!
//! A layer of its own, below everything that knows sessions or the engine. Three users need the same records: the
//! runtime that images a session, a store that keeps checkpoints, and a parent process that opens and seals images
//! for workers that may hold neither keys nor files. All that is known here of a heap is its pages.
//!
//! - [`delta`] compares the pages of a heap with its last image.
//! - [`record`] is the format: a full image or what changed since the record before. [`seal`] encrypts records with a
//!   key of a [`key`] file and binds them to their session, and [`chain`] reads a log of them. [`log_file`] is such a log
//!   on disk.
//! - [`swap`] keeps images for the life of one process, unsealed, in an unlinked file that [`extents`] divides.
//! - [`build`] says which builds of the program may load an image.

pub(crate) mod build;
pub(crate) mod chain;
pub(crate) mod delta;
pub(crate) mod error;
pub(crate) mod extents;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub(crate) mod key;
pub(crate) mod log_file;
pub(crate) mod record;
pub(crate) mod seal;
pub(crate) mod swap;
mod system;
#[cfg(test)]
mod testing;

pub(crate) use error::ImageError;

/// The page size that images are made of. A machine with another one cannot map them, so it is part of their header.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Longest heap of an image: the distance of two address windows, so no heap is longer.
pub(crate) const HEAP_BYTES_MAX: usize = 256 << 20;

/// Longest state of a session beside its heap. Its tables are limited one by one to a fraction of this.
pub(crate) const STATE_BYTES_MAX: usize = 64 << 20;

/// Longest root values and other engine facts of a session: a few words and a table of numbers.
pub(crate) const ROOTS_BYTES_MAX: usize = 1 << 20;
