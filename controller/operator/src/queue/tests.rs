use std::collections::BTreeSet;

use tokio::task::JoinSet;
use tokio::time::advance;

use super::*;

mod model;

pub(super) fn key(name: &str) -> Key {
    Key::new("ns", name)
}

pub(super) fn queue() -> Queue {
    Queue::new(Pace::default(), Random::seeded(1))
}

fn take(queue: &Queue) -> Job {
    match queue.try_next(Instant::now()) {
        Next::Job(job) => job,
        other => panic!("no job, but {other:?}"),
    }
}

fn idle_for(queue: &Queue) -> Duration {
    match queue.try_next(Instant::now()) {
        Next::At(due) => due - Instant::now(),
        other => panic!("does not wait, but {other:?}"),
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_twice_is_handed_out_once() {
    let queue = queue();
    queue.add(key("a"));
    queue.add(key("a"));
    take(&queue).done(Again::Forget);
    assert!(matches!(queue.try_next(Instant::now()), Next::Empty));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_added_while_it_runs_runs_again_after_it() {
    let queue = queue();
    queue.add(key("a"));
    let job = take(&queue);
    queue.add(key("a"));
    assert!(matches!(queue.try_next(Instant::now()), Next::Empty), "it runs twice at a time");
    job.done(Again::Forget);
    take(&queue).done(Again::Forget);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn keys_are_handed_out_in_the_order_in_which_they_became_due() {
    let queue = queue();
    queue.add_after(key("late"), millis(20));
    queue.add(key("b"));
    queue.add(key("a"));
    queue.add_after(key("soon"), millis(10));
    advance(millis(30)).await;
    queue.add(key("now"));
    let order: Vec<_> = (0..5).map(|_| take(&queue).key().name.to_string()).collect();
    assert_eq!(order, ["b", "a", "soon", "late", "now"]);
}

#[tokio::test(start_paused = true)]
async fn a_pressing_key_overtakes_a_crowd_and_nobody_who_has_waited_for_long() {
    let queue = queue();
    queue.add(key("old"));
    advance(HEAD_START + millis(1)).await;
    queue.add(key("crowd"));
    queue.add(key("b"));
    queue.add_after(key("later"), millis(500));
    queue.add_in(key("b"), Haste::Pressing);
    queue.add_in(key("c"), Haste::Pressing);
    advance(millis(10)).await;
    let jobs: Vec<_> = (0..4).map(|_| take(&queue)).collect();
    let order: Vec<_> = jobs.iter().map(|job| (job.key().name.to_string(), job.waited())).collect();
    let expected =
        [("old", HEAD_START + millis(11)), ("b", millis(10)), ("c", millis(10)), ("crowd", millis(10))];
    assert_eq!(order, expected.map(|(name, waited)| (name.to_owned(), waited)));
    assert_eq!(idle_for(&queue), millis(490), "what is not pressing is due when it was");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_becomes_pressing_while_it_runs_overtakes_others_after_it() {
    let queue = queue();
    queue.add(key("a"));
    let job = take(&queue);
    queue.add(key("b"));
    queue.add_in(key("a"), Haste::Pressing);
    job.done(Again::Rarely);
    let job = take(&queue);
    assert_eq!(&*job.key().name, "a");
    job.put_back();
    assert_eq!(&*take(&queue).key().name, "a", "it goes back to its place");
}

#[tokio::test(start_paused = true)]
async fn the_earliest_of_several_due_times_counts() {
    let queue = queue();
    queue.add_after(key("a"), millis(50));
    queue.add_after(key("a"), millis(20));
    queue.add_after(key("a"), millis(90));
    assert_eq!(idle_for(&queue), millis(20));
    advance(millis(25)).await;
    let job = take(&queue);
    assert_eq!(job.waited(), millis(5));
    queue.add_after(key("a"), millis(70));
    queue.add_after(key("a"), millis(30));
    job.done(Again::After(millis(40)));
    assert_eq!(idle_for(&queue), millis(30));
}

#[tokio::test(start_paused = true)]
async fn the_back_off_doubles_up_to_the_cap_and_success_forgets_it() {
    let queue = queue();
    queue.add(key("a"));
    for failures in 0..20 {
        let job = take(&queue);
        assert_eq!(job.failures(), failures);
        job.failed();
        let bound = millis(5 << failures).min(Duration::from_secs(60));
        let wait = idle_for(&queue);
        assert!(wait >= bound / 2 && wait <= bound, "{wait:?} after {failures} failures");
        advance(wait).await;
    }
    take(&queue).done(Again::After(millis(1)));
    advance(millis(1)).await;
    take(&queue).failed();
    assert!(idle_for(&queue) <= millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_tried_again_within_a_second() {
    let queue = queue();
    queue.add(key("a"));
    for _ in 0..30 {
        take(&queue).conflicted();
        let wait = idle_for(&queue);
        assert!(wait <= Duration::from_secs(1));
        advance(wait).await;
    }
}

#[tokio::test(start_paused = true)]
async fn news_of_an_object_end_its_back_off_but_do_not_forget_it() {
    let queue = queue();
    queue.add(key("a"));
    for _ in 0..15 {
        take(&queue).failed();
        queue.add(key("a"));
    }
    assert_eq!(take(&queue).failures(), 15);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_job_has_failed() {
    let queue = queue();
    queue.add(key("a"));
    drop(take(&queue));
    advance(idle_for(&queue)).await;
    assert_eq!(take(&queue).failures(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_put_back_keeps_its_place() {
    let queue = queue();
    queue.add(key("a"));
    queue.add(key("b"));
    let job = take(&queue);
    queue.add(key("a"));
    job.put_back();
    let order: Vec<_> = (0..2).map(|_| take(&queue).key().name.to_string()).collect();
    assert_eq!(order, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn rare_looks_are_spread_and_bound_every_other_wait() {
    let queue = queue();
    let period = Pace::default().rarely;
    let mut waits = BTreeSet::new();
    for (index, again) in
        [Again::Rarely, Again::After(period * 1000)].into_iter().cycle().take(200).enumerate()
    {
        let key = key(&index.to_string());
        queue.add(key.clone());
        take(&queue).done(again);
        let due = queue.shared.schedule.lock().due(&key).unwrap();
        waits.insert(due - Instant::now());
    }
    assert!(*waits.first().unwrap() >= period / 2 && *waits.last().unwrap() <= period * 3 / 2);
    assert!(*waits.first().unwrap() < period * 3 / 5 && *waits.last().unwrap() > period * 7 / 5);
}

#[tokio::test(start_paused = true)]
async fn depth_counts_what_is_due_and_not_running() {
    let queue = queue();
    queue.add(key("a"));
    queue.add(key("b"));
    queue.add_after(key("c"), millis(10));
    assert_eq!((queue.depth(), queue.len()), (2, 3));
    let _job = take(&queue);
    assert_eq!((queue.depth(), queue.len()), (1, 3));
    advance(millis(10)).await;
    assert_eq!(queue.depth(), 2);
}

/// A worker that waits for a later key must not sleep through an earlier one, whichever worker was woken for
/// it and whatever became of that one.
#[tokio::test(start_paused = true)]
async fn idle_workers_take_keys_on_time_while_another_one_is_busy_or_cancelled() {
    let queue = queue();
    queue.add_after(key("last"), millis(100));
    let mut workers = JoinSet::new();
    for _ in 0..2 {
        let queue = queue.clone();
        workers.spawn(async move { queue.next().await });
    }
    let cancelled = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.is_some() }
    });
    advance(millis(1)).await;
    queue.add_after(key("a"), millis(5));
    queue.add_after(key("b"), millis(6));
    advance(millis(1)).await;
    cancelled.abort();
    let start = Instant::now();
    let first = workers.join_next().await.unwrap().unwrap().unwrap();
    let second = workers.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!((&*first.key().name, &*second.key().name), ("a", "b"));
    assert!(start.elapsed() < millis(20), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_queue_ends_its_waiting_workers_and_hands_out_nothing() {
    let queue = queue();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.is_none() }
    });
    advance(millis(1)).await;
    queue.stop();
    assert!(worker.await.unwrap());
    queue.add(key("a"));
    assert!(queue.next().await.is_none());
}
