//! What the signature of a function says about its binding.
//!
//! Arguments are distinguished by the last segment of their type: a macro sees names, not types.

use syn::spanned::Spanned as _;
use syn::{
    Attribute, Expr, ExprLit, FnArg, GenericArgument, Ident, ItemFn, Lit, Meta, Pat, PatType, PathArguments,
    ReturnType, Type, TypePath, parse_quote,
};

/// A function as a binding.
pub(crate) struct Signature {
    pub(crate) description: String,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) output: Type,
    /// Whether it returns a `Result` of the output.
    pub(crate) is_fallible: bool,
}

/// An argument of the function, and where it comes from.
pub(crate) enum Argument {
    /// A field of the input.
    Field(Field),
    /// The whole input.
    Input(Type),
    /// A state of the package.
    State(Type),
    /// The call itself.
    Call,
}

/// A field of the input.
pub(crate) struct Field {
    pub(crate) name: Ident,
    pub(crate) of_type: Type,
    pub(crate) attributes: Vec<Attribute>,
}

impl Signature {
    pub(crate) fn read(function: &ItemFn) -> syn::Result<Self> {
        refuse_unusual(function)?;
        let description = description(function)?;
        let arguments =
            function.sig.inputs.iter().map(Argument::read).collect::<syn::Result<Vec<Argument>>>()?;
        check_input(function, &arguments)?;
        let (output, is_fallible) = output(&function.sig.output)?;
        Ok(Self { description, arguments, output, is_fallible })
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Field(field) => Some(field),
            Argument::Input(_) | Argument::State(_) | Argument::Call => None,
        })
    }
}

/// Refuses functions that cannot be called by name with arguments alone.
fn refuse_unusual(function: &ItemFn) -> syn::Result<()> {
    let signature = &function.sig;
    let refuse = |at: proc_macro2::Span, message: &str| Err(syn::Error::new(at, message));
    if let Some(generic) = signature.generics.params.first() {
        return refuse(generic.span(), "a binding function cannot be generic: a binding has one schema");
    }
    if let Some(unsafety) = &signature.unsafety {
        return refuse(unsafety.span(), "a binding function cannot be unsafe: scripts call it");
    }
    if let Some(variadic) = &signature.variadic {
        return refuse(variadic.span(), "a binding function cannot be variadic");
    }
    Ok(())
}

fn description(function: &ItemFn) -> syn::Result<String> {
    let lines = function.attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value()),
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<String> =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    let description = lines.join("\n").trim().to_owned();
    if description.is_empty() {
        let message =
            "expected a doc comment: it is the description that models and people choose the binding by";
        return Err(syn::Error::new(function.sig.ident.span(), message));
    }
    Ok(description)
}

impl Argument {
    fn read(argument: &FnArg) -> syn::Result<Self> {
        let PatType { attrs, pat, ty, .. } = match argument {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                let message =
                    "a binding function cannot be a method; take `State<T>` for what its calls share";
                return Err(syn::Error::new(receiver.span(), message));
            }
        };
        if let Type::Reference(reference) = &**ty {
            let message = "expected an owned type: a handler outlives its caller; `String` instead of `&str`";
            return Err(syn::Error::new(reference.span(), message));
        }
        if let Some(inner) = inner_type(ty, "State")? {
            return Ok(Self::State(inner));
        }
        if let Some(inner) = inner_type(ty, "Input")? {
            return Ok(Self::Input(inner));
        }
        if last_segment(ty).is_some_and(|segment| segment.ident == "Call" && segment.arguments.is_none()) {
            return Ok(Self::Call);
        }
        match &**pat {
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                let (name, of_type, attributes) = (name.ident.clone(), (**ty).clone(), attrs.clone());
                Ok(Self::Field(Field { name, of_type, attributes }))
            }
            other => {
                let message = "expected a name: it is the field of the input that the argument gets";
                Err(syn::Error::new(other.span(), message))
            }
        }
    }
}

fn check_input(function: &ItemFn, arguments: &[Argument]) -> syn::Result<()> {
    let count = |is: fn(&Argument) -> bool| arguments.iter().filter(|argument| is(argument)).count();
    let inputs = count(|argument| matches!(argument, Argument::Input(_)));
    let fields = count(|argument| matches!(argument, Argument::Field(_)));
    if inputs > 1 {
        return Err(syn::Error::new(function.sig.inputs.span(), "expected one `Input` at most"));
    }
    if inputs == 1 && fields > 0 {
        let message = "expected either `Input`, which is the whole input, or arguments that are its fields";
        return Err(syn::Error::new(function.sig.inputs.span(), message));
    }
    Ok(())
}

/// The type of the output, and whether it comes in a `Result`.
fn output(returned: &ReturnType) -> syn::Result<(Type, bool)> {
    let returned = match returned {
        ReturnType::Default => return Ok((parse_quote!(()), false)),
        ReturnType::Type(_, returned) => returned,
    };
    let Some(segment) = last_segment(returned).filter(|segment| segment.ident == "Result") else {
        return Ok(((**returned).clone(), false));
    };
    match type_arguments(&segment.arguments).first() {
        Some(output) => Ok((output.clone(), true)),
        None => Err(syn::Error::new(returned.span(), "expected the type of the output: `Result<T, E>`")),
    }
}

/// `T` of a type whose last segment is `wrapper<T>`.
fn inner_type(of_type: &Type, wrapper: &str) -> syn::Result<Option<Type>> {
    let Some(segment) = last_segment(of_type).filter(|segment| segment.ident == wrapper) else {
        return Ok(None);
    };
    match type_arguments(&segment.arguments).as_slice() {
        [inner] => Ok(Some(inner.clone())),
        _ => Err(syn::Error::new(of_type.span(), format!("expected one type: `{wrapper}<T>`"))),
    }
}

fn last_segment(of_type: &Type) -> Option<&syn::PathSegment> {
    match of_type {
        Type::Path(TypePath { qself: None, path }) => path.segments.last(),
        _ => None,
    }
}

fn type_arguments(arguments: &PathArguments) -> Vec<Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return Vec::new() };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(of_type) => Some(of_type.clone()),
        _ => None,
    });
    types.collect()
}
