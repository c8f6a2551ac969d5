//! The one place where a Kubernetes client is made.
//!
//! No text here contains a credential. Errors of the client library are quoted only where they cannot quote a
//! config or the output of a credential plugin.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::time::Duration;

use kube::client::AuthError;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The longest time to open a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Which cluster, and with which credentials: the named kubeconfig, if there is one; else the credentials of
/// the pod that this process runs in; else what `kubectl` would use. A context belongs to a kubeconfig: where
/// one is named, the pod's credentials are not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The kubeconfig to read.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; none is its current one.
    pub context: Option<String>,
}

/// Why no client could be made. A retry reads the files again, and helps once they are right.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A kubeconfig that is missing, unreadable or wrong.
    #[error("kubeconfig{}: {reason}", in_file(.path))]
    Kubeconfig {
        /// The file, if one was named.
        path: Option<PathBuf>,
        /// What is wrong with it.
        reason: String,
    },
    /// The pod's own credentials.
    #[error("in the cluster: {0}")]
    InCluster(String),
    /// A token, a certificate or a credential plugin.
    #[error("{0}")]
    Credentials(String),
    /// A credential plugin that does not end.
    #[error("the credentials could not be read in time: is a credential plugin waiting?")]
    Slow,
}

fn in_file(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default()
}

impl Access {
    /// Makes a client from the present contents of the files. Files are read, and plugins run, on a blocking
    /// thread, for at most `wait`.
    ///
    /// The client does not retry: its user decides when to retry, and reports it.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub async fn connect(&self, wait: Duration) -> Result<Client, AccessError> {
        let access = self.clone();
        let made = spawn_blocking(move || Handle::current().block_on(access.client(wait)));
        match timeout(wait, made).await {
            Ok(Ok(made)) => made,
            Ok(Err(_)) => Err(AccessError::Credentials("the credentials could not be read".to_owned())),
            Err(_) => Err(AccessError::Slow),
        }
    }

    async fn client(&self, wait: Duration) -> Result<Client, AccessError> {
        let mut config = self.config().await?;
        config.default_retry = false;
        config.connect_timeout = Some(wait.min(CONNECT));
        config.read_timeout = None;
        Client::try_from(config).map_err(|error| {
            AccessError::Credentials(wrong_credentials(&error).unwrap_or_else(|| causes(&error)))
        })
    }

    /// The config of a client: the URL of the API server, and the credentials.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub async fn config(&self) -> Result<Config, AccessError> {
        let options = KubeConfigOptions { context: self.context.clone(), cluster: None, user: None };
        if let Some(path) = &self.kubeconfig {
            let wrong = |error| wrong_kubeconfig(Some(path), &error);
            let file = Kubeconfig::read_from(path).map_err(wrong)?;
            return Config::from_custom_kubeconfig(file, &options).await.map_err(wrong);
        }
        if self.context.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
            return Config::incluster().map_err(|error| AccessError::InCluster(error.to_string()));
        }
        Config::from_kubeconfig(&options).await.map_err(|error| wrong_kubeconfig(None, &error))
    }
}

fn wrong_kubeconfig(path: Option<&PathBuf>, error: &KubeconfigError) -> AccessError {
    let reason = match error {
        // Its text quotes the lines around the mistake, which may contain a token.
        KubeconfigError::Parse(_) => "it is not a YAML file of the expected shape".to_owned(),
        other => other.to_string(),
    };
    AccessError::Kubeconfig { path: path.cloned(), reason }
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// What is wrong with the credentials, where they are the cause of an error.
pub(crate) fn wrong_credentials(error: &(dyn StdError + 'static)) -> Option<String> {
    chain(error).find_map(|error| error.downcast_ref()).map(auth)
}

/// The texts of an error and of its causes, each once: the outermost alone says next to nothing.
pub(crate) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    for part in chain(error).map(ToString::to_string) {
        if !text.contains(&part) {
            text += if text.is_empty() { "" } else { ": " };
            text += &part;
        }
    }
    text
}

fn auth(error: &AuthError) -> String {
    match error {
        AuthError::ReadTokenFile(error, path) => format!("token file {}: {error}", path.display()),
        AuthError::AuthExecStart(error) => format!("the credential plugin cannot be started: {error}"),
        // Not its output: a plugin writes the token there.
        AuthError::AuthExecRun { out, .. } => format!("the credential plugin failed: {}", out.status),
        AuthError::InvalidBearerToken(_) => {
            "the token has characters that no token has (a line break?)".to_owned()
        }
        AuthError::MissingCommand => "the kubeconfig's exec section names no command".to_owned(),
        _ => "the credentials in the kubeconfig cannot be used".to_owned(),
    }
}
