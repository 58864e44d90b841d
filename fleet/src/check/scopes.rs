//! Which names a script uses that nothing declares, and which it declares twice.
//!
//! The engine would find an unknown name only when it gets there, hours into a run, and without a position.

use std::collections::HashSet;
use std::ops::ControlFlow;

use boa_engine::ast::declaration::{Binding, Declaration};
use boa_engine::ast::expression::access::PropertyAccessField;
use boa_engine::ast::expression::literal::ObjectMethodDefinition;
use boa_engine::ast::expression::operator::Unary;
use boa_engine::ast::expression::operator::unary::UnaryOp;
use boa_engine::ast::expression::{Expression, Identifier, ImportCall, ImportMeta};
use boa_engine::ast::function::{
    ArrowFunction, AsyncArrowFunction, AsyncFunctionDeclaration, AsyncFunctionExpression, AsyncGeneratorDeclaration,
    AsyncGeneratorExpression, ClassDeclaration, ClassElement, ClassExpression, FormalParameterList, FunctionBody,
    FunctionDeclaration, FunctionExpression, GeneratorDeclaration, GeneratorExpression,
};
use boa_engine::ast::operations::{bound_names, var_declared_names};
use boa_engine::ast::statement::iteration::{ForLoopInitializer, IterableLoopInitializer};
use boa_engine::ast::statement::{Block, Catch, ForInLoop, ForLoop, ForOfLoop, Switch};
use boa_engine::ast::visitor::{VisitWith, Visitor};
use boa_engine::ast::{Spanned, StatementListItem};
use boa_engine::interner::{Interner, Sym};

use super::wrap::start_of;
use super::{Problem, hints, literal};

/// Names that the wrapper declares.
const WRAPPER_NAMES: [&str; 1] = ["$$default"];

/// Everything wrong with the names of a script's body, with positions in the wrapped text.
pub(super) fn problems(body: &FunctionBody, interner: &Interner, globals: &HashSet<String>) -> Vec<Problem> {
    let mut walk = Walk {
        interner,
        globals,
        scopes: Vec::new(),
        declared: HashSet::new(),
        unknown: Vec::new(),
        problems: Vec::new(),
    };
    let _ = walk.visit_function_body(body);
    walk.finish()
}

struct Walk<'i> {
    interner: &'i Interner,
    globals: &'i HashSet<String>,
    /// From the outermost to the innermost.
    scopes: Vec<HashSet<Sym>>,
    /// Every name that is declared anywhere: what a misspelt one may have meant.
    declared: HashSet<Sym>,
    unknown: Vec<Identifier>,
    problems: Vec<Problem>,
}

impl Walk<'_> {
    fn within<'a>(
        &mut self,
        names: impl IntoIterator<Item = Sym>,
        node: &'a impl VisitWith,
    ) -> ControlFlow<std::convert::Infallible>
    where
        Self: Visitor<'a, BreakTy = std::convert::Infallible>,
    {
        let names: HashSet<Sym> = names.into_iter().collect();
        self.declared.extend(&names);
        self.scopes.push(names);
        let flow = node.visit_with(self);
        self.scopes.pop();
        flow
    }

    fn function<'a>(
        &mut self,
        name: Option<Identifier>,
        parameters: &'a FormalParameterList,
        node: &'a impl VisitWith,
    ) -> ControlFlow<std::convert::Infallible> {
        let names = bound_names(parameters).into_iter().chain(name.map(Identifier::sym)).collect::<Vec<_>>();
        self.within(names, node)
    }

    /// The names that a list of statements declares in its own scope.
    fn names_of(&mut self, items: &[StatementListItem]) -> Vec<Sym> {
        let mut names = Vec::new();
        let mut lexical = HashSet::new();
        for item in items {
            let StatementListItem::Declaration(declaration) = item else { continue };
            let bound = bound_names(&**declaration);
            if let Declaration::Lexical(list) = &**declaration {
                for variable in list.variable_list().as_ref() {
                    for name in bound_names(variable) {
                        if !lexical.insert(name) {
                            self.clash(name, variable.binding());
                        }
                    }
                }
            } else if let Declaration::ClassDeclaration(class) = &**declaration
                && !lexical.insert(class.name().sym())
            {
                self.clash(class.name().sym(), &Binding::Identifier(class.name()));
            }
            names.extend(bound);
        }
        names
    }

    fn clash(&mut self, name: Sym, binding: &Binding) {
        let (line, column) = match binding {
            Binding::Identifier(identifier) => start_of(identifier),
            Binding::Pattern(pattern) => start_of(pattern),
        };
        let name = literal::name(name, self.interner);
        self.problems.push(Problem { line, column, message: format!("{name} is declared twice in the same block") });
    }

    fn finish(mut self) -> Vec<Problem> {
        for identifier in std::mem::take(&mut self.unknown) {
            let name = literal::name(identifier.sym(), self.interner);
            if self.globals.contains(&name) || WRAPPER_NAMES.contains(&name.as_str()) || name == "arguments" {
                continue;
            }
            let (line, column) = start_of(&identifier);
            let message = match hints::for_global(&name) {
                Some(advice) => format!("{name} is not defined: {advice}"),
                None => self.misspelt(&name),
            };
            self.problems.push(Problem { line, column, message });
        }
        self.problems
    }

    fn misspelt(&self, name: &str) -> String {
        let declared: Vec<String> = self.declared.iter().map(|name| literal::name(*name, self.interner)).collect();
        if declared.iter().any(|other| other == name) {
            return format!("{name} is not defined here: it is declared in another block or function");
        }
        let known = declared.iter().map(String::as_str).chain(self.globals.iter().map(String::as_str));
        match hints::nearest(name, known) {
            Some(other) => format!("{name} is not defined: did you mean {other}?"),
            None => format!("{name} is not defined"),
        }
    }

    fn refuse(&mut self, node: &impl Spanned, message: &str) {
        self.problems.push(literal::problem_at(node, message));
    }
}

/// A function-like node: its parameters, and its own name where that is visible inside only.
macro_rules! functions {
    ($($visit:ident: $node:ty, $name:expr;)*) => {
        $(fn $visit(&mut self, node: &'ast $node) -> ControlFlow<Self::BreakTy> {
            let name: fn(&$node) -> Option<Identifier> = $name;
            self.function(name(node), node.parameters(), node)
        })*
    };
}

impl<'ast> Visitor<'ast> for Walk<'_> {
    type BreakTy = std::convert::Infallible;

    fn visit_identifier(&mut self, node: &'ast Identifier) -> ControlFlow<Self::BreakTy> {
        if !self.scopes.iter().any(|scope| scope.contains(&node.sym())) {
            self.unknown.push(*node);
        }
        ControlFlow::Continue(())
    }

    fn visit_property_access_field(&mut self, node: &'ast PropertyAccessField) -> ControlFlow<Self::BreakTy> {
        match node {
            PropertyAccessField::Const(_) => ControlFlow::Continue(()),
            PropertyAccessField::Expr(expression) => self.visit_expression(expression),
        }
    }

    /// `typeof x` is how a script asks whether `x` exists.
    fn visit_unary(&mut self, node: &'ast Unary) -> ControlFlow<Self::BreakTy> {
        if node.op() == UnaryOp::TypeOf && matches!(node.target().flatten(), Expression::Identifier(_)) {
            return ControlFlow::Continue(());
        }
        node.visit_with(self)
    }

    fn visit_import_call(&mut self, node: &'ast ImportCall) -> ControlFlow<Self::BreakTy> {
        self.refuse(node, "a Graph cannot import: it reaches the world by its verbs only (agent, tool, graph, …)");
        node.visit_with(self)
    }

    fn visit_import_meta(&mut self, node: &'ast ImportMeta) -> ControlFlow<Self::BreakTy> {
        self.refuse(node, "a Graph has no import.meta");
        ControlFlow::Continue(())
    }

    fn visit_function_body(&mut self, node: &'ast FunctionBody) -> ControlFlow<Self::BreakTy> {
        let mut names = self.names_of(node.statements());
        names.extend(var_declared_names(node));
        self.within(names, node)
    }

    fn visit_block(&mut self, node: &'ast Block) -> ControlFlow<Self::BreakTy> {
        let names = self.names_of(node.statement_list().statements());
        self.within(names, node)
    }

    fn visit_switch(&mut self, node: &'ast Switch) -> ControlFlow<Self::BreakTy> {
        let mut names = Vec::new();
        for case in node.cases() {
            names.extend(self.names_of(case.body().statements()));
        }
        self.within(names, node)
    }

    fn visit_for_loop(&mut self, node: &'ast ForLoop) -> ControlFlow<Self::BreakTy> {
        let names = match node.init() {
            Some(ForLoopInitializer::Lexical(lexical)) => bound_names(lexical.declaration()),
            _ => Vec::new(),
        };
        self.within(names, node)
    }

    fn visit_for_of_loop(&mut self, node: &'ast ForOfLoop) -> ControlFlow<Self::BreakTy> {
        self.within(loop_names(node.initializer()), node)
    }

    fn visit_for_in_loop(&mut self, node: &'ast ForInLoop) -> ControlFlow<Self::BreakTy> {
        self.within(loop_names(node.initializer()), node)
    }

    fn visit_catch(&mut self, node: &'ast Catch) -> ControlFlow<Self::BreakTy> {
        self.within(node.parameter().map(bound_names).unwrap_or_default(), node)
    }

    fn visit_class_declaration(&mut self, node: &'ast ClassDeclaration) -> ControlFlow<Self::BreakTy> {
        self.within([node.name().sym()], node)
    }

    fn visit_class_expression(&mut self, node: &'ast ClassExpression) -> ControlFlow<Self::BreakTy> {
        self.within(node.name().map(Identifier::sym), node)
    }

    fn visit_class_element(&mut self, node: &'ast ClassElement) -> ControlFlow<Self::BreakTy> {
        match node {
            ClassElement::MethodDefinition(method) => self.function(None, method.parameters(), node),
            _ => node.visit_with(self),
        }
    }

    fn visit_object_method_definition(&mut self, node: &'ast ObjectMethodDefinition) -> ControlFlow<Self::BreakTy> {
        self.function(None, node.parameters(), node)
    }

    functions! {
        visit_function_declaration: FunctionDeclaration, |_| None;
        visit_generator_declaration: GeneratorDeclaration, |_| None;
        visit_async_function_declaration: AsyncFunctionDeclaration, |_| None;
        visit_async_generator_declaration: AsyncGeneratorDeclaration, |_| None;
        visit_function_expression: FunctionExpression, |node| node.name();
        visit_generator_expression: GeneratorExpression, |node| node.name();
        visit_async_function_expression: AsyncFunctionExpression, |node| node.name();
        visit_async_generator_expression: AsyncGeneratorExpression, |node| node.name();
        visit_arrow_function: ArrowFunction, |node| node.name();
        visit_async_arrow_function: AsyncArrowFunction, |node| node.name();
    }
}

fn loop_names(initializer: &IterableLoopInitializer) -> Vec<Sym> {
    match initializer {
        IterableLoopInitializer::Let(binding) | IterableLoopInitializer::Const(binding) => bound_names(binding),
        _ => Vec::new(),
    }
}
