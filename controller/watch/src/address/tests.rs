use std::net::IpAddr;

use super::AddressPolicy;

fn policy(ranges: &[&str]) -> AddressPolicy {
    AddressPolicy::new(ranges.iter().map(|range| range.parse().unwrap()))
}

fn admits(policy: &AddressPolicy, ip: &str) -> bool {
    policy.admits(ip.parse::<IpAddr>().unwrap())
}

/// Never admitted, whatever the ranges.
const NEVER: [&str; 16] = [
    "0.0.0.0",
    "0.0.0.1",
    "255.255.255.255",
    "224.0.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "::",
    "ff02::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "::ffff:0.0.0.0",
    "::127.0.0.1",
];

/// Admitted only by a range of their own.
const SPECIAL: [&str; 6] =
    ["127.0.0.1", "127.255.255.255", "169.254.1.1", "::1", "fe80::1", "::ffff:127.0.0.1"];

const ORDINARY: [&str; 6] =
    ["10.1.2.3", "192.168.0.1", "100.64.0.1", "8.8.8.8", "fd00:ec2::255", "2001:db8::1"];

#[test]
fn without_ranges_everything_but_the_special_is_admitted() {
    let policy = AddressPolicy::default();
    assert!(ORDINARY.iter().all(|ip| admits(&policy, ip)));
    for ip in NEVER.iter().chain(&SPECIAL) {
        assert!(!admits(&policy, ip), "{ip}");
    }
}

#[test]
fn a_wide_range_does_not_open_what_is_special() {
    let policy = policy(&["0.0.0.0/0", "::/0"]);
    assert!(ORDINARY.iter().all(|ip| admits(&policy, ip)));
    for ip in NEVER.iter().chain(&SPECIAL) {
        assert!(!admits(&policy, ip), "{ip}");
    }
}

#[test]
fn a_range_inside_a_special_block_opens_it_but_never_metadata() {
    let policy = policy(&["127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10", "ff00::/8", "::/96"]);
    assert!(SPECIAL.iter().all(|ip| admits(&policy, ip)));
    for ip in NEVER.iter().chain(&ORDINARY) {
        assert!(!admits(&policy, ip), "{ip}");
    }
}

#[test]
fn with_ranges_only_what_is_in_one_is_admitted() {
    // Host bits in a range mean nothing.
    let policy = policy(&["10.244.7.9/16", "fd12::/48"]);
    for (ip, expected) in [
        ("10.244.0.1", true),
        ("10.244.255.255", true),
        ("::ffff:10.244.0.1", true),
        ("10.245.0.1", false),
        ("fd12::9", true),
        ("fd12:0:1::9", false),
        ("127.0.0.1", false),
    ] {
        assert_eq!(admits(&policy, ip), expected, "{ip}");
    }
}

#[test]
fn what_is_screened_keeps_an_admitted_address_and_loses_another() {
    use crate::parse_routes;
    let version = "1".parse().unwrap();
    let file = br#"{"routes":[{"name":"good","ip":"10.0.0.1"},{"name":"bad","ip":"169.254.169.254"}]}"#;
    let mut observed = parse_routes(file, crate::Format::Json, &version).unwrap();
    let refused: Vec<_> = observed.iter_mut().map(|o| AddressPolicy::default().screen(o)).collect();
    assert_eq!(refused, [None, Some("169.254.169.254".parse().unwrap())]);
    assert_eq!((observed[0].ip, observed[1].ip), (Some("10.0.0.1".parse().unwrap()), None));
}
