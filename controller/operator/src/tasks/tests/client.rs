//! The client against a small server of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_executor_wire::{MAX_ANSWER, MAX_REQUEST, Process, ProcessStatus, Task, Waiting};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::tasks::{ExecutorError, Executors as _, HttpExecutors, TokenFile};

/// Answers every request with the same bytes, and remembers what it was asked.
struct Server {
    at: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
}

impl Server {
    async fn start(answer: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (requests, connections) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<usize>>::default());
        let (seen, opened) = (Arc::clone(&requests), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *opened.lock() += 1;
                tokio::spawn(serve(stream, answer.clone(), Arc::clone(&seen)));
            }
        });
        Self { at, requests, connections }
    }

    fn client(&self, token: Option<TokenFile>) -> HttpExecutors {
        HttpExecutors::at_port(self.at.port(), token)
    }
}

async fn serve(mut stream: TcpStream, answer: Vec<u8>, seen: Arc<Mutex<Vec<String>>>) {
    let mut text = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let Ok(read @ 1..) = stream.read(&mut chunk).await else { return };
        text.extend_from_slice(&chunk[..read]);
        let Some(whole) = request(&text) else { continue };
        seen.lock().push(whole);
        text.clear();
        // A client that has read enough may have gone.
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// A request that has arrived whole.
fn request(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    (body.len() == length).then(|| text.to_owned())
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn asked(status: &str, body: &str) -> Result<Vec<Task>, ExecutorError> {
    let server = Server::start(answer(status, body)).await;
    server.client(None).tasks("127.0.0.1").await
}

fn token_file(text: &str) -> (PathBuf, TokenFile) {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("sandgate-token-{}-{number}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let file = TokenFile::open(&path).unwrap();
    (path, file)
}

#[tokio::test]
async fn a_list_is_asked_for_and_read() {
    let server = Server::start(answer("200 OK", r#"[{"name":"a","later":1}]"#)).await;
    let tasks = server.client(None).tasks("127.0.0.1").await.unwrap();
    assert_eq!(tasks, [Task { name: "a".to_owned(), ..Task::default() }]);
    let requests = server.requests.lock().clone();
    assert!(requests[0].starts_with("GET /getTasks HTTP/1.1\r\n"), "{requests:?}");
    assert!(!requests[0].contains("authorization"), "{requests:?}");
}

#[tokio::test]
async fn tasks_are_sent_as_a_list_and_none_as_an_empty_one() {
    let server = Server::start(answer("200 OK", "null")).await;
    let client = server.client(None);
    let process = Process { command: vec!["echo".to_owned()], ..Process::default() };
    let task = Task { name: "a".to_owned(), process: Some(process), ..Task::default() };
    assert_eq!(client.set("127.0.0.1", &[task]).await, Ok(vec![]));
    assert_eq!(client.set("127.0.0.1", &[]).await, Ok(vec![]));
    let requests = server.requests.lock().clone();
    assert!(requests[0].starts_with("POST /setTasks HTTP/1.1\r\n"), "{requests:?}");
    assert!(requests[0].ends_with(r#"[{"name":"a","process":{"command":["echo"]}}]"#), "{requests:?}");
    assert!(requests[1].ends_with("\r\n\r\n[]"), "{requests:?}");
    // The second came over the first one's connection.
    assert_eq!(*server.connections.lock(), 1);
}

#[tokio::test]
async fn an_answer_that_is_no_list_is_an_error_that_says_so() {
    for body in ["", "{}", "[1]", "[{\"name\":1}]", "<html>"] {
        assert!(matches!(asked("200 OK", body).await, Err(ExecutorError::Malformed(_))), "{body}");
    }
}

#[tokio::test]
async fn the_longest_task_that_an_executor_takes_is_read_beside_the_one_before_it() {
    let process = Process { command: vec!["x".repeat(MAX_REQUEST)], ..Process::default() };
    let task = |name: &str| Task {
        name: name.to_owned(),
        process: Some(process.clone()),
        process_status: Some(ProcessStatus { waiting: Some(Waiting::default()), ..ProcessStatus::default() }),
        ..Task::default()
    };
    let list = vec![task("new"), task("old")];
    assert_eq!(asked("200 OK", &serde_json::to_string(&list).unwrap()).await, Ok(list));
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_read_to_its_end() {
    let list = format!("[{{\"name\":\"{}\"}}]", "x".repeat(MAX_ANSWER));
    let error = asked("200 OK", &list).await.unwrap_err();
    assert_eq!(error, ExecutorError::Malformed(format!("it is longer than {MAX_ANSWER} bytes")));
    // Neither is one that says no length and has no end.
    let mut endless = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    endless.resize(2 * MAX_ANSWER, b' ');
    let server = Server::start(endless).await;
    let error = server.client(None).tasks("127.0.0.1").await.unwrap_err();
    assert!(matches!(error, ExecutorError::Malformed(_)), "{error}");
}

#[tokio::test]
async fn a_refusal_tells_what_the_executor_says() {
    let body = r#"{"code":"Internal Server Error","message":"maximum concurrent tasks (1) reached"}"#;
    let message = "maximum concurrent tasks (1) reached".to_owned();
    assert_eq!(
        asked("500 Internal Server Error", body).await,
        Err(ExecutorError::Refused { status: 500, message })
    );
    let message = "é".repeat(100);
    let refused = asked("404 Not Found", &"é".repeat(5000)).await;
    assert_eq!(refused, Err(ExecutorError::Refused { status: 404, message }));
    assert!(matches!(asked("302 Found", "").await, Err(ExecutorError::Refused { status: 302, .. })));
}

#[tokio::test]
async fn a_wrong_token_is_an_error_that_names_the_option() {
    let error = asked("401 Unauthorized", "").await.unwrap_err();
    assert_eq!(error, ExecutorError::Unauthorized);
    assert!(error.to_string().contains("--task-executor-token-file"), "{error}");
}

#[tokio::test]
async fn nobody_who_listens_and_no_address_are_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let client = HttpExecutors::at_port(port, None);
    for ip in ["127.0.0.1", "", "localhost", "127.0.0.1/x@"] {
        let error = client.tasks(ip).await.unwrap_err();
        assert!(matches!(error, ExecutorError::Unreachable(_)), "{ip}: {error}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut text = [0; 4096];
            let _read = stream.read(&mut text).await;
            let _written = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[").await;
        }
    });
    let error = HttpExecutors::at_port(port, None).tasks("127.0.0.1").await.unwrap_err();
    assert!(matches!(error, ExecutorError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn one_that_never_answers_is_given_up_by_the_pass_and_not_waited_for_by_others() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let client = HttpExecutors::at_port(port, None);
    let waited = tokio::time::timeout(Duration::from_millis(200), client.tasks("127.0.0.1")).await;
    assert!(waited.is_err());
    // The next question opens a connection of its own.
    let accepted = tokio::spawn(async move {
        let _first = silent.accept().await.unwrap();
        let (mut second, _) = silent.accept().await.unwrap();
        let mut text = [0; 4096];
        let _read = second.read(&mut text).await;
        second.write_all(&answer("200 OK", "[]")).await.unwrap();
        second
    });
    assert_eq!(client.tasks("127.0.0.1").await, Ok(vec![]));
    drop(accepted.await.unwrap());
}

#[tokio::test]
async fn the_token_of_the_file_is_sent_and_a_new_one_once_it_is_written() {
    let (path, token) = token_file(" secret\n");
    let server = Server::start(answer("200 OK", "[]")).await;
    let client = server.client(Some(token.clone()));
    client.tasks("127.0.0.1").await.unwrap();
    // As Kubernetes replaces a file of a Secret.
    let next = path.with_extension("next");
    std::fs::write(&next, "another").unwrap();
    std::fs::rename(&next, &path).unwrap();
    client.tasks("127.0.0.1").await.unwrap();
    let sent: Vec<_> = server.requests.lock().iter().filter_map(|it| authorization(it)).collect();
    assert_eq!(sent, ["Bearer secret", "Bearer another"]);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(client.tasks("127.0.0.1").await, Err(ExecutorError::NoToken(_))));
    assert_eq!(server.requests.lock().len(), 2);
    assert!(!format!("{client:?}").contains("another"));
}

fn authorization(request: &str) -> Option<String> {
    request.lines().find_map(|line| line.strip_prefix("authorization: ")).map(str::to_owned)
}

#[test]
fn a_file_without_a_token_is_refused_without_telling_what_it_has() {
    let (path, _) = token_file("x");
    for text in ["", " \n", "a\nb", "é\u{7}"] {
        std::fs::write(&path, text).unwrap();
        let error = TokenFile::open(&path).unwrap_err().to_string();
        assert!(error.contains("token") && !error.contains('\u{7}') && !error.contains('\n'), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(TokenFile::open(&path).is_err());
}
