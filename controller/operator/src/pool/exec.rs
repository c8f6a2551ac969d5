//! Running a command in a container of a pod.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::AttachParams;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::{Key, WriteError};

/// How long a command may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Why a command was not run to a good end.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It could not be begun.
    #[error(transparent)]
    Begin(#[from] kube::Error),
    /// It ended badly, or was cut off.
    #[error("{0}")]
    Failed(String),
    /// It did not end.
    #[error("no end within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The pod is not, or not any more, as it was when the command was asked for.
    #[error("the pod is not to be restarted any more")]
    Outdated,
    /// Whether the pod is as it was could not be found out.
    #[error(transparent)]
    Unread(#[from] WriteError),
}

/// Runs commands in containers.
pub trait Exec: Send + Sync + 'static {
    /// Runs a command in a container and waits for its end. A command that ends the container is cut off by
    /// that: whether it was successful shows in the container, and the answer is for the log alone.
    fn run<'a>(
        &'a self,
        pod: &'a Key,
        container: &'a str,
        command: &'a [String],
    ) -> BoxFuture<'a, Result<(), ExecError>>;
}

/// Runs them through the API server.
#[derive(Clone)]
pub struct ClusterExec(Client);

impl ClusterExec {
    /// Through this client.
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    async fn exec(&self, pod: &Key, container: &str, command: &[String]) -> Result<(), ExecError> {
        let pods: Api<Pod> = Api::namespaced(self.0.clone(), &pod.namespace);
        let parameters = AttachParams::default().container(container).stdout(true).stderr(false);
        let begun = pods.exec(&pod.name, command.iter().map(String::as_str), &parameters);
        let mut process = begun.await?;
        let status = process.take_status();
        drop(process.stdout());
        let status = match status {
            Some(status) => status.await,
            None => None,
        };
        process.abort();
        match status {
            Some(status) if status.status.as_deref() == Some("Failure") => {
                Err(ExecError::Failed(status.message.unwrap_or_else(|| "it failed".to_owned())))
            }
            _ => Ok(()),
        }
    }
}

impl Exec for ClusterExec {
    fn run<'a>(
        &'a self,
        pod: &'a Key,
        container: &'a str,
        command: &'a [String],
    ) -> BoxFuture<'a, Result<(), ExecError>> {
        async move {
            match timeout(PATIENCE, self.exec(pod, container, command)).await {
                Ok(done) => done,
                Err(_) => Err(ExecError::TimedOut(PATIENCE)),
            }
        }
        .boxed()
    }
}
