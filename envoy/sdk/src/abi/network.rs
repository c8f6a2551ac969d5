//! Callbacks of the network filter. A call with a filter belongs to the worker thread that has the
//! connection, a call with a filter config to the main thread.

use super::{
    callbacks, envoy_dynamic_module_type_envoy_buffer as EnvoyBuffer,
    envoy_dynamic_module_type_module_buffer as ModuleBuffer,
    envoy_dynamic_module_type_network_connection_close_type as CloseType,
    envoy_dynamic_module_type_network_filter_config_envoy_ptr as ConfigEnvoyPtr,
    envoy_dynamic_module_type_network_filter_envoy_ptr as FilterEnvoyPtr,
};

callbacks! {
    NETWORK;

    fn envoy_dynamic_module_callback_network_filter_close(
        filter_envoy_ptr: FilterEnvoyPtr,
        close_type: CloseType,
    );
    fn envoy_dynamic_module_callback_network_filter_get_remote_address(
        filter_envoy_ptr: FilterEnvoyPtr,
        address_out: *mut EnvoyBuffer,
        port_out: *mut u32,
    ) -> bool;
    fn envoy_dynamic_module_callback_network_filter_config_define_counter(
        config_envoy_ptr: ConfigEnvoyPtr,
        name: ModuleBuffer,
        counter_id_ptr: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_network_filter_increment_counter(
        filter_envoy_ptr: FilterEnvoyPtr,
        id: usize,
        value: u64,
    ) -> u32;
}
