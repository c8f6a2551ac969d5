//! The configuration reference, made from the JSON schemas.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::locations;

/// The sections of the config, each with its schema in `envoy/config` and what it is for.
const SECTIONS: [(&str, &str, &str); 9] = [
    ("gateway", "gateway", "Section `gateway`: the bootstrap extension, one for a process."),
    ("filter", "filter", "Section `filter`: the HTTP filter."),
    ("cluster", "cluster", "Section `cluster`: both clusters."),
    (
        "listen",
        "listen",
        "Section `listen`: for `sandgate run` alone, which sets Envoy's connection manager.",
    ),
    (
        "timeouts",
        "timeouts",
        "Section `timeouts`: for `sandgate run` alone, which sets Envoy's routes and clusters.",
    ),
    ("tls", "tls", "Section `tls`: for `sandgate run` alone. See [TLS at the door](tls.md)."),
    (
        "manager",
        "manager",
        "Section `manager`: for `sandgate run` alone. See [The manager](manager.md#behind-the-gateway).",
    ),
    (
        "connections",
        "connections",
        "The network filter. `sandgate run` sets it; it has no section of its own.",
    ),
    ("routes file", "routes", "The file that `gateway.routes-file` or `--routes` names."),
];

/// The width of a line of prose.
const WIDTH: usize = 118;

const HEAD: &str = "\
# Configuration reference

Made from the JSON schemas in `envoy/config` by `make docs-reference`; a test compares them. Do not edit this page.
[Configuration](configuration.md) says which keys matter and how the sections belong together. `[]` in a key stands for
the entries of a list. A key in **bold** is required.
";

/// The page `envoy/docs/reference.md`.
///
/// # Panics
/// When a schema is missing or is not one.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for (title, schema, about) in SECTIONS {
        let path = format!("envoy/config/{schema}.schema.json");
        let file = locations::repository().join(&path);
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
        let root: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let what = line(root["description"].as_str().unwrap_or_default());
        let link = format!("[`{schema}.schema.json`](../config/{schema}.schema.json)");
        write!(page, "\n## {title}\n\n{}\n\n", wrapped(&format!("{about} {what} Schema: {link}.")))
            .expect("text");
        page.push_str("| key | values | default | |\n|---|---|---|---|\n");
        rows(&root, &root, "", &mut page);
    }
    page
}

/// Appends a row for each key of an object, and for the keys below it.
fn rows(root: &Value, object: &Value, prefix: &str, page: &mut String) {
    let Some(properties) = object["properties"].as_object() else { return };
    let required =
        |name: &str| object["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name));
    for (name, stated) in properties {
        let schema = resolve(root, stated);
        let items = resolve(root, &schema["items"]);
        let listed = items["properties"].is_object();
        let key = format!("{prefix}{name}{}", if listed { "[]" } else { "" });
        let shown = if required(name) { format!("**`{key}`**") } else { format!("`{key}`") };
        let text = stated["description"].as_str().or(schema["description"].as_str()).unwrap_or_default();
        let choices = choices(schema);
        writeln!(
            page,
            "| {shown} | {} | {} | {} |",
            cell(&values(root, schema)),
            cell(&default(schema)),
            cell(&format!("{}{choices}", line(text)))
        )
        .expect("text");
        rows(root, if listed { items } else { schema }, &format!("{key}."), page);
    }
}

/// What a schema refers to, or the schema itself.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.map_or(schema, |name| &root["$defs"][name])
}

/// Which values a key may have.
fn values(root: &Value, schema: &Value) -> String {
    if let Some(all) = schema["enum"].as_array() {
        // A number beside the text of the same value is for YAML that leaves the quotes out.
        let texts: Vec<String> =
            all.iter().filter(|value| value.is_string() || !has_text(all)).map(code).collect();
        return texts.join(", ");
    }
    if !schema["const"].is_null() {
        return code(&schema["const"]);
    }
    for alternatives in ["oneOf", "anyOf"] {
        if let Some(all) = schema[alternatives].as_array()
            && all.iter().all(|one| one["required"].is_null())
        {
            let mut texts: Vec<String> = all.iter().map(|one| values(root, resolve(root, one))).collect();
            texts.retain(|text| !text.is_empty());
            texts.dedup();
            if !texts.is_empty() {
                return texts.join(" or ");
            }
        }
    }
    match schema["type"].as_str().or(schema["type"][0].as_str()) {
        Some("array") => {
            let items = values(root, resolve(root, &schema["items"]));
            if items.is_empty() || items == "object" { "list".to_owned() } else { format!("list of {items}") }
        }
        Some("integer") => match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            (Some(least), Some(most)) if most < 1 << 53 => format!("{least} to {most}"),
            _ => "integer".to_owned(),
        },
        Some(other) => other.to_owned(),
        None => schema["format"].as_str().unwrap_or_default().to_owned(),
    }
}

fn has_text(values: &[Value]) -> bool {
    values.iter().any(Value::is_string)
}

/// The values that are described one by one, as a sentence each.
fn choices(schema: &Value) -> String {
    let all = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let described = all.iter().filter(|one| one["const"].is_string());
    described
        .map(|one| {
            format!(" {}: {}", code(&one["const"]), line(one["description"].as_str().unwrap_or_default()))
        })
        .collect()
}

/// The default; of an object its keys have their own.
fn default(schema: &Value) -> String {
    match &schema["default"] {
        Value::Null | Value::Object(_) => String::new(),
        value => code(value),
    }
}

fn code(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

/// A description as one line; rustdoc's lines are broken where the source is.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A paragraph, in lines that fit into a window.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("never empty");
        if line.is_empty() || line.chars().count() + word.chars().count() < WIDTH {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
