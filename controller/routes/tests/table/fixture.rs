//! Sandboxes in prose: `sandbox("a").at(5).paused()`.

use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::ProptestConfig;
use sandgate_routes::{
    Clash, Clock, Limits, ObjectKey, Observation, RouteReader, RouteTable, RouteWriter, Scope, Secret, State,
    Version,
};

/// Runs a property `cases` times, or as often as `PROPTEST_CASES` asks for.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { ProptestConfig { cases, ..config } }
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("kruise", "team", name).unwrap()
}

pub(crate) fn version(number: u64) -> Version {
    number.to_string().parse().unwrap()
}

pub(crate) fn at(number: u64) -> Option<Version> {
    Some(version(number))
}

/// All objects of the fixture's provider.
pub(crate) fn everything() -> Scope {
    Scope::new("kruise", None, "")
}

/// A running sandbox of that name at version 1, called by its namespace and name.
pub(crate) fn sandbox(name: &str) -> Sandbox {
    Sandbox(Observation {
        key: key(name),
        id: format!("team--{name}"),
        uid: format!("uid-of-{name}"),
        owner: "alice".into(),
        state: State::Running,
        version: version(1),
        ip: Some("10.0.0.1".parse().unwrap()),
        token: None,
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: true,
    })
}

#[derive(Clone)]
pub(crate) struct Sandbox(pub(crate) Observation);

impl Sandbox {
    pub(crate) fn at(mut self, number: u64) -> Observation {
        self.0.version = version(number);
        self.0
    }

    pub(crate) fn of(mut self, provider: &str) -> Self {
        let key = &self.0.key;
        self.0.key = ObjectKey::new(provider, key.namespace(), key.name()).unwrap();
        self
    }

    pub(crate) fn in_namespace(mut self, namespace: &str) -> Self {
        let key = &self.0.key;
        self.0.key = ObjectKey::new(key.provider(), namespace, key.name()).unwrap();
        let id = format!("{namespace}--{}", self.0.key.name());
        self.called(&id)
    }

    pub(crate) fn called(mut self, id: &str) -> Self {
        self.0.id = id.into();
        self.0.own_id = self.0.key.has_own_id(id);
        self
    }

    /// By the plain name, which is the ID of this kind.
    pub(crate) fn called_by_name(mut self) -> Self {
        self.0.id = self.0.key.name().into();
        self.0.own_id = true;
        self
    }

    pub(crate) fn with_uid(mut self, uid: &str) -> Self {
        self.0.uid = uid.into();
        self
    }

    pub(crate) fn owned_by(mut self, owner: &str) -> Self {
        self.0.owner = owner.into();
        self
    }

    pub(crate) fn with_ip(mut self, ip: Option<IpAddr>) -> Self {
        self.0.ip = ip;
        self
    }

    pub(crate) fn with_traffic_token(mut self, token: &str) -> Self {
        self.0.traffic_token = Some(Secret::new(token));
        self
    }

    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.0.token = Some(Secret::new(token));
        self
    }

    /// Will not share its ID.
    pub(crate) fn refusing(mut self) -> Self {
        self.0.clash = Clash::Refuse;
        self
    }

    pub(crate) fn being(mut self, state: State) -> Self {
        self.0.state = state;
        self
    }

    pub(crate) fn paused(self) -> Self {
        self.being(State::Paused)
    }

    pub(crate) fn dead(self) -> Self {
        self.being(State::Dead)
    }
}

/// A table with a clock in hand.
pub(crate) struct Bench {
    pub(crate) writer: RouteWriter,
    pub(crate) reader: RouteReader,
    pub(crate) clock: Clock,
}

pub(crate) fn table() -> Bench {
    table_with(Limits::default())
}

pub(crate) fn table_with(limits: Limits) -> Bench {
    let clock = Clock::manual();
    let (writer, reader) = RouteTable::with_clock(limits, clock.clone());
    Bench { writer, reader, clock }
}

impl Bench {
    /// The version an ID is served at.
    pub(crate) fn served(&self, id: &str) -> Option<u64> {
        self.reader.get(id).map(|route| route.version().to_string().parse().unwrap())
    }

    /// The object an ID is served by.
    pub(crate) fn holder(&self, id: &str) -> Option<String> {
        self.reader.get(id).map(|route| route.key().name().to_owned())
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}
