//! The serializer that counts.

use std::fmt;

use serde::ser::{self, Serialize, Serializer};

use super::items::Items;

/// Why counting ended before the value did.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stop {
    #[error("the text is longer than the limit")]
    OverLimit,
    #[error("the value has no JSON text")]
    NotJson,
}

impl ser::Error for Stop {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::NotJson
    }
}

pub(super) type Counted = Result<(), Stop>;

const NULL: usize = 4;
const BRACKETS: usize = 2;
const QUOTES: usize = 2;
pub(super) const COLON: usize = 1;

/// Up to here every integer is an `f64` of its own, printed as its digits.
const MAX_SAFE: u128 = 1 << 53;

/// What a byte of UTF-8 adds to the length of a JSON string: a character's units stand at its first byte.
const UNITS_OF_BYTE: [u8; 256] = {
    let mut units = [1; 256];
    let mut byte = 0;
    while byte < units.len() {
        units[byte] = match byte as u8 {
            b'"' | b'\\' | b'\t' | b'\n' | b'\r' | 0x08 | 0x0C => 2,
            0x00..=0x1F => 6,
            // The bytes that continue a character.
            0x80..=0xBF => 0,
            // The first byte of a character beyond U+FFFF: a surrogate pair.
            0xF0..=0xFF => 2,
            _ => 1,
        };
        byte += 1;
    }
    units
};

/// Counts the text of one value, up to a limit.
pub(super) struct Counter {
    units: usize,
    limit: usize,
}

impl Counter {
    pub(super) fn new(limit: usize) -> Self {
        Self { units: 0, limit }
    }

    pub(super) fn units(&self) -> usize {
        self.units
    }

    pub(super) fn add(&mut self, units: usize) -> Counted {
        self.units = self.units.saturating_add(units);
        if self.units > self.limit { Err(Stop::OverLimit) } else { Ok(()) }
    }

    pub(super) fn add_string(&mut self, text: &str) -> Counted {
        self.add(QUOTES)?;
        // No character has more than three bytes per unit, so that a string far too long is not even looked at.
        if text.len() / 3 > self.limit - self.units {
            return Err(Stop::OverLimit);
        }
        self.add(text.bytes().map(|byte| usize::from(UNITS_OF_BYTE[usize::from(byte)])).sum())
    }

    fn add_integer(&mut self, is_negative: bool, magnitude: u128) -> Counted {
        if magnitude > MAX_SAFE {
            // The sign, and the digits of the nearest f64.
            self.add(usize::from(is_negative))?;
            return self.add_float(magnitude as f64);
        }
        self.add(usize::from(is_negative) + digits(magnitude))
    }

    fn add_float<F: ryu_js::Float + Into<f64> + Copy>(&mut self, number: F) -> Counted {
        if !number.into().is_finite() {
            return self.add(NULL);
        }
        self.add(ryu_js::Buffer::new().format_finite(number).len())
    }

    /// The beginning of `{"variant":…}`, the form in which serde writes a variant that carries data.
    fn open_variant(&mut self, variant: &str) -> Counted {
        self.add_string(variant)?;
        self.add(BRACKETS + COLON)
    }

    fn open(&mut self) -> Result<Items<'_>, Stop> {
        self.add(BRACKETS)?;
        Ok(Items::new(self))
    }
}

/// Decimal digits of a whole number.
fn digits(number: u128) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

macro_rules! widened {
    ($($type:ident $method:ident),* => $wide:ident) => {
        $(fn $method(self, v: $type) -> Counted {
            self.$wide(v.into())
        })*
    };
}

impl<'a> Serializer for &'a mut Counter {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Items<'a>;
    type SerializeStruct = Items<'a>;
    type SerializeStructVariant = Items<'a>;

    widened!(i8 serialize_i8, i16 serialize_i16, i32 serialize_i32, i64 serialize_i64 => serialize_i128);
    widened!(u8 serialize_u8, u16 serialize_u16, u32 serialize_u32, u64 serialize_u64 => serialize_u128);

    fn serialize_i128(self, v: i128) -> Counted {
        self.add_integer(v < 0, v.unsigned_abs())
    }

    fn serialize_u128(self, v: u128) -> Counted {
        self.add_integer(false, v)
    }

    fn serialize_f32(self, v: f32) -> Counted {
        // serde_json sends the shortest digits that name this f32, and they stay when read as an f64.
        self.add_float(v)
    }

    fn serialize_f64(self, v: f64) -> Counted {
        self.add_float(v)
    }

    fn serialize_bool(self, v: bool) -> Counted {
        self.add(if v { 4 } else { 5 })
    }

    fn serialize_char(self, v: char) -> Counted {
        self.add_string(v.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, v: &str) -> Counted {
        self.add_string(v)
    }

    fn serialize_bytes(self, v: &[u8]) -> Counted {
        self.collect_seq(v)
    }

    fn serialize_none(self) -> Counted {
        self.add(NULL)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Counted {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Counted {
        self.add(NULL)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Counted {
        self.add(NULL)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Counted {
        self.add_string(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Counted {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Counted {
        self.open_variant(variant)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, Stop> {
        self.open()
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a>, Stop> {
        self.open()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, Stop> {
        self.open()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a>, Stop> {
        self.open_variant(variant)?;
        self.open()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Items<'a>, Stop> {
        self.open()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, Stop> {
        self.open()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a>, Stop> {
        self.open_variant(variant)?;
        self.open()
    }
}
