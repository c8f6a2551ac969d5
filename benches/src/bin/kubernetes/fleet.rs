//! An API server and its sandboxes: OpenKruise objects with a pod template of 6 KiB, all running.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sandgate_tests::kubernetes::{ApiServer, pod_template};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::etcd::{Etcd, Stored};

const ETCD_PORT: u16 = 2379;
/// Writes under way at once.
const WRITERS: usize = 8;
/// Objects in one write while the fleet grows: etcd takes 1.5 MiB.
const BATCH: usize = 100;

pub(crate) struct Fleet {
    pub(crate) api: ApiServer,
    pub(crate) namespace: String,
    pub(crate) kubeconfig: PathBuf,
    size: usize,
}

/// A write and when it was answered.
pub(crate) struct Written {
    pub(crate) revision: u64,
    pub(crate) answered: Instant,
}

/// What makes the objects: cheap to copy into a task.
#[derive(Clone)]
struct Mould {
    namespace: String,
    /// As text, since it is most of an object and never changes.
    template: Arc<str>,
}

/// Every change gives a sandbox another address.
static CHANGE: AtomicU64 = AtomicU64::new(0);

impl Fleet {
    pub(crate) async fn start() -> Self {
        let api = ApiServer::builder().start().await;
        let namespace = api.namespace("fleet").await;
        let kubeconfig = api.admin_kubeconfig();
        Fleet { api, namespace, kubeconfig, size: 0 }
    }

    fn etcd(&self) -> SocketAddr {
        (self.api.address().ip(), ETCD_PORT).into()
    }

    fn mould(&self) -> Mould {
        Mould { namespace: self.namespace.clone(), template: pod_template().to_string().into() }
    }

    /// Writes more sandboxes until there are `size`.
    pub(crate) async fn grow(&mut self, size: usize) {
        let progress = ProgressBar::new(size as u64).with_prefix("sandboxes written");
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {eta}") {
            progress.set_style(style);
        }
        progress.set_position(self.size as u64);
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (etcd, mould, from, progress) = (self.etcd(), self.mould(), self.size, progress.clone());
            writers.spawn(async move {
                let mut etcd = Etcd::connect(etcd).await;
                let mut next = from + writer * BATCH;
                while next < size {
                    let batch = next..(next + BATCH).min(size);
                    progress.inc(batch.len() as u64);
                    etcd.put(batch.map(|number| mould.object(number))).await;
                    next += WRITERS * BATCH;
                }
            });
        }
        while let Some(done) = writers.join_next().await {
            done.expect("a writer");
        }
        progress.finish_and_clear();
        self.size = self.size.max(size);
    }

    /// Changes `rate` sandboxes a second for `time`, evenly, whatever the answers take. Says what was
    /// written.
    pub(crate) async fn change(&self, rate: u32, time: Duration) -> Vec<Written> {
        if rate == 0 {
            tokio::time::sleep(time).await;
            return Vec::new();
        }
        let total = u64::from(rate) * time.as_secs();
        let began = Instant::now() + Duration::from_millis(100);
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS as u64 {
            let (etcd, mould, size) = (self.etcd(), self.mould(), self.size as u64);
            writers.spawn(async move {
                let mut etcd = Etcd::connect(etcd).await;
                let mut written = Vec::new();
                let mut event = writer;
                while event < total {
                    sleep_until(began + Duration::from_secs(1).mul_f64(event as f64 / f64::from(rate))).await;
                    // A step that visits all before any twice, for sizes that it does not divide.
                    let number = usize::try_from(event * 7919 % size).expect("small");
                    let revision = etcd.put([mould.object(number)]).await;
                    written.push(Written { revision, answered: Instant::now() });
                    event += WRITERS as u64;
                }
                written
            });
        }
        let mut written = Vec::new();
        while let Some(done) = writers.join_next().await {
            written.extend(done.expect("a writer"));
        }
        written
    }
}

impl Mould {
    fn object(&self, number: usize) -> Stored {
        let [_, _, a, b] =
            u32::try_from(CHANGE.fetch_add(1, Ordering::Relaxed) % 60_000).unwrap_or(0).to_be_bytes();
        let ip = format!("10.7.{a}.{b}");
        let (namespace, name) = (&self.namespace, format!("sandbox-{number:06}"));
        let metadata = json!({
            "namespace": namespace,
            "name": name,
            "uid": format!("00000000-0000-4000-8000-{number:012x}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
        });
        let status = json!({
            "phase": "Running",
            "sandboxIp": ip,
            "podInfo": { "podIP": ip },
            "conditions": [{ "type": "Ready", "status": "True" }],
        });
        let spec = format!(r#"{{"paused":false,"template":{}}}"#, self.template);
        let types = r#""apiVersion":"agents.kruise.io/v1alpha1","kind":"Sandbox""#;
        let value = format!(r#"{{{types},"metadata":{metadata},"spec":{spec},"status":{status}}}"#);
        let key = format!("/registry/agents.kruise.io/sandboxes/{namespace}/{name}");
        Stored { key, value }
    }
}
