//! One create, from the request to the answer.

use std::sync::Arc;
use std::time::Duration;

use sandgate_cache::predicates::{has_ended, is_claimed};
use sandgate_cache::{Kept, Key, Seen, WaitError, WriteError};
use sandgate_objects::openkruise::names::{
    ANNOTATION_LOCK, ANNOTATION_OWNER, LABEL_CHECKPOINT_ID, LABEL_RESERVED_FAILED,
};
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts, SandboxSet, SandboxTemplate};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::make::{self, Source};
use super::pick::Pool;
use super::queue::Turn;
use super::undo::{Left, What};
use super::write::{self, Order, is_in_place};
use super::{Prepare, Shared};
use crate::names::LABEL_CREATE_UID;
use crate::timeouts::after;
use crate::{Caller, Error, ErrorKind, NewSandbox};

/// A sandbox.
pub(super) type One = Arc<Seen<SandboxFacts>>;

/// How much longer than the wait for it a sandbox lives that nobody claims.
const GRACE: Duration = Duration::from_secs(120);
/// How long a caller that gets an error waits for what is taken back.
const UNDO_FIRST: Duration = Duration::from_secs(1);
/// A create that was admitted longer ago is admitted again before it claims: its entry in the quota may be
/// gone by then, because it was old, or because a retry took the create for dead.
const ADMITTED: Duration = Duration::from_secs(1);

/// Why a create ended without a sandbox, and what it has left.
pub(super) struct Failed {
    pub(super) error: Error,
    pub(super) left: What,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, left: What::Nothing }
    }
}

/// How a sandbox came to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// From the pool.
    Pool,
    /// Made from the set.
    Made,
    /// Made from a snapshot.
    Clone,
    /// It was there: the request came again.
    Again,
}

impl How {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Made => "made",
            Self::Clone => "clone",
            Self::Again => "again",
        }
    }
}

/// A create that was admitted.
#[derive(Clone, Copy)]
struct Work<'a> {
    source: &'a Source,
    order: &'a Order,
    /// Nobody wants its sandbox any more.
    gone: &'a CancellationToken,
    /// When.
    admitted: Instant,
}

/// What becomes of a create: the answer, and what has to be taken back.
pub(super) type Ended = (Result<(One, How), Error>, Option<Left>);

impl<P: Prepare> Shared<P> {
    /// The task of one create.
    pub(super) async fn run(
        &self,
        caller: Caller,
        wanted: NewSandbox,
        reply: oneshot::Sender<Result<One, Error>>,
        delivered: oneshot::Receiver<()>,
        gone: CancellationToken,
    ) {
        let began = Instant::now();
        let key = wanted.idempotency_key.clone();
        let (result, left) = match &key {
            Some(key) => self.keyed(&caller, wanted, key).await,
            None => self.unkeyed(&caller, wanted, &gone).await,
        };
        let how = result.as_ref().map_or("failed", |(_, how)| how.as_str());
        self.writes.observer().created(how, began.elapsed());
        let given = result.as_ref().ok().map(|(seen, _)| Arc::clone(seen));
        // Usually it is done before the caller could look.
        let mut undo = std::pin::pin!(self.undo(left));
        let is_undone = tokio::time::timeout(UNDO_FIRST, &mut undo).await.is_ok();
        let is_delivered = reply.send(result.map(|(seen, _)| seen)).is_ok() && delivered.await.is_ok();
        if !is_undone {
            undo.await;
        }
        if let Some(seen) = given.filter(|_| !is_delivered && key.is_none()) {
            let lock = lock_of(&seen).to_owned();
            let (what, reserve) = (What::Sandbox(seen), crate::Reserve::Never);
            self.undo(Some(Left { caller, lock, reserve, is_shared: false, what })).await;
        }
    }

    async fn unkeyed(&self, caller: &Caller, wanted: NewSandbox, gone: &CancellationToken) -> Ended {
        let order = match self.order(caller, wanted).await {
            Ok(order) => order,
            Err(error) => return (Err(error), None),
        };
        let (source, order) = order;
        match self.attempt(&source, &order, gone).await {
            Ok(done) => (Ok(done), None),
            Err(Failed { error, left }) => (Err(error), Some(Left::of(&order, left, gone.is_cancelled()))),
        }
    }

    /// What the request is about, and what is drawn for it.
    ///
    /// # Errors
    /// There is no such template, or it cannot be used as asked.
    pub(super) async fn order(
        &self,
        caller: &Caller,
        mut wanted: NewSandbox,
    ) -> Result<(Source, Order), Error> {
        let source = self.source(caller, &wanted.template).await?;
        self.settings.no_internet.check(source.namespace(), wanted.allow_internet_access)?;
        let is_clone = matches!(source, Source::Snapshot { .. });
        let extensions = &wanted.extensions;
        if is_clone && is_in_place(extensions) {
            let expected = "a sandbox from a snapshot has the image and the CPU of the snapshot";
            return Err(Error::invalid("metadata", expected));
        }
        if !is_clone && extensions.name.is_some() {
            return Err(Error::invalid("metadata", "only a sandbox from a snapshot can be given a name"));
        }
        let mut token = None;
        if !extensions.skip_init_runtime {
            let before = source.initialised();
            if let Some(before) = &before {
                let kept = before.env_vars.iter().filter(|(name, _)| !wanted.env_vars.contains_key(*name));
                let kept: Vec<_> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
                wanted.env_vars.extend(kept);
            }
            token = Some(match before.and_then(|before| before.token) {
                Some(token) => token,
                None => self.secrets.token()?,
            });
        }
        let lock = self.secrets.token()?;
        let traffic_token = wanted.private_traffic.then(|| self.secrets.token()).transpose()?;
        Ok((source, Order { caller: caller.clone(), wanted, lock, token, traffic_token, marker: None }))
    }

    /// The namespace that the caller can see; none is all.
    pub(super) fn namespace_of<'a>(&'a self, caller: &'a Caller) -> Option<&'a str> {
        caller.namespace.as_deref().or(self.settings.namespace.as_deref())
    }

    /// The set of this name, or else the snapshot of this ID. What the cache does not show yet is asked for.
    async fn source(&self, caller: &Caller, name: &str) -> Result<Source, Error> {
        let namespace = self.namespace_of(caller);
        if let Some(set) = self.cache.set(namespace, name) {
            return self.set_source(set).await;
        }
        if let Some(checkpoint) = self.cache.checkpoint(namespace, name) {
            return self.snapshot_source(caller, checkpoint, name).await;
        }
        if let Some(namespace) = namespace
            && make::is_object_name(name)
            && let Some(set) = self.read::<SandboxSet>(&Key::new(namespace, name)).await?
        {
            return self.set_source(set).await;
        }
        if make::is_label_value(name) {
            let selector = format!("{LABEL_CHECKPOINT_ID}={name}");
            let found = self.writes.list::<Checkpoint>(namespace, &selector, 2).await.map_err(unavailable)?;
            let is_it = |found: &Arc<Seen<Checkpoint>>| id_of(found) == Some(name);
            if let Some(checkpoint) = found.into_iter().find(is_it) {
                return self.snapshot_source(caller, checkpoint, name).await;
            }
        }
        Err(no_template(name))
    }

    async fn set_source(&self, set: Arc<Seen<SandboxSet>>) -> Result<Source, Error> {
        let template = match (&set.spec.template, &set.spec.template_ref) {
            (None, Some(reference)) => {
                let key = Key::new(&set.key.namespace, &reference.name);
                self.known_or_read::<SandboxTemplate>(&key).await?
            }
            _ => None,
        };
        let contents = make::contents_of(&set, template.as_ref().map(|template| &template.object))?;
        Ok(Source::Set { set, contents })
    }

    async fn snapshot_source(
        &self,
        caller: &Caller,
        checkpoint: Arc<Seen<Checkpoint>>,
        id: &str,
    ) -> Result<Source, Error> {
        let annotations = checkpoint.metadata.annotations.as_ref();
        let owner = annotations.and_then(|annotations| annotations.get(ANNOTATION_OWNER));
        // Another's is the same as none.
        if owner.is_some_and(|owner| !owner.is_empty() && **owner != *caller.owner) {
            return Err(no_template(id));
        }
        let Some(template) = self.known_or_read::<SandboxTemplate>(&checkpoint.key).await? else {
            return Err(Error::new(ErrorKind::Conflict, format!("the template of snapshot {id} is gone")));
        };
        Ok(Source::Snapshot { checkpoint, id: id.to_owned(), template })
    }

    async fn known_or_read<T: Kept>(&self, key: &Key) -> Result<Option<Arc<Seen<T>>>, Error> {
        match self.cache.get::<T>(key) {
            Some(known) => Ok(Some(known)),
            None => self.read::<T>(key).await,
        }
    }

    async fn read<T: Kept>(&self, key: &Key) -> Result<Option<Arc<Seen<T>>>, Error> {
        self.writes.read::<T>(key).await.map_err(unavailable)
    }

    /// Admits the create, finds or makes a sandbox, and makes it ready for its caller.
    pub(super) async fn attempt(
        &self,
        source: &Source,
        order: &Order,
        gone: &CancellationToken,
    ) -> Result<(One, How), Failed> {
        let admitted = Instant::now();
        self.admit(source, order).await?;
        let work = Work { source, order, gone, admitted };
        let (seen, how) = match source {
            Source::Set { set, .. } => self.claim(set, work).await?,
            Source::Snapshot { .. } => (self.make(work).await?, How::Clone),
        };
        let is_changed = how == How::Pool && is_in_place(&order.wanted.extensions);
        match self.finish(order, &seen, is_changed, gone).await {
            Ok(seen) => Ok((seen, how)),
            Err(error) => Err(Failed { error, left: What::Sandbox(seen) }),
        }
    }

    /// Admits the create. Also if that fails, the entry may have been written.
    async fn admit(&self, source: &Source, order: &Order) -> Result<(), Error> {
        let template = source.template(&order.wanted.extensions)?;
        self.prepare.admit(&order.caller, &order.lock, template.as_ref()).await
    }

    /// Takes a sandbox of the pool, or makes one.
    async fn claim(&self, set: &Arc<Seen<SandboxSet>>, work: Work<'_>) -> Result<(One, How), Failed> {
        let Work { order, gone, .. } = work;
        let extensions = &order.wanted.extensions;
        let patience = extensions.claim_timeout.unwrap_or(self.settings.claim_timeout);
        let until = Instant::now() + patience;
        let ticket = self.queue.draw(&set.key);
        let mut pool = self.cache.watch_pool(&set.key.name);
        loop {
            if extensions.only_from_stock {
                ticket.enter();
            }
            match ticket.look(|may_take| self.look(set, may_take)) {
                Turn::Take(pick) => {
                    ticket.leave();
                    match self.give(&pick.seen, work).await? {
                        Some(seen) => return Ok((seen, How::Pool)),
                        None => self.missed(&pick.seen),
                    }
                    continue;
                }
                _ if !extensions.only_from_stock => {
                    return Ok((self.make(work).await?, How::Made));
                }
                Turn::First => {
                    let again = self.queue.tried_again().filter(|again| *again < until);
                    tokio::select! {
                        biased;
                        () = gone.cancelled() => return Err(cancelled().into()),
                        () = ticket.rung() => continue,
                        () = pool.changed() => continue,
                        () = tokio::time::sleep_until(again.unwrap_or(until)) => if again.is_some() { continue },
                    }
                }
                Turn::Behind => tokio::select! {
                    biased;
                    () = gone.cancelled() => return Err(cancelled().into()),
                    () = ticket.rung() => continue,
                    () = tokio::time::sleep_until(until) => {}
                },
            }
            let name = &order.wanted.template;
            let message =
                format!("no sandbox of template {name} became free within {} s", patience.as_secs());
            let retry_after = Some(Duration::from_secs(1));
            return Err(Error { kind: ErrorKind::Unavailable, message, retry_after }.into());
        }
    }

    fn look(
        &self,
        set: &Seen<SandboxSet>,
        may_take: &mut dyn FnMut(&Seen<SandboxFacts>) -> bool,
    ) -> Option<One> {
        let (namespace, name) = (Some(&*set.key.namespace), &*set.key.name);
        let revision = set.status.as_ref().and_then(|status| status.update_revision.as_deref());
        let pool = Pool { set };
        self.cache.pick(namespace, name, revision, self.place, |seen| pool.has(seen) && may_take(seen))
    }

    fn missed(&self, seen: &Seen<SandboxFacts>) {
        let shown = self.cache.get::<SandboxFacts>(&seen.key);
        let is_gone = shown.is_none_or(|shown| shown.uid != seen.uid);
        self.writes.observer().missed(if is_gone { "gone" } else { "changed" });
        let version = |key: &Key| self.cache.get::<SandboxFacts>(key).map(|shown| shown.version.clone());
        self.queue.is_stale(seen, version);
    }

    /// Gives the sandbox to the caller by one conditional write. None if another was faster.
    async fn give(&self, seen: &One, work: Work<'_>) -> Result<Option<One>, Failed> {
        let Work { source, order, gone, admitted } = work;
        if admitted.elapsed() >= ADMITTED {
            self.admit(source, order).await?;
        }
        if gone.is_cancelled() {
            return Err(cancelled().into());
        }
        // A new ID for each try: one without an answer may have given the last ID to a sandbox that is gone.
        let patch = write::patch(seen, order, &self.secrets.id()?, self.cache.clock().now())?;
        let until = Instant::now() + self.settings.settle;
        match self.settle(seen, &patch, &order.lock, false, until).await {
            Ok(given) => Ok(given),
            Err(WriteError::Unanswered(why)) => {
                let message = format!("the API server does not say whether the sandbox was claimed: {why}");
                let error = Error::new(ErrorKind::Unknown, message);
                Err(Failed { error, left: What::Unsettled(Arc::clone(seen), patch) })
            }
            Err(error) => Err(Error::from(error).into()),
        }
    }

    /// Sends the patch until it is known what became of it. None if the sandbox is another's, or gone.
    ///
    /// The patch holds the version of what was seen. So it is done at most once, however often it is sent;
    /// and once the sandbox has another version and is not ours, it never will be.
    ///
    /// `is_unsure` says that it was sent before and not answered: then a conflict may be with itself.
    pub(super) async fn settle(
        &self,
        seen: &One,
        patch: &Value,
        lock: &str,
        mut is_unsure: bool,
        until: Instant,
    ) -> Result<Option<One>, WriteError> {
        let mut tries = 0;
        loop {
            let error = match self.writes.patch(seen, patch.clone()).await {
                Ok(given) => return Ok(Some(given)),
                Err(WriteError::NotFound(_)) => {
                    self.cache.deleted_by_us::<SandboxFacts>(&seen.key, &seen.uid);
                    return Ok(None);
                }
                Err(WriteError::Conflict(_)) if !is_unsure => return Ok(None),
                Err(error @ WriteError::Refused { .. }) if !is_unsure => return Err(error),
                Err(error) => error,
            };
            is_unsure |= matches!(error, WriteError::Unanswered(_));
            if is_unsure && let Ok(shown) = self.writes.read::<SandboxFacts>(&seen.key).await {
                match shown.filter(|shown| shown.uid == seen.uid) {
                    None => return Ok(None),
                    Some(shown) if is_given(&shown, lock) => return Ok(Some(shown)),
                    Some(shown) if shown.version != seen.version => return Ok(None),
                    Some(_) => {}
                }
            }
            if Instant::now() >= until {
                return Err(if is_unsure { WriteError::Unanswered(error.to_string()) } else { error });
            }
            self.pause(&mut tries).await;
        }
    }

    /// Makes a sandbox, waits until it is ready, and gives it to the caller.
    async fn make(&self, work: Work<'_>) -> Result<One, Failed> {
        let Work { order, gone, .. } = work;
        let ready = order.wanted.extensions.wait_ready_timeout.unwrap_or(self.settings.ready_timeout);
        let made = self.created(work, ready).await?;
        let failed = |error: Error, made: &One| Failed { error, left: What::Sandbox(Arc::clone(made)) };
        let mut shown = self.ready(&made, ready, gone).await.map_err(|error| failed(error, &made))?;
        let until = Instant::now() + self.settings.settle;
        loop {
            if lock_of(&shown) != order.lock {
                let error = Error::new(ErrorKind::Conflict, "another create has taken the sandbox over");
                return Err(error.into());
            }
            match self.give(&shown, work).await {
                Ok(Some(given)) => return Ok(given),
                // Its controller has written meanwhile.
                Ok(None) if Instant::now() < until => {}
                Ok(None) => {
                    let error = Error::new(ErrorKind::Conflict, "the new sandbox changes all the time");
                    return Err(failed(error, &made));
                }
                Err(Failed { error, left: What::Nothing }) => return Err(failed(error, &made)),
                Err(error) => return Err(error),
            }
            let read = self.read::<SandboxFacts>(&made.key).await.map_err(|error| failed(error, &made))?;
            match read.filter(|read| read.uid == made.uid && !read.is_deleting) {
                Some(read) if has_ended(&read, self.cache.clock().now()) => {
                    return Err(failed(ended(), &made));
                }
                Some(read) => shown = read,
                None => return Err(ended().into()),
            }
        }
    }

    /// Creates the object. The name is chosen before, so that a create without an answer can be repeated.
    ///
    /// The caller's own name may be taken by what an earlier create with the same marker has made. It is
    /// taken over if nobody has it yet, by writing the lock into it; otherwise it is about to be deleted.
    async fn created(&self, work: Work<'_>, ready: Duration) -> Result<One, Failed> {
        let Work { source, order, gone, .. } = work;
        let until = Instant::now() + self.settings.settle;
        let asked = order.wanted.extensions.name.as_deref();
        let mut key = source.name(asked, &self.secrets.suffix()?);
        let mut tries = 0;
        loop {
            let ends = after(self.cache.clock().now(), ready + GRACE);
            let object = make::sandbox(source, &key, order, ends)?;
            let error = match self.writes.create::<SandboxFacts>(&key.namespace, &object).await {
                Ok(made) => return Ok(made),
                Err(error @ WriteError::Refused { .. }) => return Err(Error::from(error).into()),
                // The namespace, or the kind, does not exist.
                Err(WriteError::NotFound(why)) => return Err(Error::new(ErrorKind::Internal, why).into()),
                Err(error) => error,
            };
            let is_taken = matches!(error, WriteError::AlreadyExists(_));
            if let Ok(Some(shown)) = self.writes.read::<SandboxFacts>(&key).await {
                if lock_of(&shown) == order.lock {
                    return Ok(shown);
                }
                if asked.is_some() {
                    if !is_for(&shown, order) {
                        let taken = format!("a sandbox with the name {} exists", key.name);
                        return Err(Error::new(ErrorKind::Conflict, taken).into());
                    }
                    if gone.is_cancelled() {
                        return Err(Failed { error: cancelled(), left: What::Made(key) });
                    }
                    let is_free = !is_claimed(&shown) && !shown.is_deleting;
                    let lock = json!({ "metadata": { "annotations": { ANNOTATION_LOCK: order.lock } } });
                    if is_free && let Ok(taken_over) = self.writes.patch(&shown, lock).await {
                        return Ok(taken_over);
                    }
                } else if is_taken {
                    key = source.name(asked, &self.secrets.suffix()?);
                    continue;
                }
            }
            if Instant::now() >= until {
                // Should it exist, it is nobody's and ends by itself.
                return Err(Failed { error: unavailable(error), left: What::Made(key) });
            }
            self.pause(&mut tries).await;
        }
    }

    async fn ready(&self, seen: &One, within: Duration, gone: &CancellationToken) -> Result<One, Error> {
        let wait = self.cache.ready(&seen.key, &seen.uid);
        let waited = tokio::select! {
            biased;
            () = gone.cancelled() => return Err(cancelled()),
            waited = wait.within(within) => waited,
        };
        waited.map_err(|error| match error {
            WaitError::Timeout | WaitError::NotSatisfied => {
                let message = format!("the sandbox was not ready within {} s", within.as_secs());
                Error::new(ErrorKind::Timeout, message)
            }
            WaitError::Gone => ended(),
            WaitError::Failed(why) => {
                Error::new(ErrorKind::Conflict, format!("the sandbox cannot start: {why}"))
            }
            other => Error::new(ErrorKind::Unavailable, other.to_string()),
        })
    }

    /// The steps after the claim: the runtime, the network, the gateways, all at the same time.
    pub(super) async fn finish(
        &self,
        order: &Order,
        seen: &One,
        is_changed: bool,
        gone: &CancellationToken,
    ) -> Result<One, Error> {
        let within = order.wanted.extensions.wait_ready_timeout.unwrap_or(self.settings.ready_timeout);
        let seen = if is_changed { self.ready(seen, within, gone).await? } else { Arc::clone(seen) };
        let init = async { if order.token.is_some() { self.prepare.init(&seen).await } else { Ok(()) } };
        let restrict = async {
            match &order.wanted.network {
                Some(network) => self.prepare.restrict(&seen, network).await,
                None => Ok(()),
            }
        };
        let announce = async {
            self.prepare.announce(&seen).await;
            Ok(())
        };
        tokio::select! {
            biased;
            () = gone.cancelled() => return Err(cancelled()),
            done = async { tokio::try_join!(biased; init, restrict, announce) } => done?,
        };
        Ok(self.newest(&seen))
    }

    /// The sandbox as the cache shows it by now.
    fn newest(&self, seen: &One) -> One {
        let shown = self.cache.get::<SandboxFacts>(&seen.key);
        let shown = shown.filter(|shown| shown.uid == seen.uid && shown.version > seen.version);
        shown.unwrap_or_else(|| Arc::clone(seen))
    }

    /// Waits a little longer each time before something is tried again.
    pub(super) async fn pause(&self, tries: &mut u32) {
        let longest = Duration::from_millis(50).saturating_mul(1 << (*tries).min(6));
        *tries += 1;
        let wait = self.random.lock().between(longest / 2, longest);
        tokio::time::sleep(wait).await;
    }
}

/// The lock of a sandbox.
pub(super) fn lock_of(sandbox: &SandboxFacts) -> &str {
    sandbox.annotation(ANNOTATION_LOCK)
}

/// Whether the claim with this lock has the sandbox.
pub(super) fn is_given(sandbox: &SandboxFacts, lock: &str) -> bool {
    lock_of(sandbox) == lock && is_claimed(sandbox)
}

/// Whether the sandbox was made for the same marker, and nobody keeps it.
fn is_for(sandbox: &SandboxFacts, order: &Order) -> bool {
    let is_kept = sandbox.labels.has(LABEL_RESERVED_FAILED);
    let of = sandbox.label(LABEL_CREATE_UID);
    !is_kept && order.marker.as_ref().is_some_and(|marker| *marker.uid == *of)
}

fn id_of(checkpoint: &Checkpoint) -> Option<&str> {
    checkpoint.status.as_ref().and_then(|status| status.checkpoint_id.as_deref())
}

fn no_template(name: &str) -> Error {
    Error::invalid("templateID", &format!("there is no template and no snapshot {name}"))
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Unavailable, "nobody waits for the sandbox any more")
}

fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "the sandbox ended while it was made ready")
}

/// What the caller is told where nothing that lasts can have been done.
pub(super) fn unavailable(error: WriteError) -> Error {
    let error = Error::from(error);
    let kind = if error.kind == ErrorKind::Unknown { ErrorKind::Unavailable } else { error.kind };
    Error { kind, ..error }
}
