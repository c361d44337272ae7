//! The content hash of a value (`fid1`): SHA-256 over a stream in which a byte before each part
//! states its type.
//!
//! Signatures cover this hash and blobs are named by it, so it must equal that of every other
//! implementation; the tests check it against shared vectors.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Context, SHA256, digest};

use super::codec::Data;

/// Longest string that is hashed directly; a longer one is replaced by its own hash.
const DIRECT_STRING_BYTES_MAX: usize = 64;

pub(super) fn compute_hash(data: &Data) -> [u8; 32] {
    let mut stream = Context::new(&SHA256);
    hash_value(data, &mut stream);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(stream.finish().as_ref());
    bytes
}

/// The hash as text: `fid1:` and base64url.
pub(super) fn compute_tagged_hash(data: &Data) -> String {
    format!("fid1:{}", URL_SAFE_NO_PAD.encode(compute_hash(data)))
}

fn hash_value(data: &Data, stream: &mut Context) {
    match data {
        Data::Null => stream.update(&[0x20]),
        Data::Bool(flag) => stream.update(&[0x22, u8::from(*flag)]),
        Data::Number(number) => hash_number(number.as_f64().unwrap_or(f64::NAN), stream),
        Data::Text(text) => hash_string(text, stream),
        Data::List(items) => {
            stream.update(&[0x10]);
            items.iter().for_each(|item| hash_value(item, stream));
            stream.update(&[0x00]);
        }
        Data::Map(members) => {
            stream.update(&[0x11]);
            for (key, value) in members {
                hash_string(key, stream);
                hash_value(value, stream);
            }
            stream.update(&[0x00]);
        }
        Data::Tag(tag, state) => hash_tag(tag, state, stream),
    }
}

fn hash_tag(tag: &str, state: &Data, stream: &mut Context) {
    match (tag, state) {
        ("/Undefined@1", _) => stream.update(&[0x21]),
        ("/SpecialNumber@1", Data::Text(name)) => hash_number(parse_special_number(name), stream),
        ("/Bytes@1", Data::Text(text)) => hash_tagged_bytes(0x25, &decode_base64(text), stream),
        ("/BigInt@1", Data::Text(text)) => hash_tagged_bytes(0x26, &decode_base64(text), stream),
        ("/EpochNsec@1", Data::Text(text)) => hash_tagged_bytes(0x27, &decode_base64(text), stream),
        ("/EpochDays@1", Data::Text(text)) => hash_tagged_bytes(0x28, &decode_base64(text), stream),
        ("/Symbol@1", Data::Text(text)) => {
            stream.update(&[0x2a]);
            hash_string(text, stream);
        }
        ("/Hash@1", Data::Map(_)) => {
            stream.update(&[0x29]);
            hash_string(state.get("tag").and_then(Data::as_str).unwrap_or_default(), stream);
            hash_bytes(&decode_base64(state.get("hash").and_then(Data::as_str).unwrap_or_default()), stream);
        }
        ("/RegExp@1", Data::Map(_)) => {
            stream.update(&[0x2b]);
            for part in ["source", "flags", "flavor"] {
                hash_value(state.get(part).unwrap_or(&Data::Null), stream);
            }
        }
        ("/hole", Data::Number(count)) => {
            stream.update(&[0x01]);
            hash_length(count.as_u64().unwrap_or(0), stream);
        }
        (instance, state) => {
            stream.update(&[0x12]);
            hash_string(instance.trim_start_matches('/'), stream);
            hash_value(&state.interpret_tags(), stream);
        }
    }
}

/// Decodes base64url with or without padding; invalid text decodes to no bytes.
pub(super) fn decode_base64(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).unwrap_or_default()
}

fn parse_special_number(name: &str) -> f64 {
    match name {
        "-0" => -0.0,
        "+Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ => f64::NAN,
    }
}

fn hash_number(number: f64, stream: &mut Context) {
    let bits = if number.is_nan() { 0x7ff8_0000_0000_0000 } else { number.to_bits() };
    stream.update(&[0x23]);
    stream.update(&bits.to_be_bytes());
}

fn hash_string(text: &str, stream: &mut Context) {
    match u8::try_from(text.len()) {
        Ok(length) if text.len() <= DIRECT_STRING_BYTES_MAX => {
            stream.update(&[0x24, length]);
            stream.update(text.as_bytes());
        }
        _ => {
            stream.update(&[0xf0]);
            stream.update(digest(&SHA256, text.as_bytes()).as_ref());
        }
    }
}

fn hash_tagged_bytes(kind: u8, bytes: &[u8], stream: &mut Context) {
    stream.update(&[kind]);
    hash_bytes(bytes, stream);
}

fn hash_bytes(bytes: &[u8], stream: &mut Context) {
    hash_length(bytes.len() as u64, stream);
    stream.update(bytes);
}

/// Unsigned LEB128.
fn hash_length(mut length: u64, stream: &mut Context) {
    loop {
        let low = (length & 0x7f) as u8;
        length >>= 7;
        stream.update(&[if length > 0 { low | 0x80 } else { low }]);
        if length == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::codec::Dialect;
    use super::*;

    fn vectors() -> Value {
        let text = include_str!("../../tests/interop/memory/vectors/memory-hashes.json");
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn hashes_match_the_vectors() {
        let vectors = vectors();
        let hashes = vectors["hashes"].as_array().unwrap();
        assert!(hashes.len() >= 20);
        for vector in hashes {
            let data = Dialect::Tagged.decode(vector["fvj1"].as_str().unwrap()).unwrap();
            assert_eq!(compute_tagged_hash(&data), vector["tagged"].as_str().unwrap(), "{}", vector["name"]);
        }
    }

    #[test]
    fn hashes_of_signed_opens_match_the_vectors() {
        for vector in vectors()["session_open"].as_array().unwrap() {
            let invocation = Data::from_tagged(vector["invocation"].clone());
            let hex: String = compute_hash(&invocation).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, vector["hash_hex"].as_str().unwrap());
        }
    }

    #[test]
    fn hash_ignores_member_order_but_not_undefined_members() {
        let one = Dialect::Tagged.decode("fvj1:{\"a\":1,\"b\":2}").unwrap();
        let other = Dialect::Tagged.decode("fvj1:{\"b\":2,\"a\":1.0}").unwrap();
        let more = Dialect::Tagged.decode("fvj1:{\"a\":1,\"b\":2,\"c\":{\"/Undefined@1\":null}}").unwrap();
        assert_eq!(compute_hash(&one), compute_hash(&other));
        assert_ne!(compute_hash(&one), compute_hash(&more));
    }
}
