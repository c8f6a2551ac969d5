//! `sandgate push`: read what to say, say it to every gateway, tell what became of it.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, io, thread};

use sandgate_follow::Access;
use sandgate_peering::{
    Credentials, Delivery, MessageError, PeerAddress, Peers, PushSettings, Pusher, RouteMessage, Ticket,
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::args::Push;
use crate::failure::{Failure, usage};
use crate::terminal::{note, print};

#[cfg(test)]
mod tests;

/// Messages under way at a time.
const UNDER_WAY: usize = 5000;

pub(crate) async fn push(args: &Push) -> Result<ExitCode, Failure> {
    let peers = peers(args)?;
    let credentials = credentials(args)?;
    let only = if args.stdin { None } else { Some(message(args)?) };
    let pusher = Pusher::start(PushSettings::default(), peers, &credentials)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let patience = Duration::from_millis(args.deadline);
    if !pusher.found(Instant::now() + patience).await || pusher.metrics().is_empty() {
        return Err(Failure::new("found no gateway"));
    }
    let mut report = Report { json: args.json, whole: !args.stdin, ..Report::default() };
    match only {
        Some(message) => {
            let ticket = pusher.push(&message).map_err(|error| Failure::usage(error.to_string()))?;
            report.add(1, ticket, Instant::now() + patience).await;
        }
        None => from_stdin(&pusher, patience, &mut report).await?,
    }
    Ok(report.finish())
}

async fn from_stdin(pusher: &Pusher, patience: Duration, report: &mut Report) -> Result<(), Failure> {
    let mut lines = lines();
    let mut under_way: VecDeque<(usize, Ticket, Instant)> = VecDeque::new();
    let mut number = 0;
    while let Some(line) = lines.recv().await {
        let line = line.map_err(|error| usage!("standard input: {error}"))?;
        number += 1;
        if line.trim().is_empty() {
            continue;
        }
        match RouteMessage::parse(line.as_bytes()).and_then(|message| pusher.push(&message)) {
            Ok(ticket) => under_way.push_back((number, ticket, Instant::now() + patience)),
            Err(error) => report.wrong(number, error),
        }
        if under_way.len() >= UNDER_WAY
            && let Some((number, ticket, deadline)) = under_way.pop_front()
        {
            report.add(number, ticket, deadline).await;
        }
    }
    for (number, ticket, deadline) in under_way {
        report.add(number, ticket, deadline).await;
    }
    Ok(())
}

/// Standard input, read on a thread of its own: it may wait for ever.
fn lines() -> mpsc::Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel(64);
    thread::spawn(move || {
        for line in io::stdin().lines() {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn peers(args: &Push) -> Result<Peers, Failure> {
    if let Some(text) = &args.dns {
        return Peers::dns(text, args.https).map_err(|error| usage!("--dns: {error}"));
    }
    if let Some(text) = &args.service {
        let access = Access { kubeconfig: args.kubeconfig.clone(), context: None };
        return Peers::service(text, args.https, access).map_err(|error| usage!("--service: {error}"));
    }
    let named = |peer: &PeerAddress| match &args.server_name {
        Some(name) => peer.clone().named(name),
        None => peer.clone(),
    };
    Ok(Peers::Static(args.peers.iter().map(named).collect()))
}

fn credentials(args: &Push) -> Result<Credentials, Failure> {
    let hmac = args.hmac_key.as_ref().map(|text| {
        Credentials::named_key(text).ok_or_else(|| Failure::usage("--hmac-key: expected ID=FILE"))
    });
    Ok(Credentials {
        ca: args.ca.clone(),
        certificate: args.cert.clone().zip(args.key.clone()),
        token: args.token_file.clone(),
        hmac: hmac.transpose()?,
    })
}

fn message(args: &Push) -> Result<RouteMessage, Failure> {
    let name = args.name.clone().unwrap_or_default();
    if args.uid.is_none() && args.state != "dead" {
        return Err(Failure::usage("--uid: expected the object's UID, unless --state is dead"));
    }
    Ok(RouteMessage {
        provider: String::new(),
        ip: args.ip.map(|ip| ip.to_string()).unwrap_or_default(),
        id: args.id.clone().unwrap_or_else(|| format!("{}--{name}", args.namespace)),
        namespace: args.namespace.clone(),
        name,
        uid: args.uid.clone().unwrap_or_default(),
        owner: args.owner.clone(),
        state: args.state.clone(),
        resource_version: args.resource_version.clone().unwrap_or_default(),
        access_token: token_in(args.access_token_file.as_deref())?,
        traffic_access_token: token_in(args.traffic_access_token_file.as_deref())?,
        require_traffic_auth: args.require_traffic_auth,
    })
}

/// The token in a file; empty without one.
fn token_in(file: Option<&Path>) -> Result<String, Failure> {
    let Some(file) = file else { return Ok(String::new()) };
    let text = fs::read_to_string(file).map_err(|error| usage!("{}: {error}", file.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// What became of everything.
#[derive(Default)]
struct Report {
    json: bool,
    /// Say also what went well.
    whole: bool,
    wrong: usize,
    undelivered: usize,
    by_peer: BTreeMap<PeerAddress, BTreeMap<&'static str, usize>>,
}

fn word(delivery: &Delivery) -> &'static str {
    match delivery {
        Delivery::Delivered => "delivered",
        Delivery::Refused { .. } => "refused",
        Delivery::Failed { .. } => "failed",
        Delivery::Coalesced => "coalesced",
        Delivery::Dropped => "dropped",
        Delivery::Pending => "unanswered",
    }
}

impl Report {
    async fn add(&mut self, line: usize, ticket: Ticket, deadline: Instant) {
        for (peer, delivery) in ticket.outcomes(deadline).await {
            let is_good = matches!(delivery, Delivery::Delivered | Delivery::Coalesced);
            self.undelivered += usize::from(!is_good);
            *self.by_peer.entry(peer.clone()).or_default().entry(word(&delivery)).or_default() += 1;
            if self.json {
                print(&format!("{}\n", as_json(line, &peer, &delivery)));
            } else if self.whole || !is_good {
                let at = if self.whole { String::new() } else { format!("line {line}: ") };
                print(&format!("{at}{peer}: {}\n", describe(&delivery)));
            }
        }
    }

    fn wrong(&mut self, line: usize, error: MessageError) {
        self.wrong += 1;
        note(&format!("line {line}: {error}"));
    }

    fn finish(&self) -> ExitCode {
        if !self.whole && !self.json {
            for (peer, words) in &self.by_peer {
                let words: Vec<String> =
                    words.iter().map(|(word, count)| format!("{count} {word}")).collect();
                print(&format!("{peer}: {}\n", words.join(", ")));
            }
        }
        match (self.wrong, self.undelivered) {
            (0, 0) => ExitCode::SUCCESS,
            (0, _) => ExitCode::from(1),
            _ => ExitCode::from(2),
        }
    }
}

fn describe(delivery: &Delivery) -> String {
    match delivery {
        Delivery::Refused { status, reason } if reason.is_empty() => format!("refused with {status}"),
        Delivery::Refused { status, reason } => format!("refused with {status}: {reason}"),
        Delivery::Failed { reason } => format!("failed: {reason}"),
        other => word(other).to_owned(),
    }
}

fn as_json(line: usize, peer: &PeerAddress, delivery: &Delivery) -> serde_json::Value {
    let mut value = json!({ "line": line, "peer": peer.to_string(), "outcome": word(delivery) });
    match delivery {
        Delivery::Refused { status, reason } => {
            value["status"] = json!(status);
            value["reason"] = json!(reason);
        }
        Delivery::Failed { reason } => value["reason"] = json!(reason),
        _ => {}
    }
    value
}
