//! The metadata of a create: what is the user's own, what is a label, what is a wish for how it is made.

use std::collections::BTreeMap;

use super::names::{is_label_value, is_qualified, is_reserved, path};
use super::{flag, kept, seconds};
use crate::api::failure::Failure;
use crate::{Extensions, FOREVER, Reserve};

/// What a wish begins with.
const PREFIX: &str = "e2b.agents.kruise.io/";
/// What a label begins with.
const LABEL: &str = "label:";

/// The metadata, taken apart.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) extensions: Extensions,
    pub(super) never_timeout: bool,
}

/// Takes the metadata apart.
pub(super) fn take(metadata: BTreeMap<String, String>) -> Result<Told, Failure> {
    let mut told = Told::default();
    for (key, value) in metadata {
        let field = path("metadata", &key);
        if let Some(wish) = key.strip_prefix(PREFIX) {
            told.wish(wish, value, &field)?;
        } else if let Some(label) = key.strip_prefix(LABEL) {
            named(label, &field)?;
            if !is_label_value(&value) {
                let expected = "expected a label's value: at most 63 letters, digits, -, _ and .";
                return Err(Failure::field(&field, expected));
            }
            told.labels.insert(label.to_owned(), value);
        } else {
            named(&key, &field)?;
            told.metadata.insert(key, value);
        }
    }
    Ok(told)
}

/// A key that a user may set.
fn named(key: &str, field: &str) -> Result<(), Failure> {
    if !is_qualified(key) {
        let expected = "expected a key as Kubernetes has them: up to 63 letters, digits, -, _ and ., a letter or \
                        digit at both ends, and before it a DNS name with / if you like";
        return Err(Failure::field(field, expected));
    }
    if is_reserved(key) {
        return Err(Failure::field(field, "expected a key that is not the cluster's own"));
    }
    Ok(())
}

impl Told {
    fn wish(&mut self, wish: &str, value: String, field: &str) -> Result<(), Failure> {
        let wishes = &mut self.extensions;
        match wish {
            "claim-timeout-seconds" => wishes.claim_timeout = Some(seconds(field, &value)?),
            "wait-ready-timeout-seconds" => wishes.wait_ready_timeout = Some(seconds(field, &value)?),
            "image" => wishes.image = Some(image(field, value)?),
            "cpu-request" => wishes.cpu_request = Some(cpu(field, value)?),
            "cpu-limit" => wishes.cpu_limit = Some(cpu(field, value)?),
            "skip-init-runtime" => wishes.skip_init_runtime = flag(field, &value)?,
            "reserve-failed-sandbox" => {
                if flag(field, &value)? && wishes.reserve_failed == Reserve::Never {
                    wishes.reserve_failed = Reserve::Forever;
                }
            }
            "reserve-failed-sandbox-for" => wishes.reserve_failed = reserve(field, &value)?,
            "reserve-paused-sandbox-duration" => wishes.reserve_paused = Some(kept(field, &value)?),
            "create-on-no-stock" => wishes.only_from_stock = !flag(field, &value)?,
            "never-timeout" => self.never_timeout = flag(field, &value)?,
            "return-sandbox-ip" => wishes.return_ip = flag(field, &value)?,
            "sandbox-name" => wishes.name = Some(object_name(field, value)?),
            "csi-volume-name" | "csi-mount-point" | "csi-subpath" | "csi-volume-config" => {
                return Err(Failure::field(field, "expected none: this server mounts no volumes"));
            }
            "sandbox-generate-name" => {
                return Err(Failure::field(field, "expected none: use e2b.agents.kruise.io/sandbox-name"));
            }
            _ => {
                return Err(Failure::field(field, "expected one of the known e2b.agents.kruise.io/ keys"));
            }
        }
        Ok(())
    }
}

fn reserve(field: &str, value: &str) -> Result<Reserve, Failure> {
    if value == "never" {
        return Ok(Reserve::Never);
    }
    match kept(field, value) {
        Ok(FOREVER) => Ok(Reserve::Forever),
        Ok(duration) => Ok(Reserve::For(duration)),
        Err(_) => Err(Failure::field(field, "expected never, forever or a duration such as 30m")),
    }
}

fn image(field: &str, value: String) -> Result<String, Failure> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@+".contains(&byte);
    if (1..=1024).contains(&value.len()) && value.bytes().all(fine) {
        return Ok(value);
    }
    Err(Failure::field(field, "expected the name of an image"))
}

/// A quantity of CPU above zero: `2`, `0.5`, `500m`.
fn cpu(field: &str, value: String) -> Result<String, Failure> {
    let number = value.strip_suffix('m').unwrap_or(&value);
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && number.len() <= 16;
    if plain && number.parse::<f64>().is_ok_and(|number| number > 0.0) {
        return Ok(value);
    }
    Err(Failure::field(field, "expected an amount of CPU above zero, such as 500m or 2"))
}

/// The name of an object: what a host name may be, too.
fn object_name(field: &str, value: String) -> Result<String, Failure> {
    let lower = !value.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'_' || byte == b'.');
    if lower && !value.is_empty() && is_label_value(&value) {
        return Ok(value);
    }
    Err(Failure::field(field, "expected a name of at most 63 lower-case letters, digits and -"))
}
