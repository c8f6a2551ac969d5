//! What a user is told of a sandbox, and which sandboxes a user is told of.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use sandgate_cache::predicates::{has_ended, is_claimed, is_reserved_failed, phase, pod_ip, wants_pause};
use sandgate_cache::{Cache, Key, Seen};
use sandgate_objects::openkruise::names::{
    ANNOTATION_CLAIM_TIMESTAMP, ANNOTATION_RESTORE_FROM, LABEL_ALLOW_INTERNET, LABEL_SANDBOX_POOL,
    LABEL_SANDBOX_TEMPLATE, PHASE_PENDING,
};
use sandgate_objects::openkruise::resources::{
    PodTemplate, SandboxFacts, SandboxSet, SandboxTemplate, TemplateRef, Texts,
};
use sandgate_objects::openkruise::{ENVD_ACCESS_TOKEN, RUNTIME_ACCESS_TOKEN};
use sandgate_objects::quantity::{mebibytes, millis};
use sandgate_objects::{Kind as _, TRAFFIC_ACCESS_TOKEN};
use serde_json::Value;

use crate::names::ANNOTATION_GIVEN;
use crate::network::ANNOTATION_NETWORK;
use crate::timeouts::Deadlines;
use crate::{AccessToken, Described, Network, ShownState, Template};

/// The prefixes of labels and annotations that are no user's.
const RESERVED: [&str; 7] = [
    "agents.kruise.io/",
    "e2b.agents.kruise.io/",
    "sandbox.agents.kruise.io/",
    "security.agents.kruise.io/token-status",
    "sandgate.dev/",
    "kubectl.kubernetes.io/",
    "pod-template-hash",
];

/// The annotation of a sandbox whose maker asked to be told its pod's address.
pub(crate) const ANNOTATION_RETURN_IP: &str = "e2b.agents.kruise.io/return-sandbox-ip";

/// An annotation; empty if it is missing.
pub(crate) fn annotation<'a>(sandbox: &'a SandboxFacts, name: &str) -> &'a str {
    sandbox.annotation(name)
}

/// A label; empty if it is missing.
pub(crate) fn label<'a>(sandbox: &'a SandboxFacts, name: &str) -> &'a str {
    sandbox.label(name)
}

/// The traffic token, as a gateway reads it; empty if there is none.
pub(crate) fn traffic_token(sandbox: &SandboxFacts) -> &str {
    annotation(sandbox, TRAFFIC_ACCESS_TOKEN).trim()
}

/// The state that the owner of a sandbox sees; none if the owner does not see the sandbox.
///
/// A sandbox that is being made, has ended, or failed and is kept for inspection is not seen. One that is not
/// ready for a moment runs: its owner can do nothing about it, and it comes back.
pub(crate) fn shown(sandbox: &SandboxFacts, now: Timestamp) -> Option<ShownState> {
    let is_made = !matches!(phase(sandbox), "" | PHASE_PENDING);
    let is_seen = is_claimed(sandbox) && is_made && !has_ended(sandbox, now) && !is_reserved_failed(sandbox);
    is_seen.then(|| if wants_pause(sandbox) { ShownState::Paused } else { ShownState::Running })
}

/// When the sandbox was claimed, or else made.
pub(crate) fn started(sandbox: &SandboxFacts) -> Timestamp {
    let claimed = annotation(sandbox, ANNOTATION_CLAIM_TIMESTAMP).parse().ok();
    claimed.or(sandbox.created).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The lookup ID.
pub(crate) fn id(sandbox: &SandboxFacts) -> String {
    sandbox.id().map(|id| id.text).unwrap_or_default()
}

/// The name of the template that the sandbox was made from. The ID of a snapshot may have letters that no
/// label can have; then an annotation has it.
pub(crate) fn template_name(sandbox: &SandboxFacts) -> &str {
    let snapshot = annotation(sandbox, ANNOTATION_RESTORE_FROM);
    if snapshot.contains(['/', ':']) {
        return snapshot;
    }
    let template = label(sandbox, LABEL_SANDBOX_TEMPLATE);
    if template.is_empty() { label(sandbox, LABEL_SANDBOX_POOL) } else { template }
}

/// Whether the user said all of this of the sandbox: whether [`metadata`] has it.
pub(crate) fn says(cache: &Cache, sandbox: &Seen<SandboxFacts>, wanted: &BTreeMap<String, String>) -> bool {
    // Most sandboxes are out before anything of theirs is parsed.
    let has = |texts: &Texts, key: &str, value: &str| texts.get(key) == Some(value);
    let may = |(key, value): (&String, &String)| {
        has(&sandbox.annotations, key, value) || has(&sandbox.labels, key, value)
    };
    if wanted.is_empty() || !wanted.iter().all(may) {
        return wanted.is_empty();
    }
    let said = metadata(cache, sandbox);
    wanted.iter().all(|(key, value)| said.get(key) == Some(value))
}

fn is_reserved(key: &str) -> bool {
    RESERVED.iter().any(|prefix| key.starts_with(prefix))
}

/// What an owner is told of a sandbox. One that the owner does not see is told of as one that runs.
pub(crate) fn describe(cache: &Cache, sandbox: &Seen<SandboxFacts>, now: Timestamp) -> Described {
    let deadlines = Deadlines::of(sandbox);
    let state = shown(sandbox, now).unwrap_or(ShownState::Running);
    let token = [RUNTIME_ACCESS_TOKEN, ENVD_ACCESS_TOKEN].into_iter().map(|name| annotation(sandbox, name));
    let namespace = &sandbox.key.namespace;
    let (own, named) = (sandbox.template.as_ref(), sandbox.template_ref.as_deref());
    let size = Size::of(template_of(cache, namespace, own, named));
    let policy = sandbox.auto_pause_policy.as_ref().and_then(|policy| policy.parse().ok());
    let wakes = policy.is_some_and(|policy| {
        policy.pointer("/resume/onIngressTraffic").is_some_and(|traffic| !traffic.is_null())
    });
    let network = serde_json::from_str::<Network>(annotation(sandbox, ANNOTATION_NETWORK)).ok();
    let tells_ip = annotation(sandbox, ANNOTATION_RETURN_IP) == "true" && !pod_ip(sandbox).is_empty();
    Described {
        id: id(sandbox),
        resource: sandbox.key.to_string(),
        template: template_name(sandbox).to_owned(),
        state,
        started: started(sandbox),
        ends: if state == ShownState::Paused { deadlines.shutdown } else { deadlines.end() },
        auto_pause: deadlines.pause.is_some(),
        auto_resume: wakes,
        cpu_millis: size.cpu_millis,
        memory_mb: size.memory_mb,
        disk_mb: size.disk_mb,
        metadata: metadata(cache, sandbox),
        access_token: token.into_iter().find(|token| !token.is_empty()).map(AccessToken::new),
        traffic_token: Some(traffic_token(sandbox)).filter(|token| !token.is_empty()).map(AccessToken::new),
        allow_internet_access: label(sandbox, LABEL_ALLOW_INTERNET) != "false",
        network: network.filter(|network| *network != Network::default()),
        ip: tells_ip.then(|| pod_ip(sandbox).to_owned()),
    }
}

/// The user's own words: the annotations and labels that a create gave.
///
/// The claim has written down which these are. Where it has not (a claim by an older manager, or by a
/// SandboxClaim), they are those that neither the system nor the template of the set has, as far as the set
/// is still as it was.
fn metadata(cache: &Cache, sandbox: &Seen<SandboxFacts>) -> BTreeMap<String, String> {
    let own = Own::of(cache, sandbox);
    let mut said = BTreeMap::new();
    // An annotation goes before a label.
    for (kind, texts) in [("labels", &sandbox.labels), ("annotations", &sandbox.annotations)] {
        let is_own = |(key, value): &(&str, &str)| !is_reserved(key) && own.has(kind, key, value);
        said.extend(texts.iter().filter(is_own).map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
    said
}

/// How the user's own labels and annotations are told from the others.
enum Own {
    /// The claim has written their names down.
    Given(Value),
    /// They are not what this pod template has.
    Unlike(Value),
}

impl Own {
    fn of(cache: &Cache, sandbox: &Seen<SandboxFacts>) -> Self {
        let given = serde_json::from_str::<Value>(annotation(sandbox, ANNOTATION_GIVEN)).ok();
        if let Some(given) = given.filter(Value::is_object) {
            return Self::Given(given);
        }
        let (namespace, pool) = (&sandbox.key.namespace, label(sandbox, LABEL_SANDBOX_POOL));
        let set = cache.get::<SandboxSet>(&Key::new(namespace, pool)).filter(|_| !pool.is_empty());
        let template = set.and_then(|set| {
            template_of(cache, namespace, set.spec.template.as_ref(), set.spec.template_ref.as_ref())
        });
        Self::Unlike(template.unwrap_or_default())
    }

    /// Whether the user gave this one of the `labels` or `annotations`.
    fn has(&self, kind: &str, key: &str, value: &str) -> bool {
        match self {
            Self::Given(given) => {
                given[kind].as_array().is_some_and(|names| names.iter().any(|is| is == key))
            }
            Self::Unlike(template) => template["metadata"][kind][key].as_str() != Some(value),
        }
    }
}

/// The pod template, or that of the SandboxTemplate that is named.
pub(crate) fn template_of(
    cache: &Cache,
    namespace: &str,
    own: Option<&PodTemplate>,
    named: Option<&TemplateRef>,
) -> Option<Value> {
    if let Some(own) = own {
        return own.parse().ok();
    }
    let found = cache.get::<SandboxTemplate>(&Key::new(namespace, &named?.name))?;
    found.spec.template.as_ref()?.parse().ok()
}

/// What a pod may use: the sum of its containers' limits, or of their requests where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// CPU in thousandths of a core.
    pub(crate) cpu_millis: u64,
    /// Memory in MiB.
    pub(crate) memory_mb: u64,
    /// Disk in MiB.
    pub(crate) disk_mb: u64,
}

impl Size {
    /// The size of a pod of this template.
    pub(crate) fn of(template: Option<Value>) -> Self {
        let template = template.unwrap_or_default();
        let containers = template["spec"]["containers"].as_array().into_iter().flatten();
        let mut size = Self::default();
        for container in containers {
            let resources = &container["resources"];
            let amount = |name: &str| {
                let limit = &resources["limits"][name];
                if limit.is_null() { &resources["requests"][name] } else { limit }
            };
            let add = |sum: &mut u64, more: Option<u64>| *sum = sum.saturating_add(more.unwrap_or(0));
            add(&mut size.cpu_millis, millis(amount("cpu")));
            add(&mut size.memory_mb, mebibytes(amount("memory")));
            add(&mut size.disk_mb, mebibytes(amount("ephemeral-storage")));
        }
        size
    }
}

/// What a user is told of a template.
pub(crate) fn describe_template(cache: &Cache, set: &Seen<SandboxSet>) -> Template {
    let namespace = &set.key.namespace;
    let template = template_of(cache, namespace, set.spec.template.as_ref(), set.spec.template_ref.as_ref());
    let size = Size::of(template);
    let available = cache.count_available(Some(namespace), &set.key.name);
    Template {
        name: set.key.name.as_ref().to_owned(),
        namespace: namespace.as_ref().to_owned(),
        created: set.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        cpu_millis: size.cpu_millis,
        memory_mb: size.memory_mb,
        disk_mb: size.disk_mb,
        available: u64::try_from(available).unwrap_or(u64::MAX),
    }
}
