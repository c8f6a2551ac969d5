use std::time::Duration;

use jiff::Timestamp;
use sandgate_objects::openkruise::names::ANNOTATION_RESERVE_PAUSED;
use sandgate_objects::openkruise::resources::Sandbox;
use serde_json::json;

use super::{Deadlines, Policy, parse, retention, write_retention};
use crate::FOREVER;

const NOW: i64 = 1_000_000;
const KEEP: Duration = Duration::from_secs(7_000);
const FLOOR: Duration = Duration::from_secs(300);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Deadlines in seconds from now.
fn deadlines(pause: Option<i64>, shutdown: Option<i64>) -> Deadlines {
    Deadlines { pause: pause.map(at), shutdown: shutdown.map(at) }
}

#[test]
fn a_timeout_ends_a_sandbox_or_pauses_it_and_ends_it_a_retention_later() {
    for (timeout, auto_pause, expected) in [
        (Some(60), false, deadlines(None, Some(60))),
        (Some(60), true, deadlines(Some(60), Some(7_060))),
        (None, false, deadlines(None, None)),
        (None, true, deadlines(None, None)),
    ] {
        let made = Deadlines::running_for(timeout.map(seconds), auto_pause, KEEP, at(0));
        assert_eq!(made, expected, "{timeout:?} {auto_pause}");
    }
    let forever = Deadlines::running_for(Some(seconds(60)), true, FOREVER, at(0));
    assert_eq!(forever.shutdown, Some(at(60 + 100 * 365 * 24 * 3600)));
}

#[test]
fn a_pause_keeps_a_sandbox_for_its_retention_and_remembers_that_it_pauses_by_itself() {
    for (before, after) in [
        (deadlines(None, Some(60)), deadlines(None, Some(7_000))),
        (deadlines(Some(60), Some(90)), deadlines(Some(7_000), Some(7_000))),
        (deadlines(Some(60), None), deadlines(Some(7_000), Some(7_000))),
        (deadlines(None, None), deadlines(None, None)),
    ] {
        assert_eq!(before.paused(KEEP, at(0)), after, "{before:?}");
    }
}

#[test]
fn a_resume_gives_at_least_the_floor_and_keeps_what_it_is_not_told_to_change() {
    let (ends, pauses, never) =
        (deadlines(None, Some(90)), deadlines(Some(90), Some(90)), deadlines(None, None));
    for (before, timeout, auto_pause, after) in [
        (ends, Some(60), None, deadlines(None, Some(300))),
        (ends, Some(900), None, deadlines(None, Some(900))),
        (ends, None, None, deadlines(None, Some(300))),
        (ends, Some(900), Some(true), deadlines(Some(900), Some(7_900))),
        (pauses, Some(60), None, deadlines(Some(300), Some(7_300))),
        (pauses, Some(900), Some(false), deadlines(None, Some(900))),
        (never, Some(900), None, never),
        (never, None, Some(true), never),
        (never, Some(900), Some(true), deadlines(Some(900), Some(7_900))),
    ] {
        let resumed = before.resumed(timeout.map(seconds), auto_pause, KEEP, FLOOR, at(0));
        assert_eq!(resumed, after, "{before:?} {timeout:?} {auto_pause:?}");
    }
}

#[test]
fn a_timeout_may_shorten_and_a_refresh_may_not() {
    use Policy::{Always, ExtendOnly};
    let (ends, pauses, never) =
        (deadlines(None, Some(90)), deadlines(Some(90), Some(7_090)), deadlines(None, None));
    for (before, timeout, policy, after) in [
        (ends, 30, Always, Some(deadlines(None, Some(30)))),
        (ends, 90, Always, None),
        (ends, 120, Always, Some(deadlines(None, Some(120)))),
        (pauses, 30, Always, Some(deadlines(Some(30), Some(7_030)))),
        (never, 30, Always, Some(deadlines(None, Some(30)))),
        (ends, 30, ExtendOnly, None),
        (ends, 90, ExtendOnly, None),
        (ends, 120, ExtendOnly, Some(deadlines(None, Some(120)))),
        (pauses, 30, ExtendOnly, None),
        (pauses, 120, ExtendOnly, Some(deadlines(Some(120), Some(7_120)))),
        (never, 120, ExtendOnly, None),
    ] {
        let moved = before.moved(seconds(timeout), policy, KEEP, at(0));
        assert_eq!(moved, after, "{before:?} {timeout} {policy:?}");
    }
}

#[test]
fn times_in_a_spec_have_whole_seconds_and_what_is_missing_is_removed() {
    let now = at(0) + jiff::SignedDuration::from_millis(700);
    let spec = Deadlines::running_for(Some(seconds(60)), false, KEEP, now).spec();
    assert_eq!(spec, json!({"pauseTime": null, "shutdownTime": "1970-01-12T13:47:40Z"}));
    assert_eq!(deadlines(None, Some(60)).moved(seconds(60), Policy::Always, KEEP, now), None);
}

#[test]
fn a_retention_that_cannot_be_read_keeps_the_sandbox() {
    for (text, expected) in [
        (Some("1h30m"), seconds(5400)),
        (Some("90"), seconds(90)),
        (Some("forever"), FOREVER),
        (Some("soon"), FOREVER),
        (Some("-5m"), FOREVER),
        (None, FOREVER),
    ] {
        let mut sandbox = Sandbox::default();
        let annotation = text.map(|text| (ANNOTATION_RESERVE_PAUSED.to_owned(), text.to_owned()));
        sandbox.metadata.annotations = annotation.map(|pair| [pair].into());
        assert_eq!(retention(&sandbox.into()), expected, "{text:?}");
    }
    for keep in [seconds(90), seconds(86_400), FOREVER] {
        assert_eq!(parse(&write_retention(keep)), Some(keep));
    }
}
