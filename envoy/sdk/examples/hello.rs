//! One module, three extension points.
//!
//! * bootstrap: lets Envoy start, and answers `/hello` on the admin port with the number of greetings;
//! * HTTP filter: answers `/hello` itself and marks every other request with a header;
//! * cluster: one host, whose `ip:port` is the cluster's configuration.
//!
//! `cargo build --example hello` makes `libhello.so`; name it as `filename` in three `dynamic_module_config`s
//! (with `do_not_close: true`) and route to the cluster.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use abi::envoy_dynamic_module_type_on_http_filter_request_headers_status as Status;
use envoy_proxy_dynamic_modules_rust_sdk::*;

declare_all_init_functions!(init, bootstrap: new_bootstrap, http: new_filter_config, cluster: new_cluster_config);

/// What the extension points share: they are one module in one process.
static GREETINGS: AtomicU64 = AtomicU64::new(0);

fn init() -> bool {
    true
}

fn new_bootstrap(
    envoy: &mut dyn EnvoyBootstrapExtensionConfig,
    _name: &str,
    _config: &[u8],
) -> Option<Box<dyn BootstrapExtensionConfig>> {
    envoy.register_admin_handler("/hello", "how often this module said hello", true, false);
    envoy.signal_init_complete();
    Some(Box::new(Bootstrap))
}

struct Bootstrap;

impl BootstrapExtension for Bootstrap {}

impl BootstrapExtensionConfig for Bootstrap {
    fn new_bootstrap_extension(&self, _: &mut dyn EnvoyBootstrapExtension) -> Box<dyn BootstrapExtension> {
        Box::new(Bootstrap)
    }

    fn on_admin_request(
        &self,
        _envoy: &mut dyn EnvoyBootstrapExtensionConfig,
        _method: &str,
        _path: &str,
        _body: &[u8],
    ) -> (u32, String) {
        (200, format!("{} greetings\n", GREETINGS.load(Ordering::Relaxed)))
    }
}

fn new_filter_config<EC: EnvoyHttpFilterConfig, EHF: EnvoyHttpFilter>(
    envoy: &mut EC,
    _name: &str,
    _config: &[u8],
) -> Option<Box<dyn HttpFilterConfig<EHF>>> {
    Some(Box::new(Filter { greetings: envoy.define_counter("greetings").ok()? }))
}

#[derive(Clone)]
struct Filter {
    greetings: EnvoyCounterId,
}

impl<EHF: EnvoyHttpFilter> HttpFilterConfig<EHF> for Filter {
    fn new_http_filter(&self, _envoy: &mut EHF) -> Box<dyn HttpFilter<EHF>> {
        Box::new(self.clone())
    }
}

impl<EHF: EnvoyHttpFilter> HttpFilter<EHF> for Filter {
    fn on_request_headers(&self, envoy: &mut EHF, _end_of_stream: bool) -> Status {
        let greeted =
            envoy.get_request_header_value(":path").is_some_and(|path| path.as_slice() == b"/hello");
        if !greeted {
            envoy.set_request_header("x-hello", b"passed by");
            return Status::Continue;
        }
        GREETINGS.fetch_add(1, Ordering::Relaxed);
        // A counter that cannot be counted is no reason not to answer.
        let _ = envoy.increment_counter(self.greetings, 1);
        envoy.send_response(200, &[("content-language", b"en")], Some(b"hello\n"), Some("greeted"));
        Status::StopIteration
    }
}

fn new_cluster_config(
    _name: &str,
    config: &[u8],
    _metrics: Arc<dyn EnvoyClusterMetrics>,
) -> Option<Box<dyn ClusterConfig>> {
    let address = String::from_utf8(config.to_vec()).ok()?;
    Some(Box::new(OneHost { address }))
}

#[derive(Clone)]
struct OneHost {
    address: String,
}

impl ClusterConfig for OneHost {
    fn new_cluster(&self, _envoy: &dyn EnvoyCluster) -> Box<dyn Cluster> {
        Box::new(self.clone())
    }
}

impl Cluster for OneHost {
    fn on_init(&mut self, envoy: &dyn EnvoyCluster) {
        let address = std::slice::from_ref(&self.address);
        let added =
            envoy.add_hosts_with_hostnames_and_locality_to_priority(0, address, address, &[1], &[], &[]);
        if added.is_none() {
            envoy_log_error!("{:?} is no address", self.address);
        }
        envoy.pre_init_complete();
    }

    fn new_load_balancer(&self, _envoy: &dyn EnvoyClusterLoadBalancer) -> Box<dyn ClusterLb> {
        Box::new(Balancer { host: None })
    }
}

/// Knows the host by its address in memory, as told by the membership hook and only there.
struct Balancer {
    host: Option<usize>,
}

impl ClusterLb for Balancer {
    fn choose_host(
        &mut self,
        _context: Option<&dyn ClusterLbContext>,
        _completion: Box<dyn EnvoyAsyncHostSelectionComplete>,
    ) -> HostSelectionResult {
        match self.host {
            Some(host) => HostSelectionResult::Selected(host as *mut _),
            None => HostSelectionResult::NoHost,
        }
    }

    fn on_host_membership_update(
        &mut self,
        envoy: &dyn EnvoyClusterLoadBalancer,
        added: usize,
        _removed: usize,
    ) {
        if added > 0 {
            self.host = envoy.get_member_update_host(0, true).map(|host| host as usize);
        }
    }
}
