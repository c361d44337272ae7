//! `URL` and `URLSearchParams`: the WHATWG parser, setters and form encoding, by the `url` crate.
//!
//! A URL crosses as the list of its parts, in the order of `parts` below (`URL_PARTS` in the prelude), so that the
//! guest's getters need no further call.

use rquickjs::{Array, Ctx, Result};
use url::{Url, form_urlencoded, quirks};

use super::new_list;

/// Longest URL text that is parsed. Parsing cannot be interrupted, and a `data:` URL beyond a
/// mebibyte is better kept in a variable; a longer text is an invalid URL to the script.
const URL_BYTES_MAX: usize = 1 << 20;

/// `host.urlParse(input, base)`: the parts, or undefined if the URL is invalid.
pub(super) fn url_parse<'js>(
    ctx: &Ctx<'js>,
    (input, base): (String, Option<String>),
) -> Result<Option<Array<'js>>> {
    parse(&input, base.as_deref()).map(|url| parts(ctx, &url)).transpose()
}

/// `host.urlSet(href, part, value)`: the parts after the setter, or undefined if it refused the value.
pub(super) fn url_set<'js>(
    ctx: &Ctx<'js>,
    (href, part, value): (String, String, String),
) -> Result<Option<Array<'js>>> {
    set(&href, &part, &value).map(|url| parts(ctx, &url)).transpose()
}

/// `host.formParse(text)`: names and values in turn.
pub(super) fn form_parse<'js>(ctx: &Ctx<'js>, (text,): (String,)) -> Result<Array<'js>> {
    let list = new_list(ctx)?;
    for (at, (name, value)) in form_urlencoded::parse(text.as_bytes()).enumerate() {
        list.set(2 * at, &*name)?;
        list.set(2 * at + 1, &*value)?;
    }
    Ok(list)
}

/// `host.formSerialize(pairs)`: the reverse of `form_parse`.
pub(super) fn form_serialize<'js>(_: &Ctx<'js>, (pairs,): (Array<'js>,)) -> Result<String> {
    let texts = pairs.iter::<String>().collect::<Result<Vec<_>>>()?;
    let mut form = form_urlencoded::Serializer::new(String::new());
    for pair in texts.as_chunks::<2>().0 {
        form.append_pair(&pair[0], &pair[1]);
    }
    Ok(form.finish())
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

fn parts<'js>(ctx: &Ctx<'js>, url: &Url) -> Result<Array<'js>> {
    let origin = quirks::origin(url);
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
