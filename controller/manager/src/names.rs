//! The names that the manager writes and that [`sandgate_objects`] does not have.

/// The label of a sandbox that a request with an `Idempotency-Key` made: which request it was.
pub(crate) const LABEL_CREATE: &str = "sandgate.dev/create";
/// The label beside [`LABEL_CREATE`]: the UID of the request's marker. A key that is used again after its
/// marker is gone has the same request and another marker.
pub(crate) const LABEL_CREATE_UID: &str = "sandgate.dev/create-uid";
/// The label that says what an object in the system namespace is for.
pub(crate) const LABEL_KIND: &str = "sandgate.dev/kind";
/// The value of [`LABEL_KIND`] on the marker of a create.
pub(crate) const KIND_CREATE: &str = "create";
/// The annotation with the names of the labels and annotations that the caller of a create gave, as
/// OpenKruise writes it: `{"labels":[…],"annotations":[…]}`. OpenKruise removes these when it recycles a
/// sandbox.
pub(crate) const ANNOTATION_GIVEN: &str = "agents.kruise.io/updated-metadata-in-claim";
