//! What `#[scomp::binding]` writes beside the function.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{FnArg, Ident, ItemFn, LitStr};

use crate::names::{camel_case, pascal_case};
use crate::options::Options;
use crate::signature::{Argument, Field, Signature};

/// The function as the compiler takes it: attributes of arguments are for the macro.
pub(crate) fn without_argument_attributes(function: &ItemFn) -> TokenStream {
    let mut function = function.clone();
    for argument in &mut function.sig.inputs {
        match argument {
            FnArg::Typed(typed) => typed.attrs.clear(),
            FnArg::Receiver(receiver) => receiver.attrs.clear(),
        }
    }
    function.into_token_stream()
}

/// A type with the name of the function that is its binding.
pub(crate) fn binding(options: &Options, function: &ItemFn, signature: &Signature) -> TokenStream {
    let private = Private::of(options);
    let (visibility, function_name) = (&function.vis, &function.sig.ident);
    let name = options.name.clone().unwrap_or_else(|| {
        LitStr::new(&camel_case(&function_name.unraw().to_string()), function_name.span())
    });
    let description = &signature.description;
    let effects = &options.effects;
    let limits = limits(options, &private);
    let input = input(signature, function_name, &private);
    let (input_type, input_struct) = (&input.of_type, &input.declaration);
    let output = &signature.output;
    let handler = handler(function, signature, &input, &private);
    let Private(private) = &private;
    quote! {
        #[allow(non_camel_case_types)]
        #[doc(hidden)]
        #visibility struct #function_name {}

        const _: () = {
            #input_struct

            impl #private::BindingFn for #function_name {
                const NAME: &'static str = #name;

                fn declaration() -> #private::declaration::Declaration {
                    #private::declare::<#input_type, #output>(Self::NAME, #description, &[#(#effects),*])
                }

                #limits

                #handler
            }
        };
    }
}

/// The path of what the written code calls.
struct Private(TokenStream);

impl Private {
    fn of(options: &Options) -> Self {
        let crate_path = &options.crate_path;
        Self(quote!(#crate_path::__private))
    }

    /// The path of a crate below it, as the options of derives take it.
    fn text(&self, name: &str) -> String {
        let Self(private) = self;
        format!("{private}::{name}").replace(' ', "")
    }
}

fn limits(options: &Options, Private(private): &Private) -> TokenStream {
    let some = |number: Option<TokenStream>| match number {
        Some(number) => quote!(::core::option::Option::Some(#number)),
        None => quote!(::core::option::Option::None),
    };
    let timeout_ms = some(options.timeout_ms.map(|number| quote!(#number)));
    let concurrency = some(options.concurrency.map(|number| quote!(#number)));
    quote! {
        fn limits() -> #private::BindingLimits {
            #private::BindingLimits { timeout_ms: #timeout_ms, concurrency: #concurrency }
        }
    }
}

/// The input of a binding: a type of its own, or one that is made of the arguments.
struct InputCode {
    of_type: TokenStream,
    declaration: TokenStream,
    pattern: TokenStream,
}

fn input(signature: &Signature, function_name: &Ident, private: &Private) -> InputCode {
    let whole = signature.arguments.iter().find_map(|argument| match argument {
        Argument::Input(of_type) => Some(of_type),
        Argument::Field(_) | Argument::State(_) | Argument::Call => None,
    });
    if let Some(of_type) = whole {
        let of_type = quote!(#of_type);
        return InputCode { of_type, declaration: TokenStream::new(), pattern: quote!(__input) };
    }
    let name = format_ident!("__Input");
    let fields =
        signature.fields().map(|Field { name, of_type, attributes }| quote!(#(#attributes)* #name: #of_type));
    let names = signature.fields().map(|field| &field.name);
    let (serde, schemars) = (private.text("serde"), private.text("schemars"));
    let title = format!("{}Input", pascal_case(&function_name.unraw().to_string()));
    let Private(private) = private;
    // Unknown fields are refused by the schema alone, so that a declaration file may allow them.
    let declaration = quote! {
        #[derive(#private::serde::Deserialize, #private::schemars::JsonSchema)]
        #[serde(crate = #serde, rename_all = "camelCase")]
        #[schemars(crate = #schemars, rename = #title, deny_unknown_fields)]
        struct #name { #(#fields,)* }
    };
    InputCode { of_type: quote!(#name), declaration, pattern: quote!(#name { #(#names,)* }) }
}

fn handler(
    function: &ItemFn,
    signature: &Signature,
    input: &InputCode,
    Private(private): &Private,
) -> TokenStream {
    let states = signature.arguments.iter().enumerate().filter_map(|(at, argument)| match argument {
        Argument::State(of_type) => Some((format_ident!("__state_{at}"), of_type)),
        Argument::Field(_) | Argument::Input(_) | Argument::Call => None,
    });
    let (state_names, state_types): (Vec<_>, Vec<_>) = states.unzip();
    let arguments = signature.arguments.iter().enumerate().map(|(at, argument)| match argument {
        Argument::Field(Field { name, .. }) => quote!(#name),
        Argument::Input(_) => quote!(#private::Input(__input)),
        Argument::State(_) => format_ident!("__state_{at}").into_token_stream(),
        Argument::Call => quote!(__call),
    });
    let function_name = &function.sig.ident;
    let wait = function.sig.asyncness.map(|_| quote!(.await));
    let unwrap = signature.is_fallible.then(|| {
        quote! {
            let __output = match __output {
                ::core::result::Result::Ok(output) => output,
                ::core::result::Result::Err(error) => {
                    #[allow(unused_imports)]
                    use #private::{KindConversion as _, NoConversion as _, PlainConversion as _};
                    return ::core::result::Result::Err((&&#private::ErrorType::of(&error)).conversion().convert(error));
                }
            };
        }
    });
    let (input_type, pattern) = (&input.of_type, &input.pattern);
    quote! {
        fn handler(
            __states: &#private::States,
        ) -> ::core::result::Result<#private::DynHandler, #private::MissingState> {
            #(let #state_names = __states.get::<#state_types>()?;)*
            ::core::result::Result::Ok(#private::handler(move |__input, __call| {
                #(let #state_names = ::core::clone::Clone::clone(&#state_names);)*
                async move {
                    let __writer = #private::Writer::of(&__call);
                    let #pattern = #private::read::<#input_type>(__input, &__call)?;
                    let __output = #function_name(#(#arguments),*)#wait;
                    #unwrap
                    __writer.write(&__output)
                }
            }))
        }
    }
}
