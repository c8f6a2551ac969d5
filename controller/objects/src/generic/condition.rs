//! Conditions: a field and a test of it.

use serde_json::Value;

use super::path::FieldPath;
use super::raw::Scalar;
use crate::provider::Unreadable;

#[derive(Debug)]
pub(super) struct Condition {
    pub(super) path: FieldPath,
    pub(super) test: Test,
}

/// What a condition asks of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    OneOf(Vec<Scalar>),
    Exists,
    Absent,
    AtLeast(i64),
}

impl Test {
    /// Whether every field that passes this test passes the other.
    pub(crate) fn implies(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OneOf(these), Self::OneOf(those)) => these.iter().all(|value| those.contains(value)),
            (Self::OneOf(these), Self::AtLeast(least)) => {
                these.iter().all(|value| matches!(value, Scalar::Number(number) if number >= least))
            }
            (Self::OneOf(_) | Self::AtLeast(_) | Self::Exists, Self::Exists) => true,
            (Self::AtLeast(this), Self::AtLeast(that)) => this >= that,
            (Self::Absent, Self::Absent) => true,
            _ => false,
        }
    }

    /// Whether no field passes both tests.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent, other) | (other, Self::Absent) => *other != Self::Absent,
            (Self::OneOf(these), Self::OneOf(those)) => !these.iter().any(|value| those.contains(value)),
            (Self::OneOf(values), Self::AtLeast(least)) | (Self::AtLeast(least), Self::OneOf(values)) => {
                !values.iter().any(|value| matches!(value, Scalar::Number(number) if number >= least))
            }
            _ => false,
        }
    }
}

impl Condition {
    /// Whether the field of this object passes the test. A field that is missing, null or an empty text is
    /// absent.
    ///
    /// # Errors
    /// The field, or a value on the way to it, has a type that the condition cannot compare.
    pub(super) fn holds(&self, object: &Value) -> Result<bool, Unreadable> {
        let found = self.path.find(object)?.filter(|value| value.as_str() != Some(""));
        let values = match (&self.test, found) {
            (Test::Exists, found) => return Ok(found.is_some()),
            (Test::Absent, found) => return Ok(found.is_none()),
            (Test::AtLeast(least), Some(Value::Number(number))) => {
                return Ok(number.as_f64().is_some_and(|number| number >= *least as f64));
            }
            (Test::AtLeast(_), Some(_)) => return Err(self.expected("a number")),
            (Test::OneOf(values), Some(_)) => values,
            (_, None) => return Ok(false),
        };
        let mut holds = false;
        for value in values {
            holds |= match (value, found) {
                (Scalar::Text(value), Some(Value::String(text))) => text == value,
                (Scalar::Bool(value), Some(Value::Bool(found))) => found == value,
                (Scalar::Number(value), Some(Value::Number(found))) => found.as_f64() == Some(*value as f64),
                (Scalar::Text(_), _) => return Err(self.expected("a text")),
                (Scalar::Bool(_), _) => return Err(self.expected("a boolean")),
                (Scalar::Number(_), _) => return Err(self.expected("a number")),
            };
        }
        Ok(holds)
    }

    fn expected(&self, what: &str) -> Unreadable {
        Unreadable::new(self.path.as_str(), format!("expected {what}"))
    }
}
