//! Addresses that tenants write: who is routed to. (Sandgate issue 13, B8.)

use std::net::IpAddr;

use proptest::prelude::*;
use sandgate_routes::{Observation, Scope, State};

use crate::fixture::{Bench, Sandbox, at, key, sandbox, table};

const POD: [u8; 4] = [10, 0, 0, 7];

fn at_pod(name: &str) -> Sandbox {
    sandbox(name).with_ip(Some(POD.into()))
}

/// A sandbox whose owner wrote the address.
fn claiming(name: &str, created: u64) -> Sandbox {
    Sandbox(Observation { ip_is_claimed: true, created: Some(created), ..at_pod(name).0 })
}

fn ip(table: &Bench, name: &str) -> Option<IpAddr> {
    table.reader.get(&format!("team--{name}"))?.ip()
}

fn is_routed(table: &Bench, name: &str) -> bool {
    let route = table.reader.get(&format!("team--{name}")).unwrap();
    assert_eq!(route.state() == State::Running, route.ip().is_some(), "{name}");
    route.ip().is_some()
}

#[test]
fn an_address_that_a_tenant_wrote_does_not_lead_to_the_pod_of_another() {
    for order in [[true, false], [false, true]] {
        let table = table();
        for is_victim in order {
            table.writer.apply(if is_victim { at_pod("victim") } else { claiming("evil", 1) }.at(1));
        }
        assert!(is_routed(&table, "victim") && !is_routed(&table, "evil"), "{order:?}");
        assert_eq!(table.reader.counts().withheld, 1);
    }
}

#[test]
fn a_claim_is_good_while_nobody_else_has_the_address() {
    let table = table();
    table.writer.apply(claiming("honest", 1).at(1));
    assert!(is_routed(&table, "honest"));
    table.writer.apply(at_pod("victim").at(1));
    assert!(!is_routed(&table, "honest"), "now its pod has it");
    table.writer.delete(&key("victim"), at(2));
    assert!(is_routed(&table, "honest"), "without a word from its source");
    assert_eq!(ip(&table, "honest"), Some(POD.into()));
    assert_eq!(table.reader.counts().withheld, 0);
}

#[test]
fn of_two_claims_the_older_is_routed_to() {
    for order in [[1, 2], [2, 1]] {
        let table = table();
        for created in order {
            table.writer.apply(claiming(&format!("of-{created}"), created).at(1));
        }
        assert!(is_routed(&table, "of-1") && !is_routed(&table, "of-2"), "{order:?}");
        table.writer.apply(claiming("of-1", 1).with_ip(Some([10, 0, 0, 8].into())).at(2));
        assert!(is_routed(&table, "of-1") && is_routed(&table, "of-2"), "each has its own now");
    }
}

#[test]
fn an_old_sandbox_that_is_pointed_at_the_pod_of_a_younger_one_of_another_namespace_does_not_reach_it() {
    let table = table();
    let elsewhere = || {
        let mut old = claiming("old", 1).in_namespace("team-a");
        old.0.ip_is_claimed = true;
        old
    };
    table.writer.apply(elsewhere().with_ip(Some([10, 0, 0, 8].into())).at(1));
    table.writer.apply(claiming("victim", 2).at(1));
    assert!(is_routed(&table, "victim"));
    table.writer.apply(elsewhere().at(2));
    assert!(table.reader.get("team-a--old").unwrap().ip().is_none());
    assert!(!is_routed(&table, "victim"), "nobody can tell whose pod it is");
    table.writer.delete(&elsewhere().0.key, at(3));
    assert!(is_routed(&table, "victim"));
}

#[test]
fn a_paused_sandbox_has_no_address_that_could_be_another_s() {
    let table = table();
    table.writer.apply(at_pod("asleep").paused().at(1));
    table.writer.apply(claiming("next", 1).at(1));
    assert!(is_routed(&table, "next"));
    table.writer.apply(at_pod("asleep").at(2));
    assert!(!is_routed(&table, "next"), "it is awake, and there");
}

#[test]
fn a_mapped_form_of_an_address_is_that_address() {
    let table = table();
    table.writer.apply(at_pod("victim").at(1));
    let mapped: IpAddr = std::net::Ipv4Addr::from(POD).to_ipv6_mapped().into();
    table.writer.apply(claiming("evil", 1).with_ip(Some(mapped)).at(1));
    assert!(!is_routed(&table, "evil"));
}

#[test]
fn what_is_undone_of_a_push_is_the_address_that_was_said() {
    let table = table();
    let everything = Scope::new("kruise", None, "");
    let mut relist = table.writer.begin_relist(everything.clone(), crate::fixture::version(10));
    relist.observe(at_pod("victim").at(1));
    relist.observe(claiming("honest", 1).at(2));
    relist.commit();
    table.writer.apply(claiming("honest", 1).paused().at(20));
    table.writer.delete_in(&everything, &key("victim"), None, at(15));
    table.writer.reached(&everything, &crate::fixture::version(25));
    assert!(is_routed(&table, "honest"), "the watch never said that it paused, and the address is free");
}

#[derive(Clone, Debug)]
enum Step {
    Apply { object: u64, ip: u8, claimed: bool, state: State },
    Delete(u64),
}

fn namespace(object: u64) -> &'static str {
    if object < 3 { "team" } else { "other" }
}

fn any_step() -> impl Strategy<Value = Step> {
    let states = prop::sample::select(vec![State::Running, State::Running, State::Paused, State::Creating]);
    prop_oneof![
        4 => (0u64..5, 0u8..3, any::<bool>(), states)
            .prop_map(|(object, ip, claimed, state)| Step::Apply { object, ip, claimed, state }),
        1 => (0u64..5).prop_map(Step::Delete),
    ]
}

proptest! {
    #[test]
    fn who_is_routed_to_is_a_function_of_the_objects_that_live(steps in prop::collection::vec(any_step(), 1..60)) {
        let table = table();
        let mut live: Vec<Option<(u8, bool, State)>> = vec![None; 5];
        for (step, version) in steps.into_iter().zip(1..) {
            match step {
                Step::Apply { object, ip, claimed, state } => {
                    live[usize::try_from(object).unwrap()] = Some((ip, claimed, state));
                    let made = sandbox(&format!("o{object}")).in_namespace(namespace(object));
                    let made = Sandbox(Observation {
                        ip_is_claimed: claimed,
                        created: Some(object + 1),
                        ..made.with_ip(Some([10, 0, 0, ip].into())).being(state).0
                    });
                    table.writer.apply(made.at(version));
                }
                Step::Delete(object) => {
                    live[usize::try_from(object).unwrap()] = None;
                    let gone = sandbox(&format!("o{object}")).in_namespace(namespace(object));
                    table.writer.delete(&gone.0.key, at(version));
                }
            }
            let mut withheld = 0;
            for (object, said) in live.iter().enumerate() {
                let Some((ip, claimed, state)) = *said else { continue };
                let has_a_pod = |state| state != State::Paused;
                let comes_before = |(other, said): (usize, &Option<(u8, bool, State)>)| {
                    said.is_some_and(|(other_ip, other_claimed, other_state)| {
                        let is_elsewhere = namespace(other as u64) != namespace(object as u64);
                        other != object
                            && other_ip == ip
                            && has_a_pod(other_state)
                            && (!other_claimed || other < object || is_elsewhere)
                    })
                };
                let is_withheld = claimed && has_a_pod(state) && live.iter().enumerate().any(comes_before);
                withheld += u64::from(is_withheld);
                let route = table.reader.get(&format!("{}--o{object}", namespace(object as u64))).unwrap();
                prop_assert_eq!(route.ip().is_none(), is_withheld, "o{}", object);
                let kept = if is_withheld && state == State::Running { State::Creating } else { state };
                prop_assert_eq!(route.state(), kept);
            }
            prop_assert_eq!(table.reader.counts().withheld, withheld);
        }
    }
}
