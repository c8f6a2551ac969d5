//! How a module starts: the factories it registers and the macros that register them.
//!
//! Envoy calls `program_init` each time a configuration loads the module, so many times in one process. The
//! factories are registered the first time; the program's own init runs every time.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::bootstrap::{BootstrapExtensionConfig, EnvoyBootstrapExtensionConfig};
use crate::cluster::{ClusterConfig, EnvoyClusterMetrics};
use crate::http::{EnvoyHttpFilterConfigImpl, EnvoyHttpFilterImpl, HttpFilterConfig};
use crate::network::{EnvoyNetworkFilterConfigImpl, EnvoyNetworkFilterImpl, NetworkFilterConfig};

/// Runs when Envoy loads the module; `false` makes the load fail.
pub type ProgramInitFunction = fn() -> bool;

/// Makes the config of an HTTP filter from the filter's name and config bytes; `None` rejects the
/// configuration. Envoy then says only that it failed, so log why first. Runs on the main thread, also in
/// `--mode validate`.
pub type NewHttpFilterConfigFunction<EC, EHF> =
    fn(envoy_filter_config: &mut EC, name: &str, config: &[u8]) -> Option<Box<dyn HttpFilterConfig<EHF>>>;

/// Makes a per-route config of the HTTP filter from the filter's name and config bytes; as
/// [`NewHttpFilterConfigFunction`]. `None` rejects the route configuration.
pub type NewHttpFilterPerRouteConfigFunction =
    fn(name: &str, config: &[u8]) -> Option<Box<dyn Any + Send + Sync>>;

/// Makes the config of a bootstrap extension; as for [`NewHttpFilterConfigFunction`].
pub type NewBootstrapExtensionConfigFunction =
    fn(&mut dyn EnvoyBootstrapExtensionConfig, &str, &[u8]) -> Option<Box<dyn BootstrapExtensionConfig>>;

/// Makes the config of a cluster; as for [`NewHttpFilterConfigFunction`].
pub type NewClusterConfigFunction = fn(
    name: &str,
    config: &[u8],
    envoy_cluster_metrics: Arc<dyn EnvoyClusterMetrics>,
) -> Option<Box<dyn ClusterConfig>>;

/// Makes the config of a network filter; as for [`NewHttpFilterConfigFunction`].
pub type NewNetworkFilterConfigFunction<EC, ENF> =
    fn(envoy_filter_config: &mut EC, name: &str, config: &[u8]) -> Option<Box<dyn NetworkFilterConfig<ENF>>>;

/// The registered HTTP filter factory.
pub static NEW_HTTP_FILTER_CONFIG_FUNCTION: OnceLock<
    NewHttpFilterConfigFunction<EnvoyHttpFilterConfigImpl, EnvoyHttpFilterImpl>,
> = OnceLock::new();

/// The registered factory of per-route configs.
pub static NEW_HTTP_FILTER_PER_ROUTE_CONFIG_FUNCTION: OnceLock<NewHttpFilterPerRouteConfigFunction> =
    OnceLock::new();

/// The registered bootstrap extension factory.
pub static NEW_BOOTSTRAP_EXTENSION_CONFIG_FUNCTION: OnceLock<NewBootstrapExtensionConfigFunction> =
    OnceLock::new();

/// The registered cluster factory.
pub static NEW_CLUSTER_CONFIG_FUNCTION: OnceLock<NewClusterConfigFunction> = OnceLock::new();

/// The registered network filter factory.
pub static NEW_NETWORK_FILTER_CONFIG_FUNCTION: OnceLock<
    NewNetworkFilterConfigFunction<EnvoyNetworkFilterConfigImpl, EnvoyNetworkFilterImpl>,
> = OnceLock::new();

/// Registers a factory; `false` if there is one already.
#[doc(hidden)]
#[macro_export]
macro_rules! set_factory_once {
    ($static:expr, $fn:expr, $name:literal) => {{
        let set = $static.set($fn).is_ok();
        if !set {
            $crate::envoy_log_critical!("{} is already set", $name);
        }
        set
    }};
}

/// Declares what the module offers. The first argument is a [`ProgramInitFunction`]; then any of `bootstrap:`
/// ([`NewBootstrapExtensionConfigFunction`]), `http:` ([`NewHttpFilterConfigFunction`]), `http_per_route:`
/// ([`NewHttpFilterPerRouteConfigFunction`]), `network:` ([`NewNetworkFilterConfigFunction`]) and `cluster:`
/// ([`NewClusterConfigFunction`]).
///
/// ```no_run
/// use envoy_proxy_dynamic_modules_rust_sdk::*;
///
/// declare_all_init_functions!(init, http: new_filter_config);
///
/// fn init() -> bool {
///     true
/// }
///
/// fn new_filter_config<EC: EnvoyHttpFilterConfig, EHF: EnvoyHttpFilter>(
///     _envoy: &mut EC,
///     _name: &str,
///     _config: &[u8],
/// ) -> Option<Box<dyn HttpFilterConfig<EHF>>> {
///     Some(Box::new(Teapot))
/// }
///
/// struct Teapot;
///
/// impl<EHF: EnvoyHttpFilter> HttpFilterConfig<EHF> for Teapot {
///     fn new_http_filter(&self, _envoy: &mut EHF) -> Box<dyn HttpFilter<EHF>> {
///         Box::new(Teapot)
///     }
/// }
///
/// impl<EHF: EnvoyHttpFilter> HttpFilter<EHF> for Teapot {
///     fn on_request_headers(
///         &self,
///         envoy: &mut EHF,
///         _end_of_stream: bool,
///     ) -> abi::envoy_dynamic_module_type_on_http_filter_request_headers_status {
///         envoy.send_response(418, &[("x-pot", b"tea")], Some(b"short and stout\n"), Some("teapot"));
///         abi::envoy_dynamic_module_type_on_http_filter_request_headers_status::StopIteration
///     }
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! declare_all_init_functions {
    ($f:ident, $($filter_type:ident : $filter_fn:expr),+ $(,)?) => {
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub extern "C" fn envoy_dynamic_module_on_program_init() -> *const ::std::ffi::c_char {
            static REGISTERED: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new();
            $crate::program_init(|| {
                let registered = *REGISTERED.get_or_init(|| {
                    $($crate::declare_all_init_functions!(@register $filter_type : $filter_fn) &&)+ true
                });
                registered && $f()
            })
        }
    };
    (@register http : $fn:expr) => {
        $crate::set_factory_once!(
            $crate::NEW_HTTP_FILTER_CONFIG_FUNCTION,
            $fn,
            "NEW_HTTP_FILTER_CONFIG_FUNCTION"
        )
    };
    (@register http_per_route : $fn:expr) => {
        $crate::set_factory_once!(
            $crate::NEW_HTTP_FILTER_PER_ROUTE_CONFIG_FUNCTION,
            $fn,
            "NEW_HTTP_FILTER_PER_ROUTE_CONFIG_FUNCTION"
        )
    };
    (@register network : $fn:expr) => {
        $crate::set_factory_once!(
            $crate::NEW_NETWORK_FILTER_CONFIG_FUNCTION,
            $fn,
            "NEW_NETWORK_FILTER_CONFIG_FUNCTION"
        )
    };
    (@register bootstrap : $fn:expr) => {
        $crate::set_factory_once!(
            $crate::NEW_BOOTSTRAP_EXTENSION_CONFIG_FUNCTION,
            $fn,
            "NEW_BOOTSTRAP_EXTENSION_CONFIG_FUNCTION"
        )
    };
    (@register cluster : $fn:expr) => {
        $crate::set_factory_once!($crate::NEW_CLUSTER_CONFIG_FUNCTION, $fn, "NEW_CLUSTER_CONFIG_FUNCTION")
    };
}
