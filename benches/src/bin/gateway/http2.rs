//! Requests over HTTP/2 as fast as answers come: four connections, eight requests at a time on each, as many
//! in all as wrk has.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use h2::client::SendRequest;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::failure::{Doing as _, Failure, Result};
use crate::fleet::Walk;
use crate::generator::{Answers, Questions};

const CONNECTIONS: usize = 4;
const STREAMS: usize = 8;

pub(crate) fn run(questions: &Questions) -> Result<Answers> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().doing("a runtime")?;
    runtime.block_on(load(questions))
}

struct Counts {
    asked: AtomicUsize,
    good: AtomicU64,
    bad: AtomicU64,
}

async fn load(questions: &Questions) -> Result<Answers> {
    let counts =
        Arc::new(Counts { asked: AtomicUsize::new(0), good: AtomicU64::new(0), bad: AtomicU64::new(0) });
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, questions.port)).await.doing("connecting")?;
        stream.set_nodelay(true).doing("sending at once")?;
        let (client, connection) = h2::client::handshake(stream)
            .await
            .map_err(|error| Failure::Asked(format!("HTTP/2: {error}")))?;
        tokio::spawn(async move {
            // How it ends shows in its requests.
            let _ = connection.await;
        });
        clients.push(client);
    }
    let started = Instant::now();
    let until = started + questions.duration();
    let mut tasks = JoinSet::new();
    for client in clients.into_iter().flat_map(|client| std::iter::repeat_n(client, STREAMS)) {
        tasks.spawn(ask(client, questions.clone(), Arc::clone(&counts), until));
    }
    while tasks.join_next().await.is_some() {}
    Ok(Answers {
        requests: counts.good.load(Ordering::Relaxed),
        seconds: started.elapsed().as_secs_f64(),
        failed: counts.bad.load(Ordering::Relaxed),
        latency: None,
    })
}

/// One request after the other. A connection that ends takes its tasks with it, each with a failure.
async fn ask(
    mut client: SendRequest<bytes::Bytes>,
    questions: Questions,
    counts: Arc<Counts>,
    until: Instant,
) {
    let (before, after) = questions.host_around_number();
    while Instant::now() < until {
        let turn = counts.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let number = (questions.start + turn * Walk::STEP) % questions.count;
        let uri = format!("http://{before}{number:07}{after}/");
        let answer = tokio::time::timeout(Duration::from_secs(5), one(&mut client, &uri)).await;
        match answer {
            Ok(Ok(status)) if (status >= 400) == questions.refused() => {
                counts.good.fetch_add(1, Ordering::Relaxed)
            }
            Ok(Ok(_)) => counts.bad.fetch_add(1, Ordering::Relaxed),
            Ok(Err(_)) | Err(_) => {
                counts.bad.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
    }
}

async fn one(client: &mut SendRequest<bytes::Bytes>, uri: &str) -> Result<u16, h2::Error> {
    let request = http::Request::builder().uri(uri).body(()).map_err(|_| h2::Reason::INTERNAL_ERROR)?;
    // A place among the streams the server allows.
    let mut ready = client.clone().ready().await?;
    let (response, _) = ready.send_request(request, true)?;
    let response = response.await?;
    let status = response.status().as_u16();
    let mut body = response.into_body();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
    }
    Ok(status)
}
