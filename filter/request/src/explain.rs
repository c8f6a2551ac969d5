//! How an address was found, form by form, for people.

#[cfg(test)]
mod tests;

use crate::{
    Address, FilterConfig, Form, Headers, Part,
    recognise::{Absence, Attempt, agent_sandbox, kruise, opensandbox},
};

/// One form and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The form.
    pub form: Form,
    /// What came of it.
    pub outcome: StepOutcome,
    /// Why, as a sentence without capital or full stop.
    pub reason: String,
}

/// What came of one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The config has switched it off.
    Off,
    /// Its shape is not there.
    Absent,
    /// It is there and valid: this is the address.
    Addressed(Box<Address>),
    /// It is there, but this part is wrong: the request is refused.
    Malformed(Part),
    /// It is the manager's API: the request addresses no sandbox.
    Reserved,
    /// An earlier form had settled it.
    NotTried,
}

/// Tries the forms as [`recognise`](crate::recognise) does and says why each was taken or not. One step for each form,
/// in order. Not for the request path: it allocates and reads headers more often.
pub fn explain<H: Headers + ?Sized>(headers: &H, config: &FilterConfig) -> Vec<Step> {
    let mut settled_by: Option<Form> = None;
    Form::ALL
        .into_iter()
        .map(|form| {
            if let Some(earlier) = settled_by {
                let reason = format!("not tried, since {} had settled it", earlier.as_str());
                return Step { form, outcome: StepOutcome::NotTried, reason };
            }
            let step = describe(form, attempt(form, headers, config), config);
            if !matches!(step.outcome, StepOutcome::Off | StepOutcome::Absent) {
                settled_by = Some(form);
            }
            step
        })
        .collect()
}

fn attempt<H: Headers + ?Sized>(form: Form, headers: &H, config: &FilterConfig) -> Attempt {
    match form {
        Form::KruisePath => headers.with(":path", |path| kruise::path(path, config)),
        Form::KruiseHeader => kruise::header(headers, config),
        Form::OpenSandboxHeader => opensandbox::header(headers, config),
        Form::AgentSandboxHeader => agent_sandbox::header(headers, config),
        Form::KruiseHost => headers.with(&config.host_header, |host| kruise::host(host, config)),
        Form::OpenSandboxHost => headers.with(&config.host_header, |host| opensandbox::host(host, config)),
        Form::OpenSandboxPath => headers.with(":path", |path| opensandbox::path(path, config)),
    }
}

fn describe(form: Form, attempt: Attempt, config: &FilterConfig) -> Step {
    let (outcome, reason) = match attempt {
        Attempt::Absent(Absence::Off) => (StepOutcome::Off, "switched off in the config".into()),
        Attempt::Absent(absence) => (StepOutcome::Absent, missing(form, absence, config)),
        Attempt::Reserved => {
            (StepOutcome::Reserved, "/kruise/api is the manager's API and never a sandbox".into())
        }
        Attempt::Malformed(part) => {
            let reason =
                format!("the shape is there, but not a valid {}: {}", part.as_str(), part.expectation());
            (StepOutcome::Malformed(part), reason.trim_end_matches('.').into())
        }
        Attempt::Addressed(address) => {
            let path = if address.rewrites_path() { ", and the prefix leaves the path" } else { "" };
            let reason = format!("sandbox {}, port {}{path}", address.id(), address.port());
            (StepOutcome::Addressed(Box::new(address)), reason)
        }
    };
    Step { form, outcome, reason }
}

fn missing(form: Form, absence: Absence, config: &FilterConfig) -> String {
    let host = &config.host_header;
    match absence {
        Absence::Off => "switched off in the config".into(),
        Absence::NoHeader => format!("no header {}", headers_of(form, config)),
        Absence::NoPrefix => "the path does not begin with /kruise/".into(),
        Absence::NotIdAndPort => "the path does not begin with an ID and a segment of digits".into(),
        Absence::NoHost => format!("no host in {host}"),
        Absence::Ipv6Host => format!("{host} is an IPv6 address, which never names a sandbox"),
        Absence::NoDomain => format!("{host} has no domain after its first label"),
        Absence::ForeignDomain => {
            format!("{host} is not under any of the domains {}", config.domains.join(", "))
        }
        Absence::PlainLabel => format!("the label in {host} does not have the shape of a {}", form.pattern()),
    }
}

fn headers_of(form: Form, config: &FilterConfig) -> String {
    match form {
        Form::OpenSandboxHeader => opensandbox::INGRESS.join(" or "),
        Form::AgentSandboxHeader => agent_sandbox::ID.into(),
        _ => config.kruise.id_header.clone(),
    }
}
