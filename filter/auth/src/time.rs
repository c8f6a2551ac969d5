/// Seconds since 1970, as the caller's clock has them. Nothing of this crate asks the system for the time.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct UnixTime(pub u64);
