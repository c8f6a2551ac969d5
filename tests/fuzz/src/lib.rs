//! What the fuzz targets share.
#![forbid(unsafe_code)]

mod apply;
mod request;

pub use apply::assert_valid;
pub use request::{Reading, Request, checked, config, expected, port, summary};
