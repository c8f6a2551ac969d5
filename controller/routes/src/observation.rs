//! What a source says about an object, and what of it can be a route.

use std::net::IpAddr;

use crate::{Invalid, MAX_ID, MAX_OWNER, MAX_TOKEN, MAX_UID, ObjectKey, Secret, State, Version};

/// What an object wants when another live one claims its ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Clash {
    /// The first in rank is served. See the module `table`, "Whose an ID is".
    #[default]
    Rank,
    /// Nobody is served while there are two or more that could be, whatever the others want. The last that
    /// remains is served again.
    Refuse,
}

/// One object as a source saw it at one version.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The object.
    pub key: ObjectKey,
    /// What requests call it.
    pub id: String,
    /// The ID comes from the object's own name, not from a label or another field that its owner chooses:
    /// nobody else gets it, however old.
    pub own_id: bool,
    /// Subject object of that name it is: another UID is another identity.
    pub uid: String,
    /// Whose it is; may be empty.
    pub owner: String,
    /// Its state. Running without an address is kept as creating.
    pub state: State,
    /// When it was so.
    pub version: Version,
    /// The pod's address, if it has one.
    pub ip: Option<IpAddr>,
    /// The address is the word of the object's owner (an annotation that a tenant may write), not of a
    /// controller.
    pub ip_is_claimed: bool,
    /// When the object was created, in seconds since 1970, if its source knows: a push does not.
    pub created: Option<u64>,
    /// What a client must present, if anything.
    pub token: Option<Secret>,
    /// What a client must present in `e2b-traffic-access-token`, if anything, on every port but that of envd.
    /// Its kind is not asked. A push without one leaves the sandbox the one that it has: see
    /// [`RouteWriter::apply`](crate::RouteWriter::apply).
    pub traffic_token: Option<Secret>,
    /// Whether a client must present a traffic JWT.
    pub require_traffic_auth: bool,
    /// What becomes of its ID when another object claims it too.
    pub clash: Clash,
}

/// Whether `id` can be a lookup ID: 1 to 253 bytes of `[A-Za-z0-9._-]`.
pub fn is_valid_id(id: &[u8]) -> bool {
    (1..=MAX_ID).contains(&id.len()) && id.iter().all(|byte| IN_ID[usize::from(*byte)])
}

/// Subject bytes an ID may have: one look a byte, because every request asks.
const IN_ID: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        byte += 1;
    }
    table
};

impl Observation {
    /// Checks everything but the key and the version, which cannot be wrong.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let printable = |text: &str| !text.chars().any(char::is_control);
        if !is_valid_id(self.id.as_bytes()) {
            return Err(Invalid::Id);
        }
        if self.uid.is_empty() || self.uid.len() > MAX_UID || !printable(&self.uid) {
            return Err(Invalid::Uid);
        }
        if self.owner.len() > MAX_OWNER || !printable(&self.owner) {
            return Err(Invalid::Owner);
        }
        if self.ip.is_some_and(|ip| ip.is_unspecified() || ip.is_multicast()) {
            return Err(Invalid::Address);
        }
        let mut tokens = self.token.iter().chain(&self.traffic_token);
        if tokens.any(|token| !(1..=MAX_TOKEN).contains(&token.len())) {
            return Err(Invalid::Token);
        }
        Ok(())
    }

    /// The state it is kept in: nothing can run where nothing can be reached.
    pub(crate) fn kept_state(&self) -> State {
        match (self.state, self.ip) {
            (State::Running, None) => State::Creating,
            (state, _) => state,
        }
    }
}
