//! What `explain` found, for people and for programs.

use std::fmt::Write as _;

use sandgate_request::{Address, Health, Reply, Step, StepOutcome};
use sandgate_routes::{Route, TokenKind};
use serde_json::{Value, json};

pub(super) struct Report {
    pub(super) steps: Vec<Step>,
    pub(super) address: Option<Address>,
    pub(super) table: Option<Found>,
    pub(super) verdict: Verdict,
    /// What was probably meant.
    pub(super) hint: Option<String>,
}

/// What the table says of the sandbox.
pub(super) struct Found {
    source: String,
    ready: bool,
    route: Option<Value>,
    note: Option<&'static str>,
}

pub(super) enum Verdict {
    Forwarded {
        upstream: String,
        path: String,
        rewritten: bool,
    },
    Refused(Reply),
    /// Is a health check, which the gateway answers.
    Health(Health),
    /// Is for the manager's API.
    Manager,
    /// Addresses no sandbox and goes on untouched.
    Passed,
    /// Addresses a sandbox, and there was no table to ask.
    NotAsked,
}

impl Found {
    pub(super) fn new(source: &str, ready: bool, route: Option<&Route>, note: Option<&'static str>) -> Self {
        let route = route.map(|route| {
            json!({
                "object": route.key().to_string(),
                "id": route.id(),
                "uid": &*route.uid(),
                "state": route.state().as_str(),
                "ip": route.ip().map(|ip| ip.to_string()),
                "auth": route.token().is_some(),
                "secureAccess": route.token().is_some_and(|token| token.kind() == TokenKind::SecureAccess),
                "trafficToken": route.traffic_token().is_some(),
                "requireTrafficAuth": route.require_traffic_auth(),
                "ambiguous": route.is_ambiguous(),
            })
        });
        Found { source: source.to_owned(), ready, route, note }
    }
}

impl Report {
    pub(super) fn new(steps: Vec<Step>) -> Self {
        Report { steps, address: None, table: None, verdict: Verdict::Passed, hint: None }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self.verdict {
            Verdict::Forwarded { .. } | Verdict::Health(_) | Verdict::Manager | Verdict::NotAsked => 0,
            Verdict::Refused(_) | Verdict::Passed => 1,
        }
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = "Forms, in the order they are tried:\n".to_owned();
        for step in &self.steps {
            let (mark, _) = words(&step.outcome);
            let _ = writeln!(text, "  {mark:<4}{:<22}{}", step.form.as_str(), step.reason);
        }
        if let Some(address) = &self.address {
            let (id, port, dialect) = (address.id(), address.port(), address.dialect().as_str());
            let _ = writeln!(text, "\nAddressed: sandbox {id}, port {port}, in the dialect {dialect}");
            if let Some(signature) = address.signature() {
                let _ = writeln!(text, "Signed:    {}", until(signature.expires()));
            }
        } else {
            text.push_str("\nAddressed: no sandbox\n");
        }
        if let Some(table) = &self.table {
            let _ = writeln!(text, "Table:     {}", table.to_text());
            if let Some(note) = table.note {
                let _ = writeln!(text, "Note:      {note}");
            }
        }
        let answer = match &self.verdict {
            Verdict::Forwarded { upstream, path, rewritten } => {
                let how = if *rewritten { "the path rewritten to" } else { "the path unchanged," };
                format!("forwarded to {upstream}, {how} {path}")
            }
            Verdict::Refused(reply) => {
                let body: Value = serde_json::from_str(&reply.body).unwrap_or_default();
                let why = body.get("message").and_then(Value::as_str).unwrap_or("a page that says so");
                format!("{} {}: {why}", reply.status, reply.details)
            }
            Verdict::Health(Health::Live) => "200: a health check of the gateway".to_owned(),
            Verdict::Health(Health::Ready) => {
                "a health check of the gateway: 200 when its table is complete, 503 before".to_owned()
            }
            Verdict::Manager => "forwarded to the manager, as it is: it is for the API".to_owned(),
            Verdict::Passed => "passed on untouched, to whatever else the gateway routes".to_owned(),
            Verdict::NotAsked => "not known; ask a table with --routes FILE or --admin URL".to_owned(),
        };
        let _ = writeln!(text, "Answer:    {answer}");
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "Hint:      {hint}");
        }
        text
    }

    pub(super) fn to_json(&self) -> String {
        let forms: Vec<Value> = self
            .steps
            .iter()
            .map(|step| {
                let (_, outcome) = words(&step.outcome);
                json!({ "form": step.form.as_str(), "outcome": outcome, "reason": step.reason })
            })
            .collect();
        let address = self.address.as_ref().map(|address| {
            json!({
                "id": address.id(),
                "port": address.port(),
                "dialect": address.dialect().as_str(),
                "form": address.form().as_str(),
                "signature": address.signature().map(|signature| json!({ "expires": signature.expires() })),
            })
        });
        let table = self.table.as_ref().map(|table| {
            json!({ "source": table.source, "ready": table.ready, "route": table.route, "note": table.note })
        });
        let answer = match &self.verdict {
            Verdict::Forwarded { upstream, path, .. } => {
                json!({ "outcome": "forwarded", "upstream": upstream, "path": path })
            }
            Verdict::Refused(reply) => {
                let body: Value = serde_json::from_str(&reply.body).unwrap_or_default();
                json!({
                    "outcome": "refused",
                    "status": reply.status,
                    "details": reply.details,
                    "message": body.get("message"),
                })
            }
            Verdict::Health(_) => json!({ "outcome": "health-check" }),
            Verdict::Manager => json!({ "outcome": "manager" }),
            Verdict::Passed => json!({ "outcome": "passed" }),
            Verdict::NotAsked => json!({ "outcome": "not-asked" }),
        };
        let report = json!({ "forms": forms, "address": address, "table": table, "answer": answer, "hint": self.hint });
        format!("{report:#}\n")
    }
}

/// Until when a signature is good. Whether it is, only a gateway with the keys can say.
fn until(expires: u64) -> String {
    let at = i64::try_from(expires).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    match at {
        Some(at) => format!("until {at}, which is {expires} in Unix seconds"),
        None => format!("until {expires} in Unix seconds"),
    }
}

/// What an outcome is called: in the text, and in JSON.
fn words(outcome: &StepOutcome) -> (&'static str, &'static str) {
    match outcome {
        StepOutcome::Addressed(_) => ("yes", "addressed"),
        StepOutcome::Alternative(_) => ("or", "alternative"),
        StepOutcome::Agrees => ("too", "agrees"),
        StepOutcome::Conflicting => ("bad", "conflicting"),
        StepOutcome::Malformed(_) => ("bad", "malformed"),
        StepOutcome::Off => ("off", "off"),
        StepOutcome::Absent => ("no", "absent"),
        StepOutcome::Reserved => ("no", "reserved"),
        StepOutcome::NotTried => ("-", "not-tried"),
    }
}

impl Found {
    fn to_text(&self) -> String {
        let source = &self.source;
        let Some(route) = &self.route else { return format!("no such sandbox, says {source}") };
        let text = |key: &str| route.get(key).and_then(Value::as_str).unwrap_or("-");
        let is = |key: &str| route.get(key).and_then(Value::as_bool).unwrap_or_default();
        let mut line = format!("{} is {}", text("object"), text("state"));
        if route.get("ip").is_some_and(Value::is_string) {
            let _ = write!(line, " at {}", text("ip"));
        }
        if is("secureAccess") {
            line.push_str(", is closed with a token");
        } else if is("auth") {
            line.push_str(", has a token");
        }
        if is("trafficToken") {
            line.push_str(", has a traffic token");
        }
        if is("requireTrafficAuth") {
            line.push_str(", wants verified traffic");
        }
        if is("ambiguous") {
            line.push_str(", and is not the only one with this id");
        }
        if !self.ready {
            line.push_str("; the table is not complete yet");
        }
        format!("{line}, says {source}")
    }
}
