//! The recipe for Envoy Gateway (`envoy/docs/envoy-gateway.md`): its files are accepted by the real
//! definitions, and what Envoy Gateway's own translators make of them serves sandboxes on the real Envoy.
//!
//! No cluster runs Envoy Gateway here. Its translators have run once, offline, and
//! `tests/envoy-gateway/translated` has what came of it; one scenario finds a recipe that has changed since.

mod serving;
mod translated;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sandgate_tests::book::Page;
use sandgate_tests::kubernetes::ApiServer;
use sandgate_tests::{DEADLINE, eventually, locations};
use serde_json::{Value, json};

use translated::Translated;

const NAMESPACES: [&str; 2] = ["envoy-gateway-system", "sandgate-system"];

fn recipe() -> PathBuf {
    locations::repository().join("envoy/deploy/envoy-gateway")
}

/// The files of the recipe that hold objects, by name; `values.yaml` is for Helm.
fn files() -> Vec<(String, String)> {
    let folder = fs::read_dir(recipe()).expect("the recipe has a folder");
    let mut files: Vec<_> = folder
        .flatten()
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter(|(name, _)| name.ends_with(".yaml") && name != "values.yaml")
        .map(|(name, path)| (name, fs::read_to_string(path).expect("read a file of the recipe")))
        .collect();
    files.sort();
    files
}

fn objects(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error} in:\n{yaml}"))
}

/// A server with the namespaces that the recipe's objects are in.
async fn with_namespaces(api: ApiServer) -> ApiServer {
    for name in NAMESPACES {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        api.apply(&namespace.to_string()).await;
    }
    api
}

/// The kinds of the recipe's objects that Kubernetes does not have by itself.
const KINDS: [&str; 7] = [
    "gatewayclasses.gateway.networking.k8s.io",
    "gateways.gateway.networking.k8s.io",
    "httproutes.gateway.networking.k8s.io",
    "clienttrafficpolicies.gateway.envoyproxy.io",
    "envoyextensionpolicies.gateway.envoyproxy.io",
    "envoypatchpolicies.gateway.envoyproxy.io",
    "envoyproxies.gateway.envoyproxy.io",
];

/// Their definitions, of Envoy Gateway's chart, downloaded when first needed.
fn definitions() -> Vec<String> {
    let fetch = locations::repository().join("tests/envoy-gateway/fetch");
    let said = Command::new(fetch).output().expect("run tests/envoy-gateway/fetch");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let module = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    let charts = module.join("charts/gateway-helm/charts/crds/crds");
    let generated =
        fs::read_dir(charts.join("generated")).expect("Envoy Gateway's own definitions").flatten();
    let files = generated.map(|entry| entry.path()).chain([charts.join("gatewayapi-crds.yaml")]);
    let text: String = files
        .map(|file| fs::read_to_string(file).expect("read definitions"))
        .flat_map(|text| ["\n---\n".to_owned(), text])
        .collect();
    // Megabytes of text: only what is needed is parsed.
    let wanted = |document: &&str| KINDS.iter().any(|kind| document.contains(&format!("\n  name: {kind}\n")));
    let found: Vec<String> = text.split("\n---").filter(wanted).map(ToOwned::to_owned).collect();
    assert_eq!(found.len(), KINDS.len(), "a definition of each kind");
    found
}

#[tokio::test]
async fn every_object_of_the_recipe_is_accepted_by_the_real_definitions() {
    let api = with_namespaces(ApiServer::builder().without_definitions().start().await).await;
    for definition in definitions() {
        api.apply(&definition).await;
    }
    let mut kinds = Vec::new();
    for (name, yaml) in files() {
        for object in objects(&yaml) {
            // A definition is served a moment after it is there.
            let served = format!("the kind of {name} is served");
            let said = eventually(&served, DEADLINE * 3, async || {
                let said = api.dry_run(&object).await;
                let unknown = said.as_ref().is_err_and(|error| error.to_string().contains("404"));
                (!unknown).then_some(said)
            });
            said.await.unwrap_or_else(|error| panic!("{name}: {error}"));
            kinds.push(object["kind"].as_str().expect("a kind").to_owned());
        }
    }
    kinds.sort();
    let expected = [
        "ClientTrafficPolicy",
        "ClusterRoleBinding",
        "EndpointSlice",
        "EnvoyExtensionPolicy",
        "EnvoyPatchPolicy",
        "EnvoyProxy",
        "Gateway",
        "GatewayClass",
        "HTTPRoute",
        "Service",
    ];
    assert_eq!(kinds, expected);

    // The server would have found a word that the definitions do not have, and a rule of theirs that is
    // broken.
    let (_, proxy) = files().into_iter().find(|(name, _)| name == "envoyproxy.yaml").expect("the proxies");
    let misspelt = &objects(&proxy.replace("dynamicModules:", "dynamicModule:"))[0];
    let refused = api.dry_run(misspelt).await.expect_err("a misspelt field is refused").to_string();
    assert!(refused.contains("dynamicModule"), "{refused}");
    // The image volume of `envoy/docs/envoy-gateway.md`, in the place of the recipe's image.
    let page = Page::read("envoy/docs/envoy-gateway.md").blocks();
    let volume = page.iter().find(|block| block.is("yaml", "test")).expect("the image volume");
    let mut with_volume = objects(&proxy).swap_remove(0);
    for (part, keys) in objects(&volume.text)[0].as_object().expect("a mapping") {
        for (key, value) in keys.as_object().expect("a mapping") {
            with_volume["spec"]["provider"]["kubernetes"]["envoyDeployment"][part][key] = value.clone();
        }
    }
    api.dry_run(&with_volume).await.unwrap_or_else(|error| panic!("{}: {error}", volume.place));
    let remote = &objects(&proxy.replace("type: Local", "type: Remote"))[0];
    let refused = api.dry_run(remote).await.expect_err("a source that is not there is refused").to_string();
    assert!(refused.contains("Remote"), "{refused}");
}

#[test]
fn the_translation_is_of_the_recipe_as_it_is() {
    let sums = locations::repository().join("tests/envoy-gateway/translated/SHA256SUMS");
    let checked = Command::new("sha256sum")
        .args(["--check", "--quiet", "--strict"])
        .arg(sums)
        .current_dir(locations::repository())
        .output()
        .expect("run sha256sum");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(
        checked.status.success(),
        "changed since it was translated; run tests/envoy-gateway/translate:\n{said}"
    );
}

#[test]
fn envoy_gateway_accepts_and_programs_every_policy() {
    for translation in ["whole", "https", "guarded"] {
        let conditions = Translated::read(translation).conditions();
        for expected in [
            ("gateways", "Programmed"),
            ("httpRoutes", "Accepted"),
            ("clientTrafficPolicies", "Accepted"),
            ("envoyExtensionPolicies", "Accepted"),
            ("envoyPatchPolicies", "Programmed"),
        ] {
            let told = conditions.iter().any(|(kind, condition, ..)| (&**kind, &**condition) == expected);
            assert!(told, "{translation}: no word of {expected:?} in {conditions:?}");
        }
        for (kind, condition, status, message) in &conditions {
            assert_eq!(status, "True", "{translation}: {kind} {condition}: {message}");
        }
    }
}

#[test]
fn the_proxies_run_envoy_of_our_image_as_the_account_that_has_the_rights() {
    let made = Translated::read("whole");
    let pod = made.pod();
    let envoy = &pod["containers"][0];
    // Found by PATH: `envoy/image` puts it into /usr/local/bin.
    assert_eq!((&envoy["name"], &envoy["command"]), (&json!("envoy"), &json!(["envoy"])));
    assert_eq!(envoy["image"], "registry.example.com/sandgate/gateway:0.2.0");
    let account =
        (pod["serviceAccountName"].as_str(), made.value["deployment"]["metadata"]["namespace"].as_str());
    let binding = &objects(&fs::read_to_string(recipe().join("rbac.yaml")).expect("the rights"))[0];
    let subject = &binding["subjects"][0];
    assert_eq!(account, (subject["name"].as_str(), subject["namespace"].as_str()));
    // No token is mounted by default, so the recipe's own volume has to be there.
    assert_eq!(pod["automountServiceAccountToken"], false);
    let mounts = envoy["volumeMounts"].as_array().expect("mounts");
    let mount =
        mounts.iter().find(|mount| mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount");
    let volume = &mount.expect("the account's token")["name"];
    assert!(pod["volumes"].as_array().expect("volumes").iter().any(|found| found["name"] == *volume));
}

/// The recipe repeats parts of the shipped config, and settings of its connection manager under other names.
/// Where they have to differ is said here; everything else is the same.
#[test]
fn the_proxies_get_what_the_shipped_config_says() {
    let shipped = locations::repository().join("envoy/config/gateway.yaml");
    let shipped = objects(&fs::read_to_string(shipped).expect("the shipped config")).swap_remove(0);
    let made = Translated::read("whole");
    let bootstrap = made.bootstrap();

    let clusters = bootstrap["static_resources"]["clusters"].as_array().expect("clusters");
    for cluster in shipped["static_resources"]["clusters"].as_array().expect("clusters") {
        let own =
            clusters.iter().find(|own| own["name"] == cluster["name"]).expect("both of Sandgate's clusters");
        // By the limit of open files.
        let [own, cluster] =
            [own, cluster].map(|one| without(one, "/circuit_breakers/thresholds/0/max_connections"));
        assert_eq!(own, cluster);
    }
    // By the memory there is.
    let [own, overload] = [&bootstrap, &shipped].map(|config| {
        without(&config["overload_manager"], "/resource_monitors/1/typed_config/max_heap_size_bytes")
    });
    assert_eq!(own, overload);
    let limit = &made.pod()["containers"][0]["resources"]["limits"]["memory"];
    let heap = &bootstrap["overload_manager"]["resource_monitors"][1]["typed_config"]["max_heap_size_bytes"];
    assert_eq!(
        (limit.as_str(), heap.as_u64()),
        (Some("2Gi"), Some((2 << 30) * 9 / 10)),
        "nine tenths of the limit"
    );

    let filters = |chain: &Value| [0, 1].map(|number| chain["filters"][number]["typed_config"].clone());
    let [shares, manager] = filters(&shipped["static_resources"]["listeners"][0]["filter_chains"][0]);
    let [own_shares, own_manager] = filters(&made.listener()["default_filter_chain"]);
    assert_eq!(own_shares, shares);
    for key in [
        "use_remote_address",
        "internal_address_config",
        "normalize_path",
        "merge_slashes",
        "path_with_escaped_slashes_action",
        "generate_request_id",
        "stream_idle_timeout",
        "request_timeout",
        "request_headers_timeout",
        "stream_flush_timeout",
        "common_http_protocol_options",
        "http2_protocol_options",
    ] {
        // Envoy Gateway leaves out what is false anyway.
        let own = if own_manager[key].is_null() { &json!(false) } else { &own_manager[key] };
        assert_eq!(own, &manager[key], "{key}");
    }
}

fn without(config: &Value, pointer: &str) -> Value {
    let mut config = config.clone();
    config.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")).take();
    config
}
