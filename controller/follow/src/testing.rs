//! An API server for tests, which answers to the byte what its script says: on a real socket, for the real
//! client.
//!
//! It does what a real API server does not do on demand: cut lines, fall silent, go back in its versions.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::access::Access;
use crate::timing::Timing;

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// Send this text as a piece of the body.
    Send(String),
    /// Send nothing until [`Server::release`].
    Hold,
    /// Close the connection within the response.
    Cut,
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: String,
    steps: Vec<Step>,
}

impl Answer {
    /// A watch or a streamed list of these lines.
    pub fn lines(lines: &[String]) -> Self {
        let steps = lines.iter().map(|line| Step::Send(format!("{line}\n"))).collect();
        Answer { status: 200, headers: String::new(), steps }
    }

    /// A whole body.
    pub fn body(text: impl Into<String>) -> Self {
        Answer { status: 200, headers: String::new(), steps: vec![Step::Send(text.into())] }
    }

    /// An error, as an API server describes it.
    pub fn refusal(status: u16, message: &str) -> Self {
        let body = json!({ "kind": "Status", "code": status, "message": message }).to_string();
        Answer { status, headers: String::new(), steps: vec![Step::Send(body)] }
    }

    /// The same with another status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same with one more header line.
    #[must_use]
    pub fn header(mut self, line: &str) -> Self {
        self.headers.push_str(line);
        self.headers.push_str("\r\n");
        self
    }

    /// The same with one more step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

type Rule = (Box<dyn Fn(&str) -> bool + Send>, Answer);

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Rule>>,
    seen: Mutex<Vec<String>>,
    /// How often held answers were released.
    released: (Mutex<u64>, Condvar),
}

/// The scripted server.
pub struct Server {
    folder: TempDir,
    shared: Arc<Shared>,
}

impl Server {
    /// Serves from its own threads, which end with the process of the test.
    ///
    /// # Panics
    /// Here and below: where a socket or a file fails.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server { folder: TempDir::new().unwrap(), shared: Arc::default() };
        server.write_kubeconfig(&format!("http://{address}"), "first");
        let shared = Arc::clone(&server.shared);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || while serve(&stream, &shared).is_ok() {});
            }
        });
        server
    }

    /// Access to this server.
    pub fn access(&self) -> Access {
        Access { kubeconfig: Some(self.kubeconfig()), context: None }
    }

    fn write_kubeconfig(&self, server: &str, token: &str) {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": server } }],
            "users": [{ "name": "u", "user": { "token": token } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(self.kubeconfig(), config.to_string()).unwrap();
    }

    /// Writes another token into the kubeconfig.
    pub fn set_token(&self, token: &str) {
        let text = std::fs::read_to_string(self.kubeconfig()).unwrap();
        let config: Value = serde_json::from_str(&text).unwrap();
        let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned();
        self.write_kubeconfig(&server, token);
    }

    /// The kubeconfig that leads here.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Answers the next request whose head contains all of these words, once. A request without an answer
    /// gets 503.
    pub fn on(&self, words: &'static [&'static str], answer: Answer) {
        let fits = move |head: &str| words.iter().all(|word| head.contains(word));
        self.shared.script.lock().push_back((Box::new(fits), answer));
    }

    /// Releases every held answer.
    pub fn release(&self) {
        *self.shared.released.0.lock() += 1;
        self.shared.released.1.notify_all();
    }

    /// The heads of the requests so far that contain this word.
    pub fn requests(&self, word: &str) -> Vec<String> {
        self.shared.seen.lock().iter().filter(|head| head.contains(word)).cloned().collect()
    }
}

fn serve(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let answer = {
        let mut script = shared.script.lock();
        let found = script.iter().position(|(fits, _)| fits(&head));
        found.and_then(|at| script.remove(at)).map(|(_, answer)| answer)
    };
    shared.seen.lock().push(head);
    let answer = answer.unwrap_or_else(|| Answer::refusal(503, "nothing to say"));
    write!(stream, "HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n{}\r\n", answer.status, answer.headers)?;
    for step in answer.steps {
        match step {
            // An empty piece would be the end of the body.
            Step::Send(text) if text.is_empty() => {}
            Step::Send(text) => write!(stream, "{:x}\r\n{text}\r\n", text.len())?,
            Step::Hold => {
                let (count, changed) = &shared.released;
                let mut count = count.lock();
                let before = *count;
                changed.wait_while(&mut count, |now| *now == before);
            }
            Step::Cut => {
                stream.shutdown(Shutdown::Both)?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }
    write!(stream, "0\r\n\r\n")
}

/// Waits up to 20 seconds until `check` returns something.
///
/// # Panics
/// Where it does not.
pub async fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits of milliseconds.
pub fn timing() -> Timing {
    Timing {
        response: Duration::from_secs(5),
        list_silence: Duration::from_secs(5),
        watch_silence: Duration::from_secs(5),
        watch_at_least: Duration::ZERO,
        retry: Duration::from_millis(5),
        retry_cap: Duration::from_millis(20),
        absent_cap: Duration::from_millis(20),
        between_requests: Duration::from_millis(1),
        held_back: Duration::from_millis(20),
        ..Timing::default()
    }
}

/// An object `n/NAME` of the resource `boxes.g/v1`.
pub fn object(name: &str, version: u64) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
        },
        "ip": "10.0.0.1",
    })
}

/// One line of a watch.
pub fn event(kind: &str, object: &Value) -> String {
    json!({ "type": kind, "object": object }).to_string()
}

/// The line of a new object.
pub fn added(name: &str, version: u64) -> String {
    event("ADDED", &object(name, version))
}

/// The line of a deleted object.
pub fn deleted(name: &str, version: u64) -> String {
    event("DELETED", &object(name, version))
}

/// The line of a bookmark.
pub fn bookmark(version: u64) -> String {
    event("BOOKMARK", &json!({ "metadata": { "resourceVersion": version.to_string() } }))
}

/// The bookmark at the end of a streamed list.
pub fn complete(version: u64) -> String {
    let annotations = json!({ "k8s.io/initial-events-end": "true" });
    event(
        "BOOKMARK",
        &json!({ "metadata": { "resourceVersion": version.to_string(), "annotations": annotations } }),
    )
}

/// A page of a list; `next` is the token of the next page.
pub fn page(version: u64, objects: &[Value], next: &str) -> String {
    json!({ "metadata": { "resourceVersion": version.to_string(), "continue": next }, "items": objects })
        .to_string()
}
