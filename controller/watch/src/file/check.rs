//! One route: what the file says, checked, as an observation.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;

use sandgate_routes::{
    Clash, MAX_ID, MAX_NAMESPACE, MAX_OWNER, MAX_TOKEN, ObjectKey, Observation, Secret, State, Version,
    is_valid_id,
};

use super::PROVIDER;
use super::error::Place;
use super::raw::{RawRoute, Text};

/// What each key of a route holds in a good file.
pub(super) const KEYS: [(&str, &str); 11] = [
    ("name", "1 to 253 letters, digits, `.`, `_` or `-`"),
    ("namespace", "1 to 63 letters, digits, `.`, `_` or `-`"),
    ("id", "1 to 253 letters, digits, `.`, `_` or `-`"),
    ("uid", "1 to 253 visible ASCII characters"),
    ("ip", "an IPv4 or IPv6 address without a port"),
    ("state", "creating, available, running, paused, unknown or dead"),
    ("owner", "at most 255 bytes, no control character among them"),
    ("access-token", "1 to 4096 visible ASCII characters"),
    ("secure-access-token", "1 to 4096 visible ASCII characters"),
    ("traffic-access-token", "1 to 4096 visible ASCII characters"),
    ("require-traffic-auth", "true or false"),
];

pub(super) fn expected(key: &str) -> &'static str {
    KEYS.iter().find(|(name, _)| *name == key).map_or("", |(_, expected)| expected)
}

/// A value that the parsers accept and a route cannot have.
pub(super) struct Mistake {
    pub(super) place: Option<Place>,
    /// Names the key and what was expected. It does not repeat the value.
    pub(super) problem: String,
}

impl Mistake {
    pub(super) fn too_many(max: usize) -> Self {
        Mistake { place: None, problem: format!("routes: expected at most {max} routes") }
    }
}

/// The unknown states of a file that can be loaded all the same: the first few, and how many there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubts {
    pub(super) first: Vec<Doubt>,
    pub(super) count: usize,
}

/// An unknown state, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    pub(super) place: Option<Place>,
    pub(super) text: String,
}

/// How many unknown states are reported one by one.
const MAX_DOUBTS: usize = 8;

impl Doubts {
    /// Shows the state only if it looks like a word: by a slip it may be a token.
    fn add(&mut self, index: usize, place: Option<Place>, state: &str) {
        self.count += 1;
        if self.first.len() == MAX_DOUBTS {
            return;
        }
        let is_word = (1..=32).contains(&state.len()) && state.bytes().all(|b| b.is_ascii_alphabetic());
        let state = if is_word { format!("`{state}` is") } else { "this is".to_owned() };
        let text = format!(
            "routes[{index}].state: {state} no state, so the route is known and not served; expected {}",
            expected("state")
        );
        self.first.push(Doubt { place, text });
    }
}

/// A good route and where its name and its id stand. An id that is left out stands where the name does.
pub(super) struct Checked {
    pub(super) observation: Observation,
    pub(super) name_at: Option<Place>,
    pub(super) id_at: Option<Place>,
}

impl<T: Text> RawRoute<T> {
    /// Checks the route at `index` of the list. The observation's version is for the caller to set.
    pub(super) fn check(self, index: usize, doubts: &mut Doubts) -> Result<Checked, Mistake> {
        let at = |key: &str, place, problem: &str| Mistake {
            place,
            problem: format!("routes[{index}].{key}: {problem}"),
        };
        let whole = |place, problem: &str| Mistake { place, problem: format!("routes[{index}]: {problem}") };
        let text = |key: &str, value: T, good: fn(&str) -> bool| match value.placed() {
            (value, place) if good(&value) => Ok((value, place)),
            (_, place) => Err(at(key, place, &format!("expected {}", expected(key)))),
        };
        let optional = |key: &str, value: Option<T>, good: fn(&str) -> bool| {
            value.map(|value| text(key, value, good)).transpose()
        };

        let (name, name_at) = text("name", self.name, |t| is_valid_id(t.as_bytes()))?;
        let namespace = |t: &str| t.len() <= MAX_NAMESPACE && is_valid_id(t.as_bytes());
        let namespace = optional("namespace", self.namespace, namespace)?
            .map_or_else(|| "default".to_owned(), |(namespace, _)| namespace);
        let (id, id_at) = optional("id", self.id, |t| is_valid_id(t.as_bytes()))?
            .unwrap_or_else(|| (format!("{namespace}--{name}"), name_at));
        if id.len() > MAX_ID {
            let problem = format!(
                "expected the key `id`, because `{{namespace}}--{{name}}` has more than {MAX_ID} characters"
            );
            return Err(whole(id_at, &problem));
        }
        let uid = optional("uid", self.uid, |t| is_visible(t, 253))?
            .map_or_else(|| format!("file:{namespace}/{name}"), |(uid, _)| uid);
        let owner = |t: &str| t.len() <= MAX_OWNER && !t.chars().any(char::is_control);
        let owner = optional("owner", self.owner, owner)?.map(|(owner, _)| owner).unwrap_or_default();
        let token = optional("access-token", self.access_token, |t| is_visible(t, MAX_TOKEN))?;
        let secure = optional("secure-access-token", self.secure_access_token, |t| is_visible(t, MAX_TOKEN))?;
        let token = match (token, secure) {
            (Some(_), Some((_, place))) => {
                return Err(at("secure-access-token", place, "expected this or `access-token`, found both"));
            }
            (_, Some((token, _))) => Some(Secret::secure_access(token)),
            (token, None) => token.map(|(token, _)| Secret::new(token)),
        };
        let traffic =
            optional("traffic-access-token", self.traffic_access_token, |t| is_visible(t, MAX_TOKEN))?;
        let (state, state_at) = match self.state.map(T::placed) {
            None => (State::Running, name_at),
            Some((state, place)) => {
                let known = state.parse().unwrap_or_else(|_| {
                    doubts.add(index, place, &state);
                    State::Unknown
                });
                (known, place)
            }
        };
        let ip = match self.ip.map(T::placed) {
            None if state == State::Running => {
                return Err(whole(state_at, "a running sandbox needs the key `ip`"));
            }
            None => None,
            Some((ip, place)) => Some(
                address(&ip)
                    .map_err(|hint| at("ip", place, &format!("expected {}{hint}", expected("ip"))))?,
            ),
        };
        let key = ObjectKey::new(PROVIDER, &namespace, &name)
            .map_err(|error| at("name", name_at, &error.to_string()))?;
        let observation = Observation {
            key,
            id,
            uid,
            owner,
            state,
            version: Version::from(NonZeroU64::MIN),
            ip,
            token,
            traffic_token: traffic.map(|(token, _)| Secret::new(token)),
            require_traffic_auth: self.require_traffic_auth,
            clash: Clash::Rank,
            // The operator wrote the file: its routes rank before any object, however old and whatever its
            // name.
            own_id: true,
            created: Some(0),
            ip_is_claimed: false,
        };
        Ok(Checked { observation, name_at, id_at })
    }
}

fn is_visible(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// An address a sandbox can have, or a hint at what is wrong with it.
fn address(text: &str) -> Result<IpAddr, &'static str> {
    match text.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() || ip.is_multicast() => Err(", of one machine"),
        Ok(ip) => Ok(ip),
        Err(_) if text.parse::<SocketAddr>().is_ok() => Err(": the request says which port"),
        Err(_) => Err(""),
    }
}
