//! Logging through Envoy's own logger (component `dynamic_modules`), from any thread.
//!
//! A message is formatted only if Envoy would print it. In the unit tests of the crate that uses the macros
//! there is no Envoy, so there they print to stderr.

use crate::abi;
use crate::ffi::lend;

/// Whether Envoy would print a message of this level.
#[inline]
pub fn is_log_enabled(level: abi::envoy_dynamic_module_type_log_level) -> bool {
    // SAFETY: takes an enum by value and may be called from any thread.
    unsafe { abi::envoy_dynamic_module_callback_log_enabled(level) }
}

/// Formats and logs; for the macros, which ask [`is_log_enabled`] first.
#[doc(hidden)]
pub fn log_message(level: abi::envoy_dynamic_module_type_log_level, message: std::fmt::Arguments<'_>) {
    let owned;
    let message = match message.as_str() {
        Some(literal) => literal,
        None => {
            owned = message.to_string();
            &owned
        }
    };
    // SAFETY: Envoy copies the message before the call returns; any thread may log.
    unsafe { abi::envoy_dynamic_module_callback_log(level, lend(message.as_bytes())) };
}

/// Logs at the given level; the arguments after it are those of [`format!`].
#[macro_export]
macro_rules! envoy_log {
    ($level:expr, $($arg:tt)*) => {{
        #[cfg(not(test))]
        {
            let level = $level;
            if $crate::is_log_enabled(level) {
                $crate::log_message(level, ::std::format_args!($($arg)*));
            }
        }
        #[cfg(test)]
        {
            ::std::eprintln!("[{}] {}", ::std::stringify!($level), ::std::format_args!($($arg)*));
        }
    }};
}

/// Logs at level trace; takes the arguments of [`format!`].
#[macro_export]
macro_rules! envoy_log_trace {
    ($($arg:tt)*) => { $crate::envoy_log!($crate::abi::envoy_dynamic_module_type_log_level::Trace, $($arg)*) };
}

/// Logs at level debug; takes the arguments of [`format!`].
#[macro_export]
macro_rules! envoy_log_debug {
    ($($arg:tt)*) => { $crate::envoy_log!($crate::abi::envoy_dynamic_module_type_log_level::Debug, $($arg)*) };
}

/// Logs at level info; takes the arguments of [`format!`].
#[macro_export]
macro_rules! envoy_log_info {
    ($($arg:tt)*) => { $crate::envoy_log!($crate::abi::envoy_dynamic_module_type_log_level::Info, $($arg)*) };
}

/// Logs at level warning; takes the arguments of [`format!`].
#[macro_export]
macro_rules! envoy_log_warn {
    ($($arg:tt)*) => { $crate::envoy_log!($crate::abi::envoy_dynamic_module_type_log_level::Warn, $($arg)*) };
}

/// Logs at level error; takes the arguments of [`format!`].
#[macro_export]
macro_rules! envoy_log_error {
    ($($arg:tt)*) => { $crate::envoy_log!($crate::abi::envoy_dynamic_module_type_log_level::Error, $($arg)*) };
}

/// Logs at level critical; takes the arguments of [`format!`].
#[macro_export]
macro_rules! envoy_log_critical {
    ($($arg:tt)*) => { $crate::envoy_log!($crate::abi::envoy_dynamic_module_type_log_level::Critical, $($arg)*) };
}
