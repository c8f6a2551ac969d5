//! The published shape of a routes file. `parse` reads the same shape by hand, to say where a mistake is; a test
//! holds the two together.

use schemars::{JsonSchema, generate::SchemaSettings};

/// The JSON schema of a routes file, as published beside Envoy's config.
///
/// The parser alone checks what a schema cannot say well: ids and `namespace`/`name` pairs are unique in a file, an
/// `id` that is left out must still be valid when it is made, an `owner` is measured in bytes, and an `ip` is that of
/// one machine.
pub fn routes_file_schema() -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<RoutesFile>().to_value()
}

/// Routes to sandboxes, for a Sandgate that has no cluster to watch.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "Sandgate routes file")]
#[expect(dead_code, reason = "only its shape is used")]
struct RoutesFile {
    /// Every sandbox there is. What is not listed has no route; an empty list must be written as `[]`.
    #[schemars(length(max = 1_000_000))]
    routes: Vec<RouteEntry>,
}

/// One sandbox.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend(
    "required" = ["name"],
    "not" = { "required": ["access-token", "secure-access-token"] },
    "if" = { "properties": { "state": { "const": "running" } } },
    "then" = { "required": ["ip"] }
))]
#[expect(dead_code, reason = "only its shape is used")]
struct RouteEntry {
    /// The object's name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]{1,253}$"))]
    name: String,
    /// The object's namespace.
    #[schemars(with = "String", extend("default" = "default"), regex(pattern = r"^[A-Za-z0-9._-]{1,63}$"))]
    namespace: Option<String>,
    /// What a request names the sandbox by. Left out: `{namespace}--{name}`.
    #[schemars(with = "String", regex(pattern = r"^[A-Za-z0-9._-]{1,253}$"))]
    id: Option<String>,
    /// The identity: a new uid under an old name is a new sandbox. Left out: `file:{namespace}/{name}`.
    #[schemars(with = "String", regex(pattern = r"^[!-~]{1,253}$"))]
    uid: Option<String>,
    /// Where the sandbox listens, IPv4 or IPv6, without a port: the request says which port. Needed when running.
    #[schemars(with = "String", extend("anyOf" = [{ "format": "ipv4" }, { "format": "ipv6" }]))]
    ip: Option<String>,
    /// Only a running sandbox is served. Any other word makes the sandbox known and not served, and is warned of.
    #[schemars(with = "AnyState", extend("default" = "running"))]
    state: Option<AnyState>,
    /// Whose sandbox it is. Shown, never checked.
    #[schemars(with = "String", regex(pattern = r"^[^\u0000-\u001f\u007f-\u009f]{0,255}$"))]
    owner: Option<String>,
    /// What a request must carry when the filter has `enable-auth`. Shown nowhere.
    #[schemars(with = "String", regex(pattern = r"^[!-~]{1,4096}$"))]
    access_token: Option<String>,
    /// What a request must carry in OpenSandbox-Secure-Access, with or without `enable-auth`. In place of access-token.
    #[schemars(with = "String", regex(pattern = r"^[!-~]{1,4096}$"))]
    secure_access_token: Option<String>,
    /// Refuse requests without a verified traffic token.
    #[schemars(with = "bool", extend("default" = false))]
    require_traffic_auth: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "only its shape is used")]
enum AnyState {
    Known(StateName),
    Other(String),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
#[expect(dead_code, reason = "only its shape is used")]
enum StateName {
    Creating,
    Available,
    Running,
    Paused,
    Unknown,
    Dead,
}
