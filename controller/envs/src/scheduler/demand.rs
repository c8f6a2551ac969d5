//! What is told of the demand for a pool's pods.
//!
//! A claim that finds an idle pod at once is no demand, so a pool that keeps up has nothing to tell.

use sandgate_cache::Key;
use tokio::time::Instant;

use super::lines::{Line, Lines};
use super::{Inner, Pods, Settings};

impl<P: Pods> Line<P> {
    /// The demand: all that have not ended, unless all have a pod in hand.
    pub(super) fn demand(&self) -> usize {
        if self.waiting.is_empty() { 0 } else { self.queued() }
    }

    /// When the demand is to be told; none if it is much the same as it was.
    fn told_when(&self, settings: &Settings) -> Option<When> {
        let demand = self.demand();
        let is_worth =
            (demand == 0) != (self.told == 0) || demand.abs_diff(self.told) * 5 >= self.told.max(1);
        if demand == self.told || !is_worth {
            return None;
        }
        match self.told_at {
            Some(told) if self.told > 0 => Some(When::At(told + settings.told_apart)),
            _ => Some(When::Now),
        }
    }
}

enum When {
    Now,
    At(Instant),
}

impl<P: Pods> Inner<P> {
    /// The line of a pool has changed: wakes the upkeep if that has something to do about it.
    pub(super) fn consider(&self, lines: &mut Lines<P>, pool: &Key) {
        let Some(line) = lines.pools.get(pool) else { return };
        let has_news = line.told_when(&self.settings).is_some() && !lines.untold.contains(pool);
        let is_unlooked = lines.repair.is_none() && !line.waiting.is_empty();
        if has_news {
            lines.untold.insert(pool.clone());
        }
        if has_news || is_unlooked {
            self.bell.notify_one();
        }
    }

    /// What is to be told now, and when there is more.
    pub(super) fn news(&self, lines: &mut Lines<P>, now: Instant) -> (Vec<(Key, usize)>, Option<Instant>) {
        let (mut news, mut next) = (Vec::new(), None::<Instant>);
        let Lines { untold, pools, .. } = lines;
        untold.retain(|pool| {
            let Some(line) = pools.get_mut(pool) else { return false };
            match line.told_when(&self.settings) {
                None => false,
                Some(When::At(at)) if at > now => {
                    next = Some(next.map_or(at, |next| next.min(at)));
                    true
                }
                Some(_) => {
                    line.told = line.demand();
                    line.told_at = Some(now);
                    news.push((pool.clone(), line.told));
                    false
                }
            }
        });
        (news, next)
    }

    /// Tells of every pool that nobody waits for it any more.
    pub(super) fn tell_the_rest(&self) {
        let mut lines = self.lines.lock();
        let told = lines.pools.iter_mut().filter(|(_, line)| line.told > 0);
        let rest: Vec<Key> = told
            .map(|(pool, line)| {
                line.told = 0;
                pool.clone()
            })
            .collect();
        drop(lines);
        for pool in rest {
            self.pods.demand(&pool, 0);
        }
    }
}
