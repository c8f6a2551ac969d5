//! What a whole batch means: the same as its projection.

use std::time::SystemTime;

use sandgate_routes::{Secret, State};

use super::BatchSandbox;
use crate::fields::{
    Address, Place, SECURE_ACCESS_TOKEN, TRAFFIC_ACCESS_TOKEN, annotated_traffic_token, secure_access,
};
use crate::kind::{Id, Kind};
use crate::metadata::{Identity, str_of};
use crate::opensandbox::{ENDPOINTS, NAME, address_of, id_of, state_of};
use crate::provider::Unreadable;
use crate::whole;

impl Kind for BatchSandbox {
    fn identity(&self) -> Result<Identity<'_>, Unreadable> {
        whole::identity(&self.metadata, NAME)
    }

    fn id_of(&self, identity: &Identity<'_>) -> Result<Id, Unreadable> {
        id_of(identity.key.name())
    }

    fn pool(&self) -> Option<&str> {
        self.spec.pool()
    }

    fn address(&self) -> Result<Address, Unreadable> {
        address_of(self.annotation(ENDPOINTS))
    }

    fn token(&self) -> Result<Option<Secret>, Unreadable> {
        secure_access(Place::Annotation(SECURE_ACCESS_TOKEN), self.annotation(SECURE_ACCESS_TOKEN))
    }

    fn traffic_token(&self) -> Result<Option<Secret>, Unreadable> {
        annotated_traffic_token(self.annotation(TRAFFIC_ACCESS_TOKEN))
    }

    fn ends(&self) -> Result<Option<SystemTime>, Unreadable> {
        Ok(self.spec.expire_time.as_ref().map(|time| time.0.into()))
    }

    fn live_state(&self, address: Address) -> State {
        let status = self.status.as_ref();
        let phase = status.map_or("", |status| str_of(&status.phase));
        state_of(phase, status.map_or(0, |status| status.ready.into()), address)
    }
}

impl BatchSandbox {
    fn annotation(&self, key: &str) -> &str {
        let annotations = self.metadata.annotations.as_ref();
        annotations.and_then(|annotations| annotations.get(key)).map_or("", String::as_str)
    }
}
