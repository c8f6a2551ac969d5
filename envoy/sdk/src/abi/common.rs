//! Callbacks of no particular extension point. All may be called from any thread, except the two server
//! queries, which belong to the main thread.

use super::{
    callbacks, envoy_dynamic_module_type_log_level as LogLevel,
    envoy_dynamic_module_type_module_buffer as ModuleBuffer,
};

callbacks! {
    COMMON;

    fn envoy_dynamic_module_callback_log(level: LogLevel, message: ModuleBuffer);
    fn envoy_dynamic_module_callback_log_enabled(level: LogLevel) -> bool;
}
