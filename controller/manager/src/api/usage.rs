//! What sandboxes use and log.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use futures_util::StreamExt as _;
use futures_util::stream;
use jiff::Timestamp;

use super::ApiState;
use super::extract::{Query, SandboxId, Who, is_name};
use super::failure::Failure;
use super::model::{
    SandboxLog, SandboxLogEntry, SandboxLogs, SandboxLogsV2, SandboxMetric, SandboxesWithMetrics,
};
use super::openapi::{Listing, Reading};
use crate::{LogLine, Metric};

/// So many sandboxes may be asked for at once.
const MOST: usize = 100;
/// So many of them are asked at a time.
const AT_A_TIME: usize = 16;
/// The last second that is a time: the year 9999.
const LAST: i64 = 253_402_207_200;

/// Say what a sandbox uses
///
/// No record is kept, so there is at most one entry: the present.
#[utoipa::path(
    get, path = "/sandboxes/{sandboxID}/metrics", tag = "usage", operation_id = "getMetrics",
    params(
        ("sandboxID" = String, Path, description = "The sandbox."),
        ("start" = Option<i64>, Query, minimum = 0, maximum = 253_402_207_200_i64,
            description = "Not before this time, in seconds since 1970."),
        ("end" = Option<i64>, Query, minimum = 0, maximum = 253_402_207_200_i64,
            description = "Not after this time."),
    ),
    responses((status = 200, description = "What it uses.", body = [SandboxMetric]), Reading),
)]
pub(super) async fn metrics(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
    query: Query,
) -> Result<Json<Vec<SandboxMetric>>, Failure> {
    let time = |name| -> Result<Option<Timestamp>, Failure> {
        let seconds = query.number(name, 0, LAST)?;
        Ok(seconds.and_then(|seconds| Timestamp::from_second(seconds).ok()))
    };
    let (start, end) = (time("start")?, time("end")?);
    if start.is_some_and(|start| end.is_some_and(|end| end < start)) {
        return Err(Failure::field("end", "expected a time that is not before start"));
    }
    let found = state.lifecycle.metrics(&caller, &id, start, end).await?;
    Ok(Json(found.into_iter().map(metric).collect()))
}

/// Say what several sandboxes use
///
/// Those that this server knows at the moment. One that another replica has made just now may be missing.
#[utoipa::path(
    get, path = "/sandboxes/metrics", tag = "usage", operation_id = "getMetricsOfMany",
    params(("sandbox_ids" = String, Query, description = "Their IDs, separated by commas, at most 100.")),
    responses((status = 200, description = "What each uses.", body = SandboxesWithMetrics), Listing),
)]
pub(super) async fn metrics_of_many(
    State(state): State<ApiState>,
    Who(caller): Who,
    query: Query,
) -> Result<Json<SandboxesWithMetrics>, Failure> {
    let words = query.all("sandbox_ids").flat_map(|value| value.split(','));
    let ids: Vec<&str> = words.filter(|id| !id.is_empty()).collect();
    if ids.is_empty() || ids.len() > MOST {
        return Err(Failure::field("sandbox_ids", &format!("expected 1 to {MOST} IDs, separated by commas")));
    }
    let ids: BTreeSet<String> = ids.into_iter().filter(|id| is_name(id)).map(str::to_owned).collect();
    let (state, caller) = (&state, &caller);
    let asked = stream::iter(ids).map(|id| async move {
        let found = state.lifecycle.metric_if_known(caller, &id).await;
        found.map(|found| (id, metric(found)))
    });
    let found: Vec<_> = asked.buffered(AT_A_TIME).collect().await;
    Ok(Json(SandboxesWithMetrics { sandboxes: found.into_iter().flatten().collect() }))
}

/// Show what a sandbox has logged
///
/// No record is kept: the lists are empty. What a process writes is in its answer from envd.
#[utoipa::path(
    get, path = "/sandboxes/{sandboxID}/logs", tag = "usage", operation_id = "getLogsV1",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    responses((status = 200, description = "What it has logged.", body = SandboxLogs), Reading),
)]
pub(super) async fn logs(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
) -> Result<Json<SandboxLogs>, Failure> {
    let lines = state.lifecycle.logs(&caller, &id).await?;
    let logs =
        lines.iter().map(|line| SandboxLog { timestamp: line.at.to_string(), line: line.line.clone() });
    Ok(Json(SandboxLogs { logs: logs.collect(), log_entries: lines.into_iter().map(entry).collect() }))
}

/// Show what a sandbox has logged
///
/// As `GET /sandboxes/{sandboxID}/logs`.
#[utoipa::path(
    get, path = "/v2/sandboxes/{sandboxID}/logs", tag = "usage", operation_id = "getLogs",
    params(("sandboxID" = String, Path, description = "The sandbox.")),
    responses((status = 200, description = "What it has logged.", body = SandboxLogsV2), Reading),
)]
pub(super) async fn logs_v2(
    State(state): State<ApiState>,
    Who(caller): Who,
    SandboxId(id): SandboxId,
) -> Result<Json<SandboxLogsV2>, Failure> {
    let lines = state.lifecycle.logs(&caller, &id).await?;
    Ok(Json(SandboxLogsV2 { logs: lines.into_iter().map(entry).collect() }))
}

fn entry(line: LogLine) -> SandboxLogEntry {
    SandboxLogEntry {
        timestamp: line.at.to_string(),
        message: line.line,
        level: "info".to_owned(),
        fields: BTreeMap::new(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the last use of it")]
fn metric(metric: Metric) -> SandboxMetric {
    SandboxMetric {
        timestamp: metric.at.to_string(),
        timestamp_unix: metric.at.as_second(),
        cpu_count: metric.cpu_count,
        cpu_used_pct: metric.cpu_used_pct,
        mem_used: metric.mem_used,
        mem_total: metric.mem_total,
        mem_cache: metric.mem_cache,
        disk_used: metric.disk_used,
        disk_total: metric.disk_total,
    }
}
