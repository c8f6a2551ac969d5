use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::{AddressPolicy, Refused};
use crate::{Clash, ObjectKey, Observation, State};

fn policy(ranges: &[&str]) -> AddressPolicy {
    AddressPolicy::new(ranges.iter().map(|range| range.parse().unwrap()))
}

fn admits(policy: &AddressPolicy, ip: &str) -> bool {
    policy.admits(ip.parse::<IpAddr>().unwrap())
}

/// Never admitted, whatever the ranges.
const NEVER: [&str; 17] = [
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
    "fd00:ec2::23",
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
fn without_ranges_only_what_is_private_is_admitted() {
    let policy = AddressPolicy::default();
    for ip in ["10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.127.255.255"] {
        assert!(admits(&policy, ip), "{ip}");
        assert!(admits(&policy, &format!("::ffff:{ip}")), "{ip}");
    }
    for ip in ["fc00::1", "fd00:ec2::255", "fdff:ffff::1"] {
        assert!(admits(&policy, ip), "{ip}");
    }
    for ip in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "198.18.0.1", "2001:db8::1", "2a00::1", "fe00::1"] {
        assert!(!admits(&policy, ip), "{ip}");
    }
    for ip in NEVER.iter().chain(&SPECIAL) {
        assert!(!admits(&policy, ip), "{ip}");
    }
}

#[test]
fn a_refusal_says_what_an_operator_can_do() {
    let refused = |policy: &AddressPolicy, ip: &str| policy.refuses(ip.parse().unwrap()).unwrap().to_string();
    let (default, ranges) = (AddressPolicy::default(), policy(&["10.244.0.0/16"]));
    assert_eq!(
        refused(&default, "8.8.8.8"),
        "8.8.8.8 is not private, and no pod ranges are given: set `pod-ranges` if pods are there"
    );
    assert_eq!(refused(&ranges, "10.96.0.1"), "10.96.0.1 is outside the pod ranges");
    for policy in [&default, &ranges] {
        for ip in ["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::169.254.169.254"] {
            let expected = format!("{} is no address that a sandbox may have", ip.parse::<IpAddr>().unwrap());
            assert!(refused(policy, ip).starts_with(&expected), "{ip}");
        }
    }
    assert_eq!(ranges.refuses("10.244.0.1".parse().unwrap()), None);
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
    let screened = |ip: &str| {
        let mut observed = observation(ip.parse().unwrap());
        let refused = AddressPolicy::default().screen(&mut observed);
        (observed.ip.map(|ip| ip.to_string()), refused)
    };
    assert_eq!(screened("10.0.0.1"), (Some("10.0.0.1".to_owned()), None));
    let metadata = "169.254.169.254";
    assert_eq!(screened(metadata), (None, Some(Refused::Never(metadata.parse().unwrap()))));
}

fn observation(ip: IpAddr) -> Observation {
    Observation {
        key: ObjectKey::new("p", "n", "box").unwrap(),
        id: "n--box".to_owned(),
        own_id: true,
        uid: "uid".to_owned(),
        owner: String::new(),
        state: State::Running,
        version: "1".parse().unwrap(),
        ip: Some(ip),
        ip_is_claimed: false,
        created: None,
        token: None,
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::default(),
    }
}

/// Every way to put an IPv4 address into an IPv6 one. `rest` fills what the form leaves free.
fn spellings(v4: Ipv4Addr, rest: u128) -> Vec<(&'static str, Ipv6Addr)> {
    let inner = u128::from(v4.to_bits());
    let [a, b, c, d] = v4.octets().map(u128::from);
    let rest_below = |bits: u32| rest & ((1 << bits) - 1);
    let local = 0x0064_ff9b_0001_u128 << 80;
    // RFC 6052: the address follows the prefix, and byte 8 of the whole is skipped.
    let local_48 = local | a << 72 | b << 64 | c << 48 | d << 40 | rest_below(40);
    let local_56 =
        local | rest_below(80) >> 72 << 72 | a << 64 | b << 48 | c << 40 | d << 32 | rest_below(32);
    let local_64 =
        local | rest_below(80) >> 64 << 64 | a << 48 | b << 40 | c << 32 | d << 24 | rest_below(24);
    let isatap = |identifier: u128| rest_below(128 - 7) >> 64 << 64 | 0xfd << 120 | identifier << 32 | inner;
    let all = [
        ("mapped", 0xffff << 32 | inner),
        ("compatible", inner),
        ("translated", 0xffff << 48 | inner),
        ("NAT64", 0x0064_ff9b_u128 << 96 | inner),
        ("local NAT64, /96", local | rest_below(80) >> 32 << 32 | inner),
        ("local NAT64, /64", local_64),
        ("local NAT64, /56", local_56),
        ("local NAT64, /48", local_48),
        ("6to4", 0x2002 << 112 | inner << 80 | rest_below(80)),
        ("Teredo server", 0x2001_0000 << 96 | inner << 64 | rest_below(64)),
        ("Teredo client", 0x2001_0000 << 96 | rest_below(96) >> 32 << 32 | (!inner & 0xffff_ffff)),
        ("ISATAP", isatap(0x0000_5efe)),
        ("ISATAP, global", isatap(0x0200_5efe)),
    ];
    all.map(|(form, bits)| (form, Ipv6Addr::from_bits(bits))).into()
}

/// Addresses that matter, and any.
fn v4() -> impl Strategy<Value = Ipv4Addr> {
    let known = NEVER.iter().chain(&SPECIAL).chain(&ORDINARY).filter_map(|ip| ip.parse().ok());
    prop_oneof![
        prop::sample::select(known.collect::<Vec<Ipv4Addr>>()),
        any::<u32>().prop_map(Ipv4Addr::from_bits),
        any::<[u8; 3]>().prop_map(|[b, c, d]| Ipv4Addr::new(127, b, c, d)),
    ]
}

const RANGES: [&[&str]; 6] = [
    &[],
    &["10.244.0.0/16", "fd12::/48"],
    &["0.0.0.0/0", "::/0"],
    &["64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::ffff:0:0:0/96", "fd00::/8", "::/96"],
    &["127.0.0.0/8", "fd00::/8", "2002::/16"],
    &["169.254.0.0/16", "64:ff9b::/96"],
];

proptest! {
    #[test]
    fn no_spelling_of_an_ipv4_address_reaches_what_the_address_itself_may_not(
        v4 in v4(), rest in any::<u128>(), ranges in prop::sample::select(&RANGES[..]),
    ) {
        let policy = policy(ranges);
        for (form, ip) in spellings(v4, rest) {
            if !policy.may_be_reached(v4.into()) {
                prop_assert!(!policy.admits(ip.into()), "{form} of {v4}: {ip} under {ranges:?}");
            }
            if form == "mapped" {
                prop_assert_eq!(policy.admits(ip.into()), policy.admits(v4.into()), "{}", ip);
            }
            // Whatever is carried: by default, and by a range that is wider than the form's block, no pod is
            // there.
            let transition = !form.starts_with("ISATAP") && form != "mapped";
            if transition && (ranges.is_empty() || ranges.contains(&"::/0")) {
                prop_assert!(!policy.admits(ip.into()), "{form} of {v4}: {ip} under {ranges:?}");
            }
        }
    }

    #[test]
    fn what_is_refused_has_a_reason_and_what_is_admitted_has_none(
        bits in any::<u128>(), v4 in v4(), ranges in prop::sample::select(&RANGES[..]),
    ) {
        let policy = policy(ranges);
        for ip in [IpAddr::V6(Ipv6Addr::from_bits(bits)), v4.into()] {
            prop_assert_eq!(policy.refuses(ip).is_none(), policy.admits(ip), "{}", ip);
        }
    }
}

#[test]
fn a_form_whose_block_is_opened_is_admitted_where_what_it_carries_is_harmless() {
    let policy = policy(RANGES[3]);
    for ip in ["64:ff9b::10.0.0.1", "2002:a00:1::5", "fd00::5efe:10.0.0.1", "::ffff:0:10.0.0.1"] {
        assert!(admits(&policy, ip), "{ip}");
    }
    for ip in ["64:ff9b::127.0.0.1", "2002:7f00:1::5", "fd00::5efe:169.254.169.254", "::ffff:0:169.254.1.1"] {
        assert!(!admits(&policy, ip), "{ip}");
    }
}
