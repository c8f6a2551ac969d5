//! From nothing to a ready table of a million routes, by a relist, as a process starts.

use std::time::Instant;

use sandgate_benches::record::Record;
use sandgate_routes::Scope;

use crate::fixture;
use crate::rivals::{Sandgate, Table};

pub(crate) fn run(record: &mut Record, quick: bool) {
    let size = if quick { 100_000 } else { 1_000_000 };
    for round in 0..if quick { 1 } else { 5 } {
        let making = Instant::now();
        let list: Vec<_> = (0..size).map(|number| fixture::observation(number, 1 + number as u64)).collect();
        let made = making.elapsed();
        let table = Sandgate::empty();
        let start = Instant::now();
        let at = fixture::version(size as u64);
        let mut relist = table.writer.begin_relist(Scope::new("kruise", None, ""), at);
        for observed in list {
            assert!(relist.observe(observed).is_applied());
        }
        let summary = relist.commit();
        table.writer.set_ready();
        let took = start.elapsed();
        assert_eq!((summary.deleted, table.reader.counts().routes), (0, size as u64));
        record.add("start s", Sandgate::NAME, size, "list in memory", round, took.as_secs_f64());
        record.add("making the list s", "fixture", size, "list in memory", round, made.as_secs_f64());
    }
}
