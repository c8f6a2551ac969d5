//! Keys that Envoy has as generic secrets.
//!
//! A filter config subscribes to them when it is made. Each worker then has their values as Envoy last got
//! them, and a request compares them with those that the keys were last read from: only a change is parsed.
//! While a change reaches one worker after the other, a request on one that does not have it yet puts the
//! keys of before in place once more.
//!
//! # Bad values
//! A value that cannot be read is said in Envoy's log once, and the keys before it stay. Until the first
//! value has come there are no keys of that kind. Envoy holds the listener closed for that long, up to the
//! source's `initial_fetch_timeout`.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use envoy_proxy_dynamic_modules_rust_sdk::{
    EnvoyGenericSecretId, EnvoyHttpFilter, EnvoyHttpFilterConfig, envoy_log_error, envoy_log_info,
};
use sandgate_auth::{KeyFileError, Keys, ScopedKey, SignedKeys, StaticToken};
use sandgate_request::{SecretSource, Secrets as Sources};

/// Envoy refused a subscription; its log has the reason before this. Trying again does not help: the config
/// has to change.
#[derive(Debug, thiserror::Error)]
#[error("secrets.{key}: Envoy does not have the secret {name:?}")]
pub(super) struct NoSuchSecret {
    key: &'static str,
    name: String,
}

/// What a secret has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Signed,
    Scoped,
    Bearer,
}

impl Kind {
    /// The key of the config.
    fn key(self) -> &'static str {
        match self {
            Self::Signed => "secure-access-keys",
            Self::Scoped => "scoped-token",
            Self::Bearer => "bearer",
        }
    }

    /// Puts what a value says among the keys. Returns how many keys it says.
    fn read(self, value: &[u8], keys: &mut Keys) -> Result<usize, KeyFileError> {
        match self {
            Self::Signed => {
                let signed = SignedKeys::parse(value)?;
                let count = signed.ids().count();
                keys.signed = Some(Arc::new(signed));
                Ok(count)
            }
            Self::Scoped => {
                keys.scoped = [ScopedKey::new(value)?].into();
                Ok(1)
            }
            Self::Bearer => {
                keys.bearer = StaticToken::parse_file(value)?.into();
                Ok(keys.bearer.len())
            }
        }
    }
}

/// The secrets of one filter config.
pub(super) struct Secrets {
    subscribed: Vec<(Kind, EnvoyGenericSecretId)>,
    last: ArcSwap<Read>,
}

/// What was read last.
#[derive(Clone, Default)]
struct Read {
    /// The value of each secret, in the order of `subscribed`. Bad ones are among them.
    values: Vec<Box<[u8]>>,
    keys: Keys,
}

/// The keys as they are at one moment. Not to be kept from one hook to the next.
pub(super) struct Current(Guard<Arc<Read>>);

impl Deref for Current {
    type Target = Keys;

    fn deref(&self) -> &Keys {
        &self.0.keys
    }
}

impl Secrets {
    pub(super) fn subscribe<EC: EnvoyHttpFilterConfig>(
        envoy: &mut EC,
        sources: &Sources,
    ) -> Result<Self, NoSuchSecret> {
        let Sources { secure_access_keys, scoped_token, bearer } = sources;
        let sources =
            [(Kind::Signed, secure_access_keys), (Kind::Scoped, scoped_token), (Kind::Bearer, bearer)];
        let mut subscribed = Vec::new();
        for (kind, source) in sources {
            let Some(SecretSource { name, sds_config }) = source else { continue };
            let id = envoy
                .subscribe_generic_secret(name, sds_config.as_deref())
                .ok_or_else(|| NoSuchSecret { key: kind.key(), name: name.clone() })?;
            subscribed.push((kind, id));
        }
        let values = vec![Box::default(); subscribed.len()];
        Ok(Self { subscribed, last: ArcSwap::from_pointee(Read { values, keys: Keys::default() }) })
    }

    /// Whether the config names no secrets.
    pub(super) fn is_empty(&self) -> bool {
        self.subscribed.is_empty()
    }

    /// Puts the keys of the secrets in the place of others of their kinds, also while there are none yet.
    pub(super) fn put<EHF: EnvoyHttpFilter>(&self, envoy: &EHF, keys: &mut Keys) {
        let now = self.keys(envoy);
        for (kind, _) in &self.subscribed {
            match kind {
                Kind::Signed => keys.signed.clone_from(&now.signed),
                Kind::Scoped => keys.scoped = Arc::clone(&now.scoped),
                Kind::Bearer => keys.bearer = Arc::clone(&now.bearer),
            }
        }
    }

    /// The keys as this worker has them now; none if the config names no secrets.
    pub(super) fn keys<EHF: EnvoyHttpFilter>(&self, envoy: &EHF) -> Current {
        let last = self.last.load();
        let same = self
            .subscribed
            .iter()
            .zip(&last.values)
            .all(|((_, id), read)| with_value(envoy, *id, |value| *value == **read));
        if same { Current(last) } else { self.read(envoy, &last) }
    }

    #[cold]
    fn read<EHF: EnvoyHttpFilter>(&self, envoy: &EHF, last: &Read) -> Current {
        let mut now = last.clone();
        for ((kind, id), read) in self.subscribed.iter().zip(&mut now.values) {
            with_value(envoy, *id, |value| {
                if *value == **read {
                    return;
                }
                *read = value.into();
                let key = kind.key();
                match kind.read(value, &mut now.keys) {
                    Ok(1) => envoy_log_info!("sandgate: secrets.{key}: 1 key"),
                    Ok(count) => envoy_log_info!("sandgate: secrets.{key}: {count} keys"),
                    Err(error) => {
                        envoy_log_error!("sandgate: secrets.{key}: {error}; the keys before it stay");
                    }
                }
            });
        }
        let now = Arc::new(now);
        self.last.store(Arc::clone(&now));
        Current(Guard::from_inner(now))
    }
}

fn with_value<EHF: EnvoyHttpFilter, R>(
    envoy: &EHF,
    id: EnvoyGenericSecretId,
    f: impl FnOnce(&[u8]) -> R,
) -> R {
    let value = envoy.get_generic_secret(id);
    f(value.as_ref().map_or(&[], |value| value.as_slice()))
}
