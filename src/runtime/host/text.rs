//! Text encodings for `TextEncoder` and `TextDecoder`: UTF-8, UTF-16LE and windows-1252.
//!
//! The prelude keeps the state of a streaming decoder and the byte order mark; here is one stateless conversion.
//! Strings arrive well-formed (the prelude replaces lone surrogates), and buffers are allocated by QuickJS, so that
//! they count against the session's memory limit. Bytes come in as base64, which QuickJS makes natively: a slice of
//! a guest's buffer is not available in safe Rust.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rquickjs::{ArrayBuffer, Ctx, Exception, Result, String as JsString};

/// What windows-1252 makes of the bytes 0x80 to 0x9F; all others stand for the code point of the same number.
const WINDOWS_1252_HIGH: [char; 32] = [
    '\u{20AC}', '\u{81}', '\u{201A}', '\u{192}', '\u{201E}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2C6}',
    '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8D}', '\u{17D}', '\u{8F}', '\u{90}', '\u{2018}',
    '\u{2019}', '\u{201C}', '\u{201D}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2DC}', '\u{2122}', '\u{161}',
    '\u{203A}', '\u{153}', '\u{9D}', '\u{17E}', '\u{178}',
];

/// `host.utf8Encode(text)`: the UTF-8 bytes of a well-formed string.
pub(super) fn utf8_encode<'js>(ctx: &Ctx<'js>, (text,): (JsString<'js>,)) -> Result<ArrayBuffer<'js>> {
    ArrayBuffer::new_copy(ctx.clone(), text.to_string()?.as_bytes())
}

/// `host.decode(encoding, base64, fatal)`: the text, or undefined if `fatal` and invalid.
pub(super) fn decode<'js>(
    ctx: &Ctx<'js>,
    (encoding, base64, fatal): (String, String, bool),
) -> Result<Option<JsString<'js>>> {
    let Ok(bytes) = BASE64.decode(base64) else {
        return Err(Exception::throw_type(ctx, "the bytes are not valid base64"));
    };
    let text = match encoding.as_str() {
        "utf-8" => decode_utf8(bytes, fatal),
        "utf-16le" => decode_utf16le(&bytes, fatal),
        "windows-1252" => Some(bytes.into_iter().map(windows_1252_char).collect()),
        _ => return Err(Exception::throw_range(ctx, "unknown encoding")),
    };
    text.map(|text| JsString::from_str(ctx.clone(), &text)).transpose()
}

fn decode_utf8(bytes: Vec<u8>, fatal: bool) -> Option<String> {
    if fatal { String::from_utf8(bytes).ok() } else { Some(String::from_utf8_lossy(&bytes).into_owned()) }
}

fn decode_utf16le(bytes: &[u8], fatal: bool) -> Option<String> {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let units = pairs.iter().copied().map(u16::from_le_bytes);
    if fatal {
        return if odd.is_empty() {
            char::decode_utf16(units).collect::<std::result::Result<_, _>>().ok()
        } else {
            None
        };
    }
    let mut text: String =
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    if !odd.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    Some(text)
}

fn windows_1252_char(byte: u8) -> char {
    let high = byte.checked_sub(0x80).and_then(|index| WINDOWS_1252_HIGH.get(usize::from(index)));
    high.copied().unwrap_or(char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_is_replaced_or_refused() {
        assert_eq!(decode_utf8(b"a\xFFb".to_vec(), false).as_deref(), Some("a\u{FFFD}b"));
        assert_eq!(decode_utf8(b"a\xFFb".to_vec(), true), None);
    }

    #[test]
    fn utf16_replaces_lone_surrogates_and_an_odd_byte() {
        assert_eq!(decode_utf16le(b"\x3D\xD8\x00\xDEa", false).as_deref(), Some("\u{1F600}\u{FFFD}"));
        assert_eq!(decode_utf16le(b"\x3D\xD8", false).as_deref(), Some("\u{FFFD}"));
        assert_eq!(decode_utf16le(b"\x3D\xD8", true), None);
        assert_eq!(decode_utf16le(b"a", true), None);
    }

    #[test]
    fn windows_1252_maps_its_own_range_and_keeps_the_rest() {
        let text: String = [0x41, 0x80, 0x9F, 0xE9].into_iter().map(windows_1252_char).collect();
        assert_eq!(text, "A\u{20AC}\u{178}\u{E9}");
    }
}
