use serde_json::{Value, json};

use super::{Manager, split};

fn good() -> Vec<Value> {
    let mut all: Vec<Value> = [
        "manager:8080",
        "sandgate-manager.sandgate-system.svc:80",
        "manager.example.com.:1",
        "10.0.0.1:65535",
        "[2001:db8::1]:8080",
    ]
    .into_iter()
    .map(|address| json!({ "address": address }))
    .collect();
    all.push(json!({ "address": "manager:443", "tls": { "ca": "/ca.pem" } }));
    all.push(json!({ "address": "10.0.0.1:443", "tls": { "ca": "ca.pem", "server-name": "manager.test" } }));
    all
}

fn bad() -> Vec<(Value, &'static str)> {
    let mut all = vec![
        (json!({}), "top level"),
        (json!([]), "top level"),
        (json!({ "address": "m:1", "colour": "blue" }), "colour"),
        (json!({ "address": 80 }), "address"),
        (json!({ "address": "m:1", "tls": null }), "tls"),
        (json!({ "address": "m:1", "tls": {} }), "tls"),
        (json!({ "address": "m:1", "tls": { "ca": "" } }), "tls.ca"),
        (json!({ "address": "m:1", "tls": { "ca": "a", "server-name": null } }), "tls.server-name"),
        (json!({ "address": "m:1", "tls": { "ca": "a", "server-name": "*.a" } }), "tls.server-name"),
        (json!({ "address": "m:1", "tls": { "ca": "a", "server-name": "" } }), "tls.server-name"),
    ];
    let addresses = [
        "",
        ":80",
        "m",
        "m:",
        "m:0",
        "m:080",
        "m:65536",
        "m:+1",
        "http://m:80",
        "m:80/",
        "a b:80",
        "*.m:80",
        "a..b:80",
        "2001:db8::1:80",
        "[]:80",
        "[m]:80",
    ];
    all.extend(addresses.map(|address| (json!({ "address": address }), "address")));
    all
}

#[test]
fn schema_and_parser_judge_alike() {
    let schema = jsonschema::validator_for(&Manager::schema()).expect("the schema is a schema");
    for section in good() {
        Manager::parse(&section).unwrap_or_else(|error| panic!("{section}: {error}"));
        assert!(schema.is_valid(&section), "{section}");
    }
    for (section, key) in bad() {
        let error = Manager::parse(&section).expect_err("a bad section");
        assert_eq!(error.key, key, "{section}: {error}");
        assert!(!schema.is_valid(&section), "{section}");
    }
}

#[test]
fn the_published_schema_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../envoy/config/manager.schema.json");
    let generated = format!("{:#}\n", Manager::schema());
    if std::env::var_os("SANDGATE_BLESS").is_some() {
        std::fs::write(path, &generated).expect("write the schema");
    }
    let published = std::fs::read_to_string(path).expect("read the schema");
    assert_eq!(published, generated, "SANDGATE_BLESS=1 writes it anew");
}

#[test]
fn an_address_is_a_host_and_a_port() {
    assert_eq!(split("Manager.SVC:80"), Some(("manager.svc".to_owned(), 80)));
    assert_eq!(split("[2001:DB8::1]:80"), Some(("2001:db8::1".to_owned(), 80)));
}

#[test]
fn the_name_in_the_certificate_is_that_of_the_address_unless_another_is_given() {
    let name = |section: Value| Manager::parse(&section).unwrap().tls.unwrap().server_name;
    assert_eq!(name(json!({ "address": "manager.svc.:443", "tls": { "ca": "/ca" } })), "manager.svc");
    let given = json!({ "address": "manager:443", "tls": { "ca": "/ca", "server-name": "other" } });
    assert_eq!(name(given), "other");
}

#[test]
fn the_manager_is_meant_by_the_path_on_any_host_and_by_its_own_host_on_any_path() {
    let takes = |host: &str, path: &str, domains: &[&str]| {
        let domains: Vec<String> = domains.iter().map(|&domain| domain.to_owned()).collect();
        Manager::takes([(":authority", host), (":path", path)].as_slice(), &domains)
    };
    for path in ["/kruise/api", "/kruise/api/", "/kruise/api/sandboxes?x=1", "/kruise/api?x"] {
        assert!(takes("8000-demo.a.test", path, &[]), "{path}");
        assert!(takes("8000-demo.a.test", path, &["a.test"]), "{path}");
    }
    for path in
        ["/", "/kruise", "/kruise/apix", "/kruise/api-1/80/", "/KRUISE/API", "/x/kruise/api", "/kruise//api"]
    {
        assert!(!takes("8000-demo.a.test", path, &[]), "{path}");
    }
    for host in ["api.a.test", "API.A.test", "api.a.test:8080", "api.a.test.", "api.a.test.:80"] {
        assert!(takes(host, "/", &[]) && takes(host, "/x", &["b.test", "a.test"]), "{host}");
    }
    for host in ["api.b.test", "api.x.a.test", "api.demo-3000.a.test"] {
        assert!(takes(host, "/", &[]) && !takes(host, "/", &["a.test"]), "{host}");
    }
    for host in ["", "api", "api.", "apix.a.test", "a.test", "8000-api.a.test", "x.api.a.test"] {
        assert!(!takes(host, "/", &[]) && !takes(host, "/", &["a.test"]), "{host}");
    }
}
