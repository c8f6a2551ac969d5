//! The clients of the upgrades, by themselves: a failure must show as one before a scenario may rely on there
//! being none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandgate_tests::{DEADLINE, Front, Gateway, Kind, Load, Outcome, Traffic, eventually, route, routes};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::sandbox;

fn all_kinds(front: &Front) -> Load {
    Load::new(front).http1(40).http2(30).websockets(3)
}

/// Waits until what was counted is so.
async fn counted(traffic: &Traffic, what: &str, so: impl Fn(&Outcome) -> bool) -> Outcome {
    eventually(what, DEADLINE, async || Some(traffic.so_far()).filter(&so)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_all_kinds_are_answered_by_the_sandboxes_they_ask_for() {
    let (one, two) = (sandbox("one").await, sandbox("two").await);
    let gateway = Gateway::serving(&routes([route("one").ip(one.ip()), route("two").ip(two.ip())])).await;
    let front = Front::to([gateway.address()]);
    let traffic = all_kinds(&front).sandbox(&one).sandbox(&two).start();
    traffic.more_connections(gateway.address(), 3).await;
    traffic.more(60).await;
    let outcome = traffic.finish().await;
    outcome.assert_none_failed();
    for counts in [&outcome.http1, &outcome.http2, &outcome.websockets] {
        assert!(counts.answered >= 60 && counts.answered == counts.sent && counts.lost == 0, "{outcome}");
    }
    // Nobody has told a client to leave.
    assert_eq!((outcome.http1.left, outcome.http2.left, outcome.websockets.left), (0, 0, 0), "{outcome}");
    assert_eq!(outcome.websockets.connections, 3, "{outcome}");
    assert!(one.requests() > 0 && two.requests() > 0);
    let seen = u64::try_from(one.requests() + two.requests()).expect("a few");
    assert_eq!(seen, outcome.http1.sent + outcome.http2.sent + outcome.websockets.connections, "{outcome}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_the_wrong_sandbox_is_a_failure() {
    let (one, two) = (sandbox("one").await, sandbox("two").await);
    let gateway = Gateway::serving(&routes([route("one").ip(two.ip())])).await;
    let front = Front::to([gateway.address()]);
    let traffic = all_kinds(&front).sandbox(&one).start();
    counted(&traffic, "failures of each kind", |now| {
        [&now.http1, &now.http2, &now.websockets].iter().all(|counts| counts.failed >= 5)
    })
    .await;
    let outcome = traffic.finish().await;
    assert_eq!((outcome.http1.answered, outcome.http2.answered, outcome.websockets.answered), (0, 0, 0));
    assert_eq!(outcome.failures.len(), 10);
    assert!(
        outcome.failures.iter().all(|failure| failure.what.contains("one") && failure.what.contains("two"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_killed_fails_requests_of_every_kind() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::serving(&routes([route("demo").ip(demo.ip())])).await;
    let address = gateway.address();
    let front = Front::to([address]);
    let traffic = all_kinds(&front).sandbox(&demo).start();
    traffic.more(20).await;
    let before = traffic.so_far();
    before.assert_none_failed();
    drop(gateway);
    counted(&traffic, "failures of each kind", |now| {
        now.http1.failed > 0 && now.http2.failed > 0 && now.websockets.broken == 3
    })
    .await;
    let outcome = traffic.finish().await;
    let kinds = |kind| outcome.failures.iter().filter(|failure| failure.kind == kind).count();
    assert!(kinds(Kind::WebSocket) > 0 && outcome.failed() > 3, "{outcome}");
    assert!(outcome.failures.iter().all(|failure| failure.at >= before.took), "{outcome}");
    let shown =
        std::panic::catch_unwind(|| outcome.assert_none_failed()).expect_err("failures are no success");
    let shown = shown.downcast_ref::<String>().expect("a text");
    assert!(shown.contains(&format!("s, WebSocket, {address}: ended with ")), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_that_may_be_ended_is_no_failure_and_its_successor_has_no_such_leave() {
    let demo = sandbox("demo").await;
    let text = routes([route("demo").ip(demo.ip())]);
    let (first, second) = (Gateway::serving(&text).await, Gateway::serving(&text).await);
    let front = Front::to([first.address()]);
    let traffic = Load::new(&front).websockets(3).sandbox(&demo).start();
    traffic.more(20).await;
    front.add(second.address());
    front.remove(first.address());
    traffic.may_end(first.address());
    drop(first);
    traffic.ended(3).await;
    traffic.more(20).await;
    let so_far = traffic.so_far();
    so_far.assert_none_failed();
    assert_eq!((so_far.websockets.connections, so_far.ends.len()), (6, 3), "{so_far}");
    drop(second);
    let broken = counted(&traffic, "three more ends", |now| now.websockets.broken >= 3).await;
    assert_eq!(broken.websockets.left, 3, "{broken}");
    traffic.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_go_out_when_they_are_due_although_none_is_answered() {
    let demo = sandbox("demo").await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let front = Front::to([silent.local_addr().expect("an address")]);
    let traffic = Load::new(&front).http1(100).sandbox(&demo).start();
    let mut held = Vec::new();
    while held.len() < 100 {
        held.push(silent.accept().await.expect("a connection").0);
    }
    let so_far = traffic.so_far();
    assert!(so_far.http1.sent >= 100 && so_far.http1.answered == 0, "{so_far}");
    // Ended while they wait: failures at once.
    drop((held, silent));
    let outcome = traffic.finish().await;
    assert_eq!((outcome.http1.failed, outcome.http1.answered), (outcome.http1.sent, 0), "{outcome}");
}

/// A server that answers as `demo` does and ends its connections as it is told to.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Server {
    /// Every answer has this `connection` header, and there are so many on a connection: the next request has
    /// none.
    async fn start(connection: &'static str, answers: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                open.spawn(serve(stream, connection, answers));
            }
        });
        Self { address, connections, _serving: serving }
    }
}

async fn serve(stream: TcpStream, connection: &str, answers: usize) {
    let mut stream = BufReader::new(stream);
    for answer in 0..=answers {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        if answer == answers || stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let body = r#"{"sandbox":"demo","bytes":20000,"intact":true}"#;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: {connection}", body.len());
        if stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_used_again_unless_the_answer_says_close() {
    let demo = sandbox("demo").await;
    let (closing, keeping) = (Server::start("Close", 99).await, Server::start("keep-alive", 99).await);
    for (server, kept) in [(&closing, false), (&keeping, true)] {
        let traffic = Load::new(&Front::to([server.address])).http1(100).sandbox(&demo).start();
        traffic.more(100).await;
        let outcome = traffic.finish().await;
        outcome.assert_none_failed();
        let connections = u64::try_from(server.connections.load(Ordering::SeqCst)).expect("a few");
        assert_eq!(outcome.http1.connections, connections, "{outcome}");
        if kept {
            assert!(connections < outcome.http1.sent && outcome.http1.left == 0, "{outcome}");
        } else {
            assert_eq!(
                (connections, outcome.http1.left),
                (outcome.http1.sent, outcome.http1.sent),
                "{outcome}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_connection_that_is_closed_under_a_request_is_a_failure_and_nothing_is_sent_twice() {
    let demo = sandbox("demo").await;
    let server = Server::start("keep-alive", 3).await;
    let traffic = Load::new(&Front::to([server.address])).http1(100).sandbox(&demo).start();
    counted(&traffic, "failures", |now| now.http1.failed >= 5).await;
    let outcome = traffic.finish().await;
    let failures = &outcome.failures;
    assert!(failures.iter().all(|failure| failure.what.contains("kept after 3 answers")), "{outcome}");
}
