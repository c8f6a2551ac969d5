//! `sandgate run`: find Envoy and the module, check every file, start Envoy, say how to use it, stay until it
//! ends.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::args::Run;
use crate::config::Config;
use crate::explain::read_routes;
use crate::failure::{Failure, failed, usage};
use crate::terminal::{note, print};

mod demo;
mod envoy;
mod error;
mod exec;
mod guards;
mod install;
mod keys;
mod limits;
mod manager;
mod metrics;
mod process;
mod render;
mod restart;
mod signals;
mod summary;
mod supervise;
mod tls;
mod waiting;

pub(crate) use error::RunError;
pub(crate) use exec::exec;
pub(crate) use keys::check as check_keys;
pub(crate) use manager::check as check_manager;
pub(crate) use render::shipped_filter_config;
pub(crate) use tls::check as check_tls;

use limits::Limits;
use manager::Api;
use process::{Drain, Epoch, Launch};
use render::Render;
use restart::Restarts;
use supervise::{Started, Supervisor};
use tls::{Door, Reload};

/// `sandgate envoy`: the pinned Envoy of the cache, whatever else this machine has.
pub(crate) async fn pinned_envoy() -> Result<ExitCode, Failure> {
    let program = envoy::install_pinned().await?;
    print(&format!("{}\n", program.display()));
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn run(args: Run) -> Result<ExitCode, Failure> {
    let config = Config::load(args.config.as_deref(), shipped_filter_config())?;
    let routes = args
        .routes
        .clone()
        .or_else(|| config.gateway.get("routes-file").and_then(Value::as_str).map(PathBuf::from));
    let cluster = config.gateway.contains_key("kubernetes");
    check_source(&args, routes.is_some() || cluster)?;
    let routes = routes.map(|path| check_routes(&path)).transpose()?;
    metrics::check(&args)?;
    for warning in tls::check(&config)? {
        note(&format!("warning: {warning}"));
    }
    manager::check(&config)?;
    keys::check(&config)?;
    if args.print_config {
        let module = find_module(args.module.as_deref()).ok();
        let secrets = std::env::var_os(tls::SECRETS).map(PathBuf::from);
        if let (Some(folder), Some(tls)) = (&secrets, &config.tls) {
            tls::write_secrets(folder, tls)?;
        }
        let rendered = render(&args, &config, module.as_deref(), routes.as_deref(), secrets.as_deref());
        print(&format!("{:#}\n", rendered?));
        return Ok(ExitCode::SUCCESS);
    }

    if args.hot_restart && (args.port == 0 || args.admin_port == 0) {
        let why = "the next Envoy finds the sockets of the last one by their ports";
        return Err(usage!("--hot-restart needs fixed ports in --port and --admin-port: {why}"));
    }
    let module = find_module(args.module.as_deref())?;
    check_port("--port", args.address, args.port)?;
    check_port("--admin-port", Ipv4Addr::LOCALHOST.into(), args.admin_port)?;
    if let Some(port) = args.metrics_port {
        check_port("--metrics-port", args.address, port)?;
    }
    let program = envoy::find(args.envoy.as_deref()).await?;

    // The config and the demo's routes, for nobody else to read, gone when we are.
    let folder = TempDir::with_prefix("sandgate-").map_err(|e| failed!("no temporary folder: {e}"))?;
    let demo = match args.demo {
        true => Some(demo::start(folder.path()).await?),
        false => None,
    };
    let routes = routes.or_else(|| demo.as_ref().map(|demo| demo.routes_file.clone()));
    let secrets = folder.path().join("tls");
    let rendered = render(&args, &config, Some(&module), routes.as_deref(), Some(&secrets))?;
    let config_file = folder.path().join("envoy.json");
    std::fs::write(&config_file, rendered.to_string()).map_err(RunError::write(&config_file))?;

    let mut reload = None;
    if let Some(tls) = &config.tls {
        reload = Some(Reload::start(tls, &secrets));
        tls::write_secrets(&secrets, tls)?;
    }
    let restarts = match args.hot_restart {
        true => Some(Restarts::new(folder.path(), &program, reload.take()).await?),
        false => None,
    };

    let launch = Launch {
        program,
        config: config_file,
        admin_address: folder.path().join("admin"),
        log_level: args.log_level,
        concurrency: args.concurrency,
        drain: Drain {
            delay: Duration::from_secs(args.drain_delay),
            time: Duration::from_secs(args.drain_time),
        },
        epoch: restarts.as_ref().map_or(Epoch::Only, Restarts::first),
        extra: args.envoy_args,
    };
    let mut gateway = Supervisor::start(launch, restarts)?;
    let ready = match gateway.until_ready().await? {
        Started::Ready(ready) => ready,
        Started::Ended(code) => return Ok(code),
    };
    let source = match (&routes, cluster) {
        (Some(file), false) => file.display().to_string(),
        (Some(file), true) => format!("the cluster and {}", file.display()),
        (None, _) => "the cluster".to_owned(),
    };
    print(&summary::text(&ready, &source, demo.as_ref(), &config.parsed, config.tls.is_some()));
    Ok(gateway.until_end().await)
}

fn render(
    args: &Run,
    config: &Config,
    module: Option<&Path>,
    routes: Option<&Path>,
    secrets: Option<&Path>,
) -> Result<Value, RunError> {
    let limits = Limits::here(args.concurrency, metrics::files(args.metrics_port));
    Render {
        address: args.address,
        port: args.port,
        admin_port: args.admin_port,
        metrics_port: args.metrics_port,
        module,
        routes,
        filter: &config.filter,
        gateway: &config.gateway,
        cluster: &config.cluster,
        listen: &config.listen,
        timeouts: &config.timeouts,
        access_log: args.access_log,
        hot_restart: args.hot_restart,
        limits,
        tls: config.tls.as_ref().map(|tls| Door { tls, secrets }),
        manager: config.manager.as_ref().map(|manager| Api {
            manager,
            domains: config.domains(),
            // They are few beside those to sandboxes, and their files are of the same share.
            connections: limits.connections.shared,
        }),
    }
    .render()
}

/// A gateway needs routes from somewhere, and the demo's are not to be taken for one's own.
fn check_source(args: &Run, configured: bool) -> Result<(), Failure> {
    match (args.demo, configured) {
        (true, true) => Err(Failure::usage(
            "--demo brings its own routes, and the config names a source of routes: leave out one of the two",
        )),
        // What is printed without routes is the shipped config, to be completed by hand.
        (false, false) if !args.print_config => Err(Failure::usage(
            "no source of routes. One of these says where they come from:\n  --demo           two demo sandboxes, to try \
             it\n  --routes FILE    a file with the routes\n  --config FILE    a config with gateway.routes-file or \
             gateway.kubernetes",
        )),
        _ => Ok(()),
    }
}

/// The file's absolute path, if a gateway could load it as it is now.
fn check_routes(path: &Path) -> Result<PathBuf, Failure> {
    read_routes(path)?;
    // Not the canonical path: a link that is swapped later must be followed then.
    std::path::absolute(path).map_err(|error| usage!("{}: {error}", path.display()))
}

/// Envoy shares a port with another Envoy without a word, and dies of any other with many.
fn check_port(option: &str, address: IpAddr, port: u16) -> Result<(), Failure> {
    let address = SocketAddr::new(address, port);
    let Err(error) = TcpListener::bind(address) else { return Ok(()) };
    let ip = address.ip();
    let advice = match error.kind() {
        ErrorKind::AddrNotAvailable => {
            return Err(usage!(
                "cannot listen on {ip}: this machine has no such address ({error}); choose one of its own with --address, 0.0.0.0 \
                 for all of them"
            ));
        }
        ErrorKind::PermissionDenied => format!("choose one from 1024 on with {option}, or give the right to"),
        // Envoy cannot choose this one: probes have to know it.
        _ if option == "--metrics-port" => format!("choose another with {option}"),
        _ => format!("choose another with {option}, 0 for a free one"),
    };
    Err(failed!("cannot listen on {address}: {error}; {advice}"))
}

/// Given, or beside this program.
fn find_module(given: Option<&Path>) -> Result<PathBuf, Failure> {
    const NAME: &str = "libsandgate.so";
    if let Some(path) = given {
        let found = std::path::absolute(path).ok().filter(|path| path.is_file());
        return found
            .ok_or_else(|| usage!("no module at {} (from --module or SANDGATE_MODULE)", path.display()));
    }
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("."));
    Some(folder.join(NAME)).filter(|path| path.is_file()).ok_or_else(|| {
        usage!(
            "no {NAME} beside this program, in {}. `make build` puts both into one folder; one that is elsewhere is named \
             with --module, or in SANDGATE_MODULE",
            folder.display()
        )
    })
}

/// The address to reach a listener at that may listen on every address.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
        _ => address,
    }
}
