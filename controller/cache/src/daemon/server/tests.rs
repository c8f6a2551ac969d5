use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::*;

struct Fixture {
    address: SocketAddr,
    ready: Arc<AtomicBool>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

async fn start() -> Fixture {
    start_with(PROBES).await
}

async fn start_with(limits: Limits) -> Fixture {
    let ready = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ready);
    let probes = Probes {
        ailing: Box::new(Vec::new),
        missing: Box::new(move || match seen.load(Ordering::SeqCst) {
            true => Vec::new(),
            false => vec!["pods: listing".to_owned(), "sandboxes: waiting-for-crd".to_owned()],
        }),
    };
    let pages = Pages { probes: Some(probes), metrics: Some(Box::new(|| "# EOF\n".to_owned())) };
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (address, stop) = (server.address().unwrap(), CancellationToken::new());
    let plain = async |stream, _| Ok((TokioIo::new(stream), ()));
    let task = tokio::spawn(server.serve(router(pages), limits, plain, stop.clone()));
    Fixture { address, ready, stop, task }
}

impl Fixture {
    async fn request(&self, line: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

#[tokio::test]
async fn readiness_names_what_is_missing_until_nothing_is() {
    let fixture = start().await;
    let answer = fixture.request("GET /readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.ends_with("pods: listing\nsandboxes: waiting-for-crd\n"), "{answer}");
    fixture.ready.store(true, Ordering::SeqCst);
    let answer = fixture.request("GET /readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ready\n"), "{answer}");
}

#[tokio::test]
async fn the_other_pages_are_health_and_metrics_and_nothing_else() {
    let fixture = start().await;
    assert!(fixture.request("GET /healthz").await.ends_with("ok\n"));
    let metrics = fixture.request("GET /metrics").await;
    assert!(metrics.contains("application/openmetrics-text") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(fixture.request("GET /").await.starts_with("HTTP/1.1 404"));
    assert!(fixture.request("POST /metrics").await.starts_with("HTTP/1.1 405"));
}

#[tokio::test]
async fn a_stop_ends_idle_connections_and_the_server() {
    let fixture = start().await;
    let mut idle = TcpStream::connect(fixture.address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    fixture.stop.cancel();
    fixture.task.await.unwrap();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    assert!(TcpStream::connect(fixture.address).await.is_err());
}

#[tokio::test]
async fn silent_connections_do_not_keep_others_out_for_long() {
    let fixture = start_with(Limits { silence: Duration::from_millis(100), ..PROBES }).await;
    let mut silent = Vec::new();
    for _ in 0..PROBES.connections {
        silent.push(TcpStream::connect(fixture.address).await.unwrap());
    }
    let answer = timeout(PROBES.silence, fixture.request("GET /healthz")).await.unwrap();
    assert!(answer.ends_with("ok\n"), "{answer}");
}
