//! Why a session cannot be stored or read back.

use std::path::PathBuf;

use crate::image::ImageError;
use crate::rpc::{ErrorObject, Kind};

/// See the module. The session that was to be stored is untouched in every case.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("state database: {0}")]
    Database(#[from] super::database::StoreError),
    #[error("{}: {problem}", path.display())]
    Folder { path: PathBuf, problem: String },
    #[error("{} is in use by another server{}", path.display(), owner.as_deref().unwrap_or_default())]
    Locked { path: PathBuf, owner: Option<String> },
    #[error("{} has format {found}, expected at most {expected}", path.display())]
    Format { path: PathBuf, found: i64, expected: i64 },
    #[error("the sessions of {whose} take {bytes} bytes on disk, expected at most {bytes_max}")]
    QuotaExceeded { whose: String, bytes: u64, bytes_max: u64 },
    #[error("the session is not stored")]
    NotStored,
    #[error("the session was claimed again or deleted")]
    Fenced,
}

impl StoreError {
    /// The stable name of the error.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Image(error) => error.kind(),
            Self::Database(_) => "StateDatabase",
            Self::Folder { .. } => "StateFolder",
            Self::Locked { .. } => "StateLocked",
            Self::Format { .. } => "StateFormat",
            Self::QuotaExceeded { .. } => "DiskQuota",
            Self::NotStored => "NotStored",
            Self::Fenced => "Fenced",
        }
    }

    /// What a client hears that wants to go on with the session.
    pub(crate) fn to_resume_error(&self) -> ErrorObject {
        let lost = |reason: &str, message: String| {
            ErrorObject::new(Kind::SessionLost, message).with("sessionLost", true).with("reason", reason)
        };
        match self {
            Self::Image(error) => match error.lost_reason() {
                Some(reason) => lost(reason, error.to_string()),
                None if is_passing(error) => ErrorObject::new(Kind::ImagesUnavailable, error.to_string()),
                None => lost("image", error.to_string()).with("image", error.kind()),
            },
            Self::Database(_) | Self::Folder { .. } | Self::Locked { .. } | Self::Format { .. } => {
                ErrorObject::new(Kind::Busy, self.to_string()).with("retryAfterMs", 1000)
            }
            Self::QuotaExceeded { .. } => ErrorObject::new(Kind::ImagesUnavailable, self.to_string()),
            Self::NotStored | Self::Fenced => ErrorObject::new(Kind::SessionRefused, "session not found"),
        }
    }
}

/// Whether the image may be readable another time.
fn is_passing(error: &ImageError) -> bool {
    match error {
        ImageError::Io { .. } | ImageError::DiskFull { .. } | ImageError::Unavailable(_) => true,
        ImageError::Truncated(_)
        | ImageError::Forged(_)
        | ImageError::ForeignBuild
        | ImageError::ForeignKey { .. }
        | ImageError::Architecture(_)
        | ImageError::PageSize(_)
        | ImageError::Version(_)
        | ImageError::TooLarge { .. }
        | ImageError::KeyFile { .. } => false,
    }
}
