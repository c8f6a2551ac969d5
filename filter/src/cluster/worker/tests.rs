use super::*;
use crate::cluster::usage::Usage;

#[test]
fn a_pick_is_looked_up_again_once_any_host_has_gone() {
    let (mut hosts, published) = (LocalHosts::default(), Published::default());
    let endpoint = |last: u8| Endpoint::new([10, 0, 0, last].into(), 80);
    for (last, pointer) in [(1, 0x100), (2, 0x200)] {
        let host = Host::new(endpoint(last), last.into(), Arc::new(Usage::default()));
        published.publish(pointer, Arc::new(host));
        hosts.add(endpoint(last), pointer);
    }
    let (_, pick) = hosts.find(endpoint(1), 1, &published).expect("it is there");
    assert_eq!(hosts.pointer(Some(pick), endpoint(1), 1, &published), Some(0x100));
    hosts.remove(endpoint(2), 0x200);
    assert_eq!(
        hosts.pointer(Some(pick), endpoint(1), 1, &published),
        Some(0x100),
        "another host's end is not this one's"
    );
    // The memory of the host that is gone is another identity's host now.
    hosts.remove(endpoint(1), 0x100);
    published.withdraw(0x100);
    assert_eq!(hosts.pointer(Some(pick), endpoint(1), 1, &published), None);
    published.publish(0x100, Arc::new(Host::new(endpoint(1), 9, Arc::new(Usage::default()))));
    hosts.add(endpoint(1), 0x100);
    assert!(hosts.find(endpoint(1), 1, &published).is_none());
    assert_eq!(hosts.pointer(Some(pick), endpoint(1), 1, &published), None, "a stranger's host was picked");
    assert!(hosts.find(endpoint(1), 9, &published).is_some());
}

#[test]
fn a_pick_of_another_load_balancer_is_looked_up_and_not_believed() {
    let endpoint = |last: u8| Endpoint::new([10, 0, 0, last].into(), 80);
    let host = |last: u8, identity| Arc::new(Host::new(endpoint(last), identity, Arc::new(Usage::default())));
    let (mut old, old_published) = (LocalHosts::default(), Published::default());
    old.add(endpoint(1), 0x100);
    old_published.publish(0x100, host(1, 1));
    let (_, pick) = old.find(endpoint(1), 1, &old_published).expect("it is there");
    // The cluster is replaced. The memory is a stranger's host now, and neither has ever lost one.
    let (mut new, published) = (LocalHosts::default(), Published::default());
    new.add(endpoint(2), 0x100);
    published.publish(0x100, host(2, 2));
    assert_eq!(new.pointer(Some(pick), endpoint(1), 1, &published), None, "a stranger's host was picked");
    new.add(endpoint(1), 0x300);
    published.publish(0x300, host(1, 1));
    assert_eq!(new.pointer(Some(pick), endpoint(1), 1, &published), Some(0x300), "its own is there again");
}
