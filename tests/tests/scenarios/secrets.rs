//! A token is seen nowhere: not in replies, logs, stats, dumps or admin pages, not even when its file is bad.

use sandgate_tests::{Gateway, Request, SECRET, replace_by_rename, route, routes};
use serde_json::json;

use crate::support::{ask, sandbox};

#[tokio::test]
async fn no_token_is_in_any_reply_log_stat_or_admin_page() {
    let up = sandbox("up").await;
    let gateway = Gateway::builder()
        .routes(&routes([
            route("guarded").token(SECRET).owner("alice").ip(up.ip()),
            route("asleep").token(SECRET).state("paused").ip(up.ip()),
            route("jwt").token(SECRET).set("require-traffic-auth", true).ip(up.ip()),
        ]))
        .filter(json!({ "enable-auth": true }))
        .start()
        .await;
    let mut seen = Vec::new();
    for name in ["guarded", "asleep", "jwt", "unknown"] {
        for accept in ["application/json", "text/html"] {
            for token in ["wrong", SECRET] {
                let request =
                    ask(&format!("default--{name}")).header("accept", accept).header("x-access-token", token);
                let reply = gateway.send(request).await;
                if reply.status != 200 {
                    seen.push((
                        format!("the reply for {name}"),
                        format!("{:?} {}", reply.headers, reply.text()),
                    ));
                }
            }
        }
    }
    // Files that are bad at the very place of the token.
    let bad = [
        format!("routes:\n  - name: guarded\n    access-token: [{SECRET}]\n"),
        format!("routes:\n  - name: guarded\n    access-tokens: {SECRET}\n"),
        format!("routes:\n  - name: guarded\n    require-traffic-auth: {SECRET}\n"),
        // Not bad as a whole: the sandbox beside it is still served.
        format!(
            "routes:\n  - name: guarded\n    access-token: {SECRET}\n    ip: {}\n  - name: odd\n    state: {SECRET}\n",
            up.ip()
        ),
        format!("routes:\n  - name: guarded\n    access-token: \"{SECRET}\n"),
        format!("routes:\n  - name: guarded\n    access-token: {SECRET}\n   ip: x\n"),
        format!("{{\"routes\": [{{\"name\": \"guarded\", \"access-token\": \"{SECRET}\", }}]}}"),
        format!(
            "routes:\n  - name: guarded\n    access-token: \"{SECRET}\\u0000\"\n    ip: 127.0.0.1\n    state: x\n"
        ),
    ];
    let count = bad.len() as u64;
    for (failed, text) in (1_u64..).zip(bad) {
        replace_by_rename(&gateway.routes_file(), &text);
        gateway
            .until("the bad file is noticed", async || {
                let log = gateway.log();
                let errors = log
                    .lines()
                    // A state that is none takes its route out of service and is warned of; the others are
                    // errors.
                    .filter(|line| line.contains("[error]") || line.contains("[warning]"))
                    .filter(|line| line.contains("routes file"))
                    .count();
                (errors as u64 >= failed).then_some(())
            })
            .await;
        seen.push((format!("the status after {text}"), gateway.status().await.to_string()));
    }
    assert!(count > 0);
    for page in [
        "/sandgate/routes",
        "/sandgate/routes?id=default--guarded",
        "/sandgate/routes?id=default--nobody",
        "/sandgate/routes?state=nonsense",
        "/sandgate/status",
        "/stats",
        "/stats/prometheus",
        "/config_dump",
        "/clusters",
        "/server_info",
    ] {
        seen.push((page.to_owned(), gateway.admin(page).await.text().to_owned()));
    }
    let post = gateway.admin_send(Request::post("/sandgate/routes")).await;
    seen.push(("a POST to the admin page".to_owned(), post.text().to_owned()));
    seen.push(("the log".to_owned(), gateway.log()));
    seen.push(("the access log".to_owned(), gateway.access_log()));
    for (place, text) in seen {
        // A part of it would be a find as well.
        for secret in [SECRET, &SECRET[..12], &SECRET[SECRET.len() - 12..]] {
            assert!(!text.contains(secret), "the token is in {place}:\n{text}");
        }
    }
    // The token that was good all along still is.
    let reply = gateway.send(ask("default--guarded").header("x-access-token", SECRET)).await;
    assert_eq!(reply.sandbox(), "up");
}
