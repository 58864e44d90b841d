//! What a script finds in its world: the language, the verbs, and nothing else.
//!
//! No `eval`, `Function`, `import()`, timers, network, threads, weak references. Code from text is refused in the host
//! hook, so that every way to a dynamic function (`(async () => {}).constructor`, …) is closed at once.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

use boa_engine::context::{Context, ContextBuilder, HostHooks};
use boa_engine::native_function::NativeFunctionPointer;
use boa_engine::object::builtins::JsFunction;
use boa_engine::object::{FunctionObjectBuilder, ObjectInitializer};
use boa_engine::property::{Attribute, PropertyDescriptor, PropertyKey};
use boa_engine::realm::Realm;
use boa_engine::{JsError, JsNativeError, JsResult, JsString, JsValue, NativeFunction, Script, Source, js_string};
use boa_runtime::extensions::{MicrotaskExtension, StructuredCloneExtension};

use super::executor::Microtasks;
use super::host::{self, Host, Originals};
use super::strings;
use crate::wire::Begin;

/// Nested calls, through native functions too, before the engine stops the script with a clear error: about as many as
/// other engines allow, and 64 MB of stack hold twice as many.
const RECURSION: usize = 10_000;
/// Values on the engine's own stack: what `f(...array)` may spread.
const STACK_VALUES: usize = 2_000_000;

/// Globals that the engine brings and a Graph must not have.
const REMOVED: [&str; 7] =
    ["eval", "Function", "Atomics", "SharedArrayBuffer", "WeakRef", "FinalizationRegistry", "ShadowRealm"];

const PRELUDE: &str = include_str!("prelude.js");

struct Hooks;

impl HostHooks for Hooks {
    fn ensure_can_compile_strings(
        &self,
        _realm: Realm,
        _parameters: &[JsString],
        _body: &JsString,
        _direct: bool,
        _context: &mut Context,
    ) -> JsResult<()> {
        Err(JsNativeError::eval().with_message("code from text cannot be run in a Graph").into())
    }

    fn max_buffer_size(&self, _context: &mut Context) -> u64 {
        256 * 1024 * 1024
    }
}

/// A context in which a checked script can run.
pub(super) fn build(host: &Rc<Host>, jobs: &Rc<Microtasks>) -> JsResult<Context> {
    let mut context = ContextBuilder::new().host_hooks(Rc::new(Hooks)).job_executor(Rc::clone(jobs)).build()?;
    let limits = context.runtime_limits_mut();
    limits.set_recursion_limit(RECURSION);
    limits.set_stack_size_limit(STACK_VALUES);
    limits.set_backtrace_limit(20);
    context.insert_data(Rc::clone(host));
    boa_runtime::register_extensions((MicrotaskExtension, StructuredCloneExtension), None, &mut context)?;
    for name in REMOVED {
        context.global_object().delete_property_or_throw(js_string!(name), &mut context)?;
    }
    strings::install(&mut context)?;
    let make_error = prelude(&mut context)?;
    host.keep(Originals {
        stringify: function_at(&["JSON", "stringify"], &mut context)?,
        stack: stack_getter(&mut context)?,
        make_error,
    });
    Ok(context)
}

/// Every name that a script may use without declaring it: what stands in the realm, and what the run brings.
pub(super) fn global_names(context: &mut Context) -> HashSet<String> {
    let own = context.global_object().own_property_keys(context).unwrap_or_default();
    let own = own.into_iter().filter_map(|key| match key {
        PropertyKey::String(name) => Some(name.to_std_string_lossy()),
        _ => None,
    });
    own.chain(["args", "run"].map(str::to_owned)).collect()
}

/// `args`, `run`, `budget` and the seed of `Math.random`.
pub(super) fn install_run(begin: Begin, context: &mut Context) -> JsResult<()> {
    let args = JsValue::from_json(&begin.args, context)?;
    define(js_string!("args"), args, context)?;
    let run = JsValue::from_json(&begin.run, context)?;
    define(js_string!("run"), run, context)?;
    // The prelude left a function that takes the budget's total, once.
    let total = begin.total.map_or(JsValue::null(), |total| JsValue::from(total as f64));
    let key = js_string!("budget");
    let make_budget = context.global_object().get(key.clone(), context)?;
    let budget = callable(&make_budget)?.call(&JsValue::undefined(), &[total], context)?;
    define(key, budget, context)?;
    seed_random(begin.seed, context)
}

fn define(name: JsString, value: JsValue, context: &mut Context) -> JsResult<()> {
    let descriptor = PropertyDescriptor::builder().value(value).writable(false).enumerable(false).configurable(true);
    context.global_object().define_property_or_throw(name, descriptor, context).map(drop)
}

/// Runs the prelude, which defines the verbs, and returns its maker of errors.
fn prelude(context: &mut Context) -> JsResult<JsFunction> {
    let native: [(&str, NativeFunctionPointer); 3] =
        [("call", host::call), ("tell", host::tell), ("spent", host::spent)];
    let mut object = ObjectInitializer::new(context);
    for (name, function) in native {
        object.function(NativeFunction::from_fn_ptr(function), js_string!(name), 2);
    }
    let host = object.build();
    let source = Source::from_bytes(PRELUDE).with_path(std::path::Path::new("prelude"));
    let prelude = Script::parse(source, None, context)?.evaluate(context)?;
    let global = JsValue::from(context.global_object());
    let make_error = callable(&prelude)?.call(&JsValue::undefined(), &[host.into(), global], context)?;
    callable(&make_error)
}

/// SplitMix64: small, fast, and the same on every machine, so that a run can be told again from its execution id.
fn seed_random(seed: u64, context: &mut Context) -> JsResult<()> {
    let state = Rc::new(Cell::new(seed));
    context.insert_data(RandomState(state));
    let random =
        FunctionObjectBuilder::new(context.realm(), NativeFunction::from_fn_ptr(random)).name("random").build();
    let math = context.global_object().get(js_string!("Math"), context)?;
    let math = math.as_object().ok_or_else(missing)?;
    math.define_property_or_throw(
        js_string!("random"),
        PropertyDescriptor::builder().value(random).writable(true).enumerable(false).configurable(true),
        context,
    )
    .map(drop)
}

struct RandomState(Rc<Cell<u64>>);

fn random(_this: &JsValue, _arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let state = &context.get_data::<RandomState>().ok_or_else(missing)?.0;
    state.set(state.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
    let mut bits = state.get();
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    Ok(JsValue::from((bits >> 11) as f64 / (1_u64 << 53) as f64))
}

fn function_at(path: &[&str], context: &mut Context) -> JsResult<JsFunction> {
    let mut value = JsValue::from(context.global_object());
    for name in path {
        let object = value.as_object().ok_or_else(missing)?;
        value = object.get(JsString::from(*name), context)?;
    }
    callable(&value)
}

fn stack_getter(context: &mut Context) -> JsResult<JsFunction> {
    let getter = "Object.getOwnPropertyDescriptor(Error.prototype, 'stack').get";
    let getter = Script::parse(Source::from_bytes(getter), None, context)?.evaluate(context)?;
    callable(&getter)
}

fn callable(value: &JsValue) -> JsResult<JsFunction> {
    value.as_function().ok_or_else(missing)
}

fn missing() -> JsError {
    JsNativeError::typ().with_message("the realm is not as the engine's version makes it").into()
}

/// How the realm's own functions stand on their prototypes.
pub(super) const METHOD: Attribute = Attribute::WRITABLE.union(Attribute::CONFIGURABLE);
