//! The command line. Each option is defined once, here, and may be given in the environment as well.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, ValueEnum};
use sandgate_cache::Key;
use sandgate_follow::Access;
use sandgate_objects::keys::{KEY_STORE, SYSTEM_NAMESPACE};
use sandgate_peering::{Credentials, PeerAddress, Peers};

use crate::{ApiSettings, NoInternet, Rate, Settings, SnapshotSettings};

/// The longest timeout of a sandbox: 30 days, as OpenKruise has it.
const MAX_TIMEOUT: u64 = 30 * 24 * 3600;

/// Serves the lifecycle API for E2B's SDK: creates, finds, pauses, resumes and kills sandboxes.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "sandgate-manager",
    version,
    max_term_width = 110,
    after_help = "\
Examples:
  sandgate-manager --listen 0.0.0.0:8080 --gateway service:sandgate/gateway
      In a pod: with the pod's own access, one of any number of replicas.
  sandgate-manager --kubeconfig ~/.kube/config --gateway http://127.0.0.1:7789
      On your machine, with one gateway beside it.
  sandgate keys create --name me
      A key for the API. Managers need no restart to know it.
  E2B_API_URL=http://127.0.0.1:8080 E2B_API_KEY=e2b_… python -c 'from e2b import Sandbox; Sandbox.create(\"my-set\")'
      A sandbox of the SandboxSet my-set.
  curl 127.0.0.1:8091/readyz
      What is missing until it can work, such as a CRD that is not installed.

A template is the name of a SandboxSet, or with --environments of a SandboxEnv. Replicas need no election: each serves every request, and the API server decides \
between them.

The API is served once every resource has been listed. Gateways that are named are told of every create, pause, resume \
and kill, and are waited for up to --push-wait; a gateway that is not told learns it from its own watch.

SIGTERM and SIGINT make /readyz fail, go on for --drain-delay, finish the requests under way within --drain-timeout and end \
with 0. A second one ends at once. The exit code is 2 if an option is wrong, and 1 if something could not start or ended."
)]
pub struct Args {
    /// Where the API is; port 0 for a free one, which is logged
    #[arg(long, env = "SANDGATE_MANAGER_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Where /healthz, /readyz and /metrics are
    #[arg(
        long,
        env = "SANDGATE_MANAGER_PROBE_LISTEN",
        value_name = "IP:PORT",
        default_value = "127.0.0.1:8091"
    )]
    pub probe_listen: SocketAddr,
    /// The certificate of the API, PEM; it is followed when it is replaced [default: no TLS]
    #[arg(long, env = "SANDGATE_MANAGER_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of the certificate, PEM
    #[arg(long, env = "SANDGATE_MANAGER_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The domain of sandboxes that the SDK is told [default: made from the Host of the request]
    #[arg(long, env = "SANDGATE_MANAGER_DOMAIN", value_name = "DOMAIN")]
    pub domain: Option<String>,
    /// How many requests a second each key may send in the long run; 0 is without limit
    #[arg(long, env = "SANDGATE_MANAGER_RATE", value_name = "N", default_value_t = 50)]
    pub rate: u32,
    /// How many it may send at once
    #[arg(long, env = "SANDGATE_MANAGER_BURST", value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: u32,

    /// The kubeconfig [default: the pod's own access, else KUBECONFIG or ~/.kube/config]
    #[arg(long, env = "SANDGATE_MANAGER_KUBECONFIG", value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, env = "SANDGATE_MANAGER_CONTEXT", value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
    /// Only sets and sandboxes of this namespace [default: all of them]
    #[arg(
        long,
        short = 'n',
        env = "SANDGATE_MANAGER_NAMESPACE",
        value_name = "NAME",
        help_heading = "Cluster"
    )]
    pub namespace: Option<String>,
    /// Only sets and sandboxes with these labels [default: all of them]
    #[arg(
        long,
        env = "SANDGATE_MANAGER_SELECTOR",
        value_name = "LABELS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Cluster"
    )]
    pub selector: String,
    /// The namespace of the managers' own objects: keys, quotas, markers of creates
    #[arg(long, env = "SANDGATE_MANAGER_SYSTEM_NAMESPACE", value_name = "NAME",
          default_value = SYSTEM_NAMESPACE, help_heading = "Cluster")]
    pub system_namespace: String,
    /// Whether something in the cluster executes checkpoints; without, snapshots are refused at once
    #[arg(long, env = "SANDGATE_MANAGER_SNAPSHOTS", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true",
          help_heading = "Cluster")]
    pub snapshots: bool,
    /// Whether the cluster has OpenKruise's TrafficPolicy; without, rules for a sandbox's network are refused
    #[arg(long, env = "SANDGATE_MANAGER_TRAFFIC_POLICIES", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true",
          help_heading = "Cluster")]
    pub traffic_policies: bool,
    /// The namespaces with a policy that cuts off pods labelled agents.kruise.io/allow-internet-access=false,
    /// or * for all; elsewhere allow_internet_access=False is refused [default: none]
    #[arg(
        long,
        env = "SANDGATE_MANAGER_NO_INTERNET_NAMESPACES",
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "Cluster"
    )]
    pub no_internet_namespaces: Vec<String>,

    /// Whether scitix's environments are served too (SandboxEnv of agents.navix.sh): a template may then be
    /// the name of one. It needs --local-cluster-id
    #[arg(long, env = "SANDGATE_MANAGER_ENVIRONMENTS", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true",
          help_heading = "Cluster")]
    pub environments: bool,
    /// The cluster that this is, as environments name it
    #[arg(long, env = "LOCAL_CLUSTER_ID", value_name = "NAME", help_heading = "Cluster")]
    pub local_cluster_id: Option<String>,

    /// The gateways to tell: http://HOST:PORT or https://HOST:PORT, may be repeated; or once
    /// service:NAMESPACE/NAME or dns:HOST, with :PORT or without [default: none, they watch by themselves]
    #[arg(
        long = "gateway",
        alias = "gateways",
        env = "SANDGATE_MANAGER_GATEWAY",
        value_name = "WHERE",
        value_delimiter = ',',
        help_heading = "Gateways"
    )]
    pub gateways: Vec<String>,
    /// How long a create, pause, resume or kill waits for the gateways to know it
    #[arg(long, env = "SANDGATE_MANAGER_PUSH_WAIT", value_name = "MS", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(..=60_000), help_heading = "Gateways")]
    pub push_wait: u64,
    /// Speak https with what service: or dns: finds
    #[arg(long, env = "SANDGATE_MANAGER_PUSH_HTTPS", requires = "push_ca", help_heading = "Gateways")]
    pub push_https: bool,
    /// The authorities of the gateways' certificates, PEM
    #[arg(long, env = "SANDGATE_MANAGER_PUSH_CA", value_name = "FILE", help_heading = "Gateways")]
    pub push_ca: Option<PathBuf>,
    /// A client certificate, PEM
    #[arg(long, env = "SANDGATE_MANAGER_PUSH_CERT", value_name = "FILE", requires_all = ["push_key", "push_ca"],
          help_heading = "Gateways")]
    pub push_cert: Option<PathBuf>,
    /// The key of the client certificate, PEM
    #[arg(
        long,
        env = "SANDGATE_MANAGER_PUSH_KEY",
        value_name = "FILE",
        requires = "push_cert",
        help_heading = "Gateways"
    )]
    pub push_key: Option<PathBuf>,
    /// A file with a bearer token
    #[arg(long, env = "SANDGATE_MANAGER_PUSH_TOKEN_FILE", value_name = "FILE", help_heading = "Gateways")]
    pub push_token_file: Option<PathBuf>,
    /// A shared key: its name and the file it is in
    #[arg(
        long,
        env = "SANDGATE_MANAGER_PUSH_HMAC_KEY",
        value_name = "ID=FILE",
        conflicts_with = "push_token_file",
        help_heading = "Gateways"
    )]
    pub push_hmac_key: Option<String>,

    /// The longest timeout of a sandbox
    #[arg(long, env = "SANDGATE_MANAGER_MAX_TIMEOUT", value_name = "SECONDS", default_value_t = MAX_TIMEOUT,
          value_parser = clap::value_parser!(u64).range(30..=3_153_600_000), help_heading = "Sandboxes")]
    pub max_timeout: u64,
    /// How long a create waits for a sandbox of an empty pool, unless it says otherwise
    #[arg(long, env = "SANDGATE_MANAGER_CLAIM_TIMEOUT", value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=3600), help_heading = "Sandboxes")]
    pub claim_timeout: u64,
    /// How long a create waits until its sandbox is ready, unless it says otherwise
    #[arg(long, env = "SANDGATE_MANAGER_READY_TIMEOUT", value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=3600), help_heading = "Sandboxes")]
    pub ready_timeout: u64,
    /// The port of the runtime (envd) in a pod
    #[arg(long, env = "SANDGATE_MANAGER_RUNTIME_PORT", value_name = "PORT", default_value_t = 49983,
          value_parser = clap::value_parser!(u16).range(1..), help_heading = "Sandboxes")]
    pub runtime_port: u16,

    /// Accept the keys of OpenKruise's Secret too; without a name, of e2b-key-store in the system namespace
    #[arg(long, env = "SANDGATE_MANAGER_OPENKRUISE_KEY_STORE", value_name = "NAME", num_args = 0..=1,
          require_equals = true, default_missing_value = KEY_STORE, help_heading = "Keys")]
    pub openkruise_key_store: Option<String>,
    /// Accept any key, and take everybody for one administrator: for a demo on this machine, and only there
    #[arg(long, env = "SANDGATE_MANAGER_INSECURE_NO_AUTH", help_heading = "Keys")]
    pub insecure_no_auth: bool,

    /// How long to go on serving after a signal, while others learn that this replica ends
    #[arg(long, env = "SANDGATE_MANAGER_DRAIN_DELAY", value_name = "SECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=600), help_heading = "Process")]
    pub drain_delay: u64,
    /// How long requests and creates under way may take after that, and whatever they take back
    #[arg(long, env = "SANDGATE_MANAGER_DRAIN_TIMEOUT", value_name = "SECONDS", default_value_t = 25,
          value_parser = clap::value_parser!(u64).range(..=3600), help_heading = "Process")]
    pub drain_timeout: u64,
    /// How much to log: error, warn, info, debug or trace, or a list such as info,sandgate_manager=debug
    #[arg(
        long,
        env = "SANDGATE_MANAGER_LOG",
        value_name = "LEVELS",
        default_value = "info",
        help_heading = "Process"
    )]
    pub log: String,
    /// How to log, on standard error
    #[arg(
        long,
        env = "SANDGATE_MANAGER_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text",
        help_heading = "Process"
    )]
    pub log_format: LogFormat,
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Options that do not fit together. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {reason}")]
pub struct ArgsError {
    option: &'static str,
    reason: String,
}

impl Args {
    /// Which cluster, and with which credentials.
    pub fn access(&self) -> Access {
        Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// Where the gateways are; none if none are told.
    ///
    /// # Errors
    /// If one of them cannot be read, or they are given in two ways.
    pub fn peers(&self) -> Result<Option<Peers>, ArgsError> {
        let wrong = |reason: String| ArgsError { option: "--gateway", reason };
        let found = |text: &str| {
            let (scheme, rest) = text.split_once(':')?;
            let peers = match scheme {
                "service" => Peers::service(rest, self.push_https, self.access()),
                "dns" => Peers::dns(rest, self.push_https),
                _ => return None,
            };
            Some(peers.map_err(|error| wrong(format!("{text}: {error} behind {scheme}:"))))
        };
        let peers = match self.gateways.as_slice() {
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
        Ok(Some(peers))
    }

    /// What the gateways know this process by.
    ///
    /// # Errors
    /// If the shared key is not `ID=FILE`.
    pub fn credentials(&self) -> Result<Credentials, ArgsError> {
        let hmac = self.push_hmac_key.as_deref().map(|text| {
            let reason = || "expected ID=FILE".to_owned();
            Credentials::named_key(text)
                .ok_or_else(|| ArgsError { option: "--push-hmac-key", reason: reason() })
        });
        Ok(Credentials {
            ca: self.push_ca.clone(),
            certificate: self.push_cert.clone().zip(self.push_key.clone()),
            token: self.push_token_file.clone(),
            hmac: hmac.transpose()?,
        })
    }

    /// The cluster that environments are served in, if they are.
    pub fn environments(&self) -> Option<&str> {
        self.local_cluster_id.as_deref().filter(|_| self.environments)
    }

    /// OpenKruise's Secret, if its keys are accepted.
    pub fn openkruise_keys(&self) -> Option<Key> {
        self.openkruise_key_store.as_ref().map(|name| Key::new(&self.system_namespace, name))
    }

    /// How the manager behaves.
    pub fn settings(&self) -> Settings {
        let usual = Settings::default();
        let max_timeout = Duration::from_secs(self.max_timeout);
        Settings {
            system_namespace: self.system_namespace.clone(),
            namespace: self.namespace.clone(),
            selector: self.selector.clone(),
            push_wait: Duration::from_millis(self.push_wait),
            claim_timeout: Duration::from_secs(self.claim_timeout),
            ready_timeout: Duration::from_secs(self.ready_timeout),
            // What a resume gives is a timeout too.
            min_resume_timeout: usual.min_resume_timeout.min(max_timeout),
            max_timeout,
            runtime_port: self.runtime_port,
            snapshots: SnapshotSettings { executor: self.snapshots, ..SnapshotSettings::default() },
            traffic_policies: self.traffic_policies,
            no_internet: NoInternet::enforced_in(&self.no_internet_namespaces),
            ..usual
        }
    }

    /// How the API behaves.
    pub fn api(&self) -> ApiSettings {
        ApiSettings {
            domain: self.domain.clone(),
            max_timeout: Duration::from_secs(self.max_timeout),
            rate: Rate { per_second: self.rate, burst: self.burst },
            ..ApiSettings::default()
        }
    }

    /// Looks for options that do not fit together.
    ///
    /// # Errors
    /// The first that is found.
    pub fn check(&self) -> Result<(), ArgsError> {
        self.peers()?;
        self.credentials()?;
        if self.insecure_no_auth && !self.listen.ip().is_loopback() {
            let reason = format!("only where nobody else can connect, and --listen is {}", self.listen);
            return Err(ArgsError { option: "--insecure-no-auth", reason });
        }
        let has_cluster = self.local_cluster_id.as_ref().is_some_and(|cluster| !cluster.is_empty());
        if self.environments && !has_cluster {
            let reason =
                "environments need --local-cluster-id: a manager serves those of its own cluster".to_owned();
            return Err(ArgsError { option: "--environments", reason });
        }
        let needs_ca = self.gateways.iter().any(|gateway| gateway.starts_with("https:"));
        if needs_ca && self.push_ca.is_none() {
            let reason = "an https gateway needs --push-ca".to_owned();
            return Err(ArgsError { option: "--gateway", reason });
        }
        Ok(())
    }
}
