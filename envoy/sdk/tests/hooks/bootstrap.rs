//! The bootstrap extension's hooks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use envoy_proxy_dynamic_modules_rust_sdk::abi::envoy_dynamic_module_type_metrics_result as MetricsResult;
use envoy_proxy_dynamic_modules_rust_sdk::*;

use crate::host::bootstrap::Bootstrap;
use crate::host::logged;
use crate::module::{note, seen};

thread_local! {
    static SCHEDULER: RefCell<Option<Box<dyn EnvoyBootstrapExtensionConfigScheduler>>> = const { RefCell::new(None) };
    static TIMER: RefCell<Option<Box<dyn EnvoyBootstrapExtensionTimer>>> = const { RefCell::new(None) };
    /// The extension whose hook is to be called from inside its own hook, as re-entrance.
    static NESTED: RefCell<Option<Rc<Bootstrap>>> = const { RefCell::new(None) };
    static COMPLETION: RefCell<Option<CompletionCallback>> = const { RefCell::new(None) };
}

/// The module's factory. The config's bytes say what its hooks do.
pub(crate) fn new_config(
    envoy: &mut dyn EnvoyBootstrapExtensionConfig,
    name: &str,
    config: &[u8],
) -> Option<Box<dyn BootstrapExtensionConfig>> {
    let mode = String::from_utf8(config.to_vec()).expect("a test writes UTF-8");
    note(format!("bootstrap {name:?}"));
    match mode.as_str() {
        "reject" => return None,
        "panic" => panic!("no config"),
        _ => {}
    }
    SCHEDULER.set(Some(envoy.new_scheduler()));
    assert!(envoy.register_admin_handler("/x", "help", true, false));
    let gauge = envoy.define_gauge("g").expect("defined");
    envoy.set_gauge(gauge, 9).expect("there");
    let counter = envoy.define_counter("c").expect("defined");
    envoy.increment_counter(counter, 2).expect("there");
    envoy.increment_counter(counter, 3).expect("there");
    assert_eq!(envoy.set_gauge(EnvoyGaugeId(77), 1), Err(MetricsResult::MetricNotFound));
    Some(Box::new(Config { mode }))
}

struct Config {
    mode: String,
}

impl BootstrapExtensionConfig for Config {
    fn new_bootstrap_extension(&self, _: &mut dyn EnvoyBootstrapExtension) -> Box<dyn BootstrapExtension> {
        assert!(self.mode != "no extension", "scripted");
        Box::new(Extension { mode: self.mode.clone() })
    }
    fn on_scheduled(&self, envoy: &mut dyn EnvoyBootstrapExtensionConfig, event_id: u64) {
        note(format!("scheduled {event_id}"));
        match event_id {
            1 => envoy.signal_init_complete(),
            2 => TIMER.set(Some(envoy.new_timer())),
            _ => panic!("scripted"),
        }
    }
    fn on_timer_fired(
        &self,
        _: &mut dyn EnvoyBootstrapExtensionConfig,
        timer: &dyn EnvoyBootstrapExtensionTimer,
    ) {
        if self.mode == "drop timer" {
            TIMER.take();
            timer.enable(Duration::from_secs(1));
        } else {
            timer.enable(Duration::from_millis(250));
        }
    }
    fn on_admin_request(
        &self,
        _: &mut dyn EnvoyBootstrapExtensionConfig,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> (u32, String) {
        assert!(!path.contains("panic"), "scripted");
        (201, format!("{method} {path} {body:?}"))
    }
}

struct Extension {
    mode: String,
}

impl BootstrapExtension for Extension {
    fn on_server_initialized(&mut self, _: &mut dyn EnvoyBootstrapExtension) {
        note("server initialized");
        if let Some(bootstrap) = NESTED.take() {
            bootstrap.server_initialized();
        }
        assert!(self.mode != "panic when initialized", "scripted");
    }
    fn on_drain_started(&mut self, _: &mut dyn EnvoyBootstrapExtension) {
        note("drain");
    }
    fn on_shutdown(&mut self, _: &mut dyn EnvoyBootstrapExtension, completion: CompletionCallback) {
        match self.mode.as_str() {
            "keep" => COMPLETION.set(Some(completion)),
            "panic at shutdown" => panic!("scripted"),
            _ => completion.done(),
        }
    }
}

#[test]
fn a_config_is_made_with_its_metrics_and_admin_path() {
    let bootstrap = Bootstrap::new(b"");
    assert_eq!(seen(), ["bootstrap \"b\u{fffd}\""]);
    assert!(!bootstrap.extension.get().is_null());
    assert_eq!(*bootstrap.handlers.borrow(), ["/x"]);
    assert_eq!((bootstrap.metrics.value(1), bootstrap.metrics.value(2)), (9, 5));
}

#[test]
fn a_config_that_is_rejected_or_panics_is_null() {
    assert!(Bootstrap::new(b"reject").config.get().is_null());
    assert!(Bootstrap::new(b"panic").config.get().is_null());
}

#[test]
fn an_extension_that_could_not_be_made_is_null() {
    assert!(Bootstrap::new(b"no extension").extension.get().is_null());
}

#[test]
fn an_admin_request_is_answered() {
    let bootstrap = Bootstrap::new(b"");
    assert_eq!(bootstrap.admin(b"/x?q=\xff"), (201, "GET /x?q=\u{fffd} []".to_owned()));
}

#[test]
fn an_admin_request_that_panics_is_answered_500() {
    let before = panics();
    assert_eq!(Bootstrap::new(b"").admin(b"/panic"), (500, "internal error\n".to_owned()));
    assert!(panics() > before);
}

#[test]
fn a_scheduler_works_from_another_thread() {
    let bootstrap = Bootstrap::new(b"");
    let scheduler = SCHEDULER.take().expect("made");
    std::thread::spawn(move || scheduler.commit(1)).join().expect("no panic");
    let events = std::mem::take(&mut *bootstrap.events.lock().expect("not poisoned"));
    assert_eq!(events, [1]);
    bootstrap.scheduled(1);
    assert_eq!(bootstrap.ready.get(), 1);
    bootstrap.scheduled(99);
    assert_eq!(logged().len(), 1, "a panic is reported, and that is all");
}

#[test]
fn a_timer_fires_and_is_armed_again_through_either_handle() {
    let bootstrap = Bootstrap::new(b"");
    bootstrap.scheduled(2);
    let id = bootstrap.only_timer();
    assert_eq!(bootstrap.timers.borrow().live, [(id, None)]);
    TIMER.with_borrow(|timer| timer.as_ref().expect("made").enable(Duration::from_secs(2)));
    assert_eq!(bootstrap.timers.borrow().live, [(id, Some(2000))]);
    bootstrap.fire(id);
    assert_eq!(bootstrap.timers.borrow().live, [(id, Some(250))]);
    TIMER.take();
    assert_eq!(bootstrap.timers.borrow().deleted, [id]);
    assert_eq!(logged(), []);
}

#[test]
fn a_timer_dropped_while_it_fires_leaves_the_hooks_handle_dead() {
    let bootstrap = Bootstrap::new(b"drop timer");
    bootstrap.scheduled(2);
    let id = bootstrap.only_timer();
    bootstrap.fire(id);
    assert_eq!(bootstrap.timers.borrow().deleted, [id], "deleted once");
    assert_eq!(logged(), [], "and not used afterwards");
}

#[test]
fn a_timer_on_a_foreign_thread_is_neither_used_nor_deleted() {
    let bootstrap = Bootstrap::new(b"");
    bootstrap.scheduled(2);
    let timer = TIMER.take().expect("made");
    std::thread::spawn(move || {
        timer.enable(Duration::from_secs(1));
        drop(timer);
        assert_eq!(logged().len(), 2);
    })
    .join()
    .expect("no panic");
    let timers = bootstrap.timers.borrow();
    assert!(matches!(timers.live[..], [(_, None)]) && timers.deleted.is_empty());
}

#[test]
fn a_panic_in_a_hook_of_the_extension_is_only_reported() {
    let bootstrap = Bootstrap::new(b"panic when initialized");
    seen();
    bootstrap.server_initialized();
    bootstrap.drain_started();
    assert_eq!(seen(), ["server initialized", "drain"]);
    assert_eq!(logged().len(), 1);
}

#[test]
fn a_hook_of_the_extension_inside_another_is_refused() {
    let bootstrap = Bootstrap::new(b"");
    NESTED.set(Some(bootstrap.clone()));
    seen();
    bootstrap.server_initialized();
    assert_eq!(seen(), ["server initialized"], "once, not twice");
    let (_, message) = logged().pop().expect("reported");
    assert!(message.contains("refused"), "{message}");
}

#[test]
fn hooks_that_nothing_listens_to_call_nothing() {
    let bootstrap = Bootstrap::new(b"");
    seen();
    bootstrap.call_ignored_hooks();
    assert_eq!((seen(), logged()), (vec![], vec![]));
}

#[test]
fn a_shutdown_completes_exactly_once_whatever_the_module_does() {
    for (mode, at_once) in [("", 1), ("panic at shutdown", 1), ("no extension", 1), ("keep", 0)] {
        let completed = Cell::new(0);
        Bootstrap::new(mode.as_bytes()).shutdown(&completed);
        assert_eq!(completed.get(), at_once, "{mode}");
        drop(COMPLETION.take());
        assert_eq!(completed.get(), 1, "{mode}: dropping a kept completion completes");
    }
}
