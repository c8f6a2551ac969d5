use super::leads_to;

fn own(target: &str, addresses: &[&str]) -> bool {
    let addresses = addresses.iter().map(|address| address.parse().expect("an address"));
    leads_to(target.parse().expect("an address"), addresses)
}

#[test]
fn an_address_is_own_by_ip_and_port() {
    assert!(own("10.1.2.3:7788", &["10.1.2.3:7788"]));
    assert!(own("[::ffff:10.1.2.3]:7788", &["127.0.0.1:9901", "10.1.2.3:7788"]));
    assert!(!own("10.1.2.3:80", &["10.1.2.3:7788"]), "another port of the same machine");
    assert!(!own("10.1.2.4:7788", &["10.1.2.3:7788"]), "another machine");
    assert!(!own("10.1.2.3:80", &[]));
}

#[test]
fn an_unspecified_address_is_every_address_of_this_machine_and_no_other() {
    assert!(own("127.0.0.1:7788", &["0.0.0.0:7788"]));
    assert!(own("0.0.0.0:7788", &["0.0.0.0:7788"]));
    assert!(own("127.0.0.1:7788", &["[::]:7788"]));
    assert!(!own("127.0.0.1:80", &["0.0.0.0:7788"]));
    // An address for documentation: no machine has it.
    assert!(!own("192.0.2.7:7788", &["0.0.0.0:7788"]));
}
