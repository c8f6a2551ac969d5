//! The page `envoy/docs/api-reference.md`, made from the OpenAPI document.

use std::fmt::Write as _;

use serde_json::Value;

const HEAD: &str = "\
# API reference

Made from the OpenAPI document of `sandgate-manager` by `make docs-reference`; a test compares them. Do not edit this
page. The manager serves the document at `/openapi.json`; it is also in the repository, as
[`controller/manager/openapi.json`](../../controller/manager/openapi.json).

Every path is also there below `/kruise/api`, as OpenKruise has it. Every request but those of [Health](#health) needs a
key in the header `X-API-KEY`. A field in **bold** is required. What E2B's API has and this page has not (building
templates, volumes, secrets) is answered with 501 and a sentence that says what to do instead.

## Failures

Every failure has this body, and its `code` is the HTTP status:

```text
{\"code\": 404, \"message\": \"sandbox abc was not found\", \"request_id\": \"9f2c…\"}
```

`error_code` is there where the status does not say enough. The header `X-Request-ID` has the ID of the request: the
caller's own, if it sent one of up to 128 letters, digits and `-_.:`.

| status | |
|---|---|
";

/// The width of a line of prose.
const WIDTH: usize = 120;

/// The sections, in the order of the page: tag and title.
const SECTIONS: [(&str, &str); 6] = [
    ("sandboxes", "Sandboxes"),
    ("snapshots", "Snapshots"),
    ("templates", "Templates"),
    ("usage", "Use and logs"),
    ("keys", "Keys and teams"),
    ("health", "Health"),
];

pub(super) fn reference(document: &Value) -> String {
    let mut page = HEAD.to_owned();
    for (name, response) in document["components"]["responses"].as_object().into_iter().flatten() {
        let status = name.trim_start_matches("Error");
        writeln!(page, "| {status} | {} |", line(&response["description"])).unwrap();
    }
    for (tag, title) in SECTIONS {
        writeln!(page, "\n## {title}").unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                if operation["tags"][0] == tag {
                    write(&mut page, path, &method.to_uppercase(), operation);
                }
            }
        }
    }
    page.push_str("\n## Bodies\n");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        body(&mut page, document, name, schema);
    }
    wrapped(&page)
}

/// The text with lines of prose that fit into a window. Rows of tables stay as they are.
fn wrapped(page: &str) -> String {
    let mut text = String::new();
    for line in page.lines() {
        let mut column = 0;
        for word in line.split(' ') {
            let width = word.chars().count();
            if column > 0 && column + 1 + width > WIDTH && !line.starts_with('|') {
                text.push('\n');
                column = 0;
            } else if column > 0 {
                text.push(' ');
                column += 1;
            }
            text.push_str(word);
            column += width;
        }
        text.push('\n');
    }
    text
}

fn write(page: &mut String, path: &str, method: &str, operation: &Value) {
    write!(page, "\n### {method} {path}\n\n{}.", line(&operation["summary"])).unwrap();
    if operation["description"].is_string() {
        write!(page, " {}", line(&operation["description"])).unwrap();
    }
    page.push('\n');
    let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
    if !parameters.is_empty() {
        page.push_str("\n| parameter | in | values | |\n|---|---|---|---|\n");
        for parameter in parameters {
            let (name, place) = (line(&parameter["name"]), line(&parameter["in"]));
            let shown =
                if parameter["required"] == true { format!("**`{name}`**") } else { format!("`{name}`") };
            let about = line(&parameter["description"]).replace('|', "\\|");
            writeln!(page, "| {shown} | {place} | {} | {about} |", values(&parameter["schema"])).unwrap();
        }
    }
    let content = &operation["requestBody"]["content"]["application/json"]["schema"];
    if content.is_object() {
        writeln!(page, "\nBody: {}.", values(content)).unwrap();
    }
    page.push_str("\nAnswers: ");
    let mut failures = Vec::new();
    for (status, response) in operation["responses"].as_object().unwrap() {
        if response["$ref"].is_string() {
            failures.push(status.as_str());
            continue;
        }
        write!(page, "{status}: {}", line(&response["description"]).trim_end_matches('.')).unwrap();
        let schema = &response["content"]["application/json"]["schema"];
        if schema.is_object() {
            write!(page, ", {}", values(schema)).unwrap();
        }
        page.push_str(". ");
    }
    if !failures.is_empty() {
        write!(page, "Failures: {}.", failures.join(", ")).unwrap();
    }
    let kept = page.trim_end().len();
    page.truncate(kept);
    page.push('\n');
}

fn body(page: &mut String, document: &Value, name: &str, schema: &Value) {
    writeln!(page, "\n### {name}\n\n{}\n", line(&schema["description"])).unwrap();
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| format!("`{}`", line(word))).collect();
        writeln!(page, "One of {}.", words.join(", ")).unwrap();
        return;
    }
    page.push_str("| field | values | |\n|---|---|---|\n");
    let parts = schema["allOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
    for part in parts {
        let pointer = part["$ref"].as_str().map(|name| name.trim_start_matches('#').to_owned());
        let part = pointer.and_then(|pointer| document.pointer(&pointer)).unwrap_or(&part);
        let required: Vec<&Value> = part["required"].as_array().into_iter().flatten().collect();
        for (field, property) in part["properties"].as_object().into_iter().flatten() {
            let shown = if required.iter().any(|name| *name == field) {
                format!("**`{field}`**")
            } else {
                format!("`{field}`")
            };
            let alternatives = property["oneOf"].as_array().into_iter().flatten();
            let described = alternatives.chain([property]).find(|one| one["description"].is_string());
            let about = described.map(|one| line(&one["description"])).unwrap_or_default();
            writeln!(page, "| {shown} | {} | {} |", values(property), about.replace('|', "\\|")).unwrap();
        }
    }
}

/// Which values there may be.
fn values(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(all) = schema["oneOf"].as_array() {
        return all.iter().map(values).collect::<Vec<_>>().join(" or ");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    // A parameter is there or not; it is never null.
    let shown = kinds.iter().map(|kind| match *kind {
        "array" => format!("list of {}", values(&schema["items"])),
        "integer" => match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            _ => "integer".to_owned(),
        },
        "object" if schema["additionalProperties"].is_object() => {
            format!("map of {}", values(&schema["additionalProperties"]))
        }
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        other => other.to_owned(),
    });
    let mut text = shown.collect::<Vec<_>>().join(" or ");
    if !schema["default"].is_null() {
        write!(text, ", default {}", schema["default"]).unwrap();
    }
    text
}

/// One line of a text, whatever lines it has in the source.
fn line(text: &Value) -> String {
    text.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
