//! The routes file, as YAML and as JSON: no input panics, what is read is within the limits and accepted by
//! the table, and a file that is read as JSON means the same as YAML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sandgate_fuzz::assert_valid;
use sandgate_routes::Version;
use sandgate_watch::{Format, MAX_BYTES, MAX_ROUTES, parse_routes};

fuzz_target!(|data: &[u8]| {
    let version: Version = "7".parse().expect("a version");
    let read = |format| {
        let routes = parse_routes(data, format, &version);
        if let Err(error) = &routes {
            assert!(!error.to_string().is_empty());
        }
        routes.ok()
    };
    let (json, yaml) = (read(Format::Json), read(Format::Yaml));
    if let (Some(json), Some(yaml)) = (&json, &yaml) {
        assert_eq!(format!("{json:?}"), format!("{yaml:?}"), "one file, two meanings");
    }
    for routes in [json, yaml].into_iter().flatten() {
        assert!(routes.len() <= MAX_ROUTES && data.len() <= MAX_BYTES);
        assert!(routes.iter().all(|route| route.version == version));
        assert_valid(routes);
    }
});
