//! Counts what `JSON.stringify(value).length` would give, without building the text.
//!
//! JSON's text differs between serializers where numbers are concerned, and its length between units. A cap that two
//! languages must agree on is therefore counted as JavaScript counts it: UTF-16 code units of the text that
//! `JSON.stringify` makes of the value. That text has
//!
//! - numbers as ECMA-262's `Number::toString` gives them: every number is an `f64` (integers beyond 2^53 too), 1.0
//!   is `1`, -0.0 is `0`, 1e21 is `1e+21`; NaN and the infinities are `null`;
//! - `\"`, `\\`, `\b`, `\t`, `\n`, `\f` and `\r` as two units, other characters below U+0020 as six (`\u001f`),
//!   everything else as itself: one unit, or two beyond U+FFFF;
//! - nothing between the tokens.
//!
//! A lone surrogate, which a JavaScript string may hold, cannot get here: a Rust string cannot hold one, and
//! serde_json refuses its escape `\ud800`. Whoever takes text out of a script replaces it with U+FFFD, which counts
//! as the one unit that is then sent.

mod counter;
mod items;
mod key;
#[cfg(test)]
mod tests;

use serde::Serialize;

use counter::{Counter, Stop};

/// UTF-16 code units of `JSON.stringify(value)`.
///
/// `usize::MAX` for a value that has no JSON text, because its `Serialize` fails or a map's key is no string, integer,
/// boolean or unit variant: it is too long for any cap.
pub fn js_length<T: Serialize + ?Sized>(value: &T) -> usize {
    count(value, usize::MAX).unwrap_or(usize::MAX)
}

/// Whether [`js_length`] is above `limit`; stops counting there.
pub fn exceeds<T: Serialize + ?Sized>(value: &T, limit: usize) -> bool {
    count(value, limit).is_err()
}

fn count<T: Serialize + ?Sized>(value: &T, limit: usize) -> Result<usize, Stop> {
    let mut counter = Counter::new(limit);
    value.serialize(&mut counter)?;
    Ok(counter.units())
}
