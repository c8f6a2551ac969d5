//! What is asked of the admission, and what becomes of the answers.

use std::time::Duration;

use parking_lot::Mutex;
use sandgate_objects::sandbox_env::resources::AttemptResult;

use super::*;

/// Admits up to a number, and refuses what is more in its own way.
struct UpTo {
    most: i32,
    refusal: fn(i32) -> Result<i32, AdmissionRefusal>,
    asked: Mutex<Vec<i32>>,
}

impl Admission for UpTo {
    async fn ask(&self, candidate: i32) -> Result<i32, AdmissionRefusal> {
        self.asked.lock().push(candidate);
        if candidate <= self.most { Ok(candidate) } else { (self.refusal)(self.most) }
    }
}

fn refuse(kind: RefusalKind, message: &str) -> AdmissionRefusal {
    let retry_after = Some(Duration::from_secs(message.len() as u64));
    AdmissionRefusal { kind, message: message.to_owned(), retry_after }
}

fn insufficient(_: i32) -> Result<i32, AdmissionRefusal> {
    Err(refuse(RefusalKind::Insufficient, "no room"))
}

fn ask(
    (from, to): (i32, i32),
    most: i32,
    refusal: fn(i32) -> Result<i32, AdmissionRefusal>,
) -> (AdmissionOutcome, Vec<i32>) {
    let admission = UpTo { most, refusal, asked: Mutex::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(AdmissionLadder::new(from, to).climb(&admission));
    (outcome, admission.asked.into_inner())
}

#[test]
fn what_is_admitted_is_asked_for_once() {
    let (outcome, asked) = ask((3, 9), 9, insufficient);
    assert_eq!((outcome.accepted, outcome.result, asked), (9, AttemptResult::Enough, vec![9]));
    assert_eq!((outcome.message.as_str(), outcome.retry_after), ("", None));
}

#[test]
fn the_most_that_is_admitted_is_found() {
    for most in 0..=12 {
        let (outcome, asked) = ask((3, 10), most, insufficient);
        let result = if most >= 10 { AttemptResult::Enough } else { AttemptResult::Insufficient };
        assert_eq!((outcome.accepted, outcome.result), (most.clamp(3, 10), result), "{most} of 10");
        assert!(asked.len() <= 4 && asked.iter().all(|candidate| (4..=10).contains(candidate)), "{asked:?}");
    }
}

#[test]
fn an_answer_below_the_question_is_not_enough() {
    let (outcome, asked) = ask((3, 10), 7, Ok);
    assert_eq!((outcome.accepted, outcome.result), (7, AttemptResult::Insufficient));
    assert_eq!(asked, [10, 8], "7 is known to be admitted");
    assert_eq!(outcome.message, "7 of 10 replicas are admitted");
    assert_eq!(ask((3, 10), -7, Ok).0.accepted, 3, "what is there stays");
    assert_eq!(ask((3, 4), i32::MIN, Ok).0.accepted, 3);
}

#[test]
fn a_refusal_for_another_reason_ends_the_search() {
    for kind in [RefusalKind::InvalidSpec, RefusalKind::Internal] {
        let mut ladder = AdmissionLadder::new(3, 10);
        ladder.answered(Err(refuse(kind, "broken")));
        assert_eq!(ladder.candidate(), None);
        let outcome = ladder.outcome();
        assert_eq!(
            (outcome.accepted, outcome.result, outcome.message.as_str()),
            (3, AttemptResult::Failed, "broken")
        );
    }
    let mut ladder = AdmissionLadder::new(3, 10);
    ladder.answered(Err(refuse(RefusalKind::Insufficient, "no room")));
    assert_eq!(ladder.candidate(), Some(6));
    ladder.answered(Ok(6));
    ladder.answered(Err(refuse(RefusalKind::Internal, "broken")));
    let outcome = ladder.outcome();
    assert_eq!(
        (outcome.accepted, outcome.result, outcome.message.as_str()),
        (6, AttemptResult::Failed, "broken")
    );
    assert_eq!(outcome.retry_after, Some(Duration::from_secs(7)), "the longest");
}

#[test]
fn the_questions_are_few_and_end_at_the_limits_of_numbers() {
    let (outcome, asked) = ask((0, i32::MAX), i32::MAX - 1, insufficient);
    assert_eq!((outcome.accepted, outcome.result), (i32::MAX - 1, AttemptResult::Insufficient));
    assert!(asked.len() <= 32, "{}", asked.len());
    assert_eq!(ask((0, i32::MAX), i32::MAX, insufficient).1, [i32::MAX]);
    assert_eq!(ask((i32::MIN, 1), 0, insufficient).0.accepted, 0);
    for (from, to) in [(5, 5), (5, 3), (i32::MAX, i32::MIN)] {
        let (outcome, asked) = ask((from, to), 0, insufficient);
        assert_eq!((outcome.accepted, asked.len()), (from, 0), "there is nothing to ask");
    }
}

#[test]
fn a_long_message_is_cut_at_a_character() {
    let mut ladder = AdmissionLadder::new(0, 1);
    ladder.answered(Err(refuse(RefusalKind::Internal, &"ä€".repeat(1000))));
    let message = ladder.outcome().message;
    assert!((509..=512).contains(&message.len()), "{}", message.len());
}
