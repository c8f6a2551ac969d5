//! The cases that the peers' own tests have for their parsers, in our words. A case that is read otherwise
//! here stands in a table of its own, with the reason.

mod agent_sandbox;
mod openkruise;
mod opensandbox;
