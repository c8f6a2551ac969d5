use sandgate_sim::model::TRAFFIC_POLICIES;
use sandgate_sim::network::{Operation, UnderWay};
use serde_json::{Value, json};

use super::world::{Fate, World, run, somebody, wanted};
use crate::{Described, Error, ErrorKind, Network, NewSandbox};

/// The annotation with the rules that the owner is shown.
const SHOWN: &str = "sandgate.dev/network";

/// So many managers in a cluster that has TrafficPolicies.
fn enforcing(replicas: usize) -> World {
    let mut world = World::with(0, 1);
    world.settings.traffic_policies = true;
    for _ in 0..replicas {
        world.start();
    }
    world
}

/// The one address that may be reached; none is no rule.
fn only(address: Option<&str>) -> Network {
    Network { allow_out: address.map(str::to_owned).into_iter().collect(), deny_out: Vec::new() }
}

/// What the policy of the sandbox allows; none if there is no policy.
fn enforced(world: &World) -> Option<Value> {
    let mut policies = world.model.list(&TRAFFIC_POLICIES);
    let policy = policies.next().map(|policy| policy["spec"]["egress"]["rules"].clone());
    assert_eq!(policies.next(), None, "one sandbox has one policy");
    policy
}

/// What its owner is shown, as a policy has it; none if there are no rules.
fn shown(world: &World, sandbox: &Described) -> Option<Value> {
    let text = world.sandbox(sandbox)["metadata"]["annotations"][SHOWN].as_str().map(str::to_owned);
    let shown: Value = serde_json::from_str(&text?).unwrap();
    let cidr = format!("{}/32", shown["allowOut"][0].as_str().unwrap());
    Some(json!([{"action": "allow", "to": [{"cidr": cidr}]}]))
}

async fn update(
    world: &mut World,
    sandbox: &Described,
    network: Network,
    fate: impl FnMut(&UnderWay) -> Fate,
) -> Result<(), Error> {
    let (manager, id) = (world.manager(0), sandbox.id.clone());
    let work = async move { manager.update_network(&somebody(), &id, network, Some(true)).await };
    world.end_with(tokio::spawn(work), fate).await
}

/// Whether the request is about a policy, and not to read it.
fn writes_policy(call: &UnderWay) -> bool {
    let target = call.operation.target();
    target.is_some_and(|place| place.kind == &TRAFFIC_POLICIES)
}

#[test]
fn the_rules_of_a_create_and_of_updates_are_enforced_and_shown() {
    run(async {
        let mut world = enforcing(1);
        let (manager, new) =
            (world.manager(0), NewSandbox { network: Some(only(Some("1.1.1.1"))), ..wanted() });
        let sandbox = world.end(async move { manager.create(&somebody(), new).await }).await.unwrap();
        assert_eq!(sandbox.network, Some(only(Some("1.1.1.1"))));
        assert!(enforced(&world).is_some() && enforced(&world) == shown(&world, &sandbox));
        for address in [Some("2.2.2.2"), None, None, Some("3.3.3.3")] {
            assert_eq!(update(&mut world, &sandbox, only(address), |_| Fate::Done).await, Ok(()));
            assert_eq!(enforced(&world).is_some(), address.is_some());
            assert_eq!(enforced(&world), shown(&world, &sandbox), "{address:?}");
        }
    });
}

/// The first update is held up at each of its requests in turn, until the second is done.
#[test]
fn of_two_updates_at_once_one_is_both_enforced_and_shown() {
    run(async {
        let addresses = [Some("1.1.1.1"), Some("2.2.2.2"), None];
        let pairs = addresses.iter().flat_map(|one| addresses.iter().map(move |two| (*one, *two)));
        let pairs = pairs.filter(|(one, two)| one != two);
        for ((first, second), held) in pairs.flat_map(|pair| (0..8).map(move |held| (pair, held))) {
            let mut world = enforcing(2);
            let sandbox = world.created(&somebody()).await;
            assert_eq!(update(&mut world, &sandbox, only(Some("9.9.9.9")), |_| Fate::Done).await, Ok(()));
            let [one, two] = [(0, first), (1, second)].map(|(replica, address)| {
                let (manager, id, network) = (world.manager(replica), sandbox.id.clone(), only(address));
                tokio::spawn(async move { manager.update_network(&somebody(), &id, network, None).await })
            });
            let mut numbers = Vec::new();
            let hold = |call: &UnderWay| {
                if call.caller == 1 && !numbers.contains(&call.number) {
                    numbers.push(call.number);
                }
                if call.caller == 1 && numbers.len() > held { Fate::Held } else { Fate::Done }
            };
            assert_eq!(world.end_with(two, hold).await, Ok(()));
            assert_eq!(world.end_with(one, |_| Fate::Done).await, Ok(()));
            assert_eq!(enforced(&world), shown(&world, &sandbox), "{first:?} {second:?} held at {held}");
        }
    });
}

#[test]
fn an_update_whose_answers_are_lost_ends_with_its_rules() {
    run(async {
        for fate in [Fate::Lost, Fate::Unanswered] {
            for address in [Some("1.1.1.1"), None] {
                let mut world = enforcing(1);
                let sandbox = world.created(&somebody()).await;
                let before = update(&mut world, &sandbox, only(Some("9.9.9.9")), |_| Fate::Done).await;
                assert_eq!(before, Ok(()));
                let mut seen = false;
                let once = |call: &UnderWay| {
                    if writes_policy(call) && !std::mem::replace(&mut seen, true) { fate } else { Fate::Done }
                };
                assert_eq!(update(&mut world, &sandbox, only(address), once).await, Ok(()));
                assert_eq!(enforced(&world).is_some(), address.is_some());
                assert_eq!(enforced(&world), shown(&world, &sandbox), "{fate:?} {address:?}");
            }
        }
    });
}

#[test]
fn rules_that_the_cluster_refuses_are_not_shown() {
    run(async {
        let mut world = enforcing(1);
        let sandbox = world.created(&somebody()).await;
        for (before, code, kind) in [
            (None, 403, ErrorKind::Internal),
            (None, 404, ErrorKind::Unsupported),
            (Some("9.9.9.9"), 422, ErrorKind::Invalid),
        ] {
            assert_eq!(update(&mut world, &sandbox, only(before), |_| Fate::Done).await, Ok(()));
            world.put(&sandbox, |sandbox| {
                sandbox["metadata"]["labels"]["agents.kruise.io/allow-internet-access"] = "false".into();
            });
            let refuses = |call: &UnderWay| {
                if writes_policy(call) { Fate::Refused(code) } else { Fate::Done }
            };
            let refused = update(&mut world, &sandbox, only(Some("1.1.1.1")), refuses).await.unwrap_err();
            assert_eq!(refused.kind, kind, "{code}");
            assert_eq!(enforced(&world).is_some(), before.is_some());
            assert_eq!(enforced(&world), shown(&world, &sandbox), "{code}");
            let label =
                &world.sandbox(&sandbox)["metadata"]["labels"]["agents.kruise.io/allow-internet-access"];
            assert_eq!(label, "false", "{code}: nothing half made remains");
        }
    });
}

#[test]
fn rules_that_are_not_enforced_yet_can_be_sent_again() {
    run(async {
        let mut world = enforcing(1);
        let sandbox = world.created(&somebody()).await;
        let silent = |call: &UnderWay| if writes_policy(call) { Fate::Lost } else { Fate::Done };
        let failed = update(&mut world, &sandbox, only(Some("1.1.1.1")), silent).await.unwrap_err();
        assert_eq!((failed.kind, failed.retry_after.is_some()), (ErrorKind::Unavailable, true));
        assert!(failed.message.contains("not enforced yet"), "{failed}");
        let mut reads = 0;
        let counted = |call: &UnderWay| {
            reads += usize::from(matches!(&*call.operation, Operation::Get(_)));
            Fate::Done
        };
        assert_eq!(update(&mut world, &sandbox, only(Some("1.1.1.1")), counted).await, Ok(()));
        assert_eq!(reads, 3, "the sandbox before and after, and the policy");
        assert!(enforced(&world).is_some() && enforced(&world) == shown(&world, &sandbox));
    });
}

#[test]
fn a_create_whose_rules_are_refused_leaves_nothing() {
    run(async {
        let mut world = enforcing(1);
        let (manager, new) =
            (world.manager(0), NewSandbox { network: Some(only(Some("1.1.1.1"))), ..wanted() });
        let create = tokio::spawn(async move { manager.create(&somebody(), new).await });
        let refuses = |call: &UnderWay| if writes_policy(call) { Fate::Refused(403) } else { Fate::Done };
        assert!(world.end_with(create, refuses).await.is_err());
        assert_eq!((world.claimed(), enforced(&world)), ((0, 0), None));
    });
}

/// The client goes away after each of the first rounds.
#[test]
fn an_update_whose_client_is_gone_is_done_or_is_not() {
    run(async {
        for rounds in 0..8 {
            let mut world = enforcing(1);
            let sandbox = world.created(&somebody()).await;
            let (manager, id) = (world.manager(0), sandbox.id.clone());
            let rules = only(Some("1.1.1.1"));
            let work = async move { manager.update_network(&somebody(), &id, rules, None).await };
            let update = tokio::spawn(work);
            world.rounds(rounds).await;
            update.abort();
            world.rounds(20).await;
            assert_eq!(enforced(&world), shown(&world, &sandbox), "{rounds}");
        }
    });
}
