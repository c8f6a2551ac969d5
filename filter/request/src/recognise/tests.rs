use super::{Recognition, recognise};
use crate::{FilterConfig, Form, Headers};

mod conflicts;
mod duplicates;
mod forms;
mod order;
mod peers;
mod sandbox_id;
mod signed;

/// What was recognised, in one line: `form id:port`, then the expiry of a signature and the rewritten path,
/// if there are any.
fn read_with(config: &FilterConfig, headers: &[(&str, &str)]) -> String {
    match recognise(headers, config) {
        Recognition::Unaddressed => "unaddressed".into(),
        Recognition::Malformed { form, part } => format!("malformed {} in {}", part.as_str(), form.as_str()),
        Recognition::Conflicting { taken, other } => {
            format!("conflict of {} and {}", taken.as_str(), other.as_str())
        }
        Recognition::Addressed(address) => {
            let mut target = format!("{} {}:{}", address.form().as_str(), address.id(), address.port());
            if let Some(other) = address.other_reading() {
                let pairs = [
                    (Form::KruiseHost, Form::OpenSandboxHost),
                    (Form::AgentSandboxHeader, Form::SandboxEnvHeader),
                ];
                assert!(pairs.contains(&(address.form(), other.form())));
                target = format!("{target} or {}:{}", other.id(), other.port());
            }
            if let Some(signature) = address.signature() {
                target = format!("{target} signed until {}", signature.expires());
            }
            let [unsigned, signed] = [false, true].map(|signed| {
                headers.with(":path", |path| {
                    address.rewrite(path?, signed).map(|path| String::from_utf8_lossy(&path).into_owned())
                })
            });
            assert_eq!(unsigned.is_some(), address.rewrites_path());
            match (unsigned, signed) {
                (Some(unsigned), Some(signed)) if unsigned != signed => {
                    format!("{target} {signed} or unsigned {unsigned}")
                }
                (unsigned, _) => unsigned.map_or(target.clone(), |path| format!("{target} {path}")),
            }
        }
    }
}

fn read(headers: &[(&str, &str)]) -> String {
    read_with(&FilterConfig::default(), headers)
}

fn config(json: &str) -> FilterConfig {
    FilterConfig::parse(json.as_bytes()).expect("a config for a test is valid")
}

/// Reads each value as the given header and compares with what stands beside it.
#[track_caller]
fn each(config: &FilterConfig, name: &str, cases: &[(&str, &str)]) {
    for (value, expected) in cases {
        assert_eq!(read_with(config, &[(name, value)]), *expected, "{name}: {value}");
    }
}
