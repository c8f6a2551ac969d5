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

use sandgate_config::ConfigError;
use sandgate_routes::{Clash, State};
use serde::Deserialize;
use serde_json::Value;

use crate::BUILT_IN;
use crate::config::ProviderConfig;
use crate::decode::{decode, object, tracked};
use crate::fields::{Address, Place, id, owner, time, token};
use crate::kind::{Answers, Id, has_ended, project, served_at};
use crate::metadata::Metadata;
use crate::provider::{Projection, Provider, Resource, Unreadable};
use crate::text::Text;

mod document;
mod path;
mod raw;

#[cfg(test)]
mod tests;

use document::Document;
use path::FieldPath;
pub(crate) use raw::{RawCondition, RawPaths, RawResource, RawRule, RawState};
use raw::{Scalar, Test};

pub(crate) struct Generic {
    name: String,
    resource: Resource,
    id: Vec<FieldPath>,
    ip: Vec<FieldPath>,
    token: Vec<FieldPath>,
    owner: Vec<FieldPath>,
    dead_at: Vec<FieldPath>,
    traffic_auth: Option<Condition>,
    rules: Vec<Rule>,
    default_state: State,
    clash: Clash,
}

#[derive(Debug)]
struct Condition {
    path: FieldPath,
    test: Test,
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

/// The provider name of the routes file.
const FILE: &str = "file";

impl Generic {
    pub(crate) fn build(raw: ProviderConfig) -> Result<Self, ConfigError> {
        let name = raw.name.ok_or_else(|| missing("name"))?;
        check_name(&name)?;
        let resource = raw.resource.ok_or_else(|| missing("resource"))?;
        let resource = check_resource(resource)?;
        let ip = raw.ip.ok_or_else(|| missing("ip"))?;
        let states = raw.states.ok_or_else(|| missing("states"))?;
        let RawState(default_state) = raw.default_state.ok_or_else(|| missing("default-state"))?;

        let paths = |paths: Option<RawPaths>| paths.map_or_else(Vec::new, |RawPaths(paths)| paths);
        let traffic_auth = raw.traffic_auth.map(|raw| condition(raw, "traffic-auth")).transpose()?;
        Ok(Self {
            name,
            resource,
            id: paths(raw.id),
            ip: paths(Some(ip)),
            token: paths(raw.token),
            owner: paths(raw.owner),
            dead_at: paths(raw.dead_at),
            traffic_auth,
            rules: rules(states)?,
            default_state,
            clash: raw.clash.unwrap_or_default().into(),
        })
    }
}

fn missing(key: &str) -> ConfigError {
    ConfigError::new(key, "the kind generic needs this key")
}

fn check_name(name: &str) -> Result<(), ConfigError> {
    let label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=63).contains(&name.len())
        || !name.bytes().all(label)
        || name.starts_with('-')
        || name.ends_with('-')
    {
        let reason = "expected 1 to 63 of a-z, 0-9 and '-', with no '-' at either end";
        return Err(ConfigError::new("name", reason));
    }
    if name == FILE || BUILT_IN.iter().any(|(known, _)| *known == name) {
        return Err(ConfigError::new("name", "the name of another source"));
    }
    Ok(())
}

fn check_resource(raw: RawResource) -> Result<Resource, ConfigError> {
    for (key, text) in [
        ("resource.group", &raw.group),
        ("resource.version", &raw.version),
        ("resource.kind", &raw.kind),
        ("resource.plural", &raw.plural),
    ] {
        let good =
            |byte: u8| byte.is_ascii_alphanumeric() || (key == "resource.group" && b".-".contains(&byte));
        if !(1..=253).contains(&text.len()) || !text.bytes().all(good) {
            return Err(ConfigError::new(
                key,
                "expected 1 to 253 letters and digits; a group may have '.' and '-'",
            ));
        }
    }
    Ok(Resource { group: raw.group, version: raw.version, kind: raw.kind, plural: raw.plural })
}

fn condition(raw: RawCondition, key: &str) -> Result<Condition, ConfigError> {
    let path = raw.path.0.clone();
    let mut tests = raw.tests();
    let (Some(test), true) = (tests.pop(), tests.is_empty()) else {
        return Err(ConfigError::new(key, "expected exactly one of equals, in, exists, absent and at-least"));
    };
    if let Test::OneOf(values) = &test {
        let kind = values.first().map(std::mem::discriminant);
        if kind.is_none() || values.len() > 64 {
            return Err(ConfigError::new(format!("{key}.in"), "expected 1 to 64 values"));
        }
        if values.iter().any(|value| Some(std::mem::discriminant(value)) != kind) {
            return Err(ConfigError::new(format!("{key}.in"), "expected values of one type"));
        }
    }
    if let Test::AtLeast(number) = test
        && number.unsigned_abs() > 1 << 53
    {
        return Err(ConfigError::new(format!("{key}.at-least"), "expected a number of at most 2^53"));
    }
    Ok(Condition { path, test })
}

fn rules(raw: Vec<RawRule>) -> Result<Vec<Rule>, ConfigError> {
    if !(1..=64).contains(&raw.len()) {
        return Err(ConfigError::new("states", "expected 1 to 64 rules"));
    }
    let mut rules: Vec<Rule> = Vec::with_capacity(raw.len());
    for (index, raw) in raw.into_iter().enumerate() {
        let key = format!("states[{index}]");
        if !(1..=16).contains(&raw.when.len()) {
            let reason = "expected 1 to 16 conditions; what holds always is `default-state`";
            return Err(ConfigError::new(format!("{key}.when"), reason));
        }
        let mut when: Vec<Condition> = Vec::with_capacity(raw.when.len());
        for (place, raw) in raw.when.into_iter().enumerate() {
            let key = format!("{key}.when[{place}]");
            let condition = condition(raw, &key)?;
            let same = |other: &&Condition| other.path == condition.path;
            if when.iter().filter(same).any(|other| other.test.excludes(&condition.test)) {
                return Err(ConfigError::new(key, "cannot hold together with a condition before it"));
            }
            when.push(condition);
        }
        // Whatever passes this rule has passed an earlier one.
        let covered = rules.iter().position(|earlier| {
            earlier.when.iter().all(|theirs| {
                when.iter().any(|ours| ours.path == theirs.path && ours.test.implies(&theirs.test))
            })
        });
        if let Some(earlier) = covered {
            let reason = format!("never reached: states[{earlier}] matches whatever this one does");
            return Err(ConfigError::new(key, reason));
        }
        rules.push(Rule { when, state: raw.state.0 });
    }
    Ok(rules)
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
            identity,
            owner: first(&self.owner, &object, |place, text| owner(place, text).map(Some))?
                .unwrap_or_default(),
            state: served_at(state, address),
            address,
            token: first(&self.token, &object, token)?,
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

impl Condition {
    fn holds(&self, object: &Value) -> Result<bool, Unreadable> {
        let found = self.path.find(object)?.filter(|value| value.as_str() != Some(""));
        let values = match (&self.test, found) {
            (Test::Exists, found) => return Ok(found.is_some()),
            (Test::Absent, found) => return Ok(found.is_none()),
            (Test::AtLeast(least), Some(Value::Number(number))) => {
                return Ok(number.as_f64().is_some_and(|number| number >= *least as f64));
            }
            (Test::AtLeast(_), Some(_)) => return Err(self.expected("a number")),
            (Test::OneOf(values), Some(_)) => values,
            (_, None) => return Ok(false),
        };
        let mut holds = false;
        for value in values {
            holds |= match (value, found) {
                (Scalar::Text(value), Some(Value::String(text))) => text == value,
                (Scalar::Bool(value), Some(Value::Bool(found))) => found == value,
                (Scalar::Number(value), Some(Value::Number(found))) => found.as_f64() == Some(*value as f64),
                (Scalar::Text(_), _) => return Err(self.expected("a text")),
                (Scalar::Bool(_), _) => return Err(self.expected("a boolean")),
                (Scalar::Number(_), _) => return Err(self.expected("a number")),
            };
        }
        Ok(holds)
    }

    fn expected(&self, what: &str) -> Unreadable {
        Unreadable::new(self.path.as_str(), format!("expected {what}"))
    }
}
