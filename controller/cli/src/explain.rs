//! `sandgate explain`: the gateway's own recognition and decision, run on a request given on the command
//! line.

use std::path::Path;
use std::process::ExitCode;

use sandgate_request::{
    ACCESS_TOKEN, Address, Decision, FilterConfig, Headers, Media, Recognition, Refusal, SECURE_ACCESS, Step,
    Unaddressed, choose_reading, decide, has_refused_method, recognise, reply,
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
            let ids: Vec<&str> = readings.iter().map(Address::id).collect();
            look_up(&args, observed, &ids, &headers).await?
        }
        // Not a request, but perhaps a sandbox.
        _ if is_word(&args.url) => look_up(&args, observed, &[&args.url], &headers).await?,
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
    ids: &[&str],
    headers: &[Header],
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
        // A host is not case sensitive: the gateway looks for the id in lower case too.
        let as_sent_and_folded = |id: &&str| [(*id).to_owned(), id.to_ascii_lowercase()];
        for id in ids.iter().flat_map(as_sent_and_folded) {
            if let Some(view) = one(&admin, &id).await? {
                note = note.or(take_over(&writer, &view, headers)?);
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
        (true, Some(sent)) if !sent.is_empty() => {
            (Some(secret(&sent)), Some("the admin pages never show tokens: the one sent is taken for right"))
        }
        // Nothing was sent, so anything but nothing will do.
        (true, _) => (Some(secret(b"a token")), None),
    };
    let observed = Observation {
        key: ObjectKey::new(&view.provider, &view.namespace, &view.name).map_err(|_| odd("name"))?,
        id: view.id.clone(),
        uid: view.uid.clone(),
        owner: view.owner.clone(),
        state: view.state.parse().map_err(|_| odd("state"))?,
        version: view.version.parse::<Version>().map_err(|_| odd("version"))?,
        ip: view.ip.as_deref().map(str::parse).transpose().map_err(|_| odd("address"))?,
        token,
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
            let decision = match choose_reading(&mut address, &pinned) {
                Ok(()) => decide(&address, &pinned, ready, headers, config),
                Err(refusal) => Decision::Refuse(refusal),
            };
            let route = match decision {
                Decision::Forward(route) => Some(route),
                Decision::Refuse(_) => pinned.get(address.id()),
            };
            report.table = Some(Found::new(&table.source, ready, route, table.note));
            report.verdict = match decision {
                Decision::Forward(route) => {
                    let path = headers.with(":path", |path| {
                        let path = path.unwrap_or_default();
                        let sent = address.rewrite(path).unwrap_or(path.into());
                        String::from_utf8_lossy(&sent).into_owned()
                    });
                    let upstream = route.authority(address.port()).as_str().to_owned();
                    Verdict::Forwarded { upstream, path, rewritten: address.rewrites_path() }
                }
                Decision::Refuse(refusal) => refuse(refusal, Some(&address)),
            };
            report.address = Some(address);
        }
    }
    report
}
