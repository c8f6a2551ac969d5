//! What became of a mutation.

use crate::ObjectKey;

/// What became of one observation or delete. Only `Invalid` says something about the message; the others are
/// all in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The table changed.
    Applied,
    /// The table changed, and the ID was taken from another live object, which comes after this one in rank.
    Takeover {
        /// The object that held the ID.
        displaced: ObjectKey,
    },
    /// The table changed, and the object is not served: another claims its ID and comes before it, or the ID
    /// is kept for the namespace of the one who was served last.
    Displaced {
        /// The object shown under the ID; `None` while the ID is held.
        by: Option<ObjectKey>,
    },
    /// The table changed, and no object is served under the ID: another live object claims it, and one of
    /// those who do refuses to share it ([`Clash::Refuse`](crate::Clash::Refuse)).
    Ambiguous {
        /// Another claimant: of several, the first in the order of keys.
        other: ObjectKey,
    },
    /// Nothing changed: something as new or newer is known, or there is nothing to delete.
    Stale,
    /// Nothing changed: the observation cannot be a route.
    Invalid(Invalid),
}

impl Outcome {
    /// Whether the table changed.
    pub fn is_applied(&self) -> bool {
        matches!(
            self,
            Self::Applied | Self::Takeover { .. } | Self::Displaced { .. } | Self::Ambiguous { .. }
        )
    }

    /// The outcome's name, for metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Takeover { .. } => "takeover",
            Self::Displaced { .. } => "displaced",
            Self::Ambiguous { .. } => "ambiguous",
            Self::Stale => "stale",
            Self::Invalid(_) => "invalid",
        }
    }
}

/// Why an observation cannot be a route. A retry does not help, except for `Full`: the table may have room
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Invalid {
    /// The lookup ID is not 1 to 253 of `[A-Za-z0-9._-]`.
    #[error("the id is not 1 to 253 letters, digits, '.', '_' or '-'")]
    Id,
    /// The UID is empty, too long, or has control characters.
    #[error("the uid is empty, over 400 bytes, or has control characters")]
    Uid,
    /// The owner is too long or has control characters.
    #[error("the owner is over 255 bytes or has control characters")]
    Owner,
    /// The address is unspecified or multicast: nothing a sandbox can have.
    #[error("the address is unspecified or multicast")]
    Address,
    /// A token is empty or too long.
    #[error("a token is empty or over 4096 bytes")]
    Token,
    /// The table holds as many objects as it may.
    #[error("the table is full")]
    Full,
    /// The ID has the hash of another that is served. Not to be expected in a lifetime; another ID helps.
    #[error("the id has the hash of another that is served")]
    Clash,
}

impl Invalid {
    /// Every reason.
    pub const ALL: [Self; 7] =
        [Self::Id, Self::Uid, Self::Owner, Self::Address, Self::Token, Self::Full, Self::Clash];

    /// The reason's name, for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Uid => "uid",
            Self::Owner => "owner",
            Self::Address => "address",
            Self::Token => "token",
            Self::Full => "full",
            Self::Clash => "clash",
        }
    }
}
