//! What a sandbox's deadlines ask for.
//!
//! `shutdownTime` counts in every phase, also for a sandbox that has failed or is paused: nothing that was
//! given an end outlives it. `pauseTime` counts for a sandbox that can still pause.

use jiff::{SignedDuration, Timestamp};
use sandgate_objects::openkruise::names::ANNOTATION_RESERVE_PAUSED;
use sandgate_objects::openkruise::resources::{Sandbox, Time};
use serde_json::{Value, json};

use crate::Again;
use crate::conditions::whole_seconds;
use crate::deadline::until;

/// What is due now.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Due {
    /// The sandbox has reached its end.
    Shutdown,
    /// The sandbox pauses by itself: the merge patch of the spec.
    Pause(Value),
    /// Nothing, until then.
    Nothing(Again),
}

/// Looks at the deadlines. `can_pause` is false for a sandbox that has ended.
pub(super) fn due(sandbox: &Sandbox, can_pause: bool, now: Timestamp) -> Due {
    let spec = &sandbox.spec;
    let shutdown = spec.shutdown_time.as_ref().map(|time| time.0);
    let pause = spec.pause_time.as_ref().map(|time| time.0);
    let pause = pause.filter(|_| can_pause && spec.paused != Some(true));
    let retention = retention(sandbox);
    let pause_is_due = pause.is_some_and(|pause| pause <= now);
    // With a retention the sandbox is to be kept as paused for a while, so pausing comes before the end.
    if shutdown.is_some_and(|shutdown| shutdown < now) && !(pause_is_due && retention.is_some()) {
        return Due::Shutdown;
    }
    if pause_is_due {
        let mut patch = json!({"spec": {"paused": true}});
        if let (Some(retention), Some(_)) = (retention, shutdown) {
            let until = now.checked_add(retention).unwrap_or(Timestamp::MAX);
            let until = json!(Time(whole_seconds(until)));
            patch["spec"]["shutdownTime"] = until.clone();
            patch["spec"]["pauseTime"] = until;
        }
        return Due::Pause(patch);
    }
    let next = [shutdown, pause].into_iter().flatten().min();
    Due::Nothing(next.map_or(Again::Rarely, |at| until(at, now)))
}

/// How long a sandbox is kept that paused by itself. An annotation that cannot be read keeps it as long as
/// one can: nothing is deleted because of a typing error.
fn retention(sandbox: &Sandbox) -> Option<SignedDuration> {
    let text = sandbox.metadata.annotations.as_ref()?.get(ANNOTATION_RESERVE_PAUSED)?;
    Some(parse_duration(text).unwrap_or(FOREVER))
}

/// A hundred years, as OpenKruise's manager writes "forever".
const FOREVER: SignedDuration = SignedDuration::from_hours(100 * 365 * 24);

/// A duration as Go writes it (`1h30m`), or a number of seconds.
fn parse_duration(text: &str) -> Option<SignedDuration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(SignedDuration::from_secs(i64::from(seconds)));
    }
    let parsed = text.parse::<SignedDuration>().ok()?;
    (!parsed.is_negative()).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn sandbox(shutdown: Option<i64>, pause: Option<i64>, retention: Option<&str>, paused: bool) -> Sandbox {
        let mut sandbox = Sandbox::default();
        sandbox.spec.shutdown_time = shutdown.map(|second| Time(at(second)));
        sandbox.spec.pause_time = pause.map(|second| Time(at(second)));
        sandbox.spec.paused = paused.then_some(true);
        let annotation = retention.map(|text| (ANNOTATION_RESERVE_PAUSED.to_owned(), text.to_owned()));
        sandbox.metadata.annotations = annotation.map(|pair| [pair].into());
        sandbox
    }

    fn after(seconds: u64) -> Due {
        Due::Nothing(Again::After(Duration::from_secs(seconds) + Duration::from_millis(1)))
    }

    #[test]
    fn the_deadlines_decide_as_the_table_says() {
        let pause = || Due::Pause(json!({"spec": {"paused": true}}));
        let keep = |until: i64| {
            let until = json!(Time(at(until)));
            Due::Pause(json!({"spec": {"paused": true, "shutdownTime": until, "pauseTime": until}}))
        };
        // Now is 100.
        let table = [
            (sandbox(None, None, None, false), Due::Nothing(Again::Rarely)),
            (sandbox(Some(99), None, None, false), Due::Shutdown),
            (sandbox(Some(100), None, None, false), after(0)),
            (sandbox(Some(160), None, None, false), after(60)),
            (sandbox(None, Some(100), None, false), pause()),
            (sandbox(None, Some(130), None, false), after(30)),
            (sandbox(Some(160), Some(130), None, false), after(30)),
            (sandbox(Some(120), Some(130), None, false), after(20)),
            (sandbox(Some(99), Some(90), None, false), Due::Shutdown),
            (sandbox(Some(99), Some(90), Some("1m"), false), keep(160)),
            (sandbox(Some(200), Some(90), Some("1m"), false), keep(160)),
            (sandbox(Some(200), Some(90), Some("1h30m"), false), keep(5500)),
            (sandbox(Some(200), Some(90), Some("120"), false), keep(220)),
            (sandbox(None, Some(90), Some("1m"), false), pause()),
            (sandbox(Some(99), Some(90), Some("1m"), true), Due::Shutdown),
            (sandbox(Some(160), Some(90), Some("1m"), true), after(60)),
            (sandbox(None, Some(90), None, true), Due::Nothing(Again::Rarely)),
        ];
        for (sandbox, expected) in table {
            assert_eq!(due(&sandbox, true, at(100)), expected, "{:?}", sandbox.spec);
        }
    }

    #[test]
    fn a_retention_that_cannot_be_read_keeps_the_sandbox() {
        for text in ["forever", "soon", "-5m"] {
            let Due::Pause(patch) = due(&sandbox(Some(99), Some(90), Some(text), false), true, at(100))
            else {
                panic!("{text} does not pause");
            };
            assert!(patch["spec"]["shutdownTime"].as_str().unwrap().starts_with("2069"), "{patch}");
        }
    }

    #[test]
    fn a_sandbox_that_has_ended_does_not_pause_but_is_deleted_in_time() {
        assert_eq!(due(&sandbox(None, Some(90), None, false), false, at(100)), Due::Nothing(Again::Rarely));
        assert_eq!(due(&sandbox(Some(99), Some(90), Some("1m"), false), false, at(100)), Due::Shutdown);
        assert_eq!(due(&sandbox(Some(150), Some(90), None, false), false, at(100)), after(50));
    }
}
