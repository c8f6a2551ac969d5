//! Scenarios that need root.
//!
//! In CI (the variable `CI` is set and not empty; `.ci/run` sets it) such a scenario fails without root: a
//! check that nobody ran must not look like one that passed. Elsewhere it is skipped, and says so on the
//! terminal even where the output of tests is captured.

use std::fmt::Display;
use std::io::Write as _;

/// What needs root, or `None` where the scenario is to be skipped.
///
/// # Panics
/// In CI, when root is missing.
pub fn or_skip<T>(scenario: &str, made: Result<T, impl Display>) -> Option<T> {
    let reason = match made {
        Ok(made) => return Some(made),
        Err(reason) => reason,
    };
    assert!(!in_ci(std::env::var_os("CI").as_deref()), "{scenario} needs root, and CI must run it: {reason}");
    // `eprintln!` would be captured. A terminal that cannot be written to is no reason to fail.
    let _ = writeln!(std::io::stderr().lock(), "\nSKIPPED {scenario}: it needs root: {reason}");
    None
}

fn in_ci(variable: Option<&std::ffi::OsStr>) -> bool {
    variable.is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{in_ci, or_skip};

    #[test]
    fn what_could_be_made_is_used() {
        assert_eq!(or_skip("a scenario", Ok::<_, String>(7)), Some(7));
    }

    #[test]
    fn an_empty_variable_is_not_ci() {
        let ci = [None, Some(""), Some("1"), Some("true")].map(|value| in_ci(value.map(OsStr::new)));
        assert_eq!(ci, [false, false, true, true]);
    }
}
