//! What a request asks for: paths and verbs of the API, read into operations of the model.

use http::Method;
use http::request::Parts;
use serde_json::Value;

use crate::model::object::text;
use crate::model::{DeleteOptions, Kind, Part, Patch, Place, Refusal, Selector};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read an object.
    Get(Place),
    /// Read an object's scale.
    GetScale(Place),
    /// Read the objects of a kind, at most so many.
    List(Scope, Option<usize>),
    /// Learn what happens to the objects of a kind, after a revision.
    Watch(Scope, Option<u64>),
    /// Make an object.
    Create(&'static Kind, String, Value),
    /// Replace an object.
    Replace(Place, Part, Value),
    /// Patch an object.
    Patch(Place, Part, Patch),
    /// Patch or replace how many replicas an object asks for.
    Scale(Place, Patch),
    /// Delete an object.
    Delete(Place, DeleteOptions),
}

/// Some of the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The kind.
    pub kind: &'static Kind,
    /// Those of this namespace only.
    pub namespace: Option<String>,
    /// Those with these labels only.
    pub selector: Selector,
}

impl Scope {
    /// Whether the object is one of them.
    pub fn holds(&self, place: &Place, object: &Value) -> bool {
        self.holds_place(place) && self.selector.selects(object)
    }

    /// Whether an object at this place may be one of them, by its labels.
    pub(crate) fn holds_place(&self, place: &Place) -> bool {
        place.kind == self.kind
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == place.namespace)
    }
}

/// What a write carries, so that it does only what its sender decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// It is no write.
    Read,
    /// A name that its sender chose: done twice, it is refused the second time.
    Name,
    /// The version that its sender has read.
    Version,
    /// The UID of the object that its sender means.
    Uid,
    /// Nothing: it hits whatever is there.
    None,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Get(place) => write!(f, "get {place}"),
            Self::GetScale(place) => write!(f, "get scale of {place}"),
            Self::List(scope, _) => write!(f, "list {}", scope.kind.plural),
            Self::Watch(scope, _) => write!(f, "watch {}", scope.kind.plural),
            Self::Create(kind, namespace, object) => {
                write!(f, "create {} {namespace}/{}", kind.plural, text(object, "/metadata/name"))
            }
            Self::Replace(place, part, object) => write!(f, "replace {part:?} of {place}: {object}"),
            Self::Patch(place, part, patch) => write!(f, "patch {part:?} of {place}: {patch}"),
            Self::Scale(place, _) => write!(f, "scale {place}"),
            Self::Delete(place, options) => write!(f, "delete {place} {options:?}"),
        }
    }
}

impl Operation {
    /// What the operation carries to keep it from doing what its sender did not decide on.
    pub fn guard(&self) -> Guard {
        let carried = |object: &Value| {
            if !text(object, "/metadata/resourceVersion").is_empty() {
                Guard::Version
            } else if !text(object, "/metadata/uid").is_empty() {
                Guard::Uid
            } else {
                Guard::None
            }
        };
        match self {
            Self::Get(_) | Self::GetScale(_) | Self::List(..) | Self::Watch(..) => Guard::Read,
            Self::Create(_, _, object) if text(object, "/metadata/name").is_empty() => Guard::None,
            Self::Create(..) => Guard::Name,
            Self::Replace(_, _, object) => carried(object),
            // The server puts the old metadata back before it looks at the UID.
            Self::Patch(_, Part::Status, Patch::Merge(patch) | Patch::Strategic(patch))
                if carried(patch) == Guard::Uid =>
            {
                Guard::None
            }
            Self::Patch(_, _, Patch::Merge(patch) | Patch::Strategic(patch)) => carried(patch),
            Self::Scale(_, Patch::Merge(patch) | Patch::Strategic(patch)) => carried(patch),
            Self::Patch(_, _, Patch::Json(patch)) | Self::Scale(_, Patch::Json(patch)) => tested(patch),
            Self::Delete(_, options) if options.version.is_some() => Guard::Version,
            Self::Delete(_, options) if options.uid.is_some() => Guard::Uid,
            Self::Delete(..) => Guard::None,
        }
    }

    /// The object that it writes; `None` for reads.
    pub fn target(&self) -> Option<Place> {
        match self {
            Self::Get(_) | Self::GetScale(_) | Self::List(..) | Self::Watch(..) => None,
            Self::Create(kind, namespace, object) => {
                Some(Place::new(kind, namespace, text(object, "/metadata/name")))
            }
            Self::Replace(place, ..)
            | Self::Patch(place, ..)
            | Self::Scale(place, _)
            | Self::Delete(place, _) => Some(place.clone()),
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// What the API server, or the model of it, does not serve.
    pub(super) fn read(parts: &Parts, body: &[u8]) -> Result<Self, Refusal> {
        let path: Vec<&str> = parts.uri.path().split('/').filter(|step| !step.is_empty()).collect();
        let (group, rest) = match path.as_slice() {
            ["api", "v1", rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => return Err(Refusal::of_server(404)),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
            rest => (None, rest),
        };
        let [plural, rest @ ..] = rest else { return Err(Refusal::of_server(404)) };
        let kind = Kind::of(group, plural).ok_or_else(|| Refusal::of_server(404))?;
        let query = |name: &str| {
            let pairs = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
            pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        if query("dryRun").is_some() {
            return Err(Refusal::bad("dry runs are not modelled"));
        }
        let json = || serde_json::from_slice::<Value>(body).map_err(|error| Refusal::bad(error.to_string()));
        let content_type =
            parts.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let patch = || Patch::read(kind, content_type.unwrap_or_default(), json()?);

        match (&parts.method, rest) {
            (&Method::GET, []) => {
                let selector = Selector::parse(&query("labelSelector").unwrap_or_default())?;
                let scope = Scope { kind, namespace, selector };
                if query("watch").is_some_and(|value| matches!(value.as_str(), "true" | "1")) {
                    let since = query("resourceVersion").and_then(|text| text.parse().ok());
                    return Ok(Self::Watch(scope, since));
                }
                if query("continue").is_some() {
                    return Err(Refusal::bad("the further pages of a list are not modelled"));
                }
                let limit = query("limit").and_then(|text| text.parse().ok()).filter(|limit| *limit > 0);
                Ok(Self::List(scope, limit))
            }
            (&Method::POST, []) => {
                let namespace = namespace.ok_or_else(|| Refusal::of_server(405))?;
                Ok(Self::Create(kind, namespace, json()?))
            }
            (method, [name, rest @ ..]) => {
                let namespace = namespace.ok_or_else(|| Refusal::of_server(404))?;
                let place = Place::new(kind, &namespace, name);
                if let ["scale"] = rest
                    && kind.scale
                {
                    return match *method {
                        Method::GET => Ok(Self::GetScale(place)),
                        Method::PATCH => Ok(Self::Scale(place, patch()?)),
                        Method::PUT => Ok(Self::Scale(place, Patch::Merge(json()?))),
                        _ => Err(Refusal::of_server(405)),
                    };
                }
                let of = match rest {
                    [] => Part::Main,
                    ["status"] if kind.status => Part::Status,
                    ["resize"] if kind.plural == "pods" => Part::Resize,
                    _ => return Err(Refusal::of_server(404)),
                };
                match *method {
                    Method::GET => Ok(Self::Get(place)),
                    Method::PUT => Ok(Self::Replace(place, of, json()?)),
                    Method::PATCH => Ok(Self::Patch(place, of, patch()?)),
                    Method::DELETE if of == Part::Main => {
                        Ok(Self::Delete(place, delete_options(body, query)?))
                    }
                    _ => Err(Refusal::of_server(405)),
                }
            }
            _ => Err(Refusal::of_server(405)),
        }
    }
}

fn delete_options(body: &[u8], query: impl Fn(&str) -> Option<String>) -> Result<DeleteOptions, Refusal> {
    let body: Value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(body).map_err(|error| Refusal::bad(error.to_string()))?
    };
    let owned = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let policy = owned("/propagationPolicy").or_else(|| query("propagationPolicy"));
    if policy.is_some_and(|policy| policy != "Background") {
        return Err(Refusal::bad("only background deletion is modelled"));
    }
    let grace = body.get("gracePeriodSeconds").and_then(Value::as_i64);
    Ok(DeleteOptions {
        uid: owned("/preconditions/uid"),
        version: owned("/preconditions/resourceVersion"),
        grace: grace.or_else(|| query("gracePeriodSeconds").and_then(|text| text.parse().ok())),
    })
}

/// The guard of a JSON patch: a test of the version or of the UID.
fn tested(patch: &json_patch::Patch) -> Guard {
    let tests = |path: &str| {
        patch.0.iter().any(|step| match step {
            json_patch::PatchOperation::Test(test) => test.path == path,
            _ => false,
        })
    };
    if tests("/metadata/resourceVersion") {
        Guard::Version
    } else if tests("/metadata/uid") {
        Guard::Uid
    } else {
        Guard::None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Guard, Operation};
    use crate::model::{PODS, Part, Patch, Place};

    #[test]
    fn a_json_patch_is_guarded_by_what_it_tests() {
        for (path, guard) in [
            ("/metadata/uid", Guard::Uid),
            ("/metadata/resourceVersion", Guard::Version),
            ("/metadata/labels", Guard::None),
        ] {
            let patch = json!([{ "op": "test", "path": path, "value": "7" }]);
            let patch = Patch::read(&PODS, "application/json-patch+json", patch).expect("a patch");
            assert_eq!(
                Operation::Patch(Place::new(&PODS, "ns", "a"), Part::Main, patch).guard(),
                guard,
                "{path}"
            );
        }
    }
}
