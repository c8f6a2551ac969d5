//! A provider by config: any custom resource, with paths to its fields and rules for its state.
//!
//! Everything is checked when the config is loaded; a rule that can never count is refused, since whoever wrote it
//! meant something by it. Of an object only what lies on the configured paths is read.

use std::net::IpAddr;
use std::time::SystemTime;

use sandgate_routes::{Clash, Secret, State};

use crate::BUILT_IN;
use crate::config::{ProviderError, RawProvider, Strict};
use crate::observe::{Findings, Head, address, created, id, is_past, owner, time, token};
use crate::provider::{Projection, Provider, Resource, Unreadable};

mod path;
mod raw;
mod walk;

#[cfg(test)]
mod tests;

use path::FieldPath;
pub(crate) use raw::{RawCondition, RawPaths, RawResource, RawRule, RawState};
use raw::{Scalar, Test};
use walk::{Found, Plan};

pub(crate) struct Generic {
    name: String,
    resource: Resource,
    plan: Plan,
    head: [Field; 6],
    id: Vec<Field>,
    ip: Vec<Field>,
    token: Vec<Field>,
    owner: Vec<Field>,
    dead_at: Vec<Field>,
    traffic_auth: Option<Condition>,
    rules: Vec<Rule>,
    default_state: State,
    clash: Clash,
}

/// A path and where its value is put.
#[derive(Debug)]
struct Field {
    path: FieldPath,
    slot: usize,
}

#[derive(Debug)]
struct Condition {
    field: Field,
    test: Test,
}

#[derive(Debug)]
struct Rule {
    when: Vec<Condition>,
    state: State,
}

/// The provider name of the routes file.
const FILE: &str = "file";

const HEAD: [&str; 6] = [
    "metadata.namespace",
    "metadata.name",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
];

impl Generic {
    pub(crate) fn build(raw: RawProvider) -> Result<Self, ProviderError> {
        let name = raw.name.ok_or_else(|| missing("name"))?;
        check_name(&name)?;
        let Strict(resource) = raw.resource.ok_or_else(|| missing("resource"))?;
        let resource = check_resource(resource)?;
        let ip = raw.ip.ok_or_else(|| missing("ip"))?;
        let states = raw.states.ok_or_else(|| missing("states"))?;
        let RawState(default_state) = raw.default_state.ok_or_else(|| missing("default-state"))?;

        let mut plan = Plan::new();
        let head = HEAD.map(|text| {
            let path = FieldPath::parse(text).expect("a constant path");
            Field { slot: plan.add(&path), path }
        });
        let mut fields = |paths: Option<RawPaths>| -> Vec<Field> {
            let paths = paths.map_or_else(Vec::new, |RawPaths(paths)| paths);
            paths.into_iter().map(|path| Field { slot: plan.add(&path), path }).collect()
        };
        let (id, ip) = (fields(raw.id), fields(Some(ip)));
        let (token, owner, dead_at) = (fields(raw.token), fields(raw.owner), fields(raw.dead_at));
        let traffic_auth = match raw.traffic_auth {
            Some(Strict(raw)) => Some(condition(&mut plan, raw, "traffic-auth")?),
            None => None,
        };
        let rules = rules(&mut plan, states)?;
        Ok(Self {
            name,
            resource,
            plan,
            head,
            id,
            ip,
            token,
            owner,
            dead_at,
            traffic_auth,
            rules,
            default_state,
            clash: raw.clash.unwrap_or_default().into(),
        })
    }
}

fn missing(key: &str) -> ProviderError {
    ProviderError::new(key, "the kind generic needs this key")
}

fn check_name(name: &str) -> Result<(), ProviderError> {
    let label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=63).contains(&name.len())
        || !name.bytes().all(label)
        || name.starts_with('-')
        || name.ends_with('-')
    {
        let reason = "expected 1 to 63 of a-z, 0-9 and '-', with no '-' at either end";
        return Err(ProviderError::new("name", reason));
    }
    if name == FILE || BUILT_IN.iter().any(|(known, _)| *known == name) {
        return Err(ProviderError::new("name", "the name of another source"));
    }
    Ok(())
}

fn check_resource(raw: RawResource) -> Result<Resource, ProviderError> {
    for (key, text) in [
        ("resource.group", &raw.group),
        ("resource.version", &raw.version),
        ("resource.kind", &raw.kind),
        ("resource.plural", &raw.plural),
    ] {
        let good =
            |byte: u8| byte.is_ascii_alphanumeric() || (key == "resource.group" && b".-".contains(&byte));
        if !(1..=253).contains(&text.len()) || !text.bytes().all(good) {
            return Err(ProviderError::new(
                key,
                "expected 1 to 253 letters and digits; a group may have '.' and '-'",
            ));
        }
    }
    Ok(Resource { group: raw.group, version: raw.version, kind: raw.kind, plural: raw.plural })
}

fn condition(plan: &mut Plan, raw: RawCondition, key: &str) -> Result<Condition, ProviderError> {
    let path = raw.path.0.clone();
    let mut tests = raw.tests();
    let (Some(test), true) = (tests.pop(), tests.is_empty()) else {
        return Err(ProviderError::new(
            key,
            "expected exactly one of equals, in, exists, absent and at-least",
        ));
    };
    if let Test::OneOf(values) = &test {
        let kind = values.first().map(std::mem::discriminant);
        if kind.is_none() || values.len() > 64 {
            return Err(ProviderError::new(format!("{key}.in"), "expected 1 to 64 values"));
        }
        if values.iter().any(|value| Some(std::mem::discriminant(value)) != kind) {
            return Err(ProviderError::new(format!("{key}.in"), "expected values of one type"));
        }
    }
    if let Test::AtLeast(number) = test
        && number.unsigned_abs() > 1 << 53
    {
        return Err(ProviderError::new(format!("{key}.at-least"), "expected a number of at most 2^53"));
    }
    Ok(Condition { field: Field { slot: plan.add(&path), path }, test })
}

fn rules(plan: &mut Plan, raw: Vec<Strict<RawRule>>) -> Result<Vec<Rule>, ProviderError> {
    if !(1..=64).contains(&raw.len()) {
        return Err(ProviderError::new("states", "expected 1 to 64 rules"));
    }
    let mut rules: Vec<Rule> = Vec::with_capacity(raw.len());
    for (index, Strict(raw)) in raw.into_iter().enumerate() {
        let key = format!("states[{index}]");
        if !(1..=16).contains(&raw.when.len()) {
            let reason = "expected 1 to 16 conditions; what holds always is `default-state`";
            return Err(ProviderError::new(format!("{key}.when"), reason));
        }
        let mut when: Vec<Condition> = Vec::with_capacity(raw.when.len());
        for (place, Strict(raw)) in raw.when.into_iter().enumerate() {
            let key = format!("{key}.when[{place}]");
            let condition = condition(plan, raw, &key)?;
            let same = |other: &&Condition| other.field.slot == condition.field.slot;
            if when.iter().filter(same).any(|other| other.test.excludes(&condition.test)) {
                return Err(ProviderError::new(key, "cannot hold together with a condition before it"));
            }
            when.push(condition);
        }
        // Whatever passes this rule has passed an earlier one.
        let covered = rules.iter().position(|earlier| {
            earlier.when.iter().all(|theirs| {
                when.iter()
                    .any(|ours| ours.field.slot == theirs.field.slot && ours.test.implies(&theirs.test))
            })
        });
        if let Some(earlier) = covered {
            let reason = format!("never reached: states[{earlier}] matches whatever this one does");
            return Err(ProviderError::new(key, reason));
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

    /// Only a status is a controller's word; labels, annotations and the spec are written by whoever made the object.
    fn address_is_claimed(&self) -> bool {
        self.ip.iter().any(|field| !field.path.as_str().starts_with("status."))
    }

    fn project(&self, object: &[u8], now: SystemTime) -> Result<Projection, Unreadable> {
        let found = self.plan.read(object)?;
        let [namespace, name, uid, version, made, deleting] = &self.head;
        let head = Head {
            namespace: namespace.text(&found)?.unwrap_or_default(),
            name: name.text(&found)?.unwrap_or_default(),
            uid: uid.text(&found)?.unwrap_or_default(),
            version: version.text(&found)?.unwrap_or_default(),
            created: created(made.text(&found)?)?,
            deleting: found[deleting.slot] != Found::Missing,
        }
        .checked()?;
        let id = first(&self.id, &found, id)?;
        let ip: Option<IpAddr> = first(&self.ip, &found, address)?;
        let token: Option<Secret> = first(&self.token, &found, token)?;
        let owner =
            first(&self.owner, &found, |path, text| owner(path, text).map(|owner| text.map(|_| owner)))?;
        let ends = first(&self.dead_at, &found, time)?;
        let require_traffic_auth = match &self.traffic_auth {
            Some(condition) => condition.holds(&found)?,
            None => false,
        };
        let mut state = self.default_state;
        // All of them are asked, so that a field of the wrong type shows whichever rule counts.
        for rule in self.rules.iter().rev() {
            let mut holds = true;
            for condition in &rule.when {
                holds &= condition.holds(&found)?;
            }
            if holds {
                state = rule.state;
            }
        }
        if head.deleting || is_past(ends, now) {
            state = State::Dead;
        }
        let findings = Findings {
            own_id: id.as_ref().is_none_or(|id| head.has_own_id(id)),
            id: id.map_or_else(|| head.default_id(), Ok)?,
            owner: owner.unwrap_or_default(),
            state,
            ip,
            ip_is_claimed: self.address_is_claimed(),
            token,
            require_traffic_auth,
            clash: self.clash,
            ends,
        };
        head.projection(&self.name, findings, now)
    }
}

/// What the first field that is not empty gives.
fn first<T>(
    fields: &[Field],
    found: &[Found<'_>],
    take: impl Fn(&str, Option<&str>) -> Result<Option<T>, Unreadable>,
) -> Result<Option<T>, Unreadable> {
    for field in fields {
        if let Some(value) = take(field.path.as_str(), field.text(found)?)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

impl Field {
    /// The text at the path; an empty one is none.
    fn text<'a>(&self, found: &'a [Found<'_>]) -> Result<Option<&'a str>, Unreadable> {
        match &found[self.slot] {
            Found::Missing => Ok(None),
            Found::Text(text) => Ok(Some(text.as_ref()).filter(|text| !text.is_empty())),
            _ => Err(Unreadable::new(self.path.as_str(), "expected a text")),
        }
    }
}

impl Condition {
    fn holds(&self, found: &[Found<'_>]) -> Result<bool, Unreadable> {
        let expected =
            |kind: &str| Err(Unreadable::new(self.field.path.as_str(), format!("expected {kind}")));
        let found = &found[self.field.slot];
        let absent = match found {
            Found::Missing => true,
            Found::Text(text) => text.is_empty(),
            _ => false,
        };
        match (&self.test, found) {
            (Test::Exists, _) => Ok(!absent),
            (Test::Absent, _) => Ok(absent),
            _ if absent => Ok(false),
            (Test::AtLeast(least), Found::Number(number)) => Ok(*number >= *least as f64),
            (Test::AtLeast(_), _) => expected("a number"),
            (Test::OneOf(values), found) => {
                for value in values {
                    let equal = match (value, found) {
                        (Scalar::Text(value), Found::Text(text)) => text == value,
                        (Scalar::Bool(value), Found::Bool(found)) => found == value,
                        (Scalar::Number(value), Found::Number(found)) => *found == *value as f64,
                        (Scalar::Text(_), _) => return expected("a text"),
                        (Scalar::Bool(_), _) => return expected("a boolean"),
                        (Scalar::Number(_), _) => return expected("a number"),
                    };
                    if equal {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}
