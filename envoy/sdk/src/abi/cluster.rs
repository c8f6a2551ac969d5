//! Callbacks of the cluster extension. A call with a cluster belongs to the main thread, a call with a load
//! balancer, its context or its timers to the worker thread that owns the load balancer; a scheduler's
//! `commit` and `delete`, the completion of an asynchronous host selection and the recording of metrics may
//! come from any thread.
//!
//! `use_persistent_host_map` is in Envoy 1.40.0 but not yet in the ABI header of the official binding's
//! snapshot.

use super::{
    callbacks, envoy_dynamic_module_type_cluster_envoy_ptr as ClusterEnvoyPtr,
    envoy_dynamic_module_type_cluster_host_envoy_ptr as ClusterHostEnvoyPtr,
    envoy_dynamic_module_type_cluster_lb_context_envoy_ptr as ClusterLbContextEnvoyPtr,
    envoy_dynamic_module_type_cluster_lb_envoy_ptr as ClusterLbEnvoyPtr,
    envoy_dynamic_module_type_cluster_scheduler_module_ptr as ClusterSchedulerModulePtr,
    envoy_dynamic_module_type_envoy_buffer as EnvoyBuffer,
    envoy_dynamic_module_type_module_buffer as ModuleBuffer,
    envoy_dynamic_module_type_packed_address as PackedAddress,
};

callbacks! {
    CLUSTER;

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
    fn envoy_dynamic_module_callback_cluster_lb_get_hosts_count(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        priority: u32,
    ) -> usize;
    fn envoy_dynamic_module_callback_cluster_lb_get_priority_set_size(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
    ) -> usize;
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
    fn envoy_dynamic_module_callback_cluster_lb_get_member_update_host(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        index: usize,
        is_added: bool,
    ) -> ClusterHostEnvoyPtr;
    fn envoy_dynamic_module_callback_cluster_lb_get_member_update_host_packed_address(
        lb_envoy_ptr: ClusterLbEnvoyPtr,
        index: usize,
        is_added: bool,
        result: *mut PackedAddress,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_get_downstream_header(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        key: ModuleBuffer,
        result_buffer: *mut EnvoyBuffer,
        index: usize,
        optional_size: *mut usize,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_lb_context_get_filter_state_bytes(
        context_envoy_ptr: ClusterLbContextEnvoyPtr,
        key: ModuleBuffer,
        result: *mut EnvoyBuffer,
    ) -> bool;
    fn envoy_dynamic_module_callback_cluster_use_persistent_host_map(cluster_envoy_ptr: ClusterEnvoyPtr);
}
