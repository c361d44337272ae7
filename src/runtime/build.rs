//! Which images of other processes this program can go on with.

use ring::digest;

use super::host::HOST_FUNCTIONS;
use super::{heap, host, prelude};
use crate::image::ImageError;
use crate::image::build::{Build, Symbol};

/// Raised with every change of what a heap holds that nothing else here shows: the state of the allocator, the roots, the
/// order of the classes.
const HEAP_LAYOUT: u32 = 1;

/// This program, as the images of its sessions name it.
pub(crate) fn image_build() -> Result<Build, ImageError> {
    let mut symbols: Vec<Symbol> = heap::entries().to_vec();
    symbols.push(Symbol { name: "host", address: host::call_function as *const () as usize });
    Build::current(&symbols, layout())
}

/// A number of all that a heap and this program have to agree on beside addresses: the functions of the prelude, and the
/// numbers of host functions.
fn layout() -> u32 {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&HEAP_LAYOUT.to_le_bytes());
    for text in prelude::sources().chain(HOST_FUNCTIONS.iter().map(|function| function.name)) {
        context.update(&(text.len() as u64).to_le_bytes());
        context.update(text.as_bytes());
    }
    let hash = context.finish();
    let [a, b, c, d, ..] = *hash.as_ref() else { return HEAP_LAYOUT };
    u32::from_le_bytes([a, b, c, d])
}
