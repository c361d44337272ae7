//! Random bytes and identifiers, from the operating system's generator.

use std::fmt::Write as _;

use rquickjs::{ArrayBuffer, Ctx, Exception, Result};

/// Most bytes one call may ask for; the Web Crypto specification sets it for `getRandomValues`.
const RANDOM_BYTES_MAX: usize = 65_536;

/// `host.randomBytes(length)`.
pub(crate) fn random_bytes(ctx: Ctx<'_>, length: usize) -> Result<ArrayBuffer<'_>> {
    if length > RANDOM_BYTES_MAX {
        return Err(Exception::throw_range(&ctx, "too many random bytes"));
    }
    let mut bytes = vec![0; length];
    fill(&ctx, &mut bytes)?;
    ArrayBuffer::new_copy(ctx, bytes)
}

/// `host.randomUUID()`: a version 4 UUID.
pub(crate) fn random_uuid(ctx: Ctx<'_>) -> Result<String> {
    let mut bytes = [0; 16];
    fill(&ctx, &mut bytes)?;
    Ok(uuid_text(bytes))
}

fn fill(ctx: &Ctx<'_>, bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|_| Exception::throw_internal(ctx, "no source of random bytes"))
}

fn uuid_text(mut bytes: [u8; 16]) -> String {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_carries_version_and_variant() {
        assert_eq!(uuid_text([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid_text([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}
