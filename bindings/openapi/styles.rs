//! Values as the texts of a request, in the styles of the specification.
//!
//! Pure. Everything but letters, digits and `-._~` is percent-encoded, so that a value cannot become another part of the
//! request; the separators of a style stay as they are.

use oas3::spec::ParameterStyle;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::parameters::{Location, Param, ParamEncoding};

/// Deepest object in the style `deepObject`.
const DEEP_OBJECT_DEPTH_MAX: usize = 8;

/// What a request is made of, beside its body.
#[derive(Default)]
pub(super) struct RequestParts {
    /// Placeholders of the path with their texts.
    pub(super) path: Vec<(String, String)>,
    /// `name=value`, encoded.
    pub(super) query: Vec<String>,
    pub(super) headers: HeaderMap,
    /// `name=value`, encoded.
    pub(super) cookies: Vec<String>,
}

impl RequestParts {
    /// Adds a parameter with its value.
    pub(super) fn add(&mut self, param: &Param, value: &Value) -> Result<(), String> {
        match param.location {
            Location::Path => {
                let text = path_text(param, value);
                if matches!(text.as_str(), "" | "." | "..") {
                    return Err("expected a value that is neither empty nor `.` nor `..`".to_owned());
                }
                self.path.push((param.name.clone(), text));
            }
            Location::Query => self.query.extend(pairs(&param.name, param.encoding, value)?),
            Location::Cookie => self.cookies.extend(pairs(&param.name, param.encoding, value)?),
            Location::Header => {
                let name = HeaderName::from_bytes(param.name.as_bytes())
                    .map_err(|_| "the name is not that of a header".to_owned())?;
                let value = HeaderValue::from_str(&header_text(param, value))
                    .map_err(|_| "expected text without line breaks and control characters".to_owned())?;
                self.headers.insert(name, value);
            }
        }
        Ok(())
    }
}

/// The text of a scalar; anything else as JSON.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Percent-encodes everything but unreserved characters.
pub(super) fn encode(text: &str) -> String {
    encode_but(text, "")
}

fn encode_but(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_plain =
            byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.as_bytes().contains(&byte);
        if is_plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Names and values of an object, or the values of a list, as texts.
enum Shape {
    One(String),
    List(Vec<String>),
    Object(Vec<(String, String)>),
}

fn shape(value: &Value, encode: impl Fn(&str) -> String) -> Shape {
    match value {
        Value::Array(items) => Shape::List(items.iter().map(|item| encode(&text(item))).collect()),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| (encode(name), encode(&text(value)));
            Shape::Object(fields.iter().filter(|(_, value)| !value.is_null()).map(field).collect())
        }
        scalar => Shape::One(encode(&text(scalar))),
    }
}

/// `name,value,name,value`, or `name=value,name=value`.
fn joined(shape: Shape, separator: &str, is_exploded: bool) -> String {
    match shape {
        Shape::One(text) => text,
        Shape::List(items) => items.join(separator),
        Shape::Object(fields) => {
            let between = if is_exploded { "=" } else { separator };
            let fields: Vec<String> =
                fields.into_iter().map(|(name, value)| format!("{name}{between}{value}")).collect();
            fields.join(separator)
        }
    }
}

fn path_text(param: &Param, value: &Value) -> String {
    let ParamEncoding::Style { style, is_exploded, .. } = param.encoding else {
        return encode(&value.to_string());
    };
    let name = encode(&param.name);
    match (style, shape(value, encode)) {
        (ParameterStyle::Label, shape) => {
            format!(".{}", joined(shape, if is_exploded { "." } else { "," }, is_exploded))
        }
        (ParameterStyle::Matrix, Shape::List(items)) if is_exploded => {
            items.iter().map(|item| format!(";{name}={item}")).collect()
        }
        (ParameterStyle::Matrix, Shape::Object(fields)) if is_exploded => {
            fields.iter().map(|(name, value)| format!(";{name}={value}")).collect()
        }
        (ParameterStyle::Matrix, shape) => format!(";{name}={}", joined(shape, ",", false)),
        (_, shape) => joined(shape, ",", is_exploded),
    }
}

/// Headers are not percent-encoded.
fn header_text(param: &Param, value: &Value) -> String {
    match param.encoding {
        ParamEncoding::Json => value.to_string(),
        ParamEncoding::Style { is_exploded, .. } => joined(shape(value, str::to_owned), ",", is_exploded),
    }
}

/// The pairs of a query, a form or the cookies.
pub(super) fn pairs(name: &str, encoding: ParamEncoding, value: &Value) -> Result<Vec<String>, String> {
    let ParamEncoding::Style { style, is_exploded, allows_reserved } = encoding else {
        return Ok(vec![format!("{}={}", encode(name), encode(&value.to_string()))]);
    };
    // What would end a value or begin another one is encoded all the same.
    let kept = if allows_reserved { ":/?@!$'()*,;" } else { "" };
    let encode_value = |text: &str| encode_but(text, kept);
    if style == ParameterStyle::DeepObject && value.is_object() {
        let mut out = Vec::new();
        deep_pairs(&encode(name), value, &encode_value, 0, &mut out)?;
        return Ok(out);
    }
    let separator = match style {
        ParameterStyle::SpaceDelimited => "%20",
        ParameterStyle::PipeDelimited => "%7C",
        _ => ",",
    };
    let name = encode(name);
    Ok(match shape(value, encode_value) {
        Shape::List(items) if is_exploded => items.iter().map(|item| format!("{name}={item}")).collect(),
        Shape::Object(fields) if is_exploded => {
            fields.iter().map(|(name, value)| format!("{name}={value}")).collect()
        }
        Shape::List(items) if items.is_empty() => Vec::new(),
        Shape::Object(fields) if fields.is_empty() => Vec::new(),
        shape => vec![format!("{name}={}", joined(shape, separator, false))],
    })
}

/// `name[a][b]=value`; the values of a list one after the other.
fn deep_pairs(
    name: &str,
    value: &Value,
    encode_value: &impl Fn(&str) -> String,
    depth: usize,
    out: &mut Vec<String>,
) -> Result<(), String> {
    if depth > DEEP_OBJECT_DEPTH_MAX {
        return Err(format!("expected an object of at most {DEEP_OBJECT_DEPTH_MAX} levels"));
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                deep_pairs(&format!("{name}%5B{}%5D", encode(key)), value, encode_value, depth + 1, out)?;
            }
        }
        Value::Array(items) => {
            for item in items {
                deep_pairs(name, item, encode_value, depth + 1, out)?;
            }
        }
        Value::Null => {}
        scalar => out.push(format!("{name}={}", encode_value(&text(scalar)))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn param(location: Location, style: ParameterStyle, is_exploded: bool) -> Param {
        let encoding = ParamEncoding::Style { style, is_exploded, allows_reserved: false };
        Param { name: "color".to_owned(), property: "color".to_owned(), location, encoding }
    }

    fn written(param: &Param, value: Value) -> String {
        let mut parts = RequestParts::default();
        parts.add(param, &value).unwrap();
        let path = parts.path.into_iter().map(|(_, text)| text);
        let headers =
            parts.headers.values().map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>();
        path.chain(headers).chain([parts.query.join("&"), parts.cookies.join("; ")]).collect()
    }

    #[test]
    fn styles_are_those_of_the_specification() {
        use Location::{Cookie, Header, Path, Query};
        use ParameterStyle::{DeepObject, Form, Label, Matrix, PipeDelimited, Simple, SpaceDelimited};
        let list = || json!(["blue", "black", "brown"]);
        let object = || json!({"R": 100, "G": 200, "B": 150});
        for (location, style, is_exploded, value, expected) in [
            (Path, Matrix, false, json!("blue"), ";color=blue"),
            (Path, Matrix, false, list(), ";color=blue,black,brown"),
            (Path, Matrix, true, list(), ";color=blue;color=black;color=brown"),
            (Path, Matrix, false, object(), ";color=R,100,G,200,B,150"),
            (Path, Matrix, true, object(), ";R=100;G=200;B=150"),
            (Path, Label, false, json!("blue"), ".blue"),
            (Path, Label, false, list(), ".blue,black,brown"),
            (Path, Label, true, list(), ".blue.black.brown"),
            (Path, Label, false, object(), ".R,100,G,200,B,150"),
            (Path, Label, true, object(), ".R=100.G=200.B=150"),
            (Path, Simple, false, list(), "blue,black,brown"),
            (Path, Simple, true, object(), "R=100,G=200,B=150"),
            (Path, Simple, false, object(), "R,100,G,200,B,150"),
            (Header, Simple, false, list(), "blue,black,brown"),
            (Header, Simple, true, object(), "R=100,G=200,B=150"),
            (Query, Form, true, json!("blue"), "color=blue"),
            (Query, Form, true, list(), "color=blue&color=black&color=brown"),
            (Query, Form, false, list(), "color=blue,black,brown"),
            (Query, Form, true, object(), "R=100&G=200&B=150"),
            (Query, Form, false, object(), "color=R,100,G,200,B,150"),
            (Query, SpaceDelimited, false, list(), "color=blue%20black%20brown"),
            (Query, PipeDelimited, false, list(), "color=blue%7Cblack%7Cbrown"),
            (Query, DeepObject, true, object(), "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
            (
                Query,
                DeepObject,
                true,
                json!({"a": {"b": [1, 2]}}),
                "color%5Ba%5D%5Bb%5D=1&color%5Ba%5D%5Bb%5D=2",
            ),
            (Cookie, Form, false, list(), "color=blue,black,brown"),
            (Query, Form, true, json!([]), ""),
            (Query, Form, true, json!(true), "color=true"),
            (Query, Form, true, json!("a b&c=d/é"), "color=a%20b%26c%3Dd%2F%C3%A9"),
        ] {
            assert_eq!(
                written(&param(location, style, is_exploded), value),
                expected,
                "{location:?} {style:?}"
            );
        }
    }

    #[test]
    fn reserved_characters_are_kept_where_allowed() {
        let mut param = param(Location::Query, ParameterStyle::Form, true);
        param.encoding = ParamEncoding::of_style(ParameterStyle::Form, None, true);
        assert_eq!(written(&param, json!("a/b:c?d&e#f")), "color=a/b:c?d%26e%23f");
        param.encoding = ParamEncoding::Json;
        assert_eq!(written(&param, json!({"a": 1})), "color=%7B%22a%22%3A1%7D");
    }

    #[test]
    fn values_cannot_leave_their_place() {
        let mut parts = RequestParts::default();
        let path = param(Location::Path, ParameterStyle::Simple, false);
        for value in [json!(""), json!("."), json!(".."), json!([])] {
            assert!(parts.add(&path, &value).is_err(), "{value}");
        }
        assert_eq!(written(&path, json!("../admin?x#y")), "..%2Fadmin%3Fx%23y");
        let header = param(Location::Header, ParameterStyle::Simple, false);
        assert!(parts.add(&header, &json!("a\r\nX-Other: b")).is_err());
        let nested = (0..=DEEP_OBJECT_DEPTH_MAX).fold(json!(1), |value, _| json!({"a": value}));
        let deep = param(Location::Query, ParameterStyle::DeepObject, true);
        assert!(parts.add(&deep, &nested).is_err());
        assert!(parts.add(&deep, &nested["a"]).is_ok());
    }
}
