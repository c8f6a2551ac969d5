use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sandgate_objects::sandbox_env::names;
use serde_json::json;

use super::world::{World, run};
use crate::env_pool::{Activity, EnvPoolMetrics, GatewayActivity, IdleRelease, Unreachable};
use crate::{Clock as _, Random};

/// Gateways that say what they are told to.
#[derive(Default)]
struct Gateways(Mutex<Option<Vec<GatewayActivity>>>);

impl Activity for Gateways {
    fn last_active(&self, _: Timestamp) -> BoxFuture<'_, Result<Vec<GatewayActivity>, Unreachable>> {
        let answer = self.0.lock().clone().ok_or_else(|| Unreachable("down".to_owned()));
        ready(answer).boxed()
    }
}

fn gateway(complete: Timestamp, sandboxes: &[(&str, Timestamp, bool)]) -> GatewayActivity {
    let sandboxes: BTreeMap<_, _> =
        sandboxes.iter().map(|(id, at, is_open)| ((*id).to_owned(), (*at, *is_open))).collect();
    GatewayActivity { complete_since: complete, sandboxes }
}

/// A sandbox with an idle timeout of a minute, which has just begun to run.
async fn sandbox() -> (World, String) {
    let mut world = World::ready(1).await;
    world.edit_pool(|pool| pool["spec"]["defaultIdleTimeout"] = json!("60s"));
    let name = world.claim_any().unwrap();
    world.nodes();
    world.look().await.unwrap();
    assert_eq!(world.phases()[&name], "running");
    world.asked();
    (world, name)
}

/// One round over what the view has.
async fn round(world: &mut World, gateways: Option<&Arc<Gateways>>) {
    let activity = gateways.map(|gateways| Arc::clone(gateways) as Arc<dyn Activity>);
    let (view, writes) = (world.process.view.clone(), world.process.writes.clone());
    let clock = world.clock.clone();
    let metrics = EnvPoolMetrics::default();
    IdleRelease::new(view, writes, clock, Random::seeded(1), activity, metrics).round().await;
    world.show();
}

#[test]
fn without_gateways_what_stands_in_the_pod_counts() {
    run(async {
        let (mut world, name) = sandbox().await;
        world.pass(60);
        round(&mut world, None).await;
        assert_eq!(world.phases()[&name], "running");
        world.pass(1);
        round(&mut world, None).await;
        assert_eq!(world.phases()[&name], "stopping");
        let pod = world.pod(&name).unwrap();
        let says = |key: &str| pod["metadata"]["annotations"][key].clone();
        assert_eq!(says(names::ANNOTATION_STOP_REASON), "Released");
        assert_eq!(says(names::ANNOTATION_FAILURE_REASON), "IdleTimeout");
        world.settle().await;
        assert_eq!(world.phases()[&name], "idle");
    });
}

#[test]
fn nobody_is_released_while_a_gateway_does_not_answer() {
    run(async {
        let (mut world, name) = sandbox().await;
        let gateways = Arc::<Gateways>::default();
        world.pass(1000);
        for known in [None, Some(Vec::new())] {
            *gateways.0.lock() = known;
            round(&mut world, Some(&gateways)).await;
            assert_eq!(world.phases()[&name], "running");
        }
        let long_ago = world.clock.now() - SignedDuration::from_secs(500);
        *gateways.0.lock() = Some(vec![gateway(long_ago, &[])]);
        round(&mut world, Some(&gateways)).await;
        assert_eq!(world.phases()[&name], "stopping");
    });
}

#[test]
fn what_any_gateway_has_seen_keeps_a_sandbox() {
    run(async {
        for keeps in 0..3 {
            let (mut world, name) = sandbox().await;
            world.pass(1000);
            let now = world.clock.now();
            let ago = |seconds: i64| now - SignedDuration::from_secs(seconds);
            let id = world.pod(&name).unwrap()["metadata"]["labels"][names::SANDBOX_ID]
                .as_str()
                .unwrap()
                .to_owned();
            let of =
                |complete: i64, at: i64, is_open: bool| gateway(ago(complete), &[(&id, ago(at), is_open)]);
            let silent = of(900, 800, false);
            let other = [of(900, 59, false), of(900, 800, true), of(59, 800, false)][keeps].clone();
            let gateways = Arc::new(Gateways(Mutex::new(Some(vec![silent.clone(), other]))));
            round(&mut world, Some(&gateways)).await;
            assert_eq!(world.phases()[&name], "running", "case {keeps}");
            *gateways.0.lock() = Some(vec![silent]);
            world.pass(61);
            round(&mut world, Some(&gateways)).await;
            assert_eq!(world.phases()[&name], "stopping", "case {keeps}");
        }
    });
}

#[test]
fn a_use_is_written_once_a_minute_at_most() {
    run(async {
        let (mut world, name) = sandbox().await;
        let gateways = Arc::<Gateways>::default();
        let long_ago = world.clock.now();
        let id =
            world.pod(&name).unwrap()["metadata"]["labels"][names::SANDBOX_ID].as_str().unwrap().to_owned();
        let mut written = 0;
        for _ in 0..30 {
            world.pass(10);
            let used = world.clock.now();
            *gateways.0.lock() = Some(vec![gateway(long_ago, &[(&id, used, false)])]);
            round(&mut world, Some(&gateways)).await;
            written += world.asked().len();
        }
        assert_eq!((written, world.phases()[&name].as_str()), (5, "running"));
    });
}

#[test]
fn zero_and_nothing_are_never() {
    run(async {
        for own in [Some("0"), None] {
            let (mut world, name) = sandbox().await;
            if own.is_none() {
                world.edit_pool(|pool| {
                    pool["spec"].as_object_mut().unwrap().remove("defaultIdleTimeout");
                });
            }
            world.edit_pod(&name, |pod| {
                let annotations = pod["metadata"]["annotations"].as_object_mut().unwrap();
                annotations.remove(names::ANNOTATION_IDLE_TIMEOUT);
                if let Some(own) = own {
                    annotations.insert(names::ANNOTATION_IDLE_TIMEOUT.to_owned(), json!(own));
                }
            });
            world.pass(1_000_000);
            round(&mut world, None).await;
            assert_eq!(world.phases()[&name], "running");
        }
    });
}

#[test]
fn a_use_that_is_written_meanwhile_wins() {
    run(async {
        let (mut world, name) = sandbox().await;
        world.pass(61);
        let (pod, now) = (name.clone(), world.clock.now().to_string());
        world.meddle("PATCH pods", move |model| {
            super::world::edit(model, &super::world::pod_place(&pod), |pod| {
                pod["metadata"]["annotations"][names::ANNOTATION_LAST_ACTIVE] = json!(now);
            });
        });
        round(&mut world, None).await;
        assert_eq!(world.phases()[&name], "running");
    });
}
