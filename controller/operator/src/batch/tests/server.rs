//! An API server in memory, for reconcilers: versions, preconditions, finalizers, and faults on cue.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use sandgate_routes::Version;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::service_fn;

use crate::Key;
use crate::view::{Kind, View};

/// Plural and key of an object.
type Name = (String, Key);

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process dies before the request is done.
    KilledBefore,
    /// The process dies after the request is done, and never learns of it.
    KilledAfter,
    /// The request is done, and the answer is lost.
    AnswerLost,
    /// It is not done, and nobody can say that.
    RequestLost,
    /// Somebody else writes the object first.
    Raced,
}

impl Fault {
    pub(crate) const ALL: [Self; 5] =
        [Self::KilledBefore, Self::KilledAfter, Self::AnswerLost, Self::RequestLost, Self::Raced];
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<Name, Value>,
    /// What the watches have not shown yet.
    news: Vec<(Name, Option<Value>, Value)>,
    version: u64,
    /// How many requests there were that would change something, and all of them.
    asked: Vec<String>,
    fault: Option<(usize, Fault)>,
    /// Why pods are not admitted.
    quota: Option<&'static str>,
    /// Why pods are not deleted.
    hold: Option<&'static str>,
    /// Which objects are not shown, and the code of the answer.
    mute: Option<(&'static str, u16)>,
    now: String,
}

/// The server. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Server {
    inner: Arc<Mutex<Inner>>,
    /// Told when a fault kills the process.
    pub(crate) killed: Arc<Notify>,
}

struct Refusal(u16, &'static str);

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        let target = target.as_object_mut().unwrap();
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

impl Inner {
    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn put(&mut self, name: &Name, mut object: Value) -> Value {
        object["metadata"]["resourceVersion"] = self.next().into();
        let ends = !object["metadata"]["deletionTimestamp"].is_null()
            && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
            && name.0 != "pods";
        if ends {
            self.objects.remove(name);
            self.news.push((name.clone(), None, object.clone()));
        } else {
            let before = self.objects.insert(name.clone(), object.clone());
            // A watch shows as deleted what it does not select any more.
            if let Some(mut last) = before.filter(|before| kinds(&name.0, before) != kinds(&name.0, &object))
            {
                last["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
                self.news.push((name.clone(), None, last));
            }
            self.news.push((name.clone(), Some(object.clone()), object.clone()));
        }
        object
    }

    fn create(&mut self, plural: &str, mut object: Value) -> Result<Value, Refusal> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let key = Key::new(&text(&metadata["namespace"]), &text(&metadata["name"]));
        let name = (plural.to_owned(), key);
        if let Some(why) = self.quota.filter(|_| plural == "pods") {
            return Err(Refusal(403, why));
        }
        if self.objects.contains_key(&name) {
            return Err(Refusal(409, "AlreadyExists"));
        }
        object["metadata"]["uid"] = format!("uid-{}", self.next()).into();
        object["metadata"]["generation"] = 1.into();
        object["metadata"]["creationTimestamp"] = self.now.clone().into();
        Ok(self.put(&name, object))
    }

    fn patch(&mut self, name: &Name, patch: &Value, subresource: Option<&str>) -> Result<Value, Refusal> {
        let Some(before) = self.objects.get(name) else { return Err(Refusal(404, "NotFound")) };
        let version = &patch["metadata"]["resourceVersion"];
        if !version.is_null() && *version != before["metadata"]["resourceVersion"] {
            return Err(Refusal(409, "Conflict"));
        }
        let mut after = before.clone();
        match subresource {
            Some(part) => merge(&mut after, &json!({part: patch[part]})),
            None => {
                let mut patch = patch.clone();
                // The status is written on a path of its own.
                patch.as_object_mut().unwrap().remove("status");
                merge(&mut after, &patch);
            }
        }
        let generation = after["metadata"]["generation"].as_i64().unwrap_or_default();
        if after["spec"] != before["spec"] {
            after["metadata"]["generation"] = (generation + 1).into();
        }
        if after == *before {
            return Ok(after);
        }
        Ok(self.put(name, after))
    }

    fn delete(&mut self, name: &Name, options: &Value) -> Result<Value, Refusal> {
        let Some(object) = self.objects.get(name) else { return Err(Refusal(404, "NotFound")) };
        if let Some(why) = self.hold.filter(|_| name.0 == "pods") {
            return Err(Refusal(403, why));
        }
        let only = &options["preconditions"];
        for field in ["uid", "resourceVersion"] {
            if !only[field].is_null() && only[field] != object["metadata"][field] {
                return Err(Refusal(409, "Conflict"));
            }
        }
        let mut object = object.clone();
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return Ok(object);
        }
        object["metadata"]["deletionTimestamp"] = self.now.clone().into();
        let is_custom = name.0 != "pods" && name.0 != "jobs";
        if is_custom {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
            object["metadata"]["generation"] = (generation + 1).into();
        }
        let ended = self.put(name, object);
        match self.objects.get(name) {
            Some(object) => Ok(object.clone()),
            None => Ok(json!({"kind": "Status", "status": "Success", "details": ended["metadata"]})),
        }
    }

    fn list(&self, plural: &str, namespace: &str, selector: &str) -> Value {
        let wanted: Vec<_> = selector.split(',').filter_map(|part| part.split_once('=')).collect();
        let is_wanted = |object: &&Value| {
            wanted.iter().all(|(name, value)| object["metadata"]["labels"][name] == **value)
        };
        let all = self.objects.iter().filter(|((of, key), _)| of == plural && *key.namespace == *namespace);
        json!({"items": all.map(|(_, object)| object).filter(is_wanted).collect::<Vec<_>>()})
    }

    /// Does a request.
    fn serve(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> Result<Value, Refusal> {
        let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(1);
        let namespace = parts.next().unwrap_or_default();
        let plural = parts.next().unwrap_or_default();
        let Some(name) = parts.next() else {
            if *method == Method::POST {
                return self.create(plural, body.clone());
            }
            let selector = query.split('&').find_map(|part| part.strip_prefix("labelSelector="));
            return Ok(self.list(plural, namespace, &selector.unwrap_or_default().replace("%3D", "=")));
        };
        let name = (plural.to_owned(), Key::new(namespace, name));
        if let Some((_, code)) = self.mute.filter(|(plural, _)| *method == Method::GET && *plural == name.0) {
            return Err(Refusal(code, "Muted"));
        }
        match *method {
            Method::GET => self.objects.get(&name).cloned().ok_or(Refusal(404, "NotFound")),
            Method::PATCH => self.patch(&name, body, parts.next()),
            Method::DELETE => self.delete(&name, body),
            _ => Err(Refusal(405, "MethodNotAllowed")),
        }
    }

    /// Somebody else writes the object that the request is about.
    fn race(&mut self, method: &Method, path: &str) {
        let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(1);
        let (namespace, plural, name) = (parts.next(), parts.next(), parts.next());
        if let (Some(namespace), Some(plural), Some(name)) = (namespace, plural, name)
            && *method != Method::POST
        {
            let name = (plural.to_owned(), Key::new(namespace, name));
            let number = self.version;
            let note = json!({"metadata": {"annotations": {"example.com/raced": number.to_string()}}});
            let _ = self.patch(&name, &note, None);
        }
    }
}

impl Server {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let answer = server.answer(&parts.method, &parts.uri, &body);
                match answer {
                    Some(answer) => Ok::<_, std::convert::Infallible>(answer),
                    None => {
                        server.killed.notify_one();
                        std::future::pending().await
                    }
                }
            }
        });
        Client::new(service, "n")
    }

    fn answer(&self, method: &Method, uri: &http::Uri, body: &Value) -> Option<Response<Body>> {
        let mut inner = self.inner.lock();
        let is_write = *method != Method::GET;
        let number = inner.asked.iter().filter(|line| !line.starts_with("GET")).count();
        inner.asked.push(format!("{method} {}", uri.path()));
        let fault = inner.fault.filter(|(at, _)| is_write && *at == number).map(|(_, fault)| fault);
        match fault {
            Some(Fault::KilledBefore) => return None,
            Some(Fault::RequestLost) => return Some(response(Err(Refusal(500, "InternalError")))),
            Some(Fault::Raced) => inner.race(method, uri.path()),
            Some(Fault::KilledAfter | Fault::AnswerLost) | None => {}
        }
        let done = inner.serve(method, uri.path(), uri.query().unwrap_or_default(), body);
        match fault {
            Some(Fault::KilledAfter) => None,
            Some(Fault::AnswerLost) => Some(response(Err(Refusal(504, "Timeout")))),
            _ => Some(response(done)),
        }
    }

    /// What goes wrong with the write of this number, counted from now.
    pub(crate) fn fault(&self, at: usize, fault: Fault) {
        let mut inner = self.inner.lock();
        inner.asked.clear();
        inner.fault = Some((at, fault));
    }

    /// Whether so many writes were asked for that the fault happened.
    pub(crate) fn faulted(&self) -> bool {
        let inner = self.inner.lock();
        let writes = inner.asked.iter().filter(|line| !line.starts_with("GET")).count();
        inner.fault.is_some_and(|(at, _)| writes > at)
    }

    /// What was asked since the last time.
    pub(crate) fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.lock().asked)
    }

    /// Admits no pods for this reason, or all.
    pub(crate) fn quota(&self, why: Option<&'static str>) {
        self.inner.lock().quota = why;
    }

    /// Deletes no pods for this reason, or all that it is asked to.
    pub(crate) fn hold(&self, why: Option<&'static str>) {
        self.inner.lock().hold = why;
    }

    /// Answers with this code when an object of this kind is asked for, or as it should.
    pub(crate) fn mute(&self, objects: Option<(&'static str, u16)>) {
        self.inner.lock().mute = objects;
    }

    pub(crate) fn at(&self, now: &str) {
        now.clone_into(&mut self.inner.lock().now);
    }

    /// Somebody creates an object.
    pub(crate) fn add(&self, plural: &str, object: Value) -> Value {
        self.inner.lock().create(plural, object).ok().expect("the name is free")
    }

    pub(crate) fn get(&self, plural: &str, name: &str) -> Option<Value> {
        self.inner.lock().objects.get(&(plural.to_owned(), Key::new("n", name))).cloned()
    }

    pub(crate) fn all(&self, plural: &str) -> Vec<Value> {
        let inner = self.inner.lock();
        inner.objects.iter().filter(|((of, _), _)| of == plural).map(|(_, object)| object.clone()).collect()
    }

    /// Somebody changes an object, status included.
    pub(crate) fn change(&self, plural: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.change_in("n", plural, name, change);
    }

    /// The same in a namespace, or in none.
    pub(crate) fn change_in(
        &self,
        namespace: &str,
        plural: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let mut inner = self.inner.lock();
        let name = (plural.to_owned(), Key::new(namespace, name));
        let Some(before) = inner.objects.get(&name).cloned() else { panic!("there is no {name:?}") };
        let mut after = before.clone();
        change(&mut after);
        if after["spec"] != before["spec"] {
            let generation = after["metadata"]["generation"].as_i64().unwrap_or_default();
            after["metadata"]["generation"] = (generation + 1).into();
        }
        if after != before {
            inner.put(&name, after);
        }
    }

    /// Somebody deletes an object.
    pub(crate) fn delete(&self, plural: &str, name: &str) {
        let name = (plural.to_owned(), Key::new("n", name));
        let _ = self.inner.lock().delete(&name, &Value::Null);
    }

    /// An object is gone at once: a pod that has ended, what the garbage collector deletes.
    pub(crate) fn remove(&self, plural: &str, name: &str) {
        self.remove_in("n", plural, name);
    }

    /// The same in a namespace, or in none.
    pub(crate) fn remove_in(&self, namespace: &str, plural: &str, name: &str) {
        let mut inner = self.inner.lock();
        let name = (plural.to_owned(), Key::new(namespace, name));
        if let Some(mut object) = inner.objects.remove(&name) {
            object["metadata"]["resourceVersion"] = inner.next().into();
            inner.news.push((name, None, object));
        }
    }

    /// Shows everything to a view that is new.
    pub(crate) fn list_to(&self, view: &View) {
        let mut inner = self.inner.lock();
        inner.news.clear();
        let objects: Vec<_> =
            inner.objects.iter().map(|(name, object)| (name.clone(), object.clone())).collect();
        for (name, object) in objects {
            show(view, &name, Some(&object), &object);
        }
    }

    /// Shows a view what has changed.
    pub(crate) fn watch_to(&self, view: &View) {
        let news = std::mem::take(&mut self.inner.lock().news);
        for (name, object, last) in news {
            show(view, &name, object.as_ref(), &last);
        }
    }
}

/// The kinds that an object is watched as.
fn kinds(plural: &str, object: &Value) -> Vec<Kind> {
    let labels = &object["metadata"]["labels"];
    match plural {
        "batchsandboxes" => vec![Kind::BatchSandbox],
        "pools" => vec![Kind::Pool],
        "sandboxsnapshots" => vec![Kind::SandboxSnapshot],
        "sandboxenvs" => vec![Kind::SandboxEnv],
        "sandboxpools" => vec![Kind::EnvPool],
        "sandboxtemplates" => vec![Kind::EnvTemplate],
        "pods" if !labels["sandbox.opensandbox.io/pool-name"].is_null() => vec![Kind::PoolPod],
        "pods" if !labels["batch-sandbox.sandbox.opensandbox.io/pod-index"].is_null() => vec![Kind::OwnPod],
        "jobs" if !labels["sandbox.opensandbox.io/sandbox-snapshot-name"].is_null() => vec![Kind::Job],
        _ => Vec::new(),
    }
}

fn show(view: &View, (plural, key): &Name, object: Option<&Value>, last: &Value) {
    for kind in kinds(plural, last) {
        match object {
            Some(object) => view.observe_json(kind, object.to_string().as_bytes()).unwrap(),
            None => {
                let uid = last["metadata"]["uid"].as_str().unwrap();
                let version = last["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                let version: Version = NonZeroU64::new(version).unwrap().into();
                view.deleted(kind, key, uid, &version);
            }
        }
    }
}

fn response(done: Result<Value, Refusal>) -> Response<Body> {
    let (code, body) = match done {
        Ok(body) => (200, body),
        Err(Refusal(code, reason)) => {
            (code, json!({"kind": "Status", "code": code, "reason": reason, "message": reason}))
        }
    };
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}
