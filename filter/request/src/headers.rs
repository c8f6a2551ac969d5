//! How the request's headers are read.

/// Read access to the headers of one request.
///
/// In closure style because Envoy's buffers must not outlive the call that lent them. Names are lower case; the pseudo
/// headers `:path`, `:authority` and `:method` are included. Of a header sent several times, the first value counts.
pub trait Headers {
    /// Calls `f` with the value of `name`, or with `None` if the request has no such header.
    fn with<R>(&self, name: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> R;
}

/// A plain list of names and values, as a command line or a test has it. Names match in any case.
impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn with<R>(&self, name: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
        let found = self.iter().find(|(n, _)| n.as_ref().eq_ignore_ascii_case(name));
        f(found.map(|(_, value)| value.as_ref()))
    }
}
