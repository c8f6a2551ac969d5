//! E2B's real SDK at the gateway's data plane.

use sandgate_tests::{Authority, DEADLINE, E2bSdk, Envd, Gateway, Sandbox, eventually, route, routes};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::door::Site;

#[tokio::test]
async fn the_e2b_sdk_raises_not_running_for_a_sandbox_that_is_gone_and_unreachable_for_a_closed_port() {
    // It listens, but not where the SDK looks for envd.
    let up = Sandbox::on_ports("up", &[8000]).await;
    let gateway =
        Gateway::serving(&routes([route("closed").ip(up.ip()), route("asleep").state("paused").ip(up.ip())]))
            .await;
    for (id, exception) in [
        ("default--never-was", "SandboxNotRunningException"),
        ("default--asleep", "SandboxNotRunningException"),
        ("default--closed", "SandboxUnreachableException"),
    ] {
        let seen = E2bSdk::ask(gateway.address(), id).await;
        assert_eq!(seen["is_running"]["value"], "False", "{id}: {seen}");
        for call in ["files", "commands"] {
            assert_eq!(seen[call]["exception"], exception, "{id}: {seen}");
        }
        // Not by the SDK's guess, which has other words.
        let message = seen["files"]["message"].as_str().expect("a message");
        assert!(!message.contains("its state is unknown"), "{message}");
    }
    assert_eq!(up.requests(), 0);
}

/// Names below `localhost` are this machine for the SDK's resolver, so not even DNS is stood in for.
#[tokio::test]
async fn the_e2b_sdk_works_over_tls_under_a_domain_of_ones_own() {
    let (site, envd) = (Site::new(), Envd::start().await);
    let (_, entry) = site.certificate("sandboxes", &["*.sandboxes.localhost"]);
    let routes = routes([route("demo").ip(envd.ip())]);
    let (_running, gateway) = site.open(&json!({ "certificates": [entry] }), &routes).await;
    let domain = format!("sandboxes.localhost:{}", gateway.port());

    let seen = E2bSdk::work(&domain, &site.authority.file(), "default--demo").await;
    assert_eq!(seen["host"], format!("3000-default--demo.{domain}"));
    for (call, value) in [
        ("is_running", "True"),
        ("write", "/notes/a.txt"),
        ("read", "written by the SDK"),
        ("stream", "/notes/b.txt"),
        ("read_stream", "300000"),
        ("command", "from the sandbox\n"),
    ] {
        assert_eq!(seen[call]["value"], value, "{call}: {seen}");
    }
    assert_eq!(seen["missing"]["exception"], "FileNotFoundException", "{seen}");
    let requests = envd.seen();
    assert!(requests.len() >= 7, "{requests:?}");
    for request in &requests {
        assert_eq!(request["host"], format!("49983-default--demo.{domain}"));
        assert_eq!(request["proto"], "https");
    }

    // The SDK checks the certificate: without its authority nothing is sent.
    let folder = TempDir::new().expect("a folder");
    let seen = E2bSdk::work(&domain, &Authority::new(folder.path()).file(), "default--demo").await;
    for call in ["read", "write", "command"] {
        assert!(seen[call]["value"].is_null(), "{call}: {seen}");
    }
    assert_eq!(envd.seen().len(), requests.len());
}

/// What came of a group of calls: the value or the exception of each.
fn expect(seen: &Value, group: &str, calls: &[(&str, &str)]) {
    let group = &seen[group];
    assert_eq!(group.as_object().map(serde_json::Map::len), Some(calls.len()), "{group}");
    for (call, expected) in calls {
        let came = &group[call];
        let came = came["exception"].as_str().or(came["value"].as_str()).expect("what came of it");
        assert_eq!(came, *expected, "{call}: {}", group[call]);
    }
}

#[tokio::test]
async fn the_e2b_sdk_works_with_commands_and_files_through_the_gateway() {
    let envd = Envd::start().await;
    let gateway = Gateway::serving(&routes([route("demo").ip(envd.ip())])).await;
    let seen = E2bSdk::exercise(gateway.address(), &envd, "default--demo").await;

    expect(
        &seen,
        "tokens",
        &[
            ("init", "204"),
            ("init_again", "204"),
            ("init_other", "401"),
            ("init_none", "401"),
            ("health_without", "204"),
            ("without", "AuthenticationException"),
            ("wrong", "AuthenticationException"),
            ("file_without", "AuthenticationException"),
            ("file_wrong", "AuthenticationException"),
        ],
    );
    expect(
        &seen,
        "commands",
        &[
            ("exit", "CommandExitException"),
            ("killed", "CommandExitException"),
            ("env", "yes call too\n"),
            ("leaks", "0\n"),
            ("cwd", "tmp"),
            ("cwd_default", "home\n"),
            ("cwd_none", "InvalidArgumentException"),
            ("user", "root\n"),
            ("many", "3000000"),
            ("no_stdin", ""),
            ("send_to_none", "NotFoundException"),
            ("kill_none", "False"),
            ("connect_none", "NotFoundException"),
        ],
    );
    for (call, words) in [("exit", "code 3 and error:\nerr\n"), ("killed", "code -1")] {
        let message = seen["commands"][call]["message"].as_str().expect("a message");
        assert!(message.contains(words), "{call}: {message}");
    }
    expect(
        &seen,
        "urls",
        &[
            ("upload", "200"),
            ("uploaded", "signed"),
            ("download", "200"),
            ("expired", "401"),
            ("extended", "401"),
            ("other_file", "401"),
            ("other_way", "401"),
            ("unsigned", "401"),
        ],
    );
    files(&seen);
    streams(&seen);
}

fn files(seen: &Value) {
    expect(
        seen,
        "files",
        &[
            ("write", "/home/user/notes/a.txt"),
            ("read", "written"),
            ("home", "written"),
            ("same", "written"),
            ("empty", ""),
            ("many", "['/many/a.txt', '/many/b.txt', '/many/ü.txt']"),
            ("many_read", r"bytearray(b'\r\n--x')"),
            ("large", "True"),
            ("stream", "True"),
            ("gzip", "True"),
            ("missing", "FileNotFoundException"),
            ("folder", "InvalidArgumentException"),
            ("below_a_file", "InvalidArgumentException"),
            ("list", "['a.txt file 3', 'b.txt file 3', 'ü.txt file 5']"),
            ("list_deep", "['/home/user/notes', '/home/user/notes/a.txt']"),
            ("list_none", "FileNotFoundException"),
            ("list_file", "InvalidArgumentException"),
            ("exists", "[True, False]"),
            ("info", "[7, '-rw-r--r--']"),
            ("make_dir", "[True, False]"),
            ("rename", "/home/user/moved/b.txt"),
            ("rename_none", "FileNotFoundException"),
            ("remove", "[None, None, False]"),
            ("up", "/up.txt"),
            ("out", "0"),
            ("out_read", "SandboxException"),
            ("out_write", "SandboxException"),
            ("in_info", "[<FileType.FILE: 'file'>, '/home/user/empty']"),
            ("out_remove", "[None, False]"),
        ],
    );
    expect(
        seen,
        "refusals",
        &[
            ("unknown", "404"),
            ("not_json", "400"),
            ("not_an_object", "400"),
            ("not_of_its_type", "400"),
            ("null_byte", "400"),
            ("no_text", "400"),
            ("too_long", "400"),
            ("too_large", "413"),
            ("too_deep", "400"),
            ("other_type", "415"),
            ("no_path", "400"),
            ("another_way", "400"),
            ("no_gzip", "400"),
            ("no_form", "400"),
            ("still_there", "200"),
        ],
    );
}

fn streams(seen: &Value) {
    for (call, expected) in [
        (
            "streams",
            json!([
                [["stdout", "one\n"], ["stderr", "two\n"], ["stdout", "three\n"]],
                "one\nthree\n",
                "two\n"
            ]),
        ),
        (
            "background",
            json!(["/bin/bash", ["-l", "-c"], {"KEY": "v"}, "got it\n", "CommandExitException", true]),
        ),
        ("killed", json!([true, "CommandExitException", false])),
        ("keepalive", json!([{"keepalive": {}}, true])),
        ("terminal", json!([true, true])),
        (
            "watch",
            json!([
                [["a", "create"], ["a", "write"], ["below/b", "create"], ["below/b", "write"]],
                [["a", "rename"], ["below/b", "remove"], ["c", "create"]],
                false,
                "FileNotFoundException"
            ]),
        ),
        ("watch_stream", json!([["a", "create"], ["a", "write"]])),
    ] {
        let came = seen[call]["value"].as_str().unwrap_or_else(|| panic!("{call}: {}", seen[call]));
        let came: Value = serde_json::from_str(came).expect("JSON");
        assert_eq!(came, expected, "{call}");
    }
    assert_eq!(seen["stdin"]["value"], "abcend\n", "{}", seen["stdin"]);
    assert_eq!(seen["parallel"]["value"], "True", "{}", seen["parallel"]);
    assert_eq!(seen["timeouts"]["value"], "TimeoutException", "{}", seen["timeouts"]);
}

#[tokio::test]
async fn what_runs_in_a_sandbox_ends_with_it_however_it_ends() {
    for signal in ["TERM", "KILL"] {
        let mut envd = Envd::start().await;
        let gateway = Gateway::serving(&routes([route("demo").ip(envd.ip())])).await;
        let left = E2bSdk::leave(gateway.address(), "default--demo").await;
        // A process that has ended but that nobody has waited for has no command line.
        let runs =
            |pid: &u64| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
        assert_eq!(left.len(), 2, "{left:?}");
        // While a process becomes another program it has no command line either.
        eventually("both run", DEADLINE, async || left.iter().all(runs).then_some(())).await;
        envd.end(signal);
        eventually("its processes are gone", DEADLINE, async || (!left.iter().any(runs)).then_some(())).await;
    }
}
