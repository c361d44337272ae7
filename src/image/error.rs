//! Why an image cannot be written or read. Each refusal has a stable kind; texts are for people.

use std::io;
use std::path::PathBuf;

/// A refusal or a failure of the system. The session that was to be imaged is untouched in every case.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("image ends in the middle of a record: {0}")]
    Truncated(&'static str),
    #[error("image is damaged or forged: {0}")]
    Forged(&'static str),
    #[error("image belongs to another build of the engine")]
    ForeignBuild,
    #[error("image is sealed with another key ({found}, expected {expected})")]
    ForeignKey { found: String, expected: String },
    #[error("image of another architecture (code {0})")]
    Architecture(u8),
    #[error("image has pages of {0} bytes, expected {expected}", expected = super::PAGE_BYTES)]
    PageSize(u32),
    #[error("unsupported image version {0}")]
    Version(u16),
    #[error("{what} of {bytes} bytes, expected at most {bytes_max}")]
    TooLarge { what: &'static str, bytes: u64, bytes_max: u64 },
    #[error("no space for an image of {bytes} bytes")]
    DiskFull { bytes: u64 },
    #[error("images cannot be used across processes: {0}")]
    Unavailable(&'static str),
    #[error("key file {path}: {problem}")]
    KeyFile { path: PathBuf, problem: String },
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
}

impl ImageError {
    /// The stable name of the error.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Truncated(_) => "ImageTruncated",
            Self::Forged(_) => "ImageForged",
            Self::ForeignBuild => "ImageForeign",
            Self::ForeignKey { .. } => "ImageKey",
            Self::Architecture(_) => "ImageArchitecture",
            Self::PageSize(_) => "ImagePageSize",
            Self::Version(_) => "ImageVersion",
            Self::TooLarge { .. } => "ImageTooLarge",
            Self::DiskFull { .. } => "DiskFull",
            Self::Unavailable(_) => "ImagesUnavailable",
            Self::KeyFile { .. } => "ImageKeyFile",
            Self::Io { .. } => "ImageIo",
        }
    }

    /// Why a session whose image was refused is lost, where that is not an error of its own: `"engine"` for an image
    /// that was sound in the build that wrote it.
    pub(crate) fn lost_reason(&self) -> Option<&'static str> {
        match self {
            Self::ForeignBuild | Self::Architecture(_) | Self::PageSize(_) => Some("engine"),
            Self::Truncated(_)
            | Self::Forged(_)
            | Self::ForeignKey { .. }
            | Self::Version(_)
            | Self::TooLarge { .. }
            | Self::DiskFull { .. }
            | Self::Unavailable(_)
            | Self::KeyFile { .. }
            | Self::Io { .. } => None,
        }
    }

    /// An error of the system while `what` was done for `bytes` bytes; a full disk has a kind of its own.
    pub(crate) fn from_io(what: &'static str, bytes: usize, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::DiskFull { bytes: bytes as u64 }
            }
            _ => Self::Io { what, source },
        }
    }
}

/// Refuses what is longer than its limit.
pub(crate) fn check_size(what: &'static str, bytes: u64, bytes_max: u64) -> Result<(), ImageError> {
    if bytes > bytes_max { Err(ImageError::TooLarge { what, bytes, bytes_max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_has_a_kind_of_its_own() {
        let full = |code| ImageError::from_io("write", 4096, io::Error::from_raw_os_error(code)).kind();
        assert_eq!(full(libc::ENOSPC), "DiskFull");
        assert_eq!(full(libc::EDQUOT), "DiskFull");
        assert_eq!(full(libc::EFBIG), "DiskFull");
        assert_eq!(full(libc::EROFS), "ImageIo");
    }

    #[test]
    fn only_another_engine_loses_a_sound_image() {
        assert_eq!(ImageError::ForeignBuild.lost_reason(), Some("engine"));
        assert_eq!(ImageError::Forged("tag").lost_reason(), None);
    }
}
