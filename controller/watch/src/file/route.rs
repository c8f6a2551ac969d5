//! One route: what the file says, checked, as an observation.

use std::net::{IpAddr, SocketAddr};

use sandgate_routes::{
    Clash, MAX_ID, MAX_NAMESPACE, MAX_OWNER, MAX_TOKEN, ObjectKey, Observation, Secret, State, Version,
    is_valid_id,
};

use super::PROVIDER;
use super::error::Place;
use super::notes::{Key, Notes};
use super::parse::Entry;
use super::places::At;

/// One route as written.
#[derive(Default)]
pub(super) struct Raw {
    /// Where its first key is.
    pub(super) first: Option<Place>,
    texts: [Option<At<String>>; Key::ALL.len()],
    pub(super) require_traffic_auth: Option<bool>,
}

fn visible(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

impl Raw {
    pub(super) fn text(&mut self, key: Key) -> &mut Option<At<String>> {
        &mut self.texts[key as usize]
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.texts[key as usize].is_some()
            || (key == Key::RequireTrafficAuth && self.require_traffic_auth.is_some())
    }

    pub(super) fn check<E: serde::de::Error>(mut self, notes: &Notes, version: &Version) -> Result<Entry, E> {
        let mut text = |key, good: fn(&str) -> bool| match self.texts[key as usize].take() {
            Some(v) if !good(&v.value) => Err(notes.bad_value(v.place, key)),
            v => Ok(v),
        };
        let Some(name) = text(Key::Name, |t| is_valid_id(t.as_bytes()))? else {
            return Err(notes.fail(self.first, format!("{}: the key `name` is missing", notes.at())));
        };
        let At { value: name, place: name_at } = name;
        let namespace = text(Key::Namespace, |t| t.len() <= MAX_NAMESPACE && is_valid_id(t.as_bytes()))?
            .map_or_else(|| "default".to_owned(), |v| v.value);
        let At { value: id, place: id_at } = text(Key::Id, |t| is_valid_id(t.as_bytes()))?
            .unwrap_or_else(|| At { value: format!("{namespace}--{name}"), place: name_at });
        if id.len() > MAX_ID {
            let problem = format!(
                "{}: expected the key `id`, because `{{namespace}}--{{name}}` has more than {MAX_ID} characters",
                notes.at()
            );
            return Err(notes.fail(id_at, problem));
        }
        let uid = text(Key::Uid, |t| visible(t, 253))?
            .map_or_else(|| format!("file:{namespace}/{name}"), |v| v.value);
        let owner = text(Key::Owner, |t| t.len() <= MAX_OWNER && !t.chars().any(char::is_control))?
            .map(|v| v.value)
            .unwrap_or_default();
        let token = text(Key::AccessToken, |t| visible(t, MAX_TOKEN))?;
        let token = match text(Key::SecureAccessToken, |t| visible(t, MAX_TOKEN))? {
            Some(v) if token.is_some() => {
                notes.key.set(Some(Key::SecureAccessToken));
                let problem = format!("{}: expected this or `access-token`, found both", notes.at());
                return Err(notes.fail(v.place, problem));
            }
            Some(v) => Some(Secret::secure_access(v.value)),
            None => token.map(|v| Secret::new(v.value)),
        };
        let state = text(Key::State, |_| true)?;
        let state_at = state.as_ref().and_then(|v| v.place).or(name_at);
        let state = match state {
            None => State::Running,
            Some(At { value, place }) => value.parse().unwrap_or_else(|_| {
                notes.unknown_state(place, &value);
                State::Unknown
            }),
        };
        let ip = match text(Key::Ip, |_| true)? {
            Some(v) => Some(address(&v.value).map_err(|hint| {
                notes.key.set(Some(Key::Ip));
                notes.fail(v.place, format!("{}: expected {}{hint}", notes.at(), Key::Ip.expected()))
            })?),
            None => None,
        };
        if state == State::Running && ip.is_none() {
            let problem = format!("{}: a running sandbox needs the key `ip`", notes.at());
            return Err(notes.fail(state_at, problem));
        }

        let key = ObjectKey::new(PROVIDER, &namespace, &name).map_err(E::custom)?;
        let observation = Observation {
            key,
            id,
            uid,
            owner,
            state,
            version: version.clone(),
            ip,
            token,
            require_traffic_auth: self.require_traffic_auth.unwrap_or_default(),
            clash: Clash::Rank,
            // The operator's own word comes before what anybody else made, however old and whatever its name.
            own_id: true,
            created: Some(0),
            ip_is_claimed: false,
        };
        Ok(Entry { observation, name_at, id_at })
    }
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
