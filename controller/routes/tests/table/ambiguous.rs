//! IDs that several objects claim and one of them will not share.

use sandgate_routes::{ChangeKind, Changes, Filter, Notice, Outcome, State};

use crate::fixture::{Bench, at, everything, key, sandbox, table, version};

/// Who is served under an ID, or that nobody can be.
fn under(table: &Bench, id: &str) -> Option<String> {
    let route = table.reader.get(id)?;
    Some(if route.is_ambiguous() { "ambiguous".into() } else { route.key().name().to_owned() })
}

fn is_ambiguous(table: &Bench, id: &str) -> bool {
    under(table, id).as_deref() == Some("ambiguous")
}

/// `a` and `b`, both claiming `x`, neither willing to share it.
fn contested() -> Bench {
    let table = table();
    assert_eq!(table.writer.apply(sandbox("a").called("x").refusing().at(1)), Outcome::Applied);
    let outcome = table.writer.apply(sandbox("b").called("x").refusing().at(1));
    assert_eq!(outcome, Outcome::Ambiguous { other: key("a") });
    assert!(is_ambiguous(&table, "x"));
    table
}

#[test]
fn while_two_claim_an_id_that_one_will_not_share_nobody_is_served() {
    for (a_refuses, b_refuses) in [(true, true), (true, false), (false, true)] {
        for order in [["a", "b"], ["b", "a"]] {
            let table = table();
            for name in order {
                let claim = sandbox(name).called("x");
                let refuses = if name == "a" { a_refuses } else { b_refuses };
                table.writer.apply(if refuses { claim.refusing() } else { claim }.at(1));
            }
            assert!(is_ambiguous(&table, "x"), "{a_refuses} {b_refuses} {order:?}");
            let counts = table.reader.counts();
            assert_eq!((counts.routes, counts.ambiguous, counts.objects, counts.takeovers), (1, 1, 2, 0));
            assert_eq!(
                table.holder("x").as_deref(),
                Some("a"),
                "which one stands for both is no matter of order"
            );
        }
    }
}

#[test]
fn who_refuses_alone_is_served() {
    let table = table();
    table.writer.apply(sandbox("a").called("x").refusing().at(1));
    table.writer.apply(sandbox("b").called("y").refusing().at(1));
    assert_eq!((under(&table, "x").unwrap().as_str(), under(&table, "y").unwrap().as_str()), ("a", "b"));
    assert_eq!(table.reader.counts().ambiguous, 0);
}

#[test]
fn the_one_that_remains_is_served_again_without_a_new_event() {
    type Leave = fn(&Bench, &str);
    let ways: [(&str, Leave); 5] = [
        ("deleted", |table, name| drop(table.writer.delete(&key(name), at(1)))),
        ("expired", |table, name| drop(table.writer.expire(&key(name), &version(1)))),
        ("dead", |table, name| drop(table.writer.apply(sandbox(name).dead().at(2)))),
        ("moved", |table, name| drop(table.writer.apply(sandbox(name).called("y").refusing().at(2)))),
        ("not listed", |table, name| {
            let mut relist = table.writer.begin_relist(everything(), version(9));
            relist.observe(sandbox(if name == "a" { "b" } else { "a" }).called("x").refusing().at(1));
            relist.commit();
        }),
    ];
    for (way, leave) in ways {
        for (gone, remains) in [("a", "b"), ("b", "a")] {
            let table = contested();
            leave(&table, gone);
            assert_eq!(under(&table, "x").as_deref(), Some(remains), "{gone} {way}");
            assert_eq!(table.served("x"), Some(1), "as it was");
            assert_eq!(table.reader.counts().ambiguous, 0);
        }
    }
}

#[test]
fn of_three_two_must_leave() {
    let table = contested();
    table.writer.apply(sandbox("c").called("x").refusing().at(1));
    for (gone, left) in [("a", "ambiguous"), ("c", "b")] {
        table.writer.delete(&key(gone), at(1));
        assert_eq!(under(&table, "x").as_deref(), Some(left), "after {gone}");
    }
    table.writer.delete(&key("b"), at(1));
    assert_eq!(under(&table, "x"), None);
    assert_eq!((table.reader.counts().objects, table.reader.counts().routes), (0, 0));
}

#[test]
fn news_of_a_claimant_changes_what_is_served_later_and_nothing_now() {
    let table = contested();
    let outcome = table.writer.apply(sandbox("b").called("x").refusing().paused().at(2));
    assert_eq!(outcome, Outcome::Ambiguous { other: key("a") });
    assert_eq!(table.writer.apply(sandbox("b").called("x").at(1)), Outcome::Stale);
    assert!(is_ambiguous(&table, "x"));
    table.writer.delete(&key("a"), at(1));
    assert_eq!(table.served("x"), Some(2));
}

#[test]
fn when_those_who_refused_are_gone_the_first_in_rank_is_served() {
    for gone in ["c", "a"] {
        let table = table();
        for name in ["a", "b", "c"] {
            let claim = sandbox(name).called("x");
            table.writer.apply(if name == gone { claim.refusing() } else { claim }.at(1));
        }
        assert!(is_ambiguous(&table, "x"));
        table.writer.delete(&key(gone), at(1));
        assert_eq!(under(&table, "x").as_deref(), Some(if gone == "a" { "b" } else { "a" }));
        assert_eq!(table.reader.counts().ambiguous, 0);
    }
}

#[test]
fn an_object_that_could_not_be_served_makes_no_id_ambiguous() {
    for state in [State::Creating, State::Available, State::Unknown] {
        let table = table();
        table.writer.apply(sandbox("victim").called("x").refusing().at(1));
        let rival = sandbox("w-rival").called("x").refusing();
        let outcome = table.writer.apply(rival.clone().being(state).at(1));
        assert_eq!(outcome, Outcome::Displaced { by: Some(key("victim")) }, "{state}");
        assert_eq!(under(&table, "x").as_deref(), Some("victim"), "{state}");
        table.writer.apply(rival.at(2));
        assert!(is_ambiguous(&table, "x"), "now it could be");
    }
}

#[test]
fn a_provider_that_refuses_does_not_make_the_ids_of_another_ambiguous() {
    for order in [[true, false], [false, true]] {
        let table = table();
        for refuses in order {
            let claim = if refuses {
                sandbox("zombie").of("opensandbox").called("team--victim").refusing()
            } else {
                sandbox("victim")
            };
            table.writer.apply(claim.at(1));
        }
        assert_eq!(under(&table, "team--victim").as_deref(), Some("victim"));
    }
}

#[test]
fn a_list_that_names_none_of_an_ambiguous_id_but_one_leaves_that_one_served() {
    // Slots are in the order of arrival, keys in that of names: the one who refuses goes first or last.
    for arrival in [["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]] {
        let table = table();
        for name in arrival {
            let claim = sandbox(name).called("x");
            table.writer.apply(if name == "a" { claim.refusing() } else { claim }.at(1));
        }
        let mut relist = table.writer.begin_relist(everything(), version(9));
        relist.observe(sandbox("c").called("x").at(1));
        assert_eq!(relist.commit().deleted, 2);
        assert_eq!(under(&table, "x").as_deref(), Some("c"), "{arrival:?}");
    }
}

#[test]
fn who_stops_refusing_claims_like_any_other() {
    let table = table();
    table.writer.apply(sandbox("a").called("x").at(1));
    table.writer.apply(sandbox("b").called("x").refusing().at(1));
    assert!(is_ambiguous(&table, "x"));
    let outcome = table.writer.apply(sandbox("b").called("x").at(2));
    assert_eq!(outcome, Outcome::Displaced { by: Some(key("a")) });
    assert_eq!(under(&table, "x").as_deref(), Some("a"));
}

fn told(changes: &mut Changes) -> Vec<(ChangeKind, Option<u64>)> {
    let mut told = Vec::new();
    while let Some(Notice::Changed(change)) = changes.try_recv() {
        assert!(change.before().into_iter().chain(change.after()).all(|route| !route.is_ambiguous()));
        told.push((change.kind(), change.identity_gone()));
    }
    told
}

#[test]
fn an_id_that_turns_ambiguous_is_told_as_gone_and_its_end_as_appearing() {
    let table = table();
    let mut changes = table.writer.subscribe(100);
    table.writer.apply(sandbox("a").called("x").refusing().at(1));
    let identity = table.reader.get("x").unwrap().identity();
    assert_eq!(told(&mut changes), [(ChangeKind::Appeared, None)]);
    table.writer.apply(sandbox("b").called("x").refusing().at(1));
    assert_eq!(told(&mut changes), [(ChangeKind::Gone, Some(identity))]);
    table.writer.apply(sandbox("c").called("x").refusing().at(1));
    table.writer.apply(sandbox("a").called("x").refusing().paused().at(2));
    table.writer.delete(&key("a"), at(2));
    assert_eq!(told(&mut changes), [], "nobody was served before or after");
    table.writer.delete(&key("c"), at(1));
    assert_eq!(told(&mut changes), [(ChangeKind::Appeared, None)]);
    table.writer.delete(&key("b"), at(1));
    assert_eq!(told(&mut changes).iter().map(|told| told.0).collect::<Vec<_>>(), [ChangeKind::Gone]);
}

#[test]
fn a_page_shows_an_ambiguous_id_once_and_says_so() {
    let table = contested();
    let page = table.reader.page(&Filter::default(), None, 10);
    assert_eq!(page.routes.len(), 1);
    assert!(page.routes[0].is_ambiguous() && format!("{:?}", page.routes[0]).contains("ambiguous: true"));
}
