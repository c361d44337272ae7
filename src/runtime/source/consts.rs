//! Assigning a top-level `const` in the eval that declares it. The declaration has become a `var`, so each write
//! goes to a property of a guard object instead, whose setter throws: at the moment of the assignment, with the
//! right side evaluated, as the native form does. A later eval may assign the name.

use oxc_ast::AstKind;
use oxc_semantic::SemanticBuilder;
use oxc_span::GetSpan;

use super::declarations::consts;
use super::edit::Edits;
use super::parse::ParsedCode;

/// Global object the engine provides: reads return the global of that name, writes throw a `TypeError`.
pub(crate) const READONLY_GUARD: &str = "__readonly";

pub(super) fn guard(parsed: &ParsedCode, edits: &mut Edits) {
    let consts = consts(parsed);
    if consts.is_empty() {
        return;
    }
    let semantic = SemanticBuilder::new().with_build_nodes(true).build(parsed.program).semantic;
    for id in consts {
        let Some(symbol) = id.symbol_id.get() else {
            continue;
        };
        for reference in semantic.symbol_references(symbol).filter(|reference| reference.is_write()) {
            let start = semantic.nodes().kind(reference.node_id()).span().start;
            let text = match semantic.nodes().parent_kind(reference.node_id()) {
                AstKind::AssignmentTargetPropertyIdentifier(_) => format!("{}: {READONLY_GUARD}.", id.name),
                _ => format!("{READONLY_GUARD}."),
            };
            edits.insert(start, text);
        }
    }
}
