//! The options of `sandgate keys`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use sandgate_objects::keys::Quota;

use crate::terminal::lesson;

/// Make, list, rotate and revoke the API keys of the manager, for E2B's SDK.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  export E2B_API_KEY=$(sandgate keys create --name me)
      A key for yourself. It is printed once, and nowhere kept.
  sandgate keys create --name ci --team web --namespace web --expires 30d \\
          --quota sandbox.count=10,limits.cpu=4,limits.memory=8Gi
      A key for templates of one namespace, with limits, for a month.
  sandgate keys list
  sandgate keys rotate 8c1f0a52-94c1-4d2e-9a53-0a6a5e1f7b11 --overlap 1h
      A new key with the same ID, and so the same sandboxes. The old one is good for an hour.
  sandgate keys revoke 8c1f0a52-94c1-4d2e-9a53-0a6a5e1f7b11

A key is a Secret in the system namespace, which has its SHA-256 and never the key. Every manager of the cluster watches \
these Secrets: what a command changes is true at once, without a restart. A sandbox belongs to the ID of the key that made it.

Exit code: 0 if it was done, 1 if not, 2 if the command line is wrong."))]
pub(crate) struct Keys {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

#[derive(Subcommand)]
pub(crate) enum KeysCommand {
    Create(Box<CreateKey>),
    List(ListKeys),
    Rotate(RotateKey),
    Revoke(RevokeKey),
}

/// Which cluster, and where in it.
#[derive(Args)]
pub(crate) struct Cluster {
    /// The kubeconfig [default: the pod's own access, else KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(crate) context: Option<String>,
    /// The namespace of the managers' own objects
    #[arg(
        long,
        value_name = "NAME",
        default_value = sandgate_objects::keys::SYSTEM_NAMESPACE,
        help_heading = "Cluster"
    )]
    pub(crate) system_namespace: String,
}

/// Make a key and print it, the only time
#[derive(Args)]
#[command(after_help = lesson("\
Standard output has the key and nothing else; what there is to know about it goes to standard error.

A quota limits what the key's sandboxes use together: sandbox.count, limits.cpu (4, 0.5 or 500m), limits.memory (512Mi, 8Gi). \
With :running behind the name, paused sandboxes do not count: sandbox.count:running=5.

A key of the team admin may also make, list and revoke keys by the API (/api-keys)."))]
pub(crate) struct CreateKey {
    /// What to call it; need not be unique
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// The team it belongs to
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) team: String,
    /// Only templates and sandboxes of this namespace [default: all that the manager sees]
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// What its sandboxes may use together
    #[arg(long, value_name = "NAME=AMOUNT,…")]
    pub(crate) quota: Option<Quota>,
    /// How long it is good: 90m, 12h, 30d, 52w [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) expires: Option<Duration>,
    /// Say nothing but the key
    #[arg(long, short = 'q', conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// Answer in JSON: the key and what there is to know about it
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
}

/// List the keys, without the keys themselves
#[derive(Args)]
pub(crate) struct ListKeys {
    /// Only those of this team
    #[arg(long, value_name = "NAME")]
    pub(crate) team: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
}

/// Put a new key in the place of one and print it, the only time; the ID stays
#[derive(Args)]
pub(crate) struct RotateKey {
    /// The ID of the key, or the beginning of one
    pub(crate) id: String,
    /// How long the old key is still good: 0s, 30m, 1h, 7d
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1h")]
    pub(crate) overlap: Duration,
    /// Say nothing but the key
    #[arg(long, short = 'q', conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// Answer in JSON: the key and what there is to know about it
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
}

/// End keys at once; their sandboxes stay until their timeouts
#[derive(Args)]
pub(crate) struct RevokeKey {
    /// The IDs of the keys, or their beginnings
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Answer in JSON: what was revoked
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
}

/// A number and its unit.
fn time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number and a unit: 90m, 12h, 30d, 52w".to_owned();
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
    let (number, unit) = text.split_at(at);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        "w" => 7 * 24 * 3600,
        _ => return Err(expected()),
    };
    let number: u64 = number.parse().map_err(|_| expected())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!(time("30d"), Ok(Duration::from_secs(30 * 86400)));
        assert_eq!(time("0s"), Ok(Duration::ZERO));
        for wrong in ["", "5", "d", "-1h", "1.5h", "1y", "99999999999999999999d", "9999999999999999999w"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
