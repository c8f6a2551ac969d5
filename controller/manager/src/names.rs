//! The names that the manager writes and that [`sandgate_objects`] does not have.

/// The label of a sandbox that a request with an `Idempotency-Key` made: which request it was.
pub(crate) const LABEL_CREATE: &str = "sandgate.dev/create";
/// The label that says what an object in the system namespace is for.
pub(crate) const LABEL_KIND: &str = "sandgate.dev/kind";
/// The value of [`LABEL_KIND`] on the marker of a create.
pub(crate) const KIND_CREATE: &str = "create";
