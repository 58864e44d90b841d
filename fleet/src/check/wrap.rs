//! The script as one async function, on the lines that the author wrote.
//!
//! A module has top-level `await` but no `return`, a function has both. So the script becomes the body of an async
//! arrow function that opens on the script's first line; `export` in front of `const meta` is blanked, and
//! `export default` becomes an assignment of the same width.

use boa_engine::ast::{Position, Spanned};
use boa_engine::parser::Error as ParseError;
use boa_engine::parser::lexer::error::Error as LexError;

use super::{Problem, hints};

const PREFIX: &str = "(async($$default)=>{\"use strict\";";
const SUFFIX: &str = "\n;return $$default})";

/// By how much columns on the first line are off.
pub(crate) const PREFIX_COLUMNS: u32 = PREFIX.len() as u32;

/// The path under which the script is evaluated; the parent puts the file's own name in its place.
pub(crate) const SOURCE_PATH: &str = "graph";

const DEFAULT_EXPORT: &str = "export default";
/// As wide as [`DEFAULT_EXPORT`].
const DEFAULT_ASSIGNMENT: &str = "$$default    =";

#[derive(Debug)]
pub(super) struct Wrapped {
    code: String,
    has_meta: bool,
    /// Of the author's text.
    lines: u32,
}

impl Wrapped {
    pub(super) fn new(source: &str) -> Result<Self, Vec<Problem>> {
        let mut body = source.strip_prefix('\u{feff}').unwrap_or(source).to_owned();
        if body.starts_with("#!") {
            body.replace_range(..2, "//");
        }
        let start = skip_trivia(&body);
        let has_meta = is_meta_export(&body[start..]);
        if has_meta {
            body.replace_range(start..start + "export".len(), "      ");
        }
        let lines = body.split('\n').count() as u32;
        Ok(Self { code: format!("{PREFIX}{body}{SUFFIX}"), has_meta, lines })
    }

    pub(super) fn code(&self) -> &str {
        &self.code
    }

    pub(super) fn into_code(self) -> String {
        self.code
    }

    pub(super) fn has_meta(&self) -> bool {
        self.has_meta
    }

    /// The parser's error, with its position still in the wrapped text.
    pub(super) fn problem(&self, error: ParseError) -> Problem {
        let at = |position: Position, message: String| Problem {
            line: position.line_number(),
            column: position.column_number(),
            message,
        };
        match error {
            ParseError::Expected { expected, found, span, context } => {
                at(span.start(), format!("'{found}' is not expected here, but {} in {context}", expected.join(" or ")))
            }
            ParseError::Unexpected { message, found, span } => {
                at(span.start(), format!("'{found}' is not expected here: {message}"))
            }
            ParseError::General { message, position } => at(position, message.into()),
            ParseError::Lex { err: LexError::Syntax(message, position) } => at(position, message.into()),
            ParseError::Lex { err: LexError::IO(error) } => at(Position::new(1, 1), error.to_string()),
            ParseError::AbruptEnd => self.at_end("the script ends too early: a bracket or a quote is not closed"),
            ParseError::ScopeAnalysis { err } => at(Position::new(1, 1), err.to_owned()),
        }
    }

    fn at_end(&self, message: &str) -> Problem {
        Problem { line: self.lines, column: 1, message: message.to_owned() }
    }

    /// Whether the parser stumbled over an `export default`, which is then an assignment.
    pub(super) fn take_default_export(&mut self, problem: &Problem) -> bool {
        let Some(offset) = offset(&self.code, problem.line, problem.column) else { return false };
        if !self.code[offset..].starts_with(DEFAULT_EXPORT) {
            return false;
        }
        self.code.replace_range(offset..offset + DEFAULT_EXPORT.len(), DEFAULT_ASSIGNMENT);
        true
    }

    /// The problem as the author should read it: his own position, and what to do.
    pub(super) fn explain(&self, mut problem: Problem) -> Problem {
        let line = self.code.split('\n').nth(problem.line.saturating_sub(1) as usize).unwrap_or_default();
        let in_line = line.strip_prefix(PREFIX).unwrap_or(line).trim_start();
        let at_error = offset(&self.code, problem.line, problem.column).map_or("", |offset| &self.code[offset..]);
        if let Some(advice) = hints::for_statement(at_error).or_else(|| hints::for_statement(in_line)) {
            problem.message = advice.to_owned();
        }
        if problem.line > self.lines {
            return self.at_end("the script ends too early: a bracket or a quote is not closed");
        }
        to_author(&mut problem);
        problem
    }
}

/// From a position in the wrapped text to the author's.
pub(super) fn to_author(problem: &mut Problem) {
    if problem.line == 1 {
        problem.column = problem.column.saturating_sub(PREFIX_COLUMNS).max(1);
    }
}

/// Where a problem is that is told by its node.
pub(super) fn start_of(node: &impl Spanned) -> (u32, u32) {
    let start = node.span().start();
    (start.line_number(), start.column_number())
}

fn offset(code: &str, line: u32, column: u32) -> Option<usize> {
    let mut start = 0;
    for _ in 1..line {
        start += code[start..].find('\n')? + 1;
    }
    let in_line = code[start..].char_indices().nth(column.saturating_sub(1) as usize)?.0;
    Some(start + in_line)
}

/// Where the first token begins.
fn skip_trivia(source: &str) -> usize {
    let mut rest = source;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.find("*/").map_or("", |end| &comment[end + 2..]);
        } else {
            return source.len() - rest.len();
        }
    }
}

fn is_meta_export(source: &str) -> bool {
    let mut words = source.splitn(3, char::is_whitespace);
    let begins = words.next() == Some("export") && words.next() == Some("const");
    begins
        && words.next().is_some_and(|rest| {
            rest.trim_start().strip_prefix("meta").is_some_and(|rest| rest.trim_start().starts_with('='))
        })
}
