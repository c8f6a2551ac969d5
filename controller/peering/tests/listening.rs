//! The request path reads where the receiver listens. A binary of its own, because it counts allocations.

#![forbid(unsafe_code)]
#![cfg(feature = "receive")]

use std::time::{Duration, Instant};

use sandgate_peering::{Pushed, RawRefresh, Receiver, RefreshStatusReader};
use sandgate_routes::{AddressPolicy, Clash, Limits, RouteTable, TokenKind};
use serde_json::json;
use tokio::sync::oneshot;

async fn until(status: &RefreshStatusReader, listens: bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while status.listening().is_some() != listens {
        assert!(Instant::now() < end, "not in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn where_the_receiver_listens_is_told_without_allocating_and_as_the_status_says() {
    let raw = json!({ "address": "127.0.0.1", "port": 0, "provider": "openkruise", "insecure": true });
    let raw: RawRefresh = serde_json::from_value(raw).unwrap();
    let pushed = |provider: Option<String>| {
        Ok(Pushed {
            provider: provider.unwrap(),
            clash: Clash::Rank,
            ip_is_claimed: false,
            id_is_name: false,
            token_kind: TokenKind::Runtime,
        })
    };
    let settings = raw.check(Duration::from_secs(600), pushed).unwrap();
    let (writer, _reader) = RouteTable::new(Limits::default());
    let receiver = Receiver::new(settings, AddressPolicy::default(), writer);
    let status = receiver.status();
    assert_eq!(status.listening(), None);
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(receiver.run(async {
        // An error means that the sender was dropped, which is how this test stops it.
        let _ = stopped.await;
    }));
    until(&status, true).await;
    assert_eq!(status.listening(), status.load().listening);
    assert_eq!(status.listening().unwrap().ip().to_string(), "127.0.0.1");
    let asked = allocation_counter::measure(|| assert!(status.listening().is_some()));
    assert_eq!(asked.count_total, 0);
    drop(stop);
    running.await.unwrap();
    assert_eq!((status.listening(), status.load().listening), (None, None));
}
