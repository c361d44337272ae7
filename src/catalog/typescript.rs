//! TypeScript declarations of bindings, for a model's prompt and for an editor.
//!
//! Dotted names become namespaces, `$defs` and other targets of `$ref` become named types in a namespace of their own
//! (a schema may well call something `Event` or `Map`, which must not merge with the library's). The text compiles under
//! `tsc --strict` whatever the schemas are: what TypeScript cannot say becomes `unknown`, never an error.

mod empty;
mod form;
mod named;
mod text;
mod types;

use std::collections::{BTreeMap, btree_map};
use std::vec;

use crate::protocol::declaration::Declaration;
use crate::protocol::names;
use text::{doc_comment, indented, pascal_case};
use types::{Document, Types};

/// Longest parameter of a signature in an error; the whole is in `bindings.types`.
const SIGNATURE_CHARS_MAX: usize = 400;

/// One `.d.ts` text for all bindings. One whose name breaks the rules cannot be called, so it is left out.
pub fn declarations<'a>(bindings: impl IntoIterator<Item = &'a Declaration>) -> String {
    let mut writer = DeclarationWriter::new(bindings);
    while writer.step() {}
    writer.finish()
}

/// Writes that text step by step: a server may have thousands of bindings, and other work must not wait for all of them.
pub(crate) struct DeclarationWriter<'a> {
    stage: Stage<'a>,
    types: Types<'a>,
    root: Namespace,
    blocks: Vec<String>,
}

/// What is written next.
enum Stage<'a> {
    /// The signatures of bindings.
    Functions(vec::IntoIter<&'a Declaration>),
    /// The types that these refer to by name, which may refer to further ones.
    NamedTypes,
    /// The namespaces of the bindings.
    Namespaces(btree_map::IntoIter<String, Namespace>),
    Done,
}

impl<'a> DeclarationWriter<'a> {
    /// A writer that has written nothing yet.
    pub(crate) fn new(bindings: impl IntoIterator<Item = &'a Declaration>) -> Self {
        let is_callable = |binding: &&Declaration| names::check(&binding.name).is_ok();
        let callable: Vec<&Declaration> = bindings.into_iter().filter(is_callable).collect();
        let types = Types::new(type_namespace(&callable));
        let stage = Stage::Functions(callable.into_iter());
        Self { stage, types, root: Namespace::default(), blocks: Vec::new() }
    }

    /// Writes one binding, named type or namespace; `false` when all are written.
    pub(crate) fn step(&mut self) -> bool {
        match &mut self.stage {
            Stage::Functions(bindings) => match bindings.next() {
                Some(binding) => {
                    let segments: Vec<&str> = binding.name.split('.').collect();
                    self.root.insert(&segments, Function::of(binding, &mut self.types));
                }
                None => self.stage = Stage::NamedTypes,
            },
            Stage::NamedTypes => {
                if !self.types.write_next_named() {
                    let Namespace { functions, namespaces } = std::mem::take(&mut self.root);
                    self.blocks.extend(self.types.take_namespace());
                    let functions = functions.iter();
                    self.blocks.extend(functions.map(|(name, function)| function.written("declare ", name)));
                    self.stage = Stage::Namespaces(namespaces.into_iter());
                }
            }
            Stage::Namespaces(namespaces) => match namespaces.next() {
                Some((name, namespace)) => self.blocks.push(namespace.written("declare ", &name)),
                None => self.stage = Stage::Done,
            },
            Stage::Done => return false,
        }
        true
    }

    /// The text of what was written.
    pub(crate) fn finish(self) -> String {
        let mut text = self.blocks.join("\n\n");
        text.push('\n');
        text
    }
}

/// `Types`, unless a binding begins so.
/// How a binding is called, in one line: `kv.get(input: { key: string })`.
pub(crate) fn signature(binding: &Declaration) -> String {
    let mut types = Types::new("Types".to_owned());
    let label = format!("{}Input", pascal_case(&binding.name));
    let parameter = Document::new(binding.input.as_ref(), label).parameter(&mut types);
    let mut line = String::new();
    let mut rest = parameter.as_str();
    while let Some((before, after)) = rest.split_once("/**") {
        line.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    line.push_str(rest);
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ").replace("; }", " }");
    match line.char_indices().nth(SIGNATURE_CHARS_MAX) {
        Some((end, _)) => format!("{}({}…)", binding.name, line.get(..end).unwrap_or_default()),
        None => format!("{}({line})", binding.name),
    }
}

fn type_namespace(bindings: &[&Declaration]) -> String {
    let mut name = "Types".to_owned();
    while bindings.iter().any(|binding| binding.name.split('.').next() == Some(name.as_str())) {
        name.push('_');
    }
    name
}

struct Function {
    comment: String,
    signature: String,
}

impl Function {
    fn of<'a>(binding: &'a Declaration, types: &mut Types<'a>) -> Self {
        let owner = pascal_case(&binding.name);
        let parameter = Document::new(binding.input.as_ref(), format!("{owner}Input")).parameter(types);
        let output = Document::new(binding.output.as_ref(), format!("{owner}Output")).type_text(types);
        let mut lines: Vec<String> = binding.description.iter().cloned().collect();
        if !binding.effects.is_empty() {
            lines.push(format!("@effects {}", binding.effects.join(", ").replace(['\r', '\n'], " ")));
        }
        Self {
            comment: doc_comment(&lines.join("\n")),
            signature: format!("({parameter}): Promise<{output}>;"),
        }
    }

    fn written(&self, prefix: &str, name: &str) -> String {
        format!("{}{prefix}function {name}{}", self.comment, self.signature)
    }
}

#[derive(Default)]
struct Namespace {
    functions: BTreeMap<String, Function>,
    namespaces: BTreeMap<String, Namespace>,
}

impl Namespace {
    fn insert(&mut self, segments: &[&str], function: Function) {
        match segments {
            [] => {}
            [name] => drop(self.functions.insert((*name).to_owned(), function)),
            [first, rest @ ..] => {
                self.namespaces.entry((*first).to_owned()).or_default().insert(rest, function)
            }
        }
    }

    /// `heading` is the name, or the dotted names down to here when nothing else stood on the way.
    fn written(&self, prefix: &str, heading: &str) -> String {
        let mut inner = self.namespaces.iter();
        if let (true, Some((only, namespace)), None) = (self.functions.is_empty(), inner.next(), inner.next())
            && !names::is_reserved_word(only)
        {
            return namespace.written(prefix, &format!("{heading}.{only}"));
        }
        format!("{prefix}namespace {heading} {{\n{}\n}}", indented(&self.members().join("\n")))
    }

    /// A reserved word can be a property but not the name of a declaration, so such a member is declared under another
    /// name and exported under its own. That ends the rule that everything in an ambient namespace is exported.
    fn members(&self) -> Vec<String> {
        let all_names: Vec<&String> = self.functions.keys().chain(self.namespaces.keys()).collect();
        let renames: BTreeMap<&str, String> = all_names
            .iter()
            .filter(|name| names::is_reserved_word(name))
            .map(|name| (name.as_str(), free_name(name, &all_names)))
            .collect();
        let declared = |name: &str| match renames.get(name) {
            Some(other) => (String::new(), other.clone()),
            None if renames.is_empty() => (String::new(), name.to_owned()),
            None => ("export ".to_owned(), name.to_owned()),
        };
        let mut members = Vec::new();
        for (name, function) in &self.functions {
            let (prefix, name) = declared(name);
            members.push(function.written(&prefix, &name));
        }
        for (name, namespace) in &self.namespaces {
            let (prefix, name) = declared(name);
            members.push(namespace.written(&prefix, &name));
        }
        if !renames.is_empty() {
            let exports: Vec<String> =
                renames.iter().map(|(name, other)| format!("{other} as {name}")).collect();
            members.push(format!("export {{ {} }};", exports.join(", ")));
        }
        members
    }
}

fn free_name(word: &str, taken: &[&String]) -> String {
    let mut name = format!("_{word}");
    while taken.iter().any(|other| **other == name) {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests;
