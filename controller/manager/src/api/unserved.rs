//! Paths of E2B and OpenKruise that nothing stands behind here. Each says so, and where to look instead.

use axum::Router;
use axum::extract::State;
use axum::routing::{any, get, post};

use super::ApiState;
use super::extract::{SandboxId, Who};
use super::failure::Failure;

/// The paths. Not in the OpenAPI document: they are no part of what is served.
pub(super) fn routes() -> Router<ApiState> {
    Router::new()
        .route("/v3/templates", post(building))
        .route("/v2/templates/{templateID}", any(building))
        .route("/v2/templates/{templateID}/builds/{buildID}", any(building))
        .route("/templates/{templateID}/builds/{buildID}", any(building))
        .route("/templates/{templateID}/builds/{buildID}/status", any(building))
        .route("/templates/{templateID}/builds/{buildID}/logs", any(building))
        .route("/templates/{templateID}/files/{hash}", any(building))
        .route("/templates/{templateID}/tags", any(building))
        .route("/templates/{templateID}/tags/{*rest}", any(building))
        .route("/templates/tags", any(building))
        .route("/volumes", any(volumes))
        .route("/volumes/{*rest}", any(volumes))
        .route("/volumecontent/{*rest}", any(volumes))
        .route("/secrets", any(secrets))
        .route("/secrets/{*rest}", any(secrets))
        .route("/sandboxes/{sandboxID}/traffic-access-token", post(traffic_token))
        .route("/browser/{sandboxID}/json/version", get(browser))
}

async fn building() -> Failure {
    Failure::unsupported(
        "templates are not built here: a template is a SandboxSet of the cluster, and an operator applies it",
    )
}

async fn volumes() -> Failure {
    Failure::unsupported("this server has no volumes")
}

async fn secrets() -> Failure {
    Failure::unsupported("this server keeps no secrets: use envVars of a create")
}

async fn traffic_token(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
) -> Result<(), Failure> {
    state.lifecycle.get(&caller, &id).await?;
    Err(Failure::unsupported("this server renews no traffic access tokens: one lasts as long as its sandbox"))
}

async fn browser(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
) -> Result<(), Failure> {
    state.lifecycle.get(&caller, &id).await?;
    Err(Failure::unsupported("ask the browser itself, through the gateway: port 9222 of the sandbox"))
}
