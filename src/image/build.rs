//! Which builds of the program may load an image.
//!
//! A heap holds addresses of the engine's functions and tables and of the entries of host functions. An image may be
//! loaded where all of these are what they were. The program is linked so that they depend on the engine alone
//! (`build.rs`, `engine.ld`); then images survive a new build of the server. Where it was linked otherwise, they are
//! bound to the very executable, or, in a position independent one, to the process.
//!
//! What the engine's region holds is hashed as it lies in memory: the start of every function, from the unwind table,
//! which no `strip` removes, and the tables and constants byte by byte. The code is left out: its calls into the C library
//! depend on the rest of the program.

mod elf;
mod map;

use std::sync::OnceLock;

use ring::digest;

use super::ImageError;
use super::key::random_bytes;
use elf::Executable;

/// A function that a heap may point to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol {
    pub(crate) name: &'static str,
    pub(crate) address: usize,
}

/// Where an image of this program can be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In every build with the same engine and the same entries of host functions.
    Engine,
    /// In this executable, by any process.
    Executable,
    /// In this process.
    Process,
}

/// What an image's header says about the program that wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) hash: [u8; 32],
    pub(crate) scope: Scope,
}

impl Build {
    /// This program, in which heaps point to `symbols` and are laid out as `layout` numbers it: whatever else a heap
    /// and the Rust code must agree on has a number that a change of it raises.
    pub(crate) fn current(symbols: &[Symbol], layout: u32) -> Result<Self, ImageError> {
        let executable = Executable::current();
        let (scope, parts) = identify(executable.as_ref(), symbols)?;
        let mut context = digest::Context::new(&digest::SHA256);
        let mut add = |bytes: &[u8]| {
            context.update(&(bytes.len() as u64).to_le_bytes());
            context.update(bytes);
        };
        add(format!("scomp image build 1 {scope:?}").as_bytes());
        add(&layout.to_le_bytes());
        for symbol in symbols {
            add(symbol.name.as_bytes());
            add(&(symbol.address as u64).to_le_bytes());
        }
        parts.iter().for_each(|part| add(part));
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        Ok(Self { hash, scope })
    }

    /// Refuses where images end with the process.
    pub(crate) fn check_crosses_processes(&self) -> Result<(), ImageError> {
        match self.scope {
            Scope::Engine | Scope::Executable => Ok(()),
            Scope::Process => {
                Err(ImageError::Unavailable("this program is not linked at fixed addresses (-no-pie)"))
            }
        }
    }
}

/// Whether this program is at the same addresses in every process, so that another one may load its images.
pub(crate) fn has_fixed_addresses() -> bool {
    Executable::current().is_some_and(|executable| executable.has_fixed_addresses())
}

/// The widest scope that holds, and what identifies the program in it.
fn identify(
    executable: Option<&Executable>,
    symbols: &[Symbol],
) -> Result<(Scope, Vec<Vec<u8>>), ImageError> {
    let fixed = executable.filter(|executable| executable.has_fixed_addresses());
    let Some(executable) = fixed else {
        return Ok((Scope::Process, vec![process_id()?.to_vec()]));
    };
    if let Some(region) = map::EngineRegion::find(executable)
        && symbols.iter().all(|symbol| region.contains(symbol.address))
        && let Some(parts) = region.identity(executable)
    {
        return Ok((Scope::Engine, parts));
    }
    match executable.build_id() {
        Some(id) => Ok((Scope::Executable, vec![id.to_vec()])),
        None => Ok((Scope::Process, vec![process_id()?.to_vec()])),
    }
}

/// A random number that no other process has.
fn process_id() -> Result<[u8; 32], ImageError> {
    static ID: OnceLock<[u8; 32]> = OnceLock::new();
    match ID.get() {
        Some(id) => Ok(*id),
        None => random_bytes().map(|id| *ID.get_or_init(|| id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &'static str, address: usize) -> Symbol {
        Symbol { name, address }
    }

    #[test]
    fn hash_depends_on_symbols_and_layout() {
        let hash = |symbols: &[Symbol], layout| Build::current(symbols, layout).unwrap().hash;
        let here = symbol("here", hash_depends_on_symbols_and_layout as *const () as usize);
        assert_eq!(hash(&[here], 1), hash(&[here], 1));
        let others = [
            hash(&[here], 2),
            hash(&[], 1),
            hash(&[symbol("there", here.address)], 1),
            hash(&[symbol("here", here.address + 16)], 1),
            hash(&[here, here], 1),
        ];
        assert!(!others.contains(&hash(&[here], 1)));
    }

    #[test]
    fn position_independent_program_keeps_images_to_itself() {
        // Tests are linked so.
        assert!(!has_fixed_addresses());
        let build = Build::current(&[], 1).unwrap();
        assert_eq!(build.scope, Scope::Process);
        assert_eq!(build.check_crosses_processes().unwrap_err().kind(), "ImagesUnavailable");
    }
}
