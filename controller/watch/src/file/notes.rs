//! Where the readers are in the file, in the words of the file.

use std::cell::{Cell, RefCell};

use super::error::Place;

/// Where the readers are, and the mistake they found themselves.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) list: Cell<bool>,
    pub(super) index: Cell<Option<usize>>,
    pub(super) key: Cell<Option<Key>>,
    problem: RefCell<Option<(Option<Place>, String)>>,
    doubts: RefCell<Doubts>,
}

/// What is odd about a file that can be loaded all the same: the first few, and how many there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubts {
    pub(super) first: Vec<Doubt>,
    pub(super) count: usize,
}

/// Something odd, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    pub(super) place: Option<Place>,
    pub(super) text: String,
}

/// So many are told one by one.
const MAX_DOUBTS: usize = 8;

impl Notes {
    /// The path of the key being read, such as `routes[3].ip`.
    pub(super) fn at(&self) -> String {
        match (self.list.get(), self.index.get(), self.key.get()) {
            (false, ..) => "the file".to_owned(),
            (true, None, _) => "routes".to_owned(),
            (true, Some(index), None) => format!("routes[{index}]"),
            (true, Some(index), Some(key)) => format!("routes[{index}].{}", key.as_str()),
        }
    }

    /// What stands there in a good file.
    pub(super) fn expected(&self) -> &'static str {
        match (self.list.get(), self.index.get(), self.key.get()) {
            (false, ..) => "a mapping with the key `routes`",
            (true, None, _) => "a list of routes, `[]` if there are none",
            (true, Some(_), None) => "a mapping with at least the key `name`",
            (true, Some(_), Some(key)) => key.expected(),
        }
    }

    pub(super) fn take_problem(&self) -> Option<(Option<Place>, String)> {
        self.problem.take()
    }

    /// Notes a state that is none of ours: the route is known and not served. The word is shown where it looks like one, since
    /// a slip may have put a token there.
    pub(super) fn unknown_state(&self, place: Option<Place>, word: &str) {
        let mut doubts = self.doubts.borrow_mut();
        doubts.count += 1;
        if doubts.first.len() == MAX_DOUBTS {
            return;
        }
        self.key.set(Some(Key::State));
        let is_word = (1..=32).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_alphabetic());
        let word = if is_word { format!("`{word}` is") } else { "this is".to_owned() };
        let text = format!(
            "{}: {word} no state, so the route is known and not served; expected {}",
            self.at(),
            Key::State.expected()
        );
        self.key.set(None);
        doubts.first.push(Doubt { place, text });
    }

    pub(super) fn take_doubts(&self) -> Doubts {
        self.doubts.take()
    }

    /// Keeps our own account of a mistake. What the library makes of the error is not used.
    pub(super) fn fail<E: serde::de::Error>(&self, place: Option<Place>, problem: String) -> E {
        self.problem.replace(Some((place, problem)));
        E::custom("see the notes")
    }

    pub(super) fn bad_value<E: serde::de::Error>(&self, place: Option<Place>, key: Key) -> E {
        self.key.set(Some(key));
        self.fail(place, format!("{}: expected {}", self.at(), key.expected()))
    }
}

macro_rules! keys {
    ($($variant:ident $name:literal $expected:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Key { $($variant),* }

        impl Key {
            pub(super) const ALL: &[Key] = &[$(Key::$variant),*];

            pub(super) fn as_str(self) -> &'static str {
                match self { $(Key::$variant => $name),* }
            }

            pub(super) fn expected(self) -> &'static str {
                match self { $(Key::$variant => $expected),* }
            }
        }
    };
}

keys! {
    Name "name" "1 to 253 letters, digits, `.`, `_` or `-`"
    Namespace "namespace" "1 to 63 letters, digits, `.`, `_` or `-`"
    Id "id" "1 to 253 letters, digits, `.`, `_` or `-`"
    Uid "uid" "1 to 253 visible ASCII characters"
    Ip "ip" "an IPv4 or IPv6 address without a port"
    State "state" "creating, available, running, paused, unknown or dead"
    Owner "owner" "at most 255 bytes, no control character among them"
    AccessToken "access-token" "1 to 4096 visible ASCII characters"
    SecureAccessToken "secure-access-token" "1 to 4096 visible ASCII characters"
    RequireTrafficAuth "require-traffic-auth" "true or false"
}
