//! Profiles: which predicates and scores choose a pool.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::PoolOffer;
use super::predicate::Predicate;

/// The ConfigMap with the profiles, in the operator's namespace.
pub(crate) const CONFIG_MAP: &str = "pool-assign-profiles";
/// The key of the ConfigMap: a JSON list of profiles.
pub(crate) const PROFILES: &str = "profiles";
/// The profile of whoever names none.
pub(super) const DEFAULT: &str = "default";

/// How a pool is chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    /// What every pool must pass.
    pub(super) predicates: Vec<Predicate>,
    /// What ranks the pools that pass, each with its weight.
    pub(super) scores: Vec<(Balance, i64)>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            predicates: vec![Predicate::Image, Predicate::Resource, Predicate::NodeSelector],
            scores: vec![(Balance::LeastAllocated, 100)],
        }
    }
}

impl Profile {
    /// How good a pool is.
    pub(super) fn score(&self, pool: &PoolOffer<'_>) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a weight of more than 2^52 is no weight")]
        self.scores.iter().map(|(balance, weight)| balance.score(pool) * *weight as f64).sum()
    }
}

/// Which pools the score `resbalance` prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Balance {
    #[default]
    LeastAllocated,
    MostAllocated,
}

impl Balance {
    /// From 0 to 1. A pool without pods has 0 either way.
    fn score(self, pool: &PoolOffer<'_>) -> f64 {
        if pool.total <= 0 {
            return 0.0;
        }
        let share = f64::from(pool.allocated) / f64::from(pool.total);
        match self {
            Self::LeastAllocated => 1.0 - share,
            Self::MostAllocated => share,
        }
    }
}

/// What is wrong with the profiles of the ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Complaint {
    /// The default profile is in the place of all of them.
    #[error("the profiles are no JSON list, so the default is used: {0}")]
    Unreadable(String),
    /// The default profile is in the place of this one.
    #[error("profile {0:?} cannot be used, so the default is: {1}")]
    Bad(String, BadProfile),
    /// The profile is used without it.
    #[error("profile {0:?} has an unknown {1} {2:?}, which is left out")]
    Unknown(String, &'static str, String),
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadProfile {
    /// It has another shape.
    #[error("{0}")]
    Shape(String),
    /// The predicate `labelselector`, with this in the place of a list of keys.
    #[error("predicate \"labelselector\" has no keys {0}")]
    Keys(String),
    /// The score `resbalance`, with this in the place of a strategy.
    #[error("score \"resbalance\" has no strategy {0}")]
    Strategy(String),
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Raw {
    plugins: Option<Plugins>,
    plugin_conf: Option<Vec<Configured>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Plugins {
    predicate: Option<Vec<String>>,
    score: Option<Vec<Scored>>,
}

#[derive(Deserialize)]
struct Scored {
    #[serde(default)]
    name: String,
    #[serde(default)]
    weight: i64,
}

#[derive(Deserialize)]
struct Configured {
    #[serde(default)]
    name: String,
    #[serde(default)]
    args: Option<Map<String, Value>>,
}

impl Raw {
    fn args(&self, plugin: &str) -> Option<&Map<String, Value>> {
        self.plugin_conf.iter().flatten().find(|conf| conf.name == plugin)?.args.as_ref()
    }
}

/// Reads a profile from the text of the ConfigMap. A text or a profile that is missing is replaced by the
/// default without a complaint. Of several profiles with this name the last one counts.
pub(crate) fn profile(text: Option<&str>, name: &str) -> (Profile, Vec<Complaint>) {
    let text = text.unwrap_or_default();
    if text.is_empty() {
        return (Profile::default(), Vec::new());
    }
    // Go reads a null as an empty list.
    let profiles: Vec<Value> = match serde_json::from_str::<Option<Vec<Value>>>(text) {
        Ok(profiles) => profiles.unwrap_or_default(),
        Err(error) => return (Profile::default(), vec![Complaint::Unreadable(error.to_string())]),
    };
    let named = |profile: &&Value| profile.get("name").and_then(Value::as_str) == Some(name);
    let Some(found) = profiles.iter().rev().find(named) else { return (Profile::default(), Vec::new()) };
    let mut complaints = Vec::new();
    match read(found, name, &mut complaints) {
        Ok(profile) => (profile, complaints),
        Err(why) => (Profile::default(), vec![Complaint::Bad(name.to_owned(), why)]),
    }
}

fn read(found: &Value, name: &str, complaints: &mut Vec<Complaint>) -> Result<Profile, BadProfile> {
    let raw = Raw::deserialize(found).map_err(|error| BadProfile::Shape(error.to_string()))?;
    let mut profile = Profile { predicates: Vec::new(), scores: Vec::new() };
    let plugins = raw.plugins.as_ref();
    for plugin in plugins.and_then(|plugins| plugins.predicate.as_ref()).into_iter().flatten() {
        match Predicate::named(plugin, raw.args(plugin))? {
            Some(predicate) => profile.predicates.push(predicate),
            None => complaints.push(Complaint::Unknown(name.to_owned(), "predicate", plugin.clone())),
        }
    }
    for Scored { name: plugin, weight } in plugins.and_then(|it| it.score.as_ref()).into_iter().flatten() {
        match &**plugin {
            "resbalance" => profile.scores.push((balance(raw.args(plugin))?, *weight)),
            _ => complaints.push(Complaint::Unknown(name.to_owned(), "score", plugin.clone())),
        }
    }
    Ok(profile)
}

fn balance(args: Option<&Map<String, Value>>) -> Result<Balance, BadProfile> {
    match args.and_then(|args| args.get("strategy")) {
        None | Some(Value::Null) => Ok(Balance::default()),
        Some(Value::String(text)) if text.is_empty() || text == "LeastAllocated" => {
            Ok(Balance::LeastAllocated)
        }
        Some(Value::String(text)) if text == "MostAllocated" => Ok(Balance::MostAllocated),
        Some(other) => Err(BadProfile::Strategy(other.to_string())),
    }
}
