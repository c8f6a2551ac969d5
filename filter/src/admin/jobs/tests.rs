use std::sync::mpsc::{Sender, channel};

use super::*;

/// Has a page made that is not finished before the sender says so.
fn held(jobs: &Jobs, body: &'static str) -> (Sender<()>, Fetched) {
    let (finish, finished) = channel::<()>();
    let page = move || {
        // A sender that is dropped finishes the page too.
        let _ = finished.recv();
        (200, body.to_owned())
    };
    (finish, jobs.make(page))
}

fn done(fetched: Fetched) -> Option<String> {
    match fetched {
        Fetched::Done((_, body)) => Some(body),
        _ => None,
    }
}

/// Fetches a job that will be done.
fn fetch(jobs: &Jobs, job: u64) -> String {
    loop {
        match jobs.fetch(job) {
            Fetched::UnderWay(_) => thread::yield_now(),
            Fetched::Done((_, body)) => return body,
            other => panic!("{other:?}"),
        }
    }
}

fn number(fetched: &Fetched) -> u64 {
    match fetched {
        Fetched::UnderWay(job) => *job,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_page_that_takes_long_is_fetched_by_its_number_and_given_once() {
    let jobs = Jobs::default();
    let began = Instant::now();
    let (finish, first) = held(&jobs, "large");
    let job = number(&first);
    assert_eq!(jobs.fetch(job), Fetched::UnderWay(job));
    assert!(began.elapsed() < Duration::from_secs(5), "nobody waits for the page: {:?}", began.elapsed());
    finish.send(()).expect("it waits");
    assert_eq!(fetch(&jobs, job), "large");
    assert_eq!(jobs.fetch(job), Fetched::Unknown);
}

#[test]
fn a_page_that_is_quick_needs_no_second_question() {
    let jobs = Jobs::default();
    // The thread may be late on a busy machine, the page is not.
    for _ in 0..100 {
        let made = jobs.make(|| (200, "small".to_owned()));
        if let Fetched::UnderWay(job) = made {
            assert_eq!(fetch(&jobs, job), "small");
        } else {
            assert_eq!(done(made).as_deref(), Some("small"));
            return;
        }
    }
    panic!("not one of a hundred pages was there in time");
}

#[test]
fn jobs_that_wait_are_few_and_made_in_their_order() {
    let jobs = Jobs::default();
    let held: Vec<_> = ["a", "b", "c", "d"].map(|body| held(&jobs, body)).into();
    assert_eq!(jobs.make(|| (200, String::new())), Fetched::Busy);
    for (finish, _) in &held {
        finish.send(()).expect("it waits");
    }
    for ((_, asked), body) in held.iter().zip(["a", "b", "c", "d"]) {
        assert_eq!(fetch(&jobs, number(asked)), body);
    }
}

#[test]
fn a_page_that_panics_is_a_500_and_the_next_one_is_made() {
    let jobs = Jobs::default();
    let (finish, asked) = held(&jobs, "first");
    // It is under way behind the first one, and is fetched below by its number.
    let _ = jobs.make(|| panic!("a bug"));
    let bug = number(&asked) + 1;
    let (finish_last, last) = held(&jobs, "last");
    drop((finish, finish_last));
    assert_eq!(fetch(&jobs, bug), "{\"error\": \"internal error\"}\n");
    assert_eq!(fetch(&jobs, number(&last)), "last");
}

#[test]
fn answers_that_nobody_fetches_are_forgotten() {
    let mut state = State::default();
    let at = Instant::now();
    for job in 1..=6 {
        state.made.push_back(Made { job, at, answer: (200, String::new()) });
    }
    state.forget(at);
    assert_eq!(state.made.iter().map(|made| made.job).collect::<Vec<_>>(), [3, 4, 5, 6]);
    state.forget(at + KEPT);
    assert!(state.made.is_empty());
}
