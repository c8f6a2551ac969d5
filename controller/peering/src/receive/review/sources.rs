//! How often the API server is asked on behalf of one source address.
//!
//! A [source](source_of) may be wrong [`MISTAKES`] times, and earns [`PER_SECOND`] more each second. Sources
//! that ask for nothing are forgotten when there are too many.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::PER_SOURCE;
use crate::receive::connections::source_of;

const MISTAKES: f64 = 32.0;
const PER_SECOND: f64 = 4.0;
const MAX_SOURCES: usize = 4096;

/// The sources that were asked about lately.
#[derive(Debug, Default)]
pub struct Sources(Mutex<HashMap<IpAddr, Arc<Source>>>);

/// One source, and its mistakes.
#[derive(Debug)]
pub struct Source {
    /// One for each question that may be under way.
    turns: Semaphore,
    /// Mistakes left, and when they were counted.
    left: Mutex<(f64, Instant)>,
}

impl Sources {
    /// The source that an address belongs to.
    pub fn get(&self, address: IpAddr) -> Arc<Source> {
        let address = source_of(address);
        let mut sources = self.0.lock();
        if sources.len() >= MAX_SOURCES && !sources.contains_key(&address) {
            // First those without mistakes, then all that have no review in flight.
            sources.retain(|_, source| Arc::strong_count(source) > 1 || source.has_made_mistakes());
            if sources.len() >= MAX_SOURCES {
                sources.retain(|_, source| Arc::strong_count(source) > 1);
            }
        }
        Arc::clone(sources.entry(address).or_insert_with(|| Arc::new(Source::new())))
    }
}

impl Source {
    fn new() -> Self {
        Self { turns: Semaphore::new(PER_SOURCE), left: Mutex::new((MISTAKES, Instant::now())) }
    }

    /// Waits for the turn to ask: a source has [`PER_SOURCE`] at a time.
    ///
    /// # Errors
    /// Never: the turns are not closed.
    pub async fn turn(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.turns.acquire().await
    }

    fn left(&self, less: f64) -> f64 {
        let mut left = self.left.lock();
        let now = Instant::now();
        let earned = now.saturating_duration_since(left.1).as_secs_f64() * PER_SECOND;
        *left = ((left.0 + earned).min(MISTAKES) - less, now);
        left.0
    }

    /// Whether one more mistake would be forgiven.
    pub fn may_ask(&self) -> bool {
        self.left(0.0) >= 1.0
    }

    /// The API server did not know the token.
    pub fn was_bad(&self) {
        self.left(1.0);
    }

    fn has_made_mistakes(&self) -> bool {
        self.left(0.0) < MISTAKES
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn mistakes_are_forgiven_as_time_passes() {
        let sources = Sources::default();
        let source = sources.get([10, 0, 0, 1].into());
        let wrong = |source: &Source| {
            (0..1000).take_while(|_| source.may_ask().then(|| source.was_bad()).is_some()).count()
        };
        assert_eq!(wrong(&source), 32);
        assert!(!sources.get("::ffff:10.0.0.1".parse().unwrap()).may_ask(), "the same address");
        assert!(sources.get([10, 0, 0, 2].into()).may_ask());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(wrong(&source), 8);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(wrong(&source), 32);
        let [one, other] = ["2001:db8::1", "2001:db8::2"].map(|text| sources.get(text.parse().unwrap()));
        assert!(Arc::ptr_eq(&one, &other));
    }

    #[tokio::test]
    async fn only_so_many_sources_are_remembered() {
        let sources = Sources::default();
        let busy = sources.get([10, 0, 0, 1].into());
        busy.was_bad();
        for number in 0..3 * u32::try_from(MAX_SOURCES).unwrap() {
            sources.get(IpAddr::V4((0x0b00_0000 + number).into())).was_bad();
        }
        assert!(sources.0.lock().len() <= MAX_SOURCES);
        assert!(Arc::ptr_eq(&busy, &sources.get([10, 0, 0, 1].into())));
    }
}
