//! Which pool a batch gets its pods from that leaves the choice to the operator (`poolRef: "*"`).
//!
//! A [`Profile`] says how: predicates take pools out, scores rank those that are left. The best score wins;
//! of equal ones, the smaller name. The operator's namespace may have profiles in a ConfigMap
//! ([`CONFIG_MAP`], key [`PROFILES`]); what is missing or cannot be read there is replaced by the default.
//!
//! Predicates:
//! - `image`: an image of the batch is an image of the pool;
//! - `resource`: the pool's pods request at least what those of the batch would;
//! - `nodeselector`: the batch's node selector and required node affinity match the pool. In place of a
//!   node's labels they read the labels of the pool, overlaid by the node selector of its pods;
//! - `labelselector`: batch and pool have the same labels for the keys of `args.keys`;
//! - `capacity`: the pool may have enough pods that nobody has.
//!
//! The score `resbalance` prefers the pool of which the smallest share is allocated, or, with
//! `args.strategy: MostAllocated`, the greatest.

mod predicate;
mod profile;
mod selector;
mod strategy;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

pub(crate) use profile::{CONFIG_MAP, PROFILES, Profile, profile};
pub(crate) use strategy::{DefaultPools, PoolStrategy};

/// The labels of an object.
pub(crate) type Labels = BTreeMap<String, String>;

/// What a batch needs of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SandboxNeeds<'a> {
    /// The labels of the batch.
    pub(crate) labels: Option<&'a Labels>,
    /// The template of its pods, which a batch of a pool need not have. Without one it has no wishes.
    pub(crate) template: Option<&'a Value>,
    /// How many pods it wants.
    pub(crate) replicas: i32,
}

/// What a pool offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolOffer<'a> {
    /// The name of the pool.
    pub(crate) name: &'a str,
    /// Its labels.
    pub(crate) labels: Option<&'a Labels>,
    /// The template of its pods.
    pub(crate) template: Option<&'a Value>,
    /// The most pods that it may have.
    pub(crate) most: i32,
    /// How many pods it has.
    pub(crate) total: i32,
    /// How many of them are allocated.
    pub(crate) allocated: i32,
}

/// Why no pool is chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct NoPool {
    /// Each pool, by name, with what speaks against it.
    pub(crate) rejected: BTreeMap<String, Vec<String>>,
}

/// The pools that an error names; the others are counted.
const NAMED: usize = 5;

impl fmt::Display for NoPool {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rejected.is_empty() {
            return to.write_str("there is no pool");
        }
        let named = self.rejected.iter().take(NAMED);
        let named: Vec<_> = named.map(|(pool, reasons)| format!("{pool}: {}", reasons.join(", "))).collect();
        write!(to, "no pool fits; {}", named.join("; "))?;
        match self.rejected.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(to, "; and {more} more"),
        }
    }
}

/// Chooses a pool.
///
/// # Errors
/// No pool passes all predicates. To try again helps once a pool or the profile has changed.
pub(crate) fn choose<'a>(
    profile: &Profile,
    sandbox: &SandboxNeeds<'_>,
    pools: &[PoolOffer<'a>],
) -> Result<&'a str, NoPool> {
    let mut rejected = BTreeMap::new();
    let mut best: Option<(f64, &'a str)> = None;
    for pool in pools {
        let reasons: Vec<String> =
            profile.predicates.iter().filter_map(|predicate| predicate.against(sandbox, pool)).collect();
        if !reasons.is_empty() {
            rejected.insert(pool.name.to_owned(), reasons);
            continue;
        }
        let score = profile.score(pool);
        let is_better = best
            .is_none_or(|(known, name)| known.total_cmp(&score).then_with(|| pool.name.cmp(name)).is_lt());
        if is_better {
            best = Some((score, pool.name));
        }
    }
    best.map(|(_, name)| name).ok_or(NoPool { rejected })
}
