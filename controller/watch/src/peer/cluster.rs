//! The Kubernetes API server, as the receiver and the sender ask it.

use std::path::Path;

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// By a kubeconfig, else by the pod's own credentials, else by KUBECONFIG or ~/.kube/config.
pub(crate) async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, String> {
    let options = KubeConfigOptions { context: context.map(ToOwned::to_owned), ..Default::default() };
    let config = match kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|error| error.to_string())?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| error.to_string())?
        }
        None if context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(|error| error.to_string())?
        }
        None => Config::infer().await.map_err(|error| error.to_string())?,
    };
    Client::try_from(config).map_err(|error| error.to_string())
}
