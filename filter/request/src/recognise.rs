//! Which sandbox a request addresses.
//!
//! The forms are tried in the order of [`Form`]. The first whose *shape* is there is the address: if one of
//! its parts is wrong, the request is malformed, and no later form gets a say. Otherwise a client could steer
//! a request past a check by spoiling the part that was checked.
//!
//! Every other form that is there must name the same sandbox and port, or the request is refused: a browser
//! takes what it gets for the content of the host it asked, and a script of one sandbox must not run in the
//! origin of another. Two kinds of text name nothing beside an address: a path that has the shape of one of
//! the last forms, which any application's path may have, and a host that has the shape of a host form with a
//! part that cannot be.
//!
//! A form costs as few header reads as it can: switched-off forms read nothing, and forms that read one text
//! share one read of it.

pub(crate) mod forms;
pub(crate) mod host;
pub(crate) mod sandbox_id;
pub(crate) mod signature;
#[cfg(test)]
mod tests;

use sandgate_routes::is_valid_id;

use crate::address::AskedPort;
use crate::{Address, FilterConfig, Form, Part};
use host::{Reading, Readings, SentHost};
use sandbox_id::IdReadings;
pub use signature::RouteSignature;

/// Read access to the headers of one request.
///
/// In closure style because Envoy's buffers must not outlive the call that lent them. Names are lower case;
/// the pseudo headers `:path`, `:authority` and `:method` are included.
pub trait Headers {
    /// Calls `f` with the value of `name`, or with `None` if the request has no such header. Of several
    /// values it is the first: whoever acts on a header that others may read otherwise asks
    /// [`Headers::repeats`] too.
    fn with<R>(&self, name: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> R;

    /// Whether the request has `name` more than once.
    fn repeats(&self, name: &str) -> bool;
}

/// A plain list of names and values, as a command line or a test has it. Names match in any case.
impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn with<R>(&self, name: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
        let found = self.iter().find(|(n, _)| is_name(n.as_ref(), name));
        f(found.map(|(_, value)| value.as_ref()))
    }

    fn repeats(&self, name: &str) -> bool {
        self.iter().filter(|(n, _)| is_name(n.as_ref(), name)).nth(1).is_some()
    }
}

/// Nearly always the case is the same, and then comparing is quicker.
fn is_name(found: &str, name: &str) -> bool {
    found == name || found.eq_ignore_ascii_case(name)
}

/// What [`recognise`] found.
// Boxing the address would put an allocation on every request.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// The request addresses this sandbox.
    Addressed(Address),
    /// No form is there: the request is not meant for a sandbox.
    Unaddressed,
    /// A form is there, but one of its parts is not valid.
    Malformed {
        /// The form whose shape was found.
        form: Form,
        /// The part that is wrong.
        part: Part,
    },
    /// Two forms are there and name different sandboxes, or different ports.
    Conflicting {
        /// The form that would be the address.
        taken: Form,
        /// The form that says otherwise.
        other: Form,
    },
}

/// What came of trying one form. An address itself is written to where it is kept: it is long, and every
/// request has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Absent(Absence),
    /// The manager's own API: settles the request as not addressed to any sandbox.
    Reserved,
    /// It is the address now, or names the same.
    Addressed,
    Malformed(Part),
    /// It names another sandbox or port than the address, which has this form.
    Conflicting(Form),
}

/// Why a form is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    Off,
    NoHeader,
    NoPrefix,
    NotIdAndPort,
    NoPort,
    HasNamespace,
    NoHost,
    Ipv6Host,
    NoDomain,
    ForeignDomain,
    PlainLabel,
}

/// Takes an address, or compares it with the one that was taken before. Of several wrong parts, the ID is
/// named first.
#[inline]
pub(crate) fn offer(
    taken: &mut Option<Address>,
    form: Form,
    id: &[u8],
    port: Result<AskedPort, Part>,
    cut: usize,
    signature: Option<RouteSignature>,
) -> Attempt {
    if !is_valid_id(id) {
        return Attempt::Malformed(Part::Id);
    }
    match (port, &taken) {
        (Err(part), _) => Attempt::Malformed(part),
        (Ok(port), None) => {
            *taken = Some(Address::of_valid(id, form, port, cut).signed(signature));
            Attempt::Addressed
        }
        (Ok(port), Some(earlier)) if earlier.names(form, id, port) => Attempt::Addressed,
        (Ok(_), Some(earlier)) => Attempt::Conflicting(earlier.form()),
    }
}

/// Reads the address of a request. Never allocates, never panics.
pub fn recognise<H: Headers + ?Sized>(headers: &H, config: &FilterConfig) -> Recognition {
    let mut taken = None;
    match try_forms(headers, config, &mut taken) {
        Err((_, Attempt::Absent(_) | Attempt::Reserved | Attempt::Addressed)) => Recognition::Unaddressed,
        Err((form, Attempt::Malformed(part))) => Recognition::Malformed { form, part },
        Err((other, Attempt::Conflicting(taken))) => Recognition::Conflicting { taken, other },
        Ok(()) => taken.map_or(Recognition::Unaddressed, Recognition::Addressed),
    }
}

/// Tries the forms, up to one that ends it.
fn try_forms<H: Headers + ?Sized>(
    headers: &H,
    config: &FilterConfig,
    taken: &mut Option<Address>,
) -> Result<(), (Form, Attempt)> {
    let go_on = |form, attempt| match attempt {
        Attempt::Absent(_) | Attempt::Addressed => Ok(()),
        Attempt::Reserved | Attempt::Malformed(_) | Attempt::Conflicting(_) => Err((form, attempt)),
    };
    if config.kruise.path {
        go_on(Form::KruisePath, headers.with(":path", |path| forms::kruise_path(path, config, taken)))?;
    }
    go_on(Form::KruiseHeader, forms::kruise_header(headers, config, taken))?;
    go_on(Form::OpenSandboxHeader, forms::opensandbox_header(headers, config, taken))?;
    let (form, attempt) = IdReadings::read(headers, config, |readings| readings.attempt(taken));
    go_on(form, attempt)?;
    if config.kruise.host || config.opensandbox.host {
        let (form, attempt) = SentHost::read(headers, config, |sent| {
            if sent.repeated {
                return (host::first_form(config), Attempt::Malformed(Part::Repeated));
            }
            let readings = Readings::of(sent.value, config);
            match taken {
                None => readings.attempt(taken),
                Some(address) => beside_host(address, &readings),
            }
        });
        go_on(form, attempt)?;
    }
    let paths = config.sandbox_env.path || config.opensandbox.proxy_path || config.opensandbox.path;
    if taken.is_none() && paths {
        let (form, attempt) = headers.with(":path", |path| forms::weak_path(path, config, taken));
        go_on(form, attempt)?;
    }
    Ok(())
}

/// Compares the host with the address. Of two readings of the address, the host chooses the one that it
/// agrees with.
fn beside_host(address: &mut Address, readings: &Readings<'_>) -> (Form, Attempt) {
    let conflicting = conflict(address, readings);
    let other = address.other_reading().map(|other| (conflict(&other, readings).is_some(), other));
    match (conflicting, other) {
        (None, Some((true, _))) => address.drop_other_reading(),
        (None, _) => {}
        (Some(_), Some((false, other))) => *address = other,
        (Some(form), _) => return (form, Attempt::Conflicting(address.form())),
    }
    (Form::KruiseHost, Attempt::Addressed)
}

/// The form in which the host names another sandbox than the address, if it does. Of two readings of the host
/// a header chooses the one that it agrees with. A path must agree with both: a browser follows any link to a
/// path, and shows what it gets in the origin of the host, whichever sandbox the host alone would have meant.
pub(crate) fn conflict(address: &Address, readings: &Readings<'_>) -> Option<Form> {
    let first = readings.good().next()?;
    let other = |reading: &&Reading<'_>| !address.agrees_with_host(reading);
    if address.form() == Form::KruisePath {
        return readings.good().find(other).map(|reading| reading.form);
    }
    readings.good().all(|reading| other(&reading)).then_some(first.form)
}

/// A port in canonical decimal, 1 to 65535.
pub(crate) fn parse_port(digits: &[u8]) -> Result<u16, Part> {
    if !matches!(digits.len(), 1..=5) || digits.first() == Some(&b'0') || !is_digits(digits) {
        return Err(Part::Port);
    }
    let value = digits.iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    u16::try_from(value).map_err(|_| Part::Port)
}

/// A port header, if it is sent. An empty one counts as not sent.
fn sent_port<H: Headers + ?Sized>(headers: &H, name: &str) -> Result<Option<u16>, Part> {
    headers.with(name, |value| match value {
        None => Ok(None),
        Some(_) if headers.repeats(name) => Err(Part::Repeated),
        Some(b"") => Ok(None),
        Some(digits) => parse_port(digits).map(Some),
    })
}

pub(crate) fn is_digits(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

/// The path without its query.
pub(crate) fn path_only(path: &[u8]) -> &[u8] {
    split_once(path, b'?').map_or(path, |(path, _)| path)
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = bytes.iter().position(|byte| *byte == at)?;
    Some((bytes.get(..position)?, bytes.get(position + 1..)?))
}
