//! How the request's headers are read.

/// Read access to the headers of one request.
///
/// In closure style because Envoy's buffers must not outlive the call that lent them. Names are lower case;
/// the pseudo headers `:path`, `:authority` and `:method` are included.
pub trait Headers {
    /// Calls `f` with the value of `name`, or with `None` if the request has no such header. Of several
    /// values it is the first: whoever acts on a header that others may read otherwise asks
    /// [`Headers::repeats`] too.
    fn with<R>(&self, name: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> R;

    /// Whether the request has `name` more than once.
    fn repeats(&self, name: &str) -> bool;
}

/// A plain list of names and values, as a command line or a test has it. Names match in any case.
impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn with<R>(&self, name: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
        let found = self.iter().find(|(n, _)| is_name(n.as_ref(), name));
        f(found.map(|(_, value)| value.as_ref()))
    }

    fn repeats(&self, name: &str) -> bool {
        self.iter().filter(|(n, _)| is_name(n.as_ref(), name)).nth(1).is_some()
    }
}

/// Nearly always the case is the same, and then comparing is quicker.
fn is_name(found: &str, name: &str) -> bool {
    found == name || found.eq_ignore_ascii_case(name)
}
