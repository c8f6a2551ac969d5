//! Callbacks of the HTTP filter. A call with a filter belongs to the worker thread that runs the filter, a
//! call with a filter config to the main thread; only a scheduler's `commit` and `delete` may come from any
//! thread.

use super::{
    callbacks, envoy_dynamic_module_type_attribute_id as AttributeId,
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuffer,
    envoy_dynamic_module_type_envoy_http_header as EnvoyHttpHeader,
    envoy_dynamic_module_type_http_body_type as HttpBodyType,
    envoy_dynamic_module_type_http_filter_config_envoy_ptr as HttpFilterConfigEnvoyPtr,
    envoy_dynamic_module_type_http_filter_envoy_ptr as HttpFilterEnvoyPtr,
    envoy_dynamic_module_type_http_filter_per_route_config_module_ptr as HttpFilterPerRouteConfigModulePtr,
    envoy_dynamic_module_type_http_filter_scheduler_module_ptr as HttpFilterSchedulerModulePtr,
    envoy_dynamic_module_type_http_filter_stream_reset_reason as HttpFilterStreamResetReason,
    envoy_dynamic_module_type_http_header_type as HttpHeaderType,
    envoy_dynamic_module_type_module_buffer as ModuleBuffer,
    envoy_dynamic_module_type_module_http_header as ModuleHttpHeader,
};

callbacks! {
    HTTP;

    fn envoy_dynamic_module_callback_http_get_header(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        header_type: HttpHeaderType,
        key: ModuleBuffer,
        result_buffer: *mut EnvoyBuffer,
        index: usize,
        optional_size: *mut usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_headers_size(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        header_type: HttpHeaderType,
    ) -> usize;
    fn envoy_dynamic_module_callback_http_get_headers(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        header_type: HttpHeaderType,
        result_headers: *mut EnvoyHttpHeader,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_add_header(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        header_type: HttpHeaderType,
        key: ModuleBuffer,
        value: ModuleBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_set_header(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        header_type: HttpHeaderType,
        key: ModuleBuffer,
        value: ModuleBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_send_response(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        status_code: u32,
        headers_vector: *mut ModuleHttpHeader,
        headers_vector_size: usize,
        body: ModuleBuffer,
        details: ModuleBuffer,
    );
    fn envoy_dynamic_module_callback_http_set_filter_state_bytes(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        key: ModuleBuffer,
        value: ModuleBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_set_filter_state_typed(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        key: ModuleBuffer,
        value: ModuleBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_scheduler_new(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
    ) -> HttpFilterSchedulerModulePtr;
    fn envoy_dynamic_module_callback_http_filter_scheduler_commit(
        scheduler_module_ptr: HttpFilterSchedulerModulePtr,
        event_id: u64,
    );
    fn envoy_dynamic_module_callback_http_filter_scheduler_delete(
        scheduler_module_ptr: HttpFilterSchedulerModulePtr,
    );
    fn envoy_dynamic_module_callback_http_clear_route_cache(filter_envoy_ptr: HttpFilterEnvoyPtr);
    fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        attribute_id: AttributeId,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_continue_decoding(filter_envoy_ptr: HttpFilterEnvoyPtr);
    fn envoy_dynamic_module_callback_http_get_cluster_name(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_reset_stream(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        reason: HttpFilterStreamResetReason,
        details: ModuleBuffer,
    );
    fn envoy_dynamic_module_callback_http_filter_config_define_counter(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
        name: ModuleBuffer,
        label_names: *mut ModuleBuffer,
        label_names_length: usize,
        counter_id_ptr: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_increment_counter(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_get_body_size(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        body_type: HttpBodyType,
    ) -> usize;
    fn envoy_dynamic_module_callback_get_most_specific_route_config(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
    ) -> HttpFilterPerRouteConfigModulePtr;
    fn envoy_dynamic_module_callback_http_filter_config_generic_secret_subscribe(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
        name: ModuleBuffer,
        sds_config_source: ModuleBuffer,
    ) -> usize;
    fn envoy_dynamic_module_callback_http_filter_get_generic_secret(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        id: usize,
        result: *mut EnvoyBuffer,
    ) -> bool;
}
