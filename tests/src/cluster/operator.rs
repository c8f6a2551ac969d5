//! Our operator: the real command, as a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::{Cluster, Daemon};
use crate::{Client, DEADLINE, Place, Reply, Request, Tries, locations};

/// The port of its probes and metrics, as the chart has it.
const PORT: u16 = 8090;

/// Describes an operator.
pub struct OperatorBuilder {
    cluster: Cluster,
    kubeconfig: PathBuf,
    election: Vec<String>,
    flags: Vec<String>,
}

impl OperatorBuilder {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let election = vec!["--leader-elect=false".to_owned()];
        Self { cluster: cluster.clone(), kubeconfig: cluster.kubeconfig(), election, flags: Vec::new() }
    }

    /// Adds a flag (`sandgate-operator --help`).
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Runs the controllers of OpenSandbox's kinds in the place of those of OpenKruise's, for one namespace.
    #[must_use]
    pub fn opensandbox(self, namespace: &str) -> Self {
        self.flag("--controllers=batchsandbox,pool,sandboxsnapshot").flag(&format!("--namespace={namespace}"))
    }

    /// Runs the controllers of environments in the place of those of OpenKruise's kinds, for one namespace of
    /// this cluster.
    #[must_use]
    pub fn environments(self, namespace: &str, cluster: &str) -> Self {
        self.flag("--controllers=sandboxenv,sandboxpool,pooladoption")
            .flag(&format!("--namespace={namespace}"))
            .flag(&format!("--local-cluster-id={cluster}"))
    }

    /// One of several, which agree on a leader; one that dies is followed after so many seconds, from 4 on.
    /// Otherwise it is alone and leads at once.
    #[must_use]
    pub fn elected(mut self, lease: u64) -> Self {
        self.election = vec![
            "--leader-elect=true".to_owned(),
            format!("--lease-duration={lease}"),
            format!("--renew-deadline={}", lease - 1),
            "--retry-period=1".to_owned(),
        ];
        self
    }

    /// Another way to the API server than the administrator's own: an account with fewer rights, or a
    /// [`Wire`](crate::kubernetes::Wire) between the two.
    #[must_use]
    pub fn kubeconfig(mut self, file: &Path) -> Self {
        file.clone_into(&mut self.kubeconfig);
        self
    }

    /// Starts it and waits until it is ready.
    pub async fn start(self) -> Operator {
        let mut operator = self.spawn();
        operator.until_ready().await;
        operator
    }

    /// Starts it and waits for nothing.
    pub fn spawn(self) -> Operator {
        let (folder, place) = (self.cluster.folder("operator"), Place::reserve());
        let mut command = Command::new(locations::operator());
        command
            .arg(format!("--listen={}:{PORT}", place.ip()))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(&self.election)
            .args(&self.flags)
            .env("RUST_BACKTRACE", "1");
        let mut operator =
            Operator { daemon: None, command, log: folder.join("log"), place, _cluster: self.cluster };
        operator.run();
        operator
    }
}

/// An operator. Dropping it kills it.
pub struct Operator {
    daemon: Option<Daemon>,
    command: Command,
    log: PathBuf,
    place: Place,
    // Last, so that the folder goes after the process.
    _cluster: Cluster,
}

impl Operator {
    /// Where its probes and metrics are.
    pub fn address(&self) -> SocketAddr {
        (self.place.ip(), PORT).into()
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("the operator runs").pid()
    }

    /// What it has written, in all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks it for a page: `/healthz`, `/readyz`, `/metrics`.
    pub async fn page(&self, path: &str) -> Option<Reply> {
        let mut client = Client::http1(self.address()).await.ok()?;
        client.send(Request::get(path)).await.ok()
    }

    /// Its metrics.
    pub async fn metrics(&self) -> String {
        let reply = self.page("/metrics").await.expect("an answer of the operator");
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.text().to_owned()
    }

    /// Waits until it says that it is ready.
    pub async fn until_ready(&mut self) {
        let mut tries = Tries::new("the operator is ready", DEADLINE * 3);
        loop {
            tries.next().await;
            self.assert_alive();
            if self.page("/readyz").await.is_some_and(|reply| reply.status == 200) {
                return;
            }
        }
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) {
        drop(self.daemon.take().expect("the operator runs"));
    }

    /// Asks it to end (SIGTERM), waits until it has, and says how.
    pub async fn stop(&mut self) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("the operator runs");
        daemon.stop().await
    }

    /// Fails, with the log, when it has ended by itself.
    pub fn assert_alive(&mut self) {
        self.daemon.as_mut().expect("the operator runs").assert_alive();
    }

    /// How it ended by itself, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.daemon.as_mut().expect("the operator was started").status()
    }

    /// Starts it again after an end, with the same flags, and waits until it is ready.
    pub async fn start_again(&mut self) {
        self.run();
        self.until_ready().await;
    }

    fn run(&mut self) {
        assert!(self.daemon.is_none(), "the operator runs already");
        self.daemon = Some(Daemon::start("the operator", &self.command, &self.log, "KILL"));
    }
}
