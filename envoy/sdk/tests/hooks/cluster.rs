//! The cluster's hooks.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

use envoy_proxy_dynamic_modules_rust_sdk::*;

use crate::host::cluster as host;
use crate::host::logged;
use crate::module::{note, seen};

thread_local! {
    static SCHEDULER: RefCell<Option<Box<dyn EnvoyClusterScheduler>>> = const { RefCell::new(None) };
}

/// The module's factory. The config's bytes say what its hooks do.
pub(crate) fn new_config(
    name: &str,
    config: &[u8],
    _metrics: Arc<dyn EnvoyClusterMetrics>,
) -> Option<Box<dyn ClusterConfig>> {
    note(format!("config {name:?}"));
    let mode = String::from_utf8(config.to_vec()).expect("a test writes UTF-8");
    match mode.as_str() {
        "reject" => None,
        "panic" => panic!("no config"),
        _ => Some(Box::new(Config { mode })),
    }
}

struct Config {
    mode: String,
}

impl ClusterConfig for Config {
    fn new_cluster(&self, envoy: &dyn EnvoyCluster) -> Box<dyn Cluster> {
        assert!(self.mode != "no cluster", "scripted");
        if self.mode == "early" {
            envoy.pre_init_complete();
            drop(envoy.new_scheduler());
        }
        Box::new(Module { mode: self.mode.clone() })
    }
}

struct Module {
    mode: String,
}

fn addresses(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

impl Cluster for Module {
    fn on_init(&mut self, envoy: &dyn EnvoyCluster) {
        assert!(self.mode != "no init", "scripted");
        envoy.use_persistent_host_map();
        assert_eq!(envoy.get_cluster_name().as_slice(), b"own");
        SCHEDULER.set(Some(envoy.new_scheduler()));
        envoy.pre_init_complete();
        note("init ends");
    }
    fn new_load_balancer(&self, envoy: &dyn EnvoyClusterLoadBalancer) -> Box<dyn ClusterLb> {
        assert!(self.mode != "no balancer", "scripted");
        assert_eq!(envoy.get_hosts_count(0), 0);
        note("balancer");
        Box::new(Lb { mode: self.mode.clone(), hosts: Vec::new() })
    }
    fn on_scheduled(&self, envoy: &dyn EnvoyCluster, event_id: u64) {
        note(format!("scheduled {event_id}"));
        let two = addresses(&["10.0.0.1:80", "10.0.0.2:80"]);
        let names = addresses(&["a", "b"]);
        let add = |addresses: &[String], names: &[String], weights: &[u32]| {
            envoy.add_hosts_with_hostnames_and_locality_to_priority(0, addresses, names, weights, &[], &[])
        };
        match event_id {
            1 => {
                let hosts = add(&two, &names, &[1, 1]).expect("added");
                assert_eq!(hosts, [at(1), at(2)]);
                assert_eq!(envoy.find_host_by_address("10.0.0.2:80"), Some(hosts[1]));
                assert_eq!(envoy.find_host_by_address("10.0.0.3:80"), None);
            }
            2 => {
                let hosts = add(&addresses(&["10.0.0.1:80", "10.0.0.9:80"]), &names, &[1, 1]);
                assert_eq!(hosts, Some(vec![at(3), std::ptr::null_mut()]), "a known address is skipped");
            }
            3 => assert_eq!(envoy.remove_hosts(&[at(1), at(77)]), 1),
            4 => {
                let locality = || ("r".to_owned(), "z".to_owned(), "s".to_owned());
                let two_localities = [locality(), locality()];
                let place = |localities: &[_], metadata: &[_]| {
                    envoy.add_hosts_with_hostnames_and_locality_to_priority(
                        0,
                        &two,
                        &names,
                        &[1, 1],
                        localities,
                        metadata,
                    )
                };
                assert_eq!(add(&two, &names, &[1]), None, "a weight is missing");
                assert_eq!(add(&two, &names[..1], &[1, 1]), None, "a name is missing");
                assert_eq!(place(&two_localities[..1], &[]), None, "a locality is missing");
                assert_eq!(place(&two_localities, &[vec![locality()], vec![]]), None, "metadata are uneven");
                assert_eq!(add(&[], &[], &[]), Some(vec![]));
            }
            5 => {
                let metadata = vec![vec![("f".to_owned(), "k".to_owned(), "v".to_owned())]; 2];
                let locality = ("r".to_owned(), "z".to_owned(), "s".to_owned());
                envoy
                    .add_hosts_with_hostnames_and_locality_to_priority(
                        3,
                        &two,
                        &names,
                        &[1, 1],
                        &[locality.clone(), locality],
                        &metadata,
                    )
                    .expect("added");
                assert_eq!(add(&addresses(&["nonsense"]), &names[..1], &[1]), None, "Envoy refused");
            }
            6 => envoy.run_on_all_workers(60),
            7 => envoy.pre_init_complete(),
            _ => panic!("scripted"),
        }
    }
    fn on_worker_event(&self, _: &dyn EnvoyCluster, event_id: u64) {
        note(format!("worker event {event_id}"));
    }
    fn on_shutdown(&mut self, _: &dyn EnvoyCluster, _completion: CompletionCallback) {
        panic!("scripted");
    }
}

struct Lb {
    mode: String,
    hosts: Vec<(PackedAddress, usize)>,
}

impl ClusterLb for Lb {
    fn choose_host(
        &mut self,
        context: Option<&dyn ClusterLbContext>,
        _async_completion: Box<dyn EnvoyAsyncHostSelectionComplete>,
    ) -> HostSelectionResult {
        let Some(context) = context else { return HostSelectionResult::NoHost };
        assert!(context.get_downstream_header("none", 0).is_none());
        let (authority, count) = context.get_downstream_header(":authority", 0).expect("there");
        assert_eq!(count, 1);
        assert!(context.get_filter_state_bytes(b"none").is_none());
        let state = context.get_filter_state_bytes(b"authority").expect("there");
        assert_eq!(state.as_slice(), authority.as_slice());
        match authority.as_slice() {
            b"first" => HostSelectionResult::Selected(at(self.hosts[0].1)),
            b"panic" => panic!("scripted"),
            _ => HostSelectionResult::NoHost,
        }
    }
    fn on_host_membership_update(
        &mut self,
        envoy: &dyn EnvoyClusterLoadBalancer,
        added: usize,
        removed: usize,
    ) {
        assert!(self.mode != "no members", "scripted");
        for i in 0..removed {
            let gone = envoy.get_member_update_host(i, false).expect("there") as usize;
            self.hosts.retain(|(_, host)| *host != gone);
        }
        for i in 0..added {
            let host = envoy.get_member_update_host(i, true).expect("there") as usize;
            if let Some(address) = envoy.get_member_update_host_packed_address(i, true) {
                self.hosts.push((address, host));
            }
        }
        assert!(envoy.get_member_update_host(added, true).is_none());
        assert!(envoy.get_member_update_host_packed_address(added, true).is_none());
        for priority in 0..u32::try_from(envoy.get_priority_set_size()).expect("few") {
            for i in 0..envoy.get_hosts_count(priority) {
                let address = envoy.get_host_address(priority, i).expect("there");
                let host = envoy.get_host(priority, i).expect("there") as usize;
                note(format!("{host} at {}", String::from_utf8_lossy(address.as_slice())));
            }
            if priority == 1 {
                assert!(envoy.get_host(priority, added).is_none());
                assert!(envoy.get_host_address(priority, added).is_none());
            }
        }
        note(format!("{:?}", self.hosts));
    }
}

fn cluster() -> (std::rc::Rc<host::Config>, std::rc::Rc<host::Cluster>) {
    let config = host::Config::new(b"");
    let cluster = host::Cluster::new(&config);
    seen();
    (config, cluster)
}

fn balancer() -> (std::rc::Rc<host::Config>, std::rc::Rc<host::Cluster>, std::rc::Rc<host::Lb>) {
    let (config, cluster) = cluster();
    let lb = host::Lb::new(&cluster);
    seen();
    (config, cluster, lb)
}

fn member(number: usize, address: &str) -> host::Host {
    host::Host { number, address: address.to_owned(), name: String::new(), priority: 0 }
}

/// The host with this number, as the module sees it.
fn at(number: usize) -> *mut c_void {
    number as *mut c_void
}

const NULL: *mut c_void = std::ptr::null_mut();

#[test]
fn a_config_or_cluster_that_could_not_be_made_is_null() {
    assert!(host::Config::new(b"reject").module.get().is_null());
    assert!(host::Config::new(b"panic").module.get().is_null());
    let config = host::Config::new(b"no cluster");
    assert!(host::Cluster::new(&config).module.get().is_null());
}

#[test]
fn the_first_load_balancer_is_made_when_init_has_returned() {
    let (_config, cluster) = cluster();
    cluster.init();
    assert_eq!(seen(), ["init ends", "balancer"], "Envoy makes it inside pre_init_complete");
    assert_eq!(cluster.ready.get(), 1);
    assert!(cluster.persistent.get());
    assert!(cluster.lb.borrow().as_ref().is_some_and(|lb| !lb.module.get().is_null()));
    assert_eq!(logged(), []);
}

#[test]
fn pre_init_complete_in_a_shared_hook_takes_effect_at_once() {
    let (_config, cluster) = cluster();
    cluster.scheduled(7);
    assert_eq!(seen(), ["scheduled 7", "balancer"]);
}

#[test]
fn what_is_not_possible_while_envoy_builds_the_cluster_is_refused_and_said() {
    let config = host::Config::new(b"early");
    let cluster = host::Cluster::new(&config);
    assert_eq!(cluster.ready.get(), 0);
    assert_eq!(logged().len(), 2);
}

#[test]
fn a_panic_in_init_leaves_the_cluster_uninitialised_and_envoy_alive() {
    let config = host::Config::new(b"no init");
    let cluster = host::Cluster::new(&config);
    cluster.init();
    assert_eq!(cluster.ready.get(), 0);
    cluster.worker_event(60);
    assert_eq!(seen().pop().as_deref(), Some("worker event 60"));
}

#[test]
fn hosts_are_added_found_and_removed() {
    let (_config, cluster) = cluster();
    cluster.scheduled(1);
    assert_eq!(cluster.addresses(), ["10.0.0.1:80", "10.0.0.2:80"]);
    cluster.scheduled(2);
    assert_eq!(cluster.hosts.borrow()[2].name, "b");
    cluster.scheduled(3);
    assert_eq!(cluster.addresses(), ["10.0.0.2:80", "10.0.0.9:80"]);
    assert_eq!(logged(), [], "no assertion in the hooks has failed");
}

#[test]
fn a_batch_with_lists_of_different_lengths_never_reaches_envoy() {
    let (_config, cluster) = cluster();
    cluster.scheduled(4);
    assert_eq!(cluster.add_calls.get(), 0);
    assert_eq!(logged().len(), 4, "one complaint per batch, and no failed assertion");
}

#[test]
fn hosts_have_priorities_localities_and_metadata() {
    let (_config, cluster) = cluster();
    cluster.scheduled(5);
    assert!(cluster.hosts.borrow().iter().all(|host| host.priority == 3));
    assert_eq!((cluster.hosts.borrow().len(), logged()), (2, vec![]));
}

#[test]
fn the_main_thread_and_the_workers_are_reached_from_anywhere() {
    let (_config, cluster) = cluster();
    cluster.init();
    seen();
    let scheduler = SCHEDULER.take().expect("made");
    std::thread::spawn(move || scheduler.commit(6)).join().expect("no panic");
    assert_eq!(*cluster.events.lock().expect("not poisoned"), [6]);
    cluster.scheduled(6);
    assert_eq!(*cluster.worker_events.borrow(), [60]);
    cluster.worker_event(60);
    assert_eq!(seen(), ["scheduled 6", "worker event 60"]);
    cluster.scheduled(99);
    assert_eq!(logged().len(), 1, "a panic is reported, and that is all");
}

#[test]
fn a_shutdown_hook_that_panics_completes() {
    let (_config, cluster) = cluster();
    assert_eq!(cluster.shutdown(), 1);
}

#[test]
fn a_load_balancer_follows_the_members_and_picks_one() {
    let (_config, _cluster, lb) = balancer();
    lb.members(&[member(4, "10.0.0.4:80"), member(6, "[fd00::6]:81"), member(8, "/a/pipe")], &[]);
    let told = seen();
    assert_eq!(told[..3], ["4 at 10.0.0.4:80", "6 at [fd00::6]:81", "8 at /a/pipe"]);
    let v6 = "V6([253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6], 81)";
    assert_eq!(told[3], format!("[(V4([10, 0, 0, 4], 80), 4), ({v6}, 6)]"));
    let request = host::Request::new(&lb, "first");
    assert_eq!(request.choose(), (at(4), NULL));
    lb.members(&[], &[member(4, "10.0.0.4:80")]);
    assert_eq!(request.choose(), (at(6), NULL));
    assert_eq!(logged(), []);
}

#[test]
fn no_host_is_an_answer_also_to_a_panic_and_to_a_request_without_context() {
    let (_config, _cluster, lb) = balancer();
    assert_eq!(host::Request::new(&lb, "nobody").choose(), (NULL, NULL));
    assert_eq!(lb.choose(NULL), (NULL, NULL));
    assert_eq!(logged(), []);
    assert_eq!(host::Request::new(&lb, "panic").choose(), (NULL, NULL));
    assert_eq!(logged().len(), 1);
}

#[test]
fn a_load_balancer_that_could_not_be_made_picks_nothing() {
    let config = host::Config::new(b"no balancer");
    let cluster = host::Cluster::new(&config);
    let lb = host::Lb::new(&cluster);
    assert!(lb.module.get().is_null());
    assert_eq!(host::Request::new(&lb, "first").choose(), (NULL, NULL));
    lb.members(&[member(1, "10.0.0.1:80")], &[]);
}

#[test]
fn a_panic_in_the_membership_hook_is_only_reported() {
    let config = host::Config::new(b"no members");
    let cluster = host::Cluster::new(&config);
    let lb = host::Lb::new(&cluster);
    lb.members(&[member(1, "10.0.0.1:80")], &[]);
    assert_eq!(logged().len(), 1);
    assert_eq!(host::Request::new(&lb, "nobody").choose(), (NULL, NULL));
}

#[test]
fn a_choice_inside_a_choice_of_the_same_load_balancer_is_refused() {
    let (_config, _cluster, lb) = balancer();
    lb.members(&[member(4, "10.0.0.4:80")], &[]);
    let (outer, inner) = (host::Request::new(&lb, "first"), host::Request::new(&lb, "first"));
    lb.nested.set(Some(inner.ptr()));
    assert_eq!(outer.choose(), (at(4), NULL));
    assert_eq!(lb.nested_answer.get(), Some((NULL, NULL)));
    assert!(logged().pop().is_some_and(|(_, message)| message.contains("refused")));
}
