//! Where the receiver listens, for those who ask on the request path. A test of its own: it counts allocations.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use sandgate_routes::{Limits, RouteTable};
use sandgate_watch::{Receiver, RefreshStatusReader, Settings};
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
    let settings = br#"{ "routes-file": "r", "pod-ranges": ["10.0.0.0/8"],
        "refresh": { "address": "127.0.0.1", "port": 0, "provider": "openkruise", "insecure": true } }"#;
    let settings = Settings::parse(settings).unwrap();
    let (writer, _reader) = RouteTable::new(Limits::default());
    let receiver = Receiver::new(settings.refresh().unwrap().clone(), settings.addresses().clone(), writer);
    let status = receiver.status();
    assert_eq!(status.listening(), None);
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(receiver.run(async {
        let _dropped = stopped.await;
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
