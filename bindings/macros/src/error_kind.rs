//! `#[derive(scomp::ErrorKind)]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{Attribute, Data, DeriveInput, Fields, Ident, LitInt, LitStr, Token};

use crate::names::camel_case;

/// Longest name of a kind: a kind is a word for programs, not a message.
const KIND_BYTES_MAX: usize = 64;

/// One form of the error: a variant, or the struct itself.
struct Form {
    /// Matches it, and binds the fields that are data.
    pattern: TokenStream,
    kind: Option<LitStr>,
    code: Option<LitInt>,
    /// The names of the data on the wire, and what they are bound to.
    data: Vec<(String, Ident)>,
}

pub(crate) fn derive(item: &DeriveInput) -> syn::Result<TokenStream> {
    let forms = match &item.data {
        Data::Enum(data) => {
            let forms = data.variants.iter().map(|variant| {
                let name = &variant.ident;
                Form::read(&variant.attrs, &variant.fields, &quote!(Self::#name))
            });
            forms.collect::<syn::Result<Vec<Form>>>()?
        }
        Data::Struct(data) => vec![Form::read(&item.attrs, &data.fields, &quote!(Self))?],
        Data::Union(data) => {
            return Err(syn::Error::new(data.union_token.span, "expected an enum or a struct"));
        }
    };
    if forms.iter().all(|form| form.kind.is_none()) {
        let message = "expected `#[kind(\"…\")]` on at least one variant, or on the struct";
        return Err(syn::Error::new(item.ident.span(), message));
    }
    Ok(implementation(item, &forms))
}

fn implementation(item: &DeriveInput, forms: &[Form]) -> TokenStream {
    let name = &item.ident;
    let (generics, types, bounds) = item.generics.split_for_impl();
    let patterns: Vec<_> = forms.iter().map(|form| &form.pattern).collect();
    let kinds = forms.iter().map(|form| match &form.kind {
        Some(kind) => quote!(::core::option::Option::Some(#kind)),
        None => quote!(::core::option::Option::None),
    });
    let codes = forms.iter().map(|form| match &form.code {
        Some(code) => quote!(#code),
        None => quote!(::scomp::rpc::code::EVAL),
    });
    let data = forms.iter().map(|form| {
        let inserts = form
            .data
            .iter()
            .map(|(name, bound)| quote!(::scomp::__private::insert(&mut data, #name, #bound);));
        quote!(#(#inserts)*)
    });
    quote! {
        #[allow(unused_variables)]
        impl #generics ::scomp::binding::ErrorKind for #name #types #bounds {
            fn kind(&self) -> ::core::option::Option<&'static str> {
                match self { #(#patterns => #kinds,)* }
            }

            fn code(&self) -> i64 {
                match self { #(#patterns => #codes,)* }
            }

            fn data(
                &self,
            ) -> ::scomp::__private::serde_json::Map<
                ::std::string::String,
                ::scomp::__private::serde_json::Value,
            > {
                let mut data = ::scomp::__private::serde_json::Map::new();
                match self { #(#patterns => { #data })* }
                data
            }
        }
    }
}

impl Form {
    fn read(attributes: &[Attribute], fields: &Fields, path: &TokenStream) -> syn::Result<Self> {
        let mut form = Self { pattern: TokenStream::new(), kind: None, code: None, data: Vec::new() };
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("kind")) {
            form.read_kind(attribute)?;
        }
        let mut bindings = Vec::new();
        for (at, field) in fields.iter().enumerate() {
            let Some(attribute) = field.attrs.iter().find(|attribute| attribute.path().is_ident("data"))
            else {
                continue;
            };
            attribute.meta.require_path_only()?;
            let Some(name) = &field.ident else {
                let message = "expected a field with a name, which is its name in the data";
                return Err(syn::Error::new_spanned(field, message));
            };
            let bound = format_ident!("__field_{at}");
            bindings.push(quote!(#name: #bound));
            form.data.push((camel_case(&name.unraw().to_string()), bound));
        }
        if form.kind.is_none() && !form.data.is_empty() {
            return Err(syn::Error::new_spanned(fields, "`#[data]` needs `#[kind(\"…\")]` beside it"));
        }
        form.pattern = quote!(#path { #(#bindings,)* .. });
        Ok(form)
    }

    fn read_kind(&mut self, attribute: &Attribute) -> syn::Result<()> {
        attribute.parse_args_with(|input: syn::parse::ParseStream<'_>| {
            let kind: LitStr = input.parse()?;
            if let Some(problem) = kind_problem(&kind.value()) {
                return Err(syn::Error::new(kind.span(), problem));
            }
            if self.kind.replace(kind).is_some() {
                return Err(syn::Error::new(Span::call_site(), "a second `#[kind(…)]`"));
            }
            if input.is_empty() {
                return Ok(());
            }
            input.parse::<Token![,]>()?;
            let option: Ident = input.parse()?;
            if option != "code" {
                return Err(syn::Error::new(
                    option.span(),
                    format!("unknown option `{option}`; expected `code`"),
                ));
            }
            input.parse::<Token![=]>()?;
            let code: LitInt = input.parse()?;
            code.base10_parse::<i64>()?;
            self.code = Some(code);
            Ok(())
        })
    }
}

fn kind_problem(kind: &str) -> Option<String> {
    let is_name = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && kind.len() <= KIND_BYTES_MAX;
    let expected =
        format!("expected a name such as `OrderNotFound` of at most {KIND_BYTES_MAX} letters and digits");
    (!is_name).then_some(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_names_of_limited_length() {
        let longest = "K".repeat(KIND_BYTES_MAX);
        assert_eq!(kind_problem("OrderNotFound2"), None);
        assert_eq!(kind_problem(&longest), None);
        for kind in ["", "notFound", "Not found", "2nd", &(longest.clone() + "K")] {
            assert!(kind_problem(kind).is_some(), "{kind}");
        }
    }
}
