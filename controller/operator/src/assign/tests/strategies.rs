use sandgate_objects::opensandbox::resources::{BatchSandbox, BatchSandboxSpec};

use super::super::{DefaultPools, PoolStrategy};

#[test]
fn the_pool_that_a_batch_names_decides() {
    for (pool, is_pooled, profile) in [
        (None, false, None),
        (Some(""), false, None),
        (Some("pool"), true, None),
        (Some("*"), true, Some("default")),
        (Some("**"), true, None),
    ] {
        let spec = BatchSandboxSpec { pool_ref: pool.map(str::to_owned), ..BatchSandboxSpec::default() };
        let batch = BatchSandbox::new("batch", spec);
        assert_eq!(DefaultPools.is_pooled(&batch), is_pooled, "{pool:?}");
        assert_eq!(DefaultPools.assign_profile(&batch), profile, "{pool:?}");
    }
}
