use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::cluster::usage::Usage;

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u64>>>);

impl EnvoyHttpFilterScheduler for Seen {
    fn commit(&self, event_id: u64) {
        self.0.lock().expect("no panic").push(event_id);
    }
}

const PICK: Pick = Pick::none();

fn alone() -> Entered {
    Entered::uncounted(true)
}

fn host(identity: u64, last: u8) -> Arc<Host> {
    Arc::new(Host::new(Endpoint::new([127, 0, 0, last].into(), 80), identity, Arc::new(Usage::default())))
}

#[test]
fn a_token_finds_its_own_request_and_never_the_next_in_its_place() {
    let (first, second) = (host(1, 1), host(2, 2));
    let token = enter(Arc::clone(&first), PICK, alone(), Box::new(Seen::default()));
    assert_eq!(Token::from_bytes(&token.to_bytes()), Some(token));
    let found = target(token).expect("it is there");
    assert_eq!((found.identity, found.again), (1, false));
    assert!(target(token).expect("it is there").again, "the second time is a retry");
    leave(token);
    leave(token);
    assert_eq!((target(token), first.in_flight()), (None, 0));
    let next = enter(Arc::clone(&second), PICK, alone(), Box::new(Seen::default()));
    assert_eq!((next.index, target(token)), (token.index, None));
    leave(token);
    assert_eq!(second.in_flight(), 1, "an old token ended another's request");
    leave(next);
    assert_eq!(Token::from_bytes(b"seven"), None);
}

#[test]
fn a_request_is_tried_twice_and_then_until_its_time_is_over() {
    let now = Instant::now();
    let plain = enter(host(1, 1), PICK, alone(), Box::new(Seen::default()));
    let late = enter(host(1, 1), PICK, alone(), Box::new(Seen::default()));
    try_until(late, now);
    let early = enter(host(1, 1), PICK, alone(), Box::new(Seen::default()));
    try_until(early, now + Duration::from_secs(3600));
    for token in [plain, late, early] {
        assert!(target(token).is_some() && target(token).is_some_and(|target| target.again));
        assert!(!has_given_up(token));
    }
    assert!(target(plain).is_some(), "how often is for Envoy's route to say");
    assert!(target(early).is_some_and(|target| target.again) && !has_given_up(early));
    assert!(target(late).is_none() && has_given_up(late));
    [plain, late, early].into_iter().for_each(leave);
}

#[test]
fn only_the_requests_of_the_identity_at_other_addresses_are_ended() {
    let seen: Vec<Seen> = (0..3).map(|_| Seen::default()).collect();
    let hosts = [host(1, 1), host(1, 2), host(2, 1)];
    let tokens: Vec<Token> = hosts
        .iter()
        .zip(&seen)
        .map(|(host, seen)| enter(Arc::clone(host), PICK, alone(), Box::new(seen.clone())))
        .collect();
    let counts = || seen.iter().map(|one| one.0.lock().expect("no panic").len()).collect::<Vec<_>>();
    let elsewhere = End::now(1, Some([127, 0, 0, 2].into()));
    let newer = Seen::default();
    let served_again = enter(host(1, 1), PICK, alone(), Box::new(newer.clone()));
    end(&[elsewhere]);
    assert_eq!(counts(), [1, 0, 0]);
    assert!(newer.0.lock().expect("no panic").is_empty(), "it is served there again");
    leave(served_again);
    end(&[End::now(2, None), End::now(1, None)]);
    assert_eq!(counts(), [1, 1, 1], "one is told once");
    tokens.into_iter().for_each(leave);
    end(&[End::now(1, None)]);
    assert_eq!(counts(), [1, 1, 1]);
}

#[test]
fn an_identitys_requests_are_found_among_thousands_that_come_and_go() {
    let mut streams = Streams::new();
    let seen = Seen::default();
    let mut live: Vec<(u64, Token)> = Vec::new();
    for round in 0..20_000_u64 {
        let identity = round % 3_000;
        let host = host(identity, 1);
        live.push((identity, streams.enter(host, PICK, alone(), Box::new(seen.clone()))));
        if round % 3 == 0 {
            let at = usize::try_from(round * 7_919).expect("small") % live.len();
            drop(streams.leave(live.swap_remove(at).1));
        }
    }
    let expected = live.iter().filter(|(identity, _)| *identity < 10).count();
    let ends: Vec<End> = (0..10).map(|identity| End::now(identity, None)).collect();
    assert_eq!(streams.end(&ends), expected as u64);
    assert_eq!(streams.end(&ends), 0, "nobody is told twice");
    assert_eq!(seen.0.lock().expect("no panic").len(), expected);
    // What is looked at for one identity is its own and few others.
    let looked = |streams: &mut Streams, identity| {
        let mut next = *streams.chain(identity).expect("a chain");
        let mut count = 0;
        while let Some(entry) = streams.entries.get(next as usize) {
            (next, count) = (entry.after, count + 1);
        }
        count
    };
    let most = (0..3_000).map(|identity| looked(&mut streams, identity)).max();
    assert!(most < Some(20), "{most:?}");
    live.into_iter().for_each(|(_, token)| drop(streams.leave(token)));
    assert!(streams.chains.iter().all(|chain| *chain == NONE), "an entry was left in its chain");
}

#[test]
fn a_host_where_nothing_listens_may_go_with_the_last_request_that_was_refused() {
    let (mut streams, host) = (Streams::new(), host(1, 1));
    let mut enter = || streams.enter(Arc::clone(&host), PICK, alone(), Box::new(Seen::default()));
    let tokens = [enter(), enter(), enter()];
    streams.get(tokens[0]).expect("it is there").refused = true;
    streams.get(tokens[2]).expect("it is there").refused = true;
    assert!(streams.leave(tokens[0]).is_none(), "others are in flight");
    assert!(streams.leave(tokens[1]).is_none(), "this one was served");
    assert!(streams.leave(tokens[2]).is_some());
    assert!(streams.leave(tokens[2]).is_none());
}
