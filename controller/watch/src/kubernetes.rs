//! The Kubernetes watch: custom resources of several providers become routes.

pub(crate) mod provider;
pub(crate) mod providers;
