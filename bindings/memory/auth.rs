//! Authentication: `did:key` identities (Ed25519) and the signed `session.open`.
//!
//! The challenge and the audience prevent a recorded `session.open` from being replayed, here or on
//! another server. Older clients send neither, so both are checked if present, and required only if
//! the configuration says so.

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use super::codec::{Data, object};
use super::hash::{compute_hash, decode_base64};

/// Largest difference between the clocks of client and server.
const CLOCK_SKEW_SECONDS_MAX: u64 = 120;

/// How long a signed `session.open` and a challenge are valid.
pub(super) const VALIDITY_SECONDS: u64 = 300;

/// Longest DID that is decoded; a real one has 56 characters, and base58 takes quadratic time.
const DID_BYTES_MAX: usize = 128;

const DID_PREFIX: &str = "did:key:z";
const ED25519_MULTICODEC: [u8; 2] = [0xed, 0x01];
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// Why `session.open` was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AuthError {
    #[error("memory session.open requires authorization")]
    Missing,
    #[error("memory session.open authorization mismatch: {0}")]
    Mismatch(&'static str),
    #[error("memory session.open authorization expired")]
    Expired,
    #[error("memory session.open requires {0}")]
    Required(&'static str),
    #[error("memory session.open challenge is unknown, expired or already used")]
    Challenge,
    #[error("Invalid signature")]
    Signature,
    #[error("expected a did:key of an Ed25519 key, got {0:?}")]
    Did(String),
}

impl AuthError {
    /// The error name on the wire.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Did(_) => "ProtocolError",
            Self::Missing
            | Self::Mismatch(_)
            | Self::Expired
            | Self::Required(_)
            | Self::Challenge
            | Self::Signature => "AuthorizationError",
        }
    }

    /// Whether the client can succeed with a new challenge.
    pub(super) fn is_retriable(&self) -> bool {
        matches!(self, Self::Expired | Self::Challenge)
    }
}

/// A value that the client signs with its next `session.open`; valid once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) value: String,
    pub(super) expires_at: u64,
}

/// What a signed `session.open` has to match.
#[derive(Debug)]
pub(super) struct OpenContext<'a> {
    pub(super) protocol: &'a str,
    pub(super) space: &'a str,
    /// The session descriptor in the request.
    pub(super) session: &'a Data,
    pub(super) audience: &'a str,
    pub(super) challenge: &'a Challenge,
    /// Whether audience and challenge are required.
    pub(super) is_strict: bool,
    pub(super) now_seconds: u64,
}

/// Checks a signed `session.open` and returns the identity that signed it.
pub(super) fn verify(
    invocation: Option<&Data>,
    authorization: Option<&Data>,
    context: &OpenContext<'_>,
) -> Result<String, AuthError> {
    let invocation = invocation.filter(|data| data.as_map().is_some()).ok_or(AuthError::Missing)?;
    let signature = authorization
        .and_then(|authorization| authorization.get("signature"))
        .and_then(decode_signature)
        .ok_or(AuthError::Missing)?;
    let issuer = invocation.get("iss").and_then(Data::as_str).ok_or(AuthError::Mismatch("iss"))?;
    check_purpose(invocation, context)?;
    check_freshness(invocation, context)?;
    let key = public_key(issuer)?;
    let verified = UnparsedPublicKey::new(&ED25519, key).verify(&compute_hash(invocation), &signature);
    verified.map_err(|_| AuthError::Signature)?;
    Ok(issuer.to_owned())
}

fn check_purpose(invocation: &Data, context: &OpenContext<'_>) -> Result<(), AuthError> {
    let is = |key: &str, value: &str| invocation.get(key).and_then(Data::as_str) == Some(value);
    if !is("cmd", "session.open") {
        return Err(AuthError::Mismatch("cmd"));
    }
    if !is("sub", context.space) {
        return Err(AuthError::Mismatch("sub"));
    }
    let args = invocation.get("args").ok_or(AuthError::Mismatch("args"))?;
    if args.get("protocol").and_then(Data::as_str) != Some(context.protocol) {
        return Err(AuthError::Mismatch("args.protocol"));
    }
    let session = args.get("session").ok_or(AuthError::Mismatch("args.session"))?;
    // The token may change between signing and sending, so it is not compared.
    if ["sessionId", "seenSeq"].into_iter().any(|key| session.get(key) != context.session.get(key)) {
        return Err(AuthError::Mismatch("args.session"));
    }
    Ok(())
}

fn check_freshness(invocation: &Data, context: &OpenContext<'_>) -> Result<(), AuthError> {
    match invocation.get("exp") {
        Some(expiry) => {
            let expiry = expiry.as_f64().ok_or(AuthError::Mismatch("exp"))?;
            let oldest = context.now_seconds.saturating_sub(CLOCK_SKEW_SECONDS_MAX) as f64;
            if expiry < oldest {
                return Err(AuthError::Expired);
            }
        }
        None if context.is_strict => return Err(AuthError::Required("exp")),
        None => {}
    }
    match invocation.get("aud").map(Data::as_str) {
        Some(audience) if audience != Some(context.audience) => return Err(AuthError::Mismatch("aud")),
        None if context.is_strict => return Err(AuthError::Required("audience")),
        Some(_) | None => {}
    }
    match invocation.get("challenge").map(Data::as_str) {
        Some(challenge)
            if challenge != Some(&context.challenge.value)
                || context.challenge.expires_at <= context.now_seconds =>
        {
            Err(AuthError::Challenge)
        }
        None if context.is_strict => Err(AuthError::Required("challenge")),
        Some(_) | None => Ok(()),
    }
}

/// Decodes a signature: bytes, a list of numbers, or an object with indexes as keys.
fn decode_signature(signature: &Data) -> Option<Vec<u8>> {
    let byte = |data: &Data| data.as_u64().and_then(|number| u8::try_from(number).ok());
    match signature {
        Data::Tag(tag, state) if tag == "/Bytes@1" => state.as_str().map(decode_base64),
        Data::List(items) => items.iter().map(byte).collect(),
        Data::Map(members) => {
            (0..members.len()).map(|index| members.get(&index.to_string()).and_then(byte)).collect()
        }
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) | Data::Tag(..) => None,
    }
}

fn public_key(did: &str) -> Result<Vec<u8>, AuthError> {
    let malformed = || AuthError::Did(did.chars().take(DID_BYTES_MAX).collect());
    if did.len() > DID_BYTES_MAX {
        return Err(malformed());
    }
    let bytes = did.strip_prefix(DID_PREFIX).and_then(decode_base58).ok_or_else(malformed)?;
    match bytes.strip_prefix(&ED25519_MULTICODEC) {
        Some(key) if key.len() == 32 => Ok(key.to_vec()),
        Some(_) | None => Err(malformed()),
    }
}

/// Whether a name is a DID for which a key can exist.
pub(super) fn is_identity(name: &str) -> bool {
    public_key(name).is_ok()
}

/// The key pair of a principal.
pub(super) struct Identity {
    pair: Ed25519KeyPair,
    did: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("did", &self.did).finish_non_exhaustive()
    }
}

impl Identity {
    /// Derives the key from the server's secret and the principal's name, so that no keys are
    /// stored.
    pub(super) fn for_principal(secret: &[u8], principal: &str) -> Option<Self> {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let seed = ring::hmac::sign(&key, format!("memory identity of {principal}").as_bytes());
        Self::from_seed(seed.as_ref())
    }

    pub(super) fn from_seed(seed: &[u8]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let mut bytes = ED25519_MULTICODEC.to_vec();
        bytes.extend_from_slice(pair.public_key().as_ref());
        let did = format!("{DID_PREFIX}{}", encode_base58(&bytes));
        Some(Self { pair, did })
    }

    pub(super) fn did(&self) -> &str {
        &self.did
    }

    /// Builds the `invocation` of a `session.open`, and signs it.
    pub(super) fn sign_open(
        &self,
        protocol: &str,
        space: &str,
        session: &Data,
        audience_and_challenge: Option<(&str, &str)>,
        now_seconds: u64,
    ) -> (Data, Vec<u8>) {
        let args = object([("protocol", protocol.into()), ("session", session.clone())]);
        let mut invocation = object([
            ("iss", self.did.as_str().into()),
            ("cmd", "session.open".into()),
            ("sub", space.into()),
            ("args", args),
            ("iat", now_seconds.into()),
            ("exp", (now_seconds + VALIDITY_SECONDS).into()),
        ]);
        if let (Data::Map(members), Some((audience, challenge))) = (&mut invocation, audience_and_challenge) {
            members.insert("aud".to_owned(), audience.into());
            members.insert("challenge".to_owned(), challenge.into());
        }
        let signature = self.pair.sign(&compute_hash(&invocation));
        (invocation, signature.as_ref().to_vec())
    }
}

/// Bytes as a `/Bytes@1` value.
pub(super) fn encode_bytes(bytes: &[u8]) -> Data {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    Data::Tag("/Bytes@1".to_owned(), Box::new(Data::Text(text)))
}

fn encode_base58(bytes: &[u8]) -> String {
    // Digits, least significant first.
    let mut digits: Vec<u8> = Vec::new();
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).map(|_| '1');
    let rest =
        digits.iter().rev().filter_map(|digit| BASE58.get(usize::from(*digit)).copied().map(char::from));
    zeros.chain(rest).collect()
}

fn decode_base58(text: &str) -> Option<Vec<u8>> {
    // Bytes, least significant first.
    let mut bytes: Vec<u8> = Vec::new();
    for character in text.bytes() {
        let mut carry = BASE58.iter().position(|digit| *digit == character)?;
        for byte in &mut bytes {
            carry += usize::from(*byte) * 58;
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        while carry > 0 {
            bytes.push((carry & 0xff) as u8);
            carry >>= 8;
        }
    }
    bytes.extend(text.bytes().take_while(|character| *character == b'1').map(|_| 0));
    bytes.reverse();
    Some(bytes)
}

#[cfg(test)]
mod tests;
