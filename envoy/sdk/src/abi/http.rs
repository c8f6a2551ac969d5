//! Callbacks of the HTTP filter. A call with a filter belongs to the worker thread that runs the filter, a call with a
//! filter config to the main thread; only a scheduler's `commit` and `delete` may come from any thread.

use super::{
    callbacks, envoy_dynamic_module_type_attribute_id as AttributeId,
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuffer,
    envoy_dynamic_module_type_envoy_http_header as EnvoyHttpHeader,
    envoy_dynamic_module_type_http_body_type as HttpBodyType,
    envoy_dynamic_module_type_http_filter_config_envoy_ptr as HttpFilterConfigEnvoyPtr,
    envoy_dynamic_module_type_http_filter_config_scheduler_module_ptr as HttpFilterConfigSchedulerModulePtr,
    envoy_dynamic_module_type_http_filter_envoy_ptr as HttpFilterEnvoyPtr,
    envoy_dynamic_module_type_http_filter_scheduler_module_ptr as HttpFilterSchedulerModulePtr,
    envoy_dynamic_module_type_http_filter_stream_reset_reason as HttpFilterStreamResetReason,
    envoy_dynamic_module_type_http_header_type as HttpHeaderType,
    envoy_dynamic_module_type_metadata_source as MetadataSource,
    envoy_dynamic_module_type_module_buffer as ModuleBuffer,
    envoy_dynamic_module_type_module_http_header as ModuleHttpHeader,
    envoy_dynamic_module_type_socket_direction as SocketDirection,
    envoy_dynamic_module_type_socket_option_state as SocketOptionState,
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
    fn envoy_dynamic_module_callback_http_get_header_values(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        header_type: HttpHeaderType,
        key: ModuleBuffer,
        result_buffer: *mut EnvoyBuffer,
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
    fn envoy_dynamic_module_callback_http_send_response_headers(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        headers_vector: *mut ModuleHttpHeader,
        headers_vector_size: usize,
        end_stream: bool,
    );
    fn envoy_dynamic_module_callback_http_send_response_data(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        data: ModuleBuffer,
        end_stream: bool,
    );
    fn envoy_dynamic_module_callback_http_send_response_trailers(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        trailers_vector: *mut ModuleHttpHeader,
        trailers_vector_size: usize,
    );
    fn envoy_dynamic_module_callback_http_get_body_size(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        body_type: HttpBodyType,
    ) -> usize;
    fn envoy_dynamic_module_callback_http_get_body_chunks(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        body_type: HttpBodyType,
        result_buffer_vector: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_body_chunks_size(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        body_type: HttpBodyType,
    ) -> usize;
    fn envoy_dynamic_module_callback_http_append_body(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        body_type: HttpBodyType,
        data: ModuleBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_drain_body(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        body_type: HttpBodyType,
        number_of_bytes: usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_received_buffered_request_body(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_received_buffered_response_body(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_set_dynamic_metadata_number(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        ns: ModuleBuffer,
        key: ModuleBuffer,
        value: f64,
    );
    fn envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        ns: ModuleBuffer,
        key: ModuleBuffer,
        value: ModuleBuffer,
    );
    fn envoy_dynamic_module_callback_http_get_metadata_number(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        metadata_source: MetadataSource,
        ns: ModuleBuffer,
        key: ModuleBuffer,
        result: *mut f64,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_metadata_string(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        metadata_source: MetadataSource,
        ns: ModuleBuffer,
        key: ModuleBuffer,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_set_filter_state_bytes(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        key: ModuleBuffer,
        value: ModuleBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_filter_state_bytes(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        key: ModuleBuffer,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_set_filter_state_typed(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        key: ModuleBuffer,
        value: ModuleBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_filter_state_typed(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        key: ModuleBuffer,
        result: *mut EnvoyBuffer,
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
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_new(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
    ) -> HttpFilterConfigSchedulerModulePtr;
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_commit(
        scheduler_module_ptr: HttpFilterConfigSchedulerModulePtr,
        event_id: u64,
    );
    fn envoy_dynamic_module_callback_http_filter_config_scheduler_delete(
        scheduler_module_ptr: HttpFilterConfigSchedulerModulePtr,
    );
    fn envoy_dynamic_module_callback_http_clear_route_cache(filter_envoy_ptr: HttpFilterEnvoyPtr);
    fn envoy_dynamic_module_callback_http_clear_route_cluster_cache(filter_envoy_ptr: HttpFilterEnvoyPtr);
    fn envoy_dynamic_module_callback_http_filter_get_attribute_string(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        attribute_id: AttributeId,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_get_attribute_int(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        attribute_id: AttributeId,
        result: *mut u64,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_get_attribute_bool(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        attribute_id: AttributeId,
        result: *mut bool,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_continue_decoding(filter_envoy_ptr: HttpFilterEnvoyPtr);
    fn envoy_dynamic_module_callback_http_filter_continue_encoding(filter_envoy_ptr: HttpFilterEnvoyPtr);
    fn envoy_dynamic_module_callback_http_filter_get_worker_index(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_set_socket_option_int(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        level: i64,
        name: i64,
        state: SocketOptionState,
        direction: SocketDirection,
        value: i64,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_buffer_limit(filter_envoy_ptr: HttpFilterEnvoyPtr) -> u64;
    fn envoy_dynamic_module_callback_http_set_buffer_limit(filter_envoy_ptr: HttpFilterEnvoyPtr, limit: u64);
    fn envoy_dynamic_module_callback_http_get_cluster_name(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_cluster_host_count(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        priority: u32,
        total_count: *mut usize,
        healthy_count: *mut usize,
        degraded_count: *mut usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_set_upstream_override_host(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        host: ModuleBuffer,
        strict: bool,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_get_upstream_connection_id(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
    ) -> u64;
    fn envoy_dynamic_module_callback_http_filter_reset_stream(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        reason: HttpFilterStreamResetReason,
        details: ModuleBuffer,
    );
    fn envoy_dynamic_module_callback_http_filter_recreate_stream(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        headers: *mut ModuleHttpHeader,
        headers_size: usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_http_filter_config_define_counter(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
        name: ModuleBuffer,
        label_names: *mut ModuleBuffer,
        label_names_length: usize,
        counter_id_ptr: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_define_gauge(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
        name: ModuleBuffer,
        label_names: *mut ModuleBuffer,
        label_names_length: usize,
        gauge_id_ptr: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_define_histogram(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
        name: ModuleBuffer,
        label_names: *mut ModuleBuffer,
        label_names_length: usize,
        histogram_id_ptr: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_increment_counter(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_increment_gauge(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_decrement_gauge(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_set_gauge(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_config_record_histogram_value(
        filter_config_envoy_ptr: HttpFilterConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_increment_counter(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_increment_gauge(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_decrement_gauge(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_set_gauge(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_http_filter_record_histogram_value(
        filter_envoy_ptr: HttpFilterEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
}
