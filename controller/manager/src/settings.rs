//! What an operator may set of the manager's behaviour. The flags of `sandgate-manager` fill it in.

use std::time::Duration;

use crate::{Error, ErrorKind};

/// For ever, as OpenKruise writes it in an object: a hundred years.
pub const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How the manager behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of the manager's own objects: keys, quotas, markers of creates.
    pub system_namespace: String,
    /// The namespace that the manager works in; none is all of them.
    pub namespace: Option<String>,
    /// The labels of the sandboxes that the manager looks after; empty is all of them.
    pub selector: String,
    /// How long a create, pause, resume or kill waits for the gateways to have the route.
    pub push_wait: Duration,
    /// How long a create waits for a sandbox of the pool, unless it says otherwise.
    pub claim_timeout: Duration,
    /// How long a create waits until the sandbox is ready, unless it says otherwise.
    pub ready_timeout: Duration,
    /// How long a pause may take.
    pub pause_timeout: Duration,
    /// How long a resume may take.
    pub resume_timeout: Duration,
    /// A resume gives a sandbox that ends or pauses by itself at least so long.
    pub min_resume_timeout: Duration,
    /// The longest timeout of a sandbox.
    pub max_timeout: Duration,
    /// The port of the runtime in a pod.
    pub runtime_port: u16,
    /// What is known of who executes checkpoints.
    pub snapshots: SnapshotSettings,
    /// Whether the cluster has TrafficPolicy objects. Without them rules for a sandbox's network are refused.
    pub traffic_policies: bool,
    /// Where a sandbox can be without access to the internet.
    pub no_internet: NoInternet,
    /// How many creates may wait for pods of one pool of an environment. What comes then is told to come
    /// later.
    pub env_line: usize,
    /// How long an entry of a quota's ledger lives without a sandbox.
    pub quota_grace: Duration,
}

/// The namespaces with a policy for sandboxes that may not reach the internet. The policy is whoever runs the
/// cluster's: the manager writes a label that it selects. Elsewhere the label would be a promise that nobody
/// keeps, so whoever asks for it is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoInternet(Vec<String>);

impl NoInternet {
    /// What stands for every namespace.
    const ALL: &str = "*";

    /// The policy is in these namespaces; `*` is all of them.
    pub fn enforced_in(namespaces: &[String]) -> Self {
        Self(namespaces.to_vec())
    }

    /// Whether a sandbox of this namespace is held to what it was asked to be.
    ///
    /// # Errors
    /// It is to be without the internet, and nobody would keep it from there.
    pub fn check(&self, namespace: &str, allow_internet_access: Option<bool>) -> Result<(), Error> {
        let is_enforced = || self.0.iter().any(|name| name == Self::ALL || name == namespace);
        if allow_internet_access != Some(false) || is_enforced() {
            return Ok(());
        }
        let message = format!(
            "allow_internet_access: nothing in the namespace {namespace} keeps sandboxes from the internet, so false \
             would not be enforced. Whoever runs the cluster can change that"
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// What the manager knows of who executes checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// Something in the cluster executes checkpoints. If not, snapshots are refused at once.
    pub executor: bool,
    /// A checkpoint whose status is empty for so long is one that nobody executes.
    pub start_wait: Duration,
    /// How long a snapshot may take, unless the request says otherwise.
    pub wait: Duration,
}

impl Default for SnapshotSettings {
    fn default() -> Self {
        Self { executor: true, start_wait: Duration::from_secs(10), wait: Duration::from_secs(60) }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            system_namespace: "sandgate-system".to_owned(),
            namespace: None,
            selector: String::new(),
            push_wait: Duration::from_millis(500),
            claim_timeout: Duration::from_secs(60),
            ready_timeout: Duration::from_secs(60),
            pause_timeout: Duration::from_secs(60),
            resume_timeout: Duration::from_secs(600),
            min_resume_timeout: Duration::from_secs(300),
            max_timeout: Duration::from_secs(30 * 24 * 3600),
            runtime_port: 49983,
            snapshots: SnapshotSettings::default(),
            traffic_policies: false,
            no_internet: NoInternet::default(),
            env_line: 8192,
            quota_grace: Duration::from_secs(600),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_can_be_without_the_internet_only_where_a_policy_keeps_it_from_there() {
        let of = |names: &[&str]| {
            NoInternet::enforced_in(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        for (names, namespace, allow, is_fine) in [
            (&[][..], "a", Some(false), false),
            (&["a", "b"], "b", Some(false), true),
            (&["a", "b"], "c", Some(false), false),
            (&["a"], "ab", Some(false), false),
            (&["*"], "c", Some(false), true),
            (&[""], "c", Some(false), false),
            (&[], "a", Some(true), true),
            (&[], "a", None, true),
        ] {
            let checked = of(names).check(namespace, allow);
            assert_eq!(checked.is_ok(), is_fine, "{names:?} {namespace} {allow:?}");
            let Err(error) = checked else { continue };
            assert_eq!(error.kind, ErrorKind::Unsupported);
            assert!(error.message.contains(&format!("the namespace {namespace} ")), "{}", error.message);
        }
    }
}
