//! Who is compared.

use crate::cell::Cell;
use crate::envoy_config::{Way, offers};
use crate::failure::{Failure, Result};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Plain Envoy, round robin over as many addresses, no filter.
    Limit,
    /// The same once more: what two equal things differ by on this machine.
    LimitAgain,
    Sandgate(Way),
    Noop,
    /// What no gateway for sandboxes can leave out, done by Envoy itself.
    Floor,
    Lua,
    ExtProc,
    /// Any HTTP proxy, by its command.
    Other {
        name: String,
        command: String,
    },
}

pub(crate) const LIMIT: &str = "limit";
pub(crate) const LIMIT_AGAIN: &str = "limit again";

impl Contender {
    /// Ours and the peers, as many as this version has.
    pub(crate) fn known() -> Vec<Contender> {
        let ways = [Way::OwnCluster, Way::OriginalDst, Way::OriginalDstPooled];
        let ours = ways.into_iter().filter(|&way| offers(way)).map(Contender::Sandgate);
        let mut known = vec![Contender::Limit, Contender::LimitAgain];
        known.extend(ours);
        known.extend([Contender::Noop, Contender::Floor, Contender::Lua, Contender::ExtProc]);
        known
    }

    /// `name=command`, with `{port}` and `{upstreams}` in the command.
    pub(crate) fn other(text: &str) -> Result<Contender> {
        let (name, command) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
            Failure::Asked(format!("a contender is name=command, with {{port}} in the command; not {text:?}"))
        })?;
        if !command.contains("{port}") {
            return Err(Failure::Asked(format!(
                "the command of {name} does not say {{port}}, where it is to listen"
            )));
        }
        Ok(Contender::Other { name: name.to_owned(), command: command.to_owned() })
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Contender::Limit => LIMIT,
            Contender::LimitAgain => LIMIT_AGAIN,
            Contender::Sandgate(Way::OwnCluster) => "sandgate",
            Contender::Sandgate(Way::OriginalDst) => "sandgate, original_dst",
            Contender::Sandgate(Way::OriginalDstPooled) => "sandgate, original_dst pooled",
            Contender::Noop => "no-op module",
            Contender::Floor => "floor",
            Contender::Lua => "lua",
            Contender::ExtProc => "ext_proc",
            Contender::Other { name, .. } => name,
        }
    }

    /// Whether it can do what the cell asks for. One that cannot is left out of it, and the table says so.
    pub(crate) fn does(&self, cell: Cell) -> bool {
        match self {
            Contender::Limit | Contender::LimitAgain | Contender::ExtProc | Contender::Sandgate(_) => true,
            // Knows no sandbox, so it can neither refuse one nor hear of a change.
            Contender::Noop | Contender::Floor => !cell.asked.refused() && cell.changes == 0,
            // Takes a change by a new config only.
            Contender::Lua => cell.changes == 0,
            Contender::Other { .. } => !cell.asked.refused() && cell.changes == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell;

    #[test]
    fn a_proxy_of_the_readers_own_is_a_name_and_a_command() {
        let other = Contender::other("mine=proxy --listen {port} --to {upstreams}").expect("a contender");
        assert_eq!(other.name(), "mine");
        for bad in ["proxy {port}", "=proxy {port}", "mine=proxy"] {
            assert!(Contender::other(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_cell_has_the_limit_twice_and_sandgate() {
        for cell in cell::all() {
            let names: Vec<String> = Contender::known()
                .iter()
                .filter(|one| one.does(cell))
                .map(|one| one.name().to_owned())
                .collect();
            assert!(names.iter().any(|name| name == LIMIT) && names.iter().any(|name| name == LIMIT_AGAIN));
            assert!(names.iter().any(|name| name.starts_with("sandgate")), "{}", cell.name());
        }
    }
}
