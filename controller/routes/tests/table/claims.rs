//! Whose an ID is: rivals, newcomers, heirs. (Sandgate issue 13, B.)

use sandgate_routes::{ChangeKind, Changes, Notice, Observation, Outcome, Scope};

use crate::fixture::{Bench, Sandbox, at, sandbox, table, version};

fn everything() -> Scope {
    Scope::new("kruise", None, "")
}

fn in_namespace(namespace: &str, name: &str) -> Sandbox {
    sandbox(name).in_namespace(namespace)
}

fn created(at: u64, sandbox: Sandbox) -> Sandbox {
    Sandbox(Observation { created: Some(at), ..sandbox.0 })
}

/// What team-b made first, under its own name.
fn victim() -> Sandbox {
    created(10, in_namespace("team-b", "victim"))
}

/// What team-a made later, and labelled with the name of team-b's.
fn evil() -> Sandbox {
    created(20, in_namespace("team-a", "evil").called("team-b--victim"))
}

fn tell(table: &Bench, sandbox: Sandbox, version: u64) -> Outcome {
    table.writer.apply_in(&everything(), sandbox.at(version))
}

fn told(changes: &mut Changes) -> Vec<ChangeKind> {
    let mut told = Vec::new();
    while let Some(Notice::Changed(change)) = changes.try_recv() {
        told.push(change.kind());
    }
    told
}

#[test]
fn a_tenant_does_not_take_the_id_of_another_by_a_label() {
    for order in [[true, false], [false, true]] {
        let table = table();
        for is_victim in order {
            tell(&table, if is_victim { victim() } else { evil() }, 1);
        }
        assert_eq!(table.holder("team-b--victim").as_deref(), Some("victim"), "{order:?}");
        assert_eq!(table.reader.counts().displaced, 1);
        let displaced: Vec<_> =
            table.writer.displaced(10).iter().map(|route| route.key().to_string()).collect();
        assert_eq!(displaced, ["kruise:team-a/evil"]);
    }
}

#[test]
fn of_many_displaced_the_first_by_id_are_named() {
    let table = table();
    for (number, name) in ["c", "a", "d", "b", "e"].into_iter().enumerate() {
        let id = format!("x-{}", number % 2);
        tell(&table, created(1, in_namespace("first", name).called(&id)), 1);
    }
    let named = |most| -> Vec<_> {
        table
            .writer
            .displaced(most)
            .iter()
            .map(|route| format!("{} {}", route.id(), route.key().name()))
            .collect()
    };
    assert_eq!(named(10), ["x-0 d", "x-0 e", "x-1 b"]);
    assert_eq!((named(2), named(0)), (named(10)[..2].to_vec(), vec![]));
}

#[test]
fn an_older_object_keeps_an_id_from_a_younger_one() {
    for order in [["old", "young"], ["young", "old"]] {
        let table = table();
        for name in order {
            let age = if name == "old" { 1 } else { 2 };
            tell(&table, created(age, in_namespace(name, name).called("x")), 1);
        }
        assert_eq!(table.holder("x").as_deref(), Some("old"), "{order:?}");
    }
}

#[test]
fn names_that_collide_by_construction_go_to_the_older_object() {
    for order in [[true, false], [false, true]] {
        let table = table();
        for is_older in order {
            let claim = if is_older {
                created(1, in_namespace("team", "a--x"))
            } else {
                created(2, in_namespace("team--a", "x"))
            };
            tell(&table, claim, 1);
        }
        assert_eq!(table.holder("team--a--x").as_deref(), Some("a--x"), "{order:?}");
    }
}

#[test]
fn an_object_of_unknown_age_waits_behind_one_whose_age_is_known() {
    let table = table();
    table.writer.apply(in_namespace("team-b", "a-pushed").called("x").at(1));
    assert_eq!(table.holder("x").as_deref(), Some("a-pushed"), "alone it is served");
    tell(&table, created(9, in_namespace("team-a", "watched").called("x")), 1);
    assert_eq!(table.holder("x").as_deref(), Some("watched"));
    tell(&table, created(1, in_namespace("team-b", "a-pushed").called("x")), 1);
    assert_eq!(table.holder("x").as_deref(), Some("a-pushed"), "now the watch knows its age");
}

#[test]
fn nothing_that_a_rival_does_is_told_of_the_one_who_is_served() {
    let table = table();
    tell(&table, victim(), 1);
    let mut changes = table.writer.subscribe(100);
    assert_eq!(tell(&table, evil(), 2), Outcome::Displaced { by: Some(victim().0.key) });
    tell(&table, evil().paused(), 3);
    tell(&table, evil().with_uid("another"), 4);
    table.writer.delete_in(&everything(), &evil().0.key, None, at(5));
    assert_eq!(told(&mut changes), []);
    assert_eq!(table.holder("team-b--victim").as_deref(), Some("victim"), "and it needs no event to stay");
}

#[test]
fn nobody_from_elsewhere_inherits_the_traffic_of_the_dead() {
    let table = table();
    let rival = || created(20, in_namespace("team-a", "heir").called("x"));
    tell(&table, created(10, in_namespace("team-b", "first").called("x")), 1);
    tell(&table, rival(), 2);
    table.writer.delete_in(&everything(), &in_namespace("team-b", "first").0.key, None, at(3));
    assert_eq!(table.holder("x"), None, "clients of the first still send");
    assert_eq!(tell(&table, rival(), 4), Outcome::Displaced { by: None }, "an update does not help");
    table.pass(599);
    table.writer.sweep();
    assert_eq!(table.holder("x"), None);
    table.pass(1);
    table.writer.sweep();
    assert_eq!(table.holder("x").as_deref(), Some("heir"), "after the lifetime of a tombstone");
}

#[test]
fn a_successor_in_the_same_namespace_follows_at_once() {
    let table = table();
    tell(&table, created(10, in_namespace("team-b", "first").called("x")), 1);
    tell(&table, created(11, in_namespace("team-a", "rival").called("x")), 2);
    tell(&table, created(12, in_namespace("team-b", "second").called("x")), 3);
    table.writer.delete_in(&everything(), &in_namespace("team-b", "first").0.key, None, at(4));
    assert_eq!(table.holder("x").as_deref(), Some("second"));
}

#[test]
fn a_label_does_not_take_the_name_of_a_batchsandbox_however_old_it_is() {
    let batch = || created(20, in_namespace("team-b", "x").of("opensandbox").called_by_name());
    let old = || created(1, in_namespace("team-a", "evil").called("x"));
    let all = Scope::new("opensandbox", None, "");
    for label_is_first in [true, false] {
        let table = table();
        if label_is_first {
            tell(&table, old(), 1);
        }
        table.writer.apply_in(&all, batch().at(2));
        tell(&table, old(), 3);
        assert_eq!(table.holder("x").as_deref(), Some("x"), "label first: {label_is_first}");
        // Nor does it inherit the name.
        table.writer.delete_in(&all, &batch().0.key, None, at(4));
        assert_eq!(table.holder("x"), None);
    }
}

#[test]
fn the_owner_of_a_plain_name_does_not_wait_for_the_time_of_a_label() {
    let table = table();
    tell(&table, created(1, in_namespace("team-a", "evil").called("x")), 1);
    table.writer.delete_in(&everything(), &in_namespace("team-a", "evil").0.key, None, at(2));
    let all = Scope::new("opensandbox", None, "");
    let owner = created(20, in_namespace("team-b", "x").of("opensandbox").called_by_name()).at(3);
    assert_eq!(table.writer.apply_in(&all, owner), Outcome::Applied);
}

#[test]
fn a_recreated_sandbox_keeps_its_id_from_a_rival_when_only_its_push_has_come() {
    let table = table();
    tell(&table, victim(), 1);
    tell(&table, evil(), 2);
    table.writer.apply(in_namespace("team-b", "victim").with_uid("recreated").at(3));
    assert_eq!(table.holder("team-b--victim").as_deref(), Some("victim"), "it is its own name");
    tell(&table, created(1, in_namespace("team-b", "by-label").called("x")), 4);
    tell(&table, created(2, in_namespace("team-a", "rival").called("x")), 5);
    table.writer.apply(in_namespace("team-b", "by-label").called("x").with_uid("recreated").at(6));
    assert_eq!(table.holder("x").as_deref(), Some("by-label"), "the age of the new one is not known yet");
}

#[test]
fn a_new_uid_in_a_list_is_a_death_for_whoever_waits_for_the_id() {
    let first = |age| created(age, in_namespace("team-b", "first").called("x"));
    let rival = || created(2, in_namespace("team-a", "rival").called("x"));
    // The rival waits already, or is listed after the one that was made anew.
    for waits in [true, false] {
        let table = table();
        tell(&table, first(1), 1);
        if waits {
            tell(&table, rival(), 2);
        }
        let mut relist = table.writer.begin_relist(everything(), version(9));
        relist.observe(first(3).with_uid("recreated").at(8));
        relist.observe(rival().at(2));
        relist.commit();
        assert_eq!(
            table.holder("x").as_deref(),
            Some("first"),
            "as after its DELETE and ADD, waits: {waits}"
        );
        table.pass(600);
        table.writer.sweep();
        assert_eq!(table.holder("x").as_deref(), Some("rival"), "then rank decides, waits: {waits}");
    }
}

#[test]
fn a_successor_does_not_end_the_time_for_which_an_id_is_kept() {
    let table = table();
    tell(&table, created(1, in_namespace("team-b", "first").called("x")), 1);
    table.writer.delete_in(&everything(), &in_namespace("team-b", "first").0.key, None, at(2));
    tell(&table, created(3, in_namespace("team-b", "second").called("x")), 3);
    tell(&table, created(2, in_namespace("team-a", "rival").called("x")), 4);
    assert_eq!(table.holder("x").as_deref(), Some("second"), "whether the rival came before it or after");
}

#[test]
fn a_label_does_not_keep_a_name_from_its_owner_after_its_death() {
    let table = table();
    tell(&table, evil(), 1);
    table.writer.delete_in(&everything(), &evil().0.key, None, at(2));
    assert_eq!(tell(&table, victim(), 3), Outcome::Applied);
    assert_eq!(table.holder("team-b--victim").as_deref(), Some("victim"));
}

#[test]
fn an_id_that_was_ambiguous_is_not_inherited_either() {
    let table = table();
    let first = || created(10, in_namespace("team-b", "first").called("x")).refusing();
    let rival = || created(20, in_namespace("team-a", "rival").called("x")).refusing();
    tell(&table, first(), 1);
    tell(&table, rival(), 2);
    assert!(table.reader.get("x").unwrap().is_ambiguous());
    table.writer.delete_in(&everything(), &first().0.key, None, at(3));
    assert_eq!(table.holder("x"), None);
    tell(&table, first(), 4);
    table.writer.delete_in(&everything(), &rival().0.key, None, at(5));
    assert_eq!(table.holder("x").as_deref(), Some("first"), "the one who was served is served again");
}

#[test]
fn who_was_served_before_an_id_was_ambiguous_is_known_after_the_time_of_an_earlier_death() {
    let table = table();
    let first = |uid: &str| created(10, in_namespace("team-b", "first").called("x")).refusing().with_uid(uid);
    tell(&table, first("one"), 1);
    tell(&table, first("two"), 2);
    tell(&table, created(20, in_namespace("team-a", "rival").called("x")), 3);
    assert!(table.reader.get("x").unwrap().is_ambiguous());
    table.pass(600);
    table.writer.sweep();
    table.writer.delete_in(&everything(), &first("two").0.key, None, at(4));
    assert_eq!(table.holder("x"), None, "clients of the second still send");
}

#[test]
fn a_list_of_rivals_makes_what_their_events_make() {
    let table = table();
    let mut relist = table.writer.begin_relist(everything(), version(9));
    relist.observe(evil().at(2));
    relist.observe(victim().at(1));
    relist.commit();
    assert_eq!(table.holder("team-b--victim").as_deref(), Some("victim"));
}

#[test]
fn the_age_of_an_object_that_has_moved_on_disturbs_nobody_under_its_old_id() {
    let table = table();
    table.writer.apply(in_namespace("p", "moving").called("x").at(1));
    tell(&table, created(5, in_namespace("r", "resident").called("x")), 1);
    assert_eq!(table.holder("x").as_deref(), Some("resident"));
    let mut changes = table.writer.subscribe(100);
    tell(&table, created(1, in_namespace("p", "moving").called("y")), 2);
    assert_eq!(table.holder("x").as_deref(), Some("resident"));
    assert_eq!(told(&mut changes), [ChangeKind::Appeared], "of y alone");
}
