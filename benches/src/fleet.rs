//! The sandboxes of a run: as many routes as the cell says, on as many addresses of 127/8, the same for every
//! contender.
//!
//! Running ones are `bench--s0000000` and on. Every sandbox has an address of its own, as pods have; the
//! first `addresses` of them are asked for, each as often as the others, as round-robin has it, and the rest
//! fill the table. Beside them stand paused ones (`p`), and ones that only the changes touch (`c`); `u` IDs
//! exist nowhere.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// How many sandboxes are paused, and how many are there for the changes.
pub const SIDE: usize = 100;
const NAMESPACE: &str = "bench";
/// The domain of every request's host.
pub const DOMAIN: &str = "bench.test";

/// Which sandboxes requests ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Those that run.
    Served,
    /// Those that exist nowhere.
    Unknown,
    /// Those that are paused.
    Paused,
    /// The ones beside the fleet, where nobody changes them.
    Beside,
}

impl Asked {
    /// All kinds.
    pub const ALL: [Asked; 4] = [Asked::Served, Asked::Unknown, Asked::Paused, Asked::Beside];

    /// Whether the gateway has to refuse them.
    pub fn refused(self) -> bool {
        matches!(self, Asked::Unknown | Asked::Paused)
    }

    /// The letter in the IDs.
    pub fn letter(self) -> char {
        match self {
            Asked::Served => 's',
            Asked::Unknown => 'u',
            Asked::Paused => 'p',
            Asked::Beside => 'c',
        }
    }

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Asked::Served => "served",
            Asked::Unknown => "unknown",
            Asked::Paused => "paused",
            Asked::Beside => "beside",
        }
    }
}

/// How many sandboxes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// Those that are asked for.
    pub addresses: usize,
    /// All in the table.
    pub routes: usize,
}

impl Fleet {
    /// Every address that is asked for.
    pub fn addresses(self) -> impl Iterator<Item = Ipv4Addr> {
        (0..self.addresses).map(address)
    }

    /// How many run: with those beside them they are as many as the table is to have, if that leaves one for
    /// each address.
    fn running(self) -> usize {
        self.routes.saturating_sub(2 * SIDE).max(self.addresses)
    }

    /// How many IDs of this kind there are to ask for.
    pub fn ids(self, asked: Asked) -> usize {
        match asked {
            Asked::Served => self.addresses,
            Asked::Unknown | Asked::Paused | Asked::Beside => SIDE,
        }
    }

    /// The routes file of Sandgate. Those of the changes run where their bit in `moved` says.
    pub fn routes_file(self, moved: &[bool]) -> String {
        let mut file = String::with_capacity(self.routes * 64);
        file.push_str("{\"routes\":[");
        for number in 0..self.running() {
            let ip = address(number);
            let _ = writeln!(file, r#"{{"namespace":"{NAMESPACE}","name":"s{number:07}","ip":"{ip}"}},"#);
        }
        for number in 0..SIDE {
            let ip = side_address(number, moved.get(number).copied().unwrap_or_default());
            let _ = writeln!(file, r#"{{"namespace":"{NAMESPACE}","name":"c{number:07}","ip":"{ip}"}},"#);
        }
        for number in 0..SIDE {
            let comma = if number + 1 < SIDE { "," } else { "" };
            let _ = writeln!(
                file,
                r#"{{"namespace":"{NAMESPACE}","name":"p{number:07}","ip":"{}","state":"paused"}}{comma}"#,
                Ipv4Addr::new(127, 210, 0, 1)
            );
        }
        file.push_str("]}\n");
        file
    }

    /// The same table for peers: a line is an ID and an address, or `-` where the sandbox is paused.
    pub fn plain_file(self) -> String {
        let mut file = String::with_capacity(self.routes * 32);
        for number in 0..self.running() {
            let _ = writeln!(file, "{} {}", id('s', number), address(number));
        }
        for number in 0..SIDE {
            let _ = writeln!(file, "{} {}", id('c', number), side_address(number, false));
            let _ = writeln!(file, "{} -", id('p', number));
        }
        file
    }
}

/// The ID of a sandbox.
pub fn id(letter: char, number: usize) -> String {
    format!("{NAMESPACE}--{letter}{number:07}")
}

/// The host of a request: `{port}-{id}.{domain}`.
pub fn host(port: u16, letter: char, number: usize) -> String {
    format!("{port}-{}.{DOMAIN}", id(letter, number))
}

/// Where a sandbox of the changes is, and where it is when it has moved.
pub fn side_address(number: usize, moved: bool) -> Ipv4Addr {
    let base = Ipv4Addr::new(127, if moved { 201 } else { 200 }, 0, 1);
    Ipv4Addr::from(u32::from(base) + u32::try_from(number).expect("a small number"))
}

/// 127.1.0.1 and on.
pub fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x7f01_0001 + u32::try_from(number).expect("fewer addresses than 127/8 has"))
}

/// A walk through `count` IDs that visits each once before any twice, far apart from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// How many there are.
    pub count: usize,
    /// Where it is.
    pub at: usize,
}

impl Walk {
    /// A prime that no count of ours is a multiple of.
    pub const STEP: usize = 7_919;

    /// The next one.
    pub fn next_number(&mut self) -> usize {
        self.at = (self.at + Self::STEP) % self.count;
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_walk_visits_every_id_once_before_any_twice() {
        for count in [1, 1_000, 100_000] {
            let mut walk = Walk { count, at: 17 % count };
            let seen: HashSet<usize> = (0..count).map(|_| walk.next_number()).collect();
            assert_eq!(seen.len(), count);
        }
    }

    #[test]
    fn the_routes_file_is_one_that_sandgate_reads_with_every_kind_of_sandbox() {
        let fleet = Fleet { addresses: 10, routes: 3 };
        let file: serde_json::Value =
            serde_json::from_str(&fleet.routes_file(&[false, true])).expect("valid JSON");
        let routes = file["routes"].as_array().expect("a list");
        assert_eq!(routes.len(), 10 + 2 * SIDE);
        assert_eq!(routes[4]["name"], "s0000004");
        assert_eq!(routes[4]["ip"], "127.1.0.5");
        assert_eq!(routes[10]["ip"], "127.200.0.1");
        assert_eq!(routes[11]["ip"], "127.201.0.2");
        assert_eq!(routes.iter().filter(|route| route["state"] == "paused").count(), SIDE);
        assert_eq!(id('s', 4), "bench--s0000004");
    }

    #[test]
    fn no_two_running_sandboxes_have_one_address() {
        // Sandgate's own cluster gives a host to one sandbox; two on one address would take it from each
        // other.
        let file = Fleet { addresses: 3, routes: 5_000 }.plain_file();
        let all: Vec<&str> =
            file.lines().filter_map(|line| line.split(' ').nth(1)).filter(|&ip| ip != "-").collect();
        let different: HashSet<&str> = all.iter().copied().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(all.len(), 5_000 - SIDE);
        assert_eq!(file.lines().count(), 5_000, "a table of a million is one that a routes file may have");
    }

    #[test]
    fn peers_get_the_same_table() {
        let plain = Fleet { addresses: 10, routes: 3 }.plain_file();
        assert_eq!(plain.lines().count(), 10 + 2 * SIDE);
        assert!(plain.contains("bench--s0000004 127.1.0.5\n"));
        assert!(plain.contains("bench--p0000000 -\n"));
    }
}
