//! The OpenAPI document, made from the handlers and the bodies themselves.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use http::HeaderName;
use http::header::CONTENT_TYPE;
use hyper::body::Bytes;
use serde_json::Value;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, HeaderBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder, Type,
};
use utoipa::{IntoResponses, Modify, OpenApi as _};

use super::model::{ErrorBody, Health};
use super::{ApiSettings, ApiState, keys, list, sandboxes, snapshots, templates, usage};

/// The server is up
///
/// Whether it can do anything is told by `/readyz` on the port of the probes.
#[utoipa::path(
    get, path = "/health", tag = "health", operation_id = "health", security(()),
    responses((status = 200, description = "It is up.", body = Health)),
)]
pub(super) async fn health() -> Json<Health> {
    Json(Health { status: "ok".to_owned() })
}

/// The OpenAPI document of a server with the default settings.
pub fn document() -> OpenApi {
    Document::openapi()
}

/// The OpenAPI document of a server with these settings: what they bound is bounded by them in it.
pub(super) fn document_of(settings: &ApiSettings) -> Value {
    let mut document = serde_json::to_value(document()).unwrap_or_default();
    let longest = settings.max_timeout.as_secs();
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    let fields = schemas.into_iter().flat_map(|schemas| schemas.values_mut()).filter_map(|schema| {
        let properties = schema.get_mut("properties")?;
        properties.as_object_mut()
    });
    for (field, property) in fields.flatten() {
        let Some(most) = property["maximum"].as_u64() else { continue };
        let most = match field.as_str() {
            "timeout" => longest,
            // It has a bound of its own as well.
            "duration" => most.min(longest),
            _ => continue,
        };
        property["maximum"] = most.into();
        if let Some(usual) = property["default"].as_u64() {
            property["default"] = usual.min(most).into();
        }
    }
    document
}

/// The handler of `/openapi.json`.
pub(super) async fn served(State(state): State<ApiState>) -> ([(HeaderName, &'static str); 1], Bytes) {
    let made = || document_of(&state.settings).to_string().into();
    ([(CONTENT_TYPE, "application/json")], state.document.get_or_init(made).clone())
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Sandgate manager",
        description = "The lifecycle of sandboxes, as E2B's SDK speaks it.\n\nEvery answer has an `X-Request-ID`: \
            the caller's, or a new one. Every failure is JSON, and its `code` is the HTTP status. A failure that \
            must not be sent again by itself has `Should-Retry: false`; where it is known when to try again there \
            is `Retry-After`. The number of requests is limited for each key.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers(
        (url = "/", description = "As E2B has it."),
        (url = "/kruise/api", description = "As OpenKruise has it."),
    ),
    paths(
        sandboxes::create_v2, sandboxes::create, list::sandboxes_v2, list::sandboxes, sandboxes::info,
        sandboxes::kill, sandboxes::connect_v2, sandboxes::connect, sandboxes::timeout, sandboxes::refreshes,
        sandboxes::pause, sandboxes::resume, sandboxes::network, snapshots::create, snapshots::list,
        snapshots::fork, templates::remove, usage::metrics, usage::metrics_of_many, usage::logs,
        usage::logs_v2, templates::list, templates::list_v2, templates::get, templates::alias, keys::teams,
        keys::list, keys::create, keys::revoke, health,
    ),
    components(schemas(ErrorBody)),
    modifiers(&Key, &Failures),
    security(("apiKey" = [])),
)]
struct Document;

/// Adds the key to the document.
struct Key;

impl Modify for Key {
    fn modify(&self, document: &mut OpenApi) {
        let header = ApiKeyValue::with_description("X-API-KEY", "A key made by `sandgate keys create`.");
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("apiKey", SecurityScheme::ApiKey(ApiKey::Header(header)));
    }
}

/// Adds the failures to the document, each once.
struct Failures;

impl Modify for Failures {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        let all = WRITING.iter().map(|status| (name(*status), RefOr::T(failure(*status))));
        components.responses.extend(all);
    }
}

/// The name of a failure in the document.
fn name(status: u16) -> String {
    format!("Error{status}")
}

/// How a list can fail.
const LISTING: [u16; 5] = [400, 401, 429, 500, 503];
/// How a question about one thing can fail.
const READING: [u16; 7] = [400, 401, 404, 429, 500, 503, 504];
/// How a change can fail: every way there is.
const WRITING: [u16; 13] = [400, 401, 403, 404, 408, 409, 413, 415, 429, 500, 501, 503, 504];

/// The failures of a list.
pub(super) struct Listing;
/// The failures of a question about one thing.
pub(super) struct Reading;
/// The failures of a change.
pub(super) struct Writing;

impl IntoResponses for Listing {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        failures(&LISTING)
    }
}

impl IntoResponses for Reading {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        failures(&READING)
    }
}

impl IntoResponses for Writing {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        failures(&WRITING)
    }
}

fn failures(statuses: &[u16]) -> BTreeMap<String, RefOr<Response>> {
    let refer = |status: &u16| (status.to_string(), RefOr::Ref(Ref::from_response_name(name(*status))));
    statuses.iter().map(refer).collect()
}

fn failure(status: u16) -> Response {
    let about = match status {
        400 => "A field, parameter or header is wrong: the message names it and says what was expected.",
        401 => "The key is missing or not known.",
        403 => "The key may not do this, or its quota is used up (`quota_exceeded`).",
        404 => "It does not exist, or it is another's.",
        408 => "The body did not arrive in time.",
        409 => "It cannot be done in the present state, or something else is being done to it.",
        413 => "The body is too long.",
        415 => "The body is not JSON.",
        429 => "Too many requests, or nothing is free at present. Nothing was done.",
        501 => "Nothing in this cluster can do it (`not_supported`).",
        503 => "The cluster did not answer. With `outcome_unknown` it may have been done all the same.",
        504 => "It took too long, and nothing is left of it.",
        _ => "A defect of the server.",
    };
    let text = ObjectBuilder::new().schema_type(Type::String);
    let whole = ObjectBuilder::new().schema_type(Type::Integer);
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    let mut response = ResponseBuilder::new().description(about).content("application/json", content);
    if matches!(status, 429 | 503) {
        let after = HeaderBuilder::new().schema(Some(whole)).description(Some("Seconds, where it is known."));
        response = response.header("Retry-After", after.build());
    }
    if matches!(status, 500 | 503 | 504) {
        let again = HeaderBuilder::new()
            .schema(Some(text))
            .description(Some("`false`: it must not be sent again without a look."));
        response = response.header("Should-Retry", again.build());
    }
    response.build()
}
