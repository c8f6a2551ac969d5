//! The bootstrap of `envoy/docs/tls.md`: Envoy by itself, without `sandgate run`.

use std::fs;
use std::os::unix::fs::symlink;

use sandgate_tests::book::Page;
use sandgate_tests::{Gateway, Pair, Request};
use serde_json::Value;

use super::rotation::{Secret, eventually_true};
use super::{DOMAIN, HOST, Site, demo};

/// The YAML blocks of the page that this test runs.
fn blocks() -> Vec<String> {
    let blocks = Page::read("envoy/docs/tls.md").blocks().into_iter();
    blocks.filter(|block| block.is("yaml", "test")).map(|block| block.text).collect()
}

#[tokio::test]
async fn the_bootstrap_of_the_page_speaks_tls_and_follows_a_mounted_secret() {
    let (site, (_demo, routes)) = (Site::new(), demo().await);
    let mounted = site.file("tls");
    let secret = Secret(&mounted);
    secret.mount("first", &site.authority.pair(&[DOMAIN]));
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), mounted.join(name)).expect("link the file");
    }
    let here = |text: &str| text.replace("/etc/sandgate", &site.file("").display().to_string());
    let [bootstrap, sds] = blocks().try_into().expect("two blocks");
    fs::create_dir(site.file("sds")).expect("create a folder");
    fs::write(site.file("sds/door.yaml"), here(&sds)).expect("write");
    let added: Value = serde_saphyr::from_str(&here(&bootstrap)).expect("YAML");
    let gateway = Gateway::builder().routes(&routes).adjust(move |config| {
        config["node"] = added["node"].clone();
        let chain = &mut config["static_resources"]["listeners"][0]["filter_chains"][0];
        for key in ["transport_socket_connect_timeout", "transport_socket"] {
            chain[key] = added[key].clone();
        }
    });
    let gateway = gateway.start().await;
    let shows = async |pair: &Pair| {
        let mut secured = site.client().connect(gateway.address(), HOST).await.expect("a handshake");
        let reply = secured.client.send(Request::get("/").host(HOST)).await.expect("an answer");
        assert_eq!(
            (reply.sandbox(), reply.seen("x-forwarded-proto")),
            ("demo".to_owned(), vec!["https".to_owned()])
        );
        secured.certificate == pair.der
    };
    let next = site.authority.pair(&[DOMAIN]);
    assert!(!shows(&next).await);
    secret.mount("second", &next);
    eventually_true("the swapped Secret is served", async || shows(&next).await).await;
}
