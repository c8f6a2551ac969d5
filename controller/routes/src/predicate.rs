//! What a state means: the one function that every writer and reader of every process uses.
//!
//! Equal messages make equal tables only if every process judges a state alike. So a writer asks [`verdict`]
//! whether to keep an object, and a reader asks it whether to serve one. What a process can do
//! ([`Capability`]) may change the service but never the fate.

use std::fmt;
use std::str::FromStr;

/// The state of a sandbox, as its provider derives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// Not there yet.
    Creating,
    /// Warm in a pool, not claimed by anyone.
    Available,
    /// Claimed and ready: the only state that takes traffic.
    Running,
    /// Put to sleep; may be woken.
    Paused,
    /// In a state that this version does not know: the object exists, and nothing more is known.
    Unknown,
    /// Gone, or about to be.
    Dead,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Creating, Self::Available, Self::Running, Self::Paused, Self::Unknown, Self::Dead];

    /// The state's name, as messages and metrics spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Available => "available",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Unknown => "unknown",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text names no state. A retry does not help: the same text gives the same error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a state is one of creating, available, running, paused, unknown, dead")]
pub struct StateError;

impl FromStr for State {
    type Err = StateError;

    fn from_str(text: &str) -> Result<Self, StateError> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(StateError)
    }
}

/// What this process can do for a sandbox that is not running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Capability {
    /// It can wake a paused sandbox.
    pub wake: bool,
}

/// What the table does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It has a route.
    Keep,
    /// It has none: the observation is a delete at its version.
    Delete,
}

/// What a request for an object gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// It is forwarded.
    Serve,
    /// It is held while the sandbox is woken.
    Wake,
    /// It is answered here.
    Refuse,
}

/// What a state means to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// For the table.
    pub fate: Fate,
    /// For a request.
    pub service: Service,
}

/// The one predicate: what `state` means to a process of this `capability`.
pub const fn verdict(state: State, capability: Capability) -> Verdict {
    let fate = match state {
        State::Dead => Fate::Delete,
        State::Creating | State::Available | State::Running | State::Paused | State::Unknown => Fate::Keep,
    };
    let service = match state {
        State::Running => Service::Serve,
        State::Paused if capability.wake => Service::Wake,
        State::Paused | State::Creating | State::Available | State::Unknown | State::Dead => Service::Refuse,
    };
    Verdict { fate, service }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_predicate_is_this_table_and_no_other() {
        use Fate::{Delete, Keep};
        use Service::{Refuse, Serve, Wake};
        let table = [
            // state, fate, service without wake, service with wake
            (State::Creating, Keep, Refuse, Refuse),
            (State::Available, Keep, Refuse, Refuse),
            (State::Running, Keep, Serve, Serve),
            (State::Paused, Keep, Refuse, Wake),
            (State::Unknown, Keep, Refuse, Refuse),
            (State::Dead, Delete, Refuse, Refuse),
        ];
        assert_eq!(table.map(|row| row.0), State::ALL, "every state has a row");
        for (state, fate, asleep, waking) in table {
            for (wake, service) in [(false, asleep), (true, waking)] {
                assert_eq!(
                    verdict(state, Capability { wake }),
                    Verdict { fate, service },
                    "{state}, wake {wake}"
                );
            }
        }
    }

    #[test]
    fn only_running_is_served_and_capability_never_changes_a_fate() {
        for state in State::ALL {
            let [without, with] = [false, true].map(|wake| verdict(state, Capability { wake }));
            assert_eq!(without.fate, with.fate, "{state}");
            for verdict in [without, with] {
                assert_eq!(verdict.service == Service::Serve, state == State::Running, "{state}");
            }
        }
    }

    #[test]
    fn a_state_is_spelled_one_way() {
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        for text in ["", "Running", "running ", "terminated"] {
            assert_eq!(text.parse::<State>(), Err(StateError), "{text:?}");
        }
    }
}
