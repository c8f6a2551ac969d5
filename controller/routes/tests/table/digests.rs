//! A table in one line.

use sandgate_routes::{Limits, Observation, RouteTable, Secret, State};

use crate::fixture::{Sandbox, at, key, sandbox, table};

fn digest(observed: impl IntoIterator<Item = Observation>) -> String {
    let (writer, reader) = RouteTable::new(Limits::default());
    for observed in observed {
        assert!(writer.apply(observed).is_applied());
    }
    reader.digest()
}

// Computed apart from this code. They may change only with the kind that is hashed.
#[test]
fn the_digest_is_these_numbers_in_every_build() {
    assert_eq!(digest([]), "60b5a686893541d08acf06c6e2350b031d1a6d16772b0c5a073cb86bdb2f9c0e");
    let token = "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b";
    let routes = [
        sandbox("a").with_token(token).at(7),
        sandbox("b").with_ip(Some("2001:db8::1".parse().unwrap())).paused().at(u64::MAX),
        sandbox("c").with_ip(None).owned_by("").at(1),
    ];
    assert_eq!(digest(routes), "fee29b3fe043889f17df30dbdf2373c172425b47529e50a1ab011443574cebaf");
}

#[test]
fn what_brought_a_table_to_where_it_is_does_not_enter() {
    let expected = digest([sandbox("a").at(2), sandbox("b").at(3)]);
    let table = table();
    table.writer.apply(sandbox("b").with_uid("earlier").at(1));
    table.writer.apply(sandbox("gone").at(9));
    table.writer.delete(&key("b"), at(2));
    table.writer.apply(sandbox("b").at(3));
    table.writer.apply(sandbox("a").paused().at(1));
    assert_ne!(table.reader.digest(), expected);
    table.writer.apply(sandbox("a").at(2));
    table.writer.delete(&key("gone"), at(9));
    assert_eq!(table.reader.digest(), expected, "{:?}", table.reader.counts());
}

#[test]
fn whatever_a_reader_can_see_makes_another_digest() {
    let one = || sandbox("a").with_token("s3cret");
    let verified = || {
        let mut one = one();
        one.0.require_traffic_auth = true;
        one
    };
    let closed = || {
        let mut one = one();
        one.0.token = Some(Secret::secure_access("s3cret"));
        one
    };
    let kinds: [Sandbox; 14] = [
        one(),
        one().of("other"),
        one().in_namespace("other").called("team--a"),
        one().called("x"),
        one().with_uid("other"),
        one().owned_by("bob"),
        one().being(State::Available),
        one().with_ip(Some("10.0.0.2".parse().unwrap())),
        one().with_token("S3cret"),
        verified(),
        closed(),
        one().with_traffic_token("tr4ffic"),
        one().with_traffic_token("other"),
        sandbox("a").with_traffic_token("s3cret"),
    ];
    let mut digests: Vec<_> = kinds.map(|kind| digest([kind.at(1)])).into();
    digests.push(digest([one().at(2)]));
    digests.push(digest([sandbox("a").at(1)]));
    digests.push(digest([one().refusing().at(1), sandbox("b").called("team--a").at(1)]));
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
    assert_eq!(digest([one().refusing().at(1)]), digest([one().at(1)]), "what nobody sees does not");
}

#[test]
fn an_ambiguous_id_has_one_digest_in_any_order() {
    let claims = || ["a", "b", "c"].map(|name| sandbox(name).called("x").refusing().at(1));
    let backwards = digest(claims().into_iter().rev());
    assert_eq!(digest(claims()), backwards);
}
