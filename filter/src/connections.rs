//! The network filter: one client's share of the listener's connections.
//!
//! It stands before Envoy's connection manager and admits or refuses a connection when it begins; bytes pass
//! it untouched. A client is an address, so clients behind one address translation are one client here: where
//! a load balancer in front hides its clients' addresses, give it a large share, or have it send the PROXY
//! protocol.

use std::sync::Arc;

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_network_connection_close_type as CloseType,
    envoy_dynamic_module_type_on_network_filter_data_status as Status,
};
use envoy_proxy_dynamic_modules_rust_sdk::{
    EnvoyCounterId, EnvoyNetworkFilter, EnvoyNetworkFilterConfig, NetworkFilter, NetworkFilterConfig,
    envoy_log_error,
};
use sandgate_config::ConnectionsConfig;

mod shares;

use shares::{Share, Shares};

/// Creates the filter's config. A config that cannot be served is explained in Envoy's log and refused.
pub(crate) fn new_config<EC: EnvoyNetworkFilterConfig, ENF: EnvoyNetworkFilter>(
    envoy: &mut EC,
    _name: &str,
    config: &[u8],
) -> Option<Box<dyn NetworkFilterConfig<ENF>>> {
    let config = match ConnectionsConfig::parse(config) {
        Ok(config) => config,
        Err(error) => {
            envoy_log_error!("sandgate: connections config: {error}");
            return None;
        }
    };
    let Ok(refused) = envoy.define_counter("connections_refused") else {
        envoy_log_error!("sandgate: cannot define the counter connections_refused");
        return None;
    };
    Some(Box::new(Config { shares: Shares::new(config.per_address), refused }))
}

struct Config {
    shares: Arc<Shares>,
    refused: EnvoyCounterId,
}

impl<ENF: EnvoyNetworkFilter> NetworkFilterConfig<ENF> for Config {
    fn new_network_filter(&self, envoy: &mut ENF) -> Box<dyn NetworkFilter<ENF>> {
        let (address, _port) = envoy.get_remote_address();
        // A client without an address, as on a Unix socket, is one of the operator's own.
        let admission = match address.parse() {
            Ok(client) => {
                self.shares.acquire(client).map_or(Admission::Refused(self.refused), Admission::Counted)
            }
            Err(_) => Admission::Uncounted,
        };
        Box::new(Connection(admission))
    }
}

enum Admission {
    Counted(#[expect(dead_code, reason = "given back when it is dropped")] Share),
    Uncounted,
    Refused(EnvoyCounterId),
}

/// One connection, from its beginning to its end.
struct Connection(Admission);

impl<ENF: EnvoyNetworkFilter> NetworkFilter<ENF> for Connection {
    fn on_new_connection(&mut self, envoy: &mut ENF) -> Status {
        let Admission::Refused(counter) = self.0 else { return Status::Continue };
        // The only failure is an unknown ID, and the ID comes from the config.
        let _ = envoy.increment_counter(counter, 1);
        envoy.close(CloseType::NoFlush);
        Status::StopIteration
    }
}
