//! What is to be done at a time, not because of a change.

use std::sync::{Arc, Weak};
use std::time::Duration;

use sandgate_cache::Key;
use tokio::time::{Instant, sleep_until};

use super::lines::{Line, Lines};
use super::{Inner, Pods};

/// Does it until the scheduler ends.
pub(super) async fn run<P: Pods>(scheduler: Weak<Inner<P>>) {
    loop {
        let Some(inner) = scheduler.upgrade() else { return };
        let (news, next) = inner.look_after();
        // Only this task tells, so what it tells is in order.
        for (pool, claims) in news {
            inner.pods.demand(&pool, claims);
        }
        let (bell, ends) = (Arc::clone(&inner.bell), inner.upkeep_ends.clone());
        drop(inner);
        let next = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = ends.cancelled() => return,
            () = bell.notified() => {}
            () = next => {}
        }
    }
}

impl<P: Pods> Inner<P> {
    /// Does what is due. Returns the demand that is to be told, and when there is more to do.
    fn look_after(self: &Arc<Self>) -> (Vec<(Key, usize)>, Option<Instant>) {
        let now = Instant::now();
        self.with(|lines| {
            self.take_turns(lines);
            for pool in lines.fresh_again(now) {
                self.dispatch(lines, &pool, usize::MAX);
                self.consider(lines, &pool);
            }
            self.repair(lines, now);
            let (news, untold) = self.news(lines, now);
            let fresh = lines.next_fresh().filter(|_| lines.is_anyone_waiting());
            let look = lines.repair.map(|(at, _)| at).filter(|_| self.settings.repair.is_some());
            (news, [untold, fresh, look].into_iter().flatten().min())
        })
    }

    /// Looks for pods that nobody has told of.
    fn repair(&self, lines: &mut Lines<P>, now: Instant) {
        if !lines.is_anyone_waiting() {
            lines.repair = None;
            return;
        }
        let Some((first, longest)) = self.settings.repair else {
            // Somebody has looked after those who wait.
            lines.repair = Some((now, Duration::ZERO));
            return;
        };
        match lines.repair {
            None => lines.repair = Some((now + first, first)),
            Some((at, apart)) if at <= now => {
                let is_waited_for =
                    |(pool, line): (&Key, &Line<P>)| (!line.waiting.is_empty()).then(|| pool.clone());
                let pools: Vec<Key> = lines.pools.iter().filter_map(is_waited_for).collect();
                let mut found = 0;
                for pool in pools {
                    found += self.dispatch(lines, &pool, usize::MAX);
                    self.consider(lines, &pool);
                }
                let apart = if found > 0 { first } else { (apart * 2).min(longest) };
                lines.repair = Some((now + apart, apart));
            }
            Some(_) => {}
        }
    }
}
