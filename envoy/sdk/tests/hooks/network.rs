//! The network filter's hooks.

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_network_connection_close_type as CloseType,
    envoy_dynamic_module_type_on_network_filter_data_status as Status,
};
use envoy_proxy_dynamic_modules_rust_sdk::*;

use crate::host;
use crate::host::network::{Config, Connection};
use crate::module::{note, seen};

const CONTINUE: u32 = 0;
const STOP: u32 = 1;

/// The module under test: a config whose name says what its connections do.
pub(crate) fn new_config(
    envoy: &mut EnvoyNetworkFilterConfigImpl,
    name: &str,
    config: &[u8],
) -> Option<Box<dyn NetworkFilterConfig<EnvoyNetworkFilterImpl>>> {
    note(format!("config {name}"));
    let counter = envoy.define_counter("refused").expect("it is the first");
    let does = match config {
        b"reject" => return None,
        b"panic" => panic!("no config"),
        b"refuse" => Does::Refuse,
        b"panic when made" => Does::PanicWhenMade,
        b"panic when begun" => Does::PanicWhenBegun,
        _ => Does::Admit,
    };
    Some(Box::new(Made { does, counter }))
}

#[derive(Clone, Copy)]
enum Does {
    Admit,
    Refuse,
    PanicWhenMade,
    PanicWhenBegun,
}

#[derive(Clone, Copy)]
struct Made {
    does: Does,
    counter: EnvoyCounterId,
}

impl NetworkFilterConfig<EnvoyNetworkFilterImpl> for Made {
    fn new_network_filter(
        &self,
        envoy: &mut EnvoyNetworkFilterImpl,
    ) -> Box<dyn NetworkFilter<EnvoyNetworkFilterImpl>> {
        assert!(!matches!(self.does, Does::PanicWhenMade), "not made");
        let (address, port) = envoy.get_remote_address();
        note(format!("from {address:?} {port}"));
        Box::new(Filter(*self))
    }
}

struct Filter(Made);

impl NetworkFilter<EnvoyNetworkFilterImpl> for Filter {
    fn on_new_connection(&mut self, envoy: &mut EnvoyNetworkFilterImpl) -> Status {
        match self.0.does {
            Does::PanicWhenBegun => panic!("not begun"),
            Does::Refuse => {
                assert_eq!(envoy.increment_counter(self.0.counter, 2), Ok(()));
                assert!(envoy.increment_counter(EnvoyCounterId(77), 1).is_err());
                envoy.close(CloseType::NoFlush);
                Status::StopIteration
            }
            _ => Status::Continue,
        }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        note("dropped");
    }
}

#[test]
fn a_connection_is_admitted_its_bytes_pass_and_its_filter_ends_with_it() {
    let config = Config::new(b"admit").expect("a good config");
    let (connection, status) = Connection::open(&config, Some("10.0.0.1"));
    assert_eq!(status, Some(CONTINUE));
    assert_eq!(connection.serve(), [CONTINUE, CONTINUE]);
    assert_eq!(connection.closed.get(), None);
    assert_eq!(seen(), ["config filter", "from \"10.0.0.1\" 4321"]);
    drop(connection);
    assert_eq!(seen(), ["dropped"]);
    let (_unix, status) = Connection::open(&config, None);
    assert_eq!((status, seen()), (Some(CONTINUE), vec!["from \"\" 0".to_owned()]));
    assert_eq!(host::logged(), []);
}

#[test]
fn a_connection_that_is_refused_is_closed_and_counted() {
    let config = Config::new(b"refuse").expect("a good config");
    let (connection, status) = Connection::open(&config, Some("10.0.0.1"));
    assert_eq!((status, connection.counted.get()), (Some(STOP), 2));
    assert_eq!(connection.closed.get(), Some(CloseType::NoFlush as u32));
    assert_eq!(host::logged(), []);
}

#[test]
fn a_connection_whose_filter_panics_is_closed() {
    let config = Config::new(b"panic when made").expect("a good config");
    let (_connection, status) = Connection::open(&config, Some("10.0.0.1"));
    assert_eq!(status, None, "Envoy closes a connection without a filter");
    let config = Config::new(b"panic when begun").expect("a good config");
    let (connection, status) = Connection::open(&config, Some("10.0.0.1"));
    assert_eq!((status, connection.closed.get()), (Some(STOP), Some(CloseType::NoFlush as u32)));
    assert_eq!(host::logged().len(), 2);
}

#[test]
fn a_config_that_is_rejected_or_panics_is_none() {
    assert!(Config::new(b"reject").is_none());
    assert!(Config::new(b"panic").is_none());
    host::logged();
}
