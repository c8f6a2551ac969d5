//! Hot restarts: SIGHUP replaces Envoy by another that takes over its listening sockets, so that no
//! connection is refused.
//!
//! What is on disk now becomes the next Envoy: its config is rendered by the program that stands where this
//! one was started from, with the same arguments, from the files as they are, for the Envoy and the module
//! that are found now. A config that is refused, by that program or by Envoy, changes nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::process::Command;

use super::RunError;
use super::process::{Epoch, Launch};
use super::tls::{Reload, SECRETS};

/// What Envoys that take over from each other have in common.
pub(super) struct Restarts {
    folder: PathBuf,
    /// What renders the next config.
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Two Envoys that differ in it do not understand each other.
    version: String,
    serving: u32,
    /// Follows the certificates of the Envoy that serves, and of the one that is to.
    reload: Option<Reload>,
    next_reload: Option<Reload>,
}

impl Restarts {
    /// Envoys that keep their files in `folder`. The first one is `envoy`.
    pub(super) async fn new(folder: &Path, envoy: &Path, reload: Option<Reload>) -> Result<Self, RunError> {
        let program = std::env::current_exe().map_err(RunError::OwnProgram)?;
        let version = hot_restart_version(envoy).await?;
        // The first is the program, the second `run`.
        let arguments = std::env::args_os().skip(2).collect();
        Ok(Self {
            folder: folder.to_owned(),
            program,
            arguments,
            version,
            serving: 0,
            reload,
            next_reload: None,
        })
    }

    pub(super) fn first(&self) -> Epoch {
        Epoch::First { base_id: self.base_id_file() }
    }

    fn base_id_file(&self) -> PathBuf {
        self.folder.join("base-id")
    }

    /// How to start the next one. `last` says how the one that serves was started.
    pub(super) async fn next(&mut self, last: &Launch) -> Result<Launch, RunError> {
        let version = hot_restart_version(&last.program).await?;
        if version != self.version {
            return Err(RunError::OtherVersion {
                program: last.program.clone(),
                found: version,
                running: self.version.clone(),
            });
        }
        let number = self.serving + 1;
        let config = self.folder.join(format!("envoy-{number}.json"));
        // One that was tried before in vain may have left secrets that the config has no more.
        let secrets = self.folder.join(format!("tls-{number}"));
        // It fails if there is none.
        let _ = std::fs::remove_dir_all(&secrets);
        std::fs::write(&config, self.render(&secrets).await?).map_err(RunError::write(&config))?;
        self.next_reload = Reload::resume(&secrets)?;
        let base_id = std::fs::read_to_string(self.base_id_file()).unwrap_or_default();
        let base_id = base_id.trim().parse().map_err(|_| RunError::NoBaseId)?;
        let launch = Launch {
            config,
            admin_address: self.folder.join(format!("admin-{number}")),
            epoch: Epoch::Next { base_id, number },
            ..last.clone()
        };
        validate(&launch).await?;
        // One that was tried before in vain has left its address.
        // It fails if there is none.
        let _ = std::fs::remove_file(&launch.admin_address);
        Ok(launch)
    }

    /// The next one serves.
    pub(super) fn done(&mut self) {
        self.serving += 1;
        self.reload = self.next_reload.take();
    }

    /// The next config. The files of its secrets are written into this folder.
    async fn render(&self, secrets: &Path) -> Result<Vec<u8>, RunError> {
        let mut command = Command::new(&self.program);
        command.args(["run", "--print-config"]).args(&self.arguments).env(SECRETS, secrets);
        Ok(succeed(command, &self.program).await?.stdout)
    }
}

async fn hot_restart_version(envoy: &Path) -> Result<String, RunError> {
    let mut command = Command::new(envoy);
    command.arg("--hot-restart-version");
    let output = finish(command, envoy).await?;
    // Envoy prints it on standard error, unlike its other answers.
    let answer = [output.stdout, output.stderr].concat();
    let version = String::from_utf8_lossy(&answer).trim().to_owned();
    if output.status.success() && !version.is_empty() {
        Ok(version)
    } else {
        Err(RunError::NoVersion(envoy.to_owned()))
    }
}

/// Has Envoy read the config, and the module it names, in a process that serves nothing.
async fn validate(launch: &Launch) -> Result<(), RunError> {
    let mut command = Command::new(&launch.program);
    command.args(["--mode", "validate", "--disable-hot-restart", "--config-path"]).arg(&launch.config);
    command.args(launch.verbosity()).args(&launch.extra);
    succeed(command, &launch.program).await.map(drop)
}

/// What a program wrote that has to end well. What it wrote last is the error.
async fn succeed(command: Command, program: &Path) -> Result<Output, RunError> {
    let output = finish(command, program).await?;
    if output.status.success() { Ok(output) } else { Err(RunError::Refused(last_lines(&output))) }
}

async fn finish(mut command: Command, program: &Path) -> Result<Output, RunError> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    output.map_err(RunError::start(program))
}

/// The last lines that a failed program wrote to standard error.
fn last_lines(output: &Output) -> String {
    let output_text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = output_text.lines().filter(|line| !line.trim().is_empty()).collect();
    let lines = &lines[lines.len().saturating_sub(5)..];
    if lines.is_empty() { format!("ended with {}", output.status) } else { lines.join("\n") }
}
