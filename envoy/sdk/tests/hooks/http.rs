//! The HTTP filter's hooks.

use std::cell::{Cell, RefCell};

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_http_header_type as HeaderType,
    envoy_dynamic_module_type_metrics_result as MetricsResult,
};
use envoy_proxy_dynamic_modules_rust_sdk::*;

use crate::host::http::{Config, Filter, OnReply, Reply};
use crate::host::{self, NOTHING, give};
use crate::module::{note, on, script, seen};

const STOP_ITERATION: u32 = 1;
const STOP_NO_BUFFER: u32 = 3;

fn config() -> std::rc::Rc<Config> {
    let config = Config::new(give(b"filter"), NOTHING);
    seen();
    config
}

fn panic_reply() -> Reply {
    Reply {
        status: 500,
        headers: vec![],
        body: b"internal error\n".to_vec(),
        details: "sandgate_panic".into(),
    }
}

#[test]
fn a_filter_reads_and_changes_headers() {
    on("request_headers", |envoy| {
        assert_eq!(envoy.get_request_header_value(":path").expect("there").as_slice(), b"/x");
        assert_eq!(envoy.get_request_header_value("raw").expect("there").as_slice(), b"\xff\x00\xfe");
        assert_eq!(envoy.get_request_header_value("empty").expect("there").as_slice(), b"");
        assert!(envoy.get_request_header_value("none").is_none());
        assert_eq!(envoy.get_request_header_value("many").expect("there").as_slice(), b"1");
        envoy.visit_response_headers(&mut |name, _| assert_eq!(name, b"x"));
        assert!(envoy.set_request_header("many", b"only"));
        assert!(envoy.add_request_header("raw", b"second"));
        assert!(!envoy.add_request_header("raw", b""), "Envoy refuses an empty value");
        assert!(envoy.remove_request_header(":path"));
        assert!(envoy.remove_response_header("x"));
        envoy.visit_response_headers(&mut |_, _| panic!("there is none left"));
    });
    let filter = Filter::new(&config());
    filter.add(HeaderType::ResponseHeader, "x", b"y");
    for (name, value) in [(":path", &b"/x"[..]), ("raw", b"\xff\x00\xfe"), ("empty", b"")] {
        filter.add(HeaderType::RequestHeader, name, value);
    }
    for value in [b"1", b"2", b"3"] {
        filter.add(HeaderType::RequestHeader, "many", value);
    }
    filter.request_headers();
    assert_eq!(host::logged(), [], "no assertion above has failed");
    assert_eq!(filter.values(HeaderType::RequestHeader, "many"), [b"only"]);
    assert_eq!(filter.values(HeaderType::RequestHeader, "raw"), [&b"\xff\x00\xfe"[..], b"second"]);
    assert!(filter.values(HeaderType::RequestHeader, ":path").is_empty());
    assert!(filter.values(HeaderType::ResponseHeader, "x").is_empty());
}

#[test]
fn a_header_reads_as_it_is_now_however_often_and_whatever_was_read_before() {
    on("request_headers", |envoy| {
        let read = |envoy: &EnvoyHttpFilterImpl, name: &str| {
            envoy.get_request_header_value(name).map(|value| value.as_slice().to_vec())
        };
        assert_eq!(read(envoy, "many"), Some(b"1".to_vec()), "the first of several");
        assert_eq!((read(envoy, "none"), read(envoy, "late")), (None, None));
        envoy.set_request_header("many", b"set");
        assert_eq!(read(envoy, "many"), Some(b"set".to_vec()));
        envoy.add_request_header("late", b"added");
        assert_eq!(read(envoy, "late"), Some(b"added".to_vec()));
        envoy.remove_request_header("many");
        assert_eq!((read(envoy, "many"), read(envoy, "late")), (None, Some(b"added".to_vec())));
        assert_eq!(read(envoy, "Late"), Some(b"added".to_vec()), "as Envoy does, in any case");
    });
    let filter = Filter::new(&config());
    for value in [b"1", b"2"] {
        filter.add(HeaderType::RequestHeader, "many", value);
    }
    filter.request_headers();
    assert_eq!(host::logged(), [], "no assertion above has failed");
}

#[test]
fn any_number_of_headers_can_be_read() {
    for count in [0, 1, 31, 32, 33, 100] {
        on("request_headers", move |envoy| {
            for number in 0..count {
                let value = envoy.get_request_header_value(&format!("h{number}")).expect("there");
                assert_eq!(value.as_slice(), number.to_string().as_bytes());
            }
            assert!(envoy.get_request_header_value("none").is_none());
        });
        let filter = Filter::new(&config());
        for number in 0..count {
            filter.add(HeaderType::RequestHeader, &format!("h{number}"), number.to_string().as_bytes());
        }
        filter.request_headers();
        assert_eq!(host::logged(), [], "with {count} headers");
    }
}

#[test]
fn a_header_that_is_there_twice_is_told_from_one_that_is_there_once_among_any_number() {
    for count in [0, 28, 29, 100] {
        on("request_headers", |envoy| {
            let told = ["once", "twice", "none"].map(|name| envoy.is_request_header_repeated(name));
            assert_eq!(told, [false, true, false]);
            envoy.add_request_header("once", b"again");
            envoy.set_request_header("twice", b"only");
            let told = ["once", "twice"].map(|name| envoy.is_request_header_repeated(name));
            assert_eq!(told, [true, false], "as the headers are now");
        });
        let filter = Filter::new(&config());
        for number in 0..count {
            filter.add(HeaderType::RequestHeader, &format!("h{number}"), b"x");
        }
        for name in ["twice", "once", "twice"] {
            filter.add(HeaderType::RequestHeader, name, b"x");
        }
        filter.request_headers();
        assert_eq!(host::logged(), [], "with {count} more headers");
    }
}

#[test]
fn the_size_of_all_headers_is_that_of_their_names_and_values_as_they_are_now() {
    for count in [0, 1, 31, 32, 33, 100] {
        on("request_headers", move |envoy| {
            assert_eq!(envoy.get_request_headers_byte_size(), count * 10);
            envoy.set_request_header("more", b"bytes");
            assert_eq!(envoy.get_request_headers_byte_size(), count * 10 + 9);
        });
        let filter = Filter::new(&config());
        for number in 0..count {
            filter.add(HeaderType::RequestHeader, &format!("h{number:03}"), b"\xffvalue");
        }
        filter.request_headers();
        assert_eq!(host::logged(), [], "with {count} headers");
    }
}

#[test]
fn a_hook_is_told_how_much_of_the_body_it_was_called_with() {
    thread_local!(static SIZES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) });
    script(|at, envoy| {
        if at.starts_with("request_") {
            SIZES.with_borrow_mut(|sizes| sizes.push(envoy.get_received_request_body_size()));
        }
    });
    let filter = Filter::new(&config());
    filter.request_headers();
    for size in [16_384, 0, 7] {
        filter.body.set(size);
        assert_eq!(filter.call("request_body"), 0);
    }
    assert_eq!(SIZES.take(), [0, 16_384, 0, 7]);
}

#[test]
fn any_number_of_response_headers_is_visited_each_once_and_in_order() {
    for count in [0, 1, 31, 32, 33, 100] {
        on("response_headers", move |envoy| {
            let mut seen = Vec::new();
            envoy.visit_response_headers(&mut |name, value| seen.push((name.to_vec(), value.to_vec())));
            let header = |n: usize| (format!("h{n}").into_bytes(), n.to_string().into_bytes());
            assert_eq!(seen, (0..count).map(header).collect::<Vec<_>>());
        });
        let filter = Filter::new(&config());
        filter.add(HeaderType::RequestHeader, "request", b"not a response header");
        for number in 0..count {
            filter.add(HeaderType::ResponseHeader, &format!("h{number}"), number.to_string().as_bytes());
        }
        assert_eq!(filter.call("response_headers"), 0);
        assert_eq!(host::logged(), [], "with {count} headers");
    }
}

#[test]
fn a_local_reply_arrives_whole_with_any_number_of_headers() {
    for n in [0, 1, 16, 17, 100] {
        on("request_headers", move |envoy| {
            let names: Vec<String> = (0..n).map(|i| format!("x-{i}")).collect();
            let headers: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"v"[..])).collect();
            envoy.send_response(404, &headers, Some(b"gone"), Some("because"));
            envoy.send_response(204, &[], None, None);
        });
        let filter = Filter::new(&config());
        filter.request_headers();
        let replies = filter.replies.borrow();
        assert_eq!(replies[0].status, 404);
        assert_eq!(replies[0].headers, (0..n).map(|i| (format!("x-{i}"), b"v".to_vec())).collect::<Vec<_>>());
        assert_eq!((replies[0].body.as_slice(), replies[0].details.as_str()), (&b"gone"[..], "because"));
        assert_eq!(replies[1], Reply { status: 204, headers: vec![], body: vec![], details: String::new() });
    }
}

#[test]
fn the_status_of_a_hook_reaches_envoy() {
    script(|_, _| ());
    let filter = Filter::new(&config());
    assert_eq!(filter.request_headers(), 4);
    assert_eq!(filter.call("request_body"), 0);
}

#[test]
fn answers_bodies_trailers_and_what_nothing_listens_to_pass() {
    script(|at, _| assert!(at == "new", "no hook of the module is called"));
    let filter = Filter::new(&config());
    for hook in [
        "request_trailers",
        "response_body",
        "response_trailers",
        "above_high_watermark",
        "below_low_watermark",
        "http_callout_done",
        "http_stream_headers",
        "http_stream_data",
        "http_stream_trailers",
        "http_stream_complete",
        "http_stream_reset",
    ] {
        assert_eq!(filter.call(hook), 0, "{hook}");
    }
    assert!(filter.replies.borrow().is_empty() && filter.resets.borrow().is_empty());
    assert_eq!(host::logged(), []);
}

#[test]
fn a_panic_on_the_way_in_answers_the_request_and_stops_it() {
    let config = config();
    for (hook, status) in
        [("request_headers", STOP_ITERATION), ("request_body", STOP_NO_BUFFER), ("scheduled", 0)]
    {
        let before = panics();
        script(move |at, _| assert!(at != hook, "scripted"));
        let filter = Filter::new(&config);
        filter.on_reply.set(OnReply::CallHooks);
        assert_eq!(filter.call(hook), status, "{hook}");
        assert_eq!(*filter.replies.borrow(), [panic_reply()], "{hook}");
        assert!(panics() > before, "{hook}");
        assert!(
            seen().contains(&"local_reply 500 sandgate_panic".to_owned()),
            "the filter's other hooks still run"
        );
    }
}

#[test]
fn a_panic_on_the_way_out_resets_the_stream() {
    script(|at, _| assert!(at != "response_headers", "scripted"));
    let filter = Filter::new(&config());
    assert_eq!(filter.call("response_headers"), STOP_ITERATION);
    assert_eq!(*filter.resets.borrow(), ["sandgate_panic"]);
    assert!(filter.replies.borrow().is_empty());
}

#[test]
fn a_panic_in_any_other_hook_is_only_reported() {
    let config = config();
    for hook in ["local_reply", "stream_complete"] {
        script(move |at, _| assert!(at != hook, "scripted"));
        let filter = Filter::new(&config);
        host::logged();
        assert_eq!(filter.call(hook), 0);
        assert!(filter.replies.borrow().is_empty() && filter.resets.borrow().is_empty());
        assert_eq!(host::logged().len(), 1, "{hook}");
    }
}

#[test]
fn a_filter_that_could_not_be_made_refuses_its_request() {
    script(|at, _| assert!(at != "new", "scripted"));
    let filter = Filter::new(&config());
    assert!(!filter.module.get().is_null());
    assert_eq!(filter.request_headers(), STOP_ITERATION);
    assert_eq!(*filter.replies.borrow(), [panic_reply()]);
    assert_eq!(filter.call("request_body"), STOP_NO_BUFFER);
    assert_eq!(filter.call("request_trailers"), STOP_ITERATION);
    assert_eq!(filter.call("response_headers"), 0, "somebody else's answer passes");
    filter.call("stream_complete");
}

#[test]
fn a_null_filter_refuses_its_request() {
    let filter = Filter::new(&config());
    filter.destroy();
    assert_eq!(filter.request_headers(), STOP_ITERATION);
    assert_eq!(*filter.replies.borrow(), [panic_reply()]);
}

#[test]
fn the_log_names_hook_and_place_but_repeats_no_formatted_message() {
    script(|at, _| {
        let name = "sécret";
        match at {
            "request_headers" => assert!(name.get(2..).is_some(), "{name}"),
            "scheduled" => panic!("a literal"),
            _ => {}
        }
    });
    let filter = Filter::new(&config());
    host::logged();
    filter.call("request_headers");
    filter.call("scheduled");
    let log: Vec<String> = host::logged().into_iter().map(|(_, message)| message).collect();
    assert_eq!(log.len(), 2);
    assert!(
        log[0].starts_with("http_filter_request_headers: panic at ")
            && log[0].contains("tests/hooks/http.rs:"),
        "{log:?}"
    );
    assert!(!log[0].contains("cret"), "{log:?}");
    assert!(log[1].ends_with(": a literal"), "{log:?}");
}

#[test]
fn a_panic_whose_payload_panics_is_caught_too() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    on("request_headers", |_| std::panic::panic_any(Bomb));
    let filter = Filter::new(&config());
    assert_eq!(filter.request_headers(), STOP_ITERATION);
}

#[test]
fn hooks_nest() {
    script(|at, envoy| {
        note(format!("{at} begins"));
        if at == "request_headers" {
            envoy.send_response(403, &[], None, Some("no"));
            assert!(envoy.get_request_header_value("x").is_none(), "the filter is still usable");
        }
        note(format!("{at} ends"));
    });
    let filter = Filter::new(&config());
    filter.on_reply.set(OnReply::CallHooks);
    seen();
    filter.request_headers();
    assert_eq!(
        seen(),
        [
            "request_headers begins",
            "local_reply 403 no",
            "local_reply begins",
            "local_reply ends",
            "stream_complete begins",
            "stream_complete ends",
            "request_headers ends",
        ]
    );
}

#[test]
fn a_filter_destroyed_inside_its_own_hook_lives_until_the_hook_returns() {
    on("request_headers", |envoy| {
        envoy.send_response(403, &[], None, None);
        note("still here");
    });
    let filter = Filter::new(&config());
    filter.on_reply.set(OnReply::CallHooksAndDestroy);
    seen();
    filter.request_headers();
    assert_eq!(seen(), ["local_reply 403 ", "still here", "dropped"]);
}

#[test]
fn a_filter_destroyed_inside_a_hook_that_panics_is_dropped_once() {
    on("request_headers", |envoy| {
        envoy.send_response(403, &[], None, None);
        panic!("after the end");
    });
    let filter = Filter::new(&config());
    filter.on_reply.set(OnReply::CallHooksAndDestroy);
    seen();
    assert_eq!(filter.request_headers(), STOP_ITERATION);
    assert_eq!(seen(), ["local_reply 403 ", "dropped"]);
}

#[test]
fn a_scheduler_works_from_another_thread_and_outlives_its_filter() {
    thread_local!(static KEPT: RefCell<Option<Box<dyn EnvoyHttpFilterScheduler>>> = const { RefCell::new(None) });
    script(|at, envoy| match at {
        "request_headers" => KEPT.set(Some(Box::new(envoy.new_scheduler()))),
        "scheduled" => envoy.continue_decoding(),
        _ => {}
    });
    let filter = Filter::new(&config());
    filter.request_headers();
    let scheduler = KEPT.take().expect("made");
    let scheduler = std::thread::spawn(move || {
        scheduler.commit(11);
        scheduler
    })
    .join()
    .expect("no panic");
    let queue = filter.queue.clone();
    assert_eq!(queue.drain(), [11]);
    filter.scheduled(11);
    assert_eq!((seen().pop(), filter.continued.get()), (Some("scheduled 11".into()), 1));
    assert_eq!(std::sync::Arc::strong_count(&queue), 3, "the filter's, the scheduler's and ours");
    drop(filter);
    scheduler.commit(12);
    drop(scheduler);
    assert_eq!(std::sync::Arc::strong_count(&queue), 1, "deleted once");
}

#[test]
fn a_config_name_may_be_any_bytes_and_a_config_may_be_null() {
    let config = Config::new(give(b"na\xffme"), NOTHING);
    assert!(!config.module.get().is_null());
    assert_eq!(seen(), ["config \"na\u{fffd}me\" []"]);
    drop(Config::new(NOTHING, NOTHING));
    assert_eq!(seen(), ["config \"\" []"]);
}

#[test]
fn a_config_that_is_rejected_or_panics_is_null() {
    assert!(Config::new(give(b"f"), give(b"reject")).module.get().is_null());
    let before = panics();
    assert!(Config::new(give(b"f"), give(b"panic")).module.get().is_null());
    assert!(panics() > before);
}

thread_local!(static COUNTER: Cell<Option<EnvoyCounterId>> = const { Cell::new(None) });

/// For the module's factory.
pub(crate) fn use_metrics(envoy: &mut EnvoyHttpFilterConfigImpl) {
    COUNTER.set(Some(envoy.define_counter("c").expect("defined")));
}

#[test]
fn a_counter_goes_by_its_id() {
    let config = Config::new(give(b"f"), give(b"metrics"));
    let counter = COUNTER.get().expect("defined");
    on("request_headers", move |envoy| {
        assert_eq!(envoy.increment_counter(counter, 1), Ok(()));
        assert_eq!(envoy.increment_counter(EnvoyCounterId(77), 1), Err(MetricsResult::MetricNotFound));
    });
    Filter::new(&config).request_headers();
    Filter::new(&config).request_headers();
    assert_eq!(host::logged(), [], "no assertion above has failed");
    assert_eq!(*config.metrics.defined.borrow(), ["c"]);
    assert_eq!(config.metrics.value(counter.0), 2);
}

#[test]
fn filter_state_route_and_attributes_reach_envoy() {
    on("request_headers", |envoy| {
        assert!(envoy.set_filter_state_bytes(b"bytes", b"\xff"));
        assert!(envoy.set_filter_state_typed(b"typed", b"value"));
        assert!(!envoy.set_filter_state_typed(b"typed", b""), "Envoy's factory refused");
        assert!(envoy.get_cluster_name().is_none());
        envoy.clear_route_cache();
        assert_eq!(envoy.get_cluster_name().expect("there").as_slice(), b"sandboxes");
        use abi::envoy_dynamic_module_type_attribute_id as AttributeId;
        let source = envoy.get_attribute_string(AttributeId::SourceAddress).expect("there");
        assert_eq!(source.as_slice(), b"10.1.2.3:4");
        assert!(envoy.get_attribute_string(AttributeId::RequestId).is_none());
    });
    let filter = Filter::new(&config());
    filter.request_headers();
    assert_eq!(host::logged(), [], "no assertion above has failed");
    let state = filter.state.borrow();
    assert_eq!((&state[&b"bytes"[..]], &state[&b"typed"[..]]), (&b"\xff".to_vec(), &b"value".to_vec()));
}

#[test]
fn the_module_may_be_loaded_many_times_but_has_its_factories_once() {
    for _ in 0..3 {
        assert_eq!(host::program_init().as_deref(), Some("v0.2.0"));
    }
    fn other(
        _: &mut EnvoyHttpFilterConfigImpl,
        _: &str,
        _: &[u8],
    ) -> Option<Box<dyn HttpFilterConfig<EnvoyHttpFilterImpl>>> {
        None
    }
    assert!(!set_factory_once!(NEW_HTTP_FILTER_CONFIG_FUNCTION, other, "NEW_HTTP_FILTER_CONFIG_FUNCTION"));
}

#[test]
fn a_program_that_says_no_is_not_loaded() {
    crate::module::INIT.set(false);
    assert_eq!(host::program_init(), None);
}
