//! When a create is answered, beside gateways and a runtime that take their time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::world::{World, run, somebody};
use crate::Pushed;

/// How long a create takes whose runtime needs so long, beside gateways that answer or do not.
async fn took(world: &mut World, runtime: Duration, is_mute: bool) -> Duration {
    *world.envd.takes.lock() = runtime;
    world.told.is_mute.store(is_mute, Ordering::Relaxed);
    let began = Instant::now();
    world.created(&somebody()).await;
    began.elapsed()
}

#[test]
fn a_create_waits_for_gateways_that_do_not_answer_as_long_as_it_may_and_no_longer() {
    run(async {
        let mut world = World::with(1, 3);
        let bound = world.settings.push_wait;
        // The rounds of the world.
        let slack = Duration::from_millis(20);
        let (quick, slow) = (bound / 5, bound * 8 / 5);
        let told = took(&mut world, quick, false).await;
        assert!((quick..quick + slack).contains(&told), "{told:?}: gateways that answer hold up nothing");
        assert_eq!(world.manager(0).pushed(), Pushed { told: 1, missed: 0 });
        let mute = took(&mut world, quick, true).await;
        assert!((bound..bound + slack).contains(&mute), "{mute:?}: the runtime has answered meanwhile");
        assert_eq!(world.manager(0).pushed(), Pushed { told: 1, missed: 1 });
        let both = took(&mut world, slow, true).await;
        assert!((slow..slow + slack).contains(&both), "{both:?}: both wait at the same time");
    });
}
