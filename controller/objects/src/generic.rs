//! A provider by config: any custom resource, with paths to its fields and rules for its state.
//!
//! A path is a JSONPath query ([`path`]). The built-in kinds skip the fields that they do not need. Here an
//! object is decoded as a whole ([`document`]). Three limits bound what that costs:
//! - Size: the watch reads no event and no page of a list of more than 16 MiB (`max_line` and `max_page` of
//!   `sandgate-follow`). A decoded object takes memory in proportion to its bytes, and is dropped before the
//!   scope's next object is decoded.
//! - Depth: the parser refuses more than 127 lists and objects inside one another, so neither the parser nor
//!   a query runs out of stack.
//! - Keys: a key that occurs twice in one object is refused.
//!
//! The config is checked as a whole when it is loaded. A rule that can never apply is refused: it is a
//! mistake.

use std::time::SystemTime;

use sandgate_routes::{Clash, State};
use serde::Deserialize;
use serde_json::Value;

use crate::decode::{decode, object, tracked};
use crate::fields::{Address, Place, id, owner, time, token, traffic_token};
use crate::kind::{Answers, Id, has_ended, project, served_at};
use crate::metadata::Metadata;
use crate::provider::{Projection, Provider, Resource, Unreadable};
use crate::text::Text;

mod check;
mod condition;
mod document;
mod path;
mod raw;

#[cfg(test)]
mod tests;

use condition::Condition;
use document::Document;
use path::FieldPath;
pub(crate) use raw::{MAX_RULES, RawCondition, RawPaths, RawResource, RawRule, RawState};

pub(crate) struct Generic {
    name: String,
    resource: Resource,
    id: Vec<FieldPath>,
    ip: Vec<FieldPath>,
    token: Vec<FieldPath>,
    traffic_token: Vec<FieldPath>,
    owner: Vec<FieldPath>,
    dead_at: Vec<FieldPath>,
    traffic_auth: Option<Condition>,
    rules: Vec<Rule>,
    default_state: State,
    clash: Clash,
}

#[derive(Debug)]
struct Rule {
    when: Vec<Condition>,
    state: State,
}

/// The part of every object that is not configured.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>"))]
struct AnyObject<S> {
    #[serde(deserialize_with = "object")]
    metadata: Metadata<S>,
}

impl Provider for Generic {
    fn name(&self) -> &str {
        &self.name
    }

    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn clash(&self) -> Clash {
        self.clash
    }

    /// Only a controller writes the status. Labels, annotations and the spec are written by the object's
    /// owner.
    fn address_is_claimed(&self) -> bool {
        !self.ip.iter().all(FieldPath::is_in_status)
    }

    fn project(&self, object: &[u8], now: SystemTime) -> Result<Projection, Unreadable> {
        let Document(object) = decode(object)?;
        let AnyObject::<Text<'_>> { metadata } = tracked(&object)?;
        let identity = metadata.identity(&self.name)?;
        let claimed = first(&self.id, &object, id)?;
        let address = first(&self.ip, &object, |_, text| Ok(Some(Address::read(text))))?;
        let address = address.unwrap_or(Address::Missing);
        let ends = first(&self.dead_at, &object, time)?;
        let mut state = self.default_state;
        // Every rule is evaluated, so that a field of the wrong type is reported whichever rule applies.
        for rule in self.rules.iter().rev() {
            let mut holds = true;
            for condition in &rule.when {
                holds &= condition.holds(&object)?;
            }
            if holds {
                state = rule.state;
            }
        }
        if has_ended(&identity, ends, now) {
            state = State::Dead;
        }
        let answers = Answers {
            id: Id::claimed_or_own(&identity, claimed)?,
            identity_uid: identity.uid.to_owned(),
            identity,
            owner: first(&self.owner, &object, |place, text| owner(place, text).map(Some))?
                .unwrap_or_default(),
            state: served_at(state, address),
            address,
            token: first(&self.token, &object, token)?,
            traffic_token: first(&self.traffic_token, &object, traffic_token)?,
            requires_traffic_auth: match &self.traffic_auth {
                Some(condition) => condition.holds(&object)?,
                None => false,
            },
            ends,
        };
        Ok(project(self, answers, now))
    }
}

/// The value of the first path that leads to a text that is not empty. Every path is followed, so that one
/// which meets a value of the wrong type is reported whichever path counts.
fn first<'a, T>(
    paths: &[FieldPath],
    object: &'a Value,
    read: impl Fn(Place<'_>, &'a str) -> Result<Option<T>, Unreadable>,
) -> Result<Option<T>, Unreadable> {
    let found = paths.iter().map(|path| path.find(object)).collect::<Result<Vec<_>, _>>()?;
    for (path, found) in paths.iter().zip(found) {
        let place = Place::Path(path.as_str());
        let text = match found {
            None => continue,
            Some(Value::String(text)) => text,
            Some(_) => return Err(place.wrong("expected a text")),
        };
        if !text.is_empty() {
            return read(place, text);
        }
    }
    Ok(None)
}
