//! Teams, and the keys of the API.

use axum::Json;
use axum::extract::State;
use http::StatusCode;

use super::ApiState;
use super::auth::{KeyFacts, NewKey};
use super::extract::{Body, Name, Who, is_name, shown};
use super::failure::Failure;
use super::model::{KeyBody, KeyCreated, KeyShown, MaskShown, TeamShown};
use super::openapi::{Listing, Writing};
use crate::{Error, ErrorKind};

/// List teams
#[utoipa::path(
    get, path = "/teams", tag = "keys", operation_id = "listTeams",
    responses((status = 200, description = "The teams that the key can see.", body = [TeamShown]), Listing),
)]
pub(super) async fn teams(State(state): State<ApiState>, Who(caller): Who) -> Json<Vec<TeamShown>> {
    let teams = state.keys.teams(&caller).into_iter().map(|team| TeamShown {
        is_default: *team.name == *caller.team,
        team_id: team.id,
        name: team.name,
        api_key: String::new(),
    });
    Json(teams.collect())
}

/// List keys
#[utoipa::path(
    get, path = "/api-keys", tag = "keys", operation_id = "listKeys",
    responses((status = 200, description = "The keys of the team.", body = [KeyShown]), Listing),
)]
pub(super) async fn list(State(state): State<ApiState>, Who(caller): Who) -> Json<Vec<KeyShown>> {
    Json(state.keys.list(&caller).into_iter().map(as_shown).collect())
}

/// Make a key
///
/// Only this answer shows it: what is stored is its hash.
#[utoipa::path(
    post, path = "/api-keys", tag = "keys", operation_id = "createKey",
    request_body = KeyBody,
    responses((status = 201, description = "The key.", body = KeyCreated), Writing),
)]
pub(super) async fn create(
    State(state): State<ApiState>,
    Who(caller): Who,
    Body(body): Body<KeyBody>,
) -> Result<(StatusCode, Json<KeyCreated>), Failure> {
    let length = body.name.chars().count();
    if !(1..=100).contains(&length) || body.name.chars().any(char::is_control) {
        return Err(Failure::field("name", "expected 1 to 100 characters, none of them a control character"));
    }
    if body.team_name.as_deref().is_some_and(|team| !is_name(team)) {
        return Err(Failure::field("teamName", "expected the name of a team"));
    }
    let new = NewKey { name: body.name, team: body.team_name, quota: body.quota };
    let made = state.keys.create(&caller, new).await?;
    let key = made.key.reveal().to_owned();
    Ok((StatusCode::CREATED, Json(KeyCreated { facts: as_shown(made.facts), key })))
}

/// Revoke a key
///
/// It is refused from then on. The sandboxes that were made with it stay.
#[utoipa::path(
    delete, path = "/api-keys/{apiKeyID}", tag = "keys", operation_id = "revokeKey",
    params(("apiKeyID" = String, Path, description = "The ID of the key.")),
    responses((status = 204, description = "It is revoked."), Writing),
)]
pub(super) async fn revoke(
    State(state): State<ApiState>,
    Who(caller): Who,
    Name(id): Name,
) -> Result<StatusCode, Failure> {
    if !is_name(&id) {
        return Err(Error::new(ErrorKind::NotFound, format!("key {} was not found", shown(&id))).into());
    }
    state.keys.revoke(&caller, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn as_shown(facts: KeyFacts) -> KeyShown {
    KeyShown {
        id: facts.id,
        name: facts.name,
        team_name: facts.team,
        mask: MaskShown {
            prefix: facts.mask.prefix,
            value_length: facts.mask.length,
            masked_value_prefix: facts.mask.head,
            masked_value_suffix: facts.mask.tail,
        },
        created_at: facts.created.to_string(),
        created_by: facts.created_by,
        last_used: facts.last_used.map(|time| time.to_string()),
        expires_at: facts.expires.map(|time| time.to_string()),
    }
}
