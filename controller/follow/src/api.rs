//! The connection to the API server that all followers of one cluster share.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout};

use crate::access::Access;
use crate::events::retry_after;
use crate::failure::Failure;
use crate::timing::Timing;

/// The most that is read of the body of an error.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The most that [`Api::get`] and [`Api::post`] read of a body. Discovery of one group is a few KiB.
pub const MAX_ANSWER: usize = 4 << 20;

/// A client of one API server: one set of credentials, one request rate, one list at a time.
///
/// # Credentials
/// Credentials are read when a client is made; the client itself reads a token file again every minute. After
/// a 401 or a failed connection the client is thrown away, and the next request makes another: config,
/// certificates and tokens are read again, so their rotation needs no restart. Open watches stay open. Files
/// are read, and credential plugins run, on a blocking thread.
pub struct Api {
    access: Source,
    pub(crate) timing: Timing,
    client: Mutex<NumberedClient>,
    /// When the next request may be sent.
    next_request: parking_lot::Mutex<Instant>,
    lists: Semaphore,
}

/// Where clients come from.
enum Source {
    Access(Access),
    Client(Client),
}

#[derive(Default)]
struct NumberedClient {
    /// Counts the clients that were made.
    number: u64,
    client: Option<Client>,
}

impl Api {
    /// Reads nothing and connects to nothing until the first request.
    pub fn new(access: Access, timing: Timing) -> Arc<Self> {
        Self::from(Source::Access(access), timing)
    }

    /// Uses this client, whose credentials are never read anew.
    pub fn of(client: Client, timing: Timing) -> Arc<Self> {
        Self::from(Source::Client(client), timing)
    }

    fn from(access: Source, timing: Timing) -> Arc<Self> {
        Arc::new(Api {
            access,
            timing,
            client: Mutex::default(),
            next_request: parking_lot::Mutex::new(Instant::now()),
            lists: Semaphore::new(1),
        })
    }

    /// The response to a GET, up to [`MAX_ANSWER`] bytes.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn get(&self, path: &str) -> Result<Vec<u8>, Failure> {
        self.read(self.open(path).await?).await
    }

    /// The response to a POST of a JSON text, up to [`MAX_ANSWER`] bytes.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn post(&self, path: &str, json: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.read(self.send(Method::POST, path, json).await?).await
    }

    async fn read(&self, body: Body) -> Result<Vec<u8>, Failure> {
        let wait = self.timing.response;
        let body = timeout(wait, Limited::new(body, MAX_ANSWER).collect()).await;
        let body = body.map_err(|_| Failure::Silent(wait))?.map_err(|error| Failure::broken(&*error))?;
        Ok(body.to_bytes().into())
    }

    /// Waits for the turn to list. A list is the most expensive request for the API server and for this
    /// process.
    pub(crate) async fn turn_to_list(&self) -> Option<SemaphorePermit<'_>> {
        // Fails only if the semaphore is closed, which never happens.
        self.lists.acquire().await.ok()
    }

    /// The body of the response to a GET, still to be read.
    pub(crate) async fn open(&self, path: &str) -> Result<Body, Failure> {
        self.send(Method::GET, path, Vec::new()).await
    }

    async fn send(&self, method: Method, path: &str, json: Vec<u8>) -> Result<Body, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("sandgate/", env!("CARGO_PKG_VERSION")));
        if !json.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Body::from(json))
            .map_err(|error| Failure::Access(format!("cannot ask for {path}: {error}")))?;
        self.wait_for_the_rate().await;
        let (number, client) = self.client().await?;
        let wait = self.timing.response;
        let failure = match timeout(wait, client.send(request)).await {
            Ok(Ok(response)) if response.status().is_success() => return Ok(response.into_body()),
            Ok(Ok(response)) => refusal(response, wait).await,
            Ok(Err(error)) => Failure::broken(&error),
            Err(_) => Failure::Silent(wait),
        };
        if failure.may_need_a_new_client() {
            let mut current = self.client.lock().await;
            // Another follower may have replaced the client already.
            if current.number == number {
                current.client = None;
            }
        }
        Err(failure)
    }

    async fn wait_for_the_rate(&self) {
        let now = Instant::now();
        let at = {
            let mut next = self.next_request.lock();
            let at = (*next).max(now);
            *next = at + self.timing.between_requests;
            at
        };
        // A timer fires a millisecond late, so a request that is due at once must not wait for one.
        if at > now {
            sleep_until(at).await;
        }
    }

    async fn client(&self) -> Result<(u64, Client), Failure> {
        let mut current = self.client.lock().await;
        if let Some(client) = &current.client {
            return Ok((current.number, client.clone()));
        }
        let client = match &self.access {
            Source::Access(access) => access.connect(self.timing.response).await?,
            Source::Client(client) => client.clone(),
        };
        current.number += 1;
        current.client = Some(client.clone());
        Ok((current.number, client))
    }
}

/// The failure that an error response describes, by its header and by its body.
async fn refusal(response: Response<Body>, wait: Duration) -> Failure {
    let code = response.status().as_u16();
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let body = Limited::new(response.into_body(), MAX_ERROR_BODY).collect();
    let body = timeout(wait, body).await.ok().and_then(Result::ok).map(|body| body.to_bytes());
    let body = body.unwrap_or_default();
    let (message, in_body) = match serde_json::from_slice::<Status>(&body) {
        Ok(status) => (status.message.clone(), retry_after(&status)),
        Err(_) => (String::from_utf8_lossy(&body).into_owned(), None),
    };
    Failure::refused(code, &message, seconds.map(Duration::from_secs).or(in_body))
}
