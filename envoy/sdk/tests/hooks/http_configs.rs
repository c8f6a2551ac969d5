//! What belongs to a config of the HTTP filter, or to a route's: per-route configs and secrets.

use std::cell::RefCell;
use std::sync::Arc;

use envoy_proxy_dynamic_modules_rust_sdk::*;

use crate::host::http::{Config, Filter, RouteConfig};
use crate::host::{self, NOTHING, give};
use crate::module::{self, on, script, seen};

/// What the module reads as the config of its route, or `-`.
fn read(envoy: &EnvoyHttpFilterImpl) -> String {
    let config = envoy.get_most_specific_route_config();
    config.map_or("-".to_owned(), |config| {
        let config = config.downcast_ref::<module::RouteConfig>().expect("made by this module");
        String::from_utf8_lossy(&config.0).into_owned()
    })
}

#[test]
fn a_filter_finds_the_config_of_its_route() {
    script(|at, envoy| module::note(format!("{at} reads {}", read(envoy))));
    let config = Config::new(give(b"f"), NOTHING);
    let routes = [RouteConfig::new(give(b"f"), give(b"one")), RouteConfig::new(give(b"f"), give(b"two"))];
    let filter = Filter::new(&config);
    seen();
    filter.request_headers();
    for route in &routes {
        filter.route_config.set(route.0);
        filter.call("request_body");
    }
    assert_eq!(seen(), ["request_headers reads -", "request_body reads one", "request_body reads two"]);
    drop(routes);
    assert_eq!(seen(), ["route config dropped", "route config dropped"]);
}

#[test]
fn a_config_that_a_filter_keeps_outlives_its_route() {
    type Kept = Option<Arc<dyn std::any::Any + Send + Sync>>;
    thread_local!(static KEPT: RefCell<Kept> = const { RefCell::new(None) });
    on("request_headers", |envoy| KEPT.set(envoy.get_most_specific_route_config()));
    let config = Config::new(give(b"f"), NOTHING);
    let route = RouteConfig::new(give(b"f"), give(b"kept"));
    let filter = Filter::new(&config);
    filter.route_config.set(route.0);
    filter.request_headers();
    seen();
    drop(route);
    assert_eq!(seen(), [] as [&str; 0]);
    let kept = KEPT.take().expect("there");
    assert_eq!(kept.downcast_ref::<module::RouteConfig>().expect("ours").0, b"kept");
    drop(kept);
    assert_eq!(seen(), ["route config dropped"]);
}

#[test]
fn a_pointer_that_this_module_has_not_made_is_not_followed() {
    on("request_headers", |envoy| module::note(read(envoy)));
    let config = Config::new(give(b"f"), NOTHING);
    let mine = RouteConfig::new(give(b"f"), give(b"mine"));
    let filter = Filter::new(&config);
    let foreign = [0_u8; 32];
    for pointer in [mine.0, foreign.as_ptr().cast(), mine.0.wrapping_byte_add(1), mine.0] {
        filter.route_config.set(pointer);
        filter.request_headers();
    }
    let gone = mine.0;
    drop(mine);
    filter.route_config.set(gone);
    filter.request_headers();
    let read: Vec<_> = seen().into_iter().filter(|line| !line.contains("config")).collect();
    assert_eq!(read, ["mine", "-", "-", "mine", "-"]);
}

#[test]
fn a_worker_reads_what_the_main_thread_has_made() {
    struct ForWorkers(RouteConfig);
    // SAFETY: the host's pointer may go to any thread; it is used by one at a time here.
    unsafe impl Send for ForWorkers {}
    let work = |route: ForWorkers, expected: &'static str| {
        std::thread::spawn(move || {
            on("request_headers", move |envoy| assert_eq!(read(envoy), expected));
            let config = Config::new(give(b"f"), NOTHING);
            let filter = Filter::new(&config);
            let route = route;
            filter.route_config.set(route.0.0);
            filter.request_headers();
            assert_eq!(host::logged(), [], "no assertion above has failed");
            route
        })
    };
    let [one, two] = ["one", "two"]
        .map(|config| work(ForWorkers(RouteConfig::new(give(b"f"), give(config.as_bytes()))), config));
    let one = one.join().expect("no panic");
    drop(two.join().expect("no panic"));
    work(one, "one").join().expect("no panic");
}

#[test]
fn a_route_config_that_is_rejected_or_panics_is_null() {
    assert!(RouteConfig::new(give(b"f"), give(b"reject")).0.is_null());
    let before = panics();
    assert!(RouteConfig::new(give(b"f"), give(b"panic")).0.is_null());
    assert!(panics() > before);
    seen();
    assert!(!RouteConfig::new(give(b"na\xffme"), NOTHING).0.is_null());
    assert_eq!(seen(), ["route config \"na\u{fffd}me\" []", "route config dropped"]);
}

thread_local!(static SECRETS: RefCell<Vec<EnvoyGenericSecretId>> = const { RefCell::new(Vec::new()) });

/// For the module's factory.
pub(crate) fn use_secrets(envoy: &mut EnvoyHttpFilterConfigImpl) {
    let secrets = [("static", None), ("fetched", Some(r#"{"ads":{}}"#))];
    let ids = secrets.map(|(name, source)| envoy.subscribe_generic_secret(name, source).expect("subscribed"));
    assert_eq!(envoy.subscribe_generic_secret("", None), None, "Envoy refuses an empty name");
    SECRETS.set(ids.to_vec());
}

#[test]
fn a_filter_reads_the_secrets_of_its_config_as_they_are_now() {
    let config = Config::new(give(b"f"), give(b"secrets"));
    assert_eq!(host::logged(), [], "no assertion of the factory has failed");
    let ids = SECRETS.take();
    on("request_headers", move |envoy| {
        let value = |id: EnvoyGenericSecretId| {
            let value = envoy.get_generic_secret(id);
            value.map_or("-".to_owned(), |value| String::from_utf8_lossy(value.as_slice()).into_owned())
        };
        let read: Vec<String> = ids.iter().copied().chain([EnvoyGenericSecretId(77)]).map(value).collect();
        module::note(read.join(" "));
    });
    let subscribed: Vec<_> =
        config.secrets.borrow().iter().map(|(name, source, _)| format!("{name}{source}")).collect();
    assert_eq!(subscribed, ["static", r#"fetched{"ads":{}}"#]);
    let filter = Filter::new(&config);
    seen();
    filter.request_headers();
    for (at, value) in [(0, "k1"), (1, "k2"), (0, "k3")] {
        config.secrets.borrow_mut()[at].2 = value.as_bytes().to_vec();
        filter.request_headers();
    }
    assert_eq!(seen(), ["  -", "k1  -", "k1 k2 -", "k3 k2 -"]);
}
