//! Sandboxes: made, connected to, described, paused, resumed, deleted.

use axum::Json;
use axum::extract::State;
use http::{HeaderMap, StatusCode};

use super::extract::{Body, Place, SandboxId, Who};
use super::failure::Failure;
use super::model::{
    ConnectBody, NetworkBody, NewSandboxBody, PauseBody, RefreshBody, ResumeBody, Sandbox, SandboxDetail,
    TimeoutBody,
};
use super::openapi::{Reading, Writing};
use super::{ApiState, answer, validate};
use crate::Connected;

/// The answer to a create.
type Made = (StatusCode, Json<Sandbox>);

/// Make a sandbox
///
/// A sandbox of the pool is claimed, or one is made where the pool is empty. It is ready when the answer
/// comes. The same `Idempotency-Key` gives the same sandbox again, for a day.
#[utoipa::path(
    post, path = "/v2/sandboxes", tag = "sandboxes", operation_id = "createSandbox",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
        pattern = "^[A-Za-z0-9_-]+$", description = "The same key gives the same sandbox.")),
    request_body = NewSandboxBody,
    responses((status = 201, description = "The sandbox.", body = Sandbox), Writing),
)]
pub(super) async fn create_v2(
    state: State<ApiState>,
    who: Who,
    place: Place,
    headers: HeaderMap,
    body: Body<NewSandboxBody>,
) -> Result<Made, Failure> {
    create(state, who, place, headers, body).await
}

/// Make a sandbox
///
/// As `POST /v2/sandboxes`.
#[utoipa::path(
    post, path = "/sandboxes", tag = "sandboxes", operation_id = "createSandboxV1",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255,
        pattern = "^[A-Za-z0-9_-]+$", description = "The same key gives the same sandbox.")),
    request_body = NewSandboxBody,
    responses((status = 201, description = "The sandbox.", body = Sandbox), Writing),
)]
pub(super) async fn create(
    State(state): State<ApiState>,
    Who(caller): Who,
    place: Place,
    headers: HeaderMap,
    Body(body): Body<NewSandboxBody>,
) -> Result<Made, Failure> {
    let new = validate::new_sandbox(body, &headers, &state.settings)?;
    let made = state.lifecycle.create(&caller, new).await?;
    Ok((StatusCode::CREATED, Json(answer::sandbox(made, &place, &state.settings))))
}

/// Connect to a sandbox
///
/// A running sandbox lives at least so long from now. A paused one is resumed.
#[utoipa::path(
    post, path = "/v2/sandboxes/{sandboxID}/connect", tag = "sandboxes", operation_id = "connectSandbox",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    request_body = Option<ConnectBody>,
    responses(
        (status = 200, description = "It was running.", body = Sandbox),
        (status = 201, description = "It was paused, and has been resumed.", body = Sandbox),
        Writing,
    ),
)]
pub(super) async fn connect_v2(
    state: State<ApiState>,
    who: Who,
    place: Place,
    id: SandboxId,
    body: Body<ConnectBody>,
) -> Result<Made, Failure> {
    connect(state, who, place, id, body).await
}

/// Connect to a sandbox
///
/// As `POST /v2/sandboxes/{sandboxID}/connect`.
#[utoipa::path(
    post, path = "/sandboxes/{sandboxID}/connect", tag = "sandboxes", operation_id = "connectSandboxV1",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    request_body = Option<ConnectBody>,
    responses(
        (status = 200, description = "It was running.", body = Sandbox),
        (status = 201, description = "It was paused, and has been resumed.", body = Sandbox),
        Writing,
    ),
)]
pub(super) async fn connect(
    State(state): State<ApiState>,
    Who(caller): Who,
    place: Place,
    SandboxId(id): SandboxId,
    Body(body): Body<ConnectBody>,
) -> Result<Made, Failure> {
    let timeout = validate::timeout(body.timeout, &state.settings)?;
    let (described, was) = state.lifecycle.connect(&caller, &id, Some(timeout)).await?;
    let status = match was {
        Connected::Running => StatusCode::OK,
        Connected::Resumed => StatusCode::CREATED,
    };
    Ok((status, Json(answer::sandbox(described, &place, &state.settings))))
}

/// Describe a sandbox
#[utoipa::path(
    get, path = "/sandboxes/{sandboxID}", tag = "sandboxes", operation_id = "getSandbox",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    responses((status = 200, description = "The sandbox.", body = SandboxDetail), Reading),
)]
pub(super) async fn info(
    State(state): State<ApiState>,
    Who(caller): Who,
    place: Place,
    SandboxId(id): SandboxId,
) -> Result<Json<SandboxDetail>, Failure> {
    let described = state.lifecycle.get(&caller, &id).await?;
    Ok(Json(answer::detail(described, &place, &state.settings)))
}

/// Delete a sandbox
#[utoipa::path(
    delete, path = "/sandboxes/{sandboxID}", tag = "sandboxes", operation_id = "killSandbox",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    responses((status = 204, description = "It is being deleted."), Writing),
)]
pub(super) async fn kill(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
) -> Result<StatusCode, Failure> {
    state.lifecycle.kill(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Say how long a sandbox lives
///
/// From now on, be it more or less than before.
#[utoipa::path(
    post, path = "/sandboxes/{sandboxID}/timeout", tag = "sandboxes", operation_id = "setTimeout",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    request_body = TimeoutBody,
    responses((status = 204, description = "Done."), Writing),
)]
pub(super) async fn timeout(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
    Body(body): Body<TimeoutBody>,
) -> Result<StatusCode, Failure> {
    let timeout = validate::timeout(Some(body.timeout), &state.settings)?;
    state.lifecycle.set_timeout(&caller, &id, timeout).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Say how long a sandbox lives at least
///
/// A sandbox that would live longer is left as it is.
#[utoipa::path(
    post, path = "/sandboxes/{sandboxID}/refreshes", tag = "sandboxes", operation_id = "refreshSandbox",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    request_body = Option<RefreshBody>,
    responses((status = 204, description = "Done."), Writing),
)]
pub(super) async fn refreshes(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
    Body(body): Body<RefreshBody>,
) -> Result<StatusCode, Failure> {
    let duration = validate::refresh(body.duration, &state.settings)?;
    state.lifecycle.refresh(&caller, &id, duration).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pause a sandbox
///
/// The header `x-e2b-kruise-reserve-paused-sandbox-duration` (`24h`, `forever`) says how long it is kept.
#[utoipa::path(
    post, path = "/sandboxes/{sandboxID}/pause", tag = "sandboxes", operation_id = "pauseSandbox",
    params(
        ("sandboxID" = String, Path, description = "The sandbox."),
        ("x-e2b-kruise-reserve-paused-sandbox-duration" = Option<String>, Header,
            description = "How long it is kept: a duration such as `24h`, or `forever`."),
    ),
    request_body = Option<PauseBody>,
    responses((status = 204, description = "It is paused."), Writing),
)]
pub(super) async fn pause(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
    headers: HeaderMap,
    Body(body): Body<PauseBody>,
) -> Result<StatusCode, Failure> {
    if body.require_healthy_guest == Some(true) {
        let expected = "expected false: this server does not ask envd before a pause";
        return Err(Failure::field("requireHealthyGuest", expected));
    }
    state.lifecycle.pause(&caller, &id, validate::reserve(&headers)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Resume a sandbox
///
/// The SDK connects instead, which does the same.
#[utoipa::path(
    post, path = "/sandboxes/{sandboxID}/resume", tag = "sandboxes", operation_id = "resumeSandbox",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    request_body = Option<ResumeBody>,
    responses((status = 201, description = "It runs.", body = Sandbox), Writing),
)]
pub(super) async fn resume(
    State(state): State<ApiState>,
    Who(caller): Who,
    place: Place,
    SandboxId(id): SandboxId,
    Body(body): Body<ResumeBody>,
) -> Result<Made, Failure> {
    let timeout = validate::timeout(body.timeout, &state.settings)?;
    let resumed = state.lifecycle.resume(&caller, &id, Some(timeout), body.auto_pause).await?;
    Ok((StatusCode::CREATED, Json(answer::sandbox(resumed, &place, &state.settings))))
}

/// Say where a sandbox may connect to
///
/// The rules that it had are replaced.
#[utoipa::path(
    put, path = "/sandboxes/{sandboxID}/network", tag = "sandboxes", operation_id = "updateNetwork",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    request_body = Option<NetworkBody>,
    responses((status = 204, description = "Done."), Writing),
)]
pub(super) async fn network(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
    Body(body): Body<NetworkBody>,
) -> Result<StatusCode, Failure> {
    let (network, internet) = validate::network_update(body)?;
    state.lifecycle.update_network(&caller, &id, network, internet).await?;
    Ok(StatusCode::NO_CONTENT)
}
