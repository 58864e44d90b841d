//! `split`, `indexOf`, `replaceAll` and `replace` for plain strings.
//!
//! The engine's own are quadratic: splitting 1 MB into lines takes 12 s there, 11 ms here. Whatever is not a plain
//! string on a plain string (a pattern, an object with `Symbol.split`, a missing argument) goes to the original.

use boa_engine::object::FunctionObjectBuilder;
use boa_engine::object::builtins::{JsArray, JsFunction};
use boa_engine::property::PropertyDescriptor;
use boa_engine::string::{JsStr, JsStrVariant};
use boa_engine::{Context, JsArgs, JsResult, JsString, JsValue, NativeFunction, js_string};

use super::realm::METHOD;

type Fast = fn(&JsString, &[JsValue], &mut Context) -> JsResult<Option<JsValue>>;

/// Puts the fast ones in the place of the engine's.
pub(super) fn install(context: &mut Context) -> JsResult<()> {
    let methods: [(&str, usize, Fast); 5] = [
        ("split", 2, split),
        ("indexOf", 1, index_of),
        ("includes", 1, includes),
        ("replaceAll", 2, replace_all),
        ("replace", 2, replace),
    ];
    let prototype = context.intrinsics().constructors().string().prototype();
    for (name, length, fast) in methods {
        let name = JsString::from(name);
        let Some(original) = prototype.get(name.clone(), context)?.as_function() else { continue };
        let native = NativeFunction::from_copy_closure_with_captures(
            move |this, arguments, original: &JsFunction, context| {
                if let Some(text) = this.as_string()
                    && let Some(value) = fast(&text, arguments, context)?
                {
                    return Ok(value);
                }
                original.call(this, arguments, context)
            },
            original,
        );
        let function = FunctionObjectBuilder::new(context.realm(), native).name(name.clone()).length(length).build();
        let descriptor = PropertyDescriptor::builder()
            .value(function)
            .writable(METHOD.writable())
            .enumerable(METHOD.enumerable())
            .configurable(METHOD.configurable());
        prototype.define_property_or_throw(name, descriptor, context)?;
    }
    Ok(())
}

fn split(text: &JsString, arguments: &[JsValue], context: &mut Context) -> JsResult<Option<JsValue>> {
    let (Some(separator), true) = (plain(arguments, 0), arguments.get_or_undefined(1).is_undefined()) else {
        return Ok(None);
    };
    let parts: Vec<JsValue> = if separator.is_empty() {
        (0..text.len()).map(|at| text.slice(at, at + 1).into()).collect()
    } else {
        let mut start = 0;
        let mut parts: Vec<JsValue> = Vec::new();
        for at in Matches::new(text.as_str(), separator.as_str()) {
            parts.push(text.slice(start, at).into());
            start = at + separator.len();
        }
        parts.push(text.slice(start, text.len()).into());
        parts
    };
    Ok(Some(JsArray::from_iter(parts, context).into()))
}

fn index_of(text: &JsString, arguments: &[JsValue], context: &mut Context) -> JsResult<Option<JsValue>> {
    let Some(needle) = plain(arguments, 0) else { return Ok(None) };
    let Some(from) = position(arguments.get_or_undefined(1), text, context)? else { return Ok(None) };
    let found = find(text.as_str(), needle.as_str(), from);
    Ok(Some(found.map_or(JsValue::from(-1), |at| JsValue::from(at as f64))))
}

fn includes(text: &JsString, arguments: &[JsValue], context: &mut Context) -> JsResult<Option<JsValue>> {
    let Some(needle) = plain(arguments, 0) else { return Ok(None) };
    let Some(from) = position(arguments.get_or_undefined(1), text, context)? else { return Ok(None) };
    Ok(Some(find(text.as_str(), needle.as_str(), from).is_some().into()))
}

fn replace_all(text: &JsString, arguments: &[JsValue], _context: &mut Context) -> JsResult<Option<JsValue>> {
    let (Some(needle), Some(with)) = (plain(arguments, 0), literal_replacement(arguments)) else { return Ok(None) };
    if needle.is_empty() {
        return Ok(None);
    }
    Ok(Some(join(text, Matches::new(text.as_str(), needle.as_str()), needle.len(), &with).into()))
}

fn replace(text: &JsString, arguments: &[JsValue], _context: &mut Context) -> JsResult<Option<JsValue>> {
    let (Some(needle), Some(with)) = (plain(arguments, 0), literal_replacement(arguments)) else { return Ok(None) };
    let first = find(text.as_str(), needle.as_str(), 0);
    Ok(Some(join(text, first.into_iter(), needle.len(), &with).into()))
}

fn plain(arguments: &[JsValue], index: usize) -> Option<JsString> {
    arguments.get_or_undefined(index).as_string()
}

/// A replacement in which nothing stands for something else.
fn literal_replacement(arguments: &[JsValue]) -> Option<JsString> {
    plain(arguments, 1).filter(|with| !with.contains(b'$'))
}

/// `undefined` or a number, as a position in the text.
fn position(value: &JsValue, text: &JsString, context: &mut Context) -> JsResult<Option<usize>> {
    if value.is_undefined() {
        return Ok(Some(0));
    }
    if !value.is_number() {
        return Ok(None);
    }
    Ok(Some((value.to_integer_or_infinity(context)?).clamp_finite(0, text.len() as i64) as usize))
}

fn join(text: &JsString, matches: impl Iterator<Item = usize>, width: usize, with: &JsString) -> JsString {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in matches {
        parts.push(text.slice(start, at));
        start = at + width;
    }
    if start == 0 && parts.is_empty() {
        return text.clone();
    }
    let tail = text.slice(start, text.len());
    let mut strings: Vec<JsStr<'_>> = Vec::with_capacity(parts.len() * 2 + 1);
    for part in &parts {
        strings.push(part.as_str());
        strings.push(with.as_str());
    }
    strings.push(tail.as_str());
    if strings.iter().all(JsStr::is_empty) { js_string!() } else { JsString::concat_array(&strings) }
}

/// The places of a needle that is not empty, without overlaps.
struct Matches<'a> {
    text: JsStr<'a>,
    needle: JsStr<'a>,
    from: usize,
}

impl<'a> Matches<'a> {
    fn new(text: JsStr<'a>, needle: JsStr<'a>) -> Self {
        Self { text, needle, from: 0 }
    }
}

impl Iterator for Matches<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = find(self.text, self.needle, self.from)?;
        self.from = at + self.needle.len();
        Some(at)
    }
}

/// The first place of the needle at or after `from`, in UTF-16 units.
fn find(text: JsStr<'_>, needle: JsStr<'_>, from: usize) -> Option<usize> {
    if from + needle.len() > text.len() {
        return None;
    }
    let found = match (text.variant(), needle.variant()) {
        (JsStrVariant::Latin1(text), JsStrVariant::Latin1(needle)) => memchr::memmem::find(&text[from..], needle),
        (JsStrVariant::Utf16(text), JsStrVariant::Utf16(needle)) => units(&text[from..], needle),
        (JsStrVariant::Utf16(text), JsStrVariant::Latin1(needle)) => {
            units(&text[from..], &needle.iter().copied().map(u16::from).collect::<Vec<_>>())
        }
        (JsStrVariant::Latin1(text), JsStrVariant::Utf16(needle)) => {
            let narrow: Option<Vec<u8>> = needle.iter().map(|unit| u8::try_from(*unit).ok()).collect();
            narrow.and_then(|needle| memchr::memmem::find(&text[from..], &needle))
        }
    };
    found.map(|at| at + from)
}

fn units(text: &[u16], needle: &[u16]) -> Option<usize> {
    let Some((first, rest)) = needle.split_first() else { return Some(0) };
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|unit| unit == first) {
        if text[from + at + 1..].starts_with(rest) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the language says: the first place where the units are the same.
    fn slow(text: &[u16], needle: &[u16], from: usize) -> Option<usize> {
        (from..=text.len().checked_sub(needle.len())?).find(|at| text[*at..].starts_with(needle))
    }

    proptest! {
        #[test]
        fn a_needle_is_found_where_the_language_finds_it(
            text in "[ab\u{e9}\u{20ac}\u{1f600}]{0,40}", needle in "[ab\u{e9}\u{20ac}\u{1f600}]{0,3}", from in 0_usize..50,
        ) {
            let (js_text, js_needle) = (JsString::from(text.as_str()), JsString::from(needle.as_str()));
            let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
            prop_assert_eq!(
                find(js_text.as_str(), js_needle.as_str(), from),
                slow(&units(&text), &units(&needle), from)
            );
        }
    }
}
