//! Templates: the SandboxSets of the cluster. Nothing is built here.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use ring::digest::{SHA256, digest};

use super::answer::cores;
use super::extract::{Name, Who, is_name, is_template, shown};
use super::failure::Failure;
use super::model::{Template, TemplateAlias, TemplateBuild, TemplateWithBuilds};
use super::openapi::{Listing, Reading, Writing};
use super::{ApiSettings, ApiState};
use crate::secrets::hex;
use crate::{Caller, Error, ErrorKind};

/// The one state of a build.
const READY: &str = "ready";

/// List templates
#[utoipa::path(
    get, path = "/templates", tag = "templates", operation_id = "listTemplatesV1",
    responses((status = 200, description = "All of them.", body = [Template]), Listing),
)]
pub(super) async fn list(State(state): State<ApiState>, Who(caller): Who) -> Json<Vec<Template>> {
    let templates = state.lifecycle.templates(&caller);
    Json(templates.into_iter().map(|template| as_template(template, &state.settings)).collect())
}

/// List templates
///
/// All of them on one page.
#[utoipa::path(
    get, path = "/v2/templates", tag = "templates", operation_id = "listTemplates",
    responses((status = 200, description = "All of them.", body = [Template]), Listing),
)]
pub(super) async fn list_v2(state: State<ApiState>, who: Who) -> Json<Vec<Template>> {
    list(state, who).await
}

/// Describe a template
#[utoipa::path(
    get, path = "/templates/{templateID}", tag = "templates", operation_id = "getTemplate",
    params(("templateID" = String, Path, description = "The name of a SandboxSet.")),
    responses((status = 200, description = "The template.", body = TemplateWithBuilds), Reading),
)]
pub(super) async fn get(
    State(state): State<ApiState>,
    Who(caller): Who,
    Name(name): Name,
) -> Result<Json<TemplateWithBuilds>, Failure> {
    let template = as_template(find(&state, &caller, &name)?, &state.settings);
    let build = TemplateBuild {
        build_id: template.build_id.clone(),
        status: READY.to_owned(),
        created_at: template.created_at.clone(),
        updated_at: template.updated_at.clone(),
        cpu_count: template.cpu_count,
        memory_mb: template.memory_mb,
        disk_size_mb: template.disk_size_mb,
    };
    Ok(Json(TemplateWithBuilds { template, builds: vec![build] }))
}

/// Find a template by its alias
#[utoipa::path(
    get, path = "/templates/aliases/{alias}", tag = "templates", operation_id = "getTemplateAlias",
    params(("alias" = String, Path, description = "The name of a SandboxSet.")),
    responses((status = 200, description = "The template.", body = TemplateAlias), Reading),
)]
pub(super) async fn alias(
    State(state): State<ApiState>,
    Who(caller): Who,
    Name(name): Name,
) -> Result<Json<TemplateAlias>, Failure> {
    let template = find(&state, &caller, &name)?;
    Ok(Json(TemplateAlias { template_id: template.name, public: false }))
}

/// Delete a snapshot
///
/// The SDK calls a snapshot a template here. A SandboxSet is the cluster's and is not deleted: 403.
#[utoipa::path(
    delete, path = "/templates/{templateID}", tag = "snapshots", operation_id = "deleteSnapshot",
    params(("templateID" = String, Path, description = "The ID of a snapshot.")),
    responses((status = 204, description = "It is being deleted."), Writing),
)]
pub(super) async fn remove(
    State(state): State<ApiState>,
    Who(caller): Who,
    Name(id): Name,
) -> Result<StatusCode, Failure> {
    if !is_template(&id) {
        return Err(Error::new(ErrorKind::NotFound, format!("snapshot {} was not found", shown(&id))).into());
    }
    let deleted = state.lifecycle.delete_snapshot(&caller, &id).await;
    if deleted.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound)
        && state.lifecycle.template(&caller, &id).is_ok()
    {
        let message = format!("template {id} is a SandboxSet: delete it in the cluster");
        return Err(Error::new(ErrorKind::Forbidden, message).into());
    }
    deleted?;
    Ok(StatusCode::NO_CONTENT)
}

fn find(state: &ApiState, caller: &Caller, name: &str) -> Result<crate::Template, Failure> {
    if is_name(name) {
        return Ok(state.lifecycle.template(caller, name)?);
    }
    Err(Error::new(ErrorKind::NotFound, format!("template {} was not found", shown(name))).into())
}

fn as_template(template: crate::Template, settings: &ApiSettings) -> Template {
    let created = template.created.to_string();
    Template {
        build_id: uuid_of(&template.namespace, &template.name),
        cpu_count: cores(template.cpu_millis),
        memory_mb: template.memory_mb,
        disk_size_mb: template.disk_mb,
        public: false,
        aliases: vec![template.name.clone()],
        names: vec![template.name.clone()],
        template_id: template.name,
        created_at: created.clone(),
        updated_at: created,
        created_by: None,
        last_spawned_at: None,
        spawn_count: 0,
        build_count: 1,
        envd_version: settings.envd_version.clone(),
        build_status: READY.to_owned(),
        available: template.available,
    }
}

/// A UUID (version 8) of a namespace and name: the SDK wants one, and nothing here has one.
fn uuid_of(namespace: &str, name: &str) -> String {
    let hash = digest(&SHA256, format!("{namespace}/{name}").as_bytes());
    let text = hex(hash.as_ref());
    format!("{}-{}-8{}-a{}-{}", &text[..8], &text[8..12], &text[13..16], &text[17..20], &text[20..32])
}
