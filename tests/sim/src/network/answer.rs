//! Operations, done on the model, and what the API server answers.

use std::fmt::Write as _;

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::operation::{Operation, Scope};
use crate::model::object::{number, text};
use crate::model::{Change, Deleted, Model, Part, Patch, Place, Refusal};

/// An answer of the API server.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    body: String,
}

impl Answer {
    fn ok(code: u16, body: &Value) -> Self {
        Self { code, body: body.to_string() }
    }

    pub(super) fn into_response(self) -> Response<Vec<u8>> {
        let mut response = Response::new(self.body.into_bytes());
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::ok(refusal.code, &refusal.status())
    }
}

impl Operation {
    /// Does it. What it changes is changed when this returns, whoever learns of it.
    pub fn perform(&self, model: &mut Model) -> Answer {
        self.try_perform(model).unwrap_or_else(Answer::from)
    }

    fn try_perform(&self, model: &mut Model) -> Result<Answer, Refusal> {
        Ok(match self {
            Self::Get(place) => Answer::ok(200, model.get(place)?),
            Self::GetScale(place) => Answer::ok(200, &scale(place, model.get(place)?)),
            Self::List(scope, limit) => Answer::ok(200, &list(model, scope, *limit)),
            Self::Watch(scope, since) => Answer { code: 200, body: watch(model, scope, *since)? },
            Self::Create(kind, namespace, object) => {
                Answer::ok(201, &*model.create(kind, namespace, object.clone())?)
            }
            Self::Replace(place, of, object) => Answer::ok(200, &*model.replace(place, *of, object.clone())?),
            Self::Patch(place, of, patch) => Answer::ok(200, &*model.patch(place, *of, patch)?),
            Self::Scale(place, patch) => {
                let scaled = model.patch(place, Part::Main, &of_scale(patch)?)?;
                Answer::ok(200, &scale(place, &scaled))
            }
            Self::Delete(place, options) => match model.delete(place, options)? {
                Deleted::Pending(object) => Answer::ok(200, &object),
                Deleted::Gone(object) if place.kind.graceful() => Answer::ok(200, &object),
                Deleted::Gone(object) => Answer::ok(
                    200,
                    &json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                        "details": {
                            "name": place.name, "group": place.kind.group, "kind": place.kind.plural,
                            "uid": text(&object, "/metadata/uid"),
                        },
                    }),
                ),
            },
        })
    }
}

fn list(model: &Model, scope: &Scope, limit: Option<usize>) -> Value {
    let mut items: Vec<&Value> = model
        .all()
        .filter(|(place, object)| scope.holds(place, object))
        .map(|(_, object)| object.as_ref())
        .collect();
    let mut metadata = json!({ "resourceVersion": model.revision().to_string() });
    if let Some(limit) = limit.filter(|limit| *limit < items.len()) {
        items.truncate(limit);
        // There is more. Nothing here asks for it.
        metadata["continue"] = json!("more");
    }
    json!({
        "apiVersion": scope.kind.api_version(), "kind": format!("{}List", scope.kind.kind),
        "metadata": metadata, "items": items,
    })
}

/// What happened since, and then the end: a watch whose time is over. The watcher goes on from the version of
/// the bookmark. Without a version the watch begins with the objects that there are.
fn watch(model: &Model, scope: &Scope, since: Option<u64>) -> Result<String, Refusal> {
    let mut lines = String::new();
    let mut line = |kind: &str, object: &Value| {
        let _ = writeln!(lines, "{}", json!({ "type": kind, "object": object }));
    };
    match since.filter(|since| *since > 0) {
        None => {
            for (_, object) in model.all().filter(|(place, object)| scope.holds(place, object)) {
                line(Change::Added.as_str(), object);
            }
        }
        Some(since) => {
            for event in model.since(since)?.filter(|event| scope.holds_place(&event.place)) {
                if let Some(change) = event.seen_by(&scope.selector) {
                    line(change.as_str(), &event.object);
                }
            }
        }
    }
    let bookmark = json!({
        "apiVersion": scope.kind.api_version(), "kind": scope.kind.kind,
        "metadata": { "resourceVersion": model.revision().to_string() },
    });
    line("BOOKMARK", &bookmark);
    Ok(lines)
}

fn scale(place: &Place, object: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": place.name, "namespace": place.namespace, "uid": text(object, "/metadata/uid"),
            "resourceVersion": text(object, "/metadata/resourceVersion"),
        },
        "spec": { "replicas": number(object, "/spec/replicas").unwrap_or(0) },
        "status": {
            "replicas": number(object, "/status/replicas").unwrap_or(0),
            "selector": text(object, "/status/selector"),
        },
    })
}

/// The patch of a scale, as a patch of the object itself: replicas, version and UID have the same places in
/// both.
fn of_scale(patch: &Patch) -> Result<Patch, Refusal> {
    let Patch::Merge(body) = patch else { return Err(Refusal::of_server(415)) };
    let mut of = json!({ "metadata": {} });
    for field in ["resourceVersion", "uid"] {
        if let Some(value) = body.pointer(&format!("/metadata/{field}")) {
            of["metadata"][field] = value.clone();
        }
    }
    if let Some(replicas) = body.pointer("/spec/replicas") {
        of["spec"] = json!({ "replicas": replicas });
    }
    Ok(Patch::Merge(of))
}
