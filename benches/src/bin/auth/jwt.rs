//! Traffic tokens: one that is remembered, one that is new, and a flood of forged ones.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sandgate_auth::testing::{Signer, claims};
use sandgate_auth::{Budget, DEFAULT_LEEWAY, KeySet, Sandbox, TokenCache, TokenError, UnixTime, Verifier};
use sandgate_benches::record::Record;
use serde_json::{Value, json};

const ISSUER: &str = "https://issuer.example/realms/sandboxes";
const NOW: UnixTime = UnixTime(1_800_000_000);
/// As many sandboxes as a worker may well serve at once: their tokens do not all fit into a core's own cache.
const SANDBOXES: usize = 1000;

/// Some tokens of one algorithm, each for a sandbox of its own.
struct Case {
    name: &'static str,
    verifier: Verifier,
    tokens: Vec<(String, String, String)>,
}

impl Case {
    fn all() -> Vec<Self> {
        [
            ("RS256", Signer::rs256("main")),
            ("ES256", Signer::es256("main")),
            ("EdDSA", Signer::ed25519("main")),
        ]
        .map(|(name, signer)| Self {
            name,
            verifier: verifier(&signer),
            tokens: (0..SANDBOXES).map(|number| token(&signer, number, number)).collect(),
        })
        .into()
    }

    fn sandboxes(&self) -> impl Iterator<Item = (&[u8], Sandbox<'_>)> {
        self.tokens
            .iter()
            .map(|(token, id, uid)| (token.as_bytes(), Sandbox { id: id.as_bytes(), uid: uid.as_bytes() }))
    }
}

fn verifier(signer: &Signer) -> Verifier {
    let keys = KeySet::parse(signer.jwks().as_bytes()).expect("a signer's keys are keys");
    Verifier::new(Arc::new(keys), ISSUER, DEFAULT_LEEWAY)
}

/// A token of 700 to 1,000 bytes: what a provider writes, with a few claims that nobody here reads.
fn token(signer: &Signer, sandbox: usize, number: usize) -> (String, String, String) {
    let id = format!("default--sandbox-{sandbox:06}");
    let uid = format!("6ba7b810-9dad-11d1-80b4-{sandbox:012}");
    let mut claims: Value = claims(ISSUER, &id, &uid, NOW);
    claims["aud"] = json!(["https://sandboxes.example", "https://gateway.example"]);
    claims["jti"] = json!(format!("0d1f2c3b-4a59-6877-8695-{number:012}"));
    claims["azp"] = json!("sandbox-manager");
    claims["pod"] = json!({"name": format!("sandbox-{sandbox:06}-0"), "namespace": "default"});
    claims["metadata"] = json!({"tenant": "a-tenant", "team": "a-team"});
    (signer.token(&claims), id, uid)
}

/// ns of a check that finds the token in memory, over many sandboxes.
pub(crate) fn cached(record: &mut Record, quick: bool) {
    let rounds = if quick { 5 } else { 25 };
    let sweeps = if quick { 50 } else { 200 };
    let mut cases: Vec<(Case, TokenCache, Budget)> = Case::all()
        .into_iter()
        .map(|case| (case, TokenCache::default(), Budget::new(100, Duration::from_secs(3600))))
        .collect();
    for (case, cache, budget) in &mut cases {
        for (token, sandbox) in case.sandboxes() {
            assert_eq!(cache.check(token, &case.verifier, sandbox, NOW, budget), Ok(()), "{}", case.name);
        }
    }
    for round in 0..rounds {
        for (case, cache, budget) in &mut cases {
            let asked: Vec<_> = case.sandboxes().collect();
            for (condition, asked) in [("1,000 tokens", &asked[..]), ("one token", &asked[..1])] {
                let sweeps = sweeps * SANDBOXES / asked.len();
                let start = Instant::now();
                for _ in 0..sweeps {
                    for (token, sandbox) in asked {
                        let answer =
                            cache.check(black_box(token), &case.verifier, black_box(*sandbox), NOW, budget);
                        let _ = black_box(answer);
                    }
                }
                let ns = start.elapsed().as_nanos() as f64 / (sweeps * asked.len()) as f64;
                record.add("cached ns", case.name, case.tokens[0].0.len(), condition, round, ns);
            }
        }
    }
    for (case, cache, _) in &cases {
        let counts = cache.counts();
        assert_eq!(counts.checked, SANDBOXES as u64, "{}: every other check was a hit", case.name);
    }
}

/// µs of a first check, and of one that ends before the signature.
pub(crate) fn verify(record: &mut Record, quick: bool) {
    let rounds = if quick { 5 } else { 25 };
    let cases = Case::all();
    for round in 0..rounds {
        for case in &cases {
            let size = case.tokens[0].0.len();
            let one = |what: &mut dyn FnMut(&[u8], Sandbox<'_>)| {
                let start = Instant::now();
                for (token, sandbox) in case.sandboxes() {
                    what(token, sandbox);
                }
                start.elapsed().as_nanos() as f64 / 1000.0 / SANDBOXES as f64
            };
            let whole = one(&mut |token, sandbox| {
                assert_eq!(case.verifier.verify(token, sandbox, NOW), Ok(()));
            });
            record.add("verify us", case.name, size, "whole", round, whole);
            let cheap = one(&mut |token, sandbox| {
                let other = Sandbox { id: b"default--another", ..sandbox };
                assert_eq!(case.verifier.verify(token, other, NOW), Err(TokenError::Sandbox));
            });
            record.add("verify us", case.name, size, "other sandbox", round, cheap);
        }
    }
}

/// The share of one thread's time that forged tokens take: each new, each signed by another key of the same
/// ID, for many sandboxes or for one. The thread does nothing else, so what the signatures do not take is
/// spent on finding that there is no time for one. Beside it, the same without a bound.
pub(crate) fn flood(record: &mut Record, quick: bool) {
    let rounds = if quick { 3 } else { 10 };
    let lasting = Duration::from_millis(if quick { 500 } else { 2000 });
    for (name, signer, forger) in [
        ("RS256", Signer::rs256("main"), None),
        ("ES256", Signer::es256("main"), Some(Signer::es256("main"))),
        ("EdDSA", Signer::ed25519("main"), Some(Signer::ed25519("main"))),
    ] {
        let verifier = verifier(&signer);
        let forge = |sandbox, number| forge(&signer, forger.as_ref(), sandbox, number);
        let many: Vec<_> = (0..SANDBOXES).map(|number| forge(number, number)).collect();
        let one: Vec<_> = (0..SANDBOXES).map(|number| forge(0, number)).collect();
        for round in 0..rounds {
            for (condition, percent, forged) in
                [("20 %", 20, &many), ("20 %, one", 20, &one), ("no bound", 100, &many)]
            {
                let per_check = time_of_a_check(&verifier, forged);
                let size = forged[0].0.len();
                let mut keep =
                    |measure: &str, value| record.add(measure, name, size, condition, round, value);
                let mut budget = Budget::new(percent, Duration::from_millis(50));
                let (mut checked, mut asked) = (0, 0);
                let start = Instant::now();
                while start.elapsed() < lasting {
                    // A new memory before a token comes again: a flood does not repeat itself.
                    let mut cache = TokenCache::default();
                    for (token, id, uid) in forged {
                        let sandbox = Sandbox { id: id.as_bytes(), uid: uid.as_bytes() };
                        let _ =
                            black_box(cache.check(token.as_bytes(), &verifier, sandbox, NOW, &mut budget));
                        asked += 1;
                    }
                    checked += cache.counts().checked;
                }
                let seconds = start.elapsed().as_secs_f64();
                keep("signatures % of time", checked as f64 * per_check / seconds * 100.0);
                keep("signatures/s", checked as f64 / seconds);
                keep("requests/s", f64::from(asked) / seconds);
            }
        }
    }
    println!(
        "the bound of 20 % allows 20 % of the time and 50 ms at once: {:.1} % of {} ms; for one sandbox half",
        20.0 + 50.0 / lasting.as_millis() as f64 * 100.0,
        lasting.as_millis()
    );
}

fn forge(
    signer: &Signer,
    forger: Option<&Signer>,
    sandbox: usize,
    number: usize,
) -> (String, String, String) {
    let (mut text, id, uid) = token(forger.unwrap_or(signer), sandbox, number);
    // There is one RSA key, so the forger spoils its own signature.
    if forger.is_none() {
        let at = text.len() - 100;
        let other = if &text[at..=at] == "A" { "B" } else { "A" };
        text.replace_range(at..=at, other);
    }
    (text, id, uid)
}

/// Seconds of the processor that the signature of a forged token takes, without the rest of its check.
fn time_of_a_check(verifier: &Verifier, forged: &[(String, String, String)]) -> f64 {
    let each = |change: fn(Sandbox<'_>) -> Sandbox<'_>| {
        let start = own_time();
        for (token, id, uid) in forged {
            let sandbox = change(Sandbox { id: id.as_bytes(), uid: uid.as_bytes() });
            let _ = black_box(verifier.verify(token.as_bytes(), sandbox, NOW));
        }
        (own_time() - start).as_secs_f64() / forged.len() as f64
    };
    each(|sandbox| sandbox) - each(|sandbox| Sandbox { id: b"another", ..sandbox })
}

/// What this thread has had of a processor: the machine may be busy.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
