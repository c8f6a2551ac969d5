//! The whole operator over a scripted API server: start, readiness, metrics, end.

#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser as _;
use sandgate_cache::daemon::Reserved;
use sandgate_follow::testing::{Answer, Server, Step, complete, eventually, timing};
use sandgate_operator::{Args, Operator, RunError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const KINDS: [&str; 4] = ["/sandboxes?", "/sandboxsets?", "/sandboxtemplates?", "/pods?"];

/// The API server has nothing of this kind, and its watch stays open.
fn list(server: &Server, kind: &'static str) {
    let words: &'static [&'static str] = Box::leak(Box::new([kind, "sendInitialEvents"]));
    server.on(words, Answer::lines(&[complete(10)]).then(Step::Hold));
}

fn args(server: &Server, more: &[&str]) -> Args {
    let kubeconfig = server.kubeconfig();
    let common = ["sandgate-operator", "--listen", "127.0.0.1:0", "--kubeconfig"];
    let own = kubeconfig.to_str().unwrap();
    Args::try_parse_from(common.iter().chain(&[own]).chain(more)).unwrap()
}

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

async fn start(server: &Server, more: &[&str]) -> Running {
    let operator = Operator::start(&args(server, more), timing()).await.unwrap();
    let (address, stop) = (operator.address(), CancellationToken::new());
    let task = tokio::spawn(operator.run(stop.clone()));
    Running { address, stop, task }
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

impl Running {
    async fn get(&self, path: &str) -> (u16, String) {
        get(self.address, path).await
    }

    /// Asks for a page until it satisfies the condition.
    async fn until(&self, path: &str, good: impl Fn(u16, &str) -> bool) -> String {
        let asked = async {
            loop {
                let (code, body) = self.get(path).await;
                if good(code, &body) {
                    return body;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(20), asked).await.unwrap_or_else(|_| panic!("{path} never was so"))
    }

    async fn end(self) -> Result<(), RunError> {
        self.stop.cancel();
        timeout(Duration::from_secs(20), self.task).await.unwrap().unwrap()
    }
}

fn metric(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test]
async fn readiness_names_each_resource_until_its_first_list() {
    let server = Server::start();
    let running = start(&server, &["--leader-elect=false"]).await;
    let missing = running.until("/readyz", |code, body| code == 503 && body.contains("backing-off")).await;
    assert!(missing.contains("sandboxes.agents.kruise.io: "), "{missing}");
    assert_eq!(
        running.get("/healthz").await.0,
        200,
        "a cluster that does not answer is no reason to restart"
    );
    // The CRD of one is not installed.
    for kind in &KINDS[1..] {
        list(&server, kind);
    }
    running.until("/readyz", |_, body| body.lines().count() == 1).await;
    server.on(&["/sandboxes?", "sendInitialEvents"], Answer::refusal(404, "no such resource"));
    running
        .until("/readyz", |code, body| {
            code == 503
                && body.starts_with("sandboxes.agents.kruise.io: waiting-for-crd: ")
                && body.lines().count() == 1
        })
        .await;
    list(&server, KINDS[0]);
    let ready = running.until("/readyz", |code, _| code == 200).await;
    assert_eq!(ready, "ready\n");
    let page = running.get("/metrics").await.1;
    let listed = "sandgate_operator_watch_listed{resource=\"sandboxes.agents.kruise.io\",namespace=\"\"}";
    assert_eq!(metric(&page, listed), Some(1.0));
    assert_eq!(metric(&page, "sandgate_operator_leader"), Some(1.0));
    assert!(page.ends_with("# EOF\n"));
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_standby_is_ready_without_a_lease_and_leads_nothing() {
    let server = Server::start();
    KINDS.iter().for_each(|kind| list(&server, kind));
    let running = start(&server, &["--namespace", "team", "--lease-namespace", "team"]).await;
    running.until("/readyz", |code, _| code == 200).await;
    let asked = || server.requests("/namespaces/team/leases/sandgate-operator").pop();
    eventually("the lease is asked for", asked).await;
    assert_eq!(metric(&running.get("/metrics").await.1, "sandgate_operator_leader"), Some(0.0));
    // The namespace is in every request.
    let watched = server.requests("sendInitialEvents");
    assert!(watched.iter().all(|head| head.contains("/namespaces/team/")), "{watched:?}");
    running.end().await.unwrap();
}

/// Metrics name namespaces and pools: they are not on a port that was opened for the kubelet.
#[tokio::test]
async fn each_port_has_its_own_pages() {
    let server = Server::start();
    let ports = [(); 2].map(|()| Reserved::new("127.0.0.1:0".parse().unwrap()).unwrap());
    let [probes, metrics] = ports.each_ref().map(|port| port.address().unwrap());
    let probes_flag = format!("--health-probe-bind-address={probes}");
    let metrics_flag = format!("--metrics-bind-address={metrics}");
    let args = ["--leader-elect=false", &probes_flag, &metrics_flag, "--metrics-secure=false"];
    let running = start(&server, &args).await;
    for (address, health, page) in [(running.address, 200, 200), (probes, 200, 404), (metrics, 404, 200)] {
        assert_eq!(get(address, "/healthz").await.0, health, "{address}");
        assert_eq!(get(address, "/metrics").await.0, page, "{address}");
    }
    running.end().await.unwrap();
}

#[tokio::test]
async fn what_cannot_start_is_an_error_at_once() {
    let server = Server::start();
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let mut wrong = args(&server, &["--leader-elect=false"]);
    wrong.listen = address;
    let error = Operator::start(&wrong, timing()).await.err().unwrap();
    assert!(matches!(error, RunError::Listen { address: at, .. } if at == address), "{error}");

    let mut wrong = args(&server, &[]);
    wrong.kubeconfig = Some("/nowhere/kubeconfig".into());
    let error = Operator::start(&wrong, timing()).await.err().unwrap();
    assert!(error.to_string().contains("/nowhere/kubeconfig"), "{error}");

    let wrong = args(&server, &["--renew-deadline", "20"]);
    assert!(matches!(Operator::start(&wrong, timing()).await, Err(RunError::Times(_))));
}
