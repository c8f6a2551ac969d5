use jiff::Timestamp;
use sandgate_cache::testing::{TestCache, claimed, paused, set};
use sandgate_objects::openkruise::resources::{SandboxFacts, SandboxSet};
use serde_json::json;

use super::{Place, list, page};
use crate::{Caller, ErrorKind, Filter, ShownState};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Walks all pages.
fn walk(items: &[(i64, &str)], descending: bool, limit: usize) -> Vec<Vec<String>> {
    let (mut pages, mut next) = (Vec::new(), None);
    loop {
        let placed = items.iter().map(|(second, id)| (Place { at: at(*second), id: (*id).to_owned() }, *id));
        let found = page(placed.collect(), descending, limit, next.as_deref()).unwrap();
        pages.push(found.items.into_iter().map(str::to_owned).collect());
        next = found.next;
        if next.is_none() {
            return pages;
        }
    }
}

#[test]
fn pages_are_in_the_order_of_time_and_then_of_the_id() {
    let items = [(3, "c"), (1, "b"), (1, "a"), (2, "d")];
    assert_eq!(walk(&items, false, 3), [vec!["a", "b", "d"], vec!["c"]]);
    assert_eq!(walk(&items, true, 3), [vec!["c", "d", "b"], vec!["a"]]);
    assert_eq!(walk(&items, false, 4), [vec!["a", "b", "d", "c"]]);
    assert_eq!(walk(&[], false, 4), [Vec::<String>::new()]);
    assert_eq!(walk(&items, false, 0).len(), 4);
}

#[test]
fn a_page_goes_on_after_an_item_that_is_gone() {
    let place = Place { at: at(2), id: "gone".to_owned() };
    assert_eq!(Place::parse(&place.token()), Ok(place.clone()));
    assert!(!place.token().contains('='));
    let items =
        vec![(Place { at: at(1), id: "a".to_owned() }, "a"), (Place { at: at(3), id: "b".to_owned() }, "b")];
    assert_eq!(page(items, false, 10, Some(&place.token())).unwrap().items, ["b"]);
    for wrong in ["", "?", "bm8ganNvbg", "e30"] {
        let error = page::<()>(Vec::new(), false, 10, Some(wrong)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{wrong}");
        assert!(error.message.starts_with("nextToken: "));
    }
}

#[test]
fn a_list_has_what_fits_the_filter_and_is_the_callers() {
    let test = TestCache::new();
    let mut pool = set("pool", 1);
    pool["spec"]["template"] = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
    test.show::<SandboxSet>(&pool);
    for (name, owner, template, claimed_at) in [
        ("one", "ada", "base", "2025-12-31T23:00:00Z"),
        ("two", "ada", "other", "2025-12-31T23:30:00Z"),
        ("three", "eve", "base", "2025-12-31T23:00:00Z"),
    ] {
        let mut sandbox = claimed(name, owner, name);
        sandbox["metadata"]["labels"]["agents.kruise.io/sandbox-template"] = template.into();
        sandbox["metadata"]["annotations"]["agents.kruise.io/claim-timestamp"] = claimed_at.into();
        sandbox["metadata"]["annotations"]["user"] = name.into();
        sandbox["metadata"]["labels"]["agents.kruise.io/sandbox-pool"] = "pool".into();
        sandbox["metadata"]["labels"]["app"] = "web".into();
        test.show::<SandboxFacts>(&if name == "two" { paused(sandbox) } else { sandbox });
    }
    let caller =
        Caller { owner: "ada".into(), team: "t".into(), namespace: Some("default".into()), quota: [].into() };
    let found = |filter: Filter| {
        let filter = Filter { limit: 10, ..filter };
        let page = list(&test, None, Some("default"), &caller, &filter, test.now()).unwrap();
        page.items.into_iter().map(|item| item.id).collect::<Vec<_>>()
    };
    assert_eq!(found(Filter::default()), ["one", "two"]);
    assert_eq!(found(Filter { descending: true, ..Filter::default() }), ["two", "one"]);
    assert_eq!(found(Filter { states: vec![ShownState::Paused], ..Filter::default() }), ["two"]);
    assert_eq!(found(Filter { template: Some("base".to_owned()), ..Filter::default() }), ["one"]);
    let metadata = [("user".to_owned(), "two".to_owned())].into();
    assert_eq!(found(Filter { metadata, ..Filter::default() }), ["two"]);
    // All three have it from their set, and nobody said it.
    let metadata = [("app".to_owned(), "web".to_owned())].into();
    assert!(found(Filter { metadata, ..Filter::default() }).is_empty());
    let after = Some("2025-12-31T23:10:00Z".parse().unwrap());
    assert_eq!(found(Filter { started_after: after, ..Filter::default() }), ["two"]);
    assert!(
        list(&test, None, Some("elsewhere"), &caller, &Filter::default(), test.now())
            .unwrap()
            .items
            .is_empty()
    );
}
