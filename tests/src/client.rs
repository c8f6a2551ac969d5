//! Clients: one connection each, so that a scenario knows what shares a connection and what does not.

mod https;
mod raw;
mod websocket;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use https::{Https, Secured};
pub use raw::raw_exchange;
pub use websocket::{SocketEnd, WebSocket};

use crate::DEADLINE;

/// The header by which the access log tells one request of a scenario from the others.
pub(crate) const TAG: &str = "x-test-tag";

type Body = BoxBody<Bytes, std::convert::Infallible>;

/// A request to be sent.
#[derive(Debug)]
pub struct Request {
    method: Method,
    path: String,
    host: Option<String>,
    headers: HeaderMap,
    body: Body,
}

impl Request {
    /// A GET of a path.
    pub fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            host: None,
            headers: HeaderMap::new(),
            body: Full::default().boxed(),
        }
    }

    /// A POST to a path.
    pub fn post(path: &str) -> Self {
        Self::get(path).method("POST")
    }

    /// Sets the path.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Sets the method.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        self.method = method.parse().expect("a method");
        self
    }

    /// Sets the host; without it, the address of the server.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    /// Adds a header; a name may be given more than once.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name: HeaderName = name.parse().expect("a header name");
        self.headers.append(name, HeaderValue::from_bytes(value.as_ref()).expect("a header value"));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(
        mut self,
        body: impl hyper::body::Body<Data = Bytes, Error = std::convert::Infallible> + Send + Sync + 'static,
    ) -> Self {
        self.body = body.boxed();
        self
    }
}

enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>, &'static str),
}

/// One connection to a server.
pub struct Client {
    sender: Sender,
    server: SocketAddr,
    driver: JoinHandle<()>,
}

impl Client {
    /// An HTTP/1.1 connection with keep-alive.
    pub async fn http1(server: SocketAddr) -> std::io::Result<Self> {
        Self::over(TcpStream::connect(server).await?, server).await
    }

    /// The same, from this address of our own.
    pub async fn http1_from(own: IpAddr, server: SocketAddr) -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((own, 0).into())?;
        Self::over(socket.connect(server).await?, server).await
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        server: SocketAddr,
    ) -> std::io::Result<Self> {
        let (sender, connection) =
            http1::Builder::new().handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
        let driver = tokio::spawn(async move {
            // How a connection ends shows in the request that was on it.
            let _ended = connection.with_upgrades().await;
        });
        Ok(Self { sender: Sender::Http1(sender), server, driver })
    }

    /// An HTTP/2 connection without TLS, by prior knowledge.
    pub async fn http2(server: SocketAddr) -> std::io::Result<Self> {
        Self::over_http2(TcpStream::connect(server).await?, server, "http").await
    }

    async fn over_http2(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        server: SocketAddr,
        scheme: &'static str,
    ) -> std::io::Result<Self> {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(std::io::Error::other)?;
        let driver = tokio::spawn(async move {
            let _ended = connection.await;
        });
        Ok(Self { sender: Sender::Http2(sender, scheme), server, driver })
    }

    /// Another handle on the same HTTP/2 connection, which ends with the first one.
    ///
    /// # Panics
    /// For HTTP/1.1, where one request at a time is under way.
    pub fn share(&self) -> Self {
        let Sender::Http2(sender, scheme) = &self.sender else {
            panic!("an HTTP/1.1 connection is not shared")
        };
        let driver = tokio::spawn(async {});
        Self { sender: Sender::Http2(sender.clone(), scheme), server: self.server, driver }
    }

    /// Whether the other side is known to have closed it, or to take no more requests on it.
    pub(crate) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender, _) => sender.is_closed(),
        }
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// When the connection breaks before the answer is complete.
    ///
    /// # Panics
    /// When no answer comes within the deadline.
    pub async fn send(&mut self, request: Request) -> Result<Reply, hyper::Error> {
        self.send_within(DEADLINE, request).await
    }

    /// The same with a deadline of the caller's own.
    ///
    /// # Errors
    /// When the connection breaks before the answer is complete.
    ///
    /// # Panics
    /// When no answer comes within the deadline.
    pub async fn send_within(&mut self, deadline: Duration, request: Request) -> Result<Reply, hyper::Error> {
        let whole = async {
            let (tag, response) = self.open(request).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await?;
            let trailers = body.trailers().cloned().unwrap_or_default();
            Ok(Reply {
                status: head.status.as_u16(),
                headers: head.headers,
                body: body.to_bytes(),
                trailers,
                tag,
            })
        };
        timeout(deadline, whole).await.expect("an answer within the deadline")
    }

    /// Sends a request and returns as soon as the headers of the answer are there, with the tag of the
    /// request.
    ///
    /// # Errors
    /// When the connection breaks first.
    pub async fn open(
        &mut self,
        request: Request,
    ) -> Result<(String, hyper::Response<Incoming>), hyper::Error> {
        let tag = next_tag();
        let host = request.host.unwrap_or_else(|| self.server.to_string());
        let mut headers = request.headers;
        headers.insert(TAG, tag.parse().expect("a header value"));
        let mut outgoing = hyper::Request::new(request.body);
        *outgoing.method_mut() = request.method;
        *outgoing.headers_mut() = headers;
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                *outgoing.uri_mut() = request.path.parse().expect("a path");
                outgoing
                    .headers_mut()
                    .insert(HOST, HeaderValue::from_bytes(host.as_bytes()).expect("a host"));
                sender.ready().await?;
                sender.send_request(outgoing).await?
            }
            Sender::Http2(sender, scheme) => {
                *outgoing.uri_mut() = Uri::builder()
                    .scheme(*scheme)
                    .authority(host)
                    .path_and_query(request.path)
                    .build()
                    .expect("a URI");
                sender.ready().await?;
                sender.send_request(outgoing).await?
            }
        };
        Ok((tag, response))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn next_tag() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The trailers.
    pub trailers: HeaderMap,
    /// What the access log calls the request.
    pub tag: String,
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e} in {} {:?}", self.status, self.text()))
    }

    /// A header's value, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a header of text"))
    }

    /// The name of the sandbox that answered.
    ///
    /// # Panics
    /// When none did.
    pub fn sandbox(&self) -> String {
        assert_eq!(self.status, 200, "no sandbox answered but: {}", self.text());
        self.json()["sandbox"].as_str().unwrap_or_else(|| panic!("no name in {}", self.text())).to_owned()
    }

    /// The path the sandbox saw, with its query.
    pub fn seen_path(&self) -> String {
        self.json()["path"].as_str().expect("a sandbox says the path").to_owned()
    }

    /// The port the sandbox was asked on.
    pub fn seen_port(&self) -> u64 {
        self.json()["port"].as_u64().expect("a sandbox says the port")
    }

    /// What the sandbox saw of a request header: all its values.
    pub fn seen(&self, name: &str) -> Vec<String> {
        let answer = self.json();
        let values = answer["headers"][name].as_array().map(Vec::as_slice).unwrap_or_default();
        values.iter().map(|value| value.as_str().expect("text").to_owned()).collect()
    }
}
