//! What a pool's plugins say about how many pods it may have.

use std::time::Duration;

use sandgate_objects::sandbox_env::resources::SandboxPool;

use super::EnvPoolReconciler;
use crate::admission::{Cap, NotAdmitted, Verdict as Answer};
use crate::autoscale::{Admission, AdmissionRefusal, RefusalKind};
use crate::conditions::Verdict;
use crate::view::Seen;

/// What plugins said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// All of them.
    All,
    /// So many.
    Capped {
        /// How many.
        replicas: i32,
        /// Why, for people.
        message: String,
        /// When it may be worth asking again.
        retry_after: Option<Duration>,
    },
    /// There is not enough for any more pod.
    Exhausted {
        /// Why, for people.
        message: String,
        /// When it may be worth asking again.
        retry_after: Option<Duration>,
    },
    /// The pool may not be as it is. Asking again does not help.
    Rejected(String),
    /// It could not be found out.
    Unknown(String),
}

impl From<Answer> for Admitted {
    fn from(answer: Answer) -> Self {
        match answer {
            Ok(admitted) => match admitted.cap {
                None => Self::All,
                Some(Cap { replicas, reason, message }) => {
                    let message = format!("{reason}: {message}");
                    Self::Capped { replicas, message, retry_after: admitted.retry_after }
                }
            },
            Err(NotAdmitted::Insufficient { message, retry_after }) => {
                Self::Exhausted { message, retry_after }
            }
            Err(NotAdmitted::Invalid { message }) => Self::Rejected(message),
            Err(NotAdmitted::Internal { message }) => Self::Unknown(message),
        }
    }
}

impl EnvPoolReconciler {
    /// Asks about a pool with so many replicas. What plugins change of it is not written: its environment is
    /// the only one that writes its spec.
    pub(super) async fn ask(&self, pool: &Seen<SandboxPool>, replicas: i32) -> Answer {
        if self.admissions.is_empty() {
            return Ok(crate::Admitted::default());
        }
        let keys = self.view.env_pod_keys(&pool.key).into_iter();
        let pods: Vec<_> = keys.filter_map(|key| self.view.get(&key)).collect();
        let mut asked = pool.object.clone();
        asked.spec.replicas = replicas;
        self.admissions.pre_update_pool(&mut asked, &pods).await
    }
}

/// The plugins, as the autoscaler asks them about a pool.
pub(super) struct Asked<'a>(pub(super) &'a EnvPoolReconciler, pub(super) &'a Seen<SandboxPool>);

impl Admission for Asked<'_> {
    async fn ask(&self, candidate: i32) -> Result<i32, AdmissionRefusal> {
        let refusal = |kind, message, retry_after| AdmissionRefusal { kind, message, retry_after };
        match self.0.ask(self.1, candidate).await {
            Ok(admitted) => Ok(admitted.admits(candidate)),
            Err(NotAdmitted::Insufficient { message, retry_after }) => {
                Err(refusal(RefusalKind::Insufficient, message, retry_after))
            }
            Err(NotAdmitted::Invalid { message }) => Err(refusal(RefusalKind::InvalidSpec, message, None)),
            Err(NotAdmitted::Internal { message }) => Err(refusal(RefusalKind::Internal, message, None)),
        }
    }
}

impl Admitted {
    /// How many pods may be made of so many; none if it is all.
    pub(super) fn cap(&self) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Capped { replicas, .. } => Some(usize::try_from(*replicas).unwrap_or_default()),
            Self::Exhausted { .. } | Self::Rejected(_) | Self::Unknown(_) => Some(0),
        }
    }

    /// When to ask again, if not with the next look.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Capped { retry_after, .. } | Self::Exhausted { retry_after, .. } => {
                retry_after.and_then(|after| after.checked_add(Duration::from_secs(1)))
            }
            Self::All | Self::Rejected(_) | Self::Unknown(_) => None,
        }
    }

    /// The condition that says so.
    pub(super) fn verdict(&self, desired: usize) -> Verdict {
        let (holds, reason, message) = match self {
            Self::All => (true, "AdmissionGranted", "all replicas are admitted".to_owned()),
            Self::Capped { replicas, message, .. } => {
                let holds = usize::try_from(*replicas).is_ok_and(|replicas| replicas >= desired);
                let message = format!("{replicas} of {desired} replicas are admitted: {message}");
                if holds {
                    (true, "AdmissionGranted", "all replicas are admitted".to_owned())
                } else {
                    (false, "ResourceQuotaExhausted", message)
                }
            }
            Self::Exhausted { message, .. } => (false, "ResourceQuotaExhausted", message.clone()),
            Self::Rejected(message) => (false, "AdmissionRejected", message.clone()),
            Self::Unknown(message) => (false, "AdmissionError", message.clone()),
        };
        Verdict { kind: "Admitted", holds, reason, message }
    }
}
