//! Arrays and objects: what stands between their brackets.

use serde::ser::{self, Serialize};

use super::counter::{COLON, Counted, Counter, Stop};
use super::key::KeyCounter;

/// An array or object being counted.
pub(super) struct Items<'a> {
    counter: &'a mut Counter,
    is_first: bool,
}

impl<'a> Items<'a> {
    pub(super) fn new(counter: &'a mut Counter) -> Self {
        Self { counter, is_first: true }
    }

    fn comma(&mut self) -> Counted {
        let is_first = std::mem::replace(&mut self.is_first, false);
        self.counter.add(usize::from(!is_first))
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Counted {
        self.comma()?;
        value.serialize(&mut *self.counter)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Counted {
        self.comma()?;
        self.counter.add_string(name)?;
        self.counter.add(COLON)?;
        value.serialize(&mut *self.counter)
    }
}

macro_rules! count_elements {
    ($($trait:ident :: $method:ident),*) => {
        $(impl ser::$trait for Items<'_> {
            type Ok = ();
            type Error = Stop;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Counted {
                self.element(value)
            }

            fn end(self) -> Counted {
                Ok(())
            }
        })*
    };
}

count_elements!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! count_fields {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Items<'_> {
            type Ok = ();
            type Error = Stop;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Counted {
                self.field(name, value)
            }

            fn end(self) -> Counted {
                Ok(())
            }
        })*
    };
}

count_fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Items<'_> {
    type Ok = ();
    type Error = Stop;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Counted {
        self.comma()?;
        key.serialize(KeyCounter(&mut *self.counter))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Counted {
        self.counter.add(COLON)?;
        value.serialize(&mut *self.counter)
    }

    fn end(self) -> Counted {
        Ok(())
    }
}
