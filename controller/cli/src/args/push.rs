//! The options of `sandgate push`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use sandgate_peering::PeerAddress;

use crate::terminal::lesson;

/// Push a route to gateways, as a manager does that pauses or deletes a sandbox.
#[derive(Args)]
#[command(
    override_usage = "sandgate push <--peer|--dns|--service> <--name|--stdin> [OPTIONS]",
    group = ArgGroup::new("where").args(["peers", "dns", "service"]).required(true),
    group = ArgGroup::new("what").args(["name", "stdin"]).required(true),
    after_help = lesson("\
Examples:
  sandgate push --peer http://127.0.0.1:7789 --hmac-key main=key.txt \\
          --namespace team --name demo --uid 8c1f --ip 10.244.1.7 \\
          --state running --resource-version 41
      Tell one gateway where a sandbox is. The id is team--demo unless --id says another.
  sandgate push --service sandgate/gateway --token-file push.token \\
          --namespace team --name demo --state dead --resource-version 42
      Tell every gateway behind a Service that it is gone.
  kubectl get ... -o json | jq -c ... | \\
          sandgate push --dns gateway.svc:7789 --https --ca ca.pem --stdin
      One message a line, as POST /refresh takes it:
          {\"namespace\":\"team\",\"name\":\"demo\",
           \"id\":\"team--demo\",\"uid\":\"8c1f\",
           \"ip\":\"10.244.1.7\",\"owner\":\"\",
           \"state\":\"running\",\"resourceVersion\":\"41\"}

The resource version is what puts messages in order: use the object's own. A gateway that knows something as new ignores \
the message, which counts as delivered. A gateway that does not watch the object's cluster lets its route go after \
refresh.lease-seconds, unless the same is pushed again before.

Prints what became of the message at each gateway; with --stdin, what went wrong, then a line for each.

Exit code: 0 if every gateway has everything, 1 if not, 2 if the command line, a file or a message is wrong.")
)]
pub(crate) struct Push {
    /// A gateway: http://HOST:PORT or https://HOST:PORT; may be repeated
    #[arg(long = "peer", value_name = "URL")]
    pub(crate) peers: Vec<PeerAddress>,
    /// Every address of a DNS name
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) dns: Option<String>,
    /// Every endpoint of a Kubernetes Service
    #[arg(long, value_name = "NAMESPACE/NAME[:PORT]")]
    pub(crate) service: Option<String>,
    /// Speak https with what --dns or --service finds
    #[arg(long, requires = "ca")]
    pub(crate) https: bool,
    /// The kubeconfig for --service; the pod's own credentials, KUBECONFIG or ~/.kube/config otherwise
    #[arg(long, value_name = "FILE", requires = "service")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The name in the certificate of each --peer, if it is not the host
    #[arg(long, value_name = "NAME", requires = "peers")]
    pub(crate) server_name: Option<String>,

    /// The authorities of the gateways' certificates, PEM
    #[arg(long, value_name = "FILE", help_heading = "Credentials")]
    pub(crate) ca: Option<PathBuf>,
    /// A client certificate, PEM
    #[arg(long, value_name = "FILE", requires_all = ["key", "ca"], help_heading = "Credentials")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Credentials")]
    pub(crate) key: Option<PathBuf>,
    /// A file with a bearer token
    #[arg(long, value_name = "FILE", help_heading = "Credentials")]
    pub(crate) token_file: Option<PathBuf>,
    /// A shared key: its name and the file it is in
    #[arg(long, value_name = "ID=FILE", conflicts_with = "token_file", help_heading = "Credentials")]
    pub(crate) hmac_key: Option<String>,

    /// Read messages from standard input, one JSON object a line
    #[arg(long, help_heading = "The route")]
    pub(crate) stdin: bool,
    /// The object's name
    #[arg(long, requires = "resource_version", help_heading = "The route")]
    pub(crate) name: Option<String>,
    /// The object's namespace
    #[arg(long, default_value = "default", help_heading = "The route")]
    pub(crate) namespace: String,
    /// What requests call it [default: NAMESPACE--NAME]
    #[arg(long, help_heading = "The route")]
    pub(crate) id: Option<String>,
    /// The object's UID; needed unless the state is dead
    #[arg(long, help_heading = "The route")]
    pub(crate) uid: Option<String>,
    /// The pod's address
    #[arg(long, help_heading = "The route")]
    pub(crate) ip: Option<IpAddr>,
    /// The state
    #[arg(long, default_value = "running", help_heading = "The route",
          value_parser = ["creating", "available", "running", "paused", "dead"])]
    pub(crate) state: String,
    /// The object's resource version
    #[arg(long, value_name = "N", requires = "name", help_heading = "The route")]
    pub(crate) resource_version: Option<String>,
    /// Whose it is
    #[arg(long, default_value = "", hide_default_value = true, help_heading = "The route")]
    pub(crate) owner: String,
    /// A file with the token that requests must carry
    #[arg(long, value_name = "FILE", help_heading = "The route")]
    pub(crate) access_token_file: Option<PathBuf>,
    /// A file with the token that requests must carry in e2b-traffic-access-token
    #[arg(long, value_name = "FILE", help_heading = "The route")]
    pub(crate) traffic_access_token_file: Option<PathBuf>,
    /// Refuse requests without a verified traffic token
    #[arg(long, help_heading = "The route")]
    pub(crate) require_traffic_auth: bool,

    /// How long to wait for the gateways, in milliseconds
    #[arg(long, default_value_t = 2000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub(crate) deadline: u64,
    /// Answer in JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}
