//! The options in `#[scomp::binding(…)]`.

use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{LitInt, LitStr, Path, Token, bracketed, parse_quote};

use crate::names::binding_name_problem;

/// The names of all options, for the message about an unknown one.
const EXPECTED: &str = "expected `name`, `effects`, `timeout_ms`, `concurrency` or `crate`";

/// Most effects of one binding, as in a declaration.
const EFFECTS_MAX: usize = 32;

pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) effects: Vec<LitStr>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) crate_path: Path,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self {
            name: None,
            effects: Vec::new(),
            timeout_ms: None,
            concurrency: None,
            crate_path: parse_quote!(::scomp),
        };
        let mut seen: Vec<String> = Vec::new();
        let parser = syn::meta::parser(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            if seen.contains(&name) {
                return Err(meta.error(format!("`{name}` is set twice")));
            }
            options.set(&name, &meta)?;
            seen.push(name);
            Ok(())
        });
        parser.parse2(input.parse()?)?;
        Ok(options)
    }
}

impl Options {
    fn set(&mut self, name: &str, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        match name {
            "name" => {
                let name: LitStr = meta.value()?.parse()?;
                if let Some(problem) = binding_name_problem(&name.value()) {
                    return Err(syn::Error::new(name.span(), problem));
                }
                self.name = Some(name);
            }
            "effects" => self.effects = effects(meta)?,
            "timeout_ms" => self.timeout_ms = Some(positive(meta)?),
            "concurrency" => self.concurrency = Some(positive(meta)?),
            "crate" => self.crate_path = meta.value()?.call(Path::parse_mod_style)?,
            "" => return Err(meta.error(EXPECTED)),
            unknown => return Err(meta.error(format!("unknown option `{unknown}`; {EXPECTED}"))),
        }
        Ok(())
    }
}

fn effects(meta: &ParseNestedMeta<'_>) -> syn::Result<Vec<LitStr>> {
    let value = meta.value()?;
    let list;
    bracketed!(list in value);
    let effects = Punctuated::<LitStr, Token![,]>::parse_terminated(&list)?;
    let effects: Vec<LitStr> = effects.into_iter().collect();
    if let Some(empty) = effects.iter().find(|effect| effect.value().is_empty()) {
        return Err(syn::Error::new(empty.span(), "expected the name of an effect, such as `read`"));
    }
    if effects.len() > EFFECTS_MAX {
        return Err(meta.error(format!("expected at most {EFFECTS_MAX} effects")));
    }
    Ok(effects)
}

fn positive<N: std::str::FromStr<Err: std::fmt::Display> + Default + PartialEq>(
    meta: &ParseNestedMeta<'_>,
) -> syn::Result<N> {
    let literal: LitInt = meta.value()?.parse()?;
    let number: N = literal.base10_parse()?;
    if number == N::default() {
        return Err(syn::Error::new(literal.span(), "expected a positive number"));
    }
    Ok(number)
}
