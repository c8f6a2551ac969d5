//! Where the gateway's keys come from, and how they stay up to date.

#![forbid(unsafe_code)]
