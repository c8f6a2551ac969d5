//! How large a request may be.
//!
//! The headers are counted once, before the sandbox is looked up. A `content-length` over the limit is
//! refused there too, so that nothing of such a request reaches the sandbox. Whatever it says, the body is
//! counted as it passes, so its sender cannot get around the limit; the sandbox then has the beginning of the
//! body when the request is ended.
//!
//! After an upgrade a request's body is the client's half of a conversation, such as a WebSocket's, and is
//! not counted any more. That begins with the sandbox's 101 and not with the client's wish.

use envoy_proxy_dynamic_modules_rust_sdk::EnvoyHttpFilter;
use sandgate_request::{Headers as _, Refusal};

use super::{Filter, RequestHeaders, response};

impl Filter {
    /// Judges the request by its headers, and begins to count its body.
    pub(super) fn check_sizes<EHF: EnvoyHttpFilter>(&self, envoy: &EHF) -> Result<(), Refusal> {
        let config = &self.shared.config;
        if let Some(limit) = config.request_header_bytes()
            && envoy.get_request_headers_byte_size() as u64 > u64::from(limit)
        {
            return Err(Refusal::HeadersTooLarge { limit });
        }
        let Some(limit) = config.request_bytes() else { return Ok(()) };
        let announced = RequestHeaders(envoy).with("content-length", |value| value.and_then(length));
        if announced.is_some_and(|announced| announced > limit) {
            return Err(Refusal::RequestTooLarge { limit });
        }
        self.room.set(Some(limit));
        Ok(())
    }

    /// Counts a part of the body. Returns whether the request may go on.
    pub(super) fn count_body<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF) -> bool {
        let Some(room) = self.room.get() else { return true };
        let room = room.checked_sub(envoy.get_received_request_body_size() as u64);
        self.room.set(room);
        if room.is_none() {
            let limit = self.shared.config.request_bytes().unwrap_or_default();
            self.cut(envoy, Refusal::RequestTooLarge { limit });
        }
        room.is_some()
    }

    /// Stops counting if this answer is the sandbox's consent to an upgrade.
    pub(super) fn note_upgrade<EHF: EnvoyHttpFilter>(&self, envoy: &EHF) {
        if self.room.get().is_some() && response::switches_protocols(envoy) {
            self.room.set(None);
        }
    }
}

/// A length as HTTP writes it. One that does not fit is larger than any limit.
fn length(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn a_length_is_decimal_and_one_that_does_not_fit_is_the_largest() {
        for (value, expected) in [
            ("0", Some(0)),
            (" 0012 ", Some(12)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", Some(u64::MAX)),
            ("99999999999999999999999999", Some(u64::MAX)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1,1", None),
            ("0x10", None),
        ] {
            assert_eq!(length(value.as_bytes()), expected, "{value:?}");
        }
    }
}
