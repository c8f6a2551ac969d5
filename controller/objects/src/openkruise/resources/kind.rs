//! What a whole sandbox means: the same as its projection.

use std::collections::BTreeMap;
use std::time::SystemTime;

use sandgate_routes::{Secret, State};

use super::Sandbox;
use crate::condition::READY;
use crate::fields::{Address, Place, TRAFFIC_ACCESS_TOKEN, annotated_traffic_token, owner};
use crate::kind::{Id, Kind};
use crate::metadata::{Identity, str_of};
use crate::openkruise::rules::{Facts, id_of, is_pool, token_of};
use crate::openkruise::{ENABLE_JWT_AUTH, ENVD_ACCESS_TOKEN, NAME, OWNER, RUNTIME_ACCESS_TOKEN, SANDBOX_ID};
use crate::provider::Unreadable;
use crate::whole;

impl Kind for Sandbox {
    fn identity(&self) -> Result<Identity<'_>, Unreadable> {
        whole::identity(&self.metadata, NAME)
    }

    fn id_of(&self, identity: &Identity<'_>) -> Result<Id, Unreadable> {
        id_of(identity, text(&self.metadata.labels, SANDBOX_ID))
    }

    /// The SandboxSet that still controls the sandbox. A claim removes this owner reference.
    fn pool(&self) -> Option<&str> {
        let mut owners = self.metadata.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true))?;
        is_pool(&controller.api_version, &controller.kind).then_some(controller.name.as_str())
    }

    fn owner(&self) -> Result<&str, Unreadable> {
        owner(Place::Annotation(OWNER), self.annotation(OWNER))
    }

    fn address(&self) -> Result<Address, Unreadable> {
        let pod = self.status.as_ref().and_then(|status| status.pod_info.as_ref());
        Ok(Address::read(pod.map_or("", |pod| str_of(&pod.pod_ip))))
    }

    fn token(&self) -> Result<Option<Secret>, Unreadable> {
        token_of(self.annotation(RUNTIME_ACCESS_TOKEN), self.annotation(ENVD_ACCESS_TOKEN))
    }

    fn traffic_token(&self) -> Result<Option<Secret>, Unreadable> {
        annotated_traffic_token(self.annotation(TRAFFIC_ACCESS_TOKEN))
    }

    fn requires_traffic_auth(&self) -> bool {
        self.annotation(ENABLE_JWT_AUTH) == "true"
    }

    fn ends(&self) -> Result<Option<SystemTime>, Unreadable> {
        Ok(self.spec.shutdown_time.as_ref().map(|time| time.0.into()))
    }

    fn live_state(&self, address: Address) -> State {
        let status = self.status.as_ref();
        let ready = status.and_then(|status| status.condition(READY));
        Facts {
            phase: status.map_or("", |status| str_of(&status.phase)),
            address,
            is_in_pool: self.pool().is_some(),
            is_paused: self.spec.paused == Some(true),
            is_ready: ready.is_some_and(|ready| ready.status == "True"),
        }
        .state()
    }
}

impl Sandbox {
    fn annotation(&self, key: &str) -> &str {
        text(&self.metadata.annotations, key)
    }
}

fn text<'a>(texts: &'a Option<BTreeMap<String, String>>, key: &str) -> &'a str {
    texts.as_ref().and_then(|texts| texts.get(key)).map_or("", String::as_str)
}
