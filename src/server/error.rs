//! Why a server does not start.

use std::io;

use crate::binding::PackageError;
use crate::limits::LimitsError;

/// Why a server could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Something is wrong with the bindings.
    #[error(transparent)]
    Bindings(#[from] PackageError),
    /// The limits would crash the server, or it could serve nothing within them.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// The operating system says no.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
}
