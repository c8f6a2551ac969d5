//! Who is where, who was, and since when the gateway must know that they left.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Random;
use crate::kubernetes::KINDS;

const SUSPECTS: usize = 12;

/// Nanoseconds since the scenario began.
pub(super) type Moment = u64;

/// A sandbox and an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Here,
    /// Gone from the address, by the departure of this number.
    Leaving(u64),
    /// Gone, and the table has had the event of it since this moment.
    Left(Moment),
}

/// A departure that is still to be told to the API server, or to become known.
#[derive(Debug)]
pub(super) struct Departure {
    address: usize,
    uid: String,
    number: u64,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Requests that their sandbox answered.
    pub(super) answered: usize,
    /// Requests that came too late, before the gateway could know, and were refused.
    pub(super) late: usize,
    /// Departures that became known.
    pub(super) left: usize,
}

#[derive(Default)]
struct Address {
    tenant: Option<String>,
    been: HashMap<String, Presence>,
}

#[derive(Default)]
struct Inner {
    /// What the object of a UID is called, and the number of that name.
    names: HashMap<String, (usize, String)>,
    /// The names of which a departure became known last.
    suspects: VecDeque<usize>,
    addresses: Vec<Address>,
    /// By the scope of the gateway that will hear of them.
    told: [Vec<Departure>; KINDS.len()],
    departures: u64,
    counts: Counts,
    violations: Vec<String>,
}

pub(super) struct Ledger {
    began: Instant,
    inner: Mutex<Inner>,
}

impl Ledger {
    pub(super) fn new(addresses: usize) -> Self {
        let addresses = (0..addresses).map(|_| Address::default()).collect();
        Self { began: Instant::now(), inner: Mutex::new(Inner { addresses, ..Inner::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Moment {
        u64::try_from(self.began.elapsed().as_nanos()).expect("scenarios are short")
    }

    /// An object was made.
    pub(super) fn named(&self, uid: &str, number: usize, name: &str) {
        self.lock().names.insert(uid.to_owned(), (number, name.to_owned()));
    }

    /// A sandbox has an address from now on. Called before the object says so.
    pub(super) fn arrive(&self, address: usize, uid: &str) {
        let address = &mut self.lock().addresses[address];
        assert!(address.tenant.is_none(), "the driver gave an address away twice");
        address.tenant = Some(uid.to_owned());
        address.been.insert(uid.to_owned(), Presence::Here);
    }

    /// A sandbox has lost its address.
    pub(super) fn leave(&self, address: usize) -> Departure {
        let mut inner = self.lock();
        inner.departures += 1;
        let number = inner.departures;
        let uid = inner.addresses[address].tenant.take().expect("a tenant");
        inner.addresses[address].been.insert(uid.clone(), Presence::Leaving(number));
        Departure { address, uid, number }
    }

    /// The API server has been told of a departure.
    pub(super) fn told(&self, scope: usize, departure: Departure) {
        self.lock().told[scope].push(departure);
    }

    /// Departures of a scope that the API server knows of, to be given to [`Ledger::settled`].
    pub(super) fn take_told(&self, scope: usize) -> Vec<Departure> {
        std::mem::take(&mut self.lock().told[scope])
    }

    /// The table has these, so from this moment on they must be obeyed. Not those that have returned since.
    pub(super) fn settled(&self, departures: Vec<Departure>) {
        let now = self.now();
        let mut inner = self.lock();
        for Departure { address, uid, number } in departures {
            let presence = inner.addresses[address].been.get_mut(&uid).expect("it was there");
            if *presence == Presence::Leaving(number) {
                *presence = Presence::Left(now);
                inner.counts.left += 1;
                let (number, _) = inner.names[&uid];
                inner.suspects.push_front(number);
                inner.suspects.truncate(SUSPECTS);
            }
        }
    }

    /// A name of which a departure became known a moment ago: if the gateway has not obeyed, it shows here.
    pub(super) fn suspect(&self, random: &mut Random) -> Option<usize> {
        let inner = self.lock();
        (!inner.suspects.is_empty()).then(|| inner.suspects[random.below(inner.suspects.len())])
    }

    /// A request has arrived at an address. Says whether the tenant may answer it.
    pub(super) fn request(&self, address: usize, uid: &str, asked: &str, started: Moment) -> bool {
        let mut inner = self.lock();
        let (_, named) = inner.names.get(uid).cloned().unwrap_or_default();
        let (tenant, presence) = {
            let address = &inner.addresses[address];
            (address.tenant.as_deref() == Some(uid), address.been.get(uid).copied())
        };
        let wrong = if named != asked {
            Some(format!("asked for {asked}, sent on as {uid}, which is {named:?}"))
        } else {
            match presence {
                None => Some(format!("{asked} ({uid}) was never at address {address}")),
                Some(Presence::Left(since)) if started > since => Some(format!(
                    "{asked} ({uid}) was asked for at address {address} {} µs after the table knew that it had left",
                    (started - since) / 1000
                )),
                _ => None,
            }
        };
        let answers = tenant && wrong.is_none();
        inner.violations.extend(wrong);
        if answers {
            inner.counts.answered += 1;
        } else {
            inner.counts.late += 1;
        }
        answers
    }

    /// Something else that must not be.
    pub(super) fn violation(&self, text: String) {
        self.lock().violations.push(text);
    }

    pub(super) fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    pub(super) fn assert_clean(&self) {
        let inner = self.lock();
        let count = inner.violations.len();
        assert!(
            count == 0,
            "{count} violations, first of them:\n{}",
            inner.violations[..count.min(10)].join("\n")
        );
    }
}
