//! Why a patch is refused.

use std::fmt;

/// A patch that has no meaning for what it is applied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The names of the fields that lead to the trouble, innermost first.
    path: Vec<String>,
    /// What the trouble is.
    pub(super) why: Why,
}

/// What is wrong with a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Why {
    /// What is patched, or the patch, is no object.
    #[error("is not an object")]
    NotAnObject,
    /// The value of a directive, or of the field that it is about, is no list.
    #[error("is not a list")]
    NotAList,
    /// An element of a list that merges by a key does not have the key.
    #[error("has an element without {0:?}, the key that its elements are merged by")]
    NoMergeKey(&'static str),
    /// The merge key of an element is a list or an object.
    #[error("has an element whose {0:?} is neither text nor a number")]
    BadMergeKey(&'static str),
    /// A list that merges as a set, or loses single values, has elements that are lists or objects.
    #[error("is merged as a list of single values and has an element that is none")]
    NotScalar,
    /// The elements of a set are of several types.
    #[error("has elements of several types")]
    MixedTypes,
    /// The value of `$patch` is not one of the three.
    #[error("has an unknown directive $patch: {0}")]
    UnknownDirective(String),
    /// A directive has no field behind its slash.
    #[error("names no field")]
    NoField,
    /// The patch sets a field that `$retainKeys` does not name.
    #[error("sets {0:?}, which is not among its $retainKeys")]
    NotRetained(String),
    /// `$setElementOrder` lacks an element of the patch, or has it elsewhere.
    #[error("has elements that its $setElementOrder does not have, or has in another order")]
    OtherOrder,
    /// The patch deletes the whole object.
    #[error("would be deleted as a whole")]
    DeletesAll,
}

impl Refused {
    /// This is wrong with the field that is looked at.
    pub(super) fn here(why: Why) -> Self {
        Self { path: Vec::new(), why }
    }

    /// Adds the field in which the trouble was found.
    #[must_use]
    pub(super) fn inside(mut self, field: &str) -> Self {
        self.path.push(field.to_owned());
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => write!(to, "the patched object {}", self.why),
            false => {
                let names: Vec<&str> = self.path.iter().rev().map(String::as_str).collect();
                write!(to, "{} {}", names.join("."), self.why)
            }
        }
    }
}

impl std::error::Error for Refused {}
