//! From the bytes of an object to what the view keeps of it.

use sandgate_cache::{Change, Seen, Store, Viewed, seen};
use sandgate_follow::Rejected;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::decode;

use super::Inner;
use super::pod::{PodFacts, RawPod};

/// Where the view keeps a kind. It is sealed: nobody outside can name what it is about.
pub trait Kept: Viewed {
    /// Its objects.
    fn store(inner: &mut Inner) -> &mut Store<Self>;
    /// The same, to read.
    fn peek(inner: &Inner) -> &Store<Self>;
    /// Brings what is kept beside the objects up to date, and marks who has to look.
    fn changed(inner: &mut Inner, change: Change<Self>);
}

impl Viewed for PodFacts {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PLURAL: &'static str = "pods";
    const SELECTOR: &'static str = "agents.kruise.io/created-by=sandbox";

    fn is_selected(&self) -> bool {
        self.labels.get(names::LABEL_CREATED_BY).is_some_and(|by| by == names::CREATED_BY_SANDBOX)
    }

    fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
        let object = decode(object).map_err(|error| Rejected(error.to_string()))?;
        let Seen { key, uid, version, object } = seen(object, |raw: &RawPod| &raw.metadata)?;
        Ok(Seen { key, uid, version, object: object.into() })
    }
}
