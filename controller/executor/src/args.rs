//! The command line. Each option is defined once, here; OpenSandbox's have its names, variables and defaults.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Parser};

use crate::log::LogSettings;

const DATA_DIR: &str = "/var/lib/sandbox/tasks";
const LISTEN: &str = "0.0.0.0:5758";
const MAIN: &str = "main";

/// Runs the tasks of a sandbox inside its pod, as OpenSandbox's task executor does.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "task-executor",
    version,
    max_term_width = 110,
    after_help = "\
Examples:
  task-executor
      As the pod's main program, or beside it: tasks run in this container.
  task-executor --enable-sidecar-mode --main-container-name app
      Tasks run in the container whose processes have SANDBOX_MAIN_CONTAINER=app in their environment. The pod needs
      shareProcessNamespace: true, and this container CAP_SYS_ADMIN and CAP_SYS_PTRACE.
  task-executor --data-dir /tmp/tasks --listen-addr 127.0.0.1:5758
      On your machine. Then:
  curl -d '[{\"name\":\"hello\",\"process\":{\"command\":[\"echo\",\"hello\"]}}]' 127.0.0.1:5758/setTasks
      Starts a task. Its output is in /tmp/tasks/hello/stdout.log.
  curl 127.0.0.1:5758/getTasks
      What has become of it.
  curl -d '[]' 127.0.0.1:5758/setTasks
      Ends it, if it runs, and removes it.

A flag beats its environment variable. An option may be written with one dash, as in OpenSandbox's manifests.

SIGTERM and SIGINT end it once the requests under way are answered. Tasks run on, and the next executor on the same \
data folder finds them; but where it is the first process of its container, they end with it. The exit code is 2 if an \
option is wrong, and 1 if something could not start."
)]
pub struct Args {
    /// Where tasks are kept; it must outlive this process, and its file system must have hard links
    #[arg(long, env = "DATA_DIR", value_name = "FOLDER", default_value = DATA_DIR, value_parser = or(DATA_DIR))]
    pub data_dir: String,
    /// Where to listen; `:5758` is every address, and port 0 a free one, which is logged
    #[arg(long, env = "LISTEN_ADDR", value_name = "IP:PORT", default_value = LISTEN, value_parser = address)]
    pub listen_addr: String,
    /// For tasks that are containers, which are not implemented: accepted, and not used
    #[arg(
        long,
        env = "CRI_SOCKET",
        value_name = "FILE",
        default_value = "/var/run/containerd/containerd.sock"
    )]
    pub cri_socket: String,
    /// Run tasks in the pod's main container instead of this one
    #[arg(
        long,
        env = "ENABLE_SIDECAR_MODE",
        value_name = "BOOL",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = switch
    )]
    pub enable_sidecar_mode: bool,
    /// Which container is the main one: the value of SANDBOX_MAIN_CONTAINER in its environment
    #[arg(long, env = "MAIN_CONTAINER_NAME", value_name = "NAME", default_value = MAIN, value_parser = or(MAIN))]
    pub main_container_name: String,
    /// Answer only requests with a bearer token of this file, one token a line; /health needs none
    #[arg(long, env = "TOKEN_FILE", value_name = "FILE", value_parser = or(""))]
    pub token_file: Option<String>,
    /// Only copy this program to FILE, which an init container does for a container whose image lacks it
    #[arg(long, value_name = "FILE")]
    pub install: Option<PathBuf>,
    /// Log to the file task-executor.log in this folder [default: to standard output]
    #[arg(long, value_name = "FOLDER")]
    pub log_dir: Option<PathBuf>,
    /// When the log's file is full, in MB
    #[arg(long, value_name = "MB", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub log_max_size: u64,
    /// How many full files of the log are kept
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub log_max_backups: usize,
    /// For how many days full files of the log are kept; 0 for ever
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    pub log_max_age: u32,
}

impl Args {
    /// What was typed, with two dashes before every long option: Go's flags have one or two.
    pub fn with_two_dashes(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
        let fixed = |word: OsString| match word.to_str() {
            Some(text) if text.len() > 2 && text.starts_with('-') && !text.starts_with("--") => {
                format!("-{text}").into()
            }
            _ => word,
        };
        words.into_iter().map(fixed).collect()
    }

    /// The file of the log, if it goes to one.
    pub fn log_file(&self) -> Option<LogSettings> {
        Some(LogSettings {
            folder: self.log_dir.clone()?,
            most_bytes: self.log_max_size.saturating_mul(1_000_000),
            backups: self.log_max_backups,
            days: self.log_max_age,
        })
    }

    /// The main container, in sidecar mode.
    pub(crate) fn main_container(&self) -> Option<String> {
        self.enable_sidecar_mode.then(|| self.main_container_name.clone())
    }

    /// The file with the tokens, if there is to be one.
    pub(crate) fn token_file(&self) -> Option<PathBuf> {
        self.token_file.as_deref().filter(|path| !path.is_empty()).map(PathBuf::from)
    }
}

/// An empty value is none, as OpenSandbox's executor takes an empty variable.
fn or(default: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |given| Ok(if given.is_empty() { default } else { given }.to_owned())
}

fn address(given: &str) -> Result<String, String> {
    match given {
        "" => Ok(LISTEN.to_owned()),
        _ if given.contains(':') => Ok(given.to_owned()),
        _ => Err("it has no port; write IP:PORT".to_owned()),
    }
}

/// What Go takes for a boolean.
fn switch(given: &str) -> Result<bool, String> {
    match given {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}
