//! What the module may ask of a filter and its config.

use std::sync::Arc;

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_attribute_id as AttributeId,
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuf,
    envoy_dynamic_module_type_envoy_http_header as EnvoyHeader,
    envoy_dynamic_module_type_http_body_type as BodyType,
    envoy_dynamic_module_type_http_filter_stream_reset_reason as ResetReason,
    envoy_dynamic_module_type_http_header_type as HeaderType,
    envoy_dynamic_module_type_metadata_source as MetadataSource,
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
    define envoy_dynamic_module_callback_http_filter_config_define_counter
        envoy_dynamic_module_callback_http_filter_config_define_gauge
        envoy_dynamic_module_callback_http_filter_config_define_histogram;
    add envoy_dynamic_module_callback_http_filter_config_increment_counter
        envoy_dynamic_module_callback_http_filter_config_increment_gauge
        envoy_dynamic_module_callback_http_filter_config_record_histogram_value;
    sub envoy_dynamic_module_callback_http_filter_config_decrement_gauge;
    set envoy_dynamic_module_callback_http_filter_config_set_gauge);
crate::metrics_callbacks!(metrics; define;
    add envoy_dynamic_module_callback_http_filter_increment_counter
        envoy_dynamic_module_callback_http_filter_increment_gauge
        envoy_dynamic_module_callback_http_filter_record_histogram_value;
    sub envoy_dynamic_module_callback_http_filter_decrement_gauge;
    set envoy_dynamic_module_callback_http_filter_set_gauge);

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
extern "C" fn envoy_dynamic_module_callback_http_get_header_values(
    p: P,
    kind: HeaderType,
    key: ModuleBuf,
    result: *mut EnvoyBuf,
) -> bool {
    let (filter, key) = unsafe { (filter(p), take(key)) };
    let headers = filter.headers.borrow();
    for (i, (_, value)) in headers[kind as usize].iter().filter(|(name, _)| *name == key).enumerate() {
        unsafe { *result.add(i) = give(value) };
    }
    true
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
extern "C" fn envoy_dynamic_module_callback_http_get_body_chunks_size(p: P, kind: BodyType) -> usize {
    unsafe { filter(p) }.bodies.borrow()[kind as usize].len()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_get_body_chunks(
    p: P,
    kind: BodyType,
    result: *mut EnvoyBuf,
) -> bool {
    for (i, chunk) in unsafe { filter(p) }.bodies.borrow_mut()[kind as usize].iter_mut().enumerate() {
        let chunk = EnvoyBuf { ptr: chunk.as_mut_ptr().cast_const().cast(), length: chunk.len() };
        unsafe { *result.add(i) = chunk };
    }
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_get_body_size(p: P, kind: BodyType) -> usize {
    unsafe { filter(p) }.bodies.borrow()[kind as usize].iter().map(Vec::len).sum()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_append_body(p: P, kind: BodyType, data: ModuleBuf) -> bool {
    unsafe { filter(p).bodies.borrow_mut()[kind as usize].push(take(data)) };
    true
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
extern "C" fn envoy_dynamic_module_callback_http_get_filter_state_bytes(
    p: P,
    key: ModuleBuf,
    result: *mut EnvoyBuf,
) -> bool {
    let filter = unsafe { filter(p) };
    let state = filter.state.borrow();
    let value = state.get(&unsafe { take(key) });
    unsafe { *result = value.map_or(NOTHING, |value| give(value)) };
    value.is_some()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_get_filter_state_typed(
    p: P,
    key: ModuleBuf,
    result: *mut EnvoyBuf,
) -> bool {
    let filter = unsafe { filter(p) };
    let Some(value) = filter.state.borrow().get(&unsafe { take(key) }).cloned() else { return false };
    // Overwritten first, so that a view of the last value that was not copied reads garbage here, not only under Miri.
    filter.lent.borrow_mut().fill(b'#');
    *filter.lent.borrow_mut() = value;
    unsafe { *result = give(&filter.lent.borrow()) };
    true
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
    p: P,
    ns: ModuleBuf,
    key: ModuleBuf,
    value: ModuleBuf,
) {
    let text = |lent| String::from_utf8(unsafe { take(lent) }).expect("UTF-8");
    unsafe { filter(p) }.metadata.borrow_mut().insert((text(ns), text(key)), text(value));
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_get_metadata_string(
    p: P,
    _source: MetadataSource,
    ns: ModuleBuf,
    key: ModuleBuf,
    result: *mut EnvoyBuf,
) -> bool {
    let text = |lent| String::from_utf8(unsafe { take(lent) }).expect("UTF-8");
    let metadata = unsafe { filter(p) }.metadata.borrow();
    let value = metadata.get(&(text(ns), text(key)));
    unsafe { *result = value.map_or(NOTHING, |value| give(value.as_bytes())) };
    value.is_some()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_get_attribute_int(
    _p: P,
    id: AttributeId,
    result: *mut u64,
) -> bool {
    unsafe { *result = 8080 };
    id == AttributeId::SourcePort
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
extern "C" fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(p: P) -> P {
    Arc::into_raw(unsafe { &*p.cast::<Config>() }.queue.clone()).cast_mut().cast()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(s: P, event: u64) {
    envoy_dynamic_module_callback_http_filter_scheduler_commit(s, event);
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(s: P) {
    envoy_dynamic_module_callback_http_filter_scheduler_delete(s);
}

crate::unused_callbacks! {
    envoy_dynamic_module_callback_http_send_response_headers
    envoy_dynamic_module_callback_http_send_response_data
    envoy_dynamic_module_callback_http_send_response_trailers
    envoy_dynamic_module_callback_http_drain_body
    envoy_dynamic_module_callback_http_received_buffered_request_body
    envoy_dynamic_module_callback_http_received_buffered_response_body
    envoy_dynamic_module_callback_http_set_dynamic_metadata_number
    envoy_dynamic_module_callback_http_get_metadata_number
    envoy_dynamic_module_callback_http_set_filter_state_typed
    envoy_dynamic_module_callback_http_clear_route_cache
    envoy_dynamic_module_callback_http_clear_route_cluster_cache
    envoy_dynamic_module_callback_http_filter_get_attribute_string
    envoy_dynamic_module_callback_http_filter_get_attribute_bool
    envoy_dynamic_module_callback_http_filter_continue_encoding
    envoy_dynamic_module_callback_http_filter_get_worker_index
    envoy_dynamic_module_callback_http_set_socket_option_int
    envoy_dynamic_module_callback_http_get_buffer_limit
    envoy_dynamic_module_callback_http_set_buffer_limit
    envoy_dynamic_module_callback_http_get_cluster_name
    envoy_dynamic_module_callback_http_get_cluster_host_count
    envoy_dynamic_module_callback_http_set_upstream_override_host
    envoy_dynamic_module_callback_http_get_upstream_connection_id
    envoy_dynamic_module_callback_http_filter_recreate_stream
}
