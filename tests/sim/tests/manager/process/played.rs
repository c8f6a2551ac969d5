//! What a manager speaks to beside the API server: the runtimes in sandboxes, the gateways, and whoever
//! counts what it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::body::Bytes;
use parking_lot::Mutex;
use sandgate_manager::{Observer, Push, Transport};
use sandgate_peering::{Delivery, RouteMessage};
use sandgate_sim::Random;
use tokio::time::Instant;

/// The runtimes in the sandboxes and the gateways, played: each answer takes a while. Some fail or come too
/// late, unless nothing goes wrong.
pub(super) struct Played {
    random: Mutex<Random>,
    is_calm: Arc<AtomicBool>,
}

impl Played {
    pub(super) fn new(random: Random, is_calm: &Arc<AtomicBool>) -> Self {
        Self { random: Mutex::new(random), is_calm: Arc::clone(is_calm) }
    }

    /// How long something takes, and whether it fails.
    fn draw(&self) -> (Duration, bool) {
        let mut random = self.random.lock();
        let (time, fails) = (*random.pick(&[0, 0, 5, 200, 2_000]), random.chance(50));
        let is_calm = self.is_calm.load(Ordering::Relaxed);
        (Duration::from_millis(if is_calm { time.min(500) } else { time }), fails && !is_calm)
    }
}

impl Transport for Played {
    fn send(&self, _: http::Request<Bytes>) -> BoxFuture<'static, Result<(u16, Bytes), String>> {
        let (time, fails) = self.draw();
        Box::pin(async move {
            tokio::time::sleep(time).await;
            if fails { Err("the connection broke".to_owned()) } else { Ok((204, Bytes::new())) }
        })
    }
}

impl Push for Played {
    fn push(&self, _: &RouteMessage, deadline: Instant) -> BoxFuture<'static, Vec<Delivery>> {
        let (time, fails) = self.draw();
        Box::pin(async move {
            let told = tokio::time::timeout_at(deadline, tokio::time::sleep(time)).await.is_ok();
            vec![if told && !fails { Delivery::Delivered } else { Delivery::Pending }]
        })
    }
}

/// What a manager tells those who watch over it.
#[derive(Default)]
pub(super) struct Said {
    /// It has given up to take something back.
    pub(super) has_left: AtomicBool,
}

impl Observer for Said {
    fn undone(&self, how: &'static str) {
        self.has_left.fetch_or(how == "left", Ordering::Relaxed);
    }
}
