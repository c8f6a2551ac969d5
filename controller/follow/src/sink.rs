//! The protocol between the engine and whatever keeps the objects.

use sandgate_routes::Version;
use serde::Deserialize;

use crate::failure::{describe_json_error, shorten};

/// Receives the objects of one [`Follower`](crate::Follower): one resource, in one namespace or all, with one
/// selector.
///
/// # Order of the calls
/// 1. [`begin`](Self::begin): a list starts.
/// 2. [`decode`](Self::decode) and [`apply`](Self::apply) for each object of the list. A streamed list may
///    contain an object twice, and deletes of objects that it named before.
/// 3. [`commit`](Self::commit): the list is complete. Or [`abandon`](Self::abandon): it failed, and step 1
///    follows.
/// 4. [`rewind`](Self::rewind), if the version of the list is lower than one that the sink was given before.
/// 5. For each event of the watch: `decode` and `apply`, or [`deleted`](Self::deleted), and then
///    [`reached`](Self::reached) with the event's version. A bookmark is `reached` alone.
/// 6. A watch that ends is resumed: more of step 5. If it cannot be resumed, step 1 follows.
///
/// Versions that are passed to `reached` never decrease between two lists. The calls come from one task, one
/// at a time. They must not block for long: they run on the thread of the runtime, between two reads of the
/// connection.
///
/// # What a sink may assume
/// - An object that the sink had, and that a complete list did not name, was deleted before the version of
///   the list.
/// - After `reached(v)` the sink has been given everything that happened up to `v`.
/// - Loss of contact is never a call. The sink keeps what it has until the next list is complete.
///
/// # What a sink must do
/// - Keep, of the versions of one object, the newest. A list and the watch behind it may repeat each other.
/// - Answer `Err` for objects that it cannot use. The engine counts them, names them in its status and logs
///   some of them. The next version of the object may be readable.
pub trait Sink: Send + 'static {
    /// An object as the sink understands it.
    type Object: Send;

    /// Decodes one object, metadata included. Nothing may change yet: the engine first checks that the
    /// version did not go back.
    ///
    /// # Errors
    /// If the object cannot be used. The engine then calls [`deleted`](Self::deleted) with its head: older
    /// knowledge of the object may be wrong by now. A panic is treated as an error.
    fn decode(&self, object: &[u8]) -> Result<(Version, Self::Object), Rejected>;

    /// A list starts. The sink keeps what it has, and remembers which objects the list names.
    fn begin(&mut self);

    /// Applies an object of the list or of an event.
    ///
    /// # Errors
    /// If the object cannot be used after all. The sink has already dropped what it has to drop.
    fn apply(&mut self, object: Self::Object) -> Result<(), Rejected>;

    /// The object was deleted, or the selector does not select it any more, or it cannot be decoded. Without
    /// a version nothing is known about the order: it was just seen to go.
    ///
    /// # Errors
    /// If the sink cannot have an object of this name.
    fn deleted(&mut self, head: &Head) -> Result<(), Rejected>;

    /// The sink has been given every change up to this version.
    fn reached(&mut self, version: &Version);

    /// The list is complete, as of this version: the objects that it did not name are gone.
    fn commit(&mut self, version: &Version) -> Committed;

    /// The list failed and says nothing about the objects that it did not name. Also called where the list
    /// failed before it began.
    fn abandon(&mut self);

    /// The versions of the API server went back to `version`, that of the list just committed. Drops every
    /// object that is newer: the server has lost that time and will never say what became of them. Returns
    /// how many.
    fn rewind(&mut self, version: &Version) -> u64;
}

/// What a sink did with a complete list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Objects deleted because the list did not name them.
    pub deleted: u64,
    /// Objects of the list that the sink does not show, because it remembers a newer version. After a rewind
    /// the engine lists again, every [`held_back`](crate::Timing::held_back), until there are none.
    pub held_back: u64,
}

/// Why a sink does not use an object. The text contains no value of the object, which may be a secret.
/// Reading the same bytes again does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejected(pub String);

/// Which object it is, and which version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The namespace; empty for an object that has none.
    pub namespace: String,
    /// The name: never empty, and without a slash.
    pub name: String,
    /// The version; none where `metadata.resourceVersion` is not a version.
    pub version: Option<Version>,
    /// The UID, which tells two objects of one name apart.
    pub uid: Option<String>,
}

#[derive(Deserialize)]
struct RawObject {
    metadata: RawMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    uid: Option<String>,
}

impl Head {
    pub(crate) fn read(object: &[u8]) -> Result<Self, Rejected> {
        let RawObject { metadata } = serde_json::from_slice(object)
            .map_err(|error| Rejected(format!("metadata: {}", describe_json_error(&error))))?;
        let name = metadata.name.unwrap_or_default();
        if name.is_empty() || name.contains('/') {
            return Err(Rejected(format!("metadata.name: {:?} is not a name", shorten(&name))));
        }
        Ok(Head {
            namespace: metadata.namespace.unwrap_or_default(),
            name,
            version: metadata.resource_version.and_then(|version| version.parse().ok()),
            uid: metadata.uid.filter(|uid| !uid.is_empty()),
        })
    }
}
