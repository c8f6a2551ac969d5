//! The gateways, as they say which sandboxes were used.

use std::collections::BTreeMap;
use std::fmt::Display;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use sandgate_peering::{ActivityClient, Known};

use super::idle::{Activity, GatewayActivity, Unreachable};
use crate::{Clock, SystemClock};

/// How far the clock of a gateway may be from that of this process. It is asked about a time by our clock and
/// looks for it by its own, so it is asked about so much more. The times in its answer count by its own
/// clock. One that is further off may leave out what was used, so its answer is none.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Every gateway behind a client.
pub struct Gateways {
    client: ActivityClient,
    provider: &'static str,
}

impl Gateways {
    /// These gateways, about the sandboxes of a provider.
    pub fn new(client: ActivityClient, provider: &'static str) -> Self {
        Self { client, provider }
    }
}

impl Activity for Gateways {
    fn last_active(&self, since: Timestamp) -> BoxFuture<'_, Result<Vec<GatewayActivity>, Unreachable>> {
        async move {
            let since = since.checked_sub(SKEW).unwrap_or(since).as_second();
            let since = u64::try_from(since).unwrap_or_default();
            let answers = self.client.ask(self.provider, since).await;
            let answers = answers.map_err(|error| Unreachable(error.to_string()))?;
            let now = SystemClock.now();
            answers.into_iter().map(|(gateway, answer)| heard(&gateway, answer, now)).collect()
        }
        .boxed()
    }
}

/// What a gateway has seen, as it answered just now.
fn heard(
    gateway: &impl Display,
    answer: Result<Known, impl Display>,
    now: Timestamp,
) -> Result<GatewayActivity, Unreachable> {
    let known = answer.map_err(|error| Unreachable(format!("{gateway}: {error}")))?;
    by_our_clock(&known, now).map_err(|apart| Unreachable(format!("{gateway}: {apart}")))
}

/// The clocks of a gateway and of this process differ by more than [`SKEW`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its clock says {theirs} and ours {ours}, in seconds since 1970: they are {} s apart, and more than {} s is \
     too much to know what was used", theirs.abs_diff(*ours), SKEW.as_secs()
)]
struct Apart {
    theirs: u64,
    ours: u64,
}

/// What a gateway has seen. Its times are taken as so long before its answer, whatever its clock says.
fn by_our_clock(known: &Known, now: Timestamp) -> Result<GatewayActivity, Apart> {
    let ours = u64::try_from(now.as_second()).unwrap_or_default();
    if known.now.abs_diff(ours) > SKEW.as_secs().unsigned_abs() {
        return Err(Apart { theirs: known.now, ours });
    }
    let ago = |second: u64| {
        let seconds = i64::try_from(known.now.saturating_sub(second)).unwrap_or(i64::MAX);
        now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::UNIX_EPOCH)
    };
    let mut sandboxes = BTreeMap::<String, (Timestamp, bool)>::new();
    for sandbox in known.sandboxes.values() {
        let (at, is_open) = sandboxes.entry(sandbox.id.clone()).or_default();
        *at = (*at).max(ago(sandbox.last_active));
        *is_open |= sandbox.open > 0;
    }
    Ok(GatewayActivity { complete_since: ago(known.complete.max(known.start)), sandboxes })
}

#[cfg(test)]
mod tests {
    use sandgate_peering::ActiveSandbox;

    use super::*;

    #[test]
    fn a_time_of_a_gateway_is_so_long_before_its_answer() {
        let active = |id: &str, last_active, open| ActiveSandbox {
            id: id.to_owned(),
            uid: format!("uid-{last_active}"),
            namespace: "n".to_owned(),
            name: "p".to_owned(),
            last_active,
            open,
        };
        let all = [active("a", 900, 0), active("a", 950, 0), active("b", 400, 1), active("c", 2000, 0)];
        let sandboxes = all.into_iter().map(|one| (one.uid.clone(), one)).collect();
        let known = Known { start: 500, complete: 600, now: 1000, sandboxes };
        let at = |second| Timestamp::from_second(second).unwrap();
        let is = by_our_clock(&known, at(1200)).unwrap();
        assert_eq!(is.complete_since, at(800));
        let of = |id: &str| is.sandboxes[id];
        assert_eq!((of("a"), of("b"), of("c")), ((at(1150), false), (at(600), true), (at(1200), false)));
    }

    #[test]
    fn a_gateway_whose_clock_is_further_off_than_it_is_asked_for_has_not_answered() {
        let known = |now| Known { start: 0, complete: 0, now, sandboxes: BTreeMap::new() };
        let ours = Timestamp::from_second(10_000).unwrap();
        for theirs in [9_700, 9_999, 10_000, 10_300] {
            assert!(by_our_clock(&known(theirs), ours).is_ok(), "{theirs}");
        }
        for theirs in [0, 9_699, 10_301, u64::MAX] {
            assert_eq!(by_our_clock(&known(theirs), ours), Err(Apart { theirs, ours: 10_000 }));
        }
        let said = |theirs| heard(&"10.0.0.1:7789", Ok::<_, String>(known(theirs)), ours);
        assert!(said(9_700).is_ok());
        let Unreachable(text) = said(9_699).unwrap_err();
        for part in ["10.0.0.1:7789: its clock says 9699 and ours 10000", "301 s apart", "more than 300 s"] {
            assert!(text.contains(part), "{text}");
        }
        let Unreachable(text) = heard(&"g", Err("no answer"), ours).unwrap_err();
        assert_eq!(text, "g: no answer");
    }
}
