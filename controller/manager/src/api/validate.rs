//! Checks what is asked for, field by field, before anything is done.

mod extensions;
mod names;
mod network;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderMap;

use super::ApiSettings;
use super::extract::{header, is_template};
use super::failure::Failure;
use super::model::{NewSandboxBody, SnapshotBody, Whole};
use crate::{FOREVER, NewSandbox, NewSnapshot};
pub(super) use network::{network, network_update};
use sandgate_objects::duration::go_duration;

/// The timeout of a sandbox whose maker names none, as E2B has it.
const TIMEOUT: Duration = Duration::from_secs(300);
/// A refresh that names no time, and the longest one.
const REFRESH: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// So many entries the metadata may have, and so many bytes: an object's annotations are limited to 256 KiB.
const METADATA: (usize, usize) = (64, 64 << 10);
/// So many environment variables there may be, and so many bytes: they are kept in an annotation.
const ENV_VARS: (usize, usize) = (256, 128 << 10);

/// A sandbox that is asked for.
pub(super) fn new_sandbox(
    body: NewSandboxBody,
    headers: &HeaderMap,
    settings: &ApiSettings,
) -> Result<NewSandbox, Failure> {
    if !is_template(&body.template_id) {
        let expected =
            "expected the name of a SandboxSet or the ID of a snapshot: 1 to 253 of A-Z a-z 0-9 . _ - / :";
        return Err(Failure::field("templateID", expected));
    }
    refused(&body)?;
    let auto_resume = body.auto_resume.is_some_and(|auto| auto.enabled);
    if auto_resume && body.auto_pause_memory == Some(false) {
        let expected = "expected true, or no autoResume: a sandbox without its memory is resumed by hand";
        return Err(Failure::field("autoPauseMemory", expected));
    }
    let env_vars = env_vars(body.env_vars.unwrap_or_default())?;
    let metadata = body.metadata.unwrap_or_default();
    sized("metadata", &metadata, METADATA)?;
    let told = extensions::take(metadata)?;
    let timeout = timeout(body.timeout, settings)?;
    let network = body.network.map(|body| network("network", body)).transpose()?;
    let private_traffic = network.as_ref().is_some_and(|(_, private)| *private);
    Ok(NewSandbox {
        template: body.template_id,
        timeout: (!told.never_timeout).then_some(timeout),
        auto_pause: body.auto_pause.unwrap_or_default(),
        auto_resume,
        metadata: told.metadata,
        labels: told.labels,
        env_vars,
        allow_internet_access: body.allow_internet_access,
        network: network.map(|(network, _)| network),
        private_traffic,
        idempotency_key: idempotency_key(headers)?,
        extensions: told.extensions,
    })
}

/// What this server cannot do is refused and not left out.
fn refused(body: &NewSandboxBody) -> Result<(), Failure> {
    if body.volume_mounts.as_ref().is_some_and(|mounts| !mounts.is_empty()) {
        return Err(Failure::field("volumeMounts", "expected none: this server has no volumes"));
    }
    if body.iam.as_ref().is_some_and(|iam| !iam.is_empty()) {
        return Err(Failure::field("iam", "expected none: this server has no workload identity"));
    }
    Ok(())
}

/// The timeout of a sandbox, in whole seconds. The default is no longer than the longest.
pub(super) fn timeout(stated: Option<Whole>, settings: &ApiSettings) -> Result<Duration, Failure> {
    let longest = settings.max_timeout;
    let stated = whole("timeout", stated, 1, longest.as_secs(), " of seconds")?;
    Ok(stated.map_or(TIMEOUT.min(longest), Duration::from_secs))
}

/// How long a refresh lets a sandbox live at least.
pub(super) fn refresh(stated: Option<Whole>, settings: &ApiSettings) -> Result<Duration, Failure> {
    let (usual, longest) = (REFRESH.0, REFRESH.1.min(settings.max_timeout));
    let stated = whole("duration", stated, 0, longest.as_secs(), " of seconds")?;
    Ok(stated.map_or(usual.min(longest), Duration::from_secs))
}

/// A whole number within these bounds.
pub(super) fn whole(
    field: &str,
    stated: Option<Whole>,
    least: u64,
    most: u64,
    unit: &str,
) -> Result<Option<u64>, Failure> {
    let Some(stated) = stated else { return Ok(None) };
    let expected = || Failure::field(field, &format!("expected a whole number{unit} from {least} to {most}"));
    stated.within(least, most).map(Some).ok_or_else(expected)
}

/// Not too many entries, and not too long ones.
fn sized(
    field: &str,
    map: &BTreeMap<String, String>,
    (entries, bytes): (usize, usize),
) -> Result<(), Failure> {
    if map.len() > entries {
        return Err(Failure::field(field, &format!("expected at most {entries} entries")));
    }
    if map.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > bytes {
        return Err(Failure::field(field, &format!("expected at most {bytes} bytes together")));
    }
    Ok(())
}

/// Environment variables: names as Kubernetes takes them, values without a NUL, which no process can get.
fn env_vars(map: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Failure> {
    sized("envVars", &map, ENV_VARS)?;
    for (name, value) in &map {
        let fine = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
        if name.is_empty() || !name.bytes().all(fine) {
            let expected = "expected a name of printable ASCII characters without =";
            return Err(Failure::field(&names::path("envVars", name), expected));
        }
        if value.contains('\0') {
            return Err(Failure::field(&names::path("envVars", name), "expected a value without NUL"));
        }
    }
    Ok(map)
}

/// The header `Idempotency-Key`: 1 to 255 of letters, digits, `-` and `_`.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let Some(key) = header(headers, "Idempotency-Key")? else { return Ok(None) };
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=255).contains(&key.len()) && key.bytes().all(fine) {
        return Ok(Some(key.to_owned()));
    }
    Err(Failure::field("Idempotency-Key", "expected 1 to 255 of A-Z a-z 0-9 - _"))
}

/// How long a paused sandbox is kept: the header of a pause.
pub(super) fn reserve(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let name = "x-e2b-kruise-reserve-paused-sandbox-duration";
    let Some(text) = header(headers, name)? else { return Ok(None) };
    kept(name, text).map(Some)
}

/// How long something is kept: a duration, or `forever`.
fn kept(field: &str, text: &str) -> Result<Duration, Failure> {
    if text == "forever" {
        return Ok(FOREVER);
    }
    let duration = go_duration(text).filter(|duration| !duration.is_zero() && *duration <= FOREVER);
    duration.ok_or_else(|| Failure::field(field, "expected a duration such as 30m or 1h30m, or forever"))
}

/// A snapshot that is asked for: the body is E2B's, the headers are OpenKruise's.
pub(super) fn new_snapshot(body: SnapshotBody, headers: &HeaderMap) -> Result<NewSnapshot, Failure> {
    if let Some(name) = &body.name
        && !is_template(name)
    {
        let expected = "expected 1 to 253 of A-Z a-z 0-9 . _ - / :";
        return Err(Failure::field("name", expected));
    }
    let keep = "x-e2b-kruise-snapshot-keep-running";
    let keep_running = header(headers, keep)?.map(|text| flag(keep, text)).transpose()?;
    let ttl = "x-e2b-kruise-snapshot-ttl";
    let kept_for = header(headers, ttl)?;
    if let Some(text) = kept_for
        && go_duration(text).is_none()
    {
        return Err(Failure::field(ttl, "expected a duration such as 30m or 1h30m"));
    }
    let wait = "x-e2b-kruise-snapshot-wait-success-seconds";
    let seconds = header(headers, wait)?.map(|text| seconds(wait, text)).transpose()?;
    let mut contents = contents(headers)?;
    if body.memory == Some(false) {
        contents = vec!["filesystem".to_owned()];
    }
    Ok(NewSnapshot {
        name: body.name,
        keep_running,
        ttl: kept_for.map(str::to_owned),
        contents,
        wait: seconds,
    })
}

fn contents(headers: &HeaderMap) -> Result<Vec<String>, Failure> {
    let name = "x-e2b-kruise-snapshot-persistent-contents";
    let Some(text) = header(headers, name)? else { return Ok(Vec::new()) };
    let parts = text.split(',').map(str::trim).map(|part| {
        let known = matches!(part, "memory" | "filesystem");
        known
            .then(|| part.to_owned())
            .ok_or_else(|| Failure::field(name, "expected memory, filesystem or both"))
    });
    parts.collect()
}

/// `true` or `false`.
fn flag(field: &str, text: &str) -> Result<bool, Failure> {
    text.parse().map_err(|_| Failure::field(field, "expected true or false"))
}

/// Whole seconds, up to a day.
fn seconds(field: &str, text: &str) -> Result<Duration, Failure> {
    let number = text.parse().ok().filter(|number| (1..=86_400).contains(number));
    let expected = || Failure::field(field, "expected a whole number of seconds from 1 to 86400");
    number.map(Duration::from_secs).ok_or_else(expected)
}
