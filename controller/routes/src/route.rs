//! A route as readers see it: one object at one version, never changed, replaced whole.
//!
//! A million of these are held and looked at in random order, so a route is one piece of memory, text
//! included: what a request asks of it is one visit. All text is in a row. Namespace and name usually are the
//! beginning and the end of the ID and are then not kept twice; a UUID is kept as its 16 bytes, an address as
//! its 4 or 16. A row too long to fit inside is held beside.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU64;
use std::str;

use crate::key::RawKey;
use crate::packed::pack_uuid;
use crate::secret::Tokens;
use crate::{Authority, Clash, KeyRef, Observation, PackedText, Secret, State, Version};

/// One object at one version.
// In this order: what a lookup compares and a request asks first stands together at the beginning, in as few
// cache lines as can be.
#[derive(Clone)]
#[repr(C)]
pub struct Route {
    id: u8,
    state: State,
    flags: u8,
    provider: u8,
    namespace: u8,
    name: u8,
    owner: u8,
    clash: Clash,
    uid: u16,
    more_flags: u16,
    slot: u32,
    // id, address, [namespace], [name], provider, uid, owner.
    text: Text,
    tokens: Tokens,
    id_hash: u64,
    version: NonZeroU64,
    identity: u64,
}

// With this a route fills the 168 bytes that common allocators hand out as one size, and a 60-byte ID has
// room for its company.
const INSIDE: usize = 103;

#[derive(Clone)]
enum Text {
    Inside([u8; INSIDE]),
    Beside(Box<[u8]>),
}

impl Text {
    fn row(parts: &[&[u8]]) -> Self {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        if length > INSIDE {
            return Self::Beside(parts.concat().into());
        }
        let mut row = [0; INSIDE];
        let mut at = 0;
        for part in parts {
            row[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Self::Inside(row)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Inside(row) => row,
            Self::Beside(row) => row,
        }
    }
}

const NAMESPACE_IN_ID: u8 = 1 << 0;
const NAME_IN_ID: u8 = 1 << 1;
const UID_IS_UUID: u8 = 1 << 2;
const HAS_V4: u8 = 1 << 3;
const HAS_V6: u8 = 1 << 4;
const REQUIRES_TRAFFIC_AUTH: u8 = 1 << 5;
const OWNER_IS_UUID: u8 = 1 << 6;
const AMBIGUOUS: u8 = 1 << 7;

// Of the second set of flags, which no request asks for.
const IP_IS_CLAIMED: u16 = 1 << 0;
const OWN_ID: u16 = 1 << 1;

impl Route {
    /// Packs an observation whose limits were checked, for the object of this slot.
    pub(crate) fn build(observed: Observation, identity: u64, slot: u32, id_hash: u64) -> Self {
        let state = observed.kept_state();
        let Observation { key, id, uid, owner, version, ip, require_traffic_auth, clash, .. } = observed;
        let tokens = Tokens::new(observed.token, observed.traffic_token);
        let more_flags =
            if observed.ip_is_claimed { IP_IS_CLAIMED } else { 0 } | if observed.own_id { OWN_ID } else { 0 };
        let raw = key.raw();
        let mut flags = 0;
        if require_traffic_auth {
            flags |= REQUIRES_TRAFFIC_AUTH;
        }
        let octets = match ip {
            Some(IpAddr::V4(ip)) => {
                flags |= HAS_V4;
                (ip.octets(), [0; 16])
            }
            Some(IpAddr::V6(ip)) => {
                flags |= HAS_V6;
                ([0; 4], ip.octets())
            }
            None => Default::default(),
        };
        let address: &[u8] = match flags & (HAS_V4 | HAS_V6) {
            HAS_V4 => &octets.0,
            HAS_V6 => &octets.1,
            _ => &[],
        };
        let mut namespace = raw.namespace;
        if id.as_bytes().starts_with(namespace) {
            flags |= NAMESPACE_IN_ID;
            namespace = &[];
        }
        let mut name = raw.name;
        if id.as_bytes().ends_with(name) {
            flags |= NAME_IN_ID;
            name = &[];
        }
        let uuid = pack_uuid(uid.as_bytes());
        let uid = match &uuid {
            Some(packed) => {
                flags |= UID_IS_UUID;
                packed.as_slice()
            }
            None => uid.as_bytes(),
        };
        let owner_uuid = pack_uuid(owner.as_bytes());
        let owner = match &owner_uuid {
            Some(packed) => {
                flags |= OWNER_IS_UUID;
                packed.as_slice()
            }
            None => owner.as_bytes(),
        };
        Self {
            id_hash,
            version: version.into(),
            identity,
            tokens,
            slot,
            uid: length(uid),
            id: length(id.as_bytes()),
            provider: length(raw.provider),
            namespace: length(raw.namespace),
            name: length(raw.name),
            owner: length(owner),
            clash,
            flags,
            more_flags,
            state,
            text: Text::row(&[id.as_bytes(), address, namespace, name, raw.provider, uid, owner]),
        }
    }

    /// The object.
    pub fn key(&self) -> KeyRef<'_> {
        let raw = self.raw_key();
        KeyRef::from_parts(text(raw.provider), text(raw.namespace), text(raw.name))
    }

    /// What requests call it.
    pub fn id(&self) -> &str {
        text(self.raw_id())
    }

    /// The same as bytes, for those who would only take the text apart again: making a text of it checks it.
    #[inline]
    pub fn id_bytes(&self) -> &[u8] {
        self.raw_id()
    }

    /// Subject object of that name it is.
    pub fn uid(&self) -> PackedText<'_> {
        self.packed(UID_IS_UUID, self.span(self.uid_at(), self.uid.into()))
    }

    /// Whose it is; may be empty.
    pub fn owner(&self) -> PackedText<'_> {
        self.packed(OWNER_IS_UUID, self.span(self.owner_at(), self.owner.into()))
    }

    /// Its state. A running route has an address.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// When it was so.
    pub fn version(&self) -> Version {
        self.version.into()
    }

    /// The pod's address, if it has one.
    #[inline]
    pub fn ip(&self) -> Option<IpAddr> {
        let at = usize::from(self.id);
        if self.has(HAS_V4) {
            let octets: [u8; 4] = self.span(at, 4).try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        } else if self.has(HAS_V6) {
            let octets: [u8; 16] = self.span(at, 16).try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        } else {
            None
        }
    }

    /// What a client must present, if anything.
    #[inline]
    pub fn token(&self) -> Option<&Secret> {
        self.tokens.first()
    }

    /// What a client must present in `e2b-traffic-access-token`, if anything, on every port but that of envd.
    #[inline]
    pub fn traffic_token(&self) -> Option<&Secret> {
        self.tokens.traffic()
    }

    /// Whether a client must present a traffic JWT.
    pub fn require_traffic_auth(&self) -> bool {
        self.has(REQUIRES_TRAFFIC_AUTH)
    }

    /// Whether nobody may be served under this ID, because other live objects claim it too: the route is then
    /// one of theirs, the first in the order of keys, and stands for all of them.
    #[inline]
    pub fn is_ambiguous(&self) -> bool {
        self.has(AMBIGUOUS)
    }

    /// A number of its own for each identity, unique in this process and never used again: it changes with
    /// the UID, and when an object comes back after a delete.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Where to send a request for `port`; empty without an address.
    pub fn authority(&self, port: u16) -> Authority {
        Authority::new(self.ip(), port)
    }

    /// Whether it says of the same object, at the same version, what the other says.
    pub(crate) fn is_same_observation(&self, other: &Self) -> bool {
        (self.identity, self.version, self.state, self.more_flags, self.clash)
            == (other.identity, other.version, other.state, other.more_flags, other.clash)
            && self.flags | AMBIGUOUS == other.flags | AMBIGUOUS
            && self.raw_id() == other.raw_id()
            && self.ip() == other.ip()
            && self.owner() == other.owner()
            && self.tokens == other.tokens
    }

    /// The observation it was made of, of an object that was created then.
    pub(crate) fn observation(&self, created: u32) -> Observation {
        Observation {
            key: self.key().to_key(),
            id: self.id().to_owned(),
            own_id: self.has_own_id(),
            uid: self.uid().as_str().to_owned(),
            owner: self.owner().as_str().to_owned(),
            state: self.state,
            version: self.version(),
            ip: self.ip(),
            ip_is_claimed: self.ip_is_claimed(),
            created: (created != 0).then_some(created.into()),
            token: self.token().cloned(),
            traffic_token: self.traffic_token().cloned(),
            require_traffic_auth: self.require_traffic_auth(),
            clash: self.clash,
        }
    }

    /// Whether the ID comes from the object's own name.
    pub(crate) fn has_own_id(&self) -> bool {
        self.more_flags & OWN_ID != 0
    }

    /// Whether the address is the word of the object's owner alone.
    pub(crate) fn ip_is_claimed(&self) -> bool {
        self.more_flags & IP_IS_CLAIMED != 0
    }

    /// Whether the object is served, or would be if it were woken.
    pub(crate) fn could_be_served(&self) -> bool {
        matches!(self.state, State::Running | State::Paused)
    }

    /// Whether the object will not share its ID.
    pub(crate) fn refuses(&self) -> bool {
        self.clash == Clash::Refuse
    }

    /// The same route, ambiguous or not.
    pub(crate) fn marked(mut self, ambiguous: bool) -> Self {
        self.flags = if ambiguous { self.flags | AMBIGUOUS } else { self.flags & !AMBIGUOUS };
        self
    }

    /// The hash of the ID, as the table has it.
    pub(crate) fn id_hash(&self) -> u64 {
        self.id_hash
    }

    /// The number of the object's record.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    #[inline]
    pub(crate) fn raw_id(&self) -> &[u8] {
        self.span(0, self.id.into())
    }

    pub(crate) fn raw_key(&self) -> RawKey<'_> {
        let namespace_at = if self.has(NAMESPACE_IN_ID) { 0 } else { self.namespace_at() };
        let name = usize::from(self.name);
        let name_at = if self.has(NAME_IN_ID) { usize::from(self.id) - name } else { self.name_at() };
        RawKey {
            provider: self.span(self.provider_at(), self.provider.into()),
            namespace: self.span(namespace_at, self.namespace.into()),
            name: self.span(name_at, name),
        }
    }

    fn packed<'a>(&self, is_uuid: u8, bytes: &'a [u8]) -> PackedText<'a> {
        if self.has(is_uuid) { PackedText::from_uuid(bytes) } else { PackedText::from_text(text(bytes)) }
    }

    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    fn span(&self, at: usize, length: usize) -> &[u8] {
        &self.text.bytes()[at..at + length]
    }

    fn namespace_at(&self) -> usize {
        let address = match self.flags & (HAS_V4 | HAS_V6) {
            HAS_V4 => 4,
            HAS_V6 => 16,
            _ => 0,
        };
        usize::from(self.id) + address
    }

    fn name_at(&self) -> usize {
        self.namespace_at() + if self.has(NAMESPACE_IN_ID) { 0 } else { usize::from(self.namespace) }
    }

    fn provider_at(&self) -> usize {
        self.name_at() + if self.has(NAME_IN_ID) { 0 } else { usize::from(self.name) }
    }

    fn uid_at(&self) -> usize {
        self.provider_at() + usize::from(self.provider)
    }

    fn owner_at(&self) -> usize {
        self.uid_at() + usize::from(self.uid)
    }
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("packed from whole strings")
}

fn length<N: TryFrom<usize>>(bytes: &[u8]) -> N {
    N::try_from(bytes.len()).ok().expect("checked against the limits")
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("key", &self.key())
            .field("id", &self.id())
            .field("uid", &self.uid())
            .field("owner", &self.owner())
            .field("state", &self.state())
            .field("version", &self.version())
            .field("ip", &self.ip())
            .field("token", &self.token())
            .field("traffic_token", &self.traffic_token())
            .field("require_traffic_auth", &self.require_traffic_auth())
            .field("identity", &self.identity())
            .field("ambiguous", &self.is_ambiguous())
            .finish()
    }
}

#[cfg(test)]
mod tests;
