//! What to check: the `kubernetes` section of the config file, narrowed by the command line, or built from
//! it.

use sandgate_routes::AddressPolicy;
use sandgate_watch::{KubernetesSettings, Settings};
use serde_json::{Map, Value, json};

use crate::args::Check;
use crate::config::Config;
use crate::failure::{Failure, usage};
use crate::run::shipped_filter_config;

/// The providers that need no more than their name.
const BUILT_IN: [&str; 4] = ["openkruise", "agent-sandbox", "opensandbox", SANDBOX_ENV];
/// Its objects are pods. Every cluster serves them, so that says nothing of whether the project is there:
/// this provider is looked at only where it is named.
const SANDBOX_ENV: &str = "sandbox-env";

#[derive(Debug)]
pub(super) struct Subject {
    pub(super) settings: KubernetesSettings,
    /// Which addresses sandboxes may have.
    pub(super) addresses: AddressPolicy,
    /// Nobody asked for these providers: one that is not in the cluster is no failure.
    pub(super) optional: bool,
}

pub(super) fn subject(args: &Check) -> Result<Subject, Failure> {
    let mut gateway = configured(args)?;
    let mut section = gateway.remove("kubernetes").and_then(|section| section.as_object().cloned());
    let optional = section.is_none() && args.providers.is_empty();
    let ranges = gateway.remove("pod-ranges");
    let mut providers = match section.as_mut().and_then(|section| section.remove("providers")) {
        Some(Value::Array(configured)) => chosen(configured, &args.providers)?,
        // No config to judge: whether it would need ranges is told with what is found.
        _ => built_in(&args.providers, ranges.is_none())?,
    };
    if !args.namespaces.is_empty() {
        providers.retain_mut(|provider| narrow(provider, &args.namespaces));
        if providers.is_empty() {
            let names = args.namespaces.join(", ");
            return Err(usage!("no provider of the config watches {names}"));
        }
    }
    let mut section = section.unwrap_or_default();
    section.insert("providers".to_owned(), Value::Array(providers));
    if let Some(path) = &args.kubeconfig {
        let path = path.to_str().ok_or_else(|| Failure::usage("--kubeconfig is not UTF-8"))?;
        section.insert("kubeconfig".to_owned(), json!(path));
    }
    if let Some(context) = &args.context {
        section.insert("context".to_owned(), json!(context));
    }
    let mut checked = json!({ "kubernetes": section });
    if let Some(ranges) = ranges {
        checked["pod-ranges"] = ranges;
    }
    let checked = Settings::parse(checked.to_string().as_bytes());
    let checked = checked.map_err(|error| Failure::usage(error.to_string()))?;
    let settings = checked.kubernetes().cloned();
    let settings = settings.ok_or_else(|| Failure::new("the settings have lost the cluster"))?;
    Ok(Subject { settings, addresses: checked.addresses().clone(), optional })
}

/// The `gateway` section of the config file, if there is a file.
fn configured(args: &Check) -> Result<Map<String, Value>, Failure> {
    let Some(path) = &args.config else { return Ok(Map::new()) };
    let gateway = Config::load(Some(path), shipped_filter_config())?.gateway;
    if gateway.contains_key("kubernetes") || !args.providers.is_empty() {
        return Ok(gateway);
    }
    Err(usage!(
        "{} has no gateway.kubernetes section, so a gateway with it watches no cluster. Name a --provider to check one all \
         the same",
        path.display()
    ))
}

/// The configured providers of these names, or all of them.
fn chosen(configured: Vec<Value>, names: &[String]) -> Result<Vec<Value>, Failure> {
    if names.is_empty() {
        return Ok(configured);
    }
    let called = |provider: &Value| {
        let name = provider.get("name").or_else(|| provider.get("kind")).and_then(Value::as_str);
        name.unwrap_or_default().to_owned()
    };
    let known: Vec<String> = configured.iter().map(called).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        let known = known.join(", ");
        return Err(usage!("--provider {unknown}: the config has no such provider, but {known}"));
    }
    Ok(configured.into_iter().filter(|provider| names.contains(&called(provider))).collect())
}

/// The built-in providers of these names, or all that have a kind of their own. OpenSandbox's are read only
/// with ranges or this override.
fn built_in(names: &[String], any_address: bool) -> Result<Vec<Value>, Failure> {
    if let Some(unknown) = names.iter().find(|name| !BUILT_IN.contains(&name.as_str())) {
        let known = BUILT_IN.join(", ");
        return Err(usage!(
            "--provider {unknown}: expected one of {known}, or the name of a `generic` one in --config"
        ));
    }
    let asked = |kind: &&str| match names {
        [] => *kind != SANDBOX_ENV,
        names => names.iter().any(|name| name == kind),
    };
    let entry = |kind: &str| match kind {
        "opensandbox" => json!({ "kind": kind, "any-address": any_address }),
        _ => json!({ "kind": kind }),
    };
    Ok(BUILT_IN.into_iter().filter(asked).map(entry).collect())
}

/// Leaves only these namespaces of what the provider watches. False where none is left.
fn narrow(provider: &mut Value, namespaces: &[String]) -> bool {
    let watched = provider.get("namespaces").and_then(Value::as_array);
    let is_watched =
        |name: &&String| watched.is_none_or(|watched| watched.iter().any(|known| known == name.as_str()));
    let left: Vec<&String> = namespaces.iter().filter(is_watched).collect();
    let some = !left.is_empty();
    if some {
        provider["namespaces"] = json!(left);
    }
    some
}
