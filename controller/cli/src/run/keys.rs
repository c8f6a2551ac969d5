//! The files that the section `gateway.auth` names.

use sandgate_watch::Keyring;

use crate::config::Config;
use crate::failure::{Failure, usage};

/// Reads the files as the gateway does, which does not start with a wrong one. Nothing is fetched.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    if let Some(auth) = &config.auth {
        Keyring::new(auth).map_err(|reason| usage!("{}: {reason}", config.place("gateway.auth")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::run::shipped_filter_config;

    use super::*;

    #[test]
    fn a_file_of_keys_that_is_missing_or_wrong_is_found_before_envoy_starts() {
        let folder = tempfile::tempdir().unwrap();
        let (config, secret) = (folder.path().join("config.yaml"), folder.path().join("secret"));
        let text = format!("gateway:\n  auth:\n    scoped-token: {{ files: [{}] }}\n", secret.display());
        std::fs::write(&config, text).unwrap();
        let config = Config::load(Some(&config), shipped_filter_config()).unwrap();
        let error = check(&config).unwrap_err().to_string();
        assert!(error.contains("config.yaml:2:") && error.contains("/secret: No such file"), "{error}");
        std::fs::write(&secret, "x".repeat(32)).unwrap();
        assert!(check(&config).is_ok());
    }
}
