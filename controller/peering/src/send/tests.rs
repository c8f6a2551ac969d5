//! The pusher over real HTTP: to receivers, and to peers that do as they are told.

mod activity;
mod delivery;
mod discovery;
mod fixture;
mod slow;
