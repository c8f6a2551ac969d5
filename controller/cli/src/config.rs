//! The config file of `sandgate run`, checked before Envoy sees any of it.
//!
//! What a section leaves out is what `envoy/config/gateway.yaml` has, so `sandgate explain` and `sandgate
//! run` agree.

use std::path::Path;

use sandgate_config::{ClusterConfig, ConfigError};
use sandgate_request::FilterConfig;
use sandgate_watch::{AuthSettings, Settings};
use serde_json::{Map, Value};

use crate::failure::{Failure, usage};

mod listen;
mod locate;
mod manager;
mod mistakes;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use listen::{Listen, Timeouts};
pub(crate) use manager::{HOST as MANAGER_HOST, Manager, ManagerTls, PATH as MANAGER_PATH};
pub(crate) use tls::{Certificate, Tls, Version};

const SECTIONS: &str = "`filter`, `gateway`, `cluster`, `listen`, `timeouts`, `tls` or `manager`";

/// A checked config.
#[derive(Debug)]
pub(crate) struct Config {
    /// The filter's config, complete.
    pub(crate) filter: Value,
    /// The keys of the `gateway` section, only those that were given.
    pub(crate) gateway: Map<String, Value>,
    /// Where keys come from, if they are given. Nobody has looked at the files yet.
    pub(crate) auth: Option<AuthSettings>,
    /// The keys of the `cluster` section, only those that were given.
    pub(crate) cluster: Map<String, Value>,
    /// The `listen` section.
    pub(crate) listen: Listen,
    /// The `timeouts` section.
    pub(crate) timeouts: Timeouts,
    /// The `tls` section, if there is one. Nobody has looked at its files yet.
    pub(crate) tls: Option<Tls>,
    /// The `manager` section, if there is one.
    pub(crate) manager: Option<Manager>,
    /// The filter's config as the filter reads it.
    pub(crate) parsed: FilterConfig,
    /// The file, for mistakes that are found later.
    name: String,
    text: String,
}

/// A mistake in a config file. A retry does not help: the file has to change.
#[derive(Debug, thiserror::Error)]
#[error("{}:{}: {text}", .at.0, .at.1)]
struct Mistake {
    /// Line and column.
    at: (u64, u64),
    /// The key it is about, empty for the file as a whole.
    key: String,
    /// The key, if there is one, and the reason.
    text: String,
}

impl Config {
    /// `base` is the filter config for keys that the file leaves out.
    pub(crate) fn load(path: Option<&Path>, base: Value) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Self::parse("", base).map_err(|mistake| Failure::usage(mistake.to_string()));
        };
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| usage!("{name}: cannot be read: {e}"))?;
        let config = Self::parse(&text, base).map_err(|mistake| usage!("{name}:{mistake}"))?;
        Ok(Self { name: name.to_string(), ..config })
    }

    /// Where a key stands, and its name: how every message about it begins.
    pub(crate) fn place(&self, key: &str) -> String {
        let (line, column) = locate(&self.text, key);
        format!("{}:{line}:{column}: {key}", self.name)
    }

    /// The base domains of hosts, in lower case and without the dot that may stand before them.
    pub(crate) fn domains(&self) -> Vec<String> {
        let given = self.filter["domains"].as_array().into_iter().flatten().filter_map(Value::as_str);
        given.map(|domain| domain.trim_start_matches('.').to_ascii_lowercase()).collect()
    }

    fn parse(text: &str, base: Value) -> Result<Self, Mistake> {
        Self::check(text, Self::sections(text)?, base)
    }

    fn sections(text: &str) -> Result<Map<String, Value>, Mistake> {
        let whole = |at, text: String| Mistake { at, key: String::new(), text };
        let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true };
        let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let at = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            whole(at, strip_place(&error.to_string()).to_owned())
        })?;
        match value {
            Value::Object(sections) => Ok(sections),
            Value::Null => Ok(Map::new()),
            _ => Err(whole((1, 1), format!("expected a mapping with keys of {SECTIONS}"))),
        }
    }

    fn check(text: &str, sections: Map<String, Value>, base: Value) -> Result<Self, Mistake> {
        let wrong = |key: &str, reason: &str| Mistake {
            at: locate(text, key),
            key: key.to_owned(),
            text: format!("{key}: {reason}"),
        };
        let in_section = |section: &'static str| {
            move |error: ConfigError| wrong(&join(section, &error.key), strip_place(&error.reason))
        };
        let mut filter = match base {
            Value::Object(base) => base,
            _ => Map::new(),
        };
        let (mut gateway, mut cluster, mut tls, mut manager) = (Map::new(), Map::new(), None, None);
        let (mut listen, mut timeouts) = (Listen::default(), Timeouts::default());
        for (name, section) in sections {
            if name == "listen" {
                listen = Listen::parse(&section).map_err(in_section("listen"))?;
                continue;
            }
            if name == "timeouts" {
                timeouts = Timeouts::parse(&section).map_err(in_section("timeouts"))?;
                continue;
            }
            if name == "tls" {
                tls = Some(Tls::parse(&section).map_err(in_section("tls"))?);
                continue;
            }
            if name == "manager" {
                manager = Some(Manager::parse(&section).map_err(in_section("manager"))?);
                continue;
            }
            let into = match name.as_str() {
                "filter" => &mut filter,
                "gateway" => &mut gateway,
                "cluster" => &mut cluster,
                _ => return Err(wrong(&name, &format!("unknown key, expected {SECTIONS}"))),
            };
            match section {
                Value::Object(keys) => into.extend(keys),
                Value::Null => {}
                _ => return Err(wrong(&name, "expected a mapping")),
            }
        }

        let filter = Value::Object(filter);
        let parsed = FilterConfig::parse(filter.to_string().as_bytes()).map_err(in_section("filter"))?;
        ClusterConfig::parse(Value::Object(cluster.clone()).to_string().as_bytes())
            .map_err(in_section("cluster"))?;

        // The routes file may be named on the command line instead, so that it is missing here says nothing.
        let mut settings = gateway.clone();
        if !settings.contains_key("kubernetes") {
            settings.entry("routes-file").or_insert_with(|| "routes.yaml".into());
        }
        let settings = Settings::parse(Value::Object(settings).to_string().as_bytes());
        let settings = settings.map_err(in_section("gateway"))?;
        Ok(Config {
            filter,
            gateway,
            auth: settings.auth().cloned(),
            cluster,
            listen,
            timeouts,
            tls,
            manager,
            parsed,
            name: String::new(),
            text: text.to_owned(),
        })
    }
}

fn locate(text: &str, key: &str) -> (u64, u64) {
    locate::find(text, key).unwrap_or((1, 1))
}

fn join(section: &str, key: &str) -> String {
    // The parsers name their whole input `top level`.
    if key == "top level" { section.to_owned() } else { format!("{section}.{key}") }
}

/// The parsers were given our rendering of the file: a place in that is none in the file.
fn strip_place(reason: &str) -> &str {
    reason.split(" at line ").next().unwrap_or_default()
}
