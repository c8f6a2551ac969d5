//! Two managers and three gateways.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sandgate_tests::cluster::{Manager, Resource, api_request, new_sandbox};
use sandgate_tests::kubernetes::{Ask, Fault, Wire};
use sandgate_tests::{Client, DEADLINE, Gateway, eventually};
use serde_json::{Value, json};

use super::{HOLLOW, NAMESPACE, Site, everywhere, hollow, id, serves};

/// Claims in all, and how many of them are under way at a time.
const CLAIMS: usize = 1000;
const AT_A_TIME: usize = 8;

/// What went wrong, counted.
#[derive(Debug, Default)]
struct Misses {
    at_a_gateway: AtomicUsize,
    at_the_other_manager: AtomicUsize,
    in_the_list: AtomicUsize,
    after_the_kill: AtomicUsize,
}

fn count(misses: &AtomicUsize, missed: bool) {
    misses.fetch_add(usize::from(missed), Ordering::Relaxed);
}

/// How long after the answer a gateway served the sandbox.
async fn served(gateway: &Gateway, id: &str, port: u16, misses: &Misses) -> Duration {
    let answered = Instant::now();
    if !serves(gateway, id, port).await {
        count(&misses.at_a_gateway, true);
        eventually("the gateway serves it", DEADLINE, async || serves(gateway, id, port).await.then_some(()))
            .await;
    }
    answered.elapsed()
}

/// Claims one at a time, and asks everybody at once as soon as the answer is there. Gives what it has kept,
/// and how long each took from its answer to the last gateway that served it.
async fn claims(
    managers: &[&Manager; 2],
    gateways: &[&Gateway; 3],
    key: &str,
    port: u16,
    numbers: impl Iterator<Item = usize>,
    misses: &Misses,
) -> (Vec<String>, Vec<Duration>) {
    let (mut made, mut times) = (Vec::new(), Vec::new());
    for number in numbers {
        let (here, there) = (managers[number % 2], managers[(number + 1) % 2]);
        let sandbox = here.create(key, HOLLOW, &hollow(&json!({ "number": number.to_string() }))).await;
        let id = id(&sandbox).to_owned();
        let path = format!("/sandboxes/{id}");
        let (took, found) = tokio::join!(
            join_all(gateways.iter().map(|gateway| served(gateway, &id, port, misses))),
            there.ask(key, "GET", &path, None)
        );
        times.extend(took.into_iter().max());
        count(&misses.at_the_other_manager, found.status != 200);
        let listed = here.ask(key, "GET", &format!("/v2/sandboxes?metadata=number%3D{number}"), None).await;
        count(&misses.in_the_list, listed.json()[0]["sandboxID"] != id);
        // Half of them go again, by way of the other manager, so that the pool is refilled under way.
        if number.is_multiple_of(2) {
            let gone = there.ask(key, "DELETE", &path, None).await;
            assert_eq!(gone.status, 204, "{}", gone.text());
            let found = there.ask(key, "GET", &path, None).await;
            count(&misses.after_the_kill, found.status != 404);
        } else {
            made.push(id);
        }
    }
    (made, times)
}

/// Says how long the claims took until they were routable. How long they may take is asserted in `benches`,
/// where nothing runs beside them.
fn tell(mut times: Vec<Duration>, all: Duration) {
    assert_eq!(times.len(), CLAIMS);
    times.sort();
    // The smallest that so many in a hundred do not exceed.
    let at = |percent: usize| times[(CLAIMS * percent).div_ceil(100) - 1];
    println!(
        "{CLAIMS} claims in {all:.1?}, {AT_A_TIME} at a time: from the 201 to the answer of the last of three \
         gateways p50 {:.1?}, p99 {:.1?}, at most {:.1?}",
        at(50),
        at(99),
        at(100)
    );
}

/// One of the gateways hears nothing of its watch, so what it serves it was told by a manager.
#[tokio::test]
async fn a_claimed_sandbox_is_routable_on_every_gateway_and_known_to_every_manager_when_the_answer_arrives() {
    let site = Site::start().await;
    let answers = everywhere().await;
    let port = answers.port();
    let wire = Wire::to(site.cluster.api()).await;
    let (straight, late) = (site.cluster.kubeconfig(), wire.kubeconfig(wire.admin_token()));
    let (first, second, third) =
        tokio::join!(site.gateway(&straight), site.gateway(&straight), site.gateway(&late));
    for asked in [Ask::Watch, Ask::StreamingList] {
        wire.always(asked, Fault::Stall);
    }
    let gateways = [&first, &second, &third];
    let (one, two) = tokio::join!(site.manager(&gateways), site.manager(&gateways));
    let managers = [&one, &two];
    site.template(HOLLOW, "hollow", 40).await;
    let key = site.cluster.api_key("claims").await;

    let (misses, begin) = (Misses::default(), Instant::now());
    let workers = (0..AT_A_TIME)
        .map(|worker| claims(&managers, &gateways, &key, port, (worker..CLAIMS).step_by(AT_A_TIME), &misses));
    let (made, times): (Vec<_>, Vec<_>) = join_all(workers).await.into_iter().unzip();
    tell(times.concat(), begin.elapsed());
    let made = made.concat();
    let Misses { at_a_gateway, at_the_other_manager, in_the_list, after_the_kill } = &misses;
    for (what, missed) in [
        ("a gateway did not serve it when the answer was there", at_a_gateway),
        ("the other manager did not know it", at_the_other_manager),
        ("the manager's own list did not have it", in_the_list),
        ("it was still there after its kill", after_the_kill),
    ] {
        assert_eq!(missed.load(Ordering::Relaxed), 0, "of {CLAIMS} claims: {what}");
    }

    // Nobody got what another got, and nothing else is claimed.
    let distinct: BTreeSet<&str> = made.iter().map(String::as_str).collect();
    assert_eq!(distinct.len(), made.len(), "a sandbox was given twice");
    let claimed = site.claimed_are(made.len()).await;
    assert_eq!(claimed.iter().map(id).collect::<BTreeSet<_>>(), distinct);
}

/// A create that is sent again with the same words and the same key.
async fn create_again(manager: &Manager, key: &str, number: usize) -> Option<(u16, Value)> {
    let body = new_sandbox(HOLLOW, &hollow(&json!({ "number": number.to_string() })));
    let request = api_request(key, "POST", "/v2/sandboxes", Some(&body));
    let reply = manager.send(request.header("idempotency-key", format!("create-{number}"))).await.ok()?;
    Some((reply.status, reply.json()))
}

/// The kill comes after the first answers, so creates are at every step of the way.
#[tokio::test]
async fn creates_that_a_killed_manager_left_are_one_sandbox_each_when_they_are_sent_again_to_another() {
    const CREATES: usize = 60;
    let site = Site::start().await;
    site.template(HOLLOW, "hollow", 20).await;
    let (mut dies, lives) = tokio::join!(site.manager(&[]), site.manager(&[]));
    let key = site.cluster.api_key("retries").await;

    let mut answered: Vec<Option<(u16, Value)>> = Vec::new();
    {
        let address = dies.address();
        let first = (0..CREATES).map(|number| {
            let key = key.clone();
            tokio::spawn(async move {
                let body = new_sandbox(HOLLOW, &hollow(&json!({ "number": number.to_string() })));
                let request = api_request(&key, "POST", "/v2/sandboxes", Some(&body));
                let request = request.header("idempotency-key", format!("create-{number}"));
                let mut client = Client::http1(address).await.ok()?;
                let patience = Duration::from_secs(120);
                let reply = client.send_within(patience, request).await.ok()?;
                Some((reply.status, reply.json()))
            })
        });
        let first: Vec<_> = first.collect();
        // Some have been given away by now, and as many are under way.
        eventually("the first are claimed", 3 * DEADLINE, async || {
            (site.claimed().await.len() >= CREATES / 6).then_some(())
        })
        .await;
        dies.kill();
        for one in first {
            answered.push(one.await.expect("no panic"));
        }
    }
    let before = answered.iter().flatten().filter(|(status, _)| *status == 201).count();
    assert!(before < CREATES, "all were answered before the kill");

    // All of them again, twice and at the same time, also those that were answered.
    let again = |number| create_again(&lives, &key, number);
    let (second, third) =
        tokio::join!(join_all((0..CREATES).map(again)), join_all((0..CREATES).rev().map(again)));
    let mut ids = BTreeSet::new();
    for number in 0..CREATES {
        let came = [&answered[number], &second[number], &third[CREATES - 1 - number]];
        let good: BTreeSet<String> = came
            .into_iter()
            .flatten()
            .filter(|(status, _)| *status == 201)
            .map(|(_, sandbox)| id(sandbox).to_owned())
            .collect();
        assert_eq!(good.len(), 1, "one sandbox for create {number}: {came:?}");
        ids.extend(good);
    }
    assert_eq!(ids.len(), CREATES, "each create has one of its own");
    let claimed = site.claimed_are(CREATES).await;
    assert_eq!(claimed.iter().map(|object| id(object).to_owned()).collect::<BTreeSet<_>>(), ids);

    // Other words under a key that was used are refused.
    let other = new_sandbox(HOLLOW, &hollow(&json!({ "number": "another" })));
    let request = api_request(&key, "POST", "/v2/sandboxes", Some(&other));
    let refused = lives.send(request.header("idempotency-key", "create-0")).await.expect("an answer");
    assert_eq!(refused.status, 409, "{}", refused.text());
    // The set is full again. What was made for creates and never given to one is nobody's, and has an end.
    site.is_warm(HOLLOW, 20).await;
    for object in site.cluster.objects(Resource::Sandbox, NAMESPACE).list().await {
        let labels = &object["metadata"]["labels"];
        let is_claimed = labels["agents.kruise.io/sandbox-claimed"] == "true";
        let is_warm = object["metadata"]["ownerReferences"][0]["kind"] == "SandboxSet";
        let ends = object["spec"]["shutdownTime"].is_string();
        assert!(is_claimed || is_warm || ends, "nobody's, and for ever: {object:#}");
    }
}
