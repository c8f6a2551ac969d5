//! What Envoy's own answers say about the sandbox.
//!
//! When the router cannot reach an upstream it answers itself, and says why in the response code details.
//! Only answers given before the request was sent are of interest: those of the connection, and that there is
//! no host.

use sandgate_request::Trouble;

/// What went wrong, from the response code details of an answer that Envoy gives itself.
pub(super) fn classify(details: &[u8]) -> Option<Trouble> {
    if details == b"no_healthy_upstream" {
        return Some(Trouble::Gone);
    }
    let reason = details.strip_prefix(b"upstream_reset_before_response_started{")?;
    let starts = |prefix: &str| reason.starts_with(prefix.as_bytes());
    if starts("connection_timeout") {
        return Some(Trouble::ConnectTimeout);
    }
    if !["remote_connection_failure", "local_connection_failure", "connection_failure"]
        .into_iter()
        .any(starts)
    {
        return None;
    }
    let says = |text: &str| reason.windows(text.len()).any(|part| part == text.as_bytes());
    if says("Connection_refused")
        || says("delayed_connect_error:_111")
        || says("immediate_connect_error:_111")
    {
        return Some(Trouble::PortClosed);
    }
    if says("timeout") || says("timed_out") {
        return Some(Trouble::ConnectTimeout);
    }
    Some(Trouble::ConnectFailed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_that_was_never_made_is_told_from_other_failures() {
        let reset = |reason: &str| format!("upstream_reset_before_response_started{{{reason}}}");
        for (details, expected) in [
            ("no_healthy_upstream".to_owned(), Some(Trouble::Gone)),
            (
                reset("remote_connection_failure|delayed_connect_error:_Connection_refused"),
                Some(Trouble::PortClosed),
            ),
            (reset("remote_connection_failure|delayed_connect_error:_111"), Some(Trouble::PortClosed)),
            (reset("connection_timeout"), Some(Trouble::ConnectTimeout)),
            (reset("local_connection_failure|connect_timeout"), Some(Trouble::ConnectTimeout)),
            (reset("remote_connection_failure|TLS_error:_x"), Some(Trouble::ConnectFailed)),
            (reset("connection_termination"), None),
            (reset("remote_reset"), None),
            (reset("overflow"), None),
            ("via_upstream".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(classify(details.as_bytes()), expected, "{details}");
        }
    }
}
