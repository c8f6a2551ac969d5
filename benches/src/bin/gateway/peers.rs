//! The ways others do it: a table in Envoy's Lua filter, a table in another process behind ext_proc.

mod extproc;
mod messages;
mod table;

pub(crate) use extproc::serve as serve_extproc;

const LUA: &str = include_str!("peers/lua.lua");

/// The Lua filter's code, with its table in this file.
pub(crate) fn lua(routes: &str) -> String {
    LUA.replace("ROUTES", routes)
}
