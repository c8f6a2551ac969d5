//! Answers that the module does not give itself: Envoy's own, and the sandbox's.
//!
//! When Envoy's router cannot reach an upstream it answers itself and says why in the response code details.
//! [`classify`] reads them. It knows failures before the request was sent: those of the connection, and that
//! there is no host. Of those after it, it knows that a time was over in which the answer should have come.
//! What these become is an answer and never another try.
//!
//! A sandbox runs a tenant's code, and the gateway's own infrastructure reads some response headers: a front
//! Envoy takes this gateway out of service for everybody when an answer has
//! `x-envoy-immediate-health-check-fail`. So [`judge`] and [`clean`] remove the headers of Envoy and of
//! Sandgate from every answer that comes from a sandbox. The router's own `x-envoy-upstream-service-time`
//! cannot be told from a sandbox's, so it is removed too. Answers that Envoy gives itself keep theirs.

use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyBuffer, EnvoyHttpFilter};
use sandgate_request::Trouble;

/// What went wrong, from the status and the response code details of an answer that Envoy gives itself.
/// `gave_up` is whether the load balancer had no host because the time for tries was over; `last_failure` is
/// why the last connection was not made.
pub(super) fn classify<'r>(
    status: u32,
    details: &[u8],
    gave_up: bool,
    last_failure: impl FnOnce() -> Option<EnvoyBuffer<'r>>,
) -> Option<Trouble> {
    let last_failure = || last_failure().map_or(Trouble::ConnectTimeout, |why| not_connected(why.as_slice()));
    match details {
        b"no_healthy_upstream" if gave_up => return Some(last_failure()),
        b"no_healthy_upstream" => return Some(Trouble::Gone),
        // Between two tries: more of the body came than is kept for another one. None of it was sent.
        b"request_payload_exceeded_retry_buffer_limit" => return Some(last_failure()),
        b"upstream_response_timeout" | b"response_timeout" | b"upstream_per_try_timeout" => {
            return Some(Trouble::ResponseTimeout);
        }
        // 408 is of a client that did not send its request to the end.
        b"stream_idle_timeout" if status == 504 => return Some(Trouble::ResponseTimeout),
        _ => {}
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
    Some(not_connected(reason))
}

/// Why a connection was not made, in Envoy's words. In response code details they have no spaces.
fn not_connected(reason: &[u8]) -> Trouble {
    let same = |(found, wanted): (&u8, &u8)| found == wanted || (*found == b' ' && *wanted == b'_');
    let says = |text: &str| reason.windows(text.len()).any(|part| part.iter().zip(text.as_bytes()).all(same));
    if says("Connection_refused")
        || says("delayed_connect_error:_111")
        || says("immediate_connect_error:_111")
    {
        return Trouble::PortClosed;
    }
    if says("timeout") || says("timed_out") {
        return Trouble::ConnectTimeout;
    }
    Trouble::ConnectFailed
}

/// What to do with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It goes on as it is.
    Pass,
    /// It goes on without the headers that [`clean`] removes.
    Clean,
    /// It is no answer: see [`Trouble::BadStatus`].
    BadStatus,
}

/// Looks at every header once. Allocates nothing.
pub(super) fn judge<EHF: EnvoyHttpFilter>(envoy: &EHF) -> Judgement {
    let (mut valid, mut switches, mut internal) = (false, false, false);
    envoy.visit_response_headers(&mut |name, value| {
        if name == b":status" {
            valid = is_final(value);
            switches = value == b"101";
        } else {
            internal |= is_internal(name);
        }
    });
    // The request's headers are asked for only by the few answers that switch protocols.
    let valid = valid || (switches && envoy.get_request_header_value("upgrade").is_some());
    if !valid {
        return Judgement::BadStatus;
    }
    if internal { Judgement::Clean } else { Judgement::Pass }
}

/// Whether an answer is one to an upgrade.
pub(super) fn switches_protocols<EHF: EnvoyHttpFilter>(envoy: &EHF) -> bool {
    let mut switches = false;
    envoy.visit_response_headers(&mut |name, value| switches |= name == b":status" && value == b"101");
    switches
}

/// Removes what is not a sandbox's to say.
#[cold]
pub(super) fn clean<EHF: EnvoyHttpFilter>(envoy: &mut EHF) {
    let mut names = Vec::new();
    envoy.visit_response_headers(&mut |name, _| {
        if let (true, Ok(name)) = (is_internal(name), std::str::from_utf8(name)) {
            names.push(name.to_owned());
        }
    });
    for name in names {
        envoy.remove_response_header(&name);
    }
}

/// A status that ends a request: 200 to 599.
fn is_final(status: &[u8]) -> bool {
    matches!(status, [b'2'..=b'5', b'0'..=b'9', b'0'..=b'9'])
}

/// Names that mean something to an Envoy or to a Sandgate. Envoy's names are in lower case.
fn is_internal(name: &[u8]) -> bool {
    name.starts_with(b"x-")
        && (name.starts_with(b"x-envoy-")
            || name.starts_with(b"x-sandgate-")
            || matches!(name, b"x-sandbox-id" | b"x-sandbox-uid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plainly(status: u32, details: &str) -> Option<Trouble> {
        classify(status, details.as_bytes(), false, || panic!("nobody asks for {details}"))
    }

    #[test]
    fn only_a_connection_that_was_never_made_and_a_time_that_is_over_are_told_from_other_failures() {
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
            ("upstream_response_timeout".to_owned(), Some(Trouble::ResponseTimeout)),
            ("response_timeout".to_owned(), Some(Trouble::ResponseTimeout)),
            ("upstream_per_try_timeout".to_owned(), Some(Trouble::ResponseTimeout)),
            ("stream_idle_timeout".to_owned(), Some(Trouble::ResponseTimeout)),
            ("request_overall_timeout".to_owned(), None),
            ("via_upstream".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(plainly(504, &details), expected, "{details}");
        }
        assert_eq!(plainly(408, "stream_idle_timeout"), None, "the client was silent, not the sandbox");
    }

    #[test]
    fn what_was_tried_until_its_time_was_over_failed_as_its_last_try_did() {
        for (reason, expected) in [
            ("delayed connect error: Connection refused", Trouble::PortClosed),
            ("delayed connect error: 111", Trouble::PortClosed),
            ("connect timeout", Trouble::ConnectTimeout),
            ("TLS_error:|x", Trouble::ConnectFailed),
        ] {
            assert_eq!(not_connected(reason.as_bytes()), expected, "{reason}");
        }
        for (details, gave_up) in
            [("no_healthy_upstream", true), ("request_payload_exceeded_retry_buffer_limit", false)]
        {
            let found = classify(503, details.as_bytes(), gave_up, || None);
            assert_eq!(found, Some(Trouble::ConnectTimeout), "{details}");
        }
    }

    #[test]
    fn a_final_status_is_one_from_200_to_599() {
        for (status, expected) in [
            ("200", true),
            ("204", true),
            ("599", true),
            ("100", false),
            ("101", false),
            ("199", false),
            ("600", false),
            ("999", false),
            ("000", false),
            ("20", false),
            ("2000", false),
            ("2x0", false),
            ("", false),
        ] {
            assert_eq!(is_final(status.as_bytes()), expected, "{status}");
        }
    }

    #[test]
    fn the_headers_of_envoy_and_of_sandgate_are_internal_and_no_others() {
        for name in [
            "x-envoy-immediate-health-check-fail",
            "x-envoy-",
            "x-sandgate-route",
            "x-sandbox-id",
            "x-sandbox-uid",
        ] {
            assert!(is_internal(name.as_bytes()), "{name}");
        }
        for name in
            ["x-envoy", "x-sandbox-ids", "x-sandbox-port", "x-request-id", "content-type", "envoy-x", ""]
        {
            assert!(!is_internal(name.as_bytes()), "{name}");
        }
    }
}
