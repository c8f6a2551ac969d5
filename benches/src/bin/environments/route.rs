//! The choice of a pool for a claim, with many environments of four members each, asked for in random order.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use foldhash::fast::FixedState;
use sandgate_benches::record::Record;
use sandgate_benches::rng::Rng;
use sandgate_benches::stats::Spread;
use sandgate_cache::{Key, Viewed as _};
use sandgate_envs::EnvRouterSync as _;
use sandgate_envs::router::{EnvRouter, Load, PoolLoad, Route, RouterSettings, Wish};
use sandgate_objects::sandbox_env::resources::SandboxEnv;
use serde_json::{Value, json};

use crate::Common;

const NAMESPACE: &str = "default";
const CLUSTER: &str = "local";
const MEMBERS: usize = 4;
/// How often a round asks.
const ASKS: usize = 200_000;
const EACH: &str = "a choice, ns";

/// What pools have at the moment, as a cache would know it.
struct Loads(HashMap<String, Load, FixedState>);

impl PoolLoad for Loads {
    fn load(&self, _: &str, pool: &str) -> Option<Load> {
        self.0.get(pool).copied()
    }
}

pub(crate) fn run(common: &Common, record: &mut Record) {
    for size in common.sizes(&[10, 1000]) {
        let router = EnvRouter::new(RouterSettings::of(CLUSTER));
        let mut loads = Loads(HashMap::default());
        let names: Vec<String> = (0..size).map(|number| format!("env-{number:05}")).collect();
        for (number, name) in names.iter().enumerate() {
            let env = SandboxEnv::read(env(name, number).to_string().as_bytes()).expect("an environment");
            assert_eq!(env.key, Key::new(NAMESPACE, name));
            router.on_env_upsert(&env);
            for member in 0..MEMBERS {
                let load = Load { idle_ready: (number + member) % 7, queued: member % 2, is_full: false };
                loads.0.insert(pool(name, member), load);
            }
        }
        let now = "2026-11-16T07:00:00Z".parse().expect("a time");
        for round in 0..common.rounds(20) {
            let mut random = Rng::new(round as u64 + 1);
            let began = Instant::now();
            for _ in 0..ASKS {
                let name = &names[random.below(names.len())];
                let wish = Wish { namespace: NAMESPACE, cluster: None, name, scaling_group: None };
                let route = black_box(router.route(black_box(&wish), now, &loads));
                assert!(matches!(route, Route::Here(_)), "{route:?}");
            }
            let each = began.elapsed().as_nanos() as f64 / ASKS as f64;
            record.add(EACH, "router", size as usize, "", round, each);
        }
        let spread = Spread::of(&record.rounds(EACH, "router", size as usize, ""));
        println!("{size} environments: {spread} ns (wanted: at most 1000)");
    }
}

fn pool(env: &str, member: usize) -> String {
    format!("{env}-{member}")
}

fn env(name: &str, number: usize) -> Value {
    let member = |at: usize| {
        json!({
            "name": pool(name, at), "spec": { "replicas": 8 },
            "config": { "scalingGroup": "g", "maxReplicas": 20, "priority": at / 2 },
        })
    };
    let seen = |at: usize| {
        json!({
            "name": pool(name, at), "state": "Active", "idleCount": 3, "runningCount": 5, "desiredReplicas": 8,
            "scalingGroup": "g", "autoscalingEnabled": true, "scaleUpHeadroom": 12,
        })
    };
    json!({
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-{number}"),
            "resourceVersion": (number + 1).to_string(),
        },
        "spec": {
            "templateRef": { "name": "t" },
            "clusters": [{ "clusterID": CLUSTER, "members": (0..MEMBERS).map(member).collect::<Vec<_>>() }],
            "autoscaling": { "groups": [{ "name": "g", "enabled": true, "maxReplicas": 60 }] },
        },
        "status": {
            "clusters": [{ "clusterID": CLUSTER, "isLocal": true,
                           "observedMembers": (0..MEMBERS).map(seen).collect::<Vec<_>>() }],
        },
    })
}
