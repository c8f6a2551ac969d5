//! `sandgate explain`: the gateway's own recognition and decision, run on a request given on the command
//! line.

use std::path::Path;
use std::process::ExitCode;

use sandgate_request::{
    ACCESS_TOKEN, Address, Decision, FilterConfig, Headers, Keyless, Media, Pass, Recognition, Refusal,
    SECURE_ACCESS, Step, Stop, Unaddressed, choose_reading, decide, has_refused_method, health_check,
    lookup_ids, recognise, reply,
};
use sandgate_routes::{
    Clash, Limits, ObjectKey, Observation, RouteReader, RouteTable, RouteWriter, Secret, State, Version,
};
use serde_json::Value;

use crate::admin::Admin;
use crate::args::Explain;
use crate::config::{Config, Manager};
use crate::failure::{Failure, failed, usage};
use crate::routes::{RouteView, one};
use crate::run::shipped_filter_config;
use crate::terminal::print;

mod hint;
mod report;
mod request;
#[cfg(test)]
mod tests;

use hint::{hint, is_word};
use report::{Found, Report, Verdict};

/// What a report says of a token of a running gateway.
const TAKEN: &str = "the admin pages never show tokens: the one sent is taken for right";

type Header = (String, Vec<u8>);

pub(crate) async fn explain(args: Explain) -> Result<ExitCode, Failure> {
    let config = Config::load(args.config.as_deref(), shipped_filter_config())?;
    let to_manager = config.manager.is_some().then(|| config.domains());
    let config = config.parsed;
    let headers = request::headers(&args.url, &args.method, &args.headers)?;
    // Read even where no sandbox is addressed: a wrong file is to be told, not to be passed over.
    let observed = args.routes.as_deref().map(read_routes).transpose()?;
    let steps = sandgate_request::explain(headers.as_slice(), &config);
    let table = match recognise(headers.as_slice(), &config) {
        Recognition::Addressed(address) => {
            let readings: Vec<Address> =
                [address.other_reading(), Some(address)].into_iter().flatten().collect();
            let ids: Vec<String> = readings.iter().flat_map(|address| lookup_ids(address, &config)).collect();
            look_up(&args, observed, &ids, &headers, &config).await?
        }
        // Not a request, but perhaps a sandbox.
        _ if is_word(&args.url) => {
            look_up(&args, observed, std::slice::from_ref(&args.url), &headers, &config).await?
        }
        _ => None,
    };
    let mut report = judge(&headers, &config, steps, table.as_ref());
    if to_manager.is_some_and(|domains| Manager::takes(headers.as_slice(), &domains)) {
        // Envoy has chosen its route before the filter would have looked at the request.
        (report.verdict, report.address, report.table) = (Verdict::Manager, None, None);
    }
    report.hint = hint(&args, &report, table.as_ref()).await?;
    let text = if args.json { report.to_json() } else { report.to_text() };
    print(&text);
    Ok(ExitCode::from(report.exit_code()))
}

/// A table with what is known of the sandbox, and where that is from.
struct Table {
    reader: RouteReader,
    source: String,
    note: Option<&'static str>,
}

/// Reads a routes file. An error names the file, and the place in it where there is one.
pub(crate) fn read_routes(path: &Path) -> Result<Vec<Observation>, Failure> {
    sandgate_watch::read_routes(path).map_err(|error| {
        let space = if error.place().is_some() { "" } else { " " };
        usage!("{}:{space}{error}", path.display())
    })
}

async fn look_up(
    args: &Explain,
    observed: Option<Vec<Observation>>,
    ids: &[String],
    headers: &[Header],
    config: &FilterConfig,
) -> Result<Option<Table>, Failure> {
    let (writer, reader) = RouteTable::new(Limits::default());
    let mut note = None;
    let source = if let Some((path, observed)) = args.routes.as_ref().zip(observed) {
        for observation in observed {
            writer.apply(observation);
        }
        writer.set_ready();
        format!("the routes file {}", path.display())
    } else if let Some(url) = &args.admin {
        let admin = Admin::new(url);
        for id in ids {
            if let Some(view) = one(&admin, id).await? {
                note = note.or(take_over(&writer, &view, headers, config)?);
            }
        }
        if is_ready(&admin).await? {
            writer.set_ready();
        }
        format!("the gateway at {}", admin.url())
    } else {
        return Ok(None);
    };
    Ok(Some(Table { reader, source, note }))
}

async fn is_ready(admin: &Admin) -> Result<bool, Failure> {
    let status = admin.get("/sandgate/status").await?;
    Ok(status.json().and_then(|json| json.get("ready").and_then(Value::as_bool)).unwrap_or_default())
}

/// Puts a route of the admin page into our table. The page has no tokens, so one that was sent is taken for
/// right.
fn take_over(
    writer: &RouteWriter,
    view: &RouteView,
    headers: &[Header],
    config: &FilterConfig,
) -> Result<Option<&'static str>, Failure> {
    let odd = |what: &str| failed!("the gateway's route {} has an odd {what}", view.id);
    let names: &[&str] = if view.secure_access { &[SECURE_ACCESS] } else { &[ACCESS_TOKEN, SECURE_ACCESS] };
    let secret =
        |token: &[u8]| if view.secure_access { Secret::secure_access(token) } else { Secret::new(token) };
    let sent = names
        .iter()
        .find_map(|name| headers.with(name, |token| token.map(|token| token.trim_ascii().to_vec())));
    let (token, note) = match (view.auth, sent) {
        (false, _) => (None, None),
        (true, Some(sent)) if !sent.is_empty() => (Some(secret(&sent)), Some(TAKEN)),
        // Nothing was sent, so anything but nothing will do.
        (true, _) => (Some(secret(b"a token")), None),
    };
    let sent = headers.with(config.traffic_header(), |token| token.map(|token| token.trim_ascii().to_vec()));
    let sent = sent.filter(|sent| !sent.is_empty() && view.traffic_token);
    let note = note.or(sent.is_some().then_some(TAKEN));
    let traffic_token = view.traffic_token.then(|| Secret::new(sent.unwrap_or_else(|| b"a token".to_vec())));
    let observed = Observation {
        key: ObjectKey::new(&view.provider, &view.namespace, &view.name).map_err(|_| odd("name"))?,
        id: view.id.clone(),
        uid: view.uid.clone(),
        owner: view.owner.clone(),
        state: view.state.parse().map_err(|_| odd("state"))?,
        version: view.version.parse::<Version>().map_err(|_| odd("version"))?,
        ip: view.ip.as_deref().map(str::parse).transpose().map_err(|_| odd("address"))?,
        token,
        traffic_token,
        require_traffic_auth: view.require_traffic_auth,
        clash: if view.ambiguous { Clash::Refuse } else { Clash::Rank },
        created: Some(1),
        ip_is_claimed: false,
        own_id: false,
    };
    if view.ambiguous {
        // The page shows the first of those who claim the ID, so the others are made up. They are of unknown
        // age, which makes them last.
        for name in ["other", "another"] {
            let other = ObjectKey::new(&view.provider, "~", name).map_err(|_| odd("name"))?;
            writer.apply(Observation { key: other, state: State::Paused, created: None, ..observed.clone() });
        }
    }
    writer.apply(observed);
    Ok(note)
}

/// The path without the tag of a signature. A sandbox that is not closed gets the tag as a part of its path;
/// what is printed here is copied into tickets.
fn without_tag(path: &str, address: &Address) -> String {
    let Some(signature) = address.signature() else { return path.to_owned() };
    path.replacen(&*String::from_utf8_lossy(signature.tag()), "*********", 1)
}

fn judge(headers: &[Header], config: &FilterConfig, steps: Vec<Step>, table: Option<&Table>) -> Report {
    let mut report = Report::new(steps);
    let refuse =
        |refusal: Refusal, address: Option<&Address>| Verdict::Refused(reply(refusal, address, Media::Json));
    match recognise(headers, config) {
        Recognition::Malformed { form, part } => {
            report.verdict = refuse(Refusal::Malformed { form, part }, None);
        }
        Recognition::Conflicting { taken, other } => {
            report.verdict = refuse(Refusal::Conflicting { taken, other }, None);
        }
        Recognition::Unaddressed => {
            report.verdict = match config.unaddressed() {
                _ if let Some(health) = health_check(headers, config) => Verdict::Health(health),
                Unaddressed::Pass => Verdict::Passed,
                Unaddressed::Refuse if has_refused_method(headers) => refuse(Refusal::Method, None),
                Unaddressed::Refuse => refuse(Refusal::Unaddressed, None),
            };
        }
        Recognition::Addressed(mut address) => {
            let Some(table) = table else {
                report.verdict = Verdict::NotAsked;
                report.address = Some(address);
                return report;
            };
            let ready = table.reader.is_ready();
            let pinned = table.reader.pin();
            // The keys are the gateway's: what can be judged without them is.
            let door = Keyless::default();
            let decision = match choose_reading(&mut address, &pinned, headers, config, &door) {
                Ok(()) => decide(&address, &pinned, ready, headers, config, &door),
                Err(Stop::Wait(wait)) => Decision::Wait(wait),
                Err(Stop::Refuse(refusal)) => Decision::Refuse(refusal),
            };
            let route = match decision {
                Decision::Forward(pass) => Some(pass.route),
                Decision::Wait(_) | Decision::Refuse(_) => {
                    sandgate_request::look_up(&address, &pinned, config)
                        .ok()
                        .or_else(|| pinned.get(address.id()))
                }
            };
            report.table = Some(Found::new(&table.source, ready, route, table.note));
            report.verdict = match decision {
                Decision::Forward(Pass { route, is_closed, .. }) => {
                    let path = headers.with(":path", |path| {
                        let path = path.unwrap_or_default();
                        let sent = address.rewrite(path, is_closed).unwrap_or(path.into());
                        without_tag(&String::from_utf8_lossy(&sent), &address)
                    });
                    let upstream = route.authority(address.port()).as_str().to_owned();
                    Verdict::Forwarded { upstream, path, rewritten: address.rewrites_path() }
                }
                Decision::Wait(_) => refuse(Refusal::AuthBusy, Some(&address)),
                Decision::Refuse(refusal) => refuse(refusal, Some(&address)),
            };
            report.address = Some(address);
        }
    }
    report
}
