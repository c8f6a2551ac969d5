//! What the port says about the activity of sandboxes.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sandgate_routes::RouteReader;
use serde_json::{Value, json};
use tempfile::tempdir;

use super::fixture::{KEY, Plane, key_file, message};
use crate::hmac::unix_now;
use crate::{Active, Activity, Observed, Uncounted};

/// Says what it is told to.
pub(crate) struct Counted {
    observed: Mutex<Result<Observed, Uncounted>>,
    ids: Mutex<HashMap<u64, Arc<str>>>,
}

impl Activity for Counted {
    fn observe(&self) -> Result<Observed, Uncounted> {
        self.observed.lock().clone()
    }

    fn id_of(&self, identity: u64) -> Option<Arc<str>> {
        self.ids.lock().get(&identity).cloned()
    }
}

impl Counted {
    /// One that began at 1000 and has forgotten what was before 1500. Now is 2000.
    pub(crate) fn new() -> Arc<Self> {
        let observed = Observed { start: 1000, complete: 1500, now: 2000, sandboxes: Vec::new() };
        Arc::new(Self { observed: Mutex::new(Ok(observed)), ids: Mutex::default() })
    }

    pub(crate) fn tell(&self, change: impl FnOnce(&mut Observed)) {
        change(self.observed.lock().as_mut().unwrap());
    }

    pub(crate) fn fail(&self) {
        *self.observed.lock() = Err(Uncounted);
    }

    /// The sandbox of this ID was used.
    pub(crate) fn used(&self, table: &RouteReader, id: &str, last: u64, open: u32) {
        let identity = table.get(id).expect("a route").identity();
        self.tell(|observed| observed.sandboxes.push(Active { identity, last, open }));
        self.ids.lock().insert(identity, id.into());
    }
}

/// A message of `team/{name}`, with its name as its ID.
pub(crate) fn named(name: &str) -> Value {
    let mut message = message("running", "5");
    (message["name"], message["id"], message["uid"]) = (json!(name), json!(name), json!(format!("u-{name}")));
    message
}

/// A receiver that knows these sandboxes of openkruise, used at 1700, 1701 and so on.
async fn with(names: &[&str]) -> (Plane, Arc<Counted>) {
    let counted = Counted::new();
    let plane = Plane::reporting(json!({ "insecure": true }), counted.clone()).await;
    for (name, last) in names.iter().zip(1700..) {
        assert_eq!(plane.push(&named(name)).await.status, 204);
        counted.used(&plane.reader, name, last, 0);
    }
    (plane, counted)
}

async fn ask(plane: &Plane, query: &str) -> Vec<Value> {
    let answer = plane.send("GET", &format!("/activity?{query}"), "", None).await;
    assert_eq!(
        (answer.status, &answer.headers["content-type"]),
        (200, &"application/x-ndjson".parse().unwrap())
    );
    answer.lines()
}

fn ids(lines: &[Value]) -> Vec<&str> {
    lines[1..].iter().map(|line| line["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_first_line_says_what_the_others_are_worth_and_they_say_who_was_used() {
    let (plane, counted) = with(&["b", "a"]).await;
    plane.push(&named("c")).await;
    counted.used(&plane.reader, "c", 2000, 3);
    plane.push(&named("never")).await;
    let line = |id: &str, last: u64, open: u32| {
        json!({
            "id": id, "uid": format!("u-{id}"), "namespace": "team", "name": id, "lastActive": last, "open": open,
        })
    };
    let expected = [
        json!({ "start": 1000, "complete": 1500, "now": 2000 }),
        line("a", 1701, 0),
        line("b", 1700, 0),
        line("c", 2000, 3),
    ];
    assert_eq!(ask(&plane, "provider=openkruise").await, expected);
    assert_eq!(ids(&ask(&plane, "provider=openkruise&since=1701").await), ["a", "c"]);
    assert_eq!(ask(&plane, "provider=file").await, expected[..1], "another provider's are not told");
    assert_eq!(plane.status().reports, 3);
}

#[tokio::test]
async fn the_dead_are_not_told_and_a_new_sandbox_of_the_same_name_is_another() {
    let (plane, _counted) = with(&["a", "b"]).await;
    let mut next = named("a");
    (next["uid"], next["resourceVersion"]) = (json!("u-next"), json!("6"));
    plane.push(&next).await;
    let mut dead = named("b");
    (dead["state"], dead["resourceVersion"]) = (json!("dead"), json!("6"));
    assert_eq!(ids(&ask(&plane, "provider=openkruise").await), ["b"]);
    plane.push(&dead).await;
    assert_eq!(ids(&ask(&plane, "provider=openkruise").await), [""; 0]);
}

#[tokio::test]
async fn pages_end_and_have_every_sandbox_once() {
    let names: Vec<String> = (0..25).map(|number| format!("s{:02}", number * 7 % 25)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (plane, _counted) = with(&names).await;
    let mut sorted = names.clone();
    sorted.sort_unstable();
    for limit in [1, 4, 5, 24, 25, 26] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let query = format!("provider=openkruise&limit={limit}&after={after}");
            let page = ask(&plane, &query).await;
            assert!(page.len() <= limit + 1);
            seen.extend(ids(&page).into_iter().map(ToOwned::to_owned));
            match page[0]["next"].as_str() {
                Some(next) => next.clone_into(&mut after),
                None => break,
            }
        }
        assert_eq!(seen, sorted, "by {limit}");
    }
}

#[tokio::test]
async fn an_answer_is_bounded_however_many_were_used() {
    let counted = Counted::new();
    let plane = Plane::reporting(json!({ "insecure": true }), counted.clone()).await;
    let names: Vec<String> = (0..7_000).map(|number| format!("s{number:04}")).collect();
    for some in names.chunks(5_000) {
        let lines: Vec<String> = some.iter().map(|name| named(name).to_string()).collect();
        assert_eq!(plane.post("/refresh/batch", lines.join("\n"), None).await.status, 200);
    }
    for name in &names {
        counted.used(&plane.reader, name, 1700, 0);
    }
    let page = ask(&plane, "provider=openkruise").await;
    assert_eq!((page.len(), &page[0]["next"]), (5_001, &json!("s4999")));
}

#[tokio::test]
async fn a_question_that_is_wrong_gets_400_and_says_why() {
    let (plane, _counted) = with(&[]).await;
    for (path, words) in [
        ("/activity", "provider is missing"),
        ("/activity?provider=sandbox-env", "no such provider: expected one of file, openkruise"),
        ("/activity?provider=file&limit=many", "limit"),
    ] {
        let answer = plane.send("GET", path, "", None).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.body.contains(words), "{path} gave {}", answer.body);
    }
    assert_eq!(plane.post("/activity?provider=file", "", None).await.status, 405);
    assert_eq!(plane.send("GET", "/activity?provider=file", "x", None).await.status, 413);
    assert_eq!(plane.status().reports, 0);
}

#[tokio::test]
async fn a_gateway_that_does_not_count_every_request_says_nothing_about_any() {
    let (plane, counted) = with(&["a"]).await;
    counted.fail();
    let answer = plane.send("GET", "/activity?provider=openkruise", "", None).await;
    assert_eq!(answer.status, 501);
    assert!(answer.body.contains("ORIGINAL_DST"), "{}", answer.body);
    // Nor does one that counts none.
    let silent = Plane::open().await;
    assert_eq!(silent.send("GET", "/activity?provider=openkruise", "", None).await.status, 501);
}

#[tokio::test]
async fn strangers_are_not_told_and_who_has_the_key_is() {
    let folder = tempdir().unwrap();
    let (key, file) = key_file(&folder, "main", KEY);
    let counted = Counted::new();
    let hmac = json!({ "hmac": { "keys": [{ "id": "main", "file": file }] } });
    let plane = Plane::reporting(hmac, counted).await;
    let path = "/activity?provider=openkruise";
    let sign = |method: &str, path: &str| key.sign(method, path, b"", unix_now()).unwrap();
    let wrong = ["Bearer abc".to_owned(), sign("POST", path), sign("GET", "/activity?provider=file")];
    for authorization in wrong.iter().map(|text| Some(text.as_str())).chain([None]) {
        let answer = plane.send("GET", path, "", authorization).await;
        assert_eq!((answer.status, answer.body.as_str()), (401, ""), "{authorization:?}");
    }
    assert_eq!(plane.status().unauthorized, 4);
    let signed = sign("GET", path);
    assert_eq!(plane.send("GET", path, "", Some(&signed)).await.status, 200);
    assert_eq!(plane.send("GET", path, "", Some(&signed)).await.status, 401, "a nonce is good once");
}
