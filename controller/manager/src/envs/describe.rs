//! What a user is told of a sandbox of an environment, and of an environment.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use jiff::Timestamp;
use sandgate_cache::{Cache, Key, Seen};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPhase, SandboxPool};

use super::pods::pool_of;
use crate::describe::Size;
use crate::timeouts::after;
use crate::{AccessToken, Described, Filter, ShownState, Template};

/// The runtime that speaks E2B's protocol, as pools name it, and its usual port.
const E2B: (&str, u16) = ("e2b", 49983);

/// Whether its owner sees the sandbox: it starts, or runs.
pub(super) fn is_shown(pod: &EnvPod) -> bool {
    let is_its = matches!(pod.sandbox_phase(), SandboxPhase::Starting | SandboxPhase::Running);
    is_its && !pod.is_deleting() && !pod.sandbox_id().is_empty()
}

/// When the sandbox was claimed. It does not change while the sandbox lives.
pub(super) fn started(pod: &EnvPod) -> Timestamp {
    pod.time(names::ANNOTATION_CLAIMED_AT).unwrap_or_else(|| pod.created())
}

/// The time without use after which it is released; none is never.
pub(super) fn idle_timeout(pod: &EnvPod) -> Option<Duration> {
    let seconds: u64 = pod.annotation(names::ANNOTATION_IDLE_TIMEOUT).parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// When it is released if nobody uses it; none is never.
pub(super) fn ends(pod: &EnvPod) -> Option<Timestamp> {
    let used = pod.time(names::ANNOTATION_LAST_ACTIVE).unwrap_or_else(|| started(pod));
    idle_timeout(pod).map(|timeout| after(used, timeout))
}

/// The environment of the sandbox; the pool, if that is nobody's.
pub(super) fn template_name(cache: &Cache, pod: &Seen<EnvPod>) -> String {
    let label = pod.label(names::LABEL_ENV);
    if !label.is_empty() {
        return label.to_owned();
    }
    let pool = cache.get::<SandboxPool>(&pool_of(pod));
    let env = pool.as_deref().map(|pool| pool.env().to_owned()).filter(|env| !env.is_empty());
    env.unwrap_or_else(|| pod.pool().to_owned())
}

/// The user's own words.
fn metadata(pod: &EnvPod) -> BTreeMap<String, String> {
    serde_json::from_str(pod.annotation(names::ANNOTATION_METADATA)).unwrap_or_default()
}

/// The token of its runtime; empty if it has none.
pub(super) fn token(pod: &EnvPod) -> &str {
    pod.annotation(names::ANNOTATION_ACCESS_TOKEN)
}

/// The token without which nobody reaches it, as a gateway reads it; empty if it is open.
fn traffic_token(pod: &EnvPod) -> &str {
    pod.annotation(names::ANNOTATION_TRAFFIC_ACCESS_TOKEN).trim()
}

/// Whether a pod is a sandbox that holds resources, or gives them back. An idle one is nobody's.
pub(crate) fn is_live(pod: &EnvPod) -> bool {
    is_shown(pod) || (pod.sandbox_phase() == SandboxPhase::Failed && !pod.sandbox_id().is_empty())
}

/// The size of a pod of a pool.
pub(crate) fn size_of_pod(cache: &Cache, pod: &Seen<EnvPod>) -> Size {
    cache.get::<SandboxPool>(&pool_of(pod)).map(|pool| size_of(&pool)).unwrap_or_default()
}

/// The size of a pool's pods.
pub(super) fn size_of(pool: &SandboxPool) -> Size {
    Size::of(pool.spec.template.as_ref().and_then(|template| template.parse().ok()))
}

/// The port of the runtime that speaks E2B's protocol; none if the pool has no such runtime.
pub(super) fn e2b_port(pool: &SandboxPool) -> Option<u16> {
    let runtime = pool.spec.runtimes.iter().find(|runtime| runtime.name == E2B.0)?;
    Some(runtime.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0).unwrap_or(E2B.1))
}

/// Where that runtime of a pod is; none if there is none, or no address yet.
pub(super) fn e2b_at(cache: &Cache, pod: &Seen<EnvPod>) -> Option<SocketAddr> {
    let port = e2b_port(&cache.get::<SandboxPool>(&pool_of(pod))?.object)?;
    let ip: IpAddr = pod.ip.as_deref()?.parse().ok()?;
    Some(SocketAddr::new(ip, port))
}

/// What a user is told of a sandbox.
pub(super) fn describe(cache: &Cache, pod: &Seen<EnvPod>) -> Described {
    let size = size_of_pod(cache, pod);
    Described {
        id: pod.sandbox_id().to_owned(),
        resource: pod.key.to_string(),
        template: template_name(cache, pod),
        state: ShownState::Running,
        started: started(pod),
        ends: ends(pod),
        auto_pause: false,
        auto_resume: false,
        cpu_millis: size.cpu_millis,
        memory_mb: size.memory_mb,
        disk_mb: size.disk_mb,
        metadata: metadata(pod),
        access_token: Some(token(pod)).filter(|token| !token.is_empty()).map(AccessToken::new),
        traffic_token: Some(traffic_token(pod)).filter(|token| !token.is_empty()).map(AccessToken::new),
        allow_internet_access: true,
        network: None,
        ip: None,
    }
}

/// Whether a list with this filter has the sandbox.
pub(super) fn fits(cache: &Cache, pod: &Seen<EnvPod>, filter: &Filter) -> bool {
    let says = || {
        let said = metadata(pod);
        filter.metadata.iter().all(|(key, value)| said.get(key) == Some(value))
    };
    is_shown(pod)
        && (filter.states.is_empty() || filter.states.contains(&ShownState::Running))
        && filter.template.as_deref().is_none_or(|template| template == template_name(cache, pod))
        && filter.started_after.is_none_or(|after| started(pod) > after)
        && (filter.metadata.is_empty() || says())
}

/// What a user is told of an environment: the size of its first pool, and what waits in all of them here.
pub(super) fn describe_env(cache: &Cache, cluster: &str, env: &Seen<SandboxEnv>) -> Template {
    let namespace = &env.key.namespace;
    let members = env.spec.members_in(cluster);
    let pools = members.iter().map(|member| Key::new(namespace, &member.name));
    let known: Vec<_> = pools.filter_map(|key| cache.get::<SandboxPool>(&key)).collect();
    let size = known.first().map(|pool| size_of(pool)).unwrap_or_default();
    let available: usize = known.iter().map(|pool| cache.count_idle_pods(&pool.key)).sum();
    Template {
        name: env.key.name.as_ref().to_owned(),
        namespace: namespace.as_ref().to_owned(),
        created: env.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        cpu_millis: size.cpu_millis,
        memory_mb: size.memory_mb,
        disk_mb: size.disk_mb,
        available: u64::try_from(available).unwrap_or(u64::MAX),
    }
}
