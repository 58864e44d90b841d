//! The keys of maps: strings, and what serde_json turns into strings.

use std::fmt::Display;

use serde::ser::{Impossible, Serialize, Serializer};

use super::counter::{Counted, Counter, Stop};

/// Counts one key. An integer is its digits in quotes: as a string, it is never rounded to an `f64`.
pub(super) struct KeyCounter<'a>(pub(super) &'a mut Counter);

type Never = Impossible<(), Stop>;

/// What has a text of its own as a key.
macro_rules! as_text {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, v: $type) -> Counted {
            self.collect_str(&v)
        })*
    };
}

/// What serde_json refuses as a key. (Of the floats it takes the finite ones; nothing here has such keys.)
macro_rules! refused {
    ($($method:ident($($arg:ty),*) -> $ok:ty;)*) => {
        $(fn $method(self, $(_: $arg),*) -> Result<$ok, Stop> {
            Err(Stop::NotJson)
        })*
    };
}

impl Serializer for KeyCounter<'_> {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    as_text!(
        serialize_bool: bool,
        serialize_i8: i8,
        serialize_i16: i16,
        serialize_i32: i32,
        serialize_i64: i64,
        serialize_i128: i128,
        serialize_u8: u8,
        serialize_u16: u16,
        serialize_u32: u32,
        serialize_u64: u64,
        serialize_u128: u128,
        serialize_char: char
    );

    fn collect_str<T: Display + ?Sized>(self, text: &T) -> Counted {
        self.0.add_string(&text.to_string())
    }

    fn serialize_str(self, v: &str) -> Counted {
        self.0.add_string(v)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Counted {
        self.0.add_string(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Counted {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Counted {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Counted {
        Err(Stop::NotJson)
    }

    refused! {
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_seq(Option<usize>) -> Never;
        serialize_tuple(usize) -> Never;
        serialize_tuple_struct(&'static str, usize) -> Never;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Never;
        serialize_map(Option<usize>) -> Never;
        serialize_struct(&'static str, usize) -> Never;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Never;
    }
}
