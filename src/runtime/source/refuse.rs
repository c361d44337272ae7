//! Constructs that are not supported, each refused by name: static `import` and `export`, namespaces, decorators
//! and JSX. They are looked for in a tree that parsed, so that a word in a string is not mistaken for one.

use oxc_ast::ast::{
    Decorator, JSXElement, JSXFragment, ModuleDeclaration, Program, Statement, TSExternalModuleDeclaration,
    TSGlobalDeclaration, TSImportEqualsDeclaration, TSNamespaceDeclaration,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};

const IMPORT: &str = "static import is not supported: scripts use bindings instead";
const EXPORT: &str = "export is not supported: an eval returns its last value";
const NAMESPACE: &str = "namespaces are not supported";
const DECORATOR: &str = "decorators are not supported";
const JSX: &str = "JSX is not supported";

/// The first construct that is refused: what to say, and the offset it starts at.
pub(super) fn refused(program: &Program) -> Option<(&'static str, u32)> {
    let mut finder = Finder { found: None };
    finder.visit_program(program);
    finder.found
}

struct Finder {
    found: Option<(&'static str, u32)>,
}

impl Finder {
    fn refuse(&mut self, message: &'static str, span: Span) {
        if self.found.is_none_or(|(_, start)| span.start < start) {
            self.found = Some((message, span.start));
        }
    }
}

impl<'a> Visit<'a> for Finder {
    fn visit_statement(&mut self, statement: &Statement<'a>) {
        if let Some(module) = statement.as_module_declaration() {
            let message = match module {
                ModuleDeclaration::ImportDeclaration(_) => IMPORT,
                _ => EXPORT,
            };
            self.refuse(message, module.span());
        } else {
            walk::walk_statement(self, statement);
        }
    }

    fn visit_ts_import_equals_declaration(&mut self, declaration: &TSImportEqualsDeclaration<'a>) {
        self.refuse(IMPORT, declaration.span);
    }

    fn visit_ts_namespace_declaration(&mut self, declaration: &TSNamespaceDeclaration<'a>) {
        if !declaration.declare {
            self.refuse(NAMESPACE, declaration.span);
        }
    }

    fn visit_ts_external_module_declaration(&mut self, declaration: &TSExternalModuleDeclaration<'a>) {
        if !declaration.declare {
            self.refuse(NAMESPACE, declaration.span);
        }
    }

    // Only `declare global` exists: it is types alone.
    fn visit_ts_global_declaration(&mut self, _: &TSGlobalDeclaration<'a>) {}

    fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
        self.refuse(DECORATOR, decorator.span);
    }

    fn visit_jsx_element(&mut self, element: &JSXElement<'a>) {
        self.refuse(JSX, element.span);
    }

    fn visit_jsx_fragment(&mut self, fragment: &JSXFragment<'a>) {
        self.refuse(JSX, fragment.span);
    }
}
