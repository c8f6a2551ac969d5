use clap::Parser as _;
use sandgate_peering::Peers;

use super::{credentials, message, peers};
use crate::args::{Cli, Command, Push};

fn parse(words: &str) -> Result<Push, String> {
    let words = ["sandgate", "push"].into_iter().chain(words.split_whitespace());
    match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
        Command::Push(push) => Ok(*push),
        _ => unreachable!("the words say push"),
    }
}

const ROUTE: &str = "--name demo --uid u --resource-version 7";

#[test]
fn a_route_is_made_of_its_options() {
    let args = parse(&format!("--peer a:1 {ROUTE} --namespace team --ip 10.0.0.1 --owner me")).unwrap();
    let message = message(&args).unwrap();
    let written = serde_json::to_value(&message).unwrap();
    assert_eq!(
        written,
        serde_json::json!({
            "ip": "10.0.0.1", "id": "team--demo", "namespace": "team", "name": "demo", "uid": "u",
            "owner": "me", "state": "running", "resourceVersion": "7",
        })
    );
}

#[test]
fn tokens_are_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (access, traffic) = (file("access", "s3cret\r\n"), file("traffic", "tr4ffic\n"));
    let words =
        format!("--peer a:1 {ROUTE} --access-token-file {access} --traffic-access-token-file {traffic}");
    let message = message(&parse(&words).unwrap()).unwrap();
    assert_eq!((&*message.access_token, &*message.traffic_access_token), ("s3cret", "tr4ffic"));
}

#[test]
fn only_a_dead_one_needs_no_uid() {
    let dead = parse("--peer a:1 --name demo --resource-version 7 --state dead").unwrap();
    assert!(message(&dead).is_ok());
    let alive = parse("--peer a:1 --name demo --resource-version 7").unwrap();
    assert!(message(&alive).unwrap_err().to_string().contains("--uid"));
}

#[test]
fn the_peers_are_given_in_one_way() {
    for words in ["", "--peer a:1 --dns b:1", "--dns a:1 --service n/s"] {
        assert!(parse(&format!("{words} {ROUTE}")).is_err(), "{words}");
    }
    let found =
        |words: &str| parse(&format!("{words} {ROUTE}")).map(|args| peers(&args).map_err(|e| e.to_string()));
    assert!(matches!(found("--peer a:1 --peer b"), Ok(Ok(Peers::Static(peers))) if peers.len() == 2));
    assert!(matches!(found("--dns a"), Ok(Ok(Peers::Dns { port: 7789, secure: false, .. }))));
    assert!(matches!(
        found("--service n/s:80 --https --ca f"),
        Ok(Ok(Peers::Service { port: Some(80), secure: true, .. }))
    ));
    for wrong in
        ["--dns a:b", "--dns a:0", "--service s", "--service n/", "--service n/s:x", "--service n%2f/s"]
    {
        assert!(found(wrong).unwrap().is_err(), "{wrong}");
    }
    assert!(found("--peer ftp://a").is_err());
    assert!(found("--dns a --https").unwrap_err().contains("--ca"));
}

#[test]
fn one_route_or_standard_input() {
    for words in
        ["--peer a:1", "--peer a:1 --stdin --name demo --resource-version 7", "--peer a:1 --name demo"]
    {
        assert!(parse(words).is_err(), "{words}");
    }
    assert!(parse("--peer a:1 --stdin").is_ok());
}

#[test]
fn a_shared_key_has_a_name_and_a_file() {
    let with = |key: &str| credentials(&parse(&format!("--peer a:1 {ROUTE} --hmac-key {key}")).unwrap());
    assert_eq!(with("main=key=1").unwrap().hmac, Some(("main".to_owned(), "key=1".into())));
    for wrong in ["main", "=f", "main="] {
        assert!(with(wrong).is_err(), "{wrong}");
    }
}
