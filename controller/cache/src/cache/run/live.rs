//! Reads that ask the API server, for waits on objects that the cache does not have.

use std::sync::Arc;

use super::super::{Cache, Kept, Shared};
use crate::request::{self, path_of};
use crate::{Key, Seen, WriteError};

/// What a live read found.
pub(crate) enum Found<T> {
    /// The object of this name.
    Object(Arc<Seen<T>>),
    /// There is none of this name.
    Nothing,
    /// There was no answer, or none that could be read.
    Unknown,
}

impl Shared {
    pub(crate) async fn read_live<T: Kept>(self: &Arc<Self>, key: &Key) -> Found<T> {
        let path = path_of::<T>(&key.namespace);
        let answer = if let Some(client) = &self.parts.client {
            let Ok(request) = request::get(&path, &key.name) else { return Found::Unknown };
            match request::send(client, request).await {
                Ok(answer) => answer.into_bytes(),
                Err(WriteError::NotFound(_)) => return Found::Nothing,
                Err(_) => return Found::Unknown,
            }
        } else if let Some(api) = &self.parts.api {
            match api.get(&format!("{path}/{}", key.name)).await {
                Ok(answer) => answer,
                Err(failure) if failure.code() == Some(404) => return Found::Nothing,
                Err(_) => return Found::Unknown,
            }
        } else {
            // Nobody to ask: what a complete list does not have is not there.
            let is_synced = Cache { shared: Arc::clone(self) }.synced();
            return if is_synced { Found::Nothing } else { Found::Unknown };
        };
        T::read(&answer).map_or(Found::Unknown, |seen| Found::Object(Arc::new(seen)))
    }
}
