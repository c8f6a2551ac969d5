//! What somebody meets who types the command for the first time: no Envoy is started here.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SANDGATE: &str = env!("CARGO_BIN_EXE_sandgate");

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(SANDGATE);
    command.args(args).stdin(Stdio::null());
    for name in ["SANDGATE_ENVOY", "SANDGATE_MODULE", "NO_COLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(name);
    }
    command
}

fn sandgate(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[track_caller]
fn assert_fails(args: &[&str], code: i32, parts: &[&str]) {
    let output = sandgate(args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in what {args:?} says: {said}");
    }
    assert_eq!(text(&output.stdout), "", "{args:?}");
}

/// A port of this machine that nobody listens on.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_gateway_without_a_source_of_routes_is_an_error_that_names_each() {
    let folder = tempfile::tempdir().unwrap();
    let bare = write(folder.path(), "bare.yaml", "filter: { enable-auth: true }\n");
    let named = write(folder.path(), "named.yaml", "gateway: { routes-file: routes.yaml }\n");
    let ways = ["no source of routes", "--demo", "--routes FILE", "--config FILE"];
    assert_fails(&["run"], 2, &ways);
    assert_fails(&["run", "--config", &bare], 2, &ways);
    // And the demo is not mixed with what is one's own.
    assert_fails(&["run", "--demo", "--routes", "routes.yaml"], 2, &["--demo", "cannot be used with"]);
    assert_fails(&["run", "--demo", "--config", &named], 2, &["--demo", "source of routes"]);
}

#[test]
fn an_address_that_is_not_this_machines_is_told_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let routes = write(folder.path(), "routes.yaml", "routes: []\n");
    // Of a range for documentation, which nobody has. Any file will do for the module: it is not loaded.
    let args = ["run", "--routes", &routes, "--module", &routes, "--address", "203.0.113.7", "--port", "0"];
    assert_fails(&args, 2, &["203.0.113.7", "this machine has no such address", "--address"]);
}

#[test]
fn nobody_at_the_admin_port_is_asked_about() {
    let admin = format!("http://127.0.0.1:{}", closed_port());
    let question = "is a gateway running?";
    assert_fails(&["routes", "--admin", &admin], 1, &[question, &admin, "--admin"]);
    assert_fails(&["explain", "--admin", &admin, "/kruise/default--demo/80/"], 1, &[question, &admin]);
}

#[test]
fn an_id_without_its_namespace_gets_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let routes = write(folder.path(), "routes.yaml", "routes: [{ name: mine, ip: 127.0.0.1 }]");
    let explain = |more: &[&str]| {
        let output = sandgate(&[&["explain", "--routes", &routes], more].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let said = explain(&["-H", "e2b-sandbox-id: mine", "/"]);
    assert!(said.contains("Hint:      there is no mine, but there is default--mine"), "{said}");
    // The word alone, where a URL should be.
    let said = explain(&["mine"]);
    assert!(
        said.contains(&format!("sandgate explain --routes {routes} -H 'e2b-sandbox-id: default--mine' /")),
        "{said}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&explain(&["--json", "-H", "e2b-sandbox-id: mine", "/"])).unwrap();
    assert!(json["hint"].as_str().is_some_and(|hint| hint.contains("default--mine")), "{json}");
    // Nobody of that name, and somebody in another namespace.
    for stranger in ["yours", "team--mine"] {
        let said = explain(&["-H", &format!("e2b-sandbox-id: {stranger}"), "/"]);
        assert!(!said.contains("Hint"), "{said}");
    }
}

#[test]
fn validate_lists_every_mistake_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let routes = write(folder.path(), "routes.yaml", "routes: [{ name: a, ip: 127.0.0.1 }]\n");
    let good = write(folder.path(), "good.yaml", &format!("gateway: {{ routes-file: {routes} }}\n"));
    let output = sandgate(&["validate", &good]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), format!("{good}: ok\n{routes}: ok, 1 route\n"));

    let bare = write(folder.path(), "bare.yaml", "filter: {}\n");
    let output = sandgate(&["validate", &bare]);
    assert!(text(&output.stdout).contains("names no source of routes"), "{}", text(&output.stdout));

    let bad = "filter:\n  colour: blue\n  enable-auth: perhaps\ngateway:\n  max-tombstones: 0\n";
    let bad = write(folder.path(), "bad.yaml", bad);
    let bad_routes = write(folder.path(), "bad-routes.yaml", "routes:\n  - name: demo\n    ip: nowhere\n");
    let places = [
        format!("{bad}:2:3: filter.colour: "),
        format!("{bad}:3:3: filter.enable-auth: "),
        format!("{bad}:5:3: gateway.max-tombstones: "),
        format!("{bad_routes}:3:9: routes[0].ip: "),
    ];
    let output = sandgate(&["validate", &bad, "--routes", &bad_routes]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), places.len() + 1, "{said}");
    for (line, place) in lines.iter().zip(&places) {
        assert!(line.starts_with(place), "{line} does not begin with {place}");
    }
    assert!(lines[4].contains("4 mistakes"), "{said}");
    assert_fails(&["validate", "/no/such.yaml"], 2, &["/no/such.yaml: cannot be read"]);
    assert_fails(&["validate"], 2, &["Usage:"]);
}

#[test]
fn probe_says_whether_the_status_is_the_expected_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ready", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap();
            asked.push(text(&request[..read]));
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .unwrap();
        }
        asked
    });
    let found = sandgate(&["probe", "--status", "404", "-H", "X-Sandbox-ID: demo", &url]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    assert_fails(&["probe", &url], 1, &["answered 404, expected 200"]);
    assert_fails(&["probe", "--status", "503", &url], 1, &["answered 404, expected 503"]);
    let asked = server.join().unwrap();
    assert!(asked[0].starts_with("GET /ready HTTP/1.1\r\n"), "{asked:?}");
    assert!(asked[0].to_lowercase().contains("x-sandbox-id: demo"), "{asked:?}");
    assert_fails(&["probe", &format!("http://127.0.0.1:{}/", closed_port())], 1, &["refused"]);
    assert_fails(&["probe", "https://127.0.0.1/"], 2, &["expected http://"]);
    assert_fails(&["probe", "-H", "no colon", "http://127.0.0.1/"], 2, &["'Name: value'"]);
}

const COMMANDS: [&str; 8] = ["", "run", "explain", "routes", "push", "check", "validate", "probe"];

fn help(command_name: &str, columns: usize) -> String {
    let mut args: Vec<&str> = [command_name].into_iter().filter(|name| !name.is_empty()).collect();
    args.push("--help");
    let output = command(&args).env("COLUMNS", columns.to_string()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    text(&output.stdout)
}

#[test]
fn help_is_as_wide_as_the_terminal_and_its_prose_fills_the_lines() {
    for name in COMMANDS {
        for columns in [60, 80, 120] {
            let help = help(name, columns);
            let width = columns.min(110);
            let lines: Vec<&str> = help.lines().collect();
            for line in &lines {
                // clap breaks no usage; the longest fits into the usual terminal.
                if line.starts_with("Usage:") && columns < 80 {
                    continue;
                }
                assert!(line.chars().count() <= width, "{name} at {columns}: {line}");
            }
            // Prose at the margin is broken where the line is full, and nowhere else.
            for pair in lines.windows(2) {
                let [line, next] = pair else { continue };
                let is_prose =
                    |line: &str| line.starts_with(|c: char| c.is_alphabetic()) && !line.ends_with(':');
                if !is_prose(line) || !is_prose(next) || line.starts_with("Usage") {
                    continue;
                }
                let word = next.split(' ').next().unwrap_or_default();
                assert!(
                    line.trim_end().chars().count() + 1 + word.chars().count() > width,
                    "{name} at {columns}: broken too early:\n{line}\n{next}"
                );
            }
        }
        // The examples fit into the usual terminal, so that they can be copied.
        let examples = |help: &str| -> Vec<String> {
            let is_example =
                |line: &&str| ["sandgate ", "curl ", "-H "].iter().any(|word| line.trim().starts_with(word));
            help.lines().filter(is_example).map(str::to_owned).collect()
        };
        assert_eq!(examples(&help(name, 80)), examples(&help(name, 120)), "{name}");
    }
}

/// What a terminal shows.
fn on_a_terminal(line: &str) -> String {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", line, "/dev/null"]).stdin(Stdio::null());
    script.env("TERM", "xterm").env_remove("NO_COLOR");
    text(&script.output().expect("`script`, of Debian's bsdutils, is a terminal for this test").stdout)
}

#[test]
fn colours_are_for_terminals_and_only_where_they_are_wanted() {
    const ESCAPE: char = '\u{1b}';
    let admin = format!("http://127.0.0.1:{}", closed_port());
    let ask = format!("{SANDGATE} routes --admin {admin}");
    let shown = on_a_terminal(&ask);
    assert!(shown.contains("\u{1b}[1m\u{1b}[31merror:"), "{shown:?}");
    assert!(!on_a_terminal(&format!("NO_COLOR=1 {ask}")).contains(ESCAPE));
    let shown = on_a_terminal(&format!("{SANDGATE} run --help"));
    for heading in ["Usage:", "Options:", "Examples:"] {
        let at = shown.find(heading).unwrap_or_else(|| panic!("no {heading} in {shown}"));
        assert!(shown[..at].ends_with('m'), "{heading} has no colour");
    }
    assert!(!text(&sandgate(&["routes", "--admin", &admin]).stderr).contains(ESCAPE));
    assert!(!text(&sandgate(&["run", "--help"]).stdout).contains(ESCAPE));
}
