//! What `sandgate run` prints once the gateway is ready.

use std::fmt::Write as _;

use sandgate_request::{FilterConfig, Recognition, recognise};

use super::demo::Demo;
use super::process::Ready;
use super::reachable;

#[cfg(test)]
mod tests;

pub(super) fn text(
    ready: &Ready,
    source: &str,
    demo: Option<&Demo>,
    config: &FilterConfig,
    tls: bool,
) -> String {
    // Clients speak to a gateway by its names; these lines, by its address, which is in no certificate.
    let (scheme, curl) = if tls { ("https", "curl -k") } else { ("http", "curl") };
    let gateway = format!("{scheme}://{}", reachable(ready.listener));
    let admin = &ready.admin;
    let routes = ready.routes.map_or_else(|| "?".to_owned(), |routes| routes.to_string());
    let mut text = format!(
        "Sandgate is ready.\n  gateway  {gateway}\n  admin    {admin}/sandgate/routes\n  routes   {routes} from {source}\n"
    );
    let Some(demo) = demo else {
        let _ = write!(
            text,
            "\nA request to a sandbox, by its id and a port it listens on:\n  {curl} {gateway}/kruise/ID/PORT/\nWhat would \
             happen to a request:\n  sandgate explain --admin {admin} {gateway}/kruise/ID/PORT/\n"
        );
        return text;
    };
    let lines: Vec<String> = examples(demo)
        .into_iter()
        .filter(|example| example.works(config))
        .map(|example| example.curl(curl, &gateway))
        .collect();
    if !lines.is_empty() {
        let _ =
            write!(text, "\nTry the demo sandboxes, one line for each dialect:\n  {}\n", lines.join("\n  "));
    }
    text
}

/// A request in one of the dialects.
struct Example {
    headers: Vec<(&'static str, String)>,
    path: String,
}

fn examples(demo: &Demo) -> [Example; 3] {
    let [a, b] = &demo.sandboxes;
    [
        // OpenKruise and E2B, by host.
        Example {
            headers: vec![("Host", format!("{}-default--{}.localhost", a.port, a.name))],
            path: "/hello".into(),
        },
        // SIG agent-sandbox, by headers.
        Example {
            headers: vec![("X-Sandbox-ID", b.name.to_owned()), ("X-Sandbox-Port", b.port.to_string())],
            path: "/hello".into(),
        },
        // OpenSandbox, by path.
        Example { headers: Vec::new(), path: format!("/default--{}/{}/hello", a.name, a.port) },
    ]
}

impl Example {
    fn curl(&self, curl: &str, gateway: &str) -> String {
        let mut line = curl.to_owned();
        for (name, value) in &self.headers {
            let _ = write!(line, " -H '{name}: {value}'");
        }
        let _ = write!(line, " {gateway}{}", self.path);
        line
    }

    /// Whether the config has the dialect switched on.
    fn works(&self, config: &FilterConfig) -> bool {
        let mut headers = vec![(":path", self.path.clone())];
        for (name, value) in &self.headers {
            headers.push((if *name == "Host" { ":authority" } else { name }, value.clone()));
        }
        matches!(recognise(headers.as_slice(), config), Recognition::Addressed(_))
    }
}
