//! `sandgate routes`: the table of a running gateway, from its admin pages.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::admin::{Admin, Answer};
use crate::args::Routes;
use crate::failure::{Failure, failed};
use crate::terminal::{note, print};

#[cfg(test)]
mod tests;

const PAGE: usize = 1000;
const MOST_DISPLACED: usize = 10_000;
/// How long a page of a large table may take to be made.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two questions for it.
const AGAIN: Duration = Duration::from_millis(50);

/// A route as the admin page shows it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RouteView {
    pub(crate) id: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) provider: String,
    pub(crate) uid: String,
    pub(crate) owner: String,
    pub(crate) state: String,
    pub(crate) ip: Option<String>,
    pub(crate) version: String,
    pub(crate) identity: u64,
    pub(crate) auth: bool,
    /// The owner has closed it with its token. A gateway that does not say so knows no such tokens.
    #[serde(default)]
    pub(crate) secure_access: bool,
    /// It has a traffic token. A gateway that does not say so knows no such tokens.
    #[serde(default)]
    pub(crate) traffic_token: bool,
    pub(crate) require_traffic_auth: bool,
    /// Other objects claim the ID too, and none is served. A gateway that does not say so has no such routes.
    #[serde(default)]
    pub(crate) ambiguous: bool,
}

#[derive(Deserialize)]
struct Page {
    routes: Vec<RouteView>,
    next: Option<String>,
    /// How many are not served under the ID they claim.
    #[serde(default)]
    displaced: u64,
}

pub(crate) async fn routes(args: Routes) -> Result<ExitCode, Failure> {
    let admin = Admin::new(&args.admin);
    if let Some(id) = &args.id {
        let Some(route) = one(&admin, id).await? else {
            return Err(failed!("no route has the id {id}"));
        };
        print(&if args.json { to_json(&route) } else { describe(&route) });
        return Ok(ExitCode::SUCCESS);
    }
    if args.digest {
        let digest = digest(&admin).await?;
        print(&if args.json { to_json(&digest) } else { digest + "\n" });
        return Ok(ExitCode::SUCCESS);
    }
    let (routes, displaced) =
        if args.displaced { (displaced(&admin).await?, 0) } else { all(&admin, &args).await? };
    if args.json {
        print(&to_json(&routes));
    } else if routes.is_empty() {
        note(if args.displaced { "every sandbox has the id it claims" } else { "no routes" });
    } else {
        print(&table(&routes));
    }
    if displaced > 0 {
        note(&format!(
            "{displaced} more are not served, because another sandbox has the id they claim: sandgate routes --displaced"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// The route with this id, if the gateway has one.
pub(crate) async fn one(admin: &Admin, id: &str) -> Result<Option<RouteView>, Failure> {
    let answer = ask(admin, &[("id", id)]).await?;
    if answer.status == 404 && answer.json().is_some() {
        return Ok(None);
    }
    read(admin, &answer).map(Some)
}

/// Those who are not served under the ID they claim, as many as a page can have.
async fn displaced(admin: &Admin) -> Result<Vec<RouteView>, Failure> {
    let limit = MOST_DISPLACED.to_string();
    let page: Page = read(admin, &ask(admin, &[("displaced", "1"), ("limit", &limit)]).await?)?;
    Ok(page.routes)
}

/// The routes that were asked for, and how many sandboxes have none because another has the ID they claim.
async fn all(admin: &Admin, args: &Routes) -> Result<(Vec<RouteView>, u64), Failure> {
    let limit = PAGE.to_string();
    let mut routes = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut query = vec![("limit", limit.as_str())];
        let filters = [("state", &args.state), ("namespace", &args.namespace), ("prefix", &args.prefix)];
        for (name, value) in filters.into_iter().chain([("after", &after)]) {
            query.extend(value.as_deref().map(|value| (name, value)));
        }
        let page: Page = read(admin, &ask(admin, &query).await?)?;
        routes.extend(page.routes);
        // A page that does not go on would be asked for again and again.
        match page.next {
            Some(next) if after.as_ref().is_none_or(|after| next > *after) => after = Some(next),
            _ => return Ok((routes, page.displaced)),
        }
    }
}

/// The digest of the gateway's table.
async fn digest(admin: &Admin) -> Result<String, Failure> {
    let page = "/sandgate/status";
    let answer = fetch(admin, page, "digest=1").await?;
    let json = answer.json().unwrap_or_default();
    let otherwise = "no digest: is this a Sandgate gateway of this version?";
    let digest = json["digest"].as_str().filter(|_| answer.status == 200);
    digest.map(str::to_owned).ok_or_else(|| refused(admin, page, &answer, otherwise))
}

async fn ask(admin: &Admin, query: &[(&str, &str)]) -> Result<Answer, Failure> {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    fetch(admin, "/sandgate/routes", &query).await
}

/// Asks for a page. One that looks at a large table is made while we wait: it is asked for again, by the
/// job's number.
async fn fetch(admin: &Admin, page: &str, query: &str) -> Result<Answer, Failure> {
    let deadline = Instant::now() + PATIENCE;
    let mut asked = format!("{page}?{query}");
    loop {
        let answer = admin.get(&asked).await?;
        let json = answer.json().unwrap_or_default();
        match answer.status {
            202 => {
                let Some(job) = json["job"].as_u64() else { return Ok(answer) };
                asked = format!("{page}?job={job}");
            }
            // Others have pages made; Envoy itself answers 503 without a word of ours.
            503 if json.get("error").is_some() => {}
            _ => return Ok(answer),
        }
        if Instant::now() >= deadline {
            let waited = PATIENCE.as_secs();
            return Err(failed!("{}{page} was not made within {waited} seconds", admin.url()));
        }
        sleep(AGAIN).await;
    }
}

fn read<T: for<'a> Deserialize<'a>>(admin: &Admin, answer: &Answer) -> Result<T, Failure> {
    if answer.status == 200
        && let Ok(value) = serde_json::from_slice(&answer.body)
    {
        return Ok(value);
    }
    Err(refused(admin, "/sandgate/routes", answer, "is this the admin address of a Sandgate gateway?"))
}

/// What the page says is wrong, or what probably is.
fn refused(admin: &Admin, page: &str, answer: &Answer, otherwise: &str) -> Failure {
    let json = answer.json().unwrap_or_default();
    let reason = json["error"].as_str().unwrap_or(otherwise);
    failed!("{}{page} answered {}: {reason}", admin.url(), answer.status)
}

fn describe(route: &RouteView) -> String {
    let mut text = String::new();
    let rows = [
        ("id", route.id.as_str()),
        ("object", &format!("{}:{}/{}", route.provider, route.namespace, route.name)),
        ("uid", &route.uid),
        ("owner", dash(&route.owner)),
        ("state", state(route)),
        ("ip", route.ip.as_deref().unwrap_or("-")),
        ("version", &route.version),
        ("identity", &route.identity.to_string()),
        ("auth", &auth(route)),
    ];
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<10}{value}");
    }
    text
}

fn dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn state(route: &RouteView) -> &str {
    if route.ambiguous { "ambiguous" } else { &route.state }
}

/// The credentials that the route asks for.
fn auth(route: &RouteView) -> String {
    let asked = [
        ("token", route.auth && !route.secure_access),
        ("secure", route.auth && route.secure_access),
        ("traffic", route.traffic_token),
        ("jwt", route.require_traffic_auth),
    ];
    let words: Vec<_> = asked.iter().filter(|(_, is_asked)| *is_asked).map(|(word, _)| *word).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(",") }
}

fn table(routes: &[RouteView]) -> String {
    let mut rows = vec![["ID", "OBJECT", "STATE", "IP", "OWNER", "AUTH", "VERSION"].map(str::to_owned)];
    rows.extend(routes.iter().map(|route| {
        [
            route.id.clone(),
            format!("{}:{}/{}", route.provider, route.namespace, route.name),
            state(route).to_owned(),
            route.ip.clone().unwrap_or_else(|| "-".to_owned()),
            dash(&route.owner).to_owned(),
            auth(route),
            route.version.clone(),
        ]
    }));
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(&row) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
