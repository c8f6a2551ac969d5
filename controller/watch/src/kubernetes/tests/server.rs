//! An API server that answers what it is told to, to the byte.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// One thing to do with a request.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Send these bytes as a piece of the body.
    Send(String),
    /// Say no more until the test says so.
    Hold,
    /// Close the connection in the middle.
    Cut,
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    status: u16,
    headers: String,
    steps: Vec<Step>,
}

impl Answer {
    /// A watch or a list that begins with these lines.
    pub(super) fn lines(lines: &[String]) -> Self {
        let steps = lines.iter().map(|line| Step::Send(format!("{line}\n"))).collect();
        Answer { status: 200, headers: String::new(), steps }
    }

    pub(super) fn body(text: impl Into<String>) -> Self {
        Answer { status: 200, headers: String::new(), steps: vec![Step::Send(text.into())] }
    }

    pub(super) fn refusal(status: u16, message: &str) -> Self {
        let body = serde_json::json!({ "kind": "Status", "code": status, "message": message }).to_string();
        Answer { status, headers: String::new(), steps: vec![Step::Send(body)] }
    }

    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(super) fn header(mut self, line: &str) -> Self {
        self.headers.push_str(line);
        self.headers.push_str("\r\n");
        self
    }

    pub(super) fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

type Rule = (Box<dyn Fn(&str) -> bool + Send>, Answer);

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Rule>>,
    seen: Mutex<Vec<String>>,
    /// How often held answers were let go.
    released: (Mutex<u64>, Condvar),
}

pub(super) struct Server {
    folder: TempDir,
    shared: Arc<Shared>,
}

impl Server {
    /// Serves from threads of its own, which end with the test's process.
    pub(super) async fn start() -> Self {
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

    fn write_kubeconfig(&self, server: &str, token: &str) {
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": server } }],
            "users": [{ "name": "u", "user": { "token": token } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(self.kubeconfig(), config.to_string()).unwrap();
    }

    pub(super) fn set_token(&self, token: &str) {
        let text = std::fs::read_to_string(self.kubeconfig()).unwrap();
        let config: serde_json::Value = serde_json::from_str(&text).unwrap();
        let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned();
        self.write_kubeconfig(&server, token);
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Answers the next request whose head has all of these words, once. What nothing answers gets 503.
    pub(super) fn on(&self, words: &'static [&'static str], answer: Answer) {
        let fits = move |head: &str| words.iter().all(|word| head.contains(word));
        self.shared.script.lock().unwrap().push_back((Box::new(fits), answer));
    }

    /// Lets every held answer go on.
    pub(super) fn release(&self) {
        *self.shared.released.0.lock().unwrap() += 1;
        self.shared.released.1.notify_all();
    }

    /// The heads of the requests so far that have this word.
    pub(super) fn requests(&self, word: &str) -> Vec<String> {
        self.shared.seen.lock().unwrap().iter().filter(|head| head.contains(word)).cloned().collect()
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
        let mut script = shared.script.lock().unwrap();
        let found = script.iter().position(|(fits, _)| fits(&head));
        found.and_then(|at| script.remove(at)).map(|(_, answer)| answer)
    };
    shared.seen.lock().unwrap().push(head);
    let answer = answer.unwrap_or_else(|| Answer::refusal(503, "nothing to say"));
    write!(stream, "HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n{}\r\n", answer.status, answer.headers)?;
    for step in answer.steps {
        match step {
            // An empty piece would be the end of the body.
            Step::Send(text) if text.is_empty() => {}
            Step::Send(text) => write!(stream, "{:x}\r\n{text}\r\n", text.len())?,
            Step::Hold => {
                let (count, changed) = &shared.released;
                let count = count.lock().unwrap();
                let before = *count;
                drop(changed.wait_while(count, |now| *now == before).unwrap());
            }
            Step::Cut => {
                stream.shutdown(Shutdown::Both)?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }
    write!(stream, "0\r\n\r\n")
}

/// Waits until `check` gives something.
pub(super) async fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
