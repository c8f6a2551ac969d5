//! Holds this crate's idea of the ABI against the pinned Envoy and the built module, by their symbol tables.
//!
//! A module that references one callback Envoy does not export is refused as a whole, and one that misses a
//! hook Envoy requires is refused when the extension point is configured. Neither shows up when the module is
//! compiled. The tests need two files, which `make test` names in the environment: `SANDGATE_ENVOY`, the
//! Envoy executable of the version in `envoy/VERSION`, and `SANDGATE_MODULE`, the `cdylib` to be loaded into
//! it.

mod elf;

use std::collections::BTreeSet;

use elf::Symbols;
use envoy_proxy_dynamic_modules_rust_sdk::abi;

const HOOK: &str = "envoy_dynamic_module_on_";
const CALLBACK: &str = "envoy_dynamic_module_callback_";
const PROGRAM_INIT: &str = "envoy_dynamic_module_on_program_init";

/// What Envoy looks up and insists on, without the prefix. The HTTP filter's were found by removing each from
/// a working module and loading it into Envoy 1.40.0; the others are the lookups that fail the configuration
/// in Envoy's `bootstrap/dynamic_modules/extension_config.cc`,
/// `filters/network/dynamic_modules/filter_config.cc` and `clusters/dynamic_modules/cluster.cc`.
const REQUIRED: &[&str] = &[
    "program_init",
    "http_filter_config_new",
    "http_filter_config_destroy",
    "http_filter_new",
    "http_filter_destroy",
    "http_filter_request_headers",
    "http_filter_request_body",
    "http_filter_request_trailers",
    "http_filter_response_headers",
    "http_filter_response_body",
    "http_filter_response_trailers",
    "http_filter_stream_complete",
    "http_filter_scheduled",
    "http_filter_http_callout_done",
    "http_filter_http_stream_headers",
    "http_filter_http_stream_data",
    "http_filter_http_stream_trailers",
    "http_filter_http_stream_complete",
    "http_filter_http_stream_reset",
    "http_filter_downstream_above_write_buffer_high_watermark",
    "http_filter_downstream_below_write_buffer_low_watermark",
    "bootstrap_extension_config_new",
    "bootstrap_extension_config_destroy",
    "bootstrap_extension_new",
    "bootstrap_extension_server_initialized",
    "bootstrap_extension_worker_thread_initialized",
    "bootstrap_extension_destroy",
    "bootstrap_extension_drain_started",
    "bootstrap_extension_shutdown",
    "bootstrap_extension_config_scheduled",
    "bootstrap_extension_http_callout_done",
    "bootstrap_extension_timer_fired",
    "bootstrap_extension_file_changed",
    "bootstrap_extension_admin_request",
    "bootstrap_extension_cluster_add_or_update",
    "bootstrap_extension_cluster_removal",
    "bootstrap_extension_listener_add_or_update",
    "bootstrap_extension_listener_removal",
    "network_filter_config_new",
    "network_filter_config_destroy",
    "network_filter_new",
    "network_filter_new_connection",
    "network_filter_read",
    "network_filter_write",
    "network_filter_event",
    "network_filter_destroy",
    "cluster_config_new",
    "cluster_config_destroy",
    "cluster_new",
    "cluster_init",
    "cluster_destroy",
    "cluster_lb_new",
    "cluster_lb_destroy",
    "cluster_lb_choose_host",
];

/// The file a variable names.
fn file(variable: &str, what: &str) -> Vec<u8> {
    let path =
        std::env::var_os(variable).unwrap_or_else(|| panic!("set {variable} to {what}; `make test` does it"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{variable}={}: {error}", path.display()))
}

fn envoy() -> Vec<u8> {
    file("SANDGATE_ENVOY", "the Envoy executable of the version in envoy/VERSION")
}

fn module() -> Symbols {
    Symbols::read(&file("SANDGATE_MODULE", "the built module (a .so)"))
}

fn starting_with(prefix: &str, names: &BTreeSet<String>) -> BTreeSet<String> {
    names.iter().filter(|name| name.starts_with(prefix)).cloned().collect()
}

fn flat(groups: &[&[&str]]) -> BTreeSet<String> {
    groups.concat().iter().map(ToString::to_string).collect()
}

fn missing(wanted: &BTreeSet<String>, there: &BTreeSet<String>) -> Vec<String> {
    wanted.difference(there).cloned().collect()
}

#[test]
fn envoy_exports_every_callback_this_crate_may_call() {
    let callbacks = flat(abi::CALLBACKS);
    assert!(callbacks.len() > 40, "the list is not empty by accident");
    assert_eq!(missing(&callbacks, &Symbols::read(&envoy()).defined), [] as [&str; 0]);
}

#[test]
fn envoy_speaks_the_same_version_of_the_abi() {
    let version = [b"\0", &abi::envoy_dynamic_modules_abi_version[..]].concat();
    let found = envoy().windows(version.len()).any(|bytes| bytes == version);
    assert!(found, "Envoy does not contain {:?}", String::from_utf8_lossy(&version));
}

#[test]
fn the_module_exports_every_hook_envoy_requires() {
    let required = REQUIRED.iter().map(|name| format!("{HOOK}{name}")).collect();
    assert_eq!(missing(&required, &module().defined), [] as [&str; 0]);
}

#[test]
fn the_module_exports_this_crates_hooks_and_no_others() {
    let mut hooks = flat(abi::HOOKS);
    hooks.insert(PROGRAM_INIT.to_owned());
    assert_eq!(starting_with(HOOK, &module().defined), hooks);
}

/// A declared callback that no module calls is code to cut.
#[test]
fn the_module_calls_every_callback_this_crate_declares() {
    assert_eq!(missing(&flat(abi::CALLBACKS), &module().undefined), [] as [&str; 0]);
}

#[test]
fn the_module_calls_nothing_that_envoy_does_not_export() {
    let used = starting_with(CALLBACK, &module().undefined);
    assert!(!used.is_empty(), "the module calls Envoy");
    assert_eq!(missing(&used, &flat(abi::CALLBACKS)), [] as [&str; 0], "declared");
    assert_eq!(missing(&used, &Symbols::read(&envoy()).defined), [] as [&str; 0], "exported");
}
