//! What Envoy Gateway has made of the recipe, and an Envoy that runs with it.

use std::fs;
use std::path::{Path, PathBuf};

use sandgate_tests::{Gateway, locations};
use serde_json::{Value, json};

/// What Envoy Gateway calls the listener and its routes.
pub(super) const LISTENER: &str = "sandgate-system/sandboxes/http";
/// The same with TLS.
pub(super) const TLS_LISTENER: &str = "sandgate-system/sandboxes/https";

const MODULE: &str = "/usr/local/lib/libsandgate.so";
/// The address of the backend that the patches replace.
const NOWHERE: &str = "192.0.2.1";
const CONNECTION_MANAGER: &str = "envoy.filters.network.http_connection_manager";
/// The access log in the harness's own config.
const ACCESS_LOG: &str = "/static_resources/listeners/0/filter_chains/0/filters/1/typed_config/access_log";

/// A file of `tests/envoy-gateway/translated`.
pub(super) struct Translated {
    pub(super) value: Value,
}

impl Translated {
    pub(super) fn read(name: &str) -> Self {
        let file =
            locations::repository().join("tests/envoy-gateway/translated").join(name).with_extension("json");
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self {
            value: serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())),
        }
    }

    /// The proxies' pod.
    pub(super) fn pod(&self) -> &Value {
        &self.value["deployment"]["spec"]["template"]["spec"]
    }

    /// The Gateway's listener, without TLS.
    pub(super) fn listener(&self) -> &Value {
        let listeners = self.value["xds"]["Listener"].as_array().expect("listeners");
        listeners.iter().find(|listener| listener["name"] == LISTENER).expect("the Gateway's listener")
    }

    /// Every condition in the status of an object: what list it is in, type, status and message.
    pub(super) fn conditions(&self) -> Vec<(String, String, String, String)> {
        let mut found = Vec::new();
        for (kind, objects) in self.value.as_object().expect("lists of objects") {
            for object in objects.as_array().into_iter().flatten() {
                collect(kind, object, &mut found);
            }
        }
        found
    }

    /// The bootstrap config in the arguments of the proxies' container.
    pub(super) fn bootstrap(&self) -> Value {
        let arguments = self.pod()["containers"][0]["args"].as_array().expect("arguments");
        let at =
            arguments.iter().position(|argument| argument == "--config-yaml").expect("a bootstrap config");
        let text = arguments[at + 1].as_str().expect("text");
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error} in:\n{text}"))
    }

    /// The clusters that come by xDS, with their endpoints in them.
    fn backends(&self) -> Vec<Value> {
        let endpoints = self.value["xds"]["ClusterLoadAssignment"].as_array().expect("endpoints");
        let mut clusters = self.value["xds"]["Cluster"].as_array().expect("clusters").clone();
        for cluster in &mut clusters {
            let own = endpoints.iter().find(|endpoints| endpoints["cluster_name"] == cluster["name"]);
            cluster["load_assignment"] = own.expect("the endpoints of a cluster").clone();
            cluster["type"] = json!("STATIC");
            cluster.as_object_mut().expect("a cluster").remove("eds_cluster_config");
        }
        clusters
    }

    /// Starts Envoy as the proxies' pods would, but for: the paths of the module and the credentials; where
    /// sandboxes are; free ports of loopback; and xDS from files, because no controller is there to be asked.
    /// `certificate` is for a listener with TLS: the certificate's and the key's file.
    pub(super) async fn start(&self, kubeconfig: &Path, certificate: Option<&(PathBuf, PathBuf)>) -> Gateway {
        let builder = Gateway::builder();
        let folder = builder.folder().to_owned();
        let module = locations::module();
        let text = self.value.to_string().replace(MODULE, module.to_str().expect("a path of text"));
        // No test sends anything out of the machine.
        let text = text.replace(NOWHERE, "127.0.0.2");
        let here = Self { value: serde_json::from_str(&text).expect("still JSON") };
        let mut bootstrap = here.bootstrap();
        *at(&mut bootstrap, "/admin/address") = free();
        let settings = at(&mut bootstrap, "/bootstrap_extensions/0/typed_config/extension_config/value");
        settings["kubernetes"]["kubeconfig"] = json!(kubeconfig);
        settings["pod-ranges"] = json!(["127.0.0.0/8"]);

        let config = bootstrap.as_object_mut().expect("a config is an object");
        config.remove("dynamic_resources").expect("xDS is configured");
        // Both come by xDS: the controller itself, and the proxies of the same Gateway.
        config.remove("cluster_manager").expect("a local cluster");
        let clusters = at(&mut bootstrap, "/static_resources/clusters").as_array_mut().expect("clusters");
        let all = clusters.len();
        clusters.retain(|cluster| cluster["name"] != "xds_cluster" && cluster["type"] != "EDS");
        assert_eq!(clusters.len(), all - 2, "the two clusters that need the controller");
        clusters.extend(here.backends());

        let listeners = here.value["xds"]["Listener"].as_array().expect("listeners").clone();
        let known = at(&mut bootstrap, "/static_resources/listeners").as_array_mut().expect("listeners");
        known.extend(listeners);
        for listener in known {
            listener["address"] = free();
        }
        let routes = folder.join("routes.json");
        let mut resources = here.value["xds"]["RouteConfiguration"].clone();
        for resource in resources.as_array_mut().expect("routes") {
            resource["@type"] = json!("type.googleapis.com/envoy.config.route.v3.RouteConfiguration");
        }
        fs::write(&routes, json!({ "version_info": "1", "resources": resources }).to_string())
            .expect("write the routes");
        let discovery = json!({ "resource_api_version": "V3", "path_config_source": { "path": routes } });

        let certificate = certificate.map(|(chain, key)| {
            json!([{ "certificate_chain": { "filename": chain }, "private_key": { "filename": key } }])
        });

        builder
            .adjust(move |own| {
                let access_log = at(own, ACCESS_LOG).take();
                *own = bootstrap;
                let listeners = at(own, "/static_resources/listeners").as_array_mut().expect("listeners");
                let names = [LISTENER, TLS_LISTENER].map(Value::from);
                let listener = listeners.iter_mut().find(|listener| names.contains(&listener["name"]));
                let listener = listener.expect("the Gateway's listener");
                let chain = match certificate {
                    Some(certificate) => {
                        let chain = at(listener, "/filter_chains/0");
                        let tls = at(chain, "/transport_socket/typed_config/common_tls_context");
                        tls.as_object_mut().expect("a config").remove("tls_certificate_sds_secret_configs");
                        tls["tls_certificates"] = certificate;
                        chain
                    }
                    None => at(listener, "/default_filter_chain"),
                };
                let filters = at(chain, "/filters").as_array_mut().expect("filters");
                let manager = filters.iter_mut().find(|filter| filter["name"] == CONNECTION_MANAGER);
                let manager = &mut manager.expect("a connection manager")["typed_config"];
                manager["access_log"] = access_log;
                *at(manager, "/rds/config_source") = discovery;
            })
            .start()
            .await
    }
}

fn collect(kind: &str, value: &Value, found: &mut Vec<(String, String, String, String)>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(kind, value, found)),
        Value::Object(fields) => {
            for condition in fields.get("conditions").and_then(Value::as_array).into_iter().flatten() {
                let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
                found.push((kind.to_owned(), text("type"), text("status"), text("message")));
            }
            fields.values().for_each(|value| collect(kind, value, found));
        }
        _ => {}
    }
}

fn free() -> Value {
    json!({ "socket_address": { "address": "127.0.0.1", "port_value": 0 } })
}

fn at<'c>(config: &'c mut Value, pointer: &str) -> &'c mut Value {
    config.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}"))
}
