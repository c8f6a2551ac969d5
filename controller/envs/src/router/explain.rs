//! Why a claim goes where it goes, for people.

use std::sync::Arc;

use jiff::Timestamp;

use super::Wish;
use super::decide::{Ranked, sort};
use super::entry::EnvRoutes;
use super::score::{PoolLoad, Rejected, Score, rate};

/// What the router thinks of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The pool.
    pub pool: Arc<str>,
    /// What its score is the sum of.
    pub score: Score,
    /// Why it is not ranked, if it is not. If no member can be ranked, those that could serve later are
    /// ranked all the same.
    pub rejected: Option<Rejected>,
    /// Its place in the ranking, from 0.
    pub rank: Option<usize>,
}

/// The members of an environment, the best first, then those that are not ranked.
pub(super) fn explain(
    env: &EnvRoutes,
    wish: &Wish<'_>,
    now: Timestamp,
    load: &impl PoolLoad,
) -> Vec<Explained> {
    let mut all: Vec<(Ranked, Explained)> = env
        .members
        .iter()
        .enumerate()
        .map(|(member, known)| {
            let rated = rate(known, wish, now, load);
            let (score, rejected) = (rated.score, rated.rejected);
            let explained = Explained { pool: Arc::clone(&known.name), score, rejected, rank: None };
            (Ranked { score: score.total(), member }, explained)
        })
        .collect();
    let is_any_ranked = all.iter().any(|(_, explained)| explained.rejected.is_none());
    let mut ranking: Vec<Ranked> = all
        .iter()
        .filter(|(_, explained)| match explained.rejected {
            None => true,
            Some(why) => !is_any_ranked && why.is_last_resort(),
        })
        .map(|(ranked, _)| *ranked)
        .collect();
    sort(&mut ranking);
    for (rank, ranked) in ranking.iter().enumerate() {
        if let Some((_, explained)) = all.get_mut(ranked.member) {
            explained.rank = Some(rank);
        }
    }
    let mut all: Vec<Explained> = all.into_iter().map(|(_, explained)| explained).collect();
    all.sort_by_key(|explained| explained.rank.unwrap_or(usize::MAX));
    all
}
