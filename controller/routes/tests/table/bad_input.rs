//! Messages that mean harm or make no sense.

use std::time::Duration;

use proptest::prelude::*;
use sandgate_routes::{
    Invalid, Limits, MAX_OWNER, MAX_TOKEN, MAX_UID, Outcome, Version, VersionError, is_valid_id,
};

use crate::fixture::{at, key, sandbox, table, table_with};

#[test]
fn what_is_over_its_limit_is_invalid_and_says_which() {
    let table = table();
    let long = |length: usize| "x".repeat(length);
    let ip = |text: &str| Some(text.parse().unwrap());
    for (bad, reason) in [
        (sandbox("a").called(""), Invalid::Id),
        (sandbox("a").called(&long(254)), Invalid::Id),
        (sandbox("a").called("a b"), Invalid::Id),
        (sandbox("a").called("a/b"), Invalid::Id),
        (sandbox("a").called("a\0"), Invalid::Id),
        (sandbox("a").called("é"), Invalid::Id),
        (sandbox("a").with_uid(""), Invalid::Uid),
        (sandbox("a").with_uid(&long(MAX_UID + 1)), Invalid::Uid),
        (sandbox("a").with_uid("a\nb"), Invalid::Uid),
        (sandbox("a").owned_by(&long(MAX_OWNER + 1)), Invalid::Owner),
        (sandbox("a").owned_by("\u{7f}"), Invalid::Owner),
        (sandbox("a").with_ip(ip("0.0.0.0")), Invalid::Address),
        (sandbox("a").with_ip(ip("::")), Invalid::Address),
        (sandbox("a").with_ip(ip("224.0.0.1")), Invalid::Address),
        (sandbox("a").with_ip(ip("ff02::1")), Invalid::Address),
        (sandbox("a").with_token(""), Invalid::Token),
        (sandbox("a").with_token(&long(MAX_TOKEN + 1)), Invalid::Token),
        (sandbox("a").with_traffic_token(""), Invalid::Token),
        (sandbox("a").with_token("good").with_traffic_token(&long(MAX_TOKEN + 1)), Invalid::Token),
    ] {
        assert_eq!(table.writer.apply(bad.at(1)), Outcome::Invalid(reason));
    }
    let counts = table.reader.counts();
    assert_eq!((counts.invalid, counts.applied, counts.objects, counts.tombstones), (19, 0, 0, 0));
    let good = sandbox("a").called(&long(253)).with_uid(&long(MAX_UID)).owned_by(&long(MAX_OWNER));
    assert_eq!(table.writer.apply(good.with_token(&long(MAX_TOKEN)).at(1)), Outcome::Applied);
    assert_eq!(table.served(&long(253)), Some(1));
}

#[test]
fn an_id_is_letters_digits_dots_underscores_and_hyphens() {
    for byte in 0..=u8::MAX {
        let allowed = byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        assert_eq!(is_valid_id(&[b'a', byte, b'z']), allowed, "{byte}");
    }
    assert!(!is_valid_id(b"") && is_valid_id(&[b'x'; 253]) && !is_valid_id(&[b'x'; 254]));
}

#[test]
fn a_version_of_a_thousand_digits_is_none() {
    assert_eq!("9".repeat(1024).parse::<Version>(), Err(VersionError::TooLarge));
}

#[test]
#[cfg_attr(miri, ignore = "thousands of objects: minutes under Miri")]
fn any_number_of_distinct_dead_objects_is_remembered_up_to_the_cap() {
    // Ten million take minutes unoptimised; what bounds the memory is the cap, so a small one is passed a
    // hundred times over.
    let table = table_with(Limits { max_tombstones: 1_000, ..Limits::default() });
    for number in 0..100_000u64 {
        table.writer.delete(&key(&format!("dead-{number}")), at(number + 1));
    }
    let counts = table.reader.counts();
    assert_eq!((counts.tombstones, counts.tombstones_dropped), (1_000, 99_000));
    assert_eq!(table.writer.apply(sandbox("dead-99500").at(99_500)), Outcome::Stale);
}

#[test]
fn a_full_table_takes_no_new_object_and_still_updates_the_old() {
    let table = table_with(Limits { max_routes: 2, ..Limits::default() });
    table.writer.apply(sandbox("a").at(1));
    table.writer.apply(sandbox("b").at(1));
    assert_eq!(table.writer.apply(sandbox("c").at(1)), Outcome::Invalid(Invalid::Full));
    assert_eq!(table.writer.apply(sandbox("a").at(2)), Outcome::Applied);
    table.writer.delete(&key("b"), at(1));
    assert_eq!(table.writer.apply(sandbox("c").at(1)), Outcome::Applied);
}

#[test]
fn a_lifetime_beyond_all_time_is_for_ever() {
    let table = table_with(Limits { tombstone_lifetime: Duration::MAX, ..Limits::default() });
    table.pass(1_000_000);
    table.writer.delete(&key("a"), at(1));
    table.pass(1_000_000);
    assert_eq!(table.writer.sweep(), 0);
}

proptest! {
    #[test]
    fn no_text_of_any_kind_makes_it_panic(
        id in ".{0,300}", uid in ".{0,500}", owner in ".{0,300}", token in prop::option::of(".{0,50}"), asked in ".{0,300}",
    ) {
        let table = table();
        let observed = sandbox("a").called(&id).with_uid(&uid).owned_by(&owner);
        let observed = token.iter().fold(observed, |observed, token| observed.with_token(token));
        let outcome = table.writer.apply(observed.at(1));
        prop_assert_eq!(outcome.is_applied(), table.reader.get(&id).is_some());
        prop_assert_eq!(table.reader.get(&asked).is_some(), outcome.is_applied() && asked == id);
    }
}
