//! Objects that come to their end by time.

use sandgate_routes::Outcome;

use crate::fixture::{at, everything, key, sandbox, table, version};

#[test]
fn an_object_expires_only_at_exactly_its_version() {
    let table = table();
    table.writer.apply(sandbox("a").at(5));
    for other in [4, 6] {
        assert_eq!(table.writer.expire(&key("a"), &version(other)), Outcome::Stale);
        assert_eq!(table.served("team--a"), Some(5), "not at {other}");
    }
    assert_eq!(table.writer.expire(&key("a"), &version(5)), Outcome::Applied);
    assert_eq!(table.served("team--a"), None);
    let counts = table.reader.counts();
    assert_eq!((counts.objects, counts.tombstones, counts.stale), (0, 1, 2));
}

#[test]
fn what_is_not_there_cannot_expire_and_leaves_nothing_behind() {
    let table = table();
    assert_eq!(table.writer.expire(&key("never-seen"), &version(5)), Outcome::Stale);
    assert_eq!(table.reader.counts().tombstones, 0);
    assert_eq!(table.writer.apply(sandbox("never-seen").at(5)), Outcome::Applied);

    table.writer.apply(sandbox("a").at(5));
    table.writer.delete(&key("a"), at(5));
    assert_eq!(table.writer.expire(&key("a"), &version(5)), Outcome::Stale, "it is gone already");
}

#[test]
fn a_later_version_revives_what_expired_as_a_new_identity() {
    let table = table();
    table.writer.apply(sandbox("a").at(5));
    let before = table.reader.get("team--a").unwrap().identity();
    table.writer.expire(&key("a"), &version(5));
    assert_eq!(table.writer.apply(sandbox("a").at(6)), Outcome::Applied);
    assert_eq!(table.served("team--a"), Some(6));
    assert_ne!(table.reader.get("team--a").unwrap().identity(), before);
    assert_eq!(table.writer.expire(&key("a"), &version(5)), Outcome::Stale, "the end was put off");
}

#[test]
fn a_relist_at_the_same_version_does_not_revive_what_expired() {
    let table = table();
    table.writer.apply_in(&everything(), sandbox("a").at(5));
    table.writer.expire(&key("a"), &version(5));
    let mut relist = table.writer.begin_relist(everything(), version(9));
    assert_eq!(relist.observe(sandbox("a").at(5)), Outcome::Stale);
    relist.commit();
    assert_eq!(table.served("team--a"), None);
    assert_eq!(table.writer.apply(sandbox("a").at(10)), Outcome::Applied, "what is later than the list does");
}

#[test]
fn a_relist_under_way_does_not_keep_what_expired() {
    let table = table();
    let mut relist = table.writer.begin_relist(everything(), version(9));
    relist.observe(sandbox("a").at(5));
    assert_eq!(table.writer.expire(&key("a"), &version(5)), Outcome::Applied);
    assert_eq!(relist.observe(sandbox("a").at(5)), Outcome::Stale);
    relist.commit();
    assert_eq!(table.served("team--a"), None);
}

#[test]
fn a_peer_s_equal_version_does_not_revive_what_expired() {
    let table = table();
    table.writer.apply_in(&everything(), sandbox("a").at(5));
    table.writer.expire(&key("a"), &version(5));
    let peer = table.writer.clone();
    for late in [4, 5] {
        assert_eq!(peer.apply(sandbox("a").owned_by("peer").at(late)), Outcome::Stale, "{late}");
    }
    assert_eq!(table.served("team--a"), None);
}

#[test]
fn an_object_that_lost_its_id_expires_and_leaves_it_with_who_took_it() {
    let table = table();
    table.writer.apply(sandbox("a").called("x").at(5));
    table.writer.apply(sandbox("b").called("x").at(1));
    assert_eq!(table.writer.expire(&key("a"), &version(5)), Outcome::Applied);
    assert_eq!(table.holder("x").as_deref(), Some("b"));
    assert_eq!(table.reader.counts().objects, 1);
}

#[test]
fn a_push_that_is_undone_does_not_bring_back_what_has_ended_meanwhile() {
    for is_death in [false, true] {
        let table = table();
        table.writer.begin_relist(everything(), version(5)).commit();
        table.writer.apply_in(&everything(), sandbox("a").at(10));
        if is_death {
            table.writer.delete(&key("a"), Some(version(12)));
        } else {
            table.writer.apply(sandbox("a").at(12));
        }
        assert_eq!(table.writer.expire(&key("a"), &version(10)), Outcome::Stale);
        table.pass(30);
        table.writer.reached(&everything(), &version(13));
        table.writer.sweep();
        assert_eq!(table.served("team--a"), None, "its time was over, death: {is_death}");
        let late = table.writer.apply(sandbox("a").at(10));
        assert_eq!(late, Outcome::Stale);
    }
}
