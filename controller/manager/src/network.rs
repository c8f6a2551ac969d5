//! Where a sandbox may connect to.
//!
//! Whether it may reach the internet is a label, which a policy of the cluster enforces. Single rules are a
//! TrafficPolicy object of the sandbox's own. Where the cluster has no such policy, or not that kind, nobody
//! would enforce them: a request for a sandbox without the internet is refused, and one that has rules.
//!
//! # Two updates at once
//! The annotation of the sandbox has the rules as their owner is shown them. The policy follows it:
//! 1. An update writes the annotation.
//! 2. It writes the policy by the annotation as it was last read.
//! 3. It reads the annotation again. If that has changed meanwhile, it goes on at step 2.
//!
//! Whoever writes the policy last reads the annotation after that write. If it differed, this was not the
//! last write. So when every update has ended the policy says what the annotation says.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Request;
use sandgate_cache::request::{self, path};
use sandgate_cache::{Seen, WriteError};
use sandgate_objects::openkruise::API_VERSION;
use sandgate_objects::openkruise::names::{LABEL_ALLOW_INTERNET, LABEL_SANDBOX_NAME};
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::{Value, json};

use crate::core::Core;
use crate::describe::annotation;
use crate::find::unread;
use crate::{Caller, Error, ErrorKind, Network};

/// The annotation with the rules, to tell them to the owner.
pub(crate) const ANNOTATION_NETWORK: &str = "sandgate.dev/network";
/// The annotation of a policy with the ID of its sandbox.
const ANNOTATION_SANDBOX_ID: &str = "agents.kruise.io/sandbox-id";
const PLURAL: &str = "trafficpolicies";
/// How often a write is decided anew.
const TRIES: usize = 8;
/// A rule of a policy has so many peers at most.
const PEERS: usize = 20;

impl Network {
    /// Whether it has no rule.
    pub fn is_empty(&self) -> bool {
        self.allow_out.is_empty() && self.deny_out.is_empty()
    }
}

/// One end of a rule.
fn peer(to: &str) -> Value {
    match to.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => json!({"cidr": format!("{ip}/32")}),
        Ok(IpAddr::V6(ip)) => json!({"cidr": format!("{ip}/128")}),
        Err(_) if to.parse::<IpNet>().is_ok() => json!({"cidr": to}),
        Err(_) => json!({"fqdn": to}),
    }
}

/// The rules, first the ones that allow.
fn rules(network: &Network) -> Vec<Value> {
    let lists = [("allow", &network.allow_out), ("reject", &network.deny_out)];
    let parts = lists.iter().flat_map(|(action, to)| to.chunks(PEERS).map(move |to| (action, to)));
    let rule = |(action, to): (&&str, &[String])| {
        let to: Vec<_> = to.iter().map(|to| peer(to)).collect();
        json!({"action": action, "to": to})
    };
    parts.map(rule).collect()
}

/// The policy of a sandbox. It ends with the sandbox.
fn policy(sandbox: &Seen<SandboxFacts>, id: &str, network: &Network) -> Value {
    let name = &*sandbox.key.name;
    json!({
        "apiVersion": API_VERSION,
        "kind": "TrafficPolicy",
        "metadata": {
            "name": policy_name(sandbox),
            "namespace": &*sandbox.key.namespace,
            "annotations": {ANNOTATION_SANDBOX_ID: id},
            "ownerReferences": [{
                "apiVersion": API_VERSION, "kind": "Sandbox", "name": name, "uid": &*sandbox.uid,
            }],
        },
        "spec": {
            "priority": 100,
            "selector": {"matchLabels": {LABEL_SANDBOX_NAME: name}},
            "egress": {"rules": rules(network)},
        },
    })
}

/// A name that another sandbox of the same name does not have.
fn policy_name(sandbox: &Seen<SandboxFacts>) -> String {
    format!("sandgate-{}", sandbox.uid)
}

/// The error where nobody would enforce rules.
pub(crate) fn unsupported() -> Error {
    let message = "network: this cluster has no TrafficPolicy objects, so rules for allowOut and denyOut would \
                   not be enforced";
    Error::new(ErrorKind::Unsupported, message)
}

impl Core {
    /// Changes where a sandbox may connect to.
    pub(crate) async fn update_network(
        &self,
        caller: &Caller,
        id: &str,
        network: &Network,
        allow_internet_access: Option<bool>,
    ) -> Result<(), Error> {
        let sandbox = self.seen_live(caller, id).await?;
        if !self.settings.traffic_policies && !network.is_empty() {
            return Err(unsupported());
        }
        self.settings.no_internet.check(&sandbox.key.namespace, allow_internet_access)?;
        let wanted = Shown {
            rules: written(network),
            internet: allow_internet_access.map(|allow| Some(allow.to_string())),
        };
        let mut before = Shown::of(&sandbox, &wanted);
        let decide = |now: &Seen<SandboxFacts>| {
            // A write without an answer may have been done.
            if Shown::of(now, &wanted) != wanted {
                before = Shown::of(now, &wanted);
            }
            Ok(Some(wanted.patch(now)))
        };
        let shown = self.change(caller, id, &sandbox, decide).await?;
        if !self.settings.traffic_policies {
            return Ok(());
        }
        match self.enforce(&shown).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::no_sandbox(id)),
            Err(error) if is_refusal(error.kind) => {
                // The cluster does not take these rules, so nobody is told that they hold.
                let back = |now: &Seen<SandboxFacts>| {
                    Ok((Shown::of(now, &wanted) == wanted).then(|| before.patch(now)))
                };
                if let Err(left) = self.change(caller, id, &shown, back).await {
                    tracing::warn!(sandbox = %shown.key, "shows rules that were refused: {left}");
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the rules of a sandbox down, for whoever enforces them and for its owner.
    pub(crate) async fn restrict(
        &self,
        sandbox: &Seen<SandboxFacts>,
        network: &Network,
    ) -> Result<(), Error> {
        if network.is_empty() {
            return Ok(());
        }
        if !self.settings.traffic_policies {
            return Err(unsupported());
        }
        let wanted = Shown { rules: written(network), internet: None };
        let gone = || Error::new(ErrorKind::Conflict, "the sandbox is gone");
        let mut seen = self.newest(sandbox);
        for _ in 0..TRIES {
            match self.writes.patch(&seen, wanted.patch(&seen)).await {
                Ok(shown) => return if self.enforce(&shown).await? { Ok(()) } else { Err(gone()) },
                Err(WriteError::Conflict(_) | WriteError::Unanswered(_) | WriteError::PutOff(_)) => {
                    let read = self.writes.read::<SandboxFacts>(&seen.key).await?;
                    seen = read.filter(|read| read.uid == sandbox.uid).ok_or_else(gone)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::new(ErrorKind::Conflict, "the sandbox is changed all the time"))
    }

    /// Makes the policy of a sandbox say what its annotation says: steps 2 and 3 of an update. False if the
    /// sandbox is gone.
    async fn enforce(&self, shown: &Arc<Seen<SandboxFacts>>) -> Result<bool, Error> {
        let mut seen = Arc::clone(shown);
        for _ in 0..TRIES {
            let is_written = self.write_policy(&seen, &told(&seen)?).await?;
            let read = self.writes.read::<SandboxFacts>(&seen.key).await.map_err(unread)?;
            let Some(read) = read.filter(|read| read.uid == seen.uid) else { return Ok(false) };
            let is_same = annotation(&read, ANNOTATION_NETWORK) == annotation(&seen, ANNOTATION_NETWORK);
            if is_written && is_same {
                return Ok(true);
            }
            seen = read;
        }
        let message = "the rules of the sandbox's network are not enforced yet: send them again";
        let retry_after = Some(Duration::from_secs(1));
        Err(Error { kind: ErrorKind::Unavailable, message: message.to_owned(), retry_after })
    }

    /// Makes the policy of a sandbox say these rules, and not exist if there are none. False if somebody else
    /// was faster, or if there was no answer.
    async fn write_policy(&self, sandbox: &Seen<SandboxFacts>, network: &Network) -> Result<bool, Error> {
        let path = path("agents.kruise.io", "v1alpha1", PLURAL, &sandbox.key.namespace);
        let name = policy_name(sandbox);
        let id = crate::describe::id(sandbox);
        let read = self.writes.other("get", PLURAL, request::get(&path, &name)).await;
        let known: Option<Value> = match read {
            Ok(text) => serde_json::from_str(&text).ok(),
            Err(WriteError::NotFound(_)) => None,
            Err(error @ WriteError::Refused { .. }) => return Err(error.into()),
            Err(error) => return Err(unread(error)),
        };
        let written = match (&known, network.is_empty()) {
            (None, true) => return Ok(true),
            (None, false) => {
                let object = policy(sandbox, &id, network);
                let request = request::create(&path, &object, "sandgate-manager");
                self.writes.other("create", PLURAL, request).await
            }
            (Some(known), true) => {
                // With the version: it may be another's rules by now.
                let text = |field: &str| known["metadata"][field].as_str().map(str::to_owned);
                let (uid, resource_version) = (text("uid"), text("resourceVersion"));
                let preconditions = Some(Preconditions { uid, resource_version });
                let parameters = DeleteParams { preconditions, ..DeleteParams::background() };
                let request = Request::new(&path).delete(&name, &parameters);
                self.writes.other("delete", PLURAL, request.map_err(|error| unbuilt(&error))).await
            }
            (Some(known), false) => {
                let version = &known["metadata"]["resourceVersion"];
                let rules = json!({
                    "metadata": {"resourceVersion": version},
                    "spec": {"egress": {"rules": rules(network)}},
                });
                let request = Request::new(&path).patch(&name, &PatchParams::default(), &Patch::Merge(rules));
                self.writes.other("patch", PLURAL, request.map_err(|error| unbuilt(&error))).await
            }
        };
        match written {
            Ok(_) => Ok(true),
            // It was a create, so what does not exist is the kind.
            Err(WriteError::NotFound(_)) if known.is_none() => Err(unsupported()),
            // The next look says what is there.
            Err(
                WriteError::Conflict(_)
                | WriteError::NotFound(_)
                | WriteError::AlreadyExists(_)
                | WriteError::Unanswered(_),
            ) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// What a sandbox says of its network. What is not there is to be removed.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    /// The rules, as the annotation has them.
    rules: Option<String>,
    /// The label that says whether it may reach the internet; none leaves it alone.
    internet: Option<Option<String>>,
}

impl Shown {
    /// What the sandbox says of what `wanted` is about.
    fn of(sandbox: &SandboxFacts, wanted: &Self) -> Self {
        let label = sandbox.labels.get(LABEL_ALLOW_INTERNET).map(str::to_owned);
        Self {
            rules: sandbox.annotations.get(ANNOTATION_NETWORK).map(str::to_owned),
            internet: wanted.internet.as_ref().map(|_| label),
        }
    }

    /// The merge patch that makes the sandbox say this.
    fn patch(&self, sandbox: &SandboxFacts) -> Value {
        let mut patch = json!({"metadata": {"annotations": {ANNOTATION_NETWORK: self.rules}}});
        if let Some(internet) = &self.internet {
            let labels = json!({LABEL_ALLOW_INTERNET: internet});
            if sandbox.template.is_some() {
                patch["spec"]["template"]["metadata"]["labels"] = labels.clone();
            }
            patch["metadata"]["labels"] = labels;
        }
        patch
    }
}

/// Whether the cluster does not take what it was asked for, however often it is sent.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Internal)
}

/// The rules that the annotation of a sandbox has.
///
/// # Errors
/// It cannot be read. To take it for none would open the sandbox.
fn told(sandbox: &SandboxFacts) -> Result<Network, Error> {
    let unreadable = |error: serde_json::Error| {
        let message = format!("{ANNOTATION_NETWORK} of the sandbox cannot be read: {error}");
        Error::new(ErrorKind::Internal, message)
    };
    match annotation(sandbox, ANNOTATION_NETWORK) {
        "" => Ok(Network::default()),
        text => serde_json::from_str(text).map_err(unreadable),
    }
}

/// The rules as the annotation has them; null if there are none.
fn written(network: &Network) -> Option<String> {
    (!network.is_empty()).then(|| json!(network).to_string())
}

fn unbuilt(error: &kube::core::request::Error) -> WriteError {
    WriteError::Refused { code: 0, message: format!("cannot be asked for: {error}") }
}
