//! Where a sandbox may connect to.
//!
//! Whether it may reach the internet is a label, which a policy of the cluster enforces. Single rules are a
//! TrafficPolicy object of the sandbox's own. Where the cluster does not have that kind, nobody would enforce
//! them: a request that has rules is refused.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

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
use crate::{Caller, Error, ErrorKind, Network};

/// The annotation with the rules, to tell them to the owner.
pub(crate) const ANNOTATION_NETWORK: &str = "sandgate.dev/network";
/// The annotation of a policy with the ID of its sandbox.
const ANNOTATION_SANDBOX_ID: &str = "agents.kruise.io/sandbox-id";
const PLURAL: &str = "trafficpolicies";
/// How often a write is decided anew.
const TRIES: usize = 8;

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
    let rule = |action: &str, to: &[String]| {
        let to: Vec<_> = to.iter().map(|to| peer(to)).collect();
        (!to.is_empty()).then(|| json!({"action": action, "to": to}))
    };
    let lists = [rule("allow", &network.allow_out), rule("reject", &network.deny_out)];
    lists.into_iter().flatten().collect()
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
                   not be enforced; allow_internet_access works without them";
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
        if self.settings.traffic_policies {
            self.write_policy(&sandbox, network).await?;
        }
        let mut patch = json!({"metadata": {"annotations": {ANNOTATION_NETWORK: written(network)}}});
        if let Some(allow) = allow_internet_access {
            let labels = json!({LABEL_ALLOW_INTERNET: allow.to_string()});
            if sandbox.template.is_some() {
                patch["spec"]["template"]["metadata"]["labels"] = labels.clone();
            }
            patch["metadata"]["labels"] = labels;
        }
        self.change(caller, id, &sandbox, |_| Ok(Some(patch.clone()))).await?;
        Ok(())
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
        self.write_policy(sandbox, network).await?;
        let mut seen = self.newest(sandbox);
        for _ in 0..TRIES {
            let patch = json!({"metadata": {"annotations": {ANNOTATION_NETWORK: written(network)}}});
            match self.writes.patch(&seen, patch).await {
                Ok(_) => return Ok(()),
                Err(WriteError::Conflict(_) | WriteError::Unanswered(_) | WriteError::PutOff(_)) => {
                    let read = self.writes.read::<SandboxFacts>(&seen.key).await?;
                    let gone = || Error::new(ErrorKind::Conflict, "the sandbox is gone");
                    seen = read.filter(|read| read.uid == sandbox.uid).ok_or_else(gone)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::new(ErrorKind::Conflict, "the sandbox is changed all the time"))
    }

    /// Makes the policy of a sandbox say these rules, and not exist if there are none.
    async fn write_policy(&self, sandbox: &Seen<SandboxFacts>, network: &Network) -> Result<(), Error> {
        let path = path("agents.kruise.io", "v1alpha1", PLURAL, &sandbox.key.namespace);
        let name = policy_name(sandbox);
        let id = crate::describe::id(sandbox);
        for _ in 0..TRIES {
            let read = self.writes.other("get", PLURAL, request::get(&path, &name)).await;
            let known: Option<Value> = match read {
                Ok(text) => serde_json::from_str(&text).ok(),
                Err(WriteError::NotFound(_)) => None,
                Err(error) => return Err(error.into()),
            };
            let written = match (&known, network.is_empty()) {
                (None, true) => return Ok(()),
                (None, false) => {
                    let object = policy(sandbox, &id, network);
                    let request = request::create(&path, &object, "sandgate-manager");
                    self.writes.other("create", PLURAL, request).await
                }
                (Some(known), true) => {
                    let uid = known["metadata"]["uid"].as_str().map(str::to_owned);
                    let preconditions = Some(Preconditions { uid, resource_version: None });
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
                    let request =
                        Request::new(&path).patch(&name, &PatchParams::default(), &Patch::Merge(rules));
                    self.writes.other("patch", PLURAL, request.map_err(|error| unbuilt(&error))).await
                }
            };
            match written {
                Ok(_) => return Ok(()),
                // The next look says what is there.
                Err(
                    WriteError::Conflict(_)
                    | WriteError::NotFound(_)
                    | WriteError::AlreadyExists(_)
                    | WriteError::Unanswered(_),
                ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "the rules of the sandbox's network could not be written"))
    }
}

/// The rules as the annotation has them; null if there are none.
fn written(network: &Network) -> Option<String> {
    (!network.is_empty()).then(|| json!(network).to_string())
}

fn unbuilt(error: &kube::core::request::Error) -> WriteError {
    WriteError::Refused { code: 0, message: format!("cannot be asked for: {error}") }
}
