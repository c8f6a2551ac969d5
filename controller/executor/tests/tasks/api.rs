//! Statuses and bodies, as OpenSandbox's clients know them.

use sandgate_executor_wire::{MAX_ANSWER, MAX_REQUEST};
use serde_json::{Value, json};

use crate::harness::{Site, eventually, shell};

#[test]
fn it_is_healthy() {
    let site = Site::new();
    let answer = site.start().request("GET", "/health", "");
    assert_eq!((answer.status, answer.json()), (200, json!({"status": "healthy"})));
    assert!(answer.head.contains("content-type: application/json"));
}

#[test]
fn no_tasks_are_an_empty_list() {
    let site = Site::new();
    assert_eq!(site.start().request("GET", "/getTasks", "").body, "[]");
}

#[test]
fn a_created_task_is_answered_with_201_and_what_was_asked_for() {
    let site = Site::new();
    let executor = site.start();
    let task = shell("a", "sleep 60");
    let answer = executor.request("POST", "/tasks", &task.to_string());
    assert_eq!(answer.status, 201);
    assert_eq!(answer.json()["process"], task["process"]);
    assert_eq!(executor.task("a").unwrap()["process"], task["process"]);
}

#[test]
fn a_body_that_is_no_json_is_a_bad_request() {
    let site = Site::new();
    let executor = site.start();
    for path in ["/tasks", "/setTasks"] {
        for body in ["", "{", "\"text\"", "7", "[1]"] {
            let message = executor.request("POST", path, body).error(400, "Bad Request");
            assert!(message.contains("invalid request body"), "{path} {body}: {message}");
        }
    }
}

#[test]
fn a_task_to_create_needs_a_name() {
    let site = Site::new();
    let executor = site.start();
    for body in ["{}", r#"{"name":""}"#, r#"{"name":null}"#] {
        assert_eq!(
            executor.request("POST", "/tasks", body).error(400, "Bad Request"),
            "task name is required"
        );
    }
}

#[test]
fn a_list_with_something_wrong_in_it_changes_nothing() {
    let site = Site::new();
    let executor = site.start();
    executor.set(&json!([shell("kept", "sleep 60")]));
    let before = executor.tasks();
    for (wrong, why) in [
        (json!([shell("new", "true"), {"name": "none"}]), "process is required"),
        (json!([shell("new", "true"), shell("../up", "true")]), "invalid task name"),
        (json!([shell("new", "true"), shell("new", "true")]), "twice"),
        (json!((0..65).map(|n| shell(&n.to_string(), "true")).collect::<Vec<_>>()), "more than 64"),
    ] {
        let message = executor.request("POST", "/setTasks", &wrong.to_string()).error(400, "Bad Request");
        assert!(message.contains(why), "{message}");
        assert_eq!(executor.tasks(), before);
    }
}

#[test]
fn a_name_that_leaves_the_data_folder_is_refused() {
    let site = Site::new();
    let executor = site.start();
    for name in ["../up", "..", "/etc/x", "a/b", ".trash", &"x".repeat(254)] {
        let message =
            executor.request("POST", "/tasks", &shell(name, "true").to_string()).error(400, "Bad Request");
        assert!(message.contains("invalid task name"), "{message}");
    }
    let left: Vec<_> =
        std::fs::read_dir(site.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let mut left: Vec<_> = left.into_iter().map(|name| name.into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, [".lock", ".trash"]);
}

#[test]
fn a_task_of_the_longest_name_runs() {
    let site = Site::new();
    let executor = site.start();
    let name = "x".repeat(253);
    executor.create(&shell(&name, "true"));
    assert_eq!(executor.terminated(&name)["exitCode"], 0);
    executor.set(&json!([]));
    executor.is_empty();
}

#[test]
fn a_container_is_not_implemented() {
    let site = Site::new();
    let executor = site.start();
    let task = json!({"name": "pod", "podTemplateSpec": {"spec": {"containers": []}}});
    for (path, body) in [("/tasks", task.clone()), ("/setTasks", json!([task]))] {
        let message = executor.request("POST", path, &body.to_string()).error(501, "Not Implemented");
        assert!(message.contains("the container executor is not implemented"), "{message}");
    }
}

#[test]
fn a_variable_that_only_kubernetes_could_resolve_is_refused() {
    let site = Site::new();
    let env = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    let task = json!({"name": "a", "process": {"command": ["env"], "env": env}});
    let message = site.start().request("POST", "/tasks", &task.to_string()).error(400, "Bad Request");
    assert!(message.contains("valueFrom"), "{message}");
}

#[test]
fn a_path_with_another_method_says_which_it_has() {
    let site = Site::new();
    let executor = site.start();
    for (method, path, allowed) in [
        ("GET", "/tasks", "allow: post"),
        ("DELETE", "/setTasks", "allow: post"),
        ("POST", "/getTasks", "allow: get"),
        ("PUT", "/tasks/a", "allow: get, delete"),
    ] {
        let answer = executor.request(method, path, "");
        answer.error(405, "Method Not Allowed");
        assert!(answer.head.contains(allowed), "{}", answer.head);
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let site = Site::new();
    let executor = site.start();
    executor.request("GET", "/tasks/nobody", "").error(404, "Not Found");
    executor.request("GET", "/nowhere", "").error(404, "Not Found");
    executor.request("GET", "/", "").error(404, "Not Found");
}

#[test]
fn a_body_that_is_too_long_is_not_read() {
    let site = Site::new();
    let executor = site.start();
    let long = shell("long", &"x".repeat(1024 * 1024));
    executor.request("POST", "/tasks", &long.to_string()).error(413, "Request Entity Too Large");
    assert!(executor.tasks().is_empty());
}

#[test]
fn more_connections_than_there_is_room_for_are_served_later() {
    use std::io::{Read as _, Write as _};
    let site = Site::new();
    let executor = site.start();
    let open = || std::net::TcpStream::connect(&executor.address).unwrap();
    let idle: Vec<_> = (0..256).map(|_| open()).collect();
    let mut waiting = open();
    waiting.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    drop(idle);
    let mut text = String::new();
    waiting.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
}

#[test]
fn a_client_that_does_not_take_its_answers_loses_its_place() {
    use std::io::Write as _;
    let site = Site::new();
    let executor = site.start_with(|command| {
        command.env("SANDGATE_TAKEN_MILLIS", "200");
    });
    let long =
        json!({"name": "long", "process": {"command": ["true"], "args": vec!["x".repeat(100_000); 9]}});
    executor.create(&long);
    let mut deaf = std::net::TcpStream::connect(&executor.address).unwrap();
    // More than what the system keeps for a connection.
    let many = "GET /getTasks HTTP/1.1\r\nHost: x\r\n\r\n".repeat(64);
    deaf.write_all(many.as_bytes()).unwrap();
    deaf.set_nonblocking(true).unwrap();
    eventually("its connection is closed", || {
        let error = deaf.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").err()?;
        (error.kind() != std::io::ErrorKind::WouldBlock).then_some(())
    });
}

#[test]
fn the_list_after_the_longest_requests_is_one_that_the_operator_reads() {
    let site = Site::new();
    let executor = site.start();
    let longest = |name: &str| {
        let script = "trap '' TERM; while :; do sleep 0.05; done";
        let mut task = json!([shell(name, script)]);
        let args = vec!["x".repeat(50_000); 20];
        task[0]["process"]["args"] = json!(args);
        let left = MAX_REQUEST - task.to_string().len();
        task[0]["process"]["args"][19] = json!("x".repeat(50_000 + left));
        assert_eq!(task.to_string().len(), MAX_REQUEST);
        task
    };
    executor.set(&longest("old"));
    let answer = executor.request("POST", "/setTasks", &longest("new").to_string());
    assert_eq!(answer.json().as_array().unwrap().len(), 2);
    let length = answer.body.len();
    assert!((2 * MAX_REQUEST..MAX_ANSWER).contains(&length), "{length}");
}

#[test]
fn fields_of_a_later_version_are_passed_over() {
    let site = Site::new();
    let executor = site.start();
    let mut task = shell("a", "true");
    task["process"]["later"] = json!({"x": 1});
    task["processStatus"] = json!({"terminated": {"exitCode": 9}});
    task["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    executor.create(&task);
    assert_eq!(executor.terminated("a")["exitCode"], 0, "a status that a client sends says nothing");
    assert_eq!(executor.task("a").unwrap()["deletionTimestamp"], Value::Null);
}
