//! What is varied. A cell is one setting of every axis; each axis is walked with the others at the base.

use crate::fleet::{Asked, Fleet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) addresses: usize,
    pub(crate) routes: usize,
    /// A new connection for every request.
    pub(crate) close: bool,
    pub(crate) http2: bool,
    /// Changes of the table, a second.
    pub(crate) changes: u32,
    pub(crate) asked: Asked,
}

/// Where every axis crosses the others.
pub(crate) const BASE: Cell =
    Cell { addresses: 1_000, routes: 100_000, close: false, http2: false, changes: 0, asked: Asked::Served };

/// An axis: its title and its cells, each with the word for its value there.
pub(crate) struct Axis {
    pub(crate) title: &'static str,
    pub(crate) file: &'static str,
    pub(crate) cells: Vec<(&'static str, Cell)>,
}

/// All of them.
pub(crate) fn axes() -> Vec<Axis> {
    let changing = |changes| Cell { changes, ..BASE };
    vec![
        Axis {
            title: "sandboxes asked for, each at an address of its own (100,000 routes)",
            file: "addresses",
            cells: vec![
                ("1", Cell { addresses: 1, ..BASE }),
                ("1,000", BASE),
                ("10,000", Cell { addresses: 10_000, ..BASE }),
            ],
        },
        Axis {
            title: "routes in the table (1,000 sandboxes asked for)",
            file: "routes",
            cells: vec![
                ("1k", Cell { routes: 1_000, ..BASE }),
                ("100k", BASE),
                ("1M", Cell { routes: 1_000_000, ..BASE }),
            ],
        },
        Axis {
            title: "client connections and protocol",
            file: "clients",
            cells: vec![
                ("HTTP/1.1 keep-alive", BASE),
                ("HTTP/1.1 new connections", Cell { close: true, ..BASE }),
                ("HTTP/2", Cell { http2: true, ..BASE }),
            ],
        },
        Axis {
            title: "table changes a second (100,000 routes)",
            file: "changes",
            cells: vec![("0", changing(0)), ("100", changing(100)), ("1,000", changing(1_000))],
        },
        Axis {
            title: "local replies (the limit is Envoy's direct response)",
            file: "replies",
            cells: vec![
                ("unknown sandbox", Cell { asked: Asked::Unknown, ..BASE }),
                ("paused sandbox", Cell { asked: Asked::Paused, ..BASE }),
            ],
        },
    ]
}

/// Every cell once, in the order of the axes.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for (_, cell) in axes().into_iter().flat_map(|axis| axis.cells) {
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    cells
}

/// What a look takes: the addresses axis.
pub(crate) fn quick() -> Vec<Cell> {
    axes().swap_remove(0).cells.into_iter().map(|(_, cell)| cell).collect()
}

impl Cell {
    pub(crate) fn fleet(self) -> Fleet {
        Fleet { addresses: self.addresses, routes: self.routes }
    }

    /// Its name in the raw data and on the command line.
    pub(crate) fn name(self) -> String {
        let Self { addresses, routes, changes, .. } = self;
        let protocol = match (self.http2, self.close) {
            (true, _) => "h2",
            (false, true) => "h1-new",
            (false, false) => "h1",
        };
        format!("{addresses}a-{routes}r-{protocol}-{changes}c-{}", self.asked.name())
    }

    /// Whether latency is measured too: not where connections are new, nor over HTTP/2, which the open loop
    /// does not speak.
    pub(crate) fn has_latency(self) -> bool {
        !self.close && !self.http2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_of_the_suite_is_walked_and_no_cell_has_anothers_name() {
        let cells = all();
        let has = |wanted: fn(&Cell) -> bool| cells.iter().any(wanted);
        for addresses in [1, 1_000, 10_000] {
            assert!(cells.iter().any(|cell| cell.addresses == addresses));
        }
        for routes in [1_000, 100_000, 1_000_000] {
            assert!(cells.iter().any(|cell| cell.routes == routes));
        }
        for changes in [0, 100, 1_000] {
            assert!(cells.iter().any(|cell| cell.changes == changes));
        }
        assert!(has(|cell| cell.close) && has(|cell| cell.http2));
        assert!(has(|cell| cell.asked == Asked::Unknown) && has(|cell| cell.asked == Asked::Paused));
        let mut names: Vec<String> = cells.iter().map(|cell| cell.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), cells.len());
    }

    #[test]
    fn every_address_of_a_cell_has_a_sandbox() {
        assert!(all().iter().all(|cell| cell.routes >= cell.addresses));
    }
}
