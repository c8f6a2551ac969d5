//! Files of keys, tokens and secrets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandgate_auth::{Keys, ScopedKey, SignedKeys, StaticToken};
use sandgate_peering::{LogLimit, Reloaded};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::error::{KeyringError, read};
use crate::settings::AuthSettings;
use crate::status::{KeySource, Loaded, SourceStatus};

/// How often the files are checked for changes.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

type Files<T> = Reloaded<T, KeyringError>;

/// The files of one section of the config.
enum Value {
    Signed(Files<Arc<SignedKeys>>),
    Scoped(Files<Arc<[ScopedKey]>>),
    Bearer(Files<Arc<[StaticToken]>>),
}

pub(crate) struct KeyFiles {
    value: Value,
    status: Arc<SourceStatus>,
    failures: LogLimit,
}

impl KeyFiles {
    /// Reads every file of the settings for the first time.
    pub(crate) fn all(settings: &AuthSettings) -> Result<Vec<Self>, KeyringError> {
        type Make = fn(Vec<PathBuf>) -> Result<Value, KeyringError>;
        let sections: [(KeySource, &[PathBuf], Make); 3] = [
            (KeySource::SecureAccessKeys, &settings.signed, |paths| {
                Ok(Value::Signed(Reloaded::new(paths.clone(), move || signed(&paths))?))
            }),
            (KeySource::ScopedToken, &settings.scoped, |paths| {
                Ok(Value::Scoped(Reloaded::new(paths.clone(), move || scoped(&paths))?))
            }),
            (KeySource::Bearer, &settings.bearer, |paths| {
                Ok(Value::Bearer(Reloaded::new(paths.clone(), move || bearer(&paths))?))
            }),
        ];
        let given = sections.into_iter().filter(|(_, paths, _)| !paths.is_empty());
        given
            .map(|(source, paths, make)| {
                let from = paths.iter().map(|path| path.display().to_string()).collect();
                let status = SourceStatus::new(source, from);
                let files = Self { value: make(paths.to_owned())?, status, failures: LogLimit::default() };
                files.loaded();
                Ok(files)
            })
            .collect()
    }

    pub(crate) fn status(&self) -> &Arc<SourceStatus> {
        &self.status
    }

    /// Puts the value as it is now into `keys`.
    pub(crate) fn put(&self, keys: &mut Keys) {
        match &self.value {
            Value::Signed(files) => keys.signed = Some(Arc::clone(&files.get())),
            Value::Scoped(files) => keys.scoped = Arc::clone(&files.get()),
            Value::Bearer(files) => keys.bearer = Arc::clone(&files.get()),
        }
    }

    fn loaded(&self) {
        let loaded = match &self.value {
            Value::Signed(files) => {
                let key_ids: Vec<String> = files.get().ids().map(String::from).collect();
                Loaded { keys: key_ids.len(), key_ids, ..Loaded::default() }
            }
            Value::Scoped(files) => Loaded { keys: files.get().len(), ..Loaded::default() },
            Value::Bearer(files) => Loaded { keys: files.get().len(), ..Loaded::default() },
        };
        self.status.loaded(loaded);
    }

    /// Looks whether the files changed, and returns whether the value did. May block.
    fn check(&self) -> bool {
        let found = match &self.value {
            Value::Signed(files) => files.reload(),
            Value::Scoped(files) => files.reload(),
            Value::Bearer(files) => files.reload(),
        };
        let name = self.status.name();
        match found {
            None => self.status.unchanged(),
            Some(Ok(())) => {
                self.loaded();
                tracing::info!("auth: {name}: the files were read again, keys: {}", self.status.read().keys);
                return true;
            }
            Some(Err(error)) => {
                self.failures.log(|more| {
                    tracing::error!(more, "auth: {name}: the last good keys stay in use: {error}");
                });
                self.status.failed(error.to_string());
            }
        }
        false
    }
}

/// Looks at all files every second, and calls `changed` with those whose value is a new one.
pub(crate) async fn follow(files: Arc<[KeyFiles]>, changed: impl Fn(&KeyFiles)) {
    if files.is_empty() {
        return std::future::pending().await;
    }
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let checked = Arc::clone(&files);
        let check = move || checked.iter().map(KeyFiles::check).collect::<Vec<_>>();
        // An error is a panic, which was counted and logged, or the end of the runtime.
        let Ok(new) = spawn_blocking(check).await else { return };
        files.iter().zip(new).filter(|(_, new)| *new).for_each(|(files, _)| changed(files));
    }
}

/// Route keys: each file has one or more, and no ID is there twice.
fn signed(paths: &[PathBuf]) -> Result<Arc<SignedKeys>, KeyringError> {
    let mut all = Vec::new();
    for path in paths {
        let content = read(path)?;
        // By itself first, so that an error names the file.
        SignedKeys::parse(&content).map_err(|source| KeyringError::Keys { file: path.clone(), source })?;
        all.extend_from_slice(&content);
        all.push(b'\n');
    }
    SignedKeys::parse(&all)
        .map(Arc::new)
        .map_err(|source| KeyringError::Together { files: paths.to_owned(), source })
}

/// Secrets of scoped tokens, one a file.
fn scoped(paths: &[PathBuf]) -> Result<Arc<[ScopedKey]>, KeyringError> {
    let key = |path: &PathBuf| {
        ScopedKey::new(&read(path)?).map_err(|source| KeyringError::Keys { file: path.clone(), source })
    };
    paths.iter().map(key).collect()
}

/// Bearer tokens, one a line.
fn bearer(paths: &[PathBuf]) -> Result<Arc<[StaticToken]>, KeyringError> {
    let mut tokens = Vec::new();
    for path in paths {
        let found = StaticToken::parse_file(&read(path)?);
        tokens.extend(found.map_err(|source| KeyringError::Keys { file: path.clone(), source })?);
    }
    Ok(tokens.into())
}

#[cfg(test)]
mod tests;
