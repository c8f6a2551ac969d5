//! The routes file, which changes, and the wire to the API server, which breaks.

use std::fs;
use std::sync::Arc;

use super::world::{World, address};
use crate::kubernetes::{Ask, Fault};
use crate::{ConfigMap, route, routes};

/// Routes in the file at one time, and how many of them are others each time.
const ENTRIES: u32 = 20;
const OTHERS: u32 = 3;
/// Far from the numbers of the other lives.
const FIRST: u32 = 2000;

/// Swaps the file as the kubelet does, writes it in place now and then, and sometimes writes what cannot be
/// read.
pub(super) async fn file(world: Arc<World>) {
    let mut turns = world.turns(1.0);
    let mount = &world.at.mount;
    fs::remove_file(mount.join("routes.yaml")).expect("remove the first file");
    let mut map = ConfigMap::mount(mount, "routes: []");
    let mut round = 0;
    while turns.next().await {
        let here = round * OTHERS..round * OTHERS + ENTRIES;
        let entries = here.clone().map(|n| {
            let entry = route(&format!("f{n}")).ip(address(FIRST + n % 2000));
            if n % 5 == 4 { entry.state("paused") } else { entry }
        });
        let text = routes(entries);
        match round % 7 {
            5 => fs::write(map.file(), &text).expect("write in place"),
            6 => map.swap("routes: [{"),
            _ => map.swap(&text),
        }
        world.did("reloaded");
        for gone in here.start.saturating_sub(OTHERS)..here.start {
            world.dismiss(&id(gone));
        }
        let fresh = if round == 0 { here } else { here.end - OTHERS..here.end };
        fresh.for_each(|n| world.admit(&id(n)));
        round += 1;
    }
    map.swap("routes: []");
}

fn id(number: u32) -> String {
    format!("default--f{number}")
}

/// Breaks the watch in one way after the other; each has acted, or is taken back, before the next.
pub(super) async fn faults(world: Arc<World>) {
    let mut turns = world.turns(0.3);
    let wire = &world.at.wire;
    let mut round = 0;
    while turns.next().await {
        wire.clear();
        match round % 6 {
            0 | 1 => wire.cut_running(),
            2 => wire.once(Ask::Watch, Fault::CutMidLine),
            3 => wire.once(Ask::Watch, Fault::Garble),
            4 => {
                // Lists again.
                wire.once(Ask::Watch, Fault::ErrorEvent(410));
                wire.cut_running();
            }
            _ => {
                wire.once(Ask::Watch, Fault::Answer(503));
                wire.cut_running();
            }
        }
        world.did("watch broken");
        round += 1;
    }
    wire.clear();
}
