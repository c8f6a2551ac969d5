//! Turns: one action at a time on an object.

use std::time::Duration;

use sandgate_objects::openkruise::resources::SandboxFacts;
use tokio::task::yield_now;

use super::{LONG, labelled};
use crate::testing::{TestCache, paused, pausing, running};
use crate::{Action, WaitError};

const PAUSE: Action = Action::Pause;
const RESUME: Action = Action::Resume;

#[tokio::test(start_paused = true)]
async fn a_turn_is_taken_at_once_and_released_once_however_often_that_is_asked() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let turn = test.turn(&seen, PAUSE).unwrap();
    assert_eq!(test.under_way(&seen.uid), Some((PAUSE, 1)));
    let second = test.turn(&seen, PAUSE).unwrap();
    assert_eq!(test.under_way(&seen.uid), Some((PAUSE, 2)));
    turn.release();
    turn.release();
    assert_eq!(test.under_way(&seen.uid), Some((PAUSE, 1)), "the other still has it");
    drop((turn, second));
    assert_eq!(test.shared.turns.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn another_action_is_refused_at_once_with_both_names_and_takes_no_part() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let turn = test.turn(&seen, PAUSE).unwrap();
    let conflict = WaitError::Conflict { existing: PAUSE, wanted: RESUME };
    assert_eq!(test.turn(&seen, RESUME).err(), Some(conflict.clone()));
    assert_eq!(labelled(&test, &seen, RESUME, "x").within(LONG).await.unwrap_err(), conflict);
    assert!(conflict.to_string().contains("pause") && conflict.to_string().contains("resume"));
    assert_eq!(test.under_way(&seen.uid), Some((PAUSE, 1)));
    let zero = labelled(&test, &seen, RESUME, "x").within(Duration::ZERO).await.unwrap_err();
    assert_eq!(zero, WaitError::NotSatisfied, "who has no time asks for no turn");
    turn.release();
    assert!(test.turn(&seen, RESUME).is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_only_looks_hinders_nobody_and_is_hindered_by_nobody() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let _turn = test.turn(&seen, PAUSE).unwrap();
    assert!(test.ready(&seen.key, &seen.uid).within(LONG).await.is_ok());
    let mut waiting = Box::pin(labelled(&test, &seen, Action::Ready, "x").within(LONG));
    assert!(
        std::future::poll_fn(|context| std::task::Poll::Ready(waiting.as_mut().poll(context).is_pending()))
            .await
    );
    assert_eq!(test.under_way(&seen.uid), Some((PAUSE, 1)));
}

#[tokio::test(start_paused = true)]
async fn another_object_of_the_name_has_its_own_turn() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let _turn = test.turn(&seen, PAUSE).unwrap();
    let mut new = running("s");
    new["metadata"]["uid"] = "another".into();
    let new = test.show::<SandboxFacts>(&new);
    assert!(test.turn(&new, RESUME).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_wait_uses_the_turn_up_and_releases_it_however_it_ends() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    let turn = test.turn(&seen, PAUSE).unwrap();
    test.answer::<SandboxFacts>(&pausing(running("s")));
    let steps = async {
        yield_now().await;
        turn.release();
        assert_eq!(test.under_way(&seen.uid), Some((PAUSE, 1)), "a release while the wait runs does nothing");
        test.show::<SandboxFacts>(&paused(running("s")));
    };
    let (waited, ()) = tokio::join!(turn.wait(LONG), steps);
    assert!(waited.is_ok());
    assert_eq!(test.under_way(&seen.uid), None);
    assert_eq!(turn.wait(LONG).await.unwrap_err(), WaitError::Used);

    test.show::<SandboxFacts>(&pausing(running("s")));
    let turn = test.turn(&seen, PAUSE).unwrap();
    assert_eq!(turn.wait(Duration::from_secs(1)).await.unwrap_err(), WaitError::Timeout);
    assert_eq!(test.under_way(&seen.uid), None);
    let turn = test.turn(&seen, PAUSE).unwrap();
    turn.release();
    assert_eq!(turn.wait(LONG).await.unwrap_err(), WaitError::Used);
    let turn = test.turn(&seen, PAUSE).unwrap();
    test.end(&seen);
    assert_eq!(turn.wait(LONG).await.unwrap_err(), WaitError::Gone);
    assert_eq!((test.under_way(&seen.uid), test.waiting::<SandboxFacts>()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_time_looks_once() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&paused(running("s")));
    assert!(test.turn(&seen, PAUSE).unwrap().wait(Duration::ZERO).await.is_ok());
    let seen = test.show::<SandboxFacts>(&pausing(running("s")));
    assert_eq!(test.turn(&seen, PAUSE).unwrap().wait(Duration::ZERO).await.unwrap_err(), WaitError::Timeout);
}

#[tokio::test(start_paused = true)]
async fn whoever_can_wait_for_a_turn_has_it_when_the_other_action_is_over() {
    let test = TestCache::new();
    let seen = test.show::<SandboxFacts>(&running("s"));
    assert!(test.turn_within(&seen, RESUME, LONG).await.is_ok(), "it is free");
    let turn = test.turn(&seen, PAUSE).unwrap();
    let ended = test.turn_within(&seen, RESUME, Duration::from_secs(1)).await.err();
    assert_eq!(ended, Some(WaitError::Conflict { existing: PAUSE, wanted: RESUME }));
    let steps = async {
        yield_now().await;
        turn.release();
    };
    let (second, ()) = tokio::join!(test.turn_within(&seen, RESUME, LONG), steps);
    assert_eq!(second.unwrap().action(), RESUME);
    assert_eq!(test.shared.turns.len(), 0);
}
