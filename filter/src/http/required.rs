//! The keys that a filter's config needs. Without them it would refuse every request that it is about, so it
//! is refused itself.

use sandgate_request::{CallerMode, FilterConfig};
use sandgate_watch::Gateway;

/// The config needs keys that the gateway's config does not have. Trying again does not help: a config has to
/// change.
#[derive(Debug, thiserror::Error)]
#[error("{key}: expected {section} in the gateway's config")]
pub(super) struct NoKeys {
    key: &'static str,
    section: &'static str,
}

/// Checks that there is a source for all keys that the config needs.
pub(super) fn check(config: &FilterConfig, gateway: &Gateway) -> Result<(), NoKeys> {
    let status = gateway.keyring().map(sandgate_watch::Keyring::status);
    let has = |name: &str| {
        status.as_ref().is_some_and(|status| status.sources.iter().any(|from| from.source.as_str() == name))
    };
    let reviews = || status.as_ref().is_some_and(|status| status.reviews.is_some());
    let secrets = config.secrets();
    let missing = match config.callers().map(sandgate_request::Callers::mode) {
        Some(CallerMode::Bearer) if !has("bearer") && secrets.bearer.is_none() => Some("auth.bearer"),
        Some(CallerMode::ScopedToken) if !has("scoped-token") && secrets.scoped_token.is_none() => {
            Some("auth.scoped-token")
        }
        Some(CallerMode::TokenReview) if !reviews() => Some("auth.token-review"),
        _ => None,
    };
    if let Some(section) = missing {
        return Err(NoKeys { key: "callers.mode", section });
    }
    if config.enable_jwt_auth() && !has("traffic-jwt") {
        return Err(NoKeys { key: "enable-jwt-auth", section: "auth.traffic-jwt" });
    }
    Ok(())
}
