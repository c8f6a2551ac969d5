//! What the `refresh` section needs to know about the rest of the config: the provider whose objects are
//! pushed, and the ranges of pod addresses. The receiver's crate checks the section's own keys.

use std::collections::BTreeMap;
use std::time::Duration;

use ipnet::IpNet;
use sandgate_peering::{Pushed, RefreshSettings};
use sandgate_routes::{AddressPolicy, Clash, TokenKind};

use super::{KubernetesSettings, SettingsError, wrong};
use crate::file::PROVIDER;
use crate::kubernetes::Watched;
use sandgate_objects::{Provider, built_in};

pub(super) use sandgate_peering::RawRefresh;

#[cfg(test)]
mod tests;

/// Checks the `refresh` section.
pub(super) fn check(
    raw: RawRefresh,
    tombstone_lifetime: Duration,
    kubernetes: Option<&KubernetesSettings>,
    has_ranges: bool,
) -> Result<RefreshSettings, SettingsError> {
    raw.check(tombstone_lifetime, |named| match kubernetes {
        Some(kubernetes) => watched(named.as_deref(), kubernetes),
        None => unwatched(named, has_ranges),
    })
}

fn rules_of(provider: &dyn Provider) -> Pushed {
    Pushed {
        provider: provider.name().to_owned(),
        clash: provider.clash(),
        ip_is_claimed: provider.address_is_claimed(),
        id_is_name: provider.id_is_name(),
        token_kind: provider.token_kind(),
    }
}

/// The provider that is named, or the only one that is watched.
fn watched(named: Option<&str>, kubernetes: &KubernetesSettings) -> Result<Pushed, SettingsError> {
    let mut watched: BTreeMap<&str, Pushed> = BTreeMap::new();
    for Watched { provider, .. } in kubernetes.watched() {
        let next = rules_of(&**provider);
        let known = watched.entry(provider.name()).or_insert_with(|| next.clone());
        // The entries of one provider may differ, and a push does not name its entry: the stricter rule
        // counts.
        if next.clash == Clash::Refuse {
            known.clash = Clash::Refuse;
        }
        known.ip_is_claimed |= next.ip_is_claimed;
    }
    let names = watched.keys().copied().collect::<Vec<_>>().join(", ");
    let reason = match named {
        Some(name) => match watched.remove(name) {
            Some(pushed) => return Ok(pushed),
            None => format!("expected one of kubernetes.providers ({names}), found {name}"),
        },
        None => match (watched.pop_first(), watched.is_empty()) {
            (Some((_, only)), true) => return Ok(only),
            _ => format!("expected the one whose objects are pushed, because there are several: {names}"),
        },
    };
    Err(wrong("refresh.provider", reason))
}

/// Without a watch any name will do: there is no watched object that a push could miss.
fn unwatched(named: Option<String>, has_ranges: bool) -> Result<Pushed, SettingsError> {
    let Some(name) = named else {
        return Err(wrong(
            "refresh.provider",
            "expected the provider whose objects are pushed, such as openkruise, because `kubernetes` names none",
        ));
    };
    if name == PROVIDER {
        return Err(wrong("refresh.provider", format!("{name} is the provider of the routes file")));
    }
    let pushed = match built_in(&name) {
        Some(provider) => rules_of(&*provider),
        None => Pushed {
            provider: name,
            clash: Clash::default(),
            ip_is_claimed: false,
            id_is_name: false,
            token_kind: TokenKind::Runtime,
        },
    };
    if pushed.ip_is_claimed && !has_ranges {
        let reason = format!(
            "anyone who may write an object of {} also writes its address: set `pod-ranges`",
            pushed.provider
        );
        return Err(wrong("refresh.provider", reason));
    }
    Ok(pushed)
}

/// Checks the `pod-ranges` key.
pub(super) fn check_ranges(ranges: Option<Vec<String>>) -> Result<AddressPolicy, SettingsError> {
    let Some(ranges) = ranges else { return Ok(AddressPolicy::default()) };
    if ranges.is_empty() {
        let reason = "expected at least one range; leave the key out to admit every private address";
        return Err(wrong("pod-ranges", reason));
    }
    let parse = |(at, text): (usize, &String)| {
        text.parse::<IpNet>().map_err(|_| {
            let reason =
                format!("expected ranges such as 10.244.0.0/16 or fd00::/48; number {} is none", at + 1);
            wrong("pod-ranges", reason)
        })
    };
    Ok(AddressPolicy::new(ranges.iter().enumerate().map(parse).collect::<Result<Vec<_>, _>>()?))
}
