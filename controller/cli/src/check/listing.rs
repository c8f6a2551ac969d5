//! The first list, read by the gateway's own source into a table that nobody serves from.
//!
//! Each scope is read once: where a gateway would try again, this says what it would try again for.

use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sandgate_routes::{Counts, Limits, RouteTable, State};
use sandgate_watch::{KubernetesSource, KubernetesStatusReader, ListMode, ScopeStatus, Watched};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::hints;
use super::report::{Line, Report};
use super::settings::Subject;
use super::tally::{Counted, Tally};
use crate::terminal::several;

/// How often to look whether the lists are in.
const POLL: Duration = Duration::from_millis(20);

/// What came of the lists.
pub(super) struct Listing {
    scopes: Vec<Scope>,
    tally: Tally,
    counts: Counts,
}

struct Scope {
    status: ScopeStatus,
    took: Duration,
}

impl Listing {
    /// Reads every scope of `watched`, until it is complete, fails, or brings nothing for `patience`.
    pub(super) async fn run(subject: &Subject, watched: &Watched, patience: Duration) -> Self {
        let tally = Tally::default();
        let provider = Arc::new(Counted { provider: Arc::clone(&watched.provider), tally: tally.clone() });
        let settings = subject.settings.clone().watching(vec![Watched { provider, ..watched.clone() }]);
        let (writer, reader) = RouteTable::new(Limits::default());
        let source = KubernetesSource::new(&settings, writer).admitting(subject.addresses.clone());
        let status = source.status();
        let progress = progress(watched.provider.name());
        let scopes = tokio::select! {
            scopes = follow(&status, &tally, patience, &progress) => scopes,
            () = source.run() => unreachable!("a source runs until it is dropped"),
        };
        progress.finish_and_clear();
        Listing { scopes, tally, counts: reader.counts() }
    }

    pub(super) fn report(&self, watched: &Watched, user: &str, report: &mut Report) {
        for Scope { status, took } in &self.scopes {
            let namespace = status.namespace.as_deref();
            let place = namespace.map_or(String::new(), |name| format!(" in {name}"));
            if !status.listed {
                let error = status.error.as_deref();
                let error = error.unwrap_or("nothing arrived within the --timeout, and no error either");
                let hint = match error.contains("a right is missing") {
                    true => {
                        hints::right(watched.provider.name(), watched.provider.resource(), namespace, user)
                    }
                    false => hints::list(error).to_owned(),
                };
                report.add(Line::fail("list", format!("failed{place}: {error}")).hint(hint));
                continue;
            }
            report.add(listed(status, *took, &place));
            report.add(self.sandboxes(watched, status, &place));
            if status.outside > 0 {
                let text = several(usize::try_from(status.outside).unwrap_or(usize::MAX), "object");
                report.add(
                    Line::warn(
                        "addresses",
                        format!("{text}{place} with an address that is none, or outside the pod ranges"),
                    )
                    .hint(hints::outside())
                    .data(json!({ "objects": status.outside })),
                );
            }
            if status.unreadable > 0 {
                report.add(unreadable(status, &place));
            }
        }
        let shared = self.counts.ambiguous + self.counts.takeovers;
        if shared > 0 {
            let text = several(usize::try_from(shared).unwrap_or(usize::MAX), "claim");
            report.add(
                Line::warn("shared IDs", format!("{text} to an ID that is another's"))
                    .hint(hints::shared_ids())
                    .data(json!({ "ambiguous": self.counts.ambiguous, "takeovers": self.counts.takeovers })),
            );
        }
    }

    fn sandboxes(&self, watched: &Watched, status: &ScopeStatus, place: &str) -> Line {
        let namespace = status.namespace.as_deref();
        let by_state = self.tally.by_state(namespace);
        let data: Map<String, Value> =
            by_state.iter().map(|(state, count)| (state.as_str().to_owned(), json!(count))).collect();
        let data = Value::Object(data);
        if by_state.is_empty() {
            let hint = hints::nothing_seen(watched.provider.resource(), namespace, &status.selector);
            return Line::warn("sandboxes", format!("none{place}")).hint(hint).data(data);
        }
        let text: Vec<String> = by_state.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let line = Line::ok("sandboxes", format!("{}{place}", text.join(", "))).data(data);
        if by_state.iter().all(|(state, _)| *state != State::Running) {
            return line.hint("only running ones are served");
        }
        line
    }
}

fn listed(status: &ScopeStatus, took: Duration, place: &str) -> Line {
    let objects = several(usize::try_from(status.objects).unwrap_or(usize::MAX), "object");
    let text = |how: &str| format!("{how}{place}: {objects} in {:.1} s", took.as_secs_f32());
    match status.mode {
        Some(ListMode::Paged) => Line::ok("list", text("in pages")).hint(
            "streaming lists (Kubernetes 1.34 has them on) spare the API server and a gateway some memory",
        ),
        _ => Line::ok("list", text("streaming")),
    }
    .data(json!({ "objects": status.objects, "mode": status.mode.map(ListMode::as_str) }))
}

fn unreadable(status: &ScopeStatus, place: &str) -> Line {
    let count = usize::try_from(status.unreadable).unwrap_or(usize::MAX);
    let named = status.unreadable_names.len();
    let some = if named < count { format!("; {named} of them") } else { String::new() };
    Line::fail("unreadable", format!("{}{place}{some}:", several(count, "object")))
        .details(status.unreadable_names.iter().map(|name| name.to_string()))
        .hint(hints::unreadable())
        .data(json!({ "objects": count }))
}

async fn follow(
    status: &KubernetesStatusReader,
    tally: &Tally,
    patience: Duration,
    progress: &ProgressBar,
) -> Vec<Scope> {
    let began = Instant::now();
    let mut done: Vec<Option<Scope>> = status.scopes().iter().map(|_| None).collect();
    let (mut seen, mut moved) = (0, began);
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = tally.seen();
        if now > seen {
            (seen, moved) = (now, Instant::now());
        }
        progress.set_position(now as u64);
        let late = moved.elapsed() >= patience;
        for (slot, status) in done.iter_mut().zip(status.scopes()) {
            if slot.is_none() && (status.listed || status.error.is_some() || late) {
                *slot = Some(Scope { status, took: began.elapsed() });
                moved = Instant::now();
            }
        }
        if done.iter().all(Option::is_some) {
            return done.into_iter().flatten().collect();
        }
    }
}

fn progress(name: &str) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let progress = ProgressBar::new_spinner().with_message(name.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{spinner} reading {msg}: {pos} objects, {elapsed}") {
        progress.set_style(style);
    }
    progress.enable_steady_tick(Duration::from_millis(120));
    progress
}
