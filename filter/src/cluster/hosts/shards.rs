//! Which of Envoy's priorities a host goes to.
//!
//! A change costs Envoy as much as there are hosts at that priority, and for each priority it touches as much
//! as there are priorities, so hosts are spread over many small ones: 128 hosts at each was measured to be
//! the cheapest for a hundred thousand, half or twice as many not much dearer. Priorities mean nothing else
//! here: the load balancer picks the host itself. Hosts that are added together go to one priority, so that a
//! batch of additions is one change, and hosts that nobody uses are looked for priority by priority, so that
//! those that go together are together.

use std::sync::Arc;

use super::super::host::Host;

/// So many hosts at a priority are enough.
pub(super) const FULL: usize = 128;
/// One with this much room is worth more than another priority.
const ROOM: usize = FULL / 4;
/// So many priorities are enough: a hundred thousand hosts fill most of them.
const MOST: usize = 1024;

#[derive(Default)]
pub(super) struct Shards {
    hosts: Vec<Vec<Arc<Host>>>,
    current: usize,
    /// The next one to be looked through for hosts that nobody uses.
    next: usize,
}

impl Shards {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// The priority for the next batch.
    pub(super) fn pick(&mut self) -> u32 {
        if self.hosts.get(self.current).is_none_or(|hosts| hosts.len() >= FULL) {
            let emptiest = self.hosts.iter().enumerate().min_by_key(|(_, hosts)| hosts.len());
            self.current = match emptiest {
                Some((shard, hosts)) if hosts.len() + ROOM <= FULL || self.hosts.len() >= MOST => shard,
                _ => {
                    self.hosts.push(Vec::new());
                    self.hosts.len() - 1
                }
            };
        }
        u32::try_from(self.current).unwrap_or_default()
    }

    pub(super) fn entered(&mut self, shard: u32, host: Arc<Host>) {
        if let Some(hosts) = self.hosts.get_mut(shard as usize) {
            hosts.push(host);
        }
    }

    pub(super) fn left(&mut self, shard: u32, host: &Arc<Host>) {
        if let Some(hosts) = self.hosts.get_mut(shard as usize)
            && let Some(at) = hosts.iter().position(|known| Arc::ptr_eq(known, host))
        {
            hosts.swap_remove(at);
        }
    }

    /// The hosts of the next so many priorities in turn, none of them twice.
    pub(super) fn next_in_turn(&mut self, count: usize) -> impl Iterator<Item = &Arc<Host>> {
        let (len, first) = (self.hosts.len().max(1), self.next);
        let count = count.min(len);
        self.next = (first + count) % len;
        let hosts = &self.hosts;
        (first..first + count).filter_map(move |shard| hosts.get(shard % len)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::super::host::Endpoint;
    use super::super::super::usage::Usage;
    use super::*;

    fn fill(shards: &mut Shards, hosts: u32) -> Vec<(u32, Arc<Host>)> {
        let enter = |number: u32| {
            let endpoint = Endpoint::new(std::net::Ipv4Addr::from(number).into(), 80);
            let host = Arc::new(Host::new(endpoint, u64::from(number), Arc::new(Usage::default())));
            let shard = shards.pick();
            shards.entered(shard, Arc::clone(&host));
            (shard, host)
        };
        (0..hosts).map(enter).collect()
    }

    #[test]
    fn a_hundred_thousand_hosts_fit_into_full_shards_and_room_is_used_again() {
        let mut shards = Shards::default();
        let places = fill(&mut shards, 100_000);
        assert!(shards.hosts.iter().all(|hosts| hosts.len() <= FULL));
        let before = shards.len();
        for (shard, host) in places.iter().take(50_000) {
            shards.left(*shard, host);
        }
        fill(&mut shards, 50_000);
        assert_eq!(shards.len(), before, "the room of those that left was not used");
        assert_eq!(shards.hosts.iter().map(Vec::len).sum::<usize>(), 100_000);
    }

    #[test]
    fn hosts_that_go_at_random_leave_room_that_is_used_before_there_are_more_shards() {
        let mut shards = Shards::default();
        let mut places = fill(&mut shards, 20_000);
        let before = shards.len();
        for round in 0..50 {
            for step in 0..400 {
                let at = (round * 7_919 + step * 104_729) % places.len();
                let (shard, host) = places.swap_remove(at);
                shards.left(shard, &host);
            }
            places.extend(fill(&mut shards, 400));
        }
        assert!(shards.len() * FULL <= before * FULL * 5 / 4, "{} shards, {before} before", shards.len());
    }

    #[test]
    fn every_host_is_looked_at_once_before_any_twice() {
        let mut shards = Shards::default();
        assert_eq!(shards.next_in_turn(3).count(), 0);
        fill(&mut shards, 1_000);
        let turns = shards.len().div_ceil(3);
        let mut seen = Vec::new();
        for turn in 0..turns {
            let left = shards.len() - turn * 3;
            seen.extend(shards.next_in_turn(left.min(3)).map(|host| host.identity()));
        }
        assert_eq!(seen.iter().collect::<HashSet<_>>().len(), 1_000);
        assert_eq!(seen.len(), 1_000);
        assert_eq!(shards.next_in_turn(99).count(), 1_000, "not more than all of them");
    }
}
