use std::collections::BTreeSet;

use super::{BadQuery, PAGE, Query};

fn parse(text: &str) -> Result<Query, BadQuery> {
    Query::parse(text, &BTreeSet::from(["file".to_owned(), "sandbox-env".to_owned()]))
}

#[test]
fn a_query_names_a_provider_and_may_narrow_it() {
    let whole = parse("provider=sandbox-env").unwrap();
    let expected = Query { provider: "sandbox-env".to_owned(), since: 0, after: String::new(), limit: PAGE };
    assert_eq!(whole, expected);
    let part = parse("limit=2&after=a%2Fb+c&provider=file&since=1700000000&later=key").unwrap();
    let expected =
        Query { provider: "file".to_owned(), since: 1_700_000_000, after: "a/b c".to_owned(), limit: 2 };
    assert_eq!(part, expected);
}

#[test]
fn a_query_that_is_wrong_is_told_what_is() {
    for (text, words) in [
        ("", "provider is missing: expected one of file, sandbox-env"),
        ("provider=openkruise", "no such provider: expected one of file, sandbox-env"),
        ("provider=", "no such provider"),
        ("provider=file&provider=file", "provider is given twice"),
        ("provider=file&since=-1", "since: expected seconds"),
        ("provider=file&since=", "since: expected seconds"),
        ("provider=file&limit=0", "limit: expected a number from 1 to 5000"),
        ("provider=file&limit=5001", "limit: expected"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text} gave {error}");
    }
}
