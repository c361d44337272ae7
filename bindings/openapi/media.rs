//! Media types: which kind of body each is.

/// What a body is to a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MediaKind {
    Json,
    Form,
    Multipart,
    Text,
    Bytes,
}

/// The kind of a media type, with or without parameters.
pub(super) fn kind(media_type: &str) -> MediaKind {
    let name = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = name.split('/').nth(1).unwrap_or_default();
    match name.as_str() {
        "application/x-www-form-urlencoded" => MediaKind::Form,
        "multipart/form-data" | "multipart/*" => MediaKind::Multipart,
        _ if is_json(&name) => MediaKind::Json,
        _ if name.starts_with("text/") => MediaKind::Text,
        _ if ["xml", "yaml", "graphql", "javascript", "x-ndjson", "jsonl", "toml", "sql", "csv"]
            .iter()
            .any(|text| subtype == *text || subtype.ends_with(&format!("+{text}"))) =>
        {
            MediaKind::Text
        }
        _ => MediaKind::Bytes,
    }
}

/// Whether a media type is JSON. What a document calls anything is taken for JSON, as most services mean it.
pub(super) fn is_json(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(name.as_str(), "application/json" | "text/json" | "*/*" | "application/*")
        || name.ends_with("+json")
}

/// A media type that can be sent: a range stands for its most usual member.
pub(super) fn concrete(media_type: &str, kind: MediaKind) -> String {
    match (media_type.contains('*'), kind) {
        (false, _) => media_type.to_owned(),
        (true, MediaKind::Json) => "application/json".to_owned(),
        (true, MediaKind::Form) => "application/x-www-form-urlencoded".to_owned(),
        (true, MediaKind::Multipart) => "multipart/form-data".to_owned(),
        (true, MediaKind::Text) => "text/plain".to_owned(),
        (true, MediaKind::Bytes) => "application/octet-stream".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_have_kinds() {
        for (media_type, expected) in [
            ("application/json", MediaKind::Json),
            ("Application/JSON; charset=utf-8", MediaKind::Json),
            ("application/vnd.github+json", MediaKind::Json),
            ("*/*", MediaKind::Json),
            ("application/x-www-form-urlencoded", MediaKind::Form),
            ("multipart/form-data", MediaKind::Multipart),
            ("text/plain; charset=utf-8", MediaKind::Text),
            ("application/xml", MediaKind::Text),
            ("image/svg+xml", MediaKind::Text),
            ("image/png", MediaKind::Bytes),
            ("application/octet-stream", MediaKind::Bytes),
            ("", MediaKind::Bytes),
        ] {
            assert_eq!(kind(media_type), expected, "{media_type}");
        }
        assert_eq!(concrete("image/*", MediaKind::Bytes), "application/octet-stream");
    }
}
