//! Envoy's access log, one JSON object a line.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::TAG;

/// One entry.
#[derive(Clone, Debug)]
pub struct Access {
    /// The status code the client got.
    pub status: u16,
    /// `%RESPONSE_CODE_DETAILS%`.
    pub details: String,
    /// The address the request went to; empty when it went nowhere.
    pub upstream: String,
    /// `:authority`, as the client sent it.
    pub authority: String,
    /// The path the client sent.
    pub path: String,
    /// The tag of the harness.
    pub tag: String,
}

/// Access log config that [`Access::read`] understands.
pub(super) fn config(file: &Path) -> Value {
    json!({
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": file,
            "log_format": { "json_format": {
                "status": "%RESPONSE_CODE%",
                "details": "%RESPONSE_CODE_DETAILS%",
                "upstream": "%UPSTREAM_HOST%",
                "authority": "%REQ(:AUTHORITY)%",
                "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
                "tag": format!("%REQ({TAG})%"),
            }},
        },
    })
}

impl Access {
    pub(super) fn read(file: &Path) -> Vec<Self> {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // The last line may still be on its way to the file.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| Self::parse(line).unwrap_or_else(|| panic!("not an access log entry: {line}")))
            .collect()
    }

    fn parse(line: &str) -> Option<Self> {
        let entry: Value = serde_json::from_str(line).ok()?;
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        Some(Self {
            status: entry["status"].as_u64().and_then(|status| status.try_into().ok())?,
            details: text("details"),
            upstream: text("upstream"),
            authority: text("authority"),
            path: text("path"),
            tag: text("tag"),
        })
    }
}
