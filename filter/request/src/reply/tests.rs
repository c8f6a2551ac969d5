use sandgate_routes::State;
use serde_json::{Value, json};

use super::{Escaped, Media, Reply, preferred_media, reply};
use crate::{
    ACCESS_TOKEN, Address, Dialect, FilterConfig, Form, Part, Recognition, Refusal, SECURE_ACCESS, Trouble,
    recognise,
};

const STATES: [State; 5] = [State::Creating, State::Available, State::Running, State::Paused, State::Dead];

fn address(name: &str, value: &str) -> Address {
    match recognise([(name, value)].as_slice(), &FilterConfig::default()) {
        Recognition::Addressed(address) => address,
        other => panic!("{name}: {value} is {other:?}"),
    }
}

fn in_dialect(dialect: Dialect) -> Address {
    match dialect {
        Dialect::Kruise => address("e2b-sandbox-id", "demo"),
        Dialect::AgentSandbox => address("x-sandbox-id", "demo"),
        Dialect::OpenSandbox => address("opensandbox-ingress-to", "demo-80"),
        Dialect::SandboxEnv => address(":path", "/sandboxes/demo/80/"),
    }
}

fn every_refusal() -> Vec<Refusal> {
    let mut all = vec![
        Refusal::NotReady,
        Refusal::Unknown,
        Refusal::Ambiguous,
        Refusal::Unauthorized { header: ACCESS_TOKEN },
        Refusal::JwtVerifierNotReady,
        Refusal::Conflicting { taken: Form::KruisePath, other: Form::KruiseHost },
        Refusal::TwoReadings,
        Refusal::Method,
        Refusal::PortNotAllowed,
        Refusal::RequestTooLarge { limit: 1 << 40 },
        Refusal::HeadersTooLarge { limit: 8192 },
        Refusal::Unaddressed,
        Refusal::RateLimited { seconds: 7 },
        Refusal::Panic,
        Refusal::Forbidden,
        Refusal::TrafficToken,
        Refusal::SignatureExpired,
        Refusal::RouteKeysMissing,
        Refusal::TooManyFailures { seconds: 7 },
        Refusal::CallerUnknown,
        Refusal::CallerForbidden,
        Refusal::ReviewFailed,
        Refusal::AuthBusy,
        Refusal::TokenRequired,
        Refusal::OtherPodIp,
    ];
    all.extend(STATES.map(Refusal::NotRunning));
    all.extend(Trouble::ALL.map(Refusal::Upstream));
    for form in Form::ALL {
        all.extend(Part::ALL.map(|part| Refusal::Malformed { form, part }));
    }
    all
}

fn json_of(reply: &Reply) -> Value {
    serde_json::from_str(&reply.body).expect("a JSON reply is JSON")
}

fn header<'r>(reply: &'r Reply, name: &str) -> Option<&'r str> {
    reply.headers().find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[test]
fn statuses_and_details_follow_the_dialect() {
    let refusals = [
        (Refusal::NotReady, "gateway_not_ready", [503, 503, 503, 503]),
        (Refusal::Unknown, "sandbox_not_found", [502, 502, 404, 404]),
        (Refusal::Ambiguous, "sandbox_ambiguous", [502, 502, 502, 502]),
        (Refusal::NotRunning(State::Paused), "sandbox_not_running", [502, 502, 503, 502]),
        (Refusal::NotRunning(State::Creating), "sandbox_not_running", [502, 502, 503, 502]),
        (Refusal::NotRunning(State::Available), "sandbox_not_running", [502, 502, 503, 502]),
        (Refusal::NotRunning(State::Dead), "sandbox_not_running", [502, 502, 404, 404]),
        (Refusal::Unauthorized { header: ACCESS_TOKEN }, "unauthorized", [401, 401, 401, 401]),
        (Refusal::TwoReadings, "ambiguous_address", [400, 400, 400, 400]),
        (Refusal::Method, "method_not_allowed", [405, 405, 405, 405]),
        (Refusal::PortNotAllowed, "port_not_allowed", [403, 403, 403, 403]),
        (Refusal::RequestTooLarge { limit: 1 }, "request_too_large", [413, 413, 413, 413]),
        (Refusal::HeadersTooLarge { limit: 1 }, "headers_too_large", [431, 431, 431, 431]),
        (Refusal::JwtVerifierNotReady, "jwt_verifier_not_ready", [503, 503, 503, 503]),
        (Refusal::Forbidden, "forbidden", [403, 403, 403, 403]),
        (Refusal::TrafficToken, "traffic_token_invalid", [403, 403, 403, 403]),
        (Refusal::SignatureExpired, "signature_expired", [401, 401, 401, 401]),
        (Refusal::RouteKeysMissing, "route_keys_missing", [503, 503, 503, 503]),
        (Refusal::TooManyFailures { seconds: 7 }, "too_many_failures", [429, 429, 429, 429]),
        (Refusal::CallerUnknown, "caller_unauthorized", [401, 401, 401, 401]),
        (Refusal::CallerForbidden, "caller_forbidden", [403, 403, 403, 403]),
        (Refusal::ReviewFailed, "token_review_failed", [503, 503, 503, 503]),
        (Refusal::AuthBusy, "auth_busy", [503, 503, 503, 503]),
        (Refusal::TokenRequired, "token_required", [403, 403, 403, 403]),
        (Refusal::OtherPodIp, "pod_ip_mismatch", [502, 502, 502, 502]),
        (Refusal::Panic, "sandgate_panic", [500, 500, 500, 500]),
    ];
    for (refusal, details, statuses) in refusals {
        for (dialect, status) in Dialect::ALL.into_iter().zip(statuses) {
            let reply = reply(refusal, Some(&in_dialect(dialect)), Media::Json);
            assert_eq!((reply.status, reply.details), (status, details), "{refusal:?} in {dialect:?}");
            assert_eq!(json_of(&reply)["code"], json!(status));
            assert_eq!(json_of(&reply)["reason"], json!(details));
        }
    }
    let unaddressed = reply(Refusal::Unaddressed, None, Media::Json);
    assert_eq!((unaddressed.status, unaddressed.details), (404, "not_addressed"));
    for form in Form::ALL {
        for part in Part::ALL {
            let reply = reply(Refusal::Malformed { form, part }, None, Media::Json);
            assert_eq!((reply.status, reply.details), (400, part.details()));
            let kind = if part == Part::Repeated { "duplicate" } else { "malformed" };
            assert_eq!(part.details(), format!("{kind}_{}", part.as_str()));
        }
    }
}

/// Known and not served is 502, so a client need not come back soon.
#[test]
fn a_sandbox_of_a_pool_that_does_not_run_is_not_waited_for() {
    let address = in_dialect(Dialect::SandboxEnv);
    for state in [State::Creating, State::Unknown] {
        let reply = reply(Refusal::NotRunning(state), Some(&address), Media::Json);
        assert_eq!((reply.status, header(&reply, "retry-after")), (502, None), "{state}");
    }
}

#[test]
fn a_client_over_the_rate_is_told_when_to_come_again() {
    for (seconds, word) in [(1, "in a second."), (90, "in 90 seconds.")] {
        let refusal = Refusal::RateLimited { seconds };
        for dialect in Dialect::ALL {
            let reply = reply(refusal, Some(&in_dialect(dialect)), Media::Json);
            assert_eq!((reply.status, reply.details), (429, "sandbox_rate_limited"));
            assert_eq!(header(&reply, "retry-after"), Some(seconds.to_string().as_str()));
            assert!(reply.body.contains(word), "{}", reply.body);
        }
        assert_eq!(header(&reply(refusal, None, Media::Grpc), "grpc-status"), Some("8"));
    }
}

#[test]
fn two_readings_are_told_of_what_has_them() {
    let told = |address: &Address| {
        json_of(&reply(Refusal::TwoReadings, Some(address), Media::Json))["message"].clone()
    };
    let header = [("x-sandbox-id", "demo"), ("x-sandbox-port", "80")];
    let Recognition::Addressed(header) = recognise(header.as_slice(), &FilterConfig::default()) else {
        panic!("it is an address");
    };
    assert!(told(&header).as_str().is_some_and(|message| message.starts_with("X-Sandbox-ID can be read")));
    let host = address(":authority", "80-web-3000.example.com");
    assert!(told(&host).as_str().is_some_and(|message| message.starts_with("The host can be read")));
}

#[test]
fn a_json_reply_has_exactly_these_keys() {
    let address = address("e2b-sandbox-id", "demo");
    let paused = reply(Refusal::NotRunning(State::Paused), Some(&address), Media::Json);
    assert_eq!(
        json_of(&paused),
        json!({
            "code": 502,
            "reason": "sandbox_not_running",
            "sandbox": "demo",
            "sandboxId": "demo",
            "port": 49983,
            "state": "paused",
            "message": "The sandbox was not found among those that run: it is paused. Resume it, then try again.",
        })
    );
    let unaddressed = json_of(&reply(Refusal::Unaddressed, None, Media::Json));
    assert_eq!((&unaddressed["sandbox"], &unaddressed["state"]), (&Value::Null, &Value::Null));
    for refusal in every_refusal() {
        let body = json_of(&reply(refusal, None, Media::Json));
        let mut keys: Vec<_> = body.as_object().expect("a reply is an object").keys().collect();
        keys.sort();
        assert_eq!(keys, ["code", "message", "port", "reason", "sandbox", "sandboxId", "state"]);
        assert!(body["message"].as_str().is_some_and(|message| message.ends_with('.')), "{body}");
    }
}

#[test]
fn a_malformed_reply_says_how_the_request_was_read_what_is_wrong_and_what_is_expected() {
    let body = reply(Refusal::Malformed { form: Form::KruisePath, part: Part::Port }, None, Media::Json).body;
    for part in ["kruise-path", "/kruise/{id}/{port}/{rest}", "no valid port", "from 1 to 65535"] {
        assert!(body.contains(part), "{part:?} is not in {body}");
    }
}

#[test]
fn a_missing_token_is_asked_for_in_the_header_that_was_looked_at() {
    let ask = |header| reply(Refusal::Unauthorized { header }, None, Media::Json).body;
    assert!(ask(ACCESS_TOKEN).contains("x-access-token"));
    assert!(ask(SECURE_ACCESS).contains("opensandbox-secure-access"));
}

#[test]
fn e2bs_sdk_finds_its_words_where_they_are_true_and_nowhere_else() {
    let address = address("e2b-sandbox-id", "demo");
    for refusal in every_refusal() {
        let body = json_of(&reply(refusal, Some(&address), Media::Json));
        let says = |words: &str| body["message"].as_str().is_some_and(|message| message.contains(words));
        let gone = matches!(
            refusal,
            Refusal::Unknown | Refusal::NotRunning(State::Paused) | Refusal::NotRunning(State::Dead)
        );
        assert_eq!(says("was not found"), gone, "{body}");
        assert_eq!(says("port is not open"), refusal == Refusal::Upstream(Trouble::PortClosed), "{body}");
        assert_eq!((&body["sandboxId"], &body["port"]), (&json!("demo"), &json!(49983)));
    }
}

#[test]
fn a_405_says_which_methods_there_are_and_a_conflict_which_forms() {
    let refused = reply(Refusal::Method, None, Media::Json);
    assert!(header(&refused, "allow").is_some_and(|allow| !allow.contains("CONNECT")));
    let conflict = Refusal::Conflicting { taken: Form::KruisePath, other: Form::KruiseHost };
    let refused = reply(conflict, None, Media::Json);
    assert_eq!((refused.status, refused.details), (400, "conflicting_address"));
    for part in ["kruise-path", "kruise-host", "{port}-{id}.{domain}"] {
        assert!(refused.body.contains(part), "{part:?} is not in {}", refused.body);
    }
}

#[test]
fn headers_forbid_caching_and_say_when_to_retry() {
    let not_ready = reply(Refusal::NotReady, None, Media::Json);
    assert_eq!(header(&not_ready, "retry-after"), Some("1"));
    assert_eq!(header(&not_ready, "content-type"), Some("application/json"));
    let creating =
        |dialect| reply(Refusal::NotRunning(State::Creating), Some(&in_dialect(dialect)), Media::Html);
    assert_eq!(header(&creating(Dialect::OpenSandbox), "retry-after"), Some("1"));
    assert_eq!(header(&creating(Dialect::Kruise), "retry-after"), None);
    let limited = reply(Refusal::TooManyFailures { seconds: 7 }, None, Media::Json);
    assert_eq!(header(&limited, "retry-after"), Some("7"));
    let unknown = reply(Refusal::CallerUnknown, None, Media::Json);
    assert_eq!(header(&unknown, "www-authenticate"), Some("Bearer"));
    assert_eq!(header(&limited, "www-authenticate"), None);
    for refusal in every_refusal() {
        for media in [Media::Json, Media::Html] {
            let reply = reply(refusal, None, media);
            assert_eq!(header(&reply, "cache-control"), Some("no-store"));
            assert_eq!(header(&reply, "x-content-type-options"), Some("nosniff"));
            assert_eq!(header(&reply, "content-type"), Some(reply.content_type));
            assert_eq!(header(&reply, "content-security-policy").is_some(), media == Media::Html);
        }
    }
}

#[test]
fn a_page_is_whole_loads_nothing_and_tells_what_the_json_tells() {
    let address = address("e2b-sandbox-id", "demo");
    for refusal in every_refusal() {
        let page = reply(refusal, Some(&address), Media::Html);
        let sent = json_of(&reply(refusal, Some(&address), Media::Json));
        assert_eq!(page.content_type, "text/html; charset=utf-8");
        assert_eq!(
            (page.status, page.details),
            (u32::from(refusal.status(Some(page_dialect(refusal)))), refusal.details())
        );
        assert!(page.body.starts_with("<!doctype html>") && page.body.ends_with("</html>\n"));
        for key in ["reason", "sandbox", "message"] {
            let text = sent[key].as_str().expect("the key is a text");
            assert!(
                page.body.contains(&Escaped(text).to_string()),
                "{key} of {refusal:?} is not on the page"
            );
        }
        for loader in ["<script", "<img", "<link", "src=", "href=", "url(", "@import", "http:", "https:"] {
            assert!(!page.body.contains(loader), "{loader} on the page of {refusal:?}");
        }
        assert!(page.body.contains("prefers-color-scheme:dark") && page.body.contains("width=device-width"));
    }
}

fn page_dialect(refusal: Refusal) -> Dialect {
    match refusal {
        Refusal::Malformed { form, .. } => form.dialect(),
        _ => Dialect::Kruise,
    }
}

#[test]
fn text_on_a_page_is_escaped() {
    assert_eq!(
        Escaped("<b a=\"1\" b='2'>&amp;é</b>").to_string(),
        "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;amp;é&lt;/b&gt;"
    );
}

#[test]
fn a_page_is_for_browsers_that_navigate() {
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let html: [&[(&str, &str)]; 6] = [
        &[(":method", "GET"), ("sec-fetch-mode", "navigate")],
        &[(":method", "HEAD"), ("sec-fetch-mode", "Navigate"), ("accept", "*/*")],
        &[(":method", "GET"), ("accept", browser)],
        &[(":method", "GET"), ("accept", "text/html")],
        &[(":method", "GET"), ("accept", " Text/HTML ; q=1, */*")],
        &[(":method", "GET"), ("accept", "text/html;charset=utf-8")],
    ];
    for headers in html {
        assert_eq!(preferred_media(headers), Media::Html, "{headers:?}");
    }
    let json: [&[(&str, &str)]; 12] = [
        &[],
        &[(":method", "GET")],
        &[("sec-fetch-mode", "navigate")],
        &[(":method", "POST"), ("sec-fetch-mode", "navigate"), ("accept", browser)],
        &[(":method", "GET"), ("sec-fetch-mode", "cors"), ("accept", browser)],
        &[(":method", "GET"), ("sec-fetch-mode", "websocket")],
        &[(":method", "GET"), ("sec-fetch-dest", "empty"), ("accept", browser)],
        &[(":method", "GET"), ("sec-fetch-site", "same-origin"), ("accept", browser)],
        &[(":method", "GET"), ("accept", "*/*")],
        &[(":method", "GET"), ("accept", "application/json, text/html")],
        &[(":method", "GET"), ("accept", "text/html5")],
        &[(":method", "GET"), ("accept", "")],
    ];
    for headers in json {
        assert_eq!(preferred_media(headers), Media::Json, "{headers:?}");
    }
}

#[test]
fn a_grpc_client_gets_a_status_and_the_message() {
    for (refusal, status) in [
        (Refusal::Malformed { form: Form::KruiseHost, part: Part::Port }, "3"),
        (Refusal::Unknown, "5"),
        (Refusal::Ambiguous, "9"),
        (Refusal::Unaddressed, "12"),
        (Refusal::Panic, "13"),
        (Refusal::NotReady, "14"),
        (Refusal::NotRunning(State::Paused), "14"),
        (Refusal::JwtVerifierNotReady, "14"),
        (Refusal::Unauthorized { header: ACCESS_TOKEN }, "16"),
        (Refusal::TwoReadings, "3"),
        (Refusal::PortNotAllowed, "7"),
        (Refusal::RequestTooLarge { limit: 1 }, "8"),
        (Refusal::HeadersTooLarge { limit: 1 }, "8"),
        (Refusal::Method, "12"),
    ] {
        let grpc = reply(refusal, None, Media::Grpc);
        assert_eq!(header(&grpc, "grpc-status"), Some(status), "{refusal:?}");
        let json = reply(refusal, None, Media::Json);
        assert_eq!(json_of(&json)["message"], *grpc.body, "{refusal:?}");
        assert_eq!(header(&json, "grpc-status"), None, "{refusal:?}");
    }
}

#[test]
fn a_grpc_client_is_told_by_the_content_type_as_envoy_tells_it() {
    let media = |content_type: &'static str| {
        let headers: &[(&str, &str)] = &[(":method", "POST"), ("content-type", content_type)];
        preferred_media(headers)
    };
    for grpc in ["application/grpc", "application/grpc+proto"] {
        assert_eq!(media(grpc), Media::Grpc, "{grpc}");
    }
    for other in
        ["application/grpc-web", "application/grpcx", "application/json", "", "text/application/grpc"]
    {
        assert_eq!(media(other), Media::Json, "{other}");
    }
}

#[test]
fn a_sandbox_out_of_reach_is_told_from_a_sandbox_that_is_busy() {
    for (trouble, status, details, retry) in [
        (Trouble::Gone, 503, "sandbox_gone", None),
        (Trouble::PortClosed, 502, "sandbox_port_closed", None),
        (Trouble::ConnectTimeout, 504, "sandbox_connect_timeout", None),
        (Trouble::ConnectFailed, 502, "sandbox_connect_failed", None),
        (Trouble::TooManyPorts, 429, "sandbox_too_many_ports", Some("1")),
        (Trouble::TooManyRequests, 429, "sandbox_too_many_requests", Some("1")),
        (Trouble::TooManyConnections, 429, "sandbox_too_many_connections", Some("1")),
        (Trouble::ClientTooManyRequests, 429, "client_too_many_requests", Some("1")),
        (Trouble::ClientTooManyConnections, 429, "client_too_many_connections", Some("1")),
        (Trouble::ClientTooManyPorts, 429, "client_too_many_ports", Some("1")),
        (Trouble::TooManyHosts, 503, "gateway_too_many_hosts", Some("1")),
        (Trouble::TooManyHeld, 503, "gateway_too_many_held", Some("1")),
        (Trouble::ResponseTimeout, 504, "sandbox_response_timeout", None),
        (Trouble::NotAddedInTime, 503, "sandbox_wait_timeout", Some("1")),
        (Trouble::NoCluster, 500, "no_sandbox_cluster", None),
    ] {
        for dialect in Dialect::ALL {
            let reply = reply(Refusal::Upstream(trouble), Some(&in_dialect(dialect)), Media::Json);
            assert_eq!((reply.status, reply.details), (status, details));
            assert_eq!(header(&reply, "retry-after"), retry, "{details}");
        }
    }
    let closed =
        reply(Refusal::Upstream(Trouble::PortClosed), Some(&in_dialect(Dialect::OpenSandbox)), Media::Json);
    let message = json_of(&closed)["message"].clone();
    assert!(message.as_str().is_some_and(|message| message.contains("port 80.")), "{message}");
}
