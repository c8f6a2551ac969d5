//! The size of a pool's pods.

use serde_json::Value;

/// The group of a member whose size is not known.
pub(super) const DEFAULT_GROUP: &str = "default";

/// The longest value of a label, as which the name of a group is written.
const MAX_LABEL: usize = 63;

/// A catalog of sizes.
pub trait InstanceTypes: Send + Sync + 'static {
    /// The size that is these resources (requests and limits of a container), and how many times it is.
    fn find(&self, resources: &Value) -> Option<(String, i32)>;
}

/// A catalog without sizes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoInstanceTypes;

impl InstanceTypes for NoInstanceTypes {
    fn find(&self, _: &Value) -> Option<(String, i32)> {
        None
    }
}

/// The name of a size, such as `2c4Gi`; none if the resources do not say how much memory and CPU.
pub(super) fn key(resources: &Value) -> Option<String> {
    let amount = |name: &str| {
        let of = |part: &str| resources.get(part)?.get(name);
        match of("limits").or_else(|| of("requests"))? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    };
    let key = format!("{}c{}", amount("cpu")?, amount("memory")?);
    let fits = key.len() <= MAX_LABEL && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    let ends = [key.chars().next(), key.chars().last()];
    let fits = fits && ends.iter().flatten().all(char::is_ascii_alphanumeric);
    fits.then_some(key)
}
