use sandgate_cache::testing::{EPOCH, TestCache, condition, paused, running, stock};
use serde_json::Value;

use super::*;

fn with(mut object: Value, path: &str, value: Value) -> Value {
    *object.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
    object
}

#[test]
fn what_runs_can_be_paused_unless_it_is_stock_or_has_just_resumed_or_has_ended() {
    let not_ready = with(running("s"), "/status/conditions/0/status", "False".into());
    let mut resumed = not_ready.clone();
    let conditions = resumed["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(condition(CONDITION_RUNTIME_INITIALIZED, false, "Pending"));
    let mut expired = running("s");
    expired["spec"]["shutdownTime"] = "2025-12-31T00:00:00Z".into();
    let mut deleting = running("s");
    deleting["metadata"]["deletionTimestamp"] = EPOCH.into();
    for (what, object, expected) in [
        ("running", running("s"), true),
        ("not ready for a moment", not_ready, true),
        ("not ready since it resumed", resumed, false),
        ("in a pool", stock("s", "p"), false),
        ("paused", paused(running("s")), false),
        ("resuming", with(running("s"), "/status/phase", "Resuming".into()), false),
        ("upgrading", with(running("s"), "/status/phase", "Upgrading".into()), false),
        ("failed", with(running("s"), "/status/phase", "Failed".into()), false),
        ("new", with(running("s"), "/status", json!({})), false),
        ("past its time", expired, false),
        ("being deleted", deleting, false),
    ] {
        let test = TestCache::new();
        assert_eq!(can_pause(&test.show::<SandboxFacts>(&object), test.now()), expected, "{what}");
    }
}
