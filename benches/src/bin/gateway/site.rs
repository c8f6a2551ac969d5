//! A contender that runs: its proxy on one core; its sandboxes, and whatever else it needs, on the other.
//!
//! Each has a process of sandboxes of its own (all the same program), so that ten thousand kept connections
//! for each of eight proxies stay within what one process may open.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::admin::Admin;
use crate::cell::Cell;
use crate::changes::{Changes, Source};
use crate::contender::Contender;
use crate::envoy_config::{self, Between, LISTENER_NAME, takes_pushes};
use crate::failure::{Doing as _, Failure, Result};
use crate::fleet::Asked;
use crate::generator::{Answers, Generator, Questions};
use crate::instructions;
use crate::journal::{Kind, Slot};
use crate::proc;
use crate::process::{self, Running};

/// A million routes take a while to read.
const PATIENCE: Duration = Duration::from_secs(180);

/// What every site of a run has in common.
pub(crate) struct Place {
    pub(crate) envoy: PathBuf,
    pub(crate) module: PathBuf,
    pub(crate) noop: PathBuf,
    pub(crate) envoy_core: usize,
    pub(crate) load_core: usize,
    /// Where callgrind writes, if Envoy runs under it, not counting yet.
    pub(crate) callgrind: Option<PathBuf>,
}

pub(crate) struct Site {
    contender: Contender,
    cell: Cell,
    proxy: Running,
    side: Option<Running>,
    _sandboxes: Running,
    pub(crate) admin: Option<Admin>,
    port: u16,
    upstream: u16,
    routes: PathBuf,
    /// Where Sandgate takes pushes.
    push: Option<u16>,
    load_core: usize,
    // The last, so that everything has ended when its files go.
    _folder: tempfile::TempDir,
}

impl Site {
    pub(crate) fn start(contender: &Contender, cell: Cell, place: &Place) -> Result<Self> {
        let folder = tempfile::tempdir().doing("making a folder")?;
        let file = |name: &str| folder.path().join(name);
        let sandboxes = process::own(place.load_core, "__upstream");
        let (sandboxes, upstream) = Running::server("the sandboxes", sandboxes, &file("upstream.log"))?;
        let routes = write_routes(contender, cell, folder.path())?;
        let side = match contender {
            Contender::ExtProc => {
                let mut command = process::own(place.load_core, "__extproc");
                command.arg(&routes);
                Some(Running::server("the ext_proc server", command, &file("extproc.log"))?)
            }
            _ => None,
        };
        let pushed_to = matches!(contender, Contender::Sandgate(_)) && cell.changes > 0 && takes_pushes();
        let push = if pushed_to { Some(free_port()?) } else { None };
        let between = match contender {
            Contender::Other { name, command } => {
                let (proxy, port) = other(name, command, cell, upstream, place, folder.path())?;
                return Ok(Self {
                    contender: contender.clone(),
                    cell,
                    proxy,
                    side: None,
                    _sandboxes: sandboxes,
                    admin: None,
                    port,
                    upstream,
                    routes,
                    push: None,
                    load_core: place.load_core,
                    _folder: folder,
                });
            }
            Contender::Limit | Contender::LimitAgain => Between::Nothing,
            Contender::Noop => Between::Noop { module: &place.noop },
            Contender::Floor => Between::Floor { module: &place.noop },
            Contender::Lua => Between::Lua { routes: &routes },
            Contender::ExtProc => Between::ExtProc { port: side.as_ref().map_or(0, |(_, port)| *port) },
            Contender::Sandgate(way) => {
                Between::Sandgate { module: &place.module, routes: &routes, way: *way, push }
            }
        };
        let config = envoy_config::render(&between, cell, upstream)?;
        let (proxy, admin, port) = envoy(contender.name(), place, &config, folder.path())?;
        Ok(Self {
            contender: contender.clone(),
            cell,
            proxy,
            side: side.map(|(side, _)| side),
            _sandboxes: sandboxes,
            admin: Some(admin),
            port,
            upstream,
            routes,
            push,
            load_core: place.load_core,
            _folder: folder,
        })
    }

    pub(crate) fn contender(&self) -> &Contender {
        &self.contender
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A request, before and after the seven digits of its sandbox's number.
    pub(crate) fn around_number(&self) -> (String, String) {
        self.questions(0.0, 0).around_number()
    }

    /// Has callgrind do something in the proxy.
    pub(crate) fn control(&self, what: &str) -> Result<()> {
        instructions::control(self.proxy.pid(), what)
    }

    /// Waits for something that the proxy is to bring about.
    pub(crate) fn until<T>(&mut self, patience: Duration, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.proxy.until(patience, ready)
    }

    fn questions(&self, seconds: f64, start: usize) -> Questions {
        let asked = self.cell.asked;
        Questions {
            port: self.port,
            upstream: self.upstream,
            asked,
            count: self.cell.fleet().ids(asked),
            start,
            seconds,
            close: self.cell.close,
        }
    }

    fn generator(&self) -> Generator {
        if self.cell.http2 { Generator::Http2 } else { Generator::Wrk }
    }

    /// Asks until every address was asked for, so that no slot pays for what is done once.
    pub(crate) fn warm(&mut self) -> Result<()> {
        let enough = match self.cell.asked {
            Asked::Served => self.cell.addresses as u64 * 11 / 10,
            Asked::Unknown | Asked::Paused | Asked::Beside => 0,
        };
        let mut asked = 0;
        for turn in 0.. {
            let start = usize::try_from(asked).unwrap_or(0) * crate::fleet::Walk::STEP;
            let answers = self.ask(self.generator(), &self.questions(1.0, start))?;
            asked += answers.requests;
            if asked > enough {
                break;
            }
            if answers.requests == 0 || turn > 180 {
                return Err(self.proxy.failure(format!("was not warm after {asked} requests: {answers:?}")));
            }
        }
        Ok(())
    }

    fn ask(&mut self, generator: Generator, questions: &Questions) -> Result<Answers> {
        let answers = generator.run(self.load_core, questions);
        match self.proxy.ended() {
            Some(status) => Err(self.proxy.failure(format!("ended ({status}) while it was asked"))),
            None => answers,
        }
    }

    /// One slot. `start` is where in the walk through the IDs it begins.
    pub(crate) fn slot(
        &mut self,
        kind: Kind,
        round: usize,
        seconds: f64,
        rate: u32,
        start: usize,
    ) -> Result<Slot> {
        let rate_of_changes = self.cell.changes;
        let generator = match kind {
            Kind::Throughput => self.generator(),
            Kind::Latency => Generator::OpenLoop { rate },
        };
        let changes = Changes::begin(self.source(), rate_of_changes)?;
        let applied_before = self.applied().unwrap_or_default();
        let side = self.side.as_ref().map(Running::pid);
        let used = |pid: Option<u32>| pid.map_or(0, proc::cpu_nanos);
        let before = (proc::cpu_nanos(self.proxy.pid()), used(side));
        let answers = self.ask(generator, &self.questions(seconds, start))?;
        let after = (proc::cpu_nanos(self.proxy.pid()), used(side));
        let made = changes.end(self.side.as_mut())?;
        let changes =
            if made > 0 { self.applied().map_or(made, |applied| applied - applied_before) } else { 0 };
        let resident = proc::resident(self.proxy.pid()) + side.map_or(0, proc::resident);
        Ok(Slot {
            cell: self.cell.name(),
            kind,
            round,
            contender: self.contender.name().to_owned(),
            answers,
            cpu_nanos: after.0 - before.0,
            side_cpu_nanos: after.1 - before.1,
            resident,
            changes,
        })
    }

    /// Changes that Sandgate's table has taken since it was made.
    fn applied(&self) -> Option<u64> {
        if !matches!(self.contender, Contender::Sandgate(_)) || self.cell.changes == 0 {
            return None;
        }
        self.admin?.json("/sandgate/status")?.pointer("/table/applied")?.as_u64()
    }

    fn source(&mut self) -> Source<'_> {
        if let Some(port) = self.push {
            return Source::Push { port };
        }
        match (&self.contender, &mut self.side) {
            (Contender::ExtProc, Some(side)) => Source::Told(side),
            (Contender::Sandgate(_), _) => Source::File { path: &self.routes, fleet: self.cell.fleet() },
            _ => Source::Nobody,
        }
    }
}

/// The table in the form this contender reads.
fn write_routes(contender: &Contender, cell: Cell, folder: &Path) -> Result<PathBuf> {
    let (name, text) = match contender {
        Contender::Sandgate(_) => ("routes.json", cell.fleet().routes_file(&[])),
        Contender::Lua | Contender::ExtProc => ("routes.txt", cell.fleet().plain_file()),
        _ => ("routes.txt", String::new()),
    };
    let path = folder.join(name);
    fs::write(&path, text).doing(format!("writing {}", path.display()))?;
    Ok(path)
}

/// Envoy with one worker on its core, once it serves.
pub(crate) fn envoy(
    name: &str,
    place: &Place,
    config: &serde_json::Value,
    folder: &Path,
) -> Result<(Running, Admin, u16)> {
    let (path, admin_path) = (folder.join("envoy.json"), folder.join("admin"));
    fs::write(&path, config.to_string()).doing(format!("writing {}", path.display()))?;
    let mut command = match &place.callgrind {
        None => process::pinned(place.envoy_core, &place.envoy),
        Some(file) => {
            let mut command = process::pinned(place.envoy_core, "valgrind");
            command.args(["--tool=callgrind", "--instr-atstart=no"]);
            command.arg(format!("--callgrind-out-file={}", file.display())).arg(&place.envoy);
            command
        }
    };
    command.arg("-c").arg(&path).arg("--admin-address-path").arg(&admin_path);
    command.args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]);
    let mut running = Running::start(name, command, &folder.join("envoy.log"))?;
    let admin = running.until(PATIENCE, || {
        let address: SocketAddr = fs::read_to_string(&admin_path).ok()?.trim().parse().ok()?;
        Some(Admin(address))
    })?;
    let port = running.until(PATIENCE, || admin.listening(LISTENER_NAME))?;
    Ok((running, admin, port))
}

/// A proxy of the reader's own, on Envoy's core, once it takes connections.
fn other(
    name: &str,
    command: &str,
    cell: Cell,
    upstream: u16,
    place: &Place,
    folder: &Path,
) -> Result<(Running, u16)> {
    let list = folder.join("upstreams.txt");
    let lines: String = cell.fleet().addresses().map(|ip| format!("{ip}:{upstream}\n")).collect();
    fs::write(&list, lines).doing(format!("writing {}", list.display()))?;
    let port = free_port()?;
    let line =
        command.replace("{port}", &port.to_string()).replace("{upstreams}", &list.display().to_string());
    let mut command = process::pinned(place.envoy_core, "sh");
    command.arg("-c").arg(format!("exec {line}"));
    let mut running = Running::start(name, command, &folder.join("proxy.log"))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    running.until(PATIENCE, || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok())?;
    Ok((running, port))
}

pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("looking for a port")?;
    Ok(listener.local_addr().doing("looking for a port")?.port())
}

impl Place {
    /// From the environment, as `make bench` sets it.
    pub(crate) fn find(envoy_core: usize, load_core: usize) -> Result<Self> {
        let required = |variable: &str| {
            let path = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.exists());
            path.ok_or_else(|| {
                Failure::Asked(format!("{variable} does not name a file: `make bench` sets it"))
            })
        };
        Ok(Self {
            envoy: required("SANDGATE_ENVOY")?,
            module: required("SANDGATE_MODULE")?,
            noop: required("SANDGATE_NOOP")?,
            envoy_core,
            load_core,
            callgrind: None,
        })
    }
}
