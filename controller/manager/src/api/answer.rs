//! What the manager says, as E2B's SDK reads it.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::ApiSettings;
use super::extract::Place;
use super::model::{
    ListedSandbox, NetworkShown, OnTimeout, Sandbox, SandboxDetail, SandboxLifecycle, SandboxState,
    SnapshotInfo,
};
use crate::{Described, FOREVER, Network, Page, ShownState, Snapshot};

/// The `clientID` of every sandbox. Older SDKs want one that is not empty.
const CLIENT: &str = "sandgate";
/// The metadata in which OpenKruise says namespace and name of the object.
const RESOURCE: &str = "e2b.agents.kruise.io/sandbox-resource";
/// The metadata in which OpenKruise says the address of the pod.
const IP: &str = "e2b.agents.kruise.io/sandbox-ip";
/// The header that says where the next page begins.
const NEXT: HeaderName = HeaderName::from_static("x-next-token");

/// The answer to a create or connect.
pub(super) fn sandbox(described: Described, place: &Place, settings: &ApiSettings) -> Sandbox {
    Sandbox {
        alias: described.template.clone(),
        template_id: described.template,
        sandbox_id: described.id,
        client_id: CLIENT.to_owned(),
        envd_version: settings.envd_version.clone(),
        envd_access_token: described.access_token.map(|token| token.reveal().to_owned()),
        traffic_access_token: described.traffic_token.map(|token| token.reveal().to_owned()),
        domain: place.domain.clone(),
    }
}

/// An entry of a list.
pub(super) fn listed(described: Described, place: &Place, settings: &ApiSettings) -> ListedSandbox {
    let mut metadata = described.metadata;
    if place.kruise {
        metadata.insert(RESOURCE.to_owned(), described.resource);
    }
    if let Some(ip) = described.ip {
        metadata.insert(IP.to_owned(), ip);
    }
    let ends = described.ends.unwrap_or_else(|| hundred_years_after(described.started));
    ListedSandbox {
        alias: described.template.clone(),
        template_id: described.template,
        sandbox_id: described.id,
        client_id: CLIENT.to_owned(),
        started_at: described.started.to_string(),
        end_at: ends.to_string(),
        cpu_count: cores(described.cpu_millis),
        memory_mb: described.memory_mb,
        disk_size_mb: described.disk_mb,
        state: match described.state {
            ShownState::Running => SandboxState::Running,
            ShownState::Paused => SandboxState::Paused,
        },
        envd_version: settings.envd_version.clone(),
        metadata,
    }
}

/// Everything that is known of a sandbox.
pub(super) fn detail(mut described: Described, place: &Place, settings: &ApiSettings) -> SandboxDetail {
    let network = described.network.take();
    let allow_public_traffic = described.traffic_token.take().map(|_| false);
    let has_rules = network.is_some() || allow_public_traffic.is_some();
    let network = has_rules.then(|| network.unwrap_or_default());
    SandboxDetail {
        envd_access_token: described.access_token.take().map(|token| token.reveal().to_owned()),
        allow_internet_access: described.allow_internet_access,
        domain: place.domain.clone(),
        network: network.map(|Network { allow_out, deny_out }| NetworkShown {
            allow_out,
            deny_out,
            allow_public_traffic,
        }),
        lifecycle: SandboxLifecycle {
            auto_resume: described.auto_resume,
            on_timeout: if described.auto_pause { OnTimeout::Pause } else { OnTimeout::Kill },
        },
        listed: listed(described, place, settings),
    }
}

/// A snapshot.
pub(super) fn snapshot(snapshot: Snapshot) -> SnapshotInfo {
    SnapshotInfo { snapshot_id: snapshot.id, names: snapshot.names }
}

/// A page of a list, with the header that says where the next one begins.
pub(super) fn page<T, U: Serialize>(page: Page<T>, shown: impl FnMut(T) -> U) -> Response {
    let items: Vec<U> = page.items.into_iter().map(shown).collect();
    let mut reply = Json(items).into_response();
    if let Some(next) = page.next.and_then(|next| HeaderValue::try_from(next).ok()) {
        reply.headers_mut().insert(NEXT, next);
    }
    reply
}

/// Whole cores. Half a core is one: a user who sees none thinks that there is none.
pub(super) fn cores(millis: u64) -> u64 {
    millis.div_ceil(1000)
}

fn hundred_years_after(time: Timestamp) -> Timestamp {
    let far = SignedDuration::try_from(FOREVER).unwrap_or(SignedDuration::MAX);
    time.checked_add(far).unwrap_or(Timestamp::MAX)
}
