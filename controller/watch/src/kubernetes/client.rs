//! The connection to the API server that all scopes share: who we are, how often we ask, one list at a time.
//!
//! **Credentials** are read when a client is made, and a token file again every minute by the client itself. After a
//! 401, or where the server cannot be reached, the client is thrown away and the next request makes another: config,
//! certificates and tokens are read anew, so rotation of any of them needs no restart. Watches under way stay.
//!
//! **Blocking work** (files, credential plugins) happens on a blocking thread.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use sandgate_follow::Access;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout};

use super::error::Failure;
use super::head::Status;
use super::timing::Timing;

/// How much of an error's body is read.
const MAX_ERROR_BODY: usize = 64 << 10;

pub(super) struct Api {
    access: Access,
    pub(super) timing: Timing,
    /// The client and its number.
    client: Mutex<(u64, Option<Client>)>,
    /// When the next request may go out.
    next: Mutex<Instant>,
    lists: Semaphore,
}

/// A response that has begun, with the number of the client that asked.
pub(super) struct Answer {
    pub(super) body: Body,
}

impl Api {
    pub(super) fn new(access: Access, timing: Timing) -> Arc<Self> {
        Arc::new(Api {
            access,
            timing,
            client: Mutex::new((0, None)),
            next: Mutex::new(Instant::now()),
            lists: Semaphore::new(1),
        })
    }

    /// The turn to list. Lists are what costs the API server and this process most: one at a time.
    pub(super) async fn turn_to_list(&self) -> Option<SemaphorePermit<'_>> {
        // Fails only on a closed semaphore, and nobody closes it.
        self.lists.acquire().await.ok()
    }

    /// Asks for `path`. The body is still to come.
    pub(super) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::GET, path, Vec::new()).await
    }

    /// Asks with a JSON text.
    pub(super) async fn post(&self, path: &str, json: Vec<u8>) -> Result<Answer, Failure> {
        self.send(Method::POST, path, json).await
    }

    async fn send(&self, method: Method, path: &str, json: Vec<u8>) -> Result<Answer, Failure> {
        self.wait_for_the_rate().await;
        let (number, client) = self.client().await?;
        let answer = self.ask(&client, method, path, json).await;
        if let Err(failure) = &answer
            && failure.doubts_the_client()
        {
            let mut current = self.client.lock().await;
            // Another scope may have come to the same conclusion already.
            if current.0 == number {
                current.1 = None;
            }
        }
        answer
    }

    async fn ask(
        &self,
        client: &Client,
        method: Method,
        path: &str,
        json: Vec<u8>,
    ) -> Result<Answer, Failure> {
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
        let wait = self.timing.response;
        let response = timeout(wait, client.send(request)).await.map_err(|_| Failure::Silent(wait))?;
        let response = response.map_err(|error| Failure::broken(&error))?;
        if response.status().is_success() {
            return Ok(Answer { body: response.into_body() });
        }
        let code = response.status().as_u16();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = Limited::new(response.into_body(), MAX_ERROR_BODY).collect();
        let body = timeout(wait, body).await.ok().and_then(Result::ok).map(|body| body.to_bytes());
        let body = body.unwrap_or_default();
        let (message, asked) = match serde_json::from_slice::<Status>(&body) {
            Ok(status) => (status.message.clone(), status.retry_after()),
            Err(_) => (String::from_utf8_lossy(&body).into_owned(), None),
        };
        Err(Failure::refused(code, &message, seconds.map(Duration::from_secs).or(asked)))
    }

    async fn wait_for_the_rate(&self) {
        let mut next = self.next.lock().await;
        let now = Instant::now();
        let at = (*next).max(now);
        *next = at + self.timing.between_requests;
        drop(next);
        if at > now {
            sleep_until(at).await;
        }
    }

    async fn client(&self) -> Result<(u64, Client), Failure> {
        let mut current = self.client.lock().await;
        if let (number, Some(client)) = &*current {
            return Ok((*number, client.clone()));
        }
        let client = self.access.connect(self.timing.response).await?;
        current.0 += 1;
        current.1 = Some(client.clone());
        Ok((current.0, client))
    }
}
