//! Answers, by the digest of their token. Readers take no lock; only the reviewer's tasks write.

use std::sync::Arc;
use std::time::Duration;

use papaya::HashMap;
use sandgate_auth::Reviewed;
use tokio::time::Instant;

use super::Digest;

pub(super) const MAX_REMEMBERED: usize = 2048;

struct Entry {
    until: Instant,
    answer: Arc<Reviewed>,
}

#[derive(Default)]
pub(super) struct Remembered(HashMap<Digest, Entry>);

impl Remembered {
    pub(super) fn get(&self, digest: &Digest) -> Option<Arc<Reviewed>> {
        let entries = self.0.pin();
        let entry = entries.get(digest)?;
        (entry.until > Instant::now()).then(|| Arc::clone(&entry.answer))
    }

    /// Whether it counts or did so once.
    pub(super) fn knew(&self, digest: &Digest) -> bool {
        self.0.pin().contains_key(digest)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn forget(&self, digest: &Digest) {
        self.0.pin().remove(digest);
    }

    /// Use does not extend an entry: a token that was withdrawn is reviewed again in time.
    pub(super) fn add(&self, digest: Digest, answer: Arc<Reviewed>, lifetime: Duration) {
        let now = Instant::now();
        let entries = self.0.pin();
        if entries.len() >= MAX_REMEMBERED {
            entries.retain(|_, entry| entry.until > now);
        }
        if entries.len() >= MAX_REMEMBERED
            && let Some(oldest) =
                entries.iter().min_by_key(|(_, entry)| entry.until).map(|(digest, _)| *digest)
        {
            entries.remove(&oldest);
        }
        entries.insert(digest, Entry { until: now + lifetime, answer });
    }
}
