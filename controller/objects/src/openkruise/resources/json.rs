//! Parts of an object that are kept as JSON text.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::provider::Unreadable;

macro_rules! json_objects {
    ($($(#[$doc:meta])* $name:ident at $path:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// It is kept as the JSON text that the API server has: unknown fields survive, and a clone costs
        /// nothing. Equality and order are those of the text.
        #[derive(Clone)]
        pub struct $name(Arc<RawValue>);

        impl $name {
            /// From a JSON object.
            pub fn new(object: &Value) -> Self {
                Self(text_of(object))
            }

            /// The JSON text.
            pub fn get(&self) -> &str {
                self.0.get()
            }

            /// The JSON object.
            ///
            /// # Errors
            /// The text nests too deep, or it is not an object.
            pub fn parse(&self) -> Result<Value, Unreadable> {
                parse(self.get()).ok_or_else(|| Unreadable::new($path, "expected an object, nested less than 128 deep"))
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.0, &other.0) || self.get() == other.get()
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.get().cmp(other.get())
            }
        }

        /// Without the text: it may contain secrets.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({} bytes)"), self.get().len())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                object(deserializer).map(Self)
            }
        }
    )*};
}

json_objects! {
    /// A pod template: metadata and spec of a pod.
    PodTemplate at "spec.template";
    /// A volume claim template: metadata and spec of a PersistentVolumeClaim.
    VolumeClaimTemplate at "spec.volumeClaimTemplates";
    /// When a sandbox pauses and resumes by itself, as newer versions of OpenKruise have it.
    AutoPausePolicy at "spec.autoPausePolicy";
    /// A probe of the newer OpenKruise, which nobody here reads.
    Probe at "spec.probes";
    /// A schedule of the newer OpenKruise, which nobody here reads.
    Schedule at "status.schedules";
    /// What a checkpoint changes in the pod template of the sandbox that starts from it.
    PodTemplateDelta at "status.podTemplateDelta";
}

fn text_of(object: &Value) -> Arc<RawValue> {
    let text = RawValue::from_string(object.to_string());
    // A value is always JSON.
    text.map_or_else(|_| Arc::from(RawValue::NULL.to_owned()), Arc::from)
}

fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<RawValue>, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    if !text.get().starts_with('{') {
        return Err(serde::de::Error::custom("expected an object"));
    }
    Ok(Arc::from(text))
}
