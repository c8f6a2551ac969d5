//! The options of the release of sandboxes that nobody uses.

use std::path::PathBuf;

use clap::Args;
use sandgate_follow::Access;
use sandgate_peering::{Credentials, PeerAddress, Peers};

/// Where it is known which sandboxes of environments are used.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Use of sandboxes (agents.navix.sh)")]
pub struct ActivityArgs {
    /// The gateways to ask which sandboxes are used, all of them: http://HOST:PORT or https://HOST:PORT, may
    /// be repeated; or once service:NAMESPACE/NAME or dns:HOST, with :PORT or without. While one of them does
    /// not answer, no sandbox is released for not being used. Without this option a sandbox counts as used
    /// when its annotation says so, or when it started, and by nothing that goes through a gateway
    #[arg(long, env = "SANDGATE_OPERATOR_GATEWAY_ACTIVITY", value_name = "WHERE", value_delimiter = ',')]
    pub gateway_activity: Vec<String>,
    /// Speak https with what service: or dns: finds
    #[arg(long, env = "SANDGATE_OPERATOR_GATEWAY_HTTPS", requires = "gateway_ca")]
    pub gateway_https: bool,
    /// The authorities of the gateways' certificates, PEM
    #[arg(long, env = "SANDGATE_OPERATOR_GATEWAY_CA", value_name = "FILE")]
    pub gateway_ca: Option<PathBuf>,
    /// A client certificate, PEM
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_GATEWAY_CERT",
        value_name = "FILE",
        requires_all = ["gateway_key", "gateway_ca"]
    )]
    pub gateway_cert: Option<PathBuf>,
    /// The key of the client certificate, PEM
    #[arg(long, env = "SANDGATE_OPERATOR_GATEWAY_KEY", value_name = "FILE", requires = "gateway_cert")]
    pub gateway_key: Option<PathBuf>,
    /// A file with a bearer token
    #[arg(long, env = "SANDGATE_OPERATOR_GATEWAY_TOKEN_FILE", value_name = "FILE")]
    pub gateway_token_file: Option<PathBuf>,
    /// A shared key: its name and the file it is in
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_GATEWAY_HMAC_KEY",
        value_name = "ID=FILE",
        conflicts_with = "gateway_token_file"
    )]
    pub gateway_hmac_key: Option<String>,
}

/// An option that cannot be used as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{option}: {reason}")]
pub struct ActivityArgsError {
    option: &'static str,
    reason: String,
}

fn wrong(reason: String) -> ActivityArgsError {
    ActivityArgsError { option: "gateway-activity", reason }
}

impl ActivityArgs {
    /// Where the gateways are; none if none are asked. Those behind a Service are looked up in the cluster of
    /// `access`.
    ///
    /// # Errors
    /// If one of them cannot be read, or they are given in two ways.
    pub fn gateways(&self, access: &Access) -> Result<Option<Peers>, ActivityArgsError> {
        let found = |text: &str| {
            let (scheme, rest) = text.split_once(':')?;
            let peers = match scheme {
                "service" => Peers::service(rest, self.gateway_https, access.clone()),
                "dns" => Peers::dns(rest, self.gateway_https),
                _ => return None,
            };
            Some(peers.map_err(|error| wrong(format!("{text}: {error} behind {scheme}:"))))
        };
        let peers = match self.gateway_activity.as_slice() {
            [] => return Ok(None),
            [only] if let Some(peers) = found(only) => peers?,
            several => {
                let address = |text: &String| match found(text) {
                    Some(_) => Err(wrong(format!("{text} cannot be used with others"))),
                    None => text
                        .parse::<PeerAddress>()
                        .map_err(|error| wrong(format!("{text}: {error}, service:… or dns:…"))),
                };
                Peers::Static(several.iter().map(address).collect::<Result<_, _>>()?)
            }
        };
        let has_https = self.gateway_activity.iter().any(|gateway| gateway.starts_with("https:"));
        if has_https && self.gateway_ca.is_none() {
            return Err(wrong("an https gateway needs --gateway-ca".to_owned()));
        }
        Ok(Some(peers))
    }

    /// What the gateways know this process by.
    ///
    /// # Errors
    /// If the shared key is not `ID=FILE`.
    pub fn credentials(&self) -> Result<Credentials, ActivityArgsError> {
        let hmac = self.gateway_hmac_key.as_deref().map(|text| {
            let reason = "expected ID=FILE".to_owned();
            Credentials::named_key(text).ok_or(ActivityArgsError { option: "gateway-hmac-key", reason })
        });
        Ok(Credentials {
            ca: self.gateway_ca.clone(),
            certificate: self.gateway_cert.clone().zip(self.gateway_key.clone()),
            token: self.gateway_token_file.clone(),
            hmac: hmac.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateways(all: &[&str]) -> Result<Option<Peers>, String> {
        let gateway_activity = all.iter().map(|&text| text.to_owned()).collect();
        let args = ActivityArgs { gateway_activity, ..ActivityArgs::default() };
        args.gateways(&Access::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn gateways_are_addresses_or_one_name() {
        assert!(gateways(&[]).unwrap().is_none());
        assert!(
            matches!(gateways(&["http://a:1", "http://b:2"]), Ok(Some(Peers::Static(all))) if all.len() == 2)
        );
        assert!(matches!(gateways(&["service:n/gateway"]), Ok(Some(Peers::Service { .. }))));
        assert!(matches!(gateways(&["dns:gateway:7789"]), Ok(Some(Peers::Dns { .. }))));
        for (wrong, part) in [
            (&["service:n/gateway", "http://a:1"][..], "cannot be used with others"),
            (&["https://a:1"], "needs --gateway-ca"),
            (&["http://"], "http://"),
            (&["service:gateway"], "behind service:"),
        ] {
            assert!(gateways(wrong).unwrap_err().contains(part), "{wrong:?}");
        }
    }
}
