//! The two forms of `X-Sandbox-ID`, which read one text.

use super::{Step, StepOutcome, beside, describe};
use crate::recognise::host::NoReading;
use crate::recognise::sandbox_id::IdReadings;
use crate::recognise::{Attempt, recognise};
use crate::{Address, FilterConfig, Form, Headers, Recognition};

/// One of the two forms. `taken` is the address of an earlier form.
pub(super) fn step<H: Headers + ?Sized>(
    form: Form,
    headers: &H,
    config: &FilterConfig,
    taken: Option<&Address>,
) -> Step {
    let [agent_sandbox, sandbox_env] = IdReadings::read(headers, config, |readings| readings.addresses());
    let is_first = form == Form::AgentSandboxHeader;
    let (own, other) =
        if is_first { (agent_sandbox, sandbox_env.ok()) } else { (sandbox_env, agent_sandbox.ok()) };
    let own = match own {
        Ok(own) => own,
        Err(NoReading::Absent(absence)) => return describe(form, Attempt::Absent(absence), None, config),
        // A wrong part is passed over beside a good reading.
        Err(NoReading::Malformed(part)) => {
            let mut step = describe(form, Attempt::Malformed(part), None, config);
            if other.is_some() {
                step.outcome = StepOutcome::Absent;
            }
            return step;
        }
    };
    let names = format!("sandbox {}, port {}", own.id(), own.port());
    match (taken, other) {
        (None, other) if is_first => first(own, other.is_some(), &names, headers, config),
        (None, _) => describe(form, Attempt::Addressed, Some(own), config),
        // The first form has become the address: only the second one gets here.
        (Some(taken), _) if taken.form() == Form::AgentSandboxHeader => match taken.other_reading() {
            Some(alternative) => Step {
                form,
                outcome: StepOutcome::Alternative(Box::new(alternative)),
                reason: format!("or {names}: the table decides which one is meant"),
            },
            None => passed_over(form, &names, "the host"),
        },
        (Some(taken), _) if taken.agrees_with(&own) => beside(form, true, &names, taken),
        // A conflict with both readings is told by the first form.
        (Some(taken), Some(other)) if !is_first || taken.agrees_with(&other) => {
            passed_over(form, &names, taken.form().as_str())
        }
        (Some(taken), _) => beside(form, false, &names, taken),
    }
}

/// The first form where nothing before it is the address. A host may choose the second one.
fn first<H: Headers + ?Sized>(
    own: Address,
    has_other: bool,
    names: &str,
    headers: &H,
    config: &FilterConfig,
) -> Step {
    let form = Form::AgentSandboxHeader;
    let address = match recognise(headers, config) {
        Recognition::Addressed(chosen) if chosen.form() == Form::SandboxEnvHeader => {
            return passed_over(form, names, "the host");
        }
        Recognition::Addressed(chosen) => chosen,
        _ if has_other => own.or_as_sandbox_env(),
        _ => own,
    };
    describe(form, Attempt::Addressed, Some(address), config)
}

fn passed_over(form: Form, names: &str, by: &str) -> Step {
    let reason = format!("{names}, but {by} names the same as the other reading of the header");
    Step { form, outcome: StepOutcome::Absent, reason }
}
