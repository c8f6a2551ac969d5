//! The state machine, case by case.

use super::super::election::{Claim, Election, Record, Step};
use super::*;

fn election() -> Election {
    Election::new("me".into(), Times::default())
}

fn record(version: &str, holder: Option<&str>) -> Option<Record> {
    Some(Record {
        version: version.to_owned(),
        holder: holder.map(Into::into),
        duration: Some(seconds(15)),
        transitions: 4,
    })
}

fn replace(version: &str, transitions: i32, new_holder: bool) -> Step {
    Step::Claim(Claim { replaces: Some(version.to_owned()), transitions, new_holder })
}

/// What is done some seconds after one lease was read.
#[test]
fn what_is_done_with_what_was_read() {
    let create = Step::Claim(Claim { replaces: None, transitions: 0, new_holder: true });
    let table = [
        ("no lease is created", None, 0, create),
        ("a free lease is taken at once", record("1", None), 0, replace("1", 5, true)),
        ("one's own is renewed", record("1", Some("me")), 0, replace("1", 4, false)),
        ("another's is left alone", record("1", Some("you")), 14, Step::Read),
        ("another's is taken when it is over", record("1", Some("you")), 15, replace("1", 5, true)),
    ];
    for (name, lease, after, expected) in table {
        let (mut election, start) = (election(), Instant::now());
        assert_eq!(election.step(start), Step::Read, "{name}: nothing was read yet");
        election.observed(start, lease);
        assert_eq!(election.step(start + seconds(after)), expected, "{name}");
        assert_eq!(election.leads(start + seconds(after)), None, "{name}: reading is not leading");
    }
}

#[test]
fn the_time_of_another_runs_anew_with_each_version_and_only_then() {
    let (mut election, start) = (election(), Instant::now());
    election.observed(start, record("1", Some("you")));
    election.observed(start + seconds(10), record("1", Some("you")));
    assert_eq!(election.claimable_at(), Some(start + seconds(15)));
    election.observed(start + seconds(12), record("2", Some("you")));
    assert_eq!(election.claimable_at(), Some(start + seconds(27)));
}

#[test]
fn the_duration_that_the_holder_wrote_counts() {
    let (mut election, start) = (election(), Instant::now());
    let lease = record("1", Some("you")).map(|record| Record { duration: Some(seconds(60)), ..record });
    election.observed(start, lease);
    assert_eq!(election.claimable_at(), Some(start + seconds(60)));
    let lease = record("2", Some("you")).map(|record| Record { duration: None, ..record });
    election.observed(start, lease);
    assert_eq!(election.claimable_at(), Some(start + seconds(15)));
}

#[test]
fn a_leader_leads_from_when_its_write_was_sent() {
    let (mut election, start) = (election(), Instant::now());
    election.observed(start, None);
    election.claimed(start, start + seconds(4), record("1", Some("me")).unwrap());
    let until = start + seconds(10);
    assert_eq!(election.leads(start + seconds(4)), Some((Term(4), until)));
    assert_eq!(election.leads(until), None);
}

#[test]
fn a_write_without_an_answer_extends_nothing_and_is_looked_up() {
    let (mut election, start) = (election(), Instant::now());
    election.observed(start, None);
    election.claimed(start, start, record("1", Some("me")).unwrap());
    election.not_claimed();
    assert_eq!(election.step(start + seconds(3)), Step::Read);
    // It was done, as is found out now.
    election.observed(start + seconds(3), record("2", Some("me")));
    assert_eq!(election.leads(start + seconds(3)), Some((Term(4), start + seconds(10))));
    assert_eq!(election.step(start + seconds(3)), replace("2", 4, false));
}

#[test]
fn a_leader_that_reads_another_name_stops_at_once() {
    let (mut election, start) = (election(), Instant::now());
    election.claimed(start, start, record("1", Some("me")).unwrap());
    election.observed(start + seconds(1), record("2", Some("you")));
    assert_eq!(election.leads(start + seconds(1)), None);
}

#[test]
fn a_lease_that_vanishes_does_not_end_the_time_of_its_holder() {
    let (mut election, start) = (election(), Instant::now());
    election.observed(start, record("1", Some("you")));
    election.observed(start + seconds(1), None);
    assert_eq!(election.step(start + seconds(1)), Step::Read);
    let create = Step::Claim(Claim { replaces: None, transitions: 5, new_holder: true });
    assert_eq!(election.step(start + seconds(15)), create);
}
