//! Connections.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::patience::Patience;
use super::route::respond;
use super::token::Tokens;
use crate::actor::Handle;

/// How many connections there are at a time. The operator has one.
const MOST_CONNECTIONS: u32 = 256;
/// How long a connection may take for the head of its next request, and its client to take an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait when the system has no descriptor for a connection.
const BREATH: Duration = Duration::from_millis(100);

/// Answers requests until it is told to stop, and then those that are under way.
pub(crate) async fn serve(
    listener: TcpListener,
    tasks: Handle,
    tokens: Option<Tokens>,
    mut stopped: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS as usize));
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, stream) = tokio::select! {
            biased;
            () = told(&mut stopped) => break,
            (place, stream) = accepted => (place, stream),
        };
        match stream {
            Ok((stream, _)) => {
                let connection = connection(stream, tasks.clone(), tokens.clone(), stopped.clone());
                tokio::spawn(async move {
                    let _place = place;
                    connection.await;
                });
            }
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
    drop(listener);
    // Every connection gives its place back when it ends.
    let _ = room.acquire_many(MOST_CONNECTIONS).await;
}

async fn connection(
    stream: TcpStream,
    tasks: Handle,
    tokens: Option<Tokens>,
    mut stopped: watch::Receiver<bool>,
) {
    let service = service_fn(|request| {
        let answer = respond(request, tasks.clone(), tokens.clone());
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let mut served = pin!(builder.serve_connection(TokioIo::new(Patience::new(stream, taken())), service));
    let ended = tokio::select! {
        biased;
        ended = served.as_mut() => ended,
        () = told(&mut stopped) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

/// How long a client may take for an answer. A test build can be told otherwise.
fn taken() -> Duration {
    #[cfg(debug_assertions)]
    if let Some(millis) = std::env::var("SANDGATE_TAKEN_MILLIS").ok().and_then(|text| text.parse().ok()) {
        return Duration::from_millis(millis);
    }
    PATIENCE
}

/// Waits until it shall stop.
async fn told(stopped: &mut watch::Receiver<bool>) {
    // An error means that nobody can say it any more, which is the same.
    drop(stopped.wait_for(|stopped| *stopped).await);
}
