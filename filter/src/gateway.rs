//! The one gateway of the process.
//!
//! The bootstrap extension makes it when Envoy creates its config, also in `--mode validate`, and starts it
//! when the server is up. Listeners come and go with their filter configs; all of them read this gateway's
//! table.

use std::sync::OnceLock;

use sandgate_watch::{Gateway, Settings};

static GATEWAY: OnceLock<Gateway> = OnceLock::new();

/// The bootstrap extension was configured a second time. Trying again does not help: a process has one
/// gateway.
#[derive(Debug, thiserror::Error)]
#[error("the extension is configured twice in this process: once is enough")]
pub(crate) struct ConfiguredTwice;

/// The gateway, once the bootstrap extension has made it.
pub(crate) fn current() -> Option<&'static Gateway> {
    GATEWAY.get()
}

/// Makes the gateway of this process.
pub(crate) fn install(settings: &Settings) -> Result<&'static Gateway, ConfiguredTwice> {
    let mut made = false;
    let gateway = GATEWAY.get_or_init(|| {
        made = true;
        Gateway::new(settings)
    });
    if made { Ok(gateway) } else { Err(ConfiguredTwice) }
}
