//! What a request costs Envoy in instructions, counted by callgrind: the whole proxy under each contender,
//! and the module's hooks one by one. No neighbour disturbs the count, so it tells apart what no clock here
//! can.
//!
//! One request at a time over a few kept connections, so each has a turn of the event loop to itself: the
//! share of a contender is a little smaller than under load. What the kernel does is not counted, and malloc
//! is dearer than it is outside of valgrind, where Envoy's allocator has a faster way.

mod callgrind;
mod flame;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sandgate_benches::record::Record;

use crate::cell::{BASE, Cell};
use crate::contender::Contender;
use crate::envoy_config::Way;
use crate::failure::{Doing as _, Failure, Result};
use crate::message;
use crate::site::{Place, Site};
use callgrind::Profile;

const CELL: Cell = Cell { addresses: 100, routes: 1_000, ..BASE };
const CONNECTIONS: usize = 10;
/// Until every sandbox has its connections and every cache of Envoy's is as it stays.
const WARM: usize = 500;
const REQUESTS: usize = 1_000;
const RUNS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(60);
/// What Envoy calls in a module begins so.
const HOOK: &str = "envoy_dynamic_module_on_";

pub(crate) fn run(out: &Path, mut place: Place) -> Result<()> {
    fs::create_dir_all(out).doing(format!("making {}", out.display()))?;
    let contenders = [
        Contender::Limit,
        Contender::Noop,
        Contender::Floor,
        Contender::Sandgate(Way::OwnCluster),
        Contender::Sandgate(Way::OriginalDstPooled),
        Contender::Lua,
    ];
    let mut record = Record::default();
    for round in 0..RUNS {
        for contender in &contenders {
            eprintln!("{} of {RUNS}: {} under callgrind", round + 1, contender.name());
            let folder = tempfile::tempdir().doing("making a folder")?;
            let file = folder.path().join("callgrind.out");
            place.callgrind = Some(file.clone());
            let profile = counted(contender, &place, &file)?;
            let each = |cost: u64| cost as f64 / REQUESTS as f64;
            let name = contender.name();
            record.add("instructions a request", name, CELL.routes, "in all", round, each(profile.total()));
            for (hook, cost) in profile.inclusive_of(HOOK) {
                let hook = hook.trim_start_matches(HOOK);
                record.add("instructions a request", name, CELL.routes, hook, round, each(cost));
            }
            if *contender == Contender::Sandgate(Way::OwnCluster) && round == 0 {
                let picture = flame::draw(&profile, HOOK, REQUESTS);
                fs::write(out.join("hooks.svg"), picture).doing("writing hooks.svg")?;
            }
        }
    }
    record.summarise();
    record.write(&out.join("instructions.tsv")).doing("writing instructions.tsv")
}

fn counted(contender: &Contender, place: &Place, file: &Path) -> Result<Profile> {
    let mut site = Site::start(contender, CELL, place)?;
    let mut client = Client::connect(&site)?;
    client.ask(WARM)?;
    site.control("--instr=on")?;
    client.ask(REQUESTS / 10)?;
    site.control("--zero")?;
    client.ask(REQUESTS)?;
    site.control("--instr=off")?;
    site.control("--dump")?;
    // callgrind numbers its dumps.
    let dump = file.with_extension("out.1");
    let text = site.until(PATIENCE, || {
        fs::read_to_string(&dump).ok().filter(|text| text.lines().any(|line| line.starts_with("totals:")))
    })?;
    Profile::parse(&text).ok_or_else(|| Failure::Asked("this is not what callgrind writes".to_owned()))
}

/// Has callgrind do something in a process.
pub(crate) fn control(pid: u32, what: &str) -> Result<()> {
    let output = Command::new("callgrind_control")
        .args([what, &pid.to_string()])
        .output()
        .doing("starting callgrind_control")?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::Asked(format!("callgrind_control {what}: {}", String::from_utf8_lossy(&output.stderr))))
}

/// Asks one request after the other.
struct Client {
    connections: Vec<TcpStream>,
    around: (String, String),
    asked: usize,
}

impl Client {
    fn connect(site: &Site) -> Result<Self> {
        let connect = |_| {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, site.port())).doing("connecting")?;
            stream.set_read_timeout(Some(PATIENCE)).doing("a time-out")?;
            Ok(stream)
        };
        let connections = (0..CONNECTIONS).map(connect).collect::<Result<_>>()?;
        Ok(Self { connections, around: site.around_number(), asked: 0 })
    }

    fn ask(&mut self, requests: usize) -> Result<()> {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..requests {
            let (before, after) = &self.around;
            let request = format!("{before}{:07}{after}", self.asked % CELL.addresses);
            let connection = &mut self.connections[self.asked % CONNECTIONS];
            self.asked += 1;
            connection.write_all(request.as_bytes()).doing("asking")?;
            let mut length = 0;
            let status = loop {
                match connection.read(&mut buffer[length..]).doing("reading an answer")? {
                    0 => return Err(Failure::Asked("the gateway hung up".to_owned())),
                    more => length += more,
                }
                if let Some(response) = message::response(&buffer[..length]) {
                    break response.status;
                }
            };
            if status != 200 {
                return Err(Failure::Asked(format!("the gateway answered {status}")));
            }
        }
        Ok(())
    }
}
