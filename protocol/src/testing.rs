//! A real JavaScript engine to count against, and values to count.

use std::cell::RefCell;

use boa_engine::{Context, JsString, JsValue, Source};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Number, Value};

thread_local! {
    static CONTEXT: RefCell<Context> = RefCell::default();
}

/// Calls the JavaScript function of one argument that `source` evaluates to, for its number.
fn call(source: &str, argument: JsString) -> usize {
    CONTEXT.with_borrow_mut(|context| {
        let function = context.eval(Source::from_bytes(source)).unwrap();
        let function = function.as_callable().unwrap();
        let length = function.call(&JsValue::undefined(), &[argument.into()], context).unwrap();
        length.as_number().unwrap() as usize
    })
}

/// What JavaScript counts for a JSON text.
pub(crate) fn length_in_javascript(json: &str) -> usize {
    call("text => JSON.stringify(JSON.parse(text)).length", json.into())
}

/// What JavaScript counts for a string of these UTF-16 units, lone surrogates among them.
pub(crate) fn string_length_in_javascript(units: &[u16]) -> usize {
    call("string => JSON.stringify(string).length", units.into())
}

/// What JavaScript counts for the text that is sent for `value`.
pub(crate) fn sent_length<T: Serialize + ?Sized>(value: &T) -> usize {
    length_in_javascript(&serde_json::to_string(value).unwrap())
}

pub(crate) fn any_text() -> impl Strategy<Value = String> {
    let ch = prop_oneof![
        4 => proptest::char::range(' ', '~'),
        2 => proptest::char::range('\0', '\u{1f}'),
        2 => proptest::sample::select(vec!['"', '\\', '/', '\u{8}', '\u{c}', '\n', '\r', '\t', '\u{7f}']),
        2 => proptest::char::range('一', '龥'),
        2 => proptest::char::range('😀', '🙏'),
        1 => proptest::sample::select(vec!['\u{2028}', '\u{2029}', '\u{feff}', '\u{fffd}', '\u{ffff}', '\u{10ffff}']),
        2 => any::<char>(),
    ];
    proptest::collection::vec(ch, 0..20).prop_map(String::from_iter)
}

/// Numbers whose JavaScript text is not Rust's.
pub(crate) const TRICKY_NUMBERS: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    1e-6,
    1e-7,
    1.5e-7,
    123_456_789.125,
    1e15,
    1e16,
    1e17,
    1e20,
    1e21,
    -1e21,
    1.234e21,
    1e22,
    9_007_199_254_740_991.0,
    9_007_199_254_740_994.0,
    f64::MAX,
    f64::MIN_POSITIVE,
    5e-324,
    f64::EPSILON,
    1e100,
];

pub(crate) fn any_number() -> impl Strategy<Value = Number> {
    let near_2_53 = (1_u64 << 53) - 4..(1 << 53) + 5;
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        (-1000..1000_i64).prop_map(Number::from),
        near_2_53.clone().prop_map(Number::from),
        near_2_53.prop_map(|n| Number::from(-(n as i64))),
        // Integers that gain a digit when they are rounded to an f64.
        (16..20_u32, 0..99_u64).prop_map(|(digits, below)| Number::from(10_u64.pow(digits) - 1 - below)),
        finite(proptest::num::f64::ANY),
        finite(proptest::sample::select(&TRICKY_NUMBERS[..])),
        finite((-30..30_i32, -99_999..99_999_i32).prop_map(|(exponent, n)| f64::from(n) * 10_f64.powi(exponent))),
    ]
}

fn finite(number: impl Strategy<Value = f64>) -> impl Strategy<Value = Number> {
    number.prop_filter_map("JSON has finite numbers only", Number::from_f64)
}

pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any_number().prop_map(Value::Number),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((any_text(), inner), 0..6).prop_map(Value::from_iter),
        ]
    })
}
