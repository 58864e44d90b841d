//! The count against a JavaScript engine's own, and against the rules of ECMA-262.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::*;
use crate::testing::{
    TRICKY_NUMBERS, any_number, any_text, any_value, length_in_javascript, sent_length, string_length_in_javascript,
};

/// The length of `Number::toString` by its steps in ECMA-262, from the digits that Rust finds.
fn length_by_the_standard(number: f64) -> usize {
    let scientific = format!("{:e}", number.abs());
    let (digits, exponent) = scientific.split_once('e').unwrap();
    let k = digits.len() as i32 - i32::from(digits.contains('.'));
    let n = exponent.parse::<i32>().unwrap() + 1;
    let exponent_length = 2 + (n - 1).abs().to_string().len() as i32;
    let length = match n {
        _ if number == 0.0 => 1,
        _ if k <= n && n <= 21 => n,
        1..=21 => k + 1,
        -5..=0 => 2 - n + k,
        _ if k == 1 => 1 + exponent_length,
        _ => k + 1 + exponent_length,
    };
    length as usize + usize::from(number < 0.0)
}

#[test]
fn numbers_are_written_as_javascript_writes_them() {
    let cases = [
        (json!(1.0), "1"),
        (json!(-0.0), "0"),
        (json!(0), "0"),
        (json!(-7), "-7"),
        (json!(1e-6), "0.000001"),
        (json!(1e-7), "1e-7"),
        (json!(1e20), "100000000000000000000"),
        (json!(1e21), "1e+21"),
        (json!(9_007_199_254_740_993_u64), "9007199254740992"),
        (json!(9_007_199_254_740_994_u64), "9007199254740994"),
        (json!(9_999_999_999_999_999_999_u64), "10000000000000000000"),
        (json!(-99_999_999_999_999_999_i64), "-100000000000000000"),
        (json!(u64::MAX), "18446744073709552000"),
        (json!(i64::MIN), "-9223372036854776000"),
        (json!(f64::NAN), "null"),
    ];
    for (value, text) in cases {
        assert_eq!(js_length(&value), text.len(), "{value}");
        assert_eq!(sent_length(&value), text.len(), "{value}");
    }
    assert_eq!(js_length(&f64::NAN), 4);
    assert_eq!(js_length(&f32::NEG_INFINITY), 4);
    assert_eq!(js_length(&u128::MAX), "3.402823669209385e+38".len());
    for number in TRICKY_NUMBERS {
        assert_eq!(js_length(&number), length_by_the_standard(number), "{number:e}");
    }
}

#[test]
fn strings_are_escaped_as_javascript_escapes_them() {
    for (text, units) in [
        ("", 0),
        ("abc", 3),
        ("\"\\\u{8}\t\n\u{c}\r", 14),
        ("\0\u{1f}", 12),
        ("/\u{7f}\u{2028}\u{ffff}", 4),
        ("語", 1),
        ("😀", 2),
        ("e\u{301}", 2),
    ] {
        assert_eq!(js_length(text), units + 2, "{text:?}");
        assert_eq!(sent_length(text), units + 2, "{text:?}");
    }
    for ch in ['a', '"', '\n', '\u{1}', '語', '😀'] {
        assert_eq!(js_length(&ch), sent_length(&ch), "{ch:?}");
    }
}

#[derive(Serialize)]
enum Shape {
    Unit,
    Newtype(Option<u64>),
    Tuple(i8, f32, ()),
    Struct { a: char, bb: [u8; 3] },
}

#[derive(Serialize)]
struct Nothing;

#[derive(Serialize)]
struct Everything {
    shapes: Vec<Shape>,
    nothing: Nothing,
    tuple: (bool, bool, i128, u16),
    by_integer: BTreeMap<u64, i64>,
    by_sign: BTreeMap<i8, ()>,
    by_char: BTreeMap<char, ()>,
    by_bool: BTreeMap<bool, Vec<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<u8>,
    renamed: f32,
    bytes: Bytes,
}

struct Bytes;

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&[0, 9, 10, 255])
    }
}

#[test]
fn every_shape_that_serde_knows_is_counted() {
    let everything = Everything {
        shapes: vec![
            Shape::Unit,
            Shape::Newtype(None),
            Shape::Newtype(Some(u64::MAX)),
            Shape::Tuple(-128, 0.1, ()),
            Shape::Struct { a: '"', bb: [1, 22, 255] },
        ],
        nothing: Nothing,
        tuple: (true, false, i128::MIN, u16::MAX),
        by_integer: BTreeMap::from([(1, 1), (u64::MAX, i64::MIN)]),
        by_sign: BTreeMap::from([(-1, ()), (0, ())]),
        by_char: BTreeMap::from([('\n', ()), ('😀', ())]),
        by_bool: BTreeMap::from([(true, vec![]), (false, vec![1, 2])]),
        skipped: None,
        renamed: 1e21,
        bytes: Bytes,
    };
    assert_eq!(js_length(&everything), sent_length(&everything));
    assert_eq!(js_length(&everything.by_integer), r#"{"1":1,"18446744073709551615":-9223372036854776000}"#.len());
}

#[test]
fn a_value_without_a_json_text_fits_no_cap() {
    let by_list = BTreeMap::from([(vec![1], 1)]);
    assert!(serde_json::to_string(&by_list).is_err());
    assert_eq!(js_length(&by_list), usize::MAX);
    assert!(exceeds(&by_list, 1_000_000));
}

/// A list whose elements may be looked at only so far.
struct Trap {
    safe: usize,
}

impl Serialize for Trap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..).map(|n| {
            assert!(n <= self.safe, "counting went on behind the limit");
            10
        }))
    }
}

#[test]
fn counting_stops_at_the_limit() {
    // `[10,10,…`: three units for each element.
    assert!(exceeds(&Trap { safe: 34 }, 100));
}

#[test]
fn a_lone_surrogate_travels_as_one_replacement_character() {
    let text = r#""a\ud800b""#;
    assert!(serde_json::from_str::<Value>(text).is_err(), "a report that holds one could not be read");
    let units = [0x61, 0xd800, 0x62];
    assert_eq!(string_length_in_javascript(&units), text.len(), "JavaScript keeps it as an escape");
    let sent = String::from_utf16_lossy(&units);
    assert_eq!((sent.as_str(), js_length(&sent)), ("a\u{fffd}b", 5));
    assert_eq!(sent_length(&sent), 5);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_count_is_javascripts(value in any_value()) {
        prop_assert_eq!(js_length(&value), sent_length(&value));
    }

    #[test]
    fn a_number_counts_as_in_javascript_and_by_the_standard(number in any_number()) {
        prop_assert_eq!(js_length(&number), length_in_javascript(&number.to_string()));
        prop_assert_eq!(js_length(&number), length_by_the_standard(number.as_f64().unwrap()));
    }

    #[test]
    fn a_small_float_counts_as_the_text_that_is_sent_for_it(number in proptest::num::f32::ANY) {
        prop_assert_eq!(js_length(&number), sent_length(&number));
    }

    #[test]
    fn a_key_counts_like_a_string(key in any_text()) {
        prop_assert_eq!(js_length(&BTreeMap::from([(&key, 1)])), js_length(&key) + 4);
    }

    #[test]
    fn a_limit_is_exceeded_by_more_than_it(value in any_value(), off in -3..=3_isize) {
        let length = js_length(&value);
        let limit = length.saturating_add_signed(off);
        prop_assert_eq!(exceeds(&value, limit), length > limit);
    }

    /// What a script's string loses on its way is only ever length: what JavaScript would send whole is sent whole.
    #[test]
    fn replacing_lone_surrogates_never_lengthens(
        units in proptest::collection::vec(prop_oneof![any::<u16>(), 0xd7f0..0xe010_u16], 0..20),
    ) {
        let sent = String::from_utf16_lossy(&units);
        let lone = char::decode_utf16(units.iter().copied()).filter(Result::is_err).count();
        prop_assert_eq!(js_length(&sent) + 5 * lone, string_length_in_javascript(&units));
    }
}
