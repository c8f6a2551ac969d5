//! What every kind has in common: the questions asked of an object, and the provider that asks them for the
//! gateway.

use std::time::SystemTime;

use sandgate_routes::{Clash, Observation, Secret, State, TokenKind};

use crate::fields::Address;
use crate::metadata::Identity;
use crate::provider::{Projection, Provider, Resource, Unreadable};

/// What an object of a built-in kind means.
///
/// One implementation serves both forms of a kind, the borrowed one of the gateway and the owned one of
/// caches and writers, so both give the same answers.
///
/// # Errors
/// Every [`Unreadable`] names a field of the object. A retry does not help; the next version of the object
/// may.
pub trait Kind {
    /// Which object it is.
    ///
    /// # Errors
    /// The first field of the metadata that is missing or wrong.
    fn identity(&self) -> Result<Identity<'_>, Unreadable>;

    /// The UID of the identity that the table keeps: the object's own, unless objects of the kind are reused.
    fn identity_uid(&self, identity: &Identity<'_>) -> String {
        identity.uid.to_owned()
    }

    /// The lookup ID of the object with this identity.
    ///
    /// # Errors
    /// The ID has a wrong length or character.
    fn id_of(&self, identity: &Identity<'_>) -> Result<Id, Unreadable>;

    /// The pool that the object was made by or that it takes its pods from.
    fn pool(&self) -> Option<&str>;

    /// The owner; empty if the kind or the object has none.
    ///
    /// # Errors
    /// The owner is too long or has control characters.
    fn owner(&self) -> Result<&str, Unreadable> {
        Ok("")
    }

    /// The address of the sandbox.
    ///
    /// # Errors
    /// The field that has the address has another form.
    fn address(&self) -> Result<Address, Unreadable>;

    /// The token that a client must present.
    ///
    /// # Errors
    /// The token is too long.
    fn token(&self) -> Result<Option<Secret>, Unreadable>;

    /// The token that a client must present on every port but that of the sandbox's runtime.
    ///
    /// # Errors
    /// The token is too long.
    fn traffic_token(&self) -> Result<Option<Secret>, Unreadable>;

    /// Whether a client must present a traffic JWT.
    fn requires_traffic_auth(&self) -> bool {
        false
    }

    /// When the object ends by itself, whether that is past or to come.
    ///
    /// # Errors
    /// The time is not as in RFC 3339.
    fn ends(&self) -> Result<Option<SystemTime>, Unreadable>;

    /// The state of an object that is not being deleted and has not ended: the table in the kind's module
    /// docs, without its first two lines.
    fn live_state(&self, address: Address) -> State;

    /// The lookup ID.
    ///
    /// # Errors
    /// As [`identity`](Self::identity) and [`id_of`](Self::id_of).
    fn id(&self) -> Result<Id, Unreadable> {
        self.id_of(&self.identity()?)
    }

    /// The state at `now`.
    ///
    /// # Errors
    /// As [`identity`](Self::identity), [`ends`](Self::ends) and [`address`](Self::address).
    fn state(&self, now: SystemTime) -> Result<State, Unreadable> {
        let (identity, address) = (self.identity()?, self.address()?);
        Ok(state(self, &identity, self.ends()?, address, now))
    }
}

fn state<K: Kind + ?Sized>(
    object: &K,
    identity: &Identity<'_>,
    ends: Option<SystemTime>,
    address: Address,
    now: SystemTime,
) -> State {
    let live = || served_at(object.live_state(address), address);
    if has_ended(identity, ends, now) { State::Dead } else { live() }
}

/// Whether the object is being deleted or past its end.
pub(crate) fn has_ended(identity: &Identity<'_>, ends: Option<SystemTime>, now: SystemTime) -> bool {
    identity.is_deleting || ends.is_some_and(|ends| now > ends)
}

/// A state with an address: what runs and cannot be reached is still being created.
pub(crate) fn served_at(state: State, address: Address) -> State {
    match (state, address.ip()) {
        (State::Running, None) => State::Creating,
        (state, _) => state,
    }
}

/// A lookup ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id {
    /// The ID.
    pub text: String,
    /// Whether the ID comes from the object's own name. Such an ID ranks before one that a label claims.
    pub is_own: bool,
}

impl Id {
    /// The ID that a field claims, or else `namespace--name`.
    pub(crate) fn claimed_or_own(identity: &Identity<'_>, claimed: Option<&str>) -> Result<Self, Unreadable> {
        let own = identity.canonical_id();
        match claimed {
            Some(claimed) => {
                Ok(Self { is_own: own.is_ok_and(|own| own == claimed), text: claimed.to_owned() })
            }
            None => Ok(Self { text: own?, is_own: true }),
        }
    }
}

/// The answers of an object, for [`project`].
pub(crate) struct Answers<'a> {
    pub(crate) identity: Identity<'a>,
    pub(crate) identity_uid: String,
    pub(crate) id: Id,
    pub(crate) owner: &'a str,
    pub(crate) state: State,
    pub(crate) address: Address,
    pub(crate) token: Option<Secret>,
    pub(crate) traffic_token: Option<Secret>,
    pub(crate) requires_traffic_auth: bool,
    pub(crate) ends: Option<SystemTime>,
}

impl<'a> Answers<'a> {
    fn of(object: &'a impl Kind, now: SystemTime) -> Result<Self, Unreadable> {
        let (identity, address, ends) = (object.identity()?, object.address()?, object.ends()?);
        Ok(Self {
            id: object.id_of(&identity)?,
            identity_uid: object.identity_uid(&identity),
            owner: object.owner()?,
            state: state(object, &identity, ends, address, now),
            address,
            token: object.token()?,
            traffic_token: object.traffic_token()?,
            requires_traffic_auth: object.requires_traffic_auth(),
            ends,
            identity,
        })
    }
}

/// What the table gets.
pub(crate) fn project(provider: &dyn Provider, answers: Answers<'_>, now: SystemTime) -> Projection {
    let Answers { identity, identity_uid, id, owner, state, address, token, ends, .. } = answers;
    Projection {
        observation: Observation {
            key: identity.key,
            id: id.text,
            own_id: id.is_own,
            uid: identity_uid,
            owner: owner.to_owned(),
            state,
            version: identity.version,
            ip: address.ip(),
            token,
            traffic_token: answers.traffic_token,
            require_traffic_auth: answers.requires_traffic_auth,
            clash: provider.clash(),
            created: identity.created,
            ip_is_claimed: provider.address_is_claimed(),
        },
        is_nowhere: address == Address::Nowhere,
        dead_at: ends.filter(|ends| state != State::Dead && *ends >= now),
    }
}

/// The provider of a built-in kind.
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    pub(crate) resource: Resource,
    pub(crate) clash: Clash,
    pub(crate) token_kind: TokenKind,
    pub(crate) address_is_claimed: bool,
    pub(crate) id_is_name: bool,
    pub(crate) selector: &'static str,
    pub(crate) read: fn(&BuiltIn, &[u8], SystemTime) -> Result<Projection, Unreadable>,
}

impl BuiltIn {
    /// For `read`: projects a decoded object.
    pub(crate) fn projection(&self, object: &impl Kind, now: SystemTime) -> Result<Projection, Unreadable> {
        Ok(project(self, Answers::of(object, now)?, now))
    }
}

impl Provider for BuiltIn {
    fn name(&self) -> &str {
        self.name
    }

    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn selector(&self) -> &str {
        self.selector
    }

    fn clash(&self) -> Clash {
        self.clash
    }

    fn address_is_claimed(&self) -> bool {
        self.address_is_claimed
    }

    fn id_is_name(&self) -> bool {
        self.id_is_name
    }

    fn token_kind(&self) -> TokenKind {
        self.token_kind
    }

    fn project(&self, object: &[u8], now: SystemTime) -> Result<Projection, Unreadable> {
        (self.read)(self, object, now)
    }
}
