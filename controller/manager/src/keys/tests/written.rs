//! The last use of keys, as it is written into their Secrets.

use std::num::NonZeroU64;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandgate_cache::{Cache, Kind, Random};
use sandgate_sim::model::{Model, Place, SECRETS};
use sandgate_sim::network::{Guard, Network};
use serde_json::Value;
use tokio::task::yield_now;

use super::*;
use crate::Writes;
use crate::keys::LastUse;

/// A store whose keys are Secrets of the model, and what writes into them.
struct Written {
    model: Model,
    network: Network,
    clock: Arc<ManualClock>,
    store: KeyStore,
    cache: Cache,
    last_use: Arc<LastUse>,
    /// Up to which revision the watch has come.
    seen: u64,
}

impl Written {
    fn new() -> Self {
        let (store, clock) = fixture();
        let told = store.clone();
        let cache = Cache::builder().system_namespace(NAMESPACE).clock(clock.clone());
        let cache = cache.on::<SecretFacts>(move |change| told.changed(change)).build().unwrap();
        let network = Network::default();
        let writes = Writes::new(network.client(1), cache.clone(), Arc::new(()));
        let last_use = LastUse::new(store.clone(), cache.clone(), writes, Random::seeded(1));
        let model = Model::new(1, start(), 1000);
        Self { model, network, clock, store, cache, last_use: Arc::new(last_use), seen: 0 }
    }

    /// A key whose Secret is there.
    fn key(&mut self, id: &str) -> KeyText {
        let text = KeyText::generate().unwrap();
        let data = stored(id, &text).data();
        let data: BTreeMap<_, _> = data.iter().map(|(name, value)| (name, STANDARD.encode(value))).collect();
        let secret =
            json!({"metadata": {"name": secret_name(id), "labels": {KIND_LABEL: KIND}}, "data": data});
        self.model.create(&SECRETS, NAMESPACE, secret).unwrap();
        self.watch();
        text
    }

    /// The watch shows what happened.
    fn watch(&mut self) {
        for event in self.model.since(self.seen).unwrap() {
            self.cache.observe_json(Kind::Secret, event.object.to_string().as_bytes()).unwrap();
        }
        self.seen = self.model.revision();
        self.cache.listed(Kind::Secret, &NonZeroU64::new(self.seen).unwrap().into());
    }

    /// What the Secret of a key says.
    fn says(&self, id: &str) -> Option<Timestamp> {
        let secret = self.model.get(&Place::new(&SECRETS, NAMESPACE, &secret_name(id))).unwrap();
        secret["metadata"]["annotations"][LAST_USED].as_str().map(|text| text.parse().unwrap())
    }

    /// Somebody else writes the Secret, and the watch has not shown it yet.
    fn touched(&mut self, id: &str) {
        let place = Place::new(&SECRETS, NAMESPACE, &secret_name(id));
        let mut secret = Value::clone(self.model.get(&place).unwrap());
        secret["metadata"]["labels"]["touched"] = "yes".into();
        self.model.put(&place, secret);
    }

    /// One look at what is due. Returns what it wrote to, and the statuses that it got.
    async fn look(&mut self) -> Vec<(String, u16)> {
        let last_use = Arc::clone(&self.last_use);
        let look = tokio::spawn(async move { last_use.write_due().await });
        let mut written = Vec::new();
        while !look.is_finished() {
            yield_now().await;
            for call in self.network.under_way() {
                assert_eq!(call.operation.guard(), Guard::Version, "{}", call.operation);
                let code = self.network.commit(call.number, &mut self.model).unwrap();
                written.push((call.operation.target().unwrap().name, code));
                self.network.deliver(call.number);
            }
        }
        look.await.unwrap();
        written
    }
}

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

#[tokio::test]
async fn the_last_use_is_written_when_it_is_due_and_only_then() {
    let mut world = Written::new();
    let (used, _never) = (world.key("used"), world.key("never"));
    assert_eq!(world.look().await, [], "no key was used");
    assert!(world.store.authenticate(used.reveal()).is_some());
    assert_eq!(world.look().await, [(secret_name("used"), 200)]);
    assert_eq!((world.says("used"), world.says("never")), (Some(start()), None));
    assert_eq!(world.look().await, [], "its own answer tells it, before the watch does");
    world.watch();
    world.clock.advance(minutes(9));
    assert!(world.store.authenticate(used.reveal()).is_some());
    assert_eq!(world.look().await, [], "ten minutes are not over");
    world.clock.advance(minutes(2));
    assert_eq!(world.look().await, [(secret_name("used"), 200)]);
    assert_eq!(world.says("used"), Some(start() + minutes(9)), "the use, not the time of writing");
    world.clock.advance(minutes(60));
    assert_eq!(world.look().await, [], "it was not used again");
}

#[tokio::test]
async fn a_last_use_that_could_not_be_written_is_written_at_a_later_look() {
    let mut world = Written::new();
    let (one, two) = (world.key("one"), world.key("two"));
    for key in [&one, &two] {
        assert!(world.store.authenticate(key.reveal()).is_some());
    }
    world.touched("one");
    let first = world.look().await;
    assert_eq!(first, [(secret_name("one"), 409), (secret_name("two"), 200)]);
    assert_eq!((world.says("one"), world.says("two")), (None, Some(start())));
    world.watch();
    assert_eq!(world.look().await, [(secret_name("one"), 200)]);
    assert_eq!(world.says("one"), Some(start()));
}

#[tokio::test]
async fn one_look_writes_no_more_than_fifty_and_the_next_one_the_rest() {
    let mut world = Written::new();
    let keys: Vec<_> = (0..60).map(|number| world.key(&format!("key-{number:02}"))).collect();
    for key in &keys {
        assert!(world.store.authenticate(key.reveal()).is_some());
    }
    assert_eq!(world.look().await.len(), 50);
    assert_eq!(world.look().await.len(), 10);
    assert!(world.look().await.is_empty());
}
