//! What stands between the reconciler and the model: requests that are late, lost or refused, and deaths.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Request as HttpRequest;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use sandgate_sim::model::Model;
use sandgate_sim::network::answer;
use serde_json::json;
use tokio::sync::Notify;
use tower::service_fn;

use super::NAMESPACE;
use crate::Random;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool::tests) enum Fate {
    /// It is done and answered.
    Done,
    /// It never arrives.
    Lost,
    /// It is done, and nobody learns of it.
    Unanswered,
    /// It is refused without being looked at.
    Refused(u16),
    /// The process dies before it is sent.
    DiesBefore,
    /// The process dies when it has been done.
    DiesAfter,
}

/// A change of the model by somebody else.
pub(super) type Meddling = Box<dyn FnOnce(&mut Model) + Send>;

/// What happens to requests, by their numbers.
#[derive(Default)]
pub(in crate::pool::tests) struct Script {
    pub(super) asked: Vec<String>,
    pub(super) fates: BTreeMap<usize, Fate>,
    /// Before the first request whose line contains this.
    pub(super) meddling: Vec<(String, Meddling)>,
    /// How long requests and answers are on their way, if that matters.
    pub(super) delays: Option<Random>,
    /// How many requests are on their way, and how many were at most.
    pub(super) under_way: (usize, usize),
}

impl Script {
    fn delay(script: &Mutex<Self>) -> u64 {
        script.lock().delays.as_mut().map_or(0, |random| random.number() % 6)
    }
}

/// A client of the model, whose requests have these fates.
pub(super) fn client(model: Arc<Mutex<Model>>, script: Arc<Mutex<Script>>, dead: Arc<Notify>) -> Client {
    let service = service_fn(move |request: HttpRequest<Body>| {
        let (model, script, dead) = (Arc::clone(&model), Arc::clone(&script), Arc::clone(&dead));
        async move {
            let _under_way = UnderWay::begin(&script);
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(std::io::Error::other)?.to_vec();
            let path = parts.uri.path().rsplit("/namespaces/n/").next().unwrap_or_default();
            let line = format!("{} {path}", parts.method);
            let (fate, meddling) = {
                let mut script = script.lock();
                let number = script.asked.len();
                let met = script.meddling.iter().position(|(part, _)| line.contains(part.as_str()));
                let meddling = met.map(|met| script.meddling.remove(met).1);
                script.asked.push(line);
                (script.fates.get(&number).copied().unwrap_or(Fate::Done), meddling)
            };
            if let Some(meddling) = meddling {
                meddling(&mut model.lock());
            }
            let wait = || async {
                for _ in 0..Script::delay(&script) {
                    tokio::task::yield_now().await;
                }
            };
            wait().await;
            let broken = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            let die = || async {
                dead.notify_one();
                std::future::pending::<()>().await;
            };
            if fate == Fate::DiesBefore {
                die().await;
            }
            match fate {
                Fate::Lost => return Err(broken()),
                Fate::Refused(code) => {
                    let status = json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                        "reason": "Forbidden", "message": "exceeded quota",
                    });
                    let response = http::Response::builder().status(code);
                    return Ok(response.body(Body::from(status.to_string().into_bytes())).unwrap());
                }
                _ => {}
            }
            let response = answer(&mut model.lock(), HttpRequest::from_parts(parts, body));
            wait().await;
            match fate {
                Fate::DiesAfter => die().await,
                Fate::Unanswered => return Err(broken()),
                _ => {}
            }
            Ok(response.map(Body::from))
        }
    });
    Client::new(service, NAMESPACE)
}

/// A request that is on its way until this is dropped.
struct UnderWay(Arc<Mutex<Script>>);

impl UnderWay {
    fn begin(script: &Arc<Mutex<Script>>) -> Self {
        let (now, most) = &mut script.lock().under_way;
        *now += 1;
        *most = (*most).max(*now);
        Self(Arc::clone(script))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.lock().under_way.0 -= 1;
    }
}
