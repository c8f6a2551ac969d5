//! Runs tasks inside a pod: OpenSandbox's task executor, with its HTTP API and its files.
//!
//! # Who does what
//! - The **server** ([`run()`]) reads requests and checks their token. It does nothing itself.
//! - The **manager**, one thread, owns the tasks: one command at a time, and between two commands it looks at
//!   the processes.
//! - The **store** keeps each task in a folder. Nothing is started that is not on the disk.
//! - The **shim** is this program again, one process a task. It starts the command, waits for it and writes
//!   its exit code. It outlives the executor.
//!
//! # Once, whatever dies
//! A command runs at most once, and a task that was accepted is run or reported:
//!
//! 1. The manager writes `task.json`, and then starts a shim.
//! 2. The shim claims the start: it links a complete file to the name `start`, which succeeds for one process
//!    ever. Only who has claimed it runs the command.
//! 3. An executor that comes back and finds a task without `start` starts another shim. If an older shim is
//!    still on its way, one of the two claims, and the other ends.
//! 4. One that finds `start` never starts anything. It knows the shim by its pid and the time of its start,
//!    so it takes no other process for it. If the shim is gone and left no exit code, the task has crashed.
//! 5. Before a task is removed that has not started, the manager claims the start itself: a shim that is
//!    still on its way finds it taken.
//!
//! Nothing is lost: before 2 the task is on the disk and is started again; after 2 its end is seen. Nothing
//! runs twice: 2 succeeds once for a folder, and the folder of a task is never filled again: it is moved
//! away before it is emptied.

#![forbid(unsafe_code)]

mod actor;
mod api;
mod args;
mod clock;
mod failpoint;
mod install;
mod launch;
mod log;
mod manager;
mod name;
mod proc;
mod record;
mod run;
mod shim;
mod sidecar;
mod start;
mod status;
mod store;

pub use args::Args;
pub use install::install;
pub use log::{LogFile, LogSettings};
pub use run::{RunError, run};
pub use shim::{SHIM, shim};
