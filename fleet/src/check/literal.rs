//! A pure literal as JSON: what `meta` may be made of.

use boa_engine::ast::Spanned;
use boa_engine::ast::expression::Expression;
use boa_engine::ast::expression::literal::{LiteralKind, PropertyDefinition, TemplateElement};
use boa_engine::ast::expression::operator::unary::UnaryOp;
use boa_engine::interner::{Interner, Sym};
use serde_json::{Map, Value};

use super::Problem;
use super::wrap::start_of;

pub(super) fn problem_at(node: &impl Spanned, message: &str) -> Problem {
    let (line, column) = start_of(node);
    Problem { line, column, message: message.to_owned() }
}

/// The value of a literal expression.
pub(super) fn value(expression: &Expression, interner: &Interner) -> Result<Value, Problem> {
    let impure =
        |what: &str| Err(problem_at(expression, &format!("meta must be a pure literal: {what} cannot stand in it")));
    match expression.flatten() {
        Expression::Literal(literal) => match literal.kind() {
            LiteralKind::String(text) => Ok(Value::String(name(*text, interner))),
            LiteralKind::Num(number) => Ok(Value::from(*number)),
            LiteralKind::Int(number) => Ok(Value::from(*number)),
            LiteralKind::Bool(value) => Ok(Value::Bool(*value)),
            LiteralKind::Null => Ok(Value::Null),
            _ => impure("a bigint or undefined"),
        },
        Expression::TemplateLiteral(template) => match template.elements() {
            [] => Ok(Value::String(String::new())),
            [TemplateElement::String(text)] => Ok(Value::String(name(*text, interner))),
            _ => impure("a template with a substitution"),
        },
        Expression::Unary(unary) if unary.op() == UnaryOp::Minus => match value(unary.target(), interner)? {
            Value::Number(number) => Ok(number
                .as_i64()
                .map_or_else(|| Value::from(-number.as_f64().unwrap_or_default()), |integer| Value::from(-integer))),
            _ => impure("a minus before anything but a number"),
        },
        Expression::ArrayLiteral(array) => array
            .as_ref()
            .iter()
            .map(|item| item.as_ref().map_or_else(|| impure("a hole in an array"), |item| value(item, interner)))
            .collect(),
        Expression::ObjectLiteral(object) => {
            let mut map = Map::new();
            for property in object.properties() {
                let PropertyDefinition::Property(key, property) = property else {
                    return impure("a method, a getter, a spread or a shorthand");
                };
                let Some(key) = key.literal() else { return impure("a computed key") };
                map.insert(name(key.sym(), interner), value(property, interner)?);
            }
            Ok(Value::Object(map))
        }
        Expression::Identifier(_) => impure("a variable"),
        Expression::Call(_) | Expression::New(_) | Expression::Await(_) => impure("a call"),
        Expression::Spread(_) => impure("a spread"),
        _ => impure("an expression"),
    }
}

pub(super) fn name(symbol: Sym, interner: &Interner) -> String {
    interner.resolve_expect(symbol).to_string()
}
