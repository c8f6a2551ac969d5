//! Strategic merge patches on pods and tasks, as `kubectl patch --type=strategic` does them.
//!
//! Objects merge field by field, and `null` deletes a field. A list that has a merge key merges element by
//! element, a list of names merges as a set, any other list is replaced whole: [`schema`] says which is
//! which.
//! The directives:
//! - `$patch: delete` empties the object it is in, or takes the element with this key out of a list;
//! - `$patch: replace` puts the object in the place of the old one; in an element it replaces the whole list
//!   by the elements that have no directive;
//! - `$patch: merge` says what happens without it;
//! - `$retainKeys: [names]` drops the fields of the old object that are not named;
//! - `$deleteFromPrimitiveList/field: [values]` takes values out of a list;
//! - `$setElementOrder/field: [elements]` sorts the merged list. Elements that it does not name keep their
//!   place among the others as well as that is possible.
//!
//! An object that has `$patch` and is put where nothing was is left out, whatever the directive: so kubectl
//! does it. The cases of `tests/strategic_merge/cases.json` are compared with kubectl itself. Where the two
//! differ on purpose, the case says so:
//! - nulls and directives inside of what a patch adds are left out here; kubectl may leave them in, for the
//!   API server to drop;
//! - a field that the schema does not know is merged; kubectl refuses it if both sides are objects;
//! - `$patch: merge` is refused by kubectl;
//! - a directive that deletes the whole pod is refused here, and by kubectl when it reads the result.

mod directive;
mod list;
mod object;
mod refused;
mod schema;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(crate) use refused::Refused;

/// Applies a patch to a pod.
///
/// # Errors
/// A patch that has no meaning for this pod. To try again does not help.
pub(crate) fn pod(pod: &Value, patch: &Value) -> Result<Value, Refused> {
    object::root(pod, patch, &schema::POD)
}

/// Applies a patch to the template of a task.
///
/// # Errors
/// A patch that has no meaning for this template. To try again does not help.
pub(crate) fn task(template: &Value, patch: &Value) -> Result<Value, Refused> {
    object::root(template, patch, &schema::TASK)
}
