//! `sandgate check`: connects to the cluster as a gateway would, with the gateway's own client, lists and
//! providers, and says line by line what works, what does not, and what helps.
//!
//! Nothing is changed in the cluster: reviews are questions that the API server stores nowhere. What a step
//! finds decides whether the next makes sense; what does not is left out, so that one cause is one failure.

use std::process::ExitCode;
use std::time::Duration;

use sandgate_watch::{Probe, ProbeError, Trouble, Watched};

use crate::args::Check;
use crate::failure::Failure;
use crate::terminal::print;

mod hints;
mod listing;
mod report;
mod settings;
mod tally;
#[cfg(test)]
mod tests;

use listing::Listing;
use report::{Line, Report};
use settings::Subject;

pub(crate) async fn check(args: Check) -> Result<ExitCode, Failure> {
    let subject = settings::subject(&args)?;
    let Subject { settings, optional, .. } = &subject;
    let timeout = Duration::from_secs(args.timeout);
    let mut report = Report::new(!args.json);
    let probe = Probe::new(settings, timeout);
    if let Some(user) = connect(&probe, &mut report).await {
        let mut good = Vec::new();
        for watched in settings.watched() {
            let found = examine(&probe, watched, &user, *optional, &mut report).await;
            if !found.namespaces.is_empty() {
                list(&subject, found, &user, timeout, &mut report).await;
                good.push(watched.provider.name());
            }
        }
        if *optional && good.is_empty() && !report.has_failed() {
            report.section("");
            report.add(Line::fail("providers", "no kind of sandbox that Sandgate knows is in this cluster").hint(
                "install OpenKruise Agents, agent-sandbox or OpenSandbox first, or describe another kind with a \
                 `generic` provider in --config",
            ));
        }
    }
    report.finish();
    if args.json {
        print(&format!("{:#}\n", report.to_json()));
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// Reaches the API server, and says who it takes us for. Nothing where there is no point in going on.
async fn connect(probe: &Probe, report: &mut Report) -> Option<String> {
    let server = match probe.server().await {
        Ok(server) => server,
        Err(error) => {
            report.add(Line::fail("config", &error.text).hint(hints::config()));
            return None;
        }
    };
    match probe.version().await {
        Ok(version) => report.add(Line::ok("API server", format!("{version} at {server}"))),
        // Who may ask for the version is the cluster's choice. It answered, and it knows who we are.
        Err(ProbeError { trouble: Trouble::Forbidden, .. }) => {
            report.add(Line::ok("API server", format!("at {server}; its version is not for us to see")));
        }
        Err(error) => {
            let text = format!("{server}: {}", error.text);
            report.add(Line::fail("API server", text).hint(hints::connection(error.trouble)));
            return None;
        }
    }
    match probe.user().await {
        Ok(user) if user == "system:anonymous" => {
            report.add(
                Line::warn("identity", "system:anonymous: no credentials were sent").hint(hints::anonymous()),
            );
            Some(user)
        }
        Ok(user) => {
            report.add(Line::ok("identity", &user));
            Some(user)
        }
        Err(error) if error.trouble == Trouble::Credentials => {
            report.add(Line::fail("identity", &error.text).hint(hints::connection(error.trouble)));
            None
        }
        Err(error) => {
            let text = format!("not known: {}", error.text);
            report.add(Line::warn("identity", text).hint(
                "the API server answers this from Kubernetes 1.28 on; the rights below do not depend on it",
            ));
            Some(String::new())
        }
    }
}

/// Looks for the definition and for the rights. What is returned can be listed.
async fn examine(probe: &Probe, watched: &Watched, user: &str, optional: bool, report: &mut Report) -> Found {
    let resource = watched.provider.resource();
    let mut found = Found { watched: watched.clone(), namespaces: Vec::new() };
    report.section(&title(watched));
    match probe.served_versions(resource).await {
        Ok(versions) if versions.contains(&resource.version) => {
            report.add(Line::ok("definition", format!("served, in {}", versions.join(", "))));
        }
        Ok(versions) if versions.is_empty() && optional => {
            report.add(Line::skip("definition", "not in this cluster").hint(hints::not_installed()));
            return found;
        }
        Ok(versions) if versions.is_empty() => {
            report.add(
                Line::fail("definition", "the API server does not know this kind")
                    .hint(hints::definition(resource)),
            );
            return found;
        }
        Ok(versions) => {
            let (wanted, others) = (&resource.version, versions.join(", "));
            report.add(
                Line::fail("definition", format!("{wanted} is not served, but {others}"))
                    .hint(hints::version(resource, &others)),
            );
            return found;
        }
        Err(error) => {
            let text = format!("cannot be looked for: {}", error.text);
            report.add(Line::warn("definition", text).hint(hints::discovery(error.trouble)));
        }
    }
    let all = watched.namespaces.is_empty().then_some(None);
    for namespace in all.into_iter().chain(watched.namespaces.iter().map(|name| Some(name.as_str()))) {
        let mut may = true;
        for verb in ["list", "watch"] {
            may &= right(probe, watched, namespace, verb, user, report).await;
        }
        if may {
            found.namespaces.push(namespace.map(ToOwned::to_owned));
        }
    }
    found
}

async fn right(
    probe: &Probe,
    watched: &Watched,
    namespace: Option<&str>,
    verb: &str,
    user: &str,
    report: &mut Report,
) -> bool {
    let name = format!("right to {verb}");
    let place = namespace.map_or("in all namespaces".to_owned(), |name| format!("in {name}"));
    match probe.may(verb, watched.provider.resource(), namespace).await {
        Ok(right) if right.allowed => {
            report.add(Line::ok(name, place));
            true
        }
        Ok(right) => {
            let because = if right.reason.is_empty() { String::new() } else { format!(": {}", right.reason) };
            let provider = &watched.provider;
            let hint = hints::right(provider.name(), provider.resource(), namespace, user);
            report.add(Line::fail(name, format!("missing {place}{because}")).hint(hint));
            false
        }
        Err(error) => {
            let text = format!("cannot be asked for: {}; the list below tells", error.text);
            report.add(Line::warn(name, text).hint(hints::discovery(error.trouble)));
            true
        }
    }
}

/// What can be listed of a provider's objects: one entry for all namespaces, or one for each.
struct Found {
    watched: Watched,
    namespaces: Vec<Option<String>>,
}

/// Brings the objects into a table of our own, as a gateway does, and tells what came.
async fn list(subject: &Subject, found: Found, user: &str, timeout: Duration, report: &mut Report) {
    let Found { mut watched, namespaces } = found;
    watched.namespaces = namespaces.into_iter().flatten().collect();
    let listing = Listing::run(subject, &watched, timeout).await;
    listing.report(&watched, user, report);
    if watched.provider.address_is_claimed() && !subject.addresses.has_ranges() {
        report.add(
            Line::warn("pod-ranges", "not given, and whoever may write an object writes its address too")
                .hint(hints::pod_ranges()),
        );
    }
}

fn title(watched: &Watched) -> String {
    let resource = watched.provider.resource();
    let group = if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
    let names = &watched.namespaces;
    let place = if names.is_empty() { "all namespaces".to_owned() } else { names.join(", ") };
    let selector = &watched.label_selector;
    let labels = if selector.is_empty() { String::new() } else { format!(", with labels {selector}") };
    format!("{}: {}{group}/{} in {place}{labels}", watched.provider.name(), resource.plural, resource.version)
}
