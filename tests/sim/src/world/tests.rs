//! The world, with a small program in it: it gives each ConfigMap with the label `parent` one child.

use std::collections::BTreeSet;
use std::convert::Infallible;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Happened, Listing, Process, Start, Weather, World};
use crate::model::object::{label, text};
use crate::model::{CONFIG_MAPS, Change, Model, Selector};
use crate::network::Scope;
use crate::{Random, Trace};

/// With a name of its choice the program can find out whether the child was made. Without one it cannot.
struct Program<const NAMED: bool> {
    api: Api<ConfigMap>,
    without_child: BTreeSet<String>,
    with_child: BTreeSet<String>,
    busy: BTreeSet<String>,
    tasks: JoinSet<(String, bool)>,
    leads: bool,
}

impl<const NAMED: bool> Program<NAMED> {
    fn see(&mut self, object: &Value) {
        let name = text(object, "/metadata/name").to_owned();
        match label(object, "child-of") {
            "" if !self.with_child.contains(&name) => {
                self.without_child.insert(name);
            }
            "" => {}
            parent => {
                self.without_child.remove(parent);
                self.with_child.insert(parent.to_owned());
            }
        }
    }
}

impl<const NAMED: bool> Process for Program<NAMED> {
    fn watches() -> Vec<Scope> {
        vec![Scope { kind: &CONFIG_MAPS, namespace: None, selector: Selector::default() }]
    }

    fn start(start: Start) -> Self {
        Self {
            api: Api::namespaced(start.client, "ns"),
            without_child: BTreeSet::new(),
            with_child: BTreeSet::new(),
            busy: BTreeSet::new(),
            tasks: JoinSet::new(),
            leads: false,
        }
    }

    fn listed(&mut self, _: &Scope, what: Listing<'_>) {
        if let Listing::Object(object) = what {
            self.see(object);
        }
    }

    fn observed(&mut self, _: &Scope, _: Change, object: &Value) {
        self.see(object);
    }

    fn work(&mut self) -> Option<String> {
        let parent = self.without_child.iter().find(|parent| !self.busy.contains(*parent))?.clone();
        if !self.leads {
            return None;
        }
        self.busy.insert(parent.clone());
        let mut child = json!({ "metadata": { "labels": { "child-of": parent } } });
        let field = if NAMED { "name" } else { "generateName" };
        child["metadata"][field] = json!(format!("{parent}-child"));
        let (api, of) = (self.api.clone(), parent.clone());
        self.tasks.spawn(async move {
            let child = serde_json::from_value(child).expect("a ConfigMap");
            let made = api.create(&PostParams::default(), &child).await;
            let exists = matches!(&made, Err(kube::Error::Api(status)) if status.is_already_exists());
            (of, made.is_ok() || exists)
        });
        Some(parent)
    }

    fn ended(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(ended) = self.tasks.try_join_next() {
            let (parent, made) = ended.expect("no panic");
            self.busy.remove(&parent);
            if made {
                self.without_child.remove(&parent);
                self.with_child.insert(parent.clone());
            }
            lines.push(format!("{parent}: {made}"));
        }
        lines
    }

    fn next_due(&self) -> Option<Instant> {
        None
    }

    fn lead(&mut self, leads: bool) {
        self.leads = leads;
    }
}

fn children(model: &Model) -> Vec<usize> {
    let of =
        |parent: &str| model.list(&CONFIG_MAPS).filter(|object| label(object, "child-of") == parent).count();
    ["a", "b", "c"].map(of).to_vec()
}

/// The trace of a run, and how many children each of three parents has at its end.
fn run<const NAMED: bool>(seed: u64, steps: u64) -> (Trace, Vec<usize>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().expect("a runtime").block_on(async {
        let weather = Weather::of(&mut Random::new(seed));
        let mut world: World<Program<NAMED>> = World::new(seed, 2, weather);
        for name in ["a", "b", "c"] {
            let parent = json!({ "metadata": { "name": name } });
            world.model.create(&CONFIG_MAPS, "ns", parent).expect("a parent");
        }
        for _ in 0..steps {
            world.step().await;
        }
        let rest = world.come_to_rest(2000, |_, _: &Happened| Ok::<(), Infallible>(())).await;
        assert_eq!(rest, Ok(true), "it comes to rest");
        (world.trace, children(&world.model))
    })
}

#[test]
fn one_seed_is_one_trace_and_two_seeds_are_two() {
    let (first, _) = run::<true>(7, 300);
    assert_eq!(first, run::<true>(7, 300).0);
    assert_ne!(first, run::<true>(8, 300).0);
}

#[test]
fn a_program_that_chooses_its_names_makes_one_child_each_whatever_happens() {
    for seed in 0..100 {
        let (trace, children) = run::<true>(seed, 100);
        assert_eq!(children, [1, 1, 1], "seed {seed}\n{}", trace.tail(100));
    }
}

#[test]
fn a_program_that_does_not_is_found_out() {
    let doubled = (0..100).filter(|seed| run::<false>(*seed, 100).1 != [1, 1, 1]).count();
    assert!(doubled > 3, "{doubled} of 100 seeds");
}

/// Everything that may go wrong does, in some run: a fault that never happens tests nothing.
#[test]
fn every_kind_of_fault_happens() {
    let traces: Vec<Trace> = (0..60).map(|seed| run::<true>(seed, 200).0).collect();
    for fault in [
        "loses the request",
        "loses the answer",
        "is refused",
        "is not there for the answer",
        "dies",
        "begins to lead",
        "ceases to lead",
        "loses its watch",
        "is forgotten",
        "ms pass",
        "-> 201",
        "-> 409",
    ] {
        let seen = traces.iter().any(|trace| trace.lines().iter().any(|line| line.contains(fault)));
        assert!(seen, "{fault:?} never happened");
    }
}
