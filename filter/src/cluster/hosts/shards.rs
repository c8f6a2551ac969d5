//! Which of Envoy's priorities a host goes to.
//!
//! A change costs Envoy as much as there are hosts at that priority, so they are spread over many small ones. Priorities
//! mean nothing else here: the load balancer picks the host itself. Hosts that are added together go to one priority, so
//! that a batch of additions is one change; which one a host is in is the book's to know.

/// So many hosts at a priority are enough.
pub(super) const FULL: u32 = 128;
/// So many priorities are enough: a hundred thousand hosts fill most of them.
const MOST: usize = 1024;

#[derive(Default)]
pub(super) struct Shards {
    hosts: Vec<u32>,
    current: usize,
}

impl Shards {
    /// The priority for the next batch.
    pub(super) fn pick(&mut self) -> u32 {
        if self.hosts.get(self.current).is_none_or(|hosts| *hosts >= FULL) {
            let emptiest = self.hosts.iter().enumerate().min_by_key(|(_, hosts)| **hosts);
            self.current = match emptiest {
                // One that has room for more than half a filling is worth more than another priority.
                Some((shard, hosts)) if *hosts <= FULL / 2 || self.hosts.len() >= MOST => shard,
                _ => {
                    self.hosts.push(0);
                    self.hosts.len() - 1
                }
            };
        }
        u32::try_from(self.current).unwrap_or_default()
    }

    pub(super) fn entered(&mut self, shard: u32) {
        if let Some(hosts) = self.hosts.get_mut(shard as usize) {
            *hosts += 1;
        }
    }

    pub(super) fn left(&mut self, shard: u32) {
        if let Some(hosts) = self.hosts.get_mut(shard as usize) {
            *hosts = hosts.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_hosts_fit_into_full_shards_and_room_is_used_again() {
        let mut shards = Shards::default();
        let mut places = Vec::new();
        for _ in 0..100_000 {
            let shard = shards.pick();
            shards.entered(shard);
            places.push(shard);
        }
        assert!(shards.hosts.iter().all(|hosts| *hosts <= FULL));
        let before = shards.hosts.len();
        for shard in places.iter().take(50_000) {
            shards.left(*shard);
        }
        for _ in 0..50_000 {
            let shard = shards.pick();
            shards.entered(shard);
        }
        assert_eq!(shards.hosts.len(), before, "the room of those that left was not used");
    }
}
