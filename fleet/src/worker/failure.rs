//! What the engine throws, as the owner reads it.

use boa_engine::object::JsObject;
use boa_engine::property::PropertyKey;
use boa_engine::{Context, JsError, JsString, JsValue, js_string};

use super::host::Host;
use crate::GraphError;
use crate::check::{PREFIX_COLUMNS, SOURCE_PATH};

/// A place in the script, from 1; 0 where it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Site {
    /// From the engine's position in the wrapped text.
    pub(super) fn new(line: u32, column: u32) -> Self {
        let shift = if line == 1 { PREFIX_COLUMNS } else { 0 };
        Self { line, column: column.saturating_sub(shift).max(1) }
    }

    /// The innermost place of the script on the stack. A new error object knows it; the frames that the engine shows to
    /// its host are one instruction off, which is often another line.
    pub(super) fn current(host: &Host, context: &mut Context) -> Self {
        let constructor = context.intrinsics().constructors().error().constructor();
        let error = constructor.construct(&[], None, context).map(JsValue::from);
        let stack = error.ok().and_then(|error| host.stack_of(&error, context));
        stack.and_then(|stack| Self::in_stack(&stack)).unwrap_or_default()
    }

    /// The innermost place of the script that a stack text names, as `name (graph:LINE:COLUMN)`.
    fn in_stack(stack: &str) -> Option<Self> {
        stack.split('(').find_map(|frame| {
            let (line, column) =
                frame.strip_prefix(SOURCE_PATH)?.strip_prefix(':')?.split_once(')')?.0.split_once(':')?;
            Some(Self::new(line.parse().ok()?, column.parse().ok()?))
        })
    }

    fn mark(self, mut error: GraphError) -> GraphError {
        if self.line > 0 {
            error.line = Some(self.line);
            error.column = Some(self.column);
        }
        error
    }
}

/// An error that left the script, or that stopped the engine.
pub(super) fn describe(error: JsError, host: &Host, context: &mut Context) -> GraphError {
    let stack = error.to_string();
    let site = Site::in_stack(&stack).unwrap_or_default();
    if error.as_opaque().is_none() && error.as_native().is_none() {
        let message = "functions called each other more deeply than the engine allows: an endless recursion?";
        return site.mark(GraphError::new("RangeError", "recursion", message));
    }
    match error.into_opaque(context) {
        Ok(value) => describe_value(&value, site, host, context),
        Err(_) => site.mark(GraphError::new("Error", "", stack)),
    }
}

/// A rejection, or a thrown value.
pub(super) fn describe_value(value: &JsValue, site: Site, host: &Host, context: &mut Context) -> GraphError {
    let Some(object) = value.as_object() else {
        let text = value.to_string(context).map_or_else(|_| "a symbol".to_owned(), |text| lossy(&text));
        return site.mark(GraphError::new("Error", "", text));
    };
    let name = text(&object, js_string!("name"), context).unwrap_or_else(|| "Error".to_owned());
    let code = text(&object, js_string!("code"), context).unwrap_or_default();
    let message = text(&object, js_string!("message"), context)
        .unwrap_or_else(|| host.stringify(value, context).unwrap_or_else(|| "an object was thrown".to_owned()));
    let mut error = GraphError::new(name, code, message);
    error.retryable = get(&object, js_string!("retryable"), context).is_some_and(|value| value.to_boolean());
    let called_at = Site {
        line: number(&object, js_string!("line"), context),
        column: number(&object, js_string!("column"), context),
    };
    if called_at.line > 0 {
        return called_at.mark(error);
    }
    host.stack_of(value, context).and_then(|stack| Site::in_stack(&stack)).unwrap_or(site).mark(error)
}

fn get(object: &JsObject, key: JsString, context: &mut Context) -> Option<JsValue> {
    object.get(PropertyKey::from(key), context).ok()
}

fn text(object: &JsObject, key: JsString, context: &mut Context) -> Option<String> {
    get(object, key, context)?.as_string().map(|text| lossy(&text))
}

fn number(object: &JsObject, key: JsString, context: &mut Context) -> u32 {
    get(object, key, context).and_then(|value| value.as_number()).map_or(0, |number| number as u32)
}

pub(super) fn lossy(text: &JsString) -> String {
    text.to_std_string_lossy()
}
