//! Pages for people.

use sandgate_routes::{Filter, MAX_PAGE, Page, State};

use crate::fixture::{Bench, sandbox, table};

fn fleet() -> Bench {
    let table = table();
    for name in ["c", "a", "e", "b", "d"] {
        table.writer.apply(sandbox(name).at(1));
    }
    table.writer.apply(sandbox("a").in_namespace("other").paused().at(1));
    table.writer.apply(sandbox("a").of("file").called("z").at(1));
    table
}

fn ids(page: &Page) -> Vec<&str> {
    page.routes.iter().map(|route| route.id()).collect()
}

#[test]
fn pages_are_in_order_and_lead_to_each_other() {
    let table = fleet();
    let all = ["other--a", "team--a", "team--b", "team--c", "team--d", "team--e", "z"];
    for limit in 1..=8 {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = table.reader.page(&Filter::default(), after.as_deref(), limit);
            assert!(page.routes.len() <= limit);
            seen.extend(ids(&page).into_iter().map(str::to_owned));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, all, "by {limit}");
    }
}

#[test]
fn a_last_page_that_is_just_full_has_no_next() {
    let page = fleet().reader.page(&Filter::default(), None, 7);
    assert_eq!((page.routes.len(), page.next), (7, None));
}

#[test]
fn filters_narrow_a_page() {
    let table = fleet();
    let page = |filter: Filter| table.reader.page(&filter, None, 100);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(ids(&page(Filter { state: Some(State::Paused), ..Filter::default() })), ["other--a"]);
    assert_eq!(ids(&page(Filter { namespace: some("other"), ..Filter::default() })), ["other--a"]);
    assert_eq!(ids(&page(Filter { provider: some("file"), ..Filter::default() })), ["z"]);
    assert_eq!(page(Filter { prefix: some("team--"), ..Filter::default() }).routes.len(), 5);
    assert!(
        page(Filter { prefix: some("team--"), state: Some(State::Dead), ..Filter::default() })
            .routes
            .is_empty()
    );
}

#[test]
#[cfg_attr(miri, ignore = "thousands of objects: minutes under Miri")]
fn a_page_is_bounded_whatever_is_asked_for() {
    let table = table();
    for number in 0..MAX_PAGE + 5 {
        table.writer.apply(sandbox(&format!("x{number}")).at(1));
    }
    assert_eq!(table.reader.page(&Filter::default(), None, usize::MAX).routes.len(), MAX_PAGE);
    assert_eq!(table.reader.page(&Filter::default(), None, 0).routes.len(), 1);
}
