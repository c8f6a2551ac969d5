use clap::CommandFactory as _;

use super::*;

fn parse(words: &str) -> Result<Args, clap::Error> {
    Args::try_parse_from(["sandgate-manager"].into_iter().chain(words.split_whitespace()))
}

fn checked(words: &str) -> Result<(), String> {
    parse(words).unwrap().check().map_err(|error| error.to_string())
}

#[test]
fn the_command_line_is_consistent() {
    Args::command().debug_assert();
}

#[test]
fn without_options_nobody_else_can_connect_and_keys_are_needed() {
    let args = parse("").unwrap();
    assert_eq!(args.check(), Ok(()));
    assert!(args.listen.ip().is_loopback() && args.probe_listen.ip().is_loopback());
    assert!(!args.insecure_no_auth && args.openkruise_keys().is_none());
    assert!(args.peers().unwrap().is_none());
    assert_eq!(args.access(), Access::default());
    assert_eq!(args.settings(), Settings::default());
    assert_eq!(args.api(), ApiSettings::default());
}

#[test]
fn gateways_are_addresses_or_one_service_or_one_name() {
    let peers = |words: &str| parse(words).unwrap().peers().map_err(|error| error.to_string());
    for words in ["--gateway http://a:1 --gateway b", "--gateways http://a:1,b"] {
        assert!(matches!(peers(words), Ok(Some(Peers::Static(peers))) if peers.len() == 2), "{words}");
    }
    let found = peers("--gateway service:sandgate/gateway:80 --push-https --push-ca f --kubeconfig k");
    let Ok(Some(Peers::Service { namespace, name, port, secure, access })) = found else {
        panic!("{found:?}")
    };
    assert_eq!((namespace.as_str(), name.as_str(), port, secure), ("sandgate", "gateway", Some(80), true));
    assert_eq!(access.kubeconfig, Some("k".into()));
    assert!(matches!(peers("--gateway dns:gateway"), Ok(Some(Peers::Dns { port: 7789, secure: false, .. }))));
    for (words, expected) in [
        (
            "--gateway ftp://a",
            "--gateway: ftp://a: expected http://HOST:PORT or https://HOST:PORT, service:… or dns:…",
        ),
        (
            "--gateway service:a",
            "--gateway: service:a: expected NAMESPACE/NAME or NAMESPACE/NAME:PORT behind service:",
        ),
        ("--gateway http://a --gateway dns:b", "--gateway: dns:b cannot be used with others"),
        ("--gateway https://a", "--gateway: an https gateway needs --push-ca"),
        ("--gateway a --push-hmac-key x", "--push-hmac-key: expected ID=FILE"),
    ] {
        assert_eq!(checked(words), Err(expected.to_owned()));
    }
}

#[test]
fn everybody_is_let_in_only_where_nobody_else_can_connect() {
    assert_eq!(checked("--insecure-no-auth"), Ok(()));
    let refused = checked("--insecure-no-auth --listen 0.0.0.0:8080").unwrap_err();
    assert!(refused.starts_with("--insecure-no-auth: only where nobody else can connect"), "{refused}");
}

#[test]
fn openkruises_secret_is_in_the_system_namespace_and_may_have_another_name() {
    let key = |words: &str| parse(words).unwrap().openkruise_keys();
    assert_eq!(key("--openkruise-key-store"), Some(Key::new("sandgate-system", "e2b-key-store")));
    assert_eq!(key("--openkruise-key-store=k --system-namespace s"), Some(Key::new("s", "k")));
}

#[test]
fn options_reach_the_settings() {
    let args = parse(
        "--push-wait 7 --max-timeout 60 --claim-timeout 5 --snapshots=false --rate 1 --burst 2 --domain d -n x \
         --no-internet-namespaces a,b",
    );
    let args = args.unwrap();
    let settings = args.settings();
    assert_eq!(settings.push_wait, Duration::from_millis(7));
    assert_eq!(
        (settings.max_timeout, args.api().max_timeout),
        (Duration::from_secs(60), Duration::from_secs(60))
    );
    assert_eq!(
        settings.min_resume_timeout,
        Duration::from_secs(60),
        "a resume gives no more than the longest"
    );
    assert_eq!((settings.claim_timeout, settings.snapshots.executor), (Duration::from_secs(5), false));
    assert_eq!(settings.namespace.as_deref(), Some("x"));
    assert_eq!(settings.no_internet, NoInternet::enforced_in(&["a".to_owned(), "b".to_owned()]));
    assert_eq!(
        (args.api().rate, args.api().domain),
        (Rate { per_second: 1, burst: 2 }, Some("d".to_owned()))
    );
    for wrong in ["--burst 0", "--push-wait 100000", "--tls-cert f", "--push-https", "--max-timeout 1"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn help_teaches_and_every_option_can_be_given_in_the_environment() {
    let help = Args::command().render_long_help().to_string();
    for word in ["Examples:", "sandgate keys create", "E2B_API_URL", "/readyz", "service:", "SIGTERM"] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
    for arg in Args::command().get_arguments() {
        let Some(long) = arg.get_long().filter(|long| !["help", "version"].contains(long)) else { continue };
        let name = match long {
            // As scitix's own programs and the operator have it.
            "local-cluster-id" => "LOCAL_CLUSTER_ID".to_owned(),
            long => format!("SANDGATE_MANAGER_{}", long.to_uppercase().replace('-', "_")),
        };
        assert_eq!(arg.get_env().and_then(|name| name.to_str()), Some(name.as_str()));
    }
}

#[test]
fn environments_are_served_if_asked_for_and_only_in_a_cluster_that_is_named() {
    assert_eq!(parse("").unwrap().environments(), None);
    assert_eq!(parse("--local-cluster-id here").unwrap().environments(), None);
    let both = parse("--environments --local-cluster-id here").unwrap();
    assert_eq!(both.environments(), Some("here"));
    assert!(both.check().is_ok());
    for nameless in ["--environments", "--environments --local-cluster-id="] {
        let error = parse(nameless).unwrap().check().unwrap_err().to_string();
        assert!(error.contains("--local-cluster-id"), "{error}");
    }
}
