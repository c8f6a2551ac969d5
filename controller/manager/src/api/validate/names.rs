//! Names as Kubernetes has them for the keys of labels and annotations.

use super::super::extract::shown;

/// `envVars.NAME`: where a wrong entry of a map stands.
pub(super) fn path(field: &str, key: &str) -> String {
    format!("{field}.{}", shown(key))
}

/// `[prefix/]name`: the name 1 to 63 of letters, digits, `-_.`, the prefix a DNS name.
pub(super) fn is_qualified(key: &str) -> bool {
    let Some((prefix, name)) = key.split_once('/') else { return is_part(key, b"-_.") };
    let label = |part: &str| is_part(part, b"-") && !part.bytes().any(|byte| byte.is_ascii_uppercase());
    is_part(name, b"-_.") && prefix.len() <= 253 && prefix.split('.').all(label)
}

/// The value of a label: nothing, or 1 to 63 of letters, digits, `-_.`.
pub(super) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_part(value, b"-_.")
}

fn is_part(text: &str, between: &[u8]) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || between.contains(byte))
}

/// Whether a key belongs to the cluster: nobody else may set it, and no sandbox shows it among its metadata.
pub(super) fn is_reserved(key: &str) -> bool {
    if matches!(key, "pod-template-hash" | "security.agents.kruise.io/token-status") {
        return true;
    }
    let Some((prefix, _)) = key.split_once('/') else { return false };
    let below = |domain: &str| {
        prefix == domain || prefix.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    };
    matches!(prefix, "agents.kruise.io" | "e2b.agents.kruise.io" | "sandbox.agents.kruise.io")
        || ["kubernetes.io", "k8s.io", "sandgate.dev"].into_iter().any(below)
}
