//! How an address was found, form by form, for people.

mod sandbox_id;
#[cfg(test)]
mod tests;

use crate::{
    Address, FilterConfig, Form, Headers, Part, Recognition, RouteSignature,
    recognise::{
        Absence, Attempt, conflict, forms,
        host::{NoReading, Readings, SentHost, first_form},
        sandbox_id::{SANDBOX_ID, SANDBOX_PORT},
    },
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
    /// Its shape is not there, or what is there names nothing.
    Absent,
    /// It is there and valid: this is the address.
    Addressed(Box<Address>),
    /// A second reading of the host or the header that is the address: the table decides between the two.
    Alternative(Box<Address>),
    /// It is there and names the same as the address.
    Agrees,
    /// It is there and names another sandbox or port than the address: the request is refused.
    Conflicting,
    /// It is there, but this part is wrong: the request is refused.
    Malformed(Part),
    /// It is the manager's API: the request addresses no sandbox.
    Reserved,
    /// An earlier form had settled it.
    NotTried,
}

/// Tries the forms as [`recognise`](crate::recognise()) does and says why each was taken or not. One step for
/// each form, in order. Not for the request path: it allocates and reads headers more often.
pub fn explain<H: Headers + ?Sized>(headers: &H, config: &FilterConfig) -> Vec<Step> {
    let mut taken: Option<Address> = None;
    let mut ended_by: Option<Form> = None;
    Form::ALL
        .into_iter()
        .map(|form| {
            let settled_by =
                ended_by.or_else(|| taken.as_ref().filter(|_| form.is_weak()).map(Address::form));
            if let Some(earlier) = settled_by {
                let reason = format!("not tried, since {} had settled it", earlier.as_str());
                return Step { form, outcome: StepOutcome::NotTried, reason };
            }
            let step = match form {
                Form::KruiseHost | Form::OpenSandboxHost => host(form, headers, config, taken.as_ref()),
                Form::AgentSandboxHeader | Form::SandboxEnvHeader => {
                    sandbox_id::step(form, headers, config, taken.as_ref())
                }
                _ => {
                    let (attempt, address) = attempt(form, headers, config);
                    compare(describe(form, attempt, address, config), taken.as_ref())
                }
            };
            match &step.outcome {
                StepOutcome::Addressed(address) => taken = Some((**address).clone()),
                StepOutcome::Malformed(_) | StepOutcome::Conflicting | StepOutcome::Reserved => {
                    ended_by = Some(form);
                }
                _ => {}
            }
            step
        })
        .collect()
}

/// What the steps come to, which is what [`recognise`](crate::recognise()) says of the same request.
pub fn concluded(steps: &[Step]) -> Recognition {
    let addressed = steps.iter().find_map(|step| match &step.outcome {
        StepOutcome::Addressed(address) => Some((**address).clone()),
        _ => None,
    });
    let ended = steps.iter().find_map(|step| match (&step.outcome, &addressed) {
        (StepOutcome::Malformed(part), _) => Some(Recognition::Malformed { form: step.form, part: *part }),
        (StepOutcome::Reserved, _) => Some(Recognition::Unaddressed),
        (StepOutcome::Conflicting, Some(address)) => {
            Some(Recognition::Conflicting { taken: address.form(), other: step.form })
        }
        _ => None,
    });
    ended.or(addressed.map(Recognition::Addressed)).unwrap_or(Recognition::Unaddressed)
}

/// Tries one form alone.
fn attempt<H: Headers + ?Sized>(
    form: Form,
    headers: &H,
    config: &FilterConfig,
) -> (Attempt, Option<Address>) {
    let mut taken = None;
    let attempt = match form {
        Form::KruisePath => headers.with(":path", |path| forms::kruise_path(path, config, &mut taken)),
        Form::KruiseHeader => forms::kruise_header(headers, config, &mut taken),
        Form::OpenSandboxHeader => forms::opensandbox_header(headers, config, &mut taken),
        // Forms that share a text are read by functions of their own.
        Form::KruiseHost | Form::OpenSandboxHost => Attempt::Absent(Absence::NoHost),
        Form::AgentSandboxHeader | Form::SandboxEnvHeader => Attempt::Absent(Absence::NoHeader),
        Form::SandboxEnvPath => {
            headers.with(":path", |path| forms::sandbox_env_path(path, config, &mut taken))
        }
        Form::OpenSandboxProxyPath => {
            headers.with(":path", |path| forms::opensandbox_proxy_path(path, config, &mut taken))
        }
        Form::OpenSandboxPath => {
            headers.with(":path", |path| forms::opensandbox_path(path, config, &mut taken))
        }
    };
    (attempt, taken)
}

/// Beside an address another one has to be the same.
fn compare(step: Step, taken: Option<&Address>) -> Step {
    let (StepOutcome::Addressed(address), Some(taken)) = (&step.outcome, taken) else { return step };
    let agrees = taken.agrees_with(address);
    beside(step.form, agrees, &step.reason, taken)
}

fn beside(form: Form, agrees: bool, names: &str, taken: &Address) -> Step {
    let taken = taken.form().as_str();
    let (outcome, reason) = if agrees {
        (StepOutcome::Agrees, format!("{names}: the same as in {taken}"))
    } else {
        (StepOutcome::Conflicting, format!("{names}: not what {taken} names"))
    };
    Step { form, outcome, reason }
}

/// One of the two host forms, which read one text.
fn host<H: Headers + ?Sized>(
    form: Form,
    headers: &H,
    config: &FilterConfig,
    taken: Option<&Address>,
) -> Step {
    SentHost::read(headers, config, |sent| {
        let SentHost { name, value, repeated } = sent;
        let describe = |attempt, address| describe_in(name, form, attempt, address, config);
        let any = config.kruise.host || config.opensandbox.host;
        if repeated && any && form == first_form(config) {
            return describe(Attempt::Malformed(Part::Repeated), None);
        }
        let readings = Readings::of(value.filter(|_| !repeated), config);
        let (own, other) = match form {
            Form::KruiseHost => (&readings.kruise, &readings.opensandbox),
            _ => (&readings.opensandbox, &readings.kruise),
        };
        let reading = match own {
            Ok(reading) => reading,
            Err(NoReading::Absent(absence)) => {
                return describe(Attempt::Absent(*absence), None);
            }
            // A wrong part is passed over beside a good reading or another address.
            Err(NoReading::Malformed(part)) => {
                let mut step = describe(Attempt::Malformed(*part), None);
                if other.is_ok() || taken.is_some() {
                    step.outcome = StepOutcome::Absent;
                }
                return step;
            }
        };
        let signed = reading.signature.as_ref().map_or(String::new(), until);
        let id = String::from_utf8_lossy(reading.id);
        let names = format!("sandbox {id}, port {}{signed}", reading.port);
        match taken {
            None => {
                let mut address = None;
                let (_, attempt) = readings.attempt(&mut address);
                describe(attempt, address)
            }
            Some(taken) if taken.form() == Form::KruiseHost => match taken.other_reading() {
                Some(alternative) => Step {
                    form,
                    outcome: StepOutcome::Alternative(Box::new(alternative)),
                    reason: format!("or {names}: the table decides which one is meant"),
                },
                None => beside(form, true, &names, taken),
            },
            Some(taken) => match conflict(taken, &readings) {
                // Told once, by the form that the refusal names.
                Some(other) if other == form => beside(form, false, &names, taken),
                _ if taken.agrees_with_host(reading) => beside(form, true, &names, taken),
                _ => Step {
                    form,
                    outcome: StepOutcome::Absent,
                    reason: format!("{names}, but the other host form names the same as the address"),
                },
            },
        }
    })
}

fn describe(form: Form, attempt: Attempt, address: Option<Address>, config: &FilterConfig) -> Step {
    describe_in(&config.host_header, form, attempt, address, config)
}

/// The same for a host that is from this header.
fn describe_in(
    host: &str,
    form: Form,
    attempt: Attempt,
    address: Option<Address>,
    config: &FilterConfig,
) -> Step {
    let (outcome, reason) = match (attempt, address) {
        (Attempt::Absent(Absence::Off), _) => (StepOutcome::Off, "switched off in the config".into()),
        (Attempt::Absent(absence), _) => (StepOutcome::Absent, missing(form, absence, host, config)),
        (Attempt::Reserved, _) => {
            (StepOutcome::Reserved, "/kruise/api is the manager's API and never a sandbox".into())
        }
        (Attempt::Malformed(part), _) => {
            let reason =
                format!("the shape is there, but not a valid {}: {}", part.as_str(), part.expectation());
            (StepOutcome::Malformed(part), reason.trim_end_matches('.').into())
        }
        // Nothing was taken before it, so there is nothing to be in conflict with.
        (Attempt::Addressed | Attempt::Conflicting(_), None) => {
            (StepOutcome::Absent, "nothing to take".into())
        }
        (Attempt::Addressed | Attempt::Conflicting(_), Some(address)) => {
            let path = if address.rewrites_path() { ", and the prefix leaves the path" } else { "" };
            let signed = address.signature().map_or(String::new(), until);
            let reason = format!("sandbox {}, port {}{signed}{path}", address.id(), address.port());
            (StepOutcome::Addressed(Box::new(address)), reason)
        }
    };
    Step { form, outcome, reason }
}

/// That there is a signature, and until when it is good. What it says is a credential.
fn until(signature: &RouteSignature) -> String {
    format!(", signed until {} in Unix seconds", signature.expires())
}

fn missing(form: Form, absence: Absence, host: &str, config: &FilterConfig) -> String {
    match absence {
        Absence::Off => "switched off in the config".into(),
        Absence::NoHeader => format!("no header {}", headers_of(form, config)),
        Absence::NoPrefix => "the path does not begin with /kruise/".into(),
        Absence::NotIdAndPort => {
            let begin = match form {
                Form::SandboxEnvPath => "/sandboxes/, an ID",
                Form::OpenSandboxProxyPath => "/sandboxes/ or /v1/sandboxes/, an ID, /proxy/",
                _ => "an ID",
            };
            format!("the path does not begin with {begin} and a segment of digits")
        }
        Absence::NoPort => format!("no header {SANDBOX_PORT}, which has no default here"),
        Absence::HasNamespace => "a namespace is sent, so the header holds a name and no ID".into(),
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
        Form::OpenSandboxHeader => forms::INGRESS.join(" or "),
        Form::AgentSandboxHeader | Form::SandboxEnvHeader => SANDBOX_ID.into(),
        _ => config.kruise.id_header.clone(),
    }
}
