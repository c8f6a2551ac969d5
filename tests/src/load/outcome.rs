//! What came of it.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::tally::{Counts, Failure};

/// What the clients counted.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How long the load lasted.
    pub took: Duration,
    /// HTTP/1.1.
    pub http1: Counts,
    /// HTTP/2.
    pub http2: Counts,
    /// WebSockets.
    pub websockets: Counts,
    /// WebSockets that were ended as they may be: by which gateway, and when since the load began.
    pub ends: Vec<(SocketAddr, Duration)>,
    /// The first failures.
    pub failures: Vec<Failure>,
}

impl Outcome {
    fn kinds(&self) -> [(&'static str, &Counts); 3] {
        [("HTTP/1.1", &self.http1), ("HTTP/2", &self.http2), ("WebSocket", &self.websockets)]
    }

    /// Requests and messages of all kinds without a right answer, and WebSockets that ended where they must
    /// not.
    pub fn failed(&self) -> u64 {
        self.kinds().iter().map(|(_, counts)| counts.failed + counts.broken).sum()
    }

    /// Asserts that nothing has failed.
    ///
    /// # Panics
    /// With the first failures.
    pub fn assert_none_failed(&self) {
        assert_eq!(self.failed(), 0, "requests failed\n{self}");
    }

    /// Everything that was sent must have become something.
    pub(super) fn assert_complete(&self) {
        for (name, counts) in self.kinds() {
            let known = counts.answered + counts.failed + counts.lost;
            assert_eq!(counts.sent, known, "of some requests over {name} nothing is known\n{self}");
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "in {:.1} s:", self.took.as_secs_f64())?;
        for (name, counts) in self.kinds() {
            writeln!(f, "{name:9} {counts}")?;
        }
        for failure in &self.failures {
            let gateway = failure.gateway.map_or("nowhere".to_owned(), |gateway| gateway.to_string());
            let at = failure.at.as_secs_f64();
            writeln!(f, "at {at:.3} s, {:?}, {gateway}: {}", failure.kind, failure.what)?;
        }
        Ok(())
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sent, {} answered, {} failed; {} connections, {} left as told, {} found closed",
            self.sent, self.answered, self.failed, self.connections, self.left, self.found_closed
        )?;
        if self.broken + self.lost > 0 {
            write!(f, ", {} broken, {} messages lost", self.broken, self.lost)?;
        }
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        let Some(most) = latencies.last() else { return Ok(()) };
        let share = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
        write!(f, "; latency p50 {:.1?}, p99 {:.1?}, most {most:.1?}", share(50), share(99))
    }
}
