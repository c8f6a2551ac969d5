//! The nonces of signed requests.

use super::*;

const WINDOW: Duration = Duration::from_secs(30);

#[test]
fn a_nonce_is_good_once_as_long_as_its_time_is() {
    let mut replay = Replay::new(WINDOW, 10, 0);
    assert_eq!(replay.note(100, 7, 100), Ok(()));
    for now in [100, 101, 130] {
        assert_eq!(replay.note(100, 7, now), Err(Denied::Unauthorized), "{now}");
    }
    assert_eq!(replay.note(100, 8, 130), Ok(()));
    // Now the nonce is forgotten, and the time does in its place.
    assert_eq!(replay.note(100, 7, 131), Err(Denied::Unauthorized));
    assert_eq!((replay.count, replay.seconds.len()), (0, 0));
}

#[test]
fn a_time_outside_the_window_is_refused_either_way() {
    let mut replay = Replay::new(WINDOW, 10, 0);
    for (time, expected) in
        [(69, Err(Denied::Unauthorized)), (70, Ok(())), (130, Ok(())), (131, Err(Denied::Unauthorized))]
    {
        assert_eq!(replay.note(time, 7, 100), expected, "{time}");
    }
    assert!(!replay.is_timely(u64::MAX, 0) && !replay.is_timely(0, u64::MAX));
}

#[test]
fn what_was_signed_before_the_store_was_made_or_in_that_second_is_refused() {
    let mut replay = Replay::new(WINDOW, 10, 100);
    for (time, expected) in [(99, Err(Denied::Unauthorized)), (100, Err(Denied::Unauthorized)), (101, Ok(()))]
    {
        assert_eq!(replay.note(time, 7, 101), expected, "{time}");
        assert_eq!(replay.is_timely(time, 101), expected.is_ok(), "{time}");
    }
}

#[test]
fn a_clock_that_was_set_back_forgets_nothing() {
    let mut replay = Replay::new(WINDOW, 10, 0);
    assert_eq!(replay.note(100, 7, 100), Ok(()));
    assert_eq!(replay.note(100, 7, 80), Err(Denied::Unauthorized));
}

#[test]
fn full_it_believes_nobody_until_time_has_passed() {
    let mut replay = Replay::new(WINDOW, 2, 0);
    assert_eq!(replay.note(100, 1, 100), Ok(()));
    assert_eq!(replay.note(101, 2, 100), Ok(()));
    assert_eq!(replay.note(102, 3, 100), Err(Denied::Unchecked));
    assert_eq!(replay.note(101, 2, 100), Err(Denied::Unauthorized));
    assert_eq!(replay.note(102, 3, 131), Ok(()));
}
