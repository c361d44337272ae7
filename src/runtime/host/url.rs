//! `URL` and `URLSearchParams`: the WHATWG parser, setters and form encoding, by the `url` crate.
//!
//! A URL crosses as the list of its parts, in the order of `parts` below (`URL_PARTS` in the prelude), so that the
//! guest's getters need no further call.

use rquickjs::{Array, Ctx, Result};
use url::{Url, form_urlencoded, quirks};

use super::super::kept::{Kept, keep};
use super::new_list;

/// Longest URL text that is parsed. Parsing cannot be interrupted, and a `data:` URL beyond a
/// mebibyte is better kept in a variable; a longer text is an invalid URL to the script.
const URL_BYTES_MAX: usize = 1 << 20;

/// `host.urlParse(input, base)`: the parts, or undefined if the URL is invalid.
pub(super) fn url_parse<'js>(
    ctx: &Ctx<'js>,
    (input, base): (Kept<String>, Option<Kept<String>>),
) -> Result<Option<Array<'js>>> {
    parse(&input, base.as_ref().map(|base| base.as_str())).map(|url| parts(ctx, &keep(url))).transpose()
}

/// `host.urlSet(href, part, value)`: the parts after the setter, or undefined if it refused the value.
pub(super) fn url_set<'js>(
    ctx: &Ctx<'js>,
    (href, part, value): (Kept<String>, Kept<String>, Kept<String>),
) -> Result<Option<Array<'js>>> {
    set(&href, &part, &value).map(|url| parts(ctx, &keep(url))).transpose()
}

/// `host.formParse(text)`: names and values in turn.
pub(super) fn form_parse<'js>(ctx: &Ctx<'js>, (text,): (Kept<String>,)) -> Result<Array<'js>> {
    let list = new_list(ctx)?;
    let (bytes, mut at) = (text.as_bytes(), 0);
    // One by one: a text of a mebibyte has half as many pairs.
    for pair in bytes.split(|byte| *byte == b'&') {
        let parsed = form_urlencoded::parse(pair).next();
        let Some((name, value)) = parsed.map(|(name, value)| (name.into_owned(), value.into_owned())) else {
            continue;
        };
        let pair = keep((name, value));
        list.set(at, pair.0.as_str())?;
        list.set(at + 1, pair.1.as_str())?;
        at += 2;
    }
    Ok(list)
}

/// `host.formSerialize(pairs)`: the reverse of `form_parse`.
pub(super) fn form_serialize<'js>(_: &Ctx<'js>, (pairs,): (Array<'js>,)) -> Result<Kept<String>> {
    let mut texts = keep(Vec::new());
    for text in pairs.iter::<Kept<String>>() {
        let text = text?.take();
        texts.push(text);
    }
    let mut form = form_urlencoded::Serializer::new(String::new());
    for pair in texts.as_chunks::<2>().0 {
        form.append_pair(&pair[0], &pair[1]);
    }
    Ok(keep(form.finish()))
}

fn parse(input: &str, base: Option<&str>) -> Option<Url> {
    if input.len() + base.map_or(0, str::len) > URL_BYTES_MAX {
        return None;
    }
    let base = base.map(Url::parse).transpose().ok()?;
    Url::options().base_url(base.as_ref()).parse(input).ok()
}

fn set(href: &str, part: &str, value: &str) -> Option<Url> {
    if href.len() + value.len() > URL_BYTES_MAX {
        return None;
    }
    let mut url = Url::parse(href).ok()?;
    match part {
        "protocol" => quirks::set_protocol(&mut url, value).ok()?,
        "username" => quirks::set_username(&mut url, value).ok()?,
        "password" => quirks::set_password(&mut url, value).ok()?,
        "host" => quirks::set_host(&mut url, value).ok()?,
        "hostname" => quirks::set_hostname(&mut url, value).ok()?,
        "port" => quirks::set_port(&mut url, value).ok()?,
        "pathname" => quirks::set_pathname(&mut url, value),
        "search" => quirks::set_search(&mut url, value),
        "hash" => quirks::set_hash(&mut url, value),
        _ => return None,
    }
    Some(url)
}

fn parts<'js>(ctx: &Ctx<'js>, url: &Kept<Url>) -> Result<Array<'js>> {
    let origin = keep(quirks::origin(url));
    let texts = [
        quirks::href(url),
        &origin,
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
    ];
    let list = new_list(ctx)?;
    for (index, text) in texts.into_iter().enumerate() {
        list.set(index, text)?;
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_input_needs_a_valid_base() {
        let joined = parse("../b?x#y", Some("https://example.com/a/c")).map(String::from);
        assert_eq!(joined.as_deref(), Some("https://example.com/b?x#y"));
        assert!(parse("../b", None).is_none());
        assert!(parse("../b", Some("nonsense")).is_none());
    }

    #[test]
    fn url_longer_than_the_limit_is_invalid() {
        let longest = format!("data:,{}", "a".repeat(URL_BYTES_MAX - 6));
        assert!(parse(&longest, None).is_some());
        assert!(parse(&format!("{longest}a"), None).is_none());
    }

    #[test]
    fn setter_refuses_what_the_standard_ignores() {
        assert!(set("https://example.com/", "port", "x").is_none());
        let changed = set("https://example.com/", "port", "8080").map(String::from);
        assert_eq!(changed.as_deref(), Some("https://example.com:8080/"));
        assert!(set("https://example.com/", "nothing", "x").is_none());
    }
}
