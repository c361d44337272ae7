//! What can be said about declarations without their handlers: search, suggestions, TypeScript declarations.

pub mod search;
pub mod typescript;
