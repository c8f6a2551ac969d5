//! What the module may ask of a filter and its config.

use std::sync::Arc;

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_attribute_id as AttributeId,
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuf,
    envoy_dynamic_module_type_envoy_http_header as EnvoyHeader,
    envoy_dynamic_module_type_http_body_type as BodyType,
    envoy_dynamic_module_type_http_filter_stream_reset_reason as ResetReason,
    envoy_dynamic_module_type_http_header_type as HeaderType,
    envoy_dynamic_module_type_module_buffer as ModuleBuf,
    envoy_dynamic_module_type_module_http_header as ModuleHeader,
};

use super::super::{Bytes, Metrics, NOTHING, P, give, take};
use super::{
    Config, Filter, OnReply, Queue, Reply, envoy_dynamic_module_on_http_filter_local_reply,
    envoy_dynamic_module_on_http_filter_stream_complete,
};

unsafe fn filter<'a>(p: P) -> &'a Filter {
    unsafe { &*p.cast::<Filter>() }
}

unsafe fn metrics<'a>(p: P) -> &'a Metrics {
    unsafe { &filter(p).config.metrics }
}

unsafe fn config_metrics<'a>(p: P) -> &'a Metrics {
    unsafe { &(*p.cast::<Config>()).metrics }
}

crate::metrics_callbacks!(config_metrics;
    define envoy_dynamic_module_callback_http_filter_config_define_counter; add; set);
crate::metrics_callbacks!(metrics; define; add envoy_dynamic_module_callback_http_filter_increment_counter; set);

unsafe fn take_headers(list: *const ModuleHeader, n: usize) -> Vec<(String, Bytes)> {
    let one = |h: ModuleHeader| unsafe {
        let name = take(ModuleBuf { ptr: h.key_ptr, length: h.key_length });
        (
            String::from_utf8(name).expect("UTF-8"),
            take(ModuleBuf { ptr: h.value_ptr, length: h.value_length }),
        )
    };
    (0..n).map(|i| one(unsafe { *list.add(i) })).collect()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_get_header(
    p: P,
    kind: HeaderType,
    key: ModuleBuf,
    result: *mut EnvoyBuf,
    index: usize,
    count: *mut usize,
) -> bool {
    let (filter, key) = unsafe { (filter(p), take(key)) };
    let headers = filter.headers.borrow();
    let mut found = headers[kind as usize].iter().filter(|(name, _)| *name == key);
    if !count.is_null() {
        unsafe { *count = found.clone().count() };
    }
    let value = found.nth(index);
    unsafe { *result = value.map_or(NOTHING, |(_, value)| give(value)) };
    value.is_some()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_get_headers_size(p: P, kind: HeaderType) -> usize {
    unsafe { filter(p) }.headers.borrow()[kind as usize].len()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_get_headers(
    p: P,
    kind: HeaderType,
    result: *mut EnvoyHeader,
) -> bool {
    for (i, (name, value)) in unsafe { filter(p) }.headers.borrow()[kind as usize].iter().enumerate() {
        let (name, value) = (give(name), give(value));
        let header = EnvoyHeader {
            key_ptr: name.ptr,
            key_length: name.length,
            value_ptr: value.ptr,
            value_length: value.length,
        };
        unsafe { *result.add(i) = header };
    }
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_add_header(
    p: P,
    kind: HeaderType,
    key: ModuleBuf,
    value: ModuleBuf,
) -> bool {
    let (key, value) = unsafe { (take(key), take(value)) };
    if value.is_empty() {
        return false;
    }
    unsafe { filter(p) }.headers.borrow_mut()[kind as usize].push((key, value));
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_set_header(
    p: P,
    kind: HeaderType,
    key: ModuleBuf,
    value: ModuleBuf,
) -> bool {
    let (key, value) = unsafe { (take(key), take(value)) };
    let list = &mut unsafe { filter(p) }.headers.borrow_mut()[kind as usize];
    list.retain(|(name, _)| *name != key);
    if !value.is_empty() {
        list.push((key, value));
    }
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_send_response(
    p: P,
    status: u32,
    headers: *mut ModuleHeader,
    n: usize,
    body: ModuleBuf,
    details: ModuleBuf,
) {
    let filter = unsafe { filter(p) };
    let details = unsafe { take(details) };
    filter.replies.borrow_mut().push(Reply {
        status,
        headers: unsafe { take_headers(headers, n) },
        body: unsafe { take(body) },
        details: String::from_utf8(details.clone()).expect("UTF-8"),
    });
    if filter.on_reply.get() == OnReply::Nothing {
        return;
    }
    unsafe {
        envoy_dynamic_module_on_http_filter_local_reply(
            p,
            filter.module.get(),
            status,
            give(&details),
            false,
        );
        envoy_dynamic_module_on_http_filter_stream_complete(p, filter.module.get());
    }
    if filter.on_reply.get() == OnReply::CallHooksAndDestroy {
        filter.destroy();
    }
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_reset_stream(
    p: P,
    _reason: ResetReason,
    details: ModuleBuf,
) {
    let details = String::from_utf8(unsafe { take(details) }).expect("UTF-8");
    unsafe { filter(p) }.resets.borrow_mut().push(details);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_set_filter_state_bytes(
    p: P,
    key: ModuleBuf,
    value: ModuleBuf,
) -> bool {
    unsafe { filter(p).state.borrow_mut().insert(take(key), take(value)) };
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_continue_decoding(p: P) {
    let continued = &unsafe { filter(p) }.continued;
    continued.set(continued.get() + 1);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_scheduler_new(p: P) -> P {
    Arc::into_raw(unsafe { filter(p) }.queue.clone()).cast_mut().cast()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_scheduler_commit(s: P, event: u64) {
    unsafe { &*s.cast::<Queue>() }.0.lock().expect("not poisoned").push(event);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_scheduler_delete(s: P) {
    drop(unsafe { Arc::from_raw(s.cast::<Queue>()) });
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_set_filter_state_typed(
    p: P,
    key: ModuleBuf,
    value: ModuleBuf,
) -> bool {
    let value = unsafe { take(value) };
    if value.is_empty() {
        return false;
    }
    unsafe { filter(p).state.borrow_mut().insert(take(key), value) };
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
    _p: P,
    id: AttributeId,
    result: *mut EnvoyBuf,
) -> bool {
    let found = id == AttributeId::SourceAddress;
    unsafe { *result = if found { give(b"10.1.2.3:4") } else { NOTHING } };
    found
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_get_cluster_name(p: P, result: *mut EnvoyBuf) -> bool {
    let routed = unsafe { filter(p) }.route_choices.get() > 0;
    unsafe { *result = if routed { give(b"sandboxes") } else { NOTHING } };
    routed
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_clear_route_cache(p: P) {
    let choices = &unsafe { filter(p) }.route_choices;
    choices.set(choices.get() + 1);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_get_body_size(p: P, kind: BodyType) -> usize {
    assert_eq!(kind, BodyType::ReceivedRequestBody, "nothing else is asked for");
    unsafe { filter(p) }.received.get()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_get_most_specific_route_config(p: P) -> *const std::ffi::c_void {
    unsafe { filter(p) }.route_config.get()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_config_generic_secret_subscribe(
    p: P,
    name: ModuleBuf,
    source: ModuleBuf,
) -> usize {
    let config = unsafe { &*p.cast::<Config>() };
    let [name, source] = [name, source].map(|lent| unsafe { take(lent) });
    if name.is_empty() || config.metrics.frozen.get() {
        return 0;
    }
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let mut secrets = config.secrets.borrow_mut();
    secrets.push((text(name), text(source), Vec::new()));
    secrets.len()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_get_generic_secret(
    p: P,
    id: usize,
    result: *mut EnvoyBuf,
) -> bool {
    let config = &unsafe { filter(p) }.config;
    let secrets = config.secrets.borrow();
    let value = id.checked_sub(1).and_then(|at| secrets.get(at)).map(|(_, _, value)| value);
    unsafe { *result = value.map_or(NOTHING, |value| give(value)) };
    value.is_some()
}
