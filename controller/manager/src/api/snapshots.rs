//! Snapshots, and sandboxes made from one.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};

use super::extract::{Body, Place, Query, SandboxId, Who};
use super::failure::Failure;
use super::list::{limit, next};
use super::model::{ForkBody, ForkResult, SnapshotBody, SnapshotInfo};
use super::openapi::{Listing, Writing};
use super::outer::RequestId;
use super::{ApiState, answer, validate};

/// A fork makes so many sandboxes at most, as E2B has it.
const FORKS: u64 = 20;

/// Make a snapshot of a sandbox
///
/// Where nothing in the cluster executes checkpoints the answer is 501. OpenKruise's headers are understood.
#[utoipa::path(
    post, path = "/sandboxes/{sandboxID}/snapshots", tag = "snapshots", operation_id = "createSnapshot",
    params(
        ("sandboxID" = String, Path, description = "The sandbox."),
        ("x-e2b-kruise-snapshot-keep-running" = Option<bool>, Header,
            description = "Whether the sandbox goes on running."),
        ("x-e2b-kruise-snapshot-ttl" = Option<String>, Header,
            description = "How long it is kept: a duration such as `24h`."),
        ("x-e2b-kruise-snapshot-persistent-contents" = Option<String>, Header,
            description = "What it has: `memory`, `filesystem`, or both, separated by a comma."),
        ("x-e2b-kruise-snapshot-wait-success-seconds" = Option<i64>, Header, minimum = 1, maximum = 86400,
            description = "How long to wait for it."),
    ),
    request_body = Option<SnapshotBody>,
    responses((status = 201, description = "The snapshot.", body = SnapshotInfo), Writing),
)]
pub(super) async fn create(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
    headers: HeaderMap,
    Body(body): Body<SnapshotBody>,
) -> Result<(StatusCode, Json<SnapshotInfo>), Failure> {
    let new = validate::new_snapshot(body, &headers)?;
    let made = state.lifecycle.snapshot(&caller, &id, new).await?;
    Ok((StatusCode::CREATED, Json(answer::snapshot(made))))
}

/// List snapshots
///
/// A page of the caller's own. The header `x-next-token` says where the next page begins.
#[utoipa::path(
    get, path = "/snapshots", tag = "snapshots", operation_id = "listSnapshots",
    params(
        ("sandboxID" = Option<String>, Query, description = "Only those of this sandbox."),
        ("name" = Option<String>, Query, description = "Only those of this name."),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 100, description = "So many at most."),
        ("nextToken" = Option<String>, Query, max_length = 1024, description = "Where the page begins."),
    ),
    responses(
        (status = 200, description = "A page.", body = [SnapshotInfo], headers(("x-next-token" = String,
            description = "Where the next page begins."))),
        Listing,
    ),
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    Who(caller): Who,
    query: Query,
) -> Result<Response, Failure> {
    let (sandbox, name) = (query.text("sandboxID")?, query.text("name")?);
    let (limit, next) = (limit(&query)?, next(&query)?);
    let page = state.lifecycle.snapshots(&caller, sandbox, name, limit, next.as_deref())?;
    Ok(answer::page(page, answer::snapshot))
}

/// Fork a sandbox
///
/// A snapshot is made, and sandboxes from it. Each of them may fail by itself.
#[utoipa::path(
    post, path = "/sandboxes/{sandboxID}/fork", tag = "snapshots", operation_id = "forkSandbox",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    request_body = Option<ForkBody>,
    responses((status = 201, description = "Each of the new sandboxes.", body = [ForkResult]), Writing),
)]
pub(super) async fn fork(
    State(state): State<ApiState>,
    Who(caller): Who,
    place: Place,
    SandboxId(id): SandboxId,
    axum::Extension(request): axum::Extension<RequestId>,
    Body(body): Body<ForkBody>,
) -> Result<(StatusCode, Json<Vec<ForkResult>>), Failure> {
    let timeout = validate::timeout(body.timeout, &state.settings)?;
    let count = validate::whole("count", body.count, 1, FORKS, "")?.unwrap_or(1);
    let count = usize::try_from(count).unwrap_or(1);
    let made = state.lifecycle.fork(&caller, &id, Some(timeout), count).await?;
    let results = made.into_iter().map(|one| match one {
        Ok(one) => ForkResult { sandbox: Some(answer::sandbox(one, &place, &state.settings)), error: None },
        Err(error) => ForkResult { sandbox: None, error: Some(Failure::from(error).body(request.as_str())) },
    });
    Ok((StatusCode::CREATED, Json(results.collect())))
}
