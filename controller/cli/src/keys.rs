//! `sandgate keys`: the Secrets that the managers take for API keys.
//!
//! A key is made here, printed, and forgotten: the Secret has its hash. Every change of a Secret depends on
//! the version that was read, so two people at once cannot undo each other's.

mod report;
mod store;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use jiff::Timestamp;
use sandgate_objects::keys::{KeyMeta, KeyText, StoredKey, is_name, new_id};

use crate::args::{CreateKey, Keys, KeysCommand, ListKeys, RevokeKey, RotateKey};
use crate::failure::{Failure, failed, usage};
use crate::terminal::{note, print, several};

use report::{describe, table, to_json, with_key};
use store::{Found, Store};

pub(crate) async fn keys(args: Keys) -> Result<ExitCode, Failure> {
    match args.command {
        KeysCommand::Create(args) => create(&args).await,
        KeysCommand::List(args) => list(&args).await,
        KeysCommand::Rotate(args) => rotate(&args).await,
        KeysCommand::Revoke(args) => revoke(&args).await,
    }
}

async fn create(args: &CreateKey) -> Result<ExitCode, Failure> {
    let (key, text) = new_key(args, Timestamp::now())?;
    let store = Store::connect(&args.cluster).await?;
    if store.create(&key).await? {
        note(&format!("made the namespace {}, which was not there", args.cluster.system_namespace));
    }
    tell(&key, &text, args.json, args.quiet);
    Ok(ExitCode::SUCCESS)
}

/// The key that is asked for, and what a Secret keeps of it.
fn new_key(args: &CreateKey, now: Timestamp) -> Result<(StoredKey, KeyText), Failure> {
    for (option, name) in [("--name", &args.name), ("--team", &args.team)] {
        if !is_name(name) {
            return Err(usage!("{option}: expected up to 63 letters, digits and -_.@/ with spaces within"));
        }
    }
    let expires_at = match args.expires {
        Some(time) if time.is_zero() => return Err(usage!("--expires: expected a time that is not over")),
        Some(time) => {
            Some(now.checked_add(time).map_err(|_| usage!("--expires: that is after the last year"))?)
        }
        None => None,
    };
    let text = KeyText::generate().map_err(|error| failed!("{error}"))?;
    let meta = KeyMeta {
        id: new_id().map_err(|error| failed!("{error}"))?,
        name: args.name.clone(),
        team: args.team.clone(),
        namespace: args.namespace.clone(),
        mask: text.mask(),
        created_at: now,
        created_by: "sandgate keys".to_owned(),
        expires_at,
        quota: args.quota.clone().unwrap_or_default(),
    };
    Ok((StoredKey { meta, digest: text.digest(), previous: Vec::new() }, text))
}

async fn list(args: &ListKeys) -> Result<ExitCode, Failure> {
    let (mut found, unreadable) = Store::connect(&args.cluster).await?.list().await?;
    if let Some(team) = &args.team {
        found.retain(|found| found.key.meta.team == *team);
    }
    found.sort_by(|a, b| {
        (a.key.meta.created_at, &a.key.meta.id).cmp(&(b.key.meta.created_at, &b.key.meta.id))
    });
    for (name, error) in &unreadable {
        note(&format!("warning: the Secret {name} is no key: {error}"));
    }
    if args.json {
        let all: Vec<_> = found.iter().map(to_json).collect();
        print(&format!("{:#}\n", serde_json::Value::from(all)));
    } else if found.is_empty() {
        note("there are no keys; `sandgate keys create --name NAME` makes one");
    } else {
        print(&table(&found, Timestamp::now()));
    }
    Ok(ExitCode::SUCCESS)
}

async fn rotate(args: &RotateKey) -> Result<ExitCode, Failure> {
    let store = Store::connect(&args.cluster).await?;
    let mut found = store.one(&args.id).await?;
    let text = KeyText::generate().map_err(|error| failed!("{error}"))?;
    found.key.rotate(&text, Timestamp::now(), args.overlap);
    store.replace(&found).await?;
    if !args.quiet && !args.json && !args.overlap.is_zero() {
        let until = found.key.previous.last().map(|previous| previous.until.to_string()).unwrap_or_default();
        note(&format!("the old key is good until {until}"));
    }
    tell(&found.key, &text, args.json, args.quiet);
    Ok(ExitCode::SUCCESS)
}

async fn revoke(args: &RevokeKey) -> Result<ExitCode, Failure> {
    let store = Store::connect(&args.cluster).await?;
    // All are found before one is revoked: a slip of the finger in the last one revokes none.
    let mut all: Vec<Found> = Vec::new();
    for id in &args.ids {
        let found = store.one(id).await?;
        if all.iter().all(|known| known.key.meta.id != found.key.meta.id) {
            all.push(found);
        }
    }
    for found in &all {
        store.delete(found).await?;
        if !args.json {
            note(&format!("revoked {} ({})", found.key.meta.id, found.key.meta.name));
        }
    }
    if args.json {
        let ids: Vec<_> = all.iter().map(to_json).collect();
        print(&format!("{:#}\n", serde_json::Value::from(ids)));
    } else if all.len() > 1 {
        note(&format!("{} are refused from now on", several(all.len(), "key")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a key, the only time.
fn tell(key: &StoredKey, text: &KeyText, json: bool, quiet: bool) {
    if json {
        print(&format!("{:#}\n", with_key(key, text)));
        return;
    }
    if !quiet {
        note(&describe(key));
    }
    print(&format!("{}\n", text.reveal()));
}
