//! What can be said of a script before it runs: its `meta`, and everything that is wrong with it.
//!
//! Runs in the worker process only, since parsing untrusted text is as dangerous as running it. Owns no state.
//!
//! - `wrap` turns the script into one async function on the same lines, so that positions stay the author's.
//! - `literal` reads `meta` without running anything.
//! - `scopes` finds names that nothing declares, and declarations that clash.
//! - `hints` says what to write instead.

mod hints;
mod literal;
mod problem;
mod scopes;
#[cfg(test)]
mod tests;
mod wrap;

use std::collections::HashSet;

use boa_engine::ast::declaration::{Binding, Declaration};
use boa_engine::ast::expression::Expression;
use boa_engine::ast::function::FunctionBody;
use boa_engine::ast::scope::Scope;
use boa_engine::ast::statement::Statement;
use boa_engine::ast::{Script, StatementListItem};
use boa_engine::interner::Interner;
use boa_engine::parser::{Parser, Source};

pub use problem::{CheckError, Problem};
pub(crate) use wrap::{PREFIX_COLUMNS, SOURCE_PATH};

use crate::Meta;
use crate::limits::SCRIPT_BYTES;
use wrap::Wrapped;

/// A script that passed.
#[derive(Debug)]
pub(crate) struct Checked {
    /// What to evaluate: an expression whose value is the script as one async function.
    pub(crate) code: String,
    /// The default `Meta` where the script has none.
    pub(crate) meta: Meta,
}

/// Checks a script against the names that exist in the realm it will run in.
pub(crate) fn inspect(source: &str, globals: &HashSet<String>) -> Result<Checked, Vec<Problem>> {
    if source.len() > SCRIPT_BYTES {
        let message = format!("the script has {} bytes; at most {SCRIPT_BYTES} are allowed", source.len());
        return Err(vec![Problem { line: 1, column: 1, message }]);
    }
    let mut wrapped = Wrapped::new(source)?;
    let mut interner = Interner::default();
    let script = parse(&mut wrapped, &mut interner)?;
    let Some(body) = graph_body(&script) else {
        let message = "a bracket is closed that was never opened".to_owned();
        return Err(vec![Problem { line: 1, column: 1, message }]);
    };
    let mut problems = scopes::problems(body, &interner, globals);
    let meta = match meta(body, &wrapped, &interner) {
        Ok(meta) => meta,
        Err(problem) => {
            problems.push(problem);
            Meta::default()
        }
    };
    if problems.is_empty() {
        return Ok(Checked { code: wrapped.into_code(), meta });
    }
    for problem in &mut problems {
        wrap::to_author(problem);
    }
    problems.sort();
    problems.dedup();
    Err(problems)
}

/// Parses, and turns each `export default` that the parser stumbles over into an assignment.
fn parse(wrapped: &mut Wrapped, interner: &mut Interner) -> Result<Script, Vec<Problem>> {
    loop {
        let parsed =
            Parser::new(Source::from_bytes(wrapped.code().as_bytes())).parse_script(&Scope::new_global(), interner);
        match parsed {
            Ok(script) => return Ok(script),
            Err(error) => {
                let problem = wrapped.problem(error);
                if !wrapped.take_default_export(&problem) {
                    return Err(vec![wrapped.explain(problem)]);
                }
            }
        }
    }
}

/// The body of the wrapping function, if the whole text is that function and nothing else.
fn graph_body(script: &Script) -> Option<&FunctionBody> {
    let [StatementListItem::Statement(statement)] = script.statements().statements() else { return None };
    let Statement::Expression(expression) = &**statement else { return None };
    match expression.flatten() {
        Expression::AsyncArrowFunction(function) => Some(function.body()),
        _ => None,
    }
}

/// `export const meta = {…}`, which must be the first statement.
fn meta(body: &FunctionBody, wrapped: &Wrapped, interner: &Interner) -> Result<Meta, Problem> {
    if !wrapped.has_meta() {
        return Ok(Meta::default());
    }
    // The first statement is the wrapper's own "use strict".
    let declared = body.statements().iter().find_map(|item| match item {
        StatementListItem::Declaration(declaration) => Some(&**declaration),
        StatementListItem::Statement(_) => None,
    });
    let Some(Declaration::Lexical(declaration)) = declared else { return Ok(Meta::default()) };
    let variables = declaration.variable_list().as_ref();
    let Some((Binding::Identifier(_), Some(value))) = variables.first().map(|first| (first.binding(), first.init()))
    else {
        return Ok(Meta::default());
    };
    let json = literal::value(value, interner)?;
    serde_json::from_value(json).map_err(|error| literal::problem_at(value, &format!("meta: {error}")))
}
