//! A piece of TypeScript type text that knows how it joins with others.
//!
//! Joining is where written types go wrong: `A | B[]` is not `(A | B)[]`, a union with `unknown` is `unknown`, an
//! intersection with it is the rest. So the form travels with the text.

/// A type's text and what has to be known of it to put it into a larger one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) text: String,
    pub(super) form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Atom,
    Object,
    Union,
    Intersection,
    Function,
    Unknown,
    Never,
}

impl Type {
    pub(super) fn new(text: impl Into<String>, form: Form) -> Self {
        Self { text: text.into(), form }
    }

    pub(super) fn atom(text: impl Into<String>) -> Self {
        Self::new(text, Form::Atom)
    }

    pub(super) fn unknown() -> Self {
        Self::new("unknown", Form::Unknown)
    }

    pub(super) fn in_parentheses_if(self, needed: &[Form]) -> String {
        if needed.contains(&self.form) { format!("({})", self.text) } else { self.text }
    }

    pub(super) fn union(members: impl IntoIterator<Item = Type>) -> Self {
        let mut all: Vec<Type> = Vec::new();
        for member in members {
            match member.form {
                Form::Unknown => return Self::unknown(),
                Form::Never => {}
                _ if all.contains(&member) => {}
                _ => all.push(member),
            }
        }
        if all.len() > 1 {
            let texts: Vec<String> =
                all.into_iter().map(|member| member.in_parentheses_if(&[Form::Function])).collect();
            return Self::new(texts.join(" | "), Form::Union);
        }
        all.pop().unwrap_or_else(|| Self::new("never", Form::Never))
    }

    pub(super) fn intersection(members: impl IntoIterator<Item = Type>) -> Self {
        let mut all: Vec<Type> = Vec::new();
        for member in members {
            match member.form {
                Form::Never => return member,
                Form::Unknown => {}
                _ if all.contains(&member) => {}
                _ => all.push(member),
            }
        }
        if all.len() > 1 {
            let loose = [Form::Union, Form::Function];
            let texts: Vec<String> = all.into_iter().map(|member| member.in_parentheses_if(&loose)).collect();
            return Self::new(texts.join(" & "), Form::Intersection);
        }
        all.pop().unwrap_or_else(Self::unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function() -> Type {
        Type::new("() => void", Form::Function)
    }

    #[test]
    fn union_drops_never_and_duplicates() {
        let never = || Type::new("never", Form::Never);
        assert_eq!(Type::union([Type::atom("a"), never(), Type::atom("a")]), Type::atom("a"));
        assert_eq!(Type::union([never()]), never());
        assert_eq!(Type::union([Type::atom("a"), Type::unknown()]), Type::unknown());
        assert_eq!(Type::union([Type::atom("a"), function()]).text, "a | (() => void)");
    }

    #[test]
    fn intersection_drops_unknown_and_ends_in_never() {
        let either = || Type::union([Type::atom("a"), Type::atom("b")]);
        assert_eq!(Type::intersection([Type::unknown(), Type::atom("a")]), Type::atom("a"));
        assert_eq!(Type::intersection([]), Type::unknown());
        assert_eq!(Type::intersection([either(), Type::union([])]).text, "never");
        assert_eq!(Type::intersection([either(), Type::atom("c")]).text, "(a | b) & c");
    }
}
