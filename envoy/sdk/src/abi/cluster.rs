//! Callbacks of the cluster extension. A call with a cluster belongs to the main thread, a call with a load balancer, its
//! context or its timers to the worker thread that owns the load balancer; a scheduler's `commit` and `delete`, the
//! completion of an asynchronous host selection and the recording of metrics may come from any thread.
//!
//! `use_persistent_host_map` is in Envoy 1.40.0 but not yet in the ABI header of the official binding's snapshot.

use super::{
    callbacks, envoy_dynamic_module_type_cluster_config_envoy_ptr as ClusterConfigEnvoyPtr,
    envoy_dynamic_module_type_cluster_envoy_ptr as ClusterEnvoyPtr,
    envoy_dynamic_module_type_cluster_host_envoy_ptr as ClusterHostEnvoyPtr,
    envoy_dynamic_module_type_cluster_lb_context_envoy_ptr as ClusterLbContextEnvoyPtr,
    envoy_dynamic_module_type_cluster_lb_envoy_ptr as ClusterLbEnvoyPtr,
    envoy_dynamic_module_type_cluster_scheduler_module_ptr as ClusterSchedulerModulePtr,
    envoy_dynamic_module_type_cluster_worker_timer_module_ptr as ClusterWorkerTimerModulePtr,
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuffer,
    envoy_dynamic_module_type_envoy_http_header as EnvoyHttpHeader,
    envoy_dynamic_module_type_host_health as HostHealth,
    envoy_dynamic_module_type_module_buffer as ModuleBuffer,
    envoy_dynamic_module_type_packed_address as PackedAddress,
};

callbacks! {
    CLUSTER;

    fn envoy_dynamic_module_callback_cluster_add_hosts(
        cluster_envoy_ptr: ClusterEnvoyPtr,
        priority: u32,
        addresses: *const ModuleBuffer,
        weights: *const u32,
        regions: *const ModuleBuffer,
        zones: *const ModuleBuffer,
        sub_zones: *const ModuleBuffer,
        metadata_pairs: *const ModuleBuffer,
        metadata_pairs_per_host: usize,
        count: usize,
        result_host_ptrs: *mut ClusterHostEnvoyPtr,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_add_hosts_with_hostnames(
        cluster_envoy_ptr: ClusterEnvoyPtr,
        priority: u32,
        addresses: *const ModuleBuffer,
        hostnames: *const ModuleBuffer,
        weights: *const u32,
        regions: *const ModuleBuffer,
        zones: *const ModuleBuffer,
        sub_zones: *const ModuleBuffer,
        metadata_pairs: *const ModuleBuffer,
        metadata_pairs_per_host: usize,
        count: usize,
        result_host_ptrs: *mut ClusterHostEnvoyPtr,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_remove_hosts(
        cluster_envoy_ptr: ClusterEnvoyPtr,
        host_envoy_ptrs: *const ClusterHostEnvoyPtr,
        count: usize,
    ) -> usize;
    fn envoy_dynamic_module_callback_cluster_update_host_health(
        cluster_envoy_ptr: ClusterEnvoyPtr,
        host_envoy_ptr: ClusterHostEnvoyPtr,
        health_status: HostHealth,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_find_host_by_address(
        cluster_envoy_ptr: ClusterEnvoyPtr,
        address: ModuleBuffer,
    ) -> ClusterHostEnvoyPtr;
    fn envoy_dynamic_module_callback_cluster_pre_init_complete(cluster_envoy_ptr: ClusterEnvoyPtr);
    fn envoy_dynamic_module_callback_cluster_scheduler_new(
        cluster_envoy_ptr: ClusterEnvoyPtr,
    ) -> ClusterSchedulerModulePtr;
    fn envoy_dynamic_module_callback_cluster_scheduler_commit(
        scheduler_module_ptr: ClusterSchedulerModulePtr,
        event_id: u64,
    );
    fn envoy_dynamic_module_callback_cluster_scheduler_delete(
        scheduler_module_ptr: ClusterSchedulerModulePtr,
    );
    fn envoy_dynamic_module_callback_cluster_run_on_all_workers(
        cluster_envoy_ptr: ClusterEnvoyPtr,
        event_id: u64,
    );
    fn envoy_dynamic_module_callback_cluster_get_name(
        cluster_envoy_ptr: ClusterEnvoyPtr,
        result: *mut EnvoyBuffer,
    );
    fn envoy_dynamic_module_callback_cluster_lb_get_healthy_host_count(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
    ) -> usize;
    fn envoy_dynamic_module_callback_cluster_lb_get_healthy_host(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
        index: usize,
    ) -> ClusterHostEnvoyPtr;
    fn envoy_dynamic_module_callback_cluster_lb_get_cluster_name(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        result: *mut EnvoyBuffer,
    );
    fn envoy_dynamic_module_callback_cluster_lb_get_hosts_count(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
    ) -> usize;
    fn envoy_dynamic_module_callback_cluster_lb_get_degraded_hosts_count(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
    ) -> usize;
    fn envoy_dynamic_module_callback_cluster_lb_get_priority_set_size(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
    ) -> usize;
    fn envoy_dynamic_module_callback_cluster_lb_get_healthy_host_address(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
        index: usize,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_get_healthy_host_weight(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
        index: usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_lb_get_host_health(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
        index: usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_lb_get_host_health_by_address(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        address: ModuleBuffer,
        result: *mut u32,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_find_host_by_address(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        address: ModuleBuffer,
    ) -> ClusterHostEnvoyPtr;
    fn envoy_dynamic_module_callback_cluster_lb_get_host(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
        index: usize,
    ) -> ClusterHostEnvoyPtr;
    fn envoy_dynamic_module_callback_cluster_lb_get_host_address(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
        index: usize,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_get_host_weight(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
        index: usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_lb_get_member_update_host(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        index: usize,
        is_added: bool,
    ) -> ClusterHostEnvoyPtr;
    fn envoy_dynamic_module_callback_cluster_lb_get_member_update_host_address(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        index: usize,
        is_added: bool,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_get_member_update_host_packed_address(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        index: usize,
        is_added: bool,
        result: *mut PackedAddress,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_compute_hash_key(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        hash_out: *mut u64,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_get_downstream_headers_size(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
    ) -> usize;
    fn envoy_dynamic_module_callback_cluster_lb_context_get_downstream_headers(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        result_headers: *mut EnvoyHttpHeader,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_get_downstream_header(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        key: ModuleBuffer,
        result_buffer: *mut EnvoyBuffer,
        index: usize,
        optional_size: *mut usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_get_host_selection_retry_count(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_lb_context_should_select_another_host(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        priority: u32,
        index: usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_get_override_host(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        address: *mut EnvoyBuffer,
        strict: *mut bool,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_get_downstream_connection_sni(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        result_buffer: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_get_filter_state_bytes(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        key: ModuleBuffer,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_set_dynamic_metadata_number(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        ns: ModuleBuffer,
        key: ModuleBuffer,
        value: f64,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_set_dynamic_metadata_string(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        ns: ModuleBuffer,
        key: ModuleBuffer,
        value: ModuleBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_async_host_selection_complete(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        host: ClusterHostEnvoyPtr,
        details: ModuleBuffer,
    );
    fn envoy_dynamic_module_callback_cluster_worker_timer_new(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
    ) -> ClusterWorkerTimerModulePtr;
    fn envoy_dynamic_module_callback_cluster_worker_timer_enable(
        timer_ptr: ClusterWorkerTimerModulePtr,
        delay_milliseconds: u64,
    );
    fn envoy_dynamic_module_callback_cluster_worker_timer_disable(timer_ptr: ClusterWorkerTimerModulePtr);
    fn envoy_dynamic_module_callback_cluster_worker_timer_enabled(
        timer_ptr: ClusterWorkerTimerModulePtr,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_worker_timer_delete(timer_ptr: ClusterWorkerTimerModulePtr);
    fn envoy_dynamic_module_callback_cluster_config_define_counter(
        cluster_config_envoy_ptr: ClusterConfigEnvoyPtr,
        name: ModuleBuffer,
        label_names: *mut ModuleBuffer,
        label_names_length: usize,
        counter_id_ptr: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_define_gauge(
        cluster_config_envoy_ptr: ClusterConfigEnvoyPtr,
        name: ModuleBuffer,
        label_names: *mut ModuleBuffer,
        label_names_length: usize,
        gauge_id_ptr: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_define_histogram(
        cluster_config_envoy_ptr: ClusterConfigEnvoyPtr,
        name: ModuleBuffer,
        label_names: *mut ModuleBuffer,
        label_names_length: usize,
        histogram_id_ptr: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_increment_counter(
        cluster_config_envoy_ptr: ClusterConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_increment_gauge(
        cluster_config_envoy_ptr: ClusterConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_decrement_gauge(
        cluster_config_envoy_ptr: ClusterConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_set_gauge(
        cluster_config_envoy_ptr: ClusterConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_config_record_histogram_value(
        cluster_config_envoy_ptr: ClusterConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_cluster_use_persistent_host_map(cluster_envoy_ptr: ClusterEnvoyPtr);
}
