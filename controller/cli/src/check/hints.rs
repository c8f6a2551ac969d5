//! What helps, for everything that can be wrong.

use sandgate_watch::{Resource, Trouble};

/// The account that the files of `envoy/deploy/rbac` give rights to.
const ACCOUNT: &str = "system:serviceaccount:sandgate-system:sandgate";
const RBAC: &str = "envoy/deploy/rbac";
/// The providers with a file there.
const WITH_ROLE: [&str; 4] = ["openkruise", "agent-sandbox", "opensandbox", "sandbox-env"];

pub(super) fn config() -> &'static str {
    "name a kubeconfig with --kubeconfig or KUBECONFIG (and --context); in a pod there is none, and the service account's own \
     access is used"
}

pub(super) fn connection(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Config => config(),
        Trouble::Unreachable => {
            "is the address right, and does a firewall or network policy let this machine there? --timeout bounds the wait"
        }
        Trouble::Certificate => {
            "the `certificate-authority` of the kubeconfig did not sign this server's certificate, or the certificate is \
             for another name: take the kubeconfig anew from the cluster"
        }
        Trouble::Credentials => {
            "the token or certificate has expired, was revoked, or is of another cluster: log in again, or make another with\n\
             kubectl create token sandgate -n sandgate-system"
        }
        Trouble::Forbidden => "the API server knows you and says no: ask who runs the cluster",
        Trouble::Absent => "whatever answers there is no Kubernetes API server: is the address right?",
        Trouble::Busy => "the API server asks to come back later: run this again",
        Trouble::Other => "this is not what an API server says: is a proxy in between?",
    }
}

pub(super) fn anonymous() -> &'static str {
    "the kubeconfig's user has no token, certificate or command: a gateway would be nobody either"
}

pub(super) fn discovery(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Forbidden => {
            "every account has this right by default (system:discovery, system:basic-user): the cluster took it away. A \
             gateway does not need it"
        }
        trouble => connection(trouble),
    }
}

pub(super) fn not_installed() -> &'static str {
    "not a failure, since no --config and no --provider asked for it"
}

pub(super) fn definition(resource: &Resource) -> String {
    format!(
        "install the project whose sandboxes these are; a gateway waits until then, not ready. \
         To look: kubectl get crd {}.{}",
        resource.plural, resource.group
    )
}

pub(super) fn version(resource: &Resource, others: &str) -> String {
    format!("upgrade the project that brings {}, or read {others} by a `generic` provider", named(resource))
}

pub(super) fn right(provider: &str, resource: &Resource, namespace: Option<&str>, user: &str) -> String {
    if !WITH_ROLE.contains(&provider) {
        return format!(
            "copy {RBAC}/openkruise.yaml, put apiGroups: [{:?}] and resources: [{}] in, and apply that",
            resource.group, resource.plural
        );
    }
    let mut hint = format!("kubectl apply -f {RBAC}/{provider}.yaml");
    let role = format!("sandgate-{provider}");
    let to = match user.strip_prefix("system:serviceaccount:") {
        Some(account) => format!("--serviceaccount={account}"),
        None if user.is_empty() => "--user=NAME".to_owned(),
        None => format!("--user={}", quoted(user)),
    };
    match namespace {
        Some(namespace) => {
            hint = format!(
                "apply the ClusterRole of {RBAC}/{provider}.yaml, then\n\
                 kubectl create rolebinding {role} -n {namespace} --clusterrole={role} {to}"
            );
        }
        None if user != ACCOUNT => {
            hint.push_str(&format!(
                "\nIt binds the rights to the ServiceAccount sandgate of sandgate-system. For you as well:\n\
                 kubectl create clusterrolebinding {role}-too --clusterrole={role} {to}"
            ));
        }
        None => {}
    }
    hint
}

/// A list that failed, by what was said about it.
pub(super) fn list(error: &str) -> &'static str {
    if error.contains("a right is missing") {
        "the rights changed while this ran, or an admission layer in front of the API server has rules of its own"
    } else if error.contains("silent") {
        "the API server took too long: is it overloaded? --timeout gives it more time"
    } else {
        "a gateway tries again with growing waits: if this stays, look at the API server's log"
    }
}

pub(super) fn nothing_seen(resource: &Resource, namespace: Option<&str>, selector: &str) -> String {
    let place = namespace.map_or("-A".to_owned(), |name| format!("-n {name}"));
    let labels = if selector.is_empty() { String::new() } else { format!(" -l {}", quoted(selector)) };
    format!("to see what the API server has: kubectl get {} {place}{labels}", named(resource))
}

pub(super) fn unreadable() -> &'static str {
    "each has no route until its next change that can be read; the others are served. What is named is the field"
}

pub(super) fn pod_ranges() -> &'static str {
    "a gateway does not start with this provider before `pod-ranges` names the ranges of the cluster's pods"
}

pub(super) fn outside() -> &'static str {
    "they are known and not routed to. If pods are there, name their ranges in `pod-ranges`"
}

pub(super) fn shared_ids() -> &'static str {
    "several objects give one ID. One of them is served: the one whose own name it is, else the oldest; with `clash: refuse` none. Rename the others"
}

fn named(resource: &Resource) -> String {
    if resource.group.is_empty() {
        resource.plural.clone()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

/// A word for a shell.
fn quoted(text: &str) -> String {
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:=@/,".contains(&byte)) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
