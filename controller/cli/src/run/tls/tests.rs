use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::reload::secrets;
use super::{CHAIN, Door, check, write_secrets};
use crate::config::{Config, Tls};

/// A folder with certificates in it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// `NAME.crt` and `NAME.key`, for the year and this DNS name.
    fn pair(&self, name: &str, domain: &str, years: (i32, i32)) {
        let mut params = CertificateParams::new([domain.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(self.path(&format!("{name}.crt")), certificate.pem()).expect("write");
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).expect("write");
    }

    fn authority(&self, name: &str) {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        fs::write(self.path(name), issuer.pem()).expect("write");
    }

    /// A config whose one certificate has these two files, and these lines below.
    fn config(&self, certificate: &str, key: &str, more: &str) -> Config {
        let text = format!(
            "tls:\n  certificates:\n    - certificate: {}\n      key: {}\n{more}",
            self.path(certificate),
            self.path(key)
        );
        let file = self.0.path().join("gateway.yaml");
        fs::write(&file, text).expect("write");
        Config::load(Some(&file), json!({})).expect("a config")
    }

    fn section(&self, names: &[&str], client_ca: Option<&str>) -> Tls {
        let certificates: Vec<Value> = names
            .iter()
            .map(|name| json!({ "certificate": self.path(&format!("{name}.crt")), "key": self.path(&format!("{name}.key")) }))
            .collect();
        let mut section = json!({ "certificates": certificates });
        if let Some(file) = client_ca {
            section["client-ca"] = self.path(file).into();
        }
        Tls::parse(&section).expect("a section")
    }
}

#[test]
fn a_mistake_in_a_file_names_the_file_and_the_key_that_named_it() {
    let folder = Folder::new();
    folder.pair("a", "*.a.example", (2020, 2990));
    folder.pair("b", "*.b.example", (2020, 2990));
    fs::write(folder.path("empty"), "").expect("write");
    for (certificate, key, more, place, words) in [
        ("a.crt", "none.key", "", "4:7: tls.certificates[0].key: ", "none.key: No such file"),
        ("none.crt", "a.key", "", "3:7: tls.certificates[0].certificate: ", "none.crt: No such file"),
        (
            "empty",
            "a.key",
            "",
            "3:7: tls.certificates[0].certificate: ",
            "empty: expected certificates in PEM",
        ),
        ("a.crt", "empty", "", "4:7: tls.certificates[0].key: ", "empty: expected a private key in PEM"),
        (
            "a.crt",
            "b.key",
            "",
            "4:7: tls.certificates[0].key: ",
            "b.key: not the key of the first certificate in ",
        ),
        (
            "a.crt",
            "a.key",
            "      domains: ['*.a.example', '*.b.example']\n",
            "5:7: tls.certificates[0].domains: ",
            "a.crt is not for *.b.example, but for *.a.example",
        ),
        ("a.crt", "a.key", "  client-ca: /none.pem\n", "5:3: tls.client-ca: ", "/none.pem: No such file"),
    ] {
        let error = check(&folder.config(certificate, key, more)).expect_err(words).to_string();
        assert!(error.contains(&format!("gateway.yaml:{place}")) && error.contains(words), "{error}");
    }
    assert_eq!(
        check(&folder.config("a.crt", "a.key", "      domains: ['*.a.example', x.A.example]\n")).unwrap(),
        [""; 0]
    );
}

#[test]
fn a_date_that_is_over_and_hosts_that_no_certificate_is_for_are_told() {
    let folder = Folder::new();
    folder.pair("old", "*.a.example", (2020, 2021));
    folder.pair("young", "*.a.example", (2980, 2990));
    let told = |name: &str, more: &str| {
        check(&folder.config(&format!("{name}.crt"), &format!("{name}.key"), more)).unwrap().join("\n")
    };
    let old = told("old", "");
    assert!(
        old.contains(":3:7: tls.certificates[0].certificate: ")
            && old.contains("old.crt: expired on 2021-01-01"),
        "{old}"
    );
    let young = told("young", "");
    assert!(young.contains("young.crt: not valid before 2980-01-01"), "{young}");
    let hosts = told("young", "filter: { domains: [a.example, b.example] }\n");
    assert!(hosts.contains("no certificate is for *.b.example") && !hosts.contains("*.a.example"), "{hosts}");
}

#[test]
fn the_door_names_secrets_and_no_key_is_in_any_file_of_envoys() {
    let folder = Folder::new();
    folder.pair("a", "a.example", (2020, 2990));
    folder.pair("b", "b.example", (2020, 2990));
    folder.authority("ca.pem");
    let (tls, place) = (folder.section(&["a", "b"], Some("ca.pem")), folder.0.path().join("secrets"));
    let chain = |secrets: Option<&Path>| {
        let mut config =
            json!({ "static_resources": { "listeners": [{ "filter_chains": [{ "filters": [1, 2] }] }] } });
        Door { tls: &tls, secrets }.put(&mut config).unwrap();
        assert!(config["node"]["id"].is_string() && config["node"]["cluster"].is_string(), "{config}");
        config.pointer(CHAIN).unwrap().clone()
    };
    let by_sds = chain(Some(&place));
    assert_eq!(
        (&by_sds["filters"], &by_sds["transport_socket_connect_timeout"]),
        (&json!([1, 2]), &json!("10s"))
    );
    let context = &by_sds["transport_socket"]["typed_config"];
    assert_eq!(context["require_client_certificate"], true);
    let common = &context["common_tls_context"];
    assert_eq!(common["alpn_protocols"], json!(["h2", "http/1.1"]));
    assert_eq!(common["tls_params"]["tls_minimum_protocol_version"], "TLSv1_2");
    let named = common["tls_certificate_sds_secret_configs"].as_array().unwrap().iter();
    write_secrets(&place, &tls).unwrap();
    for (secret, pem) in
        named.chain([&common["validation_context_sds_secret_config"]]).zip(["a.crt", "b.crt", "ca.pem"])
    {
        let file = secret["sds_config"]["path_config_source"]["path"].as_str().unwrap();
        let written = fs::read_to_string(file).unwrap();
        assert!(written.contains(pem) && written.contains(secret["name"].as_str().unwrap()), "{written}");
        assert!(!written.contains("PRIVATE"), "{written}");
    }
    let plain = chain(None).to_string();
    assert!(plain.contains("a.key") && plain.contains("trusted_ca") && !plain.contains("sds"), "{plain}");
}

#[test]
fn a_change_rings_once_it_is_good_and_only_for_its_own_secret() {
    let folder = Folder::new();
    folder.pair("a", "a.example", (2020, 2990));
    folder.pair("b", "b.example", (2020, 2990));
    let (tls, place) = (folder.section(&["a", "b"], None), folder.0.path().join("secrets"));
    write_secrets(&place, &tls).unwrap();
    let mut watched = secrets(&tls, &place);
    let rung = |name: &str| fs::remove_file(place.join(name).join("changed")).is_ok();
    assert!(watched.iter_mut().all(|secret| secret.poll().is_none()));

    // The certificate first, and the key some time after it.
    folder.pair("new", "a.example", (2020, 2990));
    fs::rename(folder.path("new.crt"), folder.path("a.crt")).unwrap();
    assert_eq!((watched[0].poll(), rung("certificate-0")), (None, false));
    let word = watched[0].poll().expect("still wrong");
    assert!(word.contains("the last good certificate stays") && word.contains("not the key of"), "{word}");
    assert_eq!(watched[0].poll(), None, "told once");
    // Overwritten in place: the file is the same, its content is not.
    fs::write(folder.path("a.key"), fs::read(folder.path("new.key")).unwrap()).unwrap();
    let word = watched[0].poll().expect("good now");
    assert!(word.contains("a.crt: for a.example, until 2990-01-01"), "{word}");
    assert!(rung("certificate-0") && !rung("certificate-1"));
    assert_eq!((watched[0].poll(), watched[1].poll(), rung("certificate-0")), (None, None, false));

    fs::remove_file(folder.path("b.crt")).unwrap();
    assert_eq!((watched[1].poll(), rung("certificate-1")), (None, false));
    assert!(watched[1].poll().expect("still gone").contains("b.crt: No such file"));
}
