//! Words for the person at the terminal. A terminal or pipe that is gone must not end a gateway, so nothing here fails.

use std::io::Write as _;

/// To standard output, as it is.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// A line to standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "sandgate: {text}");
}
