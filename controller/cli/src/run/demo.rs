//! Two sandboxes to try a gateway with: servers in this process that say who they are, and a third that is
//! paused.

use std::fmt::Write as _;
use std::future::IntoFuture;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::Request;
use tokio::net::TcpListener;

use super::RunError;

pub(super) struct Demo {
    pub(super) routes_file: PathBuf,
    pub(super) sandboxes: [Sandbox; 2],
}

#[derive(Clone, Debug)]
pub(super) struct Sandbox {
    pub(super) name: &'static str,
    pub(super) ip: IpAddr,
    pub(super) port: u16,
}

/// A port people expect, if it is free.
const USUAL_PORT: u16 = 8080;

/// Starts the servers, which run as long as the runtime, and writes a routes file that knows them.
pub(super) async fn start(folder: &Path) -> Result<Demo, RunError> {
    let sandboxes = [
        serve("demo-a", Ipv4Addr::new(127, 0, 77, 1)).await?,
        serve("demo-b", Ipv4Addr::new(127, 0, 77, 2)).await?,
    ];
    let mut text = "routes:\n".to_owned();
    for sandbox in &sandboxes {
        let _ = writeln!(text, "  - {{ name: {}, ip: {}, owner: demo }}", sandbox.name, sandbox.ip);
    }
    text.push_str("  - { name: demo-paused, state: paused, owner: demo }\n");
    let routes_file = folder.join("routes.yaml");
    std::fs::write(&routes_file, text).map_err(RunError::write(&routes_file))?;
    Ok(Demo { routes_file, sandboxes })
}

async fn serve(name: &'static str, ip: Ipv4Addr) -> Result<Sandbox, RunError> {
    // Not every system has all of 127.0.0.0/8 as its own.
    let mut listener = TcpListener::bind((ip, USUAL_PORT)).await;
    for address in [ip, Ipv4Addr::LOCALHOST] {
        if listener.is_err() {
            listener = TcpListener::bind((address, 0)).await;
        }
    }
    let listen = |source| RunError::Demo { name, source };
    let listener = listener.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let app = Router::new().fallback(move |request: Request| async move {
        let header = |name: &str| request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or("-").to_owned();
        format!(
            "This is the sandbox {name} at {address}.\nYou asked for {} {} with the host {}.\nThe gateway says I am {} ({}).\n",
            request.method(),
            request.uri(),
            header("host"),
            header("x-sandbox-id"),
            header("x-sandbox-uid"),
        )
    });
    tokio::spawn(axum::serve(listener, app).into_future());
    Ok(Sandbox { name, ip: address.ip(), port: address.port() })
}
