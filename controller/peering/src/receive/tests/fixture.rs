use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sandgate_routes::{AddressPolicy, Clash, Limits, RouteReader, RouteTable, RouteWriter, TokenKind};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::receive::timeouts::Timeouts;
use crate::{
    Activity, HmacKey, Pushed, RawRefresh, Receiver, RefreshDrain, RefreshSettings, RefreshStatus,
    RefreshStatusReader,
};

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A table with its receiver.
pub(crate) struct Plane {
    pub(crate) reader: RouteReader,
    pub(crate) writer: RouteWriter,
    status: RefreshStatusReader,
    pub(crate) drain: RefreshDrain,
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The rules of a built-in provider, as the crate with the providers gives them.
pub(crate) fn pushed(provider: &str) -> Pushed {
    let claimed = provider == "opensandbox";
    Pushed {
        provider: provider.to_owned(),
        clash: Clash::Rank,
        ip_is_claimed: claimed,
        id_is_name: claimed,
        token_kind: if provider == "openkruise" { TokenKind::Runtime } else { TokenKind::SecureAccess },
    }
}

/// Settings with these keys of the `refresh` section.
pub(crate) fn settings(mut refresh: Value) -> RefreshSettings {
    refresh["address"] = json!("127.0.0.1");
    if refresh["provider"].is_null() {
        refresh["provider"] = json!("openkruise");
    }
    if refresh["port"].is_null() {
        refresh["port"] = json!(0);
    }
    let raw: RawRefresh = serde_json::from_value(refresh).unwrap();
    let choose = |named: Option<String>| Ok(pushed(&named.unwrap()));
    raw.check(Limits::default().tombstone_lifetime, choose).unwrap()
}

/// The addresses that the tests push.
pub(crate) fn policy() -> AddressPolicy {
    AddressPolicy::new(["127.0.0.0/8", "10.0.0.0/8"].map(|range| range.parse().unwrap()))
}

impl Plane {
    /// One that believes anyone.
    pub(crate) async fn open() -> Self {
        Self::start(json!({ "insecure": true })).await
    }

    /// The same at this address, once it is free.
    pub(crate) async fn at(address: SocketAddr) -> Self {
        Self::start(json!({ "insecure": true, "port": address.port() })).await
    }

    pub(crate) async fn start(refresh: Value) -> Self {
        Self::patient(refresh, Timeouts::default(), Limits::default()).await
    }

    pub(crate) async fn patient(refresh: Value, timeouts: Timeouts, limits: Limits) -> Self {
        Self::since(settings(refresh), timeouts, limits, Some(0)).await
    }

    /// One that begins now, as one that was restarted does.
    pub(crate) async fn just_begun(refresh: Value) -> Self {
        Self::since(settings(refresh), Timeouts::default(), Limits::default(), None).await
    }

    pub(crate) async fn with(settings: RefreshSettings) -> Self {
        Self::since(settings, Timeouts::default(), Limits::default(), Some(0)).await
    }

    /// One that answers about the activity of the sandboxes of two providers.
    pub(crate) async fn reporting(refresh: Value, activity: Arc<dyn Activity>) -> Self {
        let providers = ["file", "openkruise"].map(ToOwned::to_owned);
        let report = |receiver: Receiver| receiver.reporting(activity, providers.into());
        Self::made(settings(refresh), Timeouts::default(), Limits::default(), Some(0), report).await
    }

    async fn since(
        settings: RefreshSettings,
        timeouts: Timeouts,
        limits: Limits,
        since: Option<u64>,
    ) -> Self {
        Self::made(settings, timeouts, limits, since, |receiver| receiver).await
    }

    async fn made(
        settings: RefreshSettings,
        timeouts: Timeouts,
        limits: Limits,
        since: Option<u64>,
        more: impl FnOnce(Receiver) -> Receiver,
    ) -> Self {
        let (writer, reader) = RouteTable::new(limits);
        let mut receiver = more(Receiver::new(settings, policy(), writer.clone()));
        receiver.timeouts = timeouts;
        // So that a test need not wait for the next second to sign something.
        receiver.since = since;
        let (status, drain) = (receiver.status(), receiver.drain());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(receiver.run(async {
            let _ = stopped.await;
        }));
        let address = eventually(|| status.load().listening).await;
        Self { reader, writer, status, drain, address, stop: Some(stop), task }
    }

    pub(crate) fn status(&self) -> RefreshStatus {
        self.status.load()
    }

    pub(crate) async fn push(&self, message: &Value) -> Answer {
        self.post("/refresh", message.to_string(), None).await
    }

    pub(crate) async fn push_with(&self, message: &Value, authorization: &str) -> Answer {
        self.post("/refresh", message.to_string(), Some(authorization)).await
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        body: impl Into<Bytes>,
        authorization: Option<&str>,
    ) -> Answer {
        self.send("POST", path, body, authorization).await
    }

    /// As a sender does: again if the connection ends without an answer. It may where keys are replaced.
    pub(crate) async fn push_until_answered(&self, message: &Value, authorization: &str) -> Answer {
        let end = Instant::now() + DEADLINE;
        loop {
            let body = Bytes::from(message.to_string());
            match self.try_send("POST", "/refresh", body, Some(authorization)).await {
                Ok(answer) => return answer,
                Err(error) => assert!(Instant::now() < end, "not in time: {error}"),
            }
        }
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: impl Into<Bytes>,
        authorization: Option<&str>,
    ) -> Answer {
        self.try_send(method, path, body.into(), authorization).await.unwrap()
    }

    async fn try_send(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
        authorization: Option<&str>,
    ) -> Result<Answer, hyper::Error> {
        let mut request = Request::builder().method(method).uri(path).header("host", "peer");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        exchange(stream, request.body(Full::new(body)).unwrap()).await
    }

    /// Everything in the table, but for the numbers that are this process's own.
    pub(crate) fn dump(&self) -> String {
        let page = self.reader.page(&Default::default(), None, 10_000);
        let line = |route: &Arc<sandgate_routes::Route>| {
            let text = format!("{route:?}");
            text.split(", identity").next().unwrap().to_owned()
        };
        page.routes.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Ends it where it stands, as a panic of its thread does.
    pub(crate) fn kill(&self) {
        self.task.abort();
    }

    pub(crate) async fn stop(&mut self) {
        self.stop.take();
        timeout(DEADLINE, &mut self.task).await.expect("the receiver stops").unwrap();
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Answer, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let response = timeout(DEADLINE, sender.send_request(request)).await.expect("an answer")?;
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    driver.abort();
    Ok(Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    })
}

pub(crate) async fn eventually<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "not in time");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A message of `team/demo`.
pub(crate) fn message(state: &str, version: &str) -> Value {
    json!({
        "ip": "127.1.2.3", "id": "team--demo", "namespace": "team", "name": "demo", "uid": "u-1",
        "owner": "alice", "state": state, "resourceVersion": version, "accessToken": "s3cret",
    })
}

pub(crate) const KEY: &str = "0123456789abcdef0123456789abcdef";

/// A key, and the file it is in.
pub(crate) fn key_file(folder: &TempDir, id: &str, key: &str) -> (HmacKey, PathBuf) {
    let file = folder.path().join(id);
    std::fs::write(&file, format!("{key}\n")).unwrap();
    (HmacKey::read(id, &file).unwrap(), file)
}
