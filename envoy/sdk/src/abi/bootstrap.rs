//! Callbacks of the bootstrap extension. They belong to the main thread; only a scheduler's `commit` and
//! `delete` may come from any thread.

use super::{
    callbacks,
    envoy_dynamic_module_type_bootstrap_extension_config_envoy_ptr as BootstrapExtensionConfigEnvoyPtr,
    envoy_dynamic_module_type_bootstrap_extension_config_scheduler_module_ptr as BootstrapExtensionConfigSchedulerModulePtr,
    envoy_dynamic_module_type_bootstrap_extension_timer_module_ptr as BootstrapExtensionTimerModulePtr,
    envoy_dynamic_module_type_module_buffer as ModuleBuffer,
};

callbacks! {
    BOOTSTRAP;

    fn envoy_dynamic_module_callback_bootstrap_extension_config_scheduler_new(
        extension_config_envoy_ptr: BootstrapExtensionConfigEnvoyPtr,
    ) -> BootstrapExtensionConfigSchedulerModulePtr;
    fn envoy_dynamic_module_callback_bootstrap_extension_config_scheduler_commit(
        scheduler_module_ptr: BootstrapExtensionConfigSchedulerModulePtr,
        event_id: u64,
    );
    fn envoy_dynamic_module_callback_bootstrap_extension_config_scheduler_delete(
        scheduler_module_ptr: BootstrapExtensionConfigSchedulerModulePtr,
    );
    fn envoy_dynamic_module_callback_bootstrap_extension_config_signal_init_complete(
        extension_config_envoy_ptr: BootstrapExtensionConfigEnvoyPtr,
    );
    fn envoy_dynamic_module_callback_bootstrap_extension_config_define_counter(
        config_envoy_ptr: BootstrapExtensionConfigEnvoyPtr,
        name: ModuleBuffer,
        label_names: *mut ModuleBuffer,
        label_names_length: usize,
        counter_id_ptr: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_bootstrap_extension_config_define_gauge(
        config_envoy_ptr: BootstrapExtensionConfigEnvoyPtr,
        name: ModuleBuffer,
        label_names: *mut ModuleBuffer,
        label_names_length: usize,
        gauge_id_ptr: *mut usize,
    ) -> u32;
    fn envoy_dynamic_module_callback_bootstrap_extension_config_increment_counter(
        config_envoy_ptr: BootstrapExtensionConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_bootstrap_extension_config_set_gauge(
        config_envoy_ptr: BootstrapExtensionConfigEnvoyPtr,
        id: usize,
        label_values: *mut ModuleBuffer,
        label_values_length: usize,
        value: u64,
    ) -> u32;
    fn envoy_dynamic_module_callback_bootstrap_extension_timer_new(
        extension_config_envoy_ptr: BootstrapExtensionConfigEnvoyPtr,
    ) -> BootstrapExtensionTimerModulePtr;
    fn envoy_dynamic_module_callback_bootstrap_extension_timer_enable(
        timer_ptr: BootstrapExtensionTimerModulePtr,
        delay_milliseconds: u64,
    );
    fn envoy_dynamic_module_callback_bootstrap_extension_timer_delete(
        timer_ptr: BootstrapExtensionTimerModulePtr,
    );
    fn envoy_dynamic_module_callback_bootstrap_extension_admin_set_response(
        extension_config_envoy_ptr: BootstrapExtensionConfigEnvoyPtr,
        response_body: ModuleBuffer,
    );
    fn envoy_dynamic_module_callback_bootstrap_extension_register_admin_handler(
        extension_config_envoy_ptr: BootstrapExtensionConfigEnvoyPtr,
        path_prefix: ModuleBuffer,
        help_text: ModuleBuffer,
        removable: bool,
        mutates_server_state: bool,
    ) -> bool;
}
