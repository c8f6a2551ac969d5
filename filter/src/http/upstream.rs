//! What a sandbox gets of its request: who it is, what the client asked for, and no credential that was for
//! the gateway.

use envoy_proxy_dynamic_modules_rust_sdk::EnvoyHttpFilter;
use sandgate_request::{
    AUTHORIZATION, Address, Dialect, FilterConfig, Form, Forward, ForwardedName, Headers as _, Pass,
    SECURE_ACCESS,
};

use super::RequestHeaders;
use crate::cluster;

pub(super) const SANDBOX_UID: &str = "x-sandbox-uid";
/// OpenSandbox's headers that say where a request goes, perhaps with a signature.
const INGRESS: [&str; 2] = ["opensandbox-ingress-to", "open-sandbox-ingress"];
/// The key of OpenSandbox's server, which its SDK sends along with requests through the server.
const OPEN_SANDBOX_KEY: &str = "open-sandbox-api-key";
const AUTHORITY: &str = ":authority";

/// Makes the request the sandbox's.
pub(super) fn prepare<EHF: EnvoyHttpFilter>(
    envoy: &mut EHF,
    address: &Address,
    pass: Pass<'_>,
    config: &FilterConfig,
) {
    if address.rewrites_path() {
        rewrite_path(envoy, address, pass.is_closed);
    }
    if config.forward().changes() {
        forward_names(envoy, address, pass, config.forward());
    }
    if address.signature().is_some() && address.form() == Form::OpenSandboxHost {
        unsign_host(envoy, address, config.host_header());
    }
    // Asked before the first change, so that Envoy's headers are read once.
    let [id_sent, uid_sent, secret_sent, traffic_sent] =
        [cluster::SANDBOX_ID, SANDBOX_UID, SECURE_ACCESS, config.traffic_header()]
            .map(|name| envoy.get_request_header_value(name).is_some());
    let connection = RequestHeaders(envoy).with("connection", |value| value.and_then(without_identity));
    put(envoy, cluster::SANDBOX_ID, pass.route.id_bytes(), id_sent);
    put(envoy, SANDBOX_UID, pass.route.uid().as_bytes(), uid_sent);
    if secret_sent {
        envoy.remove_request_header(SECURE_ACCESS);
    }
    if traffic_sent {
        envoy.remove_request_header(config.traffic_header());
    }
    if pass.authorization_is_ours {
        envoy.remove_request_header(AUTHORIZATION);
    }
    if address.dialect() == Dialect::OpenSandbox {
        for name in INGRESS.into_iter().chain([OPEN_SANDBOX_KEY]) {
            envoy.remove_request_header(name);
        }
    }
    if let Some(value) = connection {
        envoy.set_request_header("connection", &value);
    }
}

/// Sets a header. Where the client has sent none there is nothing to replace, and adding costs Envoy less.
fn put<EHF: EnvoyHttpFilter>(envoy: &mut EHF, name: &str, value: &[u8], sent: bool) {
    if sent {
        envoy.set_request_header(name, value);
    } else {
        envoy.add_request_header(name, value);
    }
}

/// The names of the host: the client's, or the sandbox's own address, as the config says.
#[cold]
fn forward_names<EHF: EnvoyHttpFilter>(envoy: &mut EHF, address: &Address, pass: Pass<'_>, forward: Forward) {
    let target = pass.route.authority(address.port());
    if forward.forwarded_host {
        let host = RequestHeaders(envoy).with(AUTHORITY, |host| host.map(|host| unsigned(host, address)));
        if let Some(host) = host {
            envoy.set_request_header("x-forwarded-host", &host);
        }
    }
    if forward.origin == ForwardedName::Target && envoy.get_request_header_value("origin").is_some() {
        envoy.set_request_header("origin", &[b"http://", target.as_bytes()].concat());
    }
    if forward.host == ForwardedName::Target {
        envoy.set_request_header(AUTHORITY, target.as_bytes());
    }
}

/// Takes the signature out of the host, wherever it was read from: it was for the gateway.
#[cold]
fn unsign_host<EHF: EnvoyHttpFilter>(envoy: &mut EHF, address: &Address, header: &str) {
    for name in [header, AUTHORITY] {
        let host = RequestHeaders(envoy).with(name, |host| host.map(|host| unsigned(host, address)));
        if let Some(host) = host {
            envoy.set_request_header(name, &host);
        }
    }
}

/// A host without the signature that the address has from it.
fn unsigned(host: &[u8], address: &Address) -> Vec<u8> {
    let Some(signature) = address.signature() else { return host.to_vec() };
    let marked = [b"-", signature.expires_text(), b"-", signature.tag()].concat();
    match host.windows(marked.len()).position(|part| part == marked) {
        Some(at) => [&host[..at], &host[at + marked.len()..]].concat(),
        None => host.to_vec(),
    }
}

/// The value of `Connection` without the headers that tell the sandbox who it is, if it has any of them. A
/// server takes the headers that are named there for the last hop's and drops them. Envoy sends `Connection`
/// on with an upgrade.
fn without_identity(value: &[u8]) -> Option<Vec<u8>> {
    let is_identity = |option: &[u8]| {
        [cluster::SANDBOX_ID, SANDBOX_UID].iter().any(|name| option.eq_ignore_ascii_case(name.as_bytes()))
    };
    let options = || value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    options().any(is_identity).then(|| {
        let kept: Vec<&[u8]> =
            options().filter(|option| !option.is_empty() && !is_identity(option)).collect();
        kept.join(b", ".as_slice())
    })
}

/// Envoy's headers are borrowed from it, and setting one ends the borrow: the new path is copied first.
fn rewrite_path<EHF: EnvoyHttpFilter>(envoy: &mut EHF, address: &Address, is_closed: bool) {
    let rewritten = RequestHeaders(envoy).with(":path", |path| {
        path.and_then(|path| address.rewrite(path, is_closed)).map(|path| path.into_owned())
    });
    if let Some(path) = rewritten {
        envoy.set_request_header(":path", &path);
    }
}

#[cfg(test)]
mod tests {
    use super::without_identity;

    #[test]
    fn connection_keeps_all_its_options_but_the_headers_that_name_the_sandbox() {
        for (value, kept) in [
            ("Upgrade", None),
            ("keep-alive, Upgrade", None),
            ("", None),
            ("x-sandbox-identity", None),
            ("Upgrade, x-sandbox-id", Some("Upgrade")),
            ("X-Sandbox-UID ,Upgrade,,x-sandbox-ID, x-other", Some("Upgrade, x-other")),
            ("x-sandbox-uid", Some("")),
        ] {
            let expected = kept.map(|kept| kept.as_bytes().to_vec());
            assert_eq!(without_identity(value.as_bytes()), expected, "{value}");
        }
    }
}
