//! What an account asks the API server for, beside what it was given the right to.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::documents;
use crate::cluster::ClusterBuilder;

/// The audit log of a cluster.
#[derive(Clone, Debug)]
pub struct Audit {
    log: PathBuf,
}

impl Audit {
    /// Lets a cluster write down who asks for what, into this folder, and let nobody name an owner which he
    /// may not keep from being deleted.
    pub fn of(cluster: ClusterBuilder, folder: &Path) -> (ClusterBuilder, Self) {
        let (policy, log) = (folder.join("policy.yaml"), folder.join("audit.log"));
        let rules = json!([{ "level": "Metadata", "omitStages": ["RequestReceived"] }]);
        let text = json!({ "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules });
        fs::write(&policy, text.to_string()).expect("write");
        let cluster = cluster
            .api_flag(&format!("--audit-policy-file={}", policy.display()))
            .api_flag(&format!("--audit-log-path={}", log.display()))
            .api_flag("--audit-log-mode=blocking")
            .api_flag("--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
            // With streaming lists it is asked to list only when a watch broke.
            .api_flag("--feature-gates=WatchList=false");
        (cluster, Self { log })
    }

    /// `VERB RESOURCE[/SUBRESOURCE].GROUP` of what a user has asked for, and what of that was refused.
    pub fn asked(&self, user: &str) -> (BTreeSet<String>, Vec<String>) {
        let text = fs::read_to_string(&self.log).expect("the audit log");
        let (mut asked, mut refused) = (BTreeSet::new(), Vec::new());
        for line in text.lines() {
            // The last line may be one that is being written.
            let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
            let object = &entry["objectRef"];
            if entry["user"]["username"] != user || object["resource"].is_null() {
                continue;
            }
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let mut what = format!("{} {}", word(&entry["verb"]), word(&object["resource"]));
            if let Some(part) = object["subresource"].as_str() {
                what = format!("{what}/{part}");
            }
            let what = format!("{what}.{}", word(&object["apiGroup"]));
            if entry["responseStatus"]["code"] == 403 {
                refused.push(format!("{what}: {}", entry["responseStatus"]["message"]));
            }
            asked.insert(what);
        }
        (asked, refused)
    }
}

/// What the roles of a manifest grant, in the same words.
pub fn granted(manifest: &str) -> BTreeSet<String> {
    let mut granted = BTreeSet::new();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().expect("a list").iter().map(|text| text.as_str().expect("text").to_owned()).collect()
    };
    for object in documents(manifest) {
        for rule in object["rules"].as_array().into_iter().flatten() {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    granted.extend(
                        texts(&rule["verbs"]).iter().map(|verb| format!("{verb} {resource}.{group}")),
                    );
                }
            }
        }
    }
    granted
}
