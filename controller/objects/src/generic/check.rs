//! From the generic provider's raw config to the checked one.

use sandgate_config::ConfigError;

use super::condition::{Condition, Test};
use super::raw::{
    MAX_CONDITIONS, MAX_NUMBER, MAX_RULES, MAX_VALUES, RawCondition, RawPaths, RawResource, RawRule, RawState,
};
use super::{Generic, Rule};
use crate::BUILT_IN;
use crate::config::ProviderConfig;
use crate::provider::Resource;

/// The provider name of the routes file. No other provider may have it.
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
            traffic_token: paths(raw.traffic_token),
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
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=63).contains(&name.len())
        || !name.bytes().all(is_allowed)
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
        let is_allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || (key == "resource.group" && b".-".contains(&byte));
        if !(1..=253).contains(&text.len()) || !text.bytes().all(is_allowed) {
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
        if kind.is_none() || values.len() > MAX_VALUES {
            return Err(ConfigError::new(format!("{key}.in"), format!("expected 1 to {MAX_VALUES} values")));
        }
        if values.iter().any(|value| Some(std::mem::discriminant(value)) != kind) {
            return Err(ConfigError::new(format!("{key}.in"), "expected values of one type"));
        }
    }
    if let Test::AtLeast(number) = test
        && number.unsigned_abs() > MAX_NUMBER.unsigned_abs()
    {
        return Err(ConfigError::new(format!("{key}.at-least"), "expected a number of at most 2^53"));
    }
    Ok(Condition { path, test })
}

fn rules(raw: Vec<RawRule>) -> Result<Vec<Rule>, ConfigError> {
    if !(1..=MAX_RULES).contains(&raw.len()) {
        return Err(ConfigError::new("states", format!("expected 1 to {MAX_RULES} rules")));
    }
    let mut rules: Vec<Rule> = Vec::with_capacity(raw.len());
    for (index, raw) in raw.into_iter().enumerate() {
        let key = format!("states[{index}]");
        if !(1..=MAX_CONDITIONS).contains(&raw.when.len()) {
            let reason = format!(
                "expected 1 to {MAX_CONDITIONS} conditions; a state without conditions is `default-state`"
            );
            return Err(ConfigError::new(format!("{key}.when"), reason));
        }
        let mut when: Vec<Condition> = Vec::with_capacity(raw.when.len());
        for (at, raw) in raw.when.into_iter().enumerate() {
            let key = format!("{key}.when[{at}]");
            let condition = condition(raw, &key)?;
            let same = |other: &&Condition| other.path == condition.path;
            if when.iter().filter(same).any(|other| other.test.excludes(&condition.test)) {
                return Err(ConfigError::new(key, "cannot hold together with a condition before it"));
            }
            when.push(condition);
        }
        // An earlier rule matches every object that this one matches, so this one never decides.
        let covering = rules.iter().position(|earlier| {
            earlier.when.iter().all(|theirs| {
                when.iter().any(|ours| ours.path == theirs.path && ours.test.implies(&theirs.test))
            })
        });
        if let Some(earlier) = covering {
            let reason =
                format!("never reached: states[{earlier}] matches every object that this one matches");
            return Err(ConfigError::new(key, reason));
        }
        rules.push(Rule { when, state: raw.state.0 });
    }
    Ok(rules)
}
