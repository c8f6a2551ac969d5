//! A watch and peers tell of the same objects, through the real API server and real HTTP: one table, one
//! order.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use sandgate_tests::kubernetes::{ApiServer, Ask, Fault, Object, Wire, kruise};
use sandgate_tests::{Client, DEADLINE, Gateway, Sandbox, eventually, refresh_request};
use serde_json::{Value, json};

use crate::support::{Seeded, ask, assert_refused, assert_turned_away, sandbox};

/// A gateway that watches the OpenKruise sandboxes of a namespace, and is pushed to.
async fn gateway(kubeconfig: &Path, namespace: &str) -> Gateway {
    let providers = json!([{ "kind": "openkruise", "namespaces": [namespace] }]);
    Gateway::builder()
        // A push ahead of a watch that is held back here must not be undone meanwhile, however slow the
        // machine is.
        .refresh(json!({ "insecure": true, "confirmation-seconds": 3600 }))
        .setting("kubernetes", json!({ "kubeconfig": kubeconfig, "providers": providers }))
        .start()
        .await
}

fn kubeconfig(wire: &Wire) -> PathBuf {
    wire.kubeconfig(wire.admin_token())
}

fn id(object: &Object) -> String {
    format!("{}--{}", object.namespace(), object.name())
}

/// What a manager pushes of an object in the state it has just brought it to.
async fn message(object: &Object, state: &str, at: &Sandbox) -> Value {
    json!({
        "ip": at.ip().to_string(), "id": id(object), "namespace": object.namespace(), "name": object.name(),
        "uid": object.uid(), "owner": "", "state": state, "resourceVersion": object.version().await,
    })
}

async fn pushed(gateway: &Gateway, message: &Value) {
    let reply = gateway.push(message).await;
    assert_eq!(reply.status, 204, "{message}: {}", reply.text());
}

/// Waits until the gateway serves the sandbox.
async fn serves(gateway: &Gateway, id: &str, name: &str) {
    eventually(&format!("{id} is served"), DEADLINE, async || {
        let reply = gateway.send(ask(id)).await;
        (reply.status == 200 && reply.sandbox() == name).then_some(())
    })
    .await;
}

/// How many lists of the cluster are in the table, while the watch goes on from the last one.
async fn lists(gateway: &Gateway) -> Option<u64> {
    let scope = &gateway.status().await["sources"][1]["scopes"][0];
    if scope["state"] == "watching" { scope["lists"].as_u64() } else { None }
}

#[tokio::test]
async fn the_same_paused_push_makes_byte_equal_tables_also_where_the_watch_is_late() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("equal").await;
    let demo = sandbox("demo").await;
    let object = kruise(&api, &namespace, "demo").running(demo.ip()).create().await;
    let (prompt, late) = (Wire::to(&api).await, Wire::to(&api).await);
    let planes =
        [gateway(&kubeconfig(&prompt), &namespace).await, gateway(&kubeconfig(&late), &namespace).await];
    for plane in &planes {
        serves(plane, &id(&object), "demo").await;
    }
    for asked in [Ask::Watch, Ask::StreamingList] {
        late.always(asked, Fault::Stall);
    }
    object.pause().await;
    let paused = message(&object, "paused", &demo).await;
    for plane in &planes {
        pushed(plane, &paused).await;
        assert_refused(plane, &plane.send(ask(&id(&object))).await, 502, "sandbox_not_running").await;
    }
    assert_eq!(planes[0].table_dump().await, planes[1].table_dump().await);
    assert_eq!(planes[0].digest().await, planes[1].digest().await);
    // And they still are when the watch has caught up.
    late.clear();
    object.resume(demo.ip()).await;
    for plane in &planes {
        serves(plane, &id(&object), "demo").await;
    }
    assert_eq!(planes[0].table_dump().await, planes[1].table_dump().await);
}

#[tokio::test]
async fn a_dead_push_holds_while_the_watch_still_says_running() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("dead").await;
    let demo = sandbox("demo").await;
    let object = kruise(&api, &namespace, "demo").running(demo.ip()).create().await;
    let wire = Wire::to(&api).await;
    let gateway = gateway(&kubeconfig(&wire), &namespace).await;
    serves(&gateway, &id(&object), "demo").await;
    pushed(&gateway, &message(&object, "dead", &demo).await).await;
    // The API server says running, in every list and every watch.
    for _ in 0..3 {
        let before = lists(&gateway).await.expect("the gateway follows the cluster");
        wire.once(Ask::Watch, Fault::ErrorEvent(410));
        wire.cut_running();
        eventually("the gateway has listed and watches again", DEADLINE, async || {
            let reply = gateway.send(ask(&id(&object))).await;
            assert_refused(&gateway, &reply, 502, "sandbox_not_found").await;
            lists(&gateway).await.filter(|now| *now > before)
        })
        .await;
    }
    assert_eq!(gateway.status().await["routes"]["total"], json!(0));
    // Late pushes of its life bring it back as little.
    let mut running = message(&object, "running", &demo).await;
    pushed(&gateway, &running).await;
    running["resourceVersion"] = json!("1");
    pushed(&gateway, &running).await;
    assert_refused(&gateway, &gateway.send(ask(&id(&object))).await, 502, "sandbox_not_found").await;
    // What is newer does, as it must: the order is the version's.
    object.patch(json!({ "metadata": { "annotations": { "touched": "yes" } } })).await;
    serves(&gateway, &id(&object), "demo").await;
}

#[tokio::test]
async fn a_late_push_does_not_revive_a_sandbox_that_died_before_the_gateway_started() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("restart").await;
    let (demo, other) = (sandbox("demo").await, sandbox("other").await);
    let object = kruise(&api, &namespace, "demo").running(demo.ip()).create().await;
    let late = message(&object, "running", &demo).await;
    object.delete().await;
    let alive = kruise(&api, &namespace, "other").running(other.ip()).create().await;
    let gateway = gateway(&api.admin_kubeconfig(), &namespace).await;
    serves(&gateway, &id(&alive), "other").await;
    pushed(&gateway, &late).await;
    assert_refused(&gateway, &gateway.send(ask(&id(&object))).await, 502, "sandbox_not_found").await;
    assert_eq!(demo.requests(), 0);
}

#[tokio::test]
async fn a_pushed_huge_version_does_not_keep_a_sandbox_alive_that_the_api_server_has_deleted() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("huge").await;
    let demo = sandbox("demo").await;
    let object = kruise(&api, &namespace, "demo").running(demo.ip()).create().await;
    let gateway = gateway(&api.admin_kubeconfig(), &namespace).await;
    serves(&gateway, &id(&object), "demo").await;
    let mut huge = message(&object, "running", &demo).await;
    huge["resourceVersion"] = json!("9".repeat(1_024));
    assert_eq!(gateway.push(&huge).await.status, 400, "more than 64 bits");
    huge["resourceVersion"] = json!(u64::MAX.to_string());
    pushed(&gateway, &huge).await;
    object.delete().await;
    eventually("it is gone", DEADLINE, async || {
        (gateway.send(ask(&id(&object))).await.status == 502).then_some(())
    })
    .await;
    let again = kruise(&api, &namespace, "demo").running(demo.ip()).create().await;
    serves(&gateway, &id(&again), "demo").await;
}

#[tokio::test]
async fn an_address_no_sandbox_may_have_is_not_routed_to_when_the_watch_tells_it() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("ranges").await;
    let demo = sandbox("demo").await;
    let object = kruise(&api, &namespace, "demo").running(demo.ip()).create().await;
    let gateway = gateway(&api.admin_kubeconfig(), &namespace).await;
    serves(&gateway, &id(&object), "demo").await;
    object.resume("169.254.169.254").await;
    let reply = eventually("the sandbox is not served", DEADLINE, async || {
        let reply = gateway.send(ask(&id(&object))).await;
        (reply.status != 200).then_some(reply)
    })
    .await;
    assert_refused(&gateway, &reply, 502, "sandbox_not_running").await;
    let page = gateway.admin(&format!("/sandgate/routes?id={}", id(&object))).await.json();
    assert_eq!((&page["ip"], &page["state"]), (&Value::Null, &json!("creating")));
    gateway.logged(&["warn", "demo", "pod-ranges"]).await;
    object.resume(demo.ip()).await;
    serves(&gateway, &id(&object), "demo").await;
}

/// A gateway under churn: what it has still to be told, and the lives it knows to be over.
struct Plane {
    gateway: Gateway,
    wire: Wire,
    late: Mutex<Vec<(Value, bool)>>,
    over: Mutex<BTreeSet<String>>,
}

impl Plane {
    async fn start(api: &ApiServer, namespace: &str) -> Self {
        let wire = Wire::to(api).await;
        let gateway = gateway(&kubeconfig(&wire), namespace).await;
        Self { gateway, wire, late: Mutex::default(), over: Mutex::default() }
    }

    /// Tells some of what waits, in any order and some of it twice; all of it with `rest`.
    async fn tell(&self, random: &Mutex<Seeded>, rest: bool) {
        let mut client = Client::http1(self.gateway.refresh_address().await).await.expect("connect");
        loop {
            let told = {
                let mut late = self.late.lock().expect("no holder panics");
                let mut random = random.lock().expect("no holder panics");
                if late.is_empty() || (!rest && late.len() < 3 + random.next(6)) {
                    return;
                }
                let at = random.next(late.len());
                if random.next(4) == 0 { late[at].clone() } else { late.swap_remove(at) }
            };
            let (message, ends) = told;
            let reply = client.send(refresh_request(&message)).await.expect("an answer of the receiver");
            assert_eq!(reply.status, 204, "{message}: {}", reply.text());
            if ends {
                let uid = message["uid"].as_str().expect("a UID").to_owned();
                self.over.lock().expect("no holder panics").insert(uid);
            }
        }
    }

    /// Asks until told to stop; nothing may be served from a life that was known to be over when it was
    /// asked.
    async fn ask_on(&self, ids: &[String], stop: &AtomicBool) -> usize {
        let mut client = self.gateway.client().await;
        let mut served = 0;
        for id in ids.iter().cycle() {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let over = self.over.lock().expect("no holder panics").clone();
            let reply = client.send(ask(id)).await.expect("an answer of the gateway");
            if reply.status == 200 {
                served += 1;
                let uid = reply.seen("x-sandbox-uid").concat();
                assert!(!over.contains(&uid), "{id} was served from {uid}, which is dead");
            } else {
                assert_turned_away(&reply);
            }
        }
        served
    }
}

/// Lives of one name after the other, told to the API server and to be pushed to every plane.
async fn live(
    api: &ApiServer,
    namespace: &str,
    name: &str,
    sandboxes: &[Sandbox],
    planes: &[Plane],
    random: &Mutex<Seeded>,
) {
    let say = |message: Value, ends: bool| {
        for plane in planes {
            plane.late.lock().expect("no holder panics").push((message.clone(), ends));
        }
    };
    for round in 0..4 {
        let at = |random: &Mutex<Seeded>| {
            &sandboxes[random.lock().expect("no holder panics").next(sandboxes.len())]
        };
        let first = at(random);
        let object = kruise(api, namespace, name).running(first.ip()).create().await;
        say(message(&object, "running", first).await, false);
        object.pause().await;
        say(message(&object, "paused", first).await, false);
        let second = at(random);
        object.resume(second.ip()).await;
        say(message(&object, "running", second).await, false);
        for plane in planes {
            plane.tell(random, false).await;
            if random.lock().expect("no holder panics").next(3) == 0 {
                plane.wire.cut_running();
            }
        }
        // The last one of each name stays.
        if round < 3 {
            let dead = message(&object, "dead", second).await;
            object.delete().await;
            say(dead, true);
        }
    }
}

#[tokio::test]
async fn three_gateways_that_hear_everything_late_twice_and_out_of_order_agree_in_the_end_and_never_serve_the_dead()
 {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("churn").await;
    let sandboxes = [sandbox("north").await, sandbox("south").await, sandbox("east").await];
    let planes = [
        Plane::start(&api, &namespace).await,
        Plane::start(&api, &namespace).await,
        Plane::start(&api, &namespace).await,
    ];
    let random = Mutex::new(Seeded(0x0005_eed3));
    let names = ["a", "b", "c"];
    let ids = names.map(|name| format!("{namespace}--{name}"));
    let stop = AtomicBool::new(false);
    let lives = async {
        let run = |name: &'static str| live(&api, &namespace, name, &sandboxes, &planes, &random);
        tokio::join!(run(names[0]), run(names[1]), run(names[2]));
        for plane in &planes {
            plane.tell(&random, true).await;
        }
        stop.store(true, Ordering::SeqCst);
    };
    let ask_on = |at: usize| planes[at].ask_on(&ids, &stop);
    let ((), one, two, three) = tokio::join!(lives, ask_on(0), ask_on(1), ask_on(2));
    assert!(one > 0 && two > 0 && three > 0, "nothing was ever served: {one}, {two}, {three}");
    eventually("the tables are equal and have the last lives", DEADLINE, async || {
        let first = planes[0].gateway.table_dump().await;
        let rest = [planes[1].gateway.table_dump().await, planes[2].gateway.table_dump().await];
        let routes: Value = serde_json::from_str(&first).expect("a dump is JSON");
        let running =
            routes.as_array().expect("a list").iter().filter(|route| route["state"] == "running").count();
        (rest[0] == first && rest[1] == first && running == names.len()).then_some(())
    })
    .await;
}
