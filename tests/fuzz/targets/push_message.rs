//! One route message of `POST /refresh`: no input panics, what is read is written and read again as the same
//! message, and no error or debug text shows the token.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandgate_peering::{MessageError, RouteMessage};

fuzz_target!(|data: &[u8]| {
    let message = match RouteMessage::parse(data) {
        Ok(message) => message,
        Err(error) => return assert_eq!(error, MessageError::NotJson),
    };
    let written = serde_json::to_vec(&message).expect("texts and a flag can be written");
    assert_eq!(RouteMessage::parse(&written).as_ref(), Ok(&message), "written and read again");

    let shown = format!("{message:?}");
    let elsewhere =
        [&message.id, &message.namespace, &message.name, &message.state, &message.resource_version];
    for token in [&message.access_token, &message.traffic_access_token] {
        if token.len() > 12 && !elsewhere.iter().any(|text| text.contains(token.as_str())) {
            assert!(!shown.contains(token.as_str()), "the token is shown");
        }
    }
    match message.identity("openkruise") {
        Ok((key, version)) => {
            assert_eq!((key.namespace(), key.name()), (&*message.namespace, &*message.name));
            assert_eq!(version.to_string(), message.resource_version, "one text for each version");
        }
        Err(error) => assert!(matches!(error, MessageError::Object | MessageError::Version), "{error}"),
    }
});
