use std::net::Ipv6Addr;

use clap::Parser as _;
use tokio::net::{TcpListener, TcpStream};

use super::*;

fn ports_of(args: &[&str]) -> Vec<(String, bool, bool)> {
    let args = Args::try_parse_from(["sandgate-operator"].iter().chain(args)).unwrap();
    let all = ports(&args).into_iter();
    all.map(|port| (port.address.to_string(), port.has_probes, port.has_metrics)).collect()
}

fn port(address: &str, has_probes: bool, has_metrics: bool) -> (String, bool, bool) {
    (address.to_owned(), has_probes, has_metrics)
}

#[test]
fn each_port_has_what_its_option_says() {
    let listen = port("127.0.0.1:8090", true, true);
    assert_eq!(ports_of(&[]), std::slice::from_ref(&listen));
    assert_eq!(
        ports_of(&["--health-probe-bind-address=:8081", "--metrics-bind-address=:8443"]),
        [listen.clone(), port("[::]:8081", true, false)],
        "metrics are not served without TLS unless it is said"
    );
    assert_eq!(
        ports_of(&[
            "--health-probe-bind-address=:8081",
            "--metrics-bind-address=10.0.0.1:8080",
            "--metrics-secure=false"
        ]),
        [listen, port("[::]:8081", true, false), port("10.0.0.1:8080", false, true)]
    );
}

#[test]
fn an_address_that_is_given_twice_is_one_port() {
    let both =
        ["--health-probe-bind-address=:8081", "--metrics-bind-address=:8081", "--metrics-secure=false"];
    assert_eq!(ports_of(&both)[1..], [port("[::]:8081", true, true)]);
    let as_in_the_image = ["--listen=0.0.0.0:8090", "--health-probe-bind-address=:8090"];
    assert_eq!(ports_of(&as_in_the_image), [port("[::]:8090", true, true)]);
    // What is for this machine alone is not opened to others: two ports, and the second cannot be had.
    let inside = ["--listen=127.0.0.1:8090", "--health-probe-bind-address=:8090"];
    assert_eq!(ports_of(&inside).len(), 2);
    assert_eq!(ports_of(&["--listen=[::]:0", "--health-probe-bind-address=:0"]).len(), 2, "each a free one");
}

fn every(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))
}

#[tokio::test]
async fn every_address_is_those_of_ipv4_too() {
    let server = everywhere(every(0), Server::bind).await.unwrap();
    let port = server.address().unwrap().port();
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    // Not every machine has IPv6.
    if let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await {
        drop(other);
        TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
    }
}

#[tokio::test]
async fn without_ipv6_every_address_is_those_of_ipv4() {
    let no_ipv6 = async |address: SocketAddr| match address.is_ipv6() {
        // What the kernel says: EAFNOSUPPORT.
        true => Err(io::Error::from_raw_os_error(97)),
        false => Ok(address),
    };
    assert_eq!(everywhere(every(81), &no_ipv6).await.unwrap(), "0.0.0.0:81".parse().unwrap());
    let one = "[::1]:81".parse().unwrap();
    assert_eq!(
        everywhere(one, &no_ipv6).await.unwrap_err().raw_os_error(),
        Some(97),
        "one address is that one"
    );
    let taken = async |address: SocketAddr| match address.is_ipv6() {
        true => Err(io::Error::from(io::ErrorKind::AddrInUse)),
        false => Ok(address),
    };
    assert!(everywhere(every(81), taken).await.is_err(), "somebody else has it");
}
