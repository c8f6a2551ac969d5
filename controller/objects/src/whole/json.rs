//! Parts of an object that are kept as JSON text.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Types of parts of an object, each with the path that an error about it names.
macro_rules! json_objects {
    ($($(#[$doc:meta])* $name:ident at $path:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// It is kept as the JSON text that the API server has: unknown fields survive, and a clone costs
        /// nothing. Equality and order are those of the text.
        #[derive(Clone)]
        pub struct $name(::std::sync::Arc<::serde_json::value::RawValue>);

        impl $name {
            /// From a JSON object.
            pub fn new(object: &::serde_json::Value) -> Self {
                Self($crate::whole::json::text_of(object))
            }

            /// The JSON text.
            pub fn get(&self) -> &str {
                self.0.get()
            }

            /// The JSON object.
            ///
            /// # Errors
            /// The text nests too deep, or it is not an object.
            pub fn parse(&self) -> Result<::serde_json::Value, $crate::provider::Unreadable> {
                $crate::whole::json::parse(self.get()).ok_or_else(|| $crate::provider::Unreadable::new($path, "expected an object, nested less than 128 deep"))
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                ::std::sync::Arc::ptr_eq(&self.0, &other.0) || self.get() == other.get()
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<::std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> ::std::cmp::Ordering {
                self.get().cmp(other.get())
            }
        }

        /// Without the text: it may contain secrets.
        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, concat!(stringify!($name), "({} bytes)"), self.get().len())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                ::serde::Serialize::serialize(&*self.0, serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::whole::json::object(deserializer).map(Self)
            }
        }
    )*};
}

pub(crate) use json_objects;

json_objects! {
    /// A pod template: metadata and spec of a pod.
    PodTemplate at "spec.template";
}

pub(crate) fn text_of(object: &Value) -> Arc<RawValue> {
    let text = RawValue::from_string(object.to_string());
    // A value is always JSON.
    text.map_or_else(|_| Arc::from(RawValue::NULL.to_owned()), Arc::from)
}

pub(crate) fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

pub(crate) fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<RawValue>, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    if !text.get().starts_with('{') {
        return Err(serde::de::Error::custom("expected an object"));
    }
    Ok(Arc::from(text))
}
