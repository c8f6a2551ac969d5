use super::super::ContainerState;
use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod that is ready since a while.
fn ready() -> PodState {
    PodState {
        phase: PodPhase::Running,
        is_ready: true,
        ready_since: Some(at(50)),
        created: at(10),
        node: Some("node".into()),
        ..PodState::default()
    }
}

fn young() -> PodState {
    PodState { is_ready: false, ready_since: None, ..ready() }
}

fn restarted(of: &[(bool, u32)]) -> PodState {
    let container =
        |&(is_init, restarts): &(bool, u32)| ContainerState { is_init, restarts, ..Default::default() };
    PodState { containers: of.iter().map(container).collect(), ..ready() }
}

/// The names of the pods `a` and `z` in the order in which they are let go.
fn order(a: PodState, z: PodState) -> Vec<String> {
    let mut fleet = Fleet::default();
    for (name, pod) in [("a", a), ("z", z)] {
        let key = Key::new("n", name);
        fleet.put(&key, Place::of(&key, &pod, Standing::Free));
    }
    let idle = fleet.first(&[PodClass::IdleUnready, PodClass::IdleReady], None, 2);
    idle.into_iter().map(|key| key.name.to_string()).collect()
}

/// The order of OpenSandbox's operator. In each case the pod that goes first has the greater name.
#[test]
fn idle_pods_are_let_go_in_opensandboxs_order() {
    let without_node = PodState { node: None, ..ready() };
    let pending = PodState { phase: PodPhase::Pending, ..young() };
    let unknown = PodState { phase: PodPhase::Unknown, ..young() };
    let unready = |second| PodState { ready_since: Some(at(second)), ..young() };
    for (case, stays, goes) in [
        ("no node", PodState { phase: PodPhase::Pending, ..young() }, without_node),
        ("pending before unknown", unknown.clone(), pending.clone()),
        ("pending before running", young(), pending),
        ("unknown before running", young(), unknown),
        ("not ready", ready(), young()),
        ("ready for longer", PodState { ready_since: Some(at(60)), ..ready() }, ready()),
        ("restarted", restarted(&[(false, 1)]), restarted(&[(false, 2)])),
        ("the most of one container counts", restarted(&[(false, 2), (false, 2)]), restarted(&[(false, 3)])),
        ("init containers do not count", restarted(&[(true, 9), (false, 1)]), restarted(&[(false, 2)])),
        ("newer", ready(), PodState { created: at(20), ..ready() }),
        ("newer, whenever it ceased to be ready", unready(1), PodState { created: at(20), ..unready(2) }),
    ] {
        assert_eq!(order(stays, goes), ["z", "a"], "{case}");
    }
    assert_eq!(order(ready(), ready()), ["a", "z"], "the name, if nothing else tells them apart");
}
