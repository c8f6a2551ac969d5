use std::collections::BTreeMap;

use super::metadata::decoded;
use crate::ShownState::{Paused, Running};
use crate::api::tests::Api;

fn read(form: &str) -> Vec<(String, String)> {
    let mut map = BTreeMap::new();
    decoded(form, &mut map).expect("a filter");
    map.into_iter().collect()
}

fn pair(key: &str, value: &str) -> Vec<(String, String)> {
    vec![(key.to_owned(), value.to_owned())]
}

#[test]
fn metadata_are_read_as_the_sdk_writes_them_and_as_openkruise_does() {
    // The form, as it is after the query was decoded; the SDK's have one encoding more.
    for (form, key, value) in [
        ("a=b", "a", "b"),
        ("a=b%2520c", "a", "b c"),
        ("a=b+c", "a", "b c"),
        ("a=b%20c", "a", "b c"),
        ("app.kubernetes.io/name=x", "app.kubernetes.io/name", "x"),
        ("a%252Fb=x", "a/b", "x"),
        ("a=100%2525", "a", "100%"),
        ("a=100%25", "a", "100%"),
        ("a=%25E5%258C%2597", "a", "北"),
        ("a=%E5%8C%97", "a", "北"),
        ("a=x%253Dy%2526z", "a", "x=y&z"),
        ("a=x%3Dy%26z", "a", "x=y&z"),
        ("a=1%252B1", "a", "1+1"),
        ("a=1%2B1", "a", "1+1"),
        ("a=", "a", ""),
    ] {
        assert_eq!(read(form), pair(key, value), "{form}");
    }
    assert_eq!(read("a=1&b=2").len(), 2);
    assert_eq!(read(""), []);
}

#[tokio::test]
async fn the_query_of_the_sdk_arrives() {
    let api = Api::new();
    // As recorded from the published Python SDK: metadata={"a": "b c"}, both states.
    let reply = api
        .get("/v2/sandboxes?metadata=a%3Db%252520c&state=running%2Cpaused&startedAfter=2026-11-18T09%3A00%3A00%2B01%3A00")
        .await;
    assert_eq!(reply.status, 200);
    let filter = api.fake.filter();
    assert_eq!(filter.metadata["a"], "b c");
    assert_eq!(filter.states, [Running, Paused]);
    assert_eq!(filter.started_after, Some("2026-11-18T08:00:00Z".parse().unwrap()));
    assert_eq!((filter.limit, filter.descending), (100, false));
}

#[tokio::test]
async fn states_come_in_a_list_or_repeated_and_other_parameters_are_metadata() {
    let api = Api::new();
    api.get("/v2/sandboxes?state=paused&state=running&state=paused&user=ann&teamID=x").await;
    let filter = api.fake.filter();
    assert_eq!(filter.states, [Paused, Running]);
    assert_eq!(filter.metadata.into_iter().collect::<Vec<_>>(), pair("user", "ann"));
}
