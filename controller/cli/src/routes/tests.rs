use std::future::IntoFuture;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use serde_json::json;

use super::{RouteView, all, auth, describe, digest, displaced, one, table};
use crate::admin::Admin;
use crate::args::Routes;

fn route(id: &str) -> RouteView {
    serde_json::from_value(json!({
        "id": id, "namespace": "default", "name": "demo", "provider": "file", "uid": "u", "owner": "", "state": "running",
        "ip": "10.0.0.1", "version": "1", "identity": 7, "auth": false, "requireTrafficAuth": false
    }))
    .unwrap()
}

#[test]
fn the_table_is_aligned_and_has_no_trailing_space() {
    let mut long = route("a-much-longer-id");
    (long.ip, long.owner, long.auth) = (None, "Zoë".to_owned(), true);
    assert_eq!(
        table(&[route("a"), long]),
        "ID                OBJECT             STATE    IP        OWNER  AUTH   VERSION\n\
         a                 file:default/demo  running  10.0.0.1  -      -      1\n\
         a-much-longer-id  file:default/demo  running  -         Zoë    token  1\n"
    );
}

#[test]
fn an_ambiguous_route_is_not_shown_as_if_it_ran() {
    let mut contested = route("a");
    contested.ambiguous = true;
    assert!(describe(&contested).contains("state     ambiguous\n"));
    let table = table(&[contested]);
    assert!(table.contains("ambiguous") && !table.contains("running"), "{table}");
}

#[test]
fn one_route_is_a_list_of_its_parts() {
    let mut jwt = route("a");
    jwt.require_traffic_auth = true;
    assert_eq!(auth(&jwt), "jwt");
    (jwt.auth, jwt.secure_access) = (true, true);
    assert_eq!(auth(&jwt), "secure,jwt");
    jwt.traffic_token = true;
    assert_eq!(auth(&jwt), "secure,traffic,jwt");
    (jwt.auth, jwt.require_traffic_auth) = (false, false);
    assert_eq!(auth(&jwt), "traffic");
    assert!(describe(&jwt).contains("object    file:default/demo\n"));
}

#[tokio::test]
async fn those_who_have_no_route_for_a_rival_are_asked_for_and_counted() {
    let admin = serve(|query| {
        let body = match query {
            "displaced=1&limit=10000" => json!({ "routes": [route("taken")], "next": null, "total": 1 }),
            _ => json!({ "routes": [route("a")], "next": null, "total": 1, "displaced": 1 }),
        };
        (200, body.to_string())
    })
    .await;
    assert_eq!(displaced(&admin).await.unwrap()[0].id, "taken");
    assert_eq!(all(&admin, &args()).await.unwrap().1, 1);
}

/// An admin page with these answers, by query.
async fn serve(answer: fn(&str) -> (u16, String)) -> Admin {
    let page = get(move |uri: Uri| async move {
        let (status, body) = answer(uri.query().unwrap_or_default());
        (StatusCode::from_u16(status).unwrap(), body)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, Router::new().route("/sandgate/routes", page)).into_future());
    Admin::new(&address.to_string())
}

fn args() -> Routes {
    Routes {
        admin: String::new(),
        state: Some("running".to_owned()),
        namespace: None,
        prefix: Some("a&b".to_owned()),
        id: None,
        digest: false,
        displaced: false,
        json: false,
    }
}

#[tokio::test]
async fn pages_are_followed_to_the_end_with_the_filters() {
    let admin = serve(|query| {
        assert!(query.contains("state=running") && query.contains("prefix=a%26b"), "{query}");
        let (id, next) = if query.contains("after=a") { ("b", None) } else { ("a", Some("a")) };
        (200, json!({ "routes": [route(id)], "next": next, "total": 2 }).to_string())
    })
    .await;
    let (routes, _) = all(&admin, &args()).await.unwrap();
    let ids: Vec<String> = routes.into_iter().map(|route| route.id).collect();
    assert_eq!(ids, ["a", "b"]);
}

#[tokio::test]
async fn a_page_that_does_not_go_on_ends_the_list() {
    let admin =
        serve(|_| (200, json!({ "routes": [route("a")], "next": "a", "total": 1 }).to_string())).await;
    assert_eq!(all(&admin, &args()).await.unwrap().0.len(), 2);
}

#[tokio::test]
async fn an_unknown_id_is_none_and_an_unknown_page_is_an_error() {
    let admin = serve(|query| match query {
        "id=a" => (404, json!({ "error": "no route" }).to_string()),
        "id=b" => (200, json!(route("b")).to_string()),
        "id=c" => (400, json!({ "error": "not an id" }).to_string()),
        _ => (404, "invalid path".to_owned()),
    })
    .await;
    assert!(one(&admin, "a").await.unwrap().is_none());
    assert_eq!(one(&admin, "b").await.unwrap().unwrap().id, "b");
    assert!(one(&admin, "c").await.unwrap_err().to_string().ends_with("answered 400: not an id"));
    assert!(one(&admin, "d").await.unwrap_err().to_string().contains("is this the admin address"));
}

#[tokio::test]
async fn a_gateway_that_is_not_there_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = one(&Admin::new(&address.to_string()), "a").await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot read http://{address}/sandgate/routes?id=a: ")), "{error}");
}

#[tokio::test]
async fn the_digest_is_asked_of_the_status_page_and_a_gateway_without_one_is_named() {
    let page = get(|uri: Uri| async move {
        if uri.query() == Some("digest=1") { r#"{ "ready": true, "digest": "0f" }"# } else { "{}" }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, Router::new().route("/sandgate/status", page)).into_future());
    assert_eq!(digest(&Admin::new(&address.to_string())).await.unwrap(), "0f");

    let old = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = old.local_addr().unwrap();
    let page = get(|| async { "{}" });
    tokio::spawn(axum::serve(old, Router::new().route("/sandgate/status", page)).into_future());
    let failure = digest(&Admin::new(&address.to_string())).await.unwrap_err().to_string();
    assert!(failure.contains("/sandgate/status answered 200: no digest"), "{failure}");
}

#[tokio::test]
async fn a_page_that_is_still_being_made_is_asked_for_by_its_job_until_it_is_there() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let admin = serve(|query| {
        let asked = ASKED.fetch_add(1, Ordering::Relaxed);
        match (asked, query) {
            // Others are before us; then ours is begun, not done yet, and done.
            (0, _) => (503, json!({ "error": "other pages are being made: ask again" }).to_string()),
            (1, query) if query.contains("state=running") => (202, json!({ "job": 7 }).to_string()),
            (2, "job=7") => (202, json!({ "job": 7 }).to_string()),
            (3, "job=7") => (200, json!({ "routes": [route("a")], "next": null, "total": 1 }).to_string()),
            other => panic!("{other:?}"),
        }
    })
    .await;
    assert_eq!(all(&admin, &args()).await.unwrap().0.len(), 1);
    assert_eq!(ASKED.load(Ordering::Relaxed), 4);
}
