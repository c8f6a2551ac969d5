//! The options of the controllers of OpenSandbox's kinds. The names are those of OpenSandbox's own operator,
//! so that its command line works here.

#[cfg(test)]
mod tests;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args};
use sandgate_objects::duration::go_duration;

/// Pools, batches and snapshots.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "OpenSandbox's kinds")]
pub struct OpenSandboxArgs {
    /// How many objects each of these controllers works on at a time: 32 batches and 16 pools where the list
    /// does not say
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_CONCURRENCY",
        value_name = "NAME=N;…",
        default_value = "batchsandbox=32;pool=16"
    )]
    pub concurrency: Concurrency,
    /// End with 1 if, at the start, a batch has an annotation about its allocation that cannot be read;
    /// without this, only that batch is left alone
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_STRICT_RECOVERY",
        value_name = "BOOL",
        value_parser = go_bool,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true"
    )]
    pub strict_recovery: bool,
    /// How many batches a pool gives pods to at a time
    #[arg(
        long,
        env = "SYNC_SANDBOX_ALLOC_CONCURRENCY",
        value_name = "N",
        default_value_t = 256,
        value_parser = clap::value_parser!(u16).range(1..=4096)
    )]
    pub alloc_concurrency: u16,
    /// How many pods a pool recycles at a time
    #[arg(
        long,
        env = "RECYCLE_POD_CONCURRENCY",
        value_name = "N",
        default_value_t = 64,
        value_parser = clap::value_parser!(u16).range(1..=4096)
    )]
    pub recycle_concurrency: u16,
    /// The namespace of this program, where the ConfigMap pool-assign-profiles is
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME", default_value = "opensandbox-system")]
    pub own_namespace: String,
    /// A file with the token that task-executors ask for [default: they ask for none]
    #[arg(long, env = "SANDGATE_OPERATOR_TASK_EXECUTOR_TOKEN_FILE", value_name = "FILE")]
    pub task_executor_token_file: Option<PathBuf>,
    /// The image of the Job that commits a snapshot
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_IMAGE_COMMITTER_IMAGE",
        value_name = "IMAGE",
        default_value = "image-committer:dev"
    )]
    pub image_committer_image: String,
    /// The socket of containerd on the nodes, for that Job
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_CONTAINERD_SOCKET_PATH",
        value_name = "PATH",
        default_value = "/var/run/containerd/containerd.sock"
    )]
    pub containerd_socket_path: String,
    /// How long that Job may take
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_COMMIT_JOB_TIMEOUT",
        value_name = "DURATION",
        default_value = "10m",
        value_parser = some_time
    )]
    pub commit_job_timeout: Duration,
    /// Where snapshots are pushed to; without one, none can be made
    #[arg(long, env = "SANDGATE_OPERATOR_SNAPSHOT_REGISTRY", value_name = "HOST/PATH", default_value = "")]
    pub snapshot_registry: String,
    /// Whether that registry has no TLS that can be checked
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_SNAPSHOT_REGISTRY_INSECURE",
        value_name = "BOOL",
        value_parser = go_bool,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true"
    )]
    pub snapshot_registry_insecure: bool,
    /// The Secret with the credentials for pushing, in the namespace of the batch
    #[arg(long, env = "SANDGATE_OPERATOR_SNAPSHOT_PUSH_SECRET", value_name = "NAME", default_value = "")]
    pub snapshot_push_secret: String,
    /// The Secret that the Job pulls its own image with, in the namespace of the batch
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_IMAGE_COMMITTER_PULL_SECRET",
        value_name = "NAME",
        default_value = ""
    )]
    pub image_committer_pull_secret: String,
    /// The Secret that a batch gets to pull its snapshot with
    #[arg(long, env = "SANDGATE_OPERATOR_RESUME_PULL_SECRET", value_name = "NAME", default_value = "")]
    pub resume_pull_secret: String,
    /// Where /healthz and /readyz are as well, as IP:PORT or :PORT; 0 for nowhere
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_HEALTH_PROBE_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = "0"
    )]
    pub health_probe_bind_address: Bind,
    /// Where /metrics is as well, as IP:PORT or :PORT; 0 for nowhere. Only with --metrics-secure=false: this
    /// program has no TLS for it
    #[arg(long, env = "SANDGATE_OPERATOR_METRICS_BIND_ADDRESS", value_name = "ADDRESS", default_value = "0")]
    pub metrics_bind_address: Bind,
    /// Whether --metrics-bind-address is to have TLS; with it nothing is served there
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_METRICS_SECURE",
        value_name = "BOOL",
        value_parser = go_bool,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    pub metrics_secure: bool,
    #[command(flatten)]
    pub(super) ignored: Ignored,
}

macro_rules! ignored {
    ($($field:ident: $name:literal, $why:literal;)*) => {
        /// Options of OpenSandbox's operator that mean nothing here. They are taken, so that its command line
        /// works, and the log says which of them have no effect, and why.
        #[derive(Clone, Debug, Default, Args)]
        pub(super) struct Ignored {
            $(
                #[arg(long = $name, hide = true, num_args = 0..=1, default_missing_value = "true")]
                $field: Option<String>,
            )*
        }

        impl Ignored {
            /// Those that were given: the name, and why it has no effect. An empty value is none.
            fn given(&self) -> Vec<(&'static str, &'static str)> {
                let all = [$((&self.$field, $name, $why)),*];
                let given = all.into_iter().filter(|(value, ..)| value.as_ref().is_some_and(|it| !it.is_empty()));
                given.map(|(_, name, why)| (name, why)).collect()
            }
        }
    };
}

ignored! {
    kube_client_qps: "kube-client-qps", "requests are not limited here: the API server's own fairness decides";
    kube_client_burst: "kube-client-burst", "requests are not limited here: the API server's own fairness decides";
    expectation_timeout: "expectation-timeout", "nothing is waited for: answers to writes count at once";
    metrics_cert_path: "metrics-cert-path", "metrics are served without TLS";
    metrics_cert_name: "metrics-cert-name", "metrics are served without TLS";
    metrics_cert_key: "metrics-cert-key", "metrics are served without TLS";
    webhook_cert_path: "webhook-cert-path", "there is no webhook";
    webhook_cert_name: "webhook-cert-name", "there is no webhook";
    webhook_cert_key: "webhook-cert-key", "there is no webhook";
    enable_http2: "enable-http2", "nothing is served with TLS";
    allow_weak_tls_keylengths: "allow-weak-tls-keylengths", "weak keys are never taken";
    enable_file_log: "enable-file-log", "the log goes to standard error: the node keeps and rotates it";
    log_file_path: "log-file-path", "the log goes to standard error: the node keeps and rotates it";
    log_max_size: "log-max-size", "the log goes to standard error: the node keeps and rotates it";
    log_max_backups: "log-max-backups", "the log goes to standard error: the node keeps and rotates it";
    log_max_age: "log-max-age", "the log goes to standard error: the node keeps and rotates it";
    log_compress: "log-compress", "the log goes to standard error: the node keeps and rotates it";
    task_executor_image: "task-executor-image", "the template of a pool or batch has the container of the tasks";
    image_committer_pod_template_file: "image-committer-pod-template-file", "the pod of the Job is always the same";
    zap_devel: "zap-devel", "see --log and --log-format";
    zap_encoder: "zap-encoder", "see --log-format";
    zap_log_level: "zap-log-level", "see --log";
    zap_stacktrace_level: "zap-stacktrace-level", "see --log";
    zap_time_encoding: "zap-time-encoding", "times are RFC 3339";
}

impl OpenSandboxArgs {
    /// Options that were given and have no effect: the name, and why.
    pub fn without_effect(&self) -> Vec<(&'static str, &'static str)> {
        let mut all = self.ignored.given();
        if self.metrics_bind_address.0.is_some() && self.metrics_secure {
            let why = "metrics are served without TLS: give --metrics-secure=false with it, or use --listen";
            all.push(("metrics-bind-address", why));
        }
        all
    }

    /// Where metrics are beside `--listen`. Nowhere if they were to have TLS, which is not there: what is
    /// asked for with TLS is not given without it.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_bind_address.0.filter(|_| !self.metrics_secure)
    }
}

/// How many objects each controller works on at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// The controller of batches.
    pub batch: usize,
    /// The controller of pools.
    pub pool: usize,
    /// The controller of snapshots.
    pub snapshot: usize,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { batch: 32, pool: 16, snapshot: 1 }
    }
}

impl FromStr for Concurrency {
    type Err = String;

    /// A list with semicolons; unknown names are ignored, as OpenSandbox's operator does.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut concurrency = Self::default();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, count) = part.split_once('=').ok_or_else(|| format!("{part}: expected NAME=N"))?;
            let count = count.trim().parse().ok().filter(|count| (1..=4096).contains(count));
            let count = count.ok_or_else(|| format!("{part}: expected a number from 1 to 4096"))?;
            match name.trim() {
                "batchsandbox" => concurrency.batch = count,
                "pool" => concurrency.pool = count,
                "sandboxsnapshot" => concurrency.snapshot = count,
                _ => {}
            }
        }
        Ok(concurrency)
    }
}

/// An address as Go writes it: `:8081` is that port of every address, IPv6 and IPv4, and `0` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind(pub Option<SocketAddr>);

impl FromStr for Bind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if matches!(text, "" | "0") {
            return Ok(Self(None));
        }
        let address = match text.strip_prefix(':') {
            Some(port) => port.parse().ok().map(|port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))),
            None => text.parse().ok(),
        };
        address.map(|address| Self(Some(address))).ok_or_else(|| "expected IP:PORT, :PORT or 0".to_owned())
    }
}

/// A truth value as Go writes it.
pub(super) fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// A duration as Go writes it, longer than nothing: `90s`, `10m`, `1h30m`, `1.5h`.
fn some_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text}: expected a duration such as 90s, 10m or 1h30m");
    go_duration(text).filter(|duration| !duration.is_zero()).ok_or_else(wrong)
}
