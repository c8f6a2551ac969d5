//! The keyring: its sources put together.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use sandgate_auth::{JwtKeys, Keys, Reviewed};

use crate::Wake;
use crate::error::KeyringError;
use crate::files::{self, KeyFiles};
use crate::jwt::Jwt;
use crate::review::Reviewer;
use crate::settings::AuthSettings;
use crate::status::KeyringStatus;

#[cfg(test)]
mod tests;

/// The keys of a gateway, and what keeps them up to date. A clone is the same keyring.
#[derive(Clone)]
pub struct Keyring(Arc<Inner>);

struct Inner {
    keys: ArcSwap<Keys>,
    files: Arc<[KeyFiles]>,
    jwt: Option<Jwt>,
    reviewer: Option<Arc<Reviewer>>,
}

impl Keyring {
    /// Reads the files of the settings. Nothing is started and nothing is fetched: until [`run`](Self::run)
    /// the keys of an issuer are not ready, and nobody may wait. Blocks.
    ///
    /// # Errors
    /// A file that is missing or wrong. It helps to replace it and try again.
    pub fn new(settings: &AuthSettings) -> Result<Self, KeyringError> {
        let files = KeyFiles::all(settings)?;
        let mut keys = Keys::default();
        files.iter().for_each(|files| files.put(&mut keys));
        let mut jwt = None;
        if let Some(settings) = &settings.jwt {
            let (source, first) = Jwt::new(settings)?;
            (jwt, keys.jwt) = (Some(source), first);
        }
        Ok(Self(Arc::new(Inner {
            keys: ArcSwap::from_pointee(keys),
            files: files.into(),
            jwt,
            reviewer: settings.token_review.clone().map(Reviewer::new).map(Arc::new),
        })))
    }

    /// Everything that verifies, as it is now. For the request path: it takes no lock.
    #[inline]
    pub fn keys(&self) -> Guard<Arc<Keys>> {
        self.0.keys.load()
    }

    /// Asks for newer keys of traffic JWTs, because a token names one that [`keys`](Self::keys) does not
    /// have. Calls `wake` once, from any thread, after the fetch that begins next; it may have failed, or
    /// have brought nothing new. Many who wait share one fetch.
    ///
    /// False, and `wake` is dropped: no fetch begins within five seconds, too many wait (1,024), or the
    /// keyring does not run. Then the answer is that of the keys as they are.
    pub fn newer_keys(&self, wake: Wake) -> bool {
        self.0.jwt.as_ref().is_some_and(|jwt| jwt.newer_keys(wake))
    }

    /// Whether the API server is asked about bearer tokens.
    #[inline]
    pub fn reviews(&self) -> bool {
        self.0.reviewer.is_some()
    }

    /// What the API server said of this bearer token, if it is remembered. For the request path: it takes no
    /// lock. What cannot be a token is [`Reviewed::Bad`]. Without reviews there is no answer.
    pub fn reviewed(&self, token: &[u8]) -> Option<Arc<Reviewed>> {
        self.0.reviewer.as_ref()?.reviewed(token)
    }

    /// Asks the API server about a bearer token, on behalf of the client at `source`. Calls `wake` once, from
    /// any thread, when [`reviewed`](Self::reviewed) has the answer, which may be [`Reviewed::Failed`]. It
    /// has none only if the thread died meanwhile, or if the answer was pushed out by others: that is a
    /// failure, too.
    ///
    /// False, and `wake` is dropped: too many wait, of all or of this source, or the keyring does not run.
    pub fn review(&self, token: &[u8], source: Option<IpAddr>, wake: Wake) -> bool {
        self.0.reviewer.as_ref().is_some_and(|reviewer| reviewer.review(token, source, wake))
    }

    /// The state of every source.
    pub fn status(&self) -> KeyringStatus {
        let files = self.0.files.iter().map(|files| files.status().read());
        KeyringStatus {
            sources: files.chain(self.0.jwt.iter().map(|jwt| jwt.status().read())).collect(),
            reviews: self.0.reviewer.as_ref().map(|reviewer| reviewer.status()),
        }
    }

    /// Keeps the keys up to date until it is dropped. It can be run again when it ended; at most one runs at
    /// a time. Needs a Tokio runtime with time and I/O enabled, and reads files on its blocking threads.
    pub async fn run(self) {
        let inner = &*self.0;
        let files = files::follow(Arc::clone(&inner.files), |files| inner.change(|keys| files.put(keys)));
        let jwt = async {
            match &inner.jwt {
                Some(jwt) => {
                    let keys = || inner.keys.load().jwt.clone();
                    jwt.run(keys, |newer: JwtKeys| inner.change(|keys| keys.jwt = newer.clone())).await;
                }
                None => std::future::pending().await,
            }
        };
        let reviews = async {
            match &inner.reviewer {
                Some(reviewer) => Arc::clone(reviewer).run().await,
                None => std::future::pending().await,
            }
        };
        // None of them ends by itself. If one did, the supervisor would start them all again.
        tokio::select! {
            () = files => {}
            () = jwt => {}
            () = reviews => {}
        }
    }
}

impl Inner {
    /// Replaces the keys as a whole. Only the one run writes.
    fn change(&self, change: impl Fn(&mut Keys)) {
        self.keys.rcu(|keys| {
            let mut keys = Keys::clone(keys);
            change(&mut keys);
            keys
        });
    }
}
