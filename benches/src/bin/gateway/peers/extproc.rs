//! The ext_proc peer: a gRPC server that Envoy asks about every request, one stream each.
//!
//! It reads lines on its standard input: a number is the changes a second its table takes from now on.

use std::convert::Infallible;
use std::future::Future;
use std::io::BufRead as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::messages::{ProcessingRequest, ProcessingResponse};
use super::table::Table;
use crate::failure::{Doing as _, Failure, Result};

/// How often changes are made: so many at a time as the rate asks for.
const STEP: Duration = Duration::from_millis(10);

/// Serves until it is killed.
pub(crate) fn serve(routes: &Path) -> Result<()> {
    let text = std::fs::read_to_string(routes).doing(format!("reading {}", routes.display()))?;
    let table = Arc::new(Table::read(&text));
    let rate = Arc::new(AtomicU32::new(0));
    thread::spawn({
        let rate = Arc::clone(&rate);
        move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                rate.store(line.trim().parse().unwrap_or(0), Ordering::Relaxed);
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().doing("a runtime")?;
    runtime.block_on(async {
        let incoming = TcpIncoming::bind((Ipv4Addr::LOCALHOST, 0).into()).doing("listening")?;
        println!("{}", incoming.local_addr().doing("asking for the port")?.port());
        tokio::spawn(change(Arc::clone(&table), rate));
        let server = Server::builder().add_service(Processor(table));
        let served = server.serve_with_incoming(incoming.with_nodelay(Some(true))).await;
        served.map_err(|error| Failure::Asked(format!("the ext_proc server: {error}")))
    })
}

async fn change(table: Arc<Table>, rate: Arc<AtomicU32>) {
    let mut tick = tokio::time::interval(STEP);
    let mut number = 0;
    let mut owed = 0.0;
    loop {
        tick.tick().await;
        owed += f64::from(rate.load(Ordering::Relaxed)) * STEP.as_secs_f64();
        while owed >= 1.0 {
            owed -= 1.0;
            number += 1;
            table.change(number);
        }
    }
}

type Future_<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[derive(Clone)]
struct Processor(Arc<Table>);

impl NamedService for Processor {
    const NAME: &'static str = "envoy.service.ext_proc.v3.ExternalProcessor";
}

impl Service<http::Request<Body>> for Processor {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Future_<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    // There is one method, so whatever is called is it.
    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let process = Process(Arc::clone(&self.0));
        Box::pin(async move { Ok(Grpc::new(ProstCodec::default()).streaming(process, request).await) })
    }
}

struct Process(Arc<Table>);

impl StreamingService<ProcessingRequest> for Process {
    type Response = ProcessingResponse;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;
    type Future = Future_<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<ProcessingRequest>>) -> Self::Future {
        let table = Arc::clone(&self.0);
        let answers = request.into_inner().map(move |message| message.map(|message| table.answer(&message)));
        Box::pin(async move { Ok(Response::new(Box::pin(answers) as Self::ResponseStream)) })
    }
}
