//! Health checks on the port of the traffic, for load balancers and for clients of the peers' gateways.

use crate::recognise::path_only;
use crate::{FilterConfig, Headers};

/// The one path whose answer depends on the table.
const READY: &str = "/readyz";

/// What a health check asks about the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Whether it answers.
    Live,
    /// Whether its table is complete.
    Ready,
}

/// What a request asks about the gateway, if it is a health check of the config. Ask this of a request that
/// addresses no sandbox: an address comes first.
pub fn health_check<H: Headers + ?Sized>(headers: &H, config: &FilterConfig) -> Option<Health> {
    if config.health_paths.is_empty() {
        return None;
    }
    let health = headers.with(":path", |path| config.health_path(path?))?;
    headers.with(":method", |method| matches!(method, Some(b"GET" | b"HEAD"))).then_some(health)
}

impl FilterConfig {
    /// What this `:path` asks about the gateway, if it is one of `health-paths`, with or without a query.
    pub fn health_path(&self, path: &[u8]) -> Option<Health> {
        let path = path_only(path);
        let found = self.health_paths.iter().find(|own| own.as_bytes() == path)?;
        Some(if found == READY { Health::Ready } else { Health::Live })
    }
}

#[cfg(test)]
mod tests {
    use super::{Health, health_check};
    use crate::FilterConfig;

    #[test]
    fn paths_are_exact_and_one_of_them_is_about_the_table() {
        let json = br#"{"health-paths":["/status.ok","/healthz","/readyz","/up"]}"#;
        let config = FilterConfig::parse(json).expect("the config is valid");
        for (path, health) in [
            ("/status.ok", Some(Health::Live)),
            ("/healthz", Some(Health::Live)),
            ("/healthz?verbose", Some(Health::Live)),
            ("/up", Some(Health::Live)),
            ("/readyz", Some(Health::Ready)),
            ("/healthz/", None),
            ("/Healthz", None),
            ("//healthz", None),
            ("/%68ealthz", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(config.health_path(path.as_bytes()), health, "{path}");
        }
    }

    #[test]
    fn only_a_get_or_a_head_is_a_health_check_and_without_a_path_in_the_config_nothing_is() {
        let config = FilterConfig::parse(br#"{"health-paths":["/healthz"]}"#).expect("the config is valid");
        for (method, health) in [
            ("GET", Some(Health::Live)),
            ("HEAD", Some(Health::Live)),
            ("POST", None),
            ("OPTIONS", None),
            ("CONNECT", None),
            ("get", None),
        ] {
            let headers = [(":method", method), (":path", "/healthz")];
            assert_eq!(health_check(headers.as_slice(), &config), health, "{method}");
            assert_eq!(health_check(headers.as_slice(), &FilterConfig::default()), None);
        }
        assert_eq!(health_check([(":path", "/healthz")].as_slice(), &config), None);
    }
}
