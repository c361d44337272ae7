//! The syntax tree of a code: what an eval may hold is a sloppy script with top-level `await`, which no grammar
//! goal has. So the code is parsed as the body of a sloppy async function, and accepted only if that one
//! function is the whole program (a `}` of the code could close it early otherwise). Offsets in the tree are
//! those of the wrapped text.

use oxc_allocator::Allocator;
use oxc_ast::ast::{FunctionBody, Program, Statement};
use oxc_parser::{Parser, ParserReturn};
use oxc_span::SourceType;

use super::classes;

/// Ends in a line break, so that what is special at the start of a line stays so.
const PREFIX: &str = "async function _(){\n";
/// Starts with a line break, so that a comment at the end does not swallow the brace.
const SUFFIX: &str = "\n}";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    JavaScript,
    TypeScript,
}

/// A code that parsed without an error.
pub(super) struct ParsedCode<'a> {
    pub(super) language: Language,
    pub(super) program: &'a Program<'a>,
    pub(super) body: &'a FunctionBody<'a>,
    /// The wrapped text.
    pub(super) text: &'a str,
}

impl<'a> ParsedCode<'a> {
    /// Offset of the code in the wrapped text.
    pub(super) const BASE: usize = PREFIX.len();

    /// Offset in the wrapped text at which the code ends.
    pub(super) fn end(&self) -> u32 {
        u32::try_from(self.text.len() - SUFFIX.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn slice(&self, start: u32, end: u32) -> &'a str {
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// As JavaScript if it is that, otherwise as TypeScript.
pub(super) fn parse<'a>(arena: &'a Allocator, code: &str) -> Option<ParsedCode<'a>> {
    let text = wrap(arena, code);
    parse_as(arena, text, Language::JavaScript).or_else(|| parse_as(arena, text, Language::TypeScript))
}

/// A wrapped text as TypeScript, with what is wrong with it.
pub(super) fn parse_typescript<'a>(arena: &'a Allocator, text: &'a str) -> ParserReturn<'a> {
    Parser::new(arena, text, SourceType::ts().with_script(true)).parse()
}

fn parse_as<'a>(arena: &'a Allocator, text: &'a str, language: Language) -> Option<ParsedCode<'a>> {
    let source_type = match language {
        Language::JavaScript => SourceType::script(),
        Language::TypeScript => SourceType::ts().with_script(true),
    };
    let parsed = Parser::new(arena, text, source_type).parse();
    if parsed.panicked || parsed.diagnostics.has_errors() {
        return None;
    }
    let program: &'a Program<'a> = arena.alloc(parsed.program);
    let [Statement::FunctionDeclaration(function)] = program.body.as_slice() else {
        return None;
    };
    let body = function.body.as_deref().filter(|_| function.span.end as usize == text.len())?;
    // The parser takes the modifiers of class members for JavaScript too.
    let modified = language == Language::JavaScript && classes::has_modifiers(text, program);
    Some(ParsedCode { language: if modified { Language::TypeScript } else { language }, program, body, text })
}

/// The code as a module, for constructs that a function body cannot hold; its errors do not matter.
pub(super) fn parse_module<'a>(arena: &'a Allocator, code: &'a str, jsx: bool) -> Option<&'a Program<'a>> {
    let source_type = if jsx { SourceType::tsx() } else { SourceType::ts() };
    let parsed = Parser::new(arena, code, source_type.with_module(true)).parse();
    (!parsed.panicked).then(|| &*arena.alloc(parsed.program))
}

pub(super) fn wrap<'a>(arena: &'a Allocator, code: &str) -> &'a str {
    let mut text = String::with_capacity(PREFIX.len() + code.len() + SUFFIX.len());
    text.push_str(PREFIX);
    match code.strip_prefix("#!") {
        Some(rest) => {
            text.push_str("//");
            text.push_str(rest);
        }
        None => text.push_str(code),
    }
    text.push_str(SUFFIX);
    arena.alloc_str(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn language(code: &str) -> Option<Language> {
        parse(&Allocator::default(), code).map(|parsed| parsed.language)
    }

    #[test]
    fn sloppy_scripts_with_await_are_javascript() {
        for code in [
            "await 1; with (a) b",
            "#!/usr/bin/env x\nlet a = 1",
            "let a // c",
            "<!-- c\nlet a",
            "--> c\nlet a",
            "var let = 010",
        ] {
            assert_eq!(language(code), Some(Language::JavaScript), "{code}");
        }
    }

    #[test]
    fn type_syntax_is_not_javascript() {
        for code in [
            "let a: number = 1",
            "enum A { B }",
            "let a = b as C",
            "f(a!)",
            "class A { private b = 1 }",
            "class A { b: number }",
            "function f(a?: number) {}",
            "function f(a): void {}",
            "function f<T>(a) {}",
            "let f = (a): void => {}",
            "type A = 1; let b",
            "interface A {}",
            "class A<T> {}",
            "class A implements B {}",
            "abstract class A {}",
            "declare const a: 1",
            "let a = <B>c",
            "new Map<string, number>()",
            "class A { constructor(readonly a) {} }",
            "class A { [key: string]: any }",
            "class A { declare b }",
            "class A { b!: C; d?; }",
            "function f(this: A) {}",
            "let a!: B",
            "try {} catch (e: any) {}",
            "function f(); function f() {}",
            "class A { f(); f() {} }",
            "class A { override f() {} }",
            "a satisfies B",
        ] {
            assert_eq!(language(code), Some(Language::TypeScript), "{code}");
        }
    }

    #[test]
    fn code_cannot_close_the_wrapper() {
        for code in ["} function f() {", "}", "{", "}; {", "} async function g() { let a"] {
            assert_eq!(language(code), None, "{code}");
        }
    }
}
