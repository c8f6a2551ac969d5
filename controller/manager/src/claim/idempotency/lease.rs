//! How a create says that it lives, and how a retry finds out that it does not.

use std::time::Duration;

use sandgate_cache::ConfigMapFacts;
use sandgate_routes::Version;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::marker::{self, Marker, State};
use crate::claim::{Prepare, Shared};

/// Since when a retry has seen a marker as it is.
#[derive(Default)]
pub(super) struct Watched(Option<(Version, Instant)>);

impl Watched {
    /// How long the marker has not changed, by the clock of this process: those of two machines may differ.
    pub(super) fn unchanged_for(&mut self, marker: &Marker) -> Duration {
        let version = &marker.seen.version;
        match &self.0 {
            Some((was, since)) if was == version => since.elapsed(),
            _ => {
                self.0 = Some((version.clone(), Instant::now()));
                Duration::ZERO
            }
        }
    }
}

/// What became of an attempt to renew a marker.
enum Renewed {
    /// It was renewed.
    Yes,
    /// It was not, or nobody knows.
    NotYet,
    /// It is not open any more, or is gone.
    Ended,
    /// Another create has it.
    Lost,
}

impl<P: Prepare> Shared<P> {
    /// Does the work of a create, and meanwhile renews the marker. `lost` tells the work that another create
    /// has it now.
    pub(super) async fn while_renewed<T>(
        &self,
        marker: &mut Marker,
        lost: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = self.renew(marker, lost) => {}
        }
        work.await
    }

    /// Renews the marker until it has ended or is another's. A renewal that is still under way when this is
    /// dropped carries a version, so it changes nothing that was written after it was sent.
    async fn renew(&self, marker: &mut Marker, lost: &CancellationToken) {
        let every = self.settings.lease / 3;
        let mut wait = every;
        loop {
            tokio::time::sleep(wait).await;
            wait = match tokio::time::timeout(every, self.renewed(marker)).await {
                Ok(Renewed::Yes) => every,
                Ok(Renewed::NotYet) | Err(_) => every / 8,
                Ok(Renewed::Ended) => return,
                Ok(Renewed::Lost) => return lost.cancel(),
            };
        }
    }

    async fn renewed(&self, marker: &mut Marker) -> Renewed {
        let patch = marker::renewed(self.cache.clock().now());
        if let Ok(seen) = self.writes.patch(&marker.seen, patch).await {
            marker.seen = seen;
            return Renewed::Yes;
        }
        match self.writes.read::<ConfigMapFacts>(&marker.seen.key).await.map(|read| read.map(Marker::read)) {
            Ok(Some(Ok(is))) if is.lock != marker.lock => Renewed::Lost,
            Ok(Some(Ok(is))) if is.state == State::Open => {
                marker.seen = is.seen;
                Renewed::NotYet
            }
            Ok(_) => Renewed::Ended,
            Err(_) => Renewed::NotYet,
        }
    }
}
