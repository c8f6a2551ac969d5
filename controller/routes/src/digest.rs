//! A table in one line: equal where two processes serve the same, and different where they do not.
//!
//! Each route is hashed by itself (SHA-256 of its parts, each with its length before it) and the hashes are
//! added up as numbers of 256 bits, so no order enters; the sum is hashed once more, with the number of
//! routes. What enters is what readers can see and what is the same everywhere: not the identity's number,
//! which is the process's own. A token enters as its own SHA-256, and nothing of it can be had back. A
//! traffic token is one part more, and only where there is one.
//!
//! It reads every route, and is not a snapshot: compare digests of tables that are not changing.

use sha2::{Digest, Sha256};

use crate::served::ServedMap;
use crate::{Route, Secret, TokenKind};

// Changes with what is hashed, so that two kinds of digests are never taken for two tables.
const KIND: &[u8] = b"sandgate-routes-1";

const HAS_TOKEN: u8 = 1 << 0;
const REQUIRES_TRAFFIC_AUTH: u8 = 1 << 1;
const AMBIGUOUS: u8 = 1 << 2;
const SECURE_ACCESS: u8 = 1 << 3;
const HAS_TRAFFIC_TOKEN: u8 = 1 << 4;

pub(crate) fn digest(served: &ServedMap) -> String {
    let (mut sum, mut count) = ([0; 4], 0u64);
    for route in served.pin().iter() {
        add(&mut sum, of_route(route));
        count += 1;
    }
    let mut hash = Sha256::new();
    hash.update(KIND);
    hash.update(count.to_be_bytes());
    for word in sum.iter().rev() {
        hash.update(word.to_be_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn of_route(route: &Route) -> [u8; 32] {
    let key = route.raw_key();
    let hashed = |token: &Secret| token.with_bytes(|bytes| Sha256::digest(bytes));
    let (token, traffic_token) = (route.token().map(hashed), route.traffic_token().map(hashed));
    let mut flags = 0;
    for (flag, is_set) in [
        (HAS_TOKEN, token.is_some()),
        (REQUIRES_TRAFFIC_AUTH, route.require_traffic_auth()),
        (AMBIGUOUS, route.is_ambiguous()),
        (SECURE_ACCESS, route.token().is_some_and(|token| token.kind() == TokenKind::SecureAccess)),
        (HAS_TRAFFIC_TOKEN, traffic_token.is_some()),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    let ip = route.ip().map(|ip| ip.to_string()).unwrap_or_default();
    let mut hash = Sha256::new();
    let mut enter = |part: &[u8]| {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    };
    for part in [
        key.provider,
        key.namespace,
        key.name,
        route.raw_id(),
        route.uid().as_bytes(),
        route.owner().as_bytes(),
        route.state().as_str().as_bytes(),
        route.version().to_string().as_bytes(),
        ip.as_bytes(),
        &[flags],
        token.as_ref().map_or(&[], |token| token.as_slice()),
    ] {
        enter(part);
    }
    if let Some(token) = &traffic_token {
        enter(token);
    }
    hash.finalize().into()
}

/// Adds a big-endian number to a sum whose lowest word comes first.
fn add(sum: &mut [u64; 4], number: [u8; 32]) {
    let mut carry = false;
    for (word, bytes) in sum.iter_mut().zip(number.rchunks_exact(8)) {
        let more = bytes.iter().fold(0, |more, &byte| more << 8 | u64::from(byte));
        let (partial, over) = word.overflowing_add(more);
        let (whole, over_again) = partial.overflowing_add(u64::from(carry));
        (*word, carry) = (whole, over || over_again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_carries_from_word_to_word_and_wraps_at_its_end() {
        let number = |words: [u64; 4]| {
            let mut bytes = [0; 32];
            for (chunk, word) in bytes.rchunks_exact_mut(8).zip(words) {
                chunk.copy_from_slice(&word.to_be_bytes());
            }
            bytes
        };
        let mut sum = [u64::MAX, u64::MAX, 1, 0];
        add(&mut sum, number([1, 0, 0, 5]));
        assert_eq!(sum, [0, 0, 2, 5]);
        add(&mut sum, number([u64::MAX, u64::MAX, u64::MAX - 2, u64::MAX - 5]));
        add(&mut sum, number([1, 0, 0, 0]));
        assert_eq!(sum, [0, 0, 0, 0]);
    }
}
